//! The view of a quarantine and the store behind it.

use crate::model::{HashKind, ObjectKind};
use crate::snapshot::testing::{MIB, PackBuilder, Store, deflate};
use std::fs;

#[test]
fn a_quarantine_is_seen_with_its_packs_and_loose_objects_and_without_what_comes_later() {
    let store = Store::git_init(HashKind::Sha1);
    store.commit("main", 2, true);
    let old: Vec<_> = store.all_objects().into_iter().map(|(id, ..)| id).collect();
    let snapshot = store.snapshot(&store.cache());

    let quarantine = store.objects().join("tmp_objdir-incoming-x1y2z3");
    fs::create_dir_all(quarantine.join("pack")).unwrap();
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let packed = pack.blob(b"packed");
    pack.store(&quarantine.join("pack"));
    let write_loose = |content: &[u8]| {
        let id = crate::snapshot::testing::id_of(HashKind::Sha1, ObjectKind::Blob, content);
        let hex = id.to_string();
        let directory = quarantine.join(&hex[..2]);
        fs::create_dir_all(&directory).unwrap();
        let header = format!("blob {}\0", content.len());
        let file = [header.as_bytes(), content].concat();
        fs::write(directory.join(&hex[2..]), deflate(&file)).unwrap();
        id
    };
    let loose = write_loose(b"loose");

    let view = snapshot.with_quarantine(&quarantine).unwrap();
    let later = write_loose(b"later");
    for id in old.iter().chain([&packed, &loose]) {
        assert!(view.contains(id).unwrap());
        assert!(view.read_verified(id, MIB).unwrap().is_some());
    }
    assert!(view.holder(&loose).unwrap().unwrap().starts_with(&quarantine));
    assert!(!view.contains(&later).unwrap());
    for id in [&packed, &loose] {
        assert!(!snapshot.contains(id).unwrap(), "the snapshot stays as it was");
    }
}

#[test]
fn an_empty_quarantine_adds_nothing() {
    let store = Store::bare();
    let snapshot = store.snapshot(&store.cache());
    let quarantine = store.objects().join("tmp_objdir-incoming-empty1");
    fs::create_dir(&quarantine).unwrap();
    let view = snapshot.with_quarantine(&quarantine).unwrap();
    let id = PackBuilder::new(HashKind::Sha1).blob(b"x");
    assert!(!view.contains(&id).unwrap());
}
