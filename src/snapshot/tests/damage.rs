//! Damaged packs and loose files: an error with a name, unless there is another copy.

use crate::model::{HashKind, ObjectId, ObjectKind};
use crate::pack::delta::DeltaError;
use crate::pack::entry::EntryKind;
use crate::pack::inflate::InflateError;
use crate::snapshot::testing::{MIB, PackBuilder, Store, deflate, delta, id_of};
use crate::snapshot::{Damage, ObjectSnapshot, SnapshotError};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

pub(super) fn damage(snapshot: &ObjectSnapshot, id: &ObjectId) -> Damage {
    let error = snapshot.read(id, MIB).unwrap_err();
    match error {
        SnapshotError::DamagedObject { id: named, path, source } => {
            assert_eq!(named, *id);
            assert!(path.is_file());
            *source
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_circle_of_deltas_is_damage() {
    let store = Store::bare();
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let (a, b) = (id_of(HashKind::Sha1, ObjectKind::Blob, b"a"), pack.hash.null());
    pack.entry(a, EntryKind::RefDelta { base: b }, &delta(b"x", 1, b"xyz"));
    pack.entry(b, EntryKind::RefDelta { base: a }, &delta(b"x", 1, b"xyz"));
    pack.store(&store.packs());
    let snapshot = store.snapshot(&store.cache());
    assert!(matches!(damage(&snapshot, &a), Damage::ChainTooLong { .. }));
    assert!(snapshot.kind_and_size(&a).is_err());
}

#[test]
fn a_damaged_copy_is_passed_over_as_long_as_there_is_another() {
    let store = Store::bare();
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let id = pack.blob(b"twice here, once damaged");
    pack.bytes[20] ^= 0xff;
    let index = pack.store(&store.packs());
    let snapshot = store.snapshot(&store.cache());
    assert!(matches!(damage(&snapshot, &id), Damage::Inflate(_)));
    let mut pack = PackBuilder::new(HashKind::Sha1);
    pack.blob(b"twice here, once damaged");
    pack.store(&store.packs());
    let snapshot = store.snapshot(&store.cache());
    let object = snapshot.read_verified(&id, MIB).unwrap().unwrap();
    assert_eq!(object.data, b"twice here, once damaged");
    let mut streamed = Vec::new();
    let all = &mut |chunk: &[u8]| {
        streamed.extend_from_slice(chunk);
        ControlFlow::Continue(())
    };
    snapshot.stream(&id, MIB, all).unwrap();
    assert!(streamed.ends_with(b"damaged"));
    assert!(snapshot.compressed(&id, MIB).unwrap().is_some());
    assert!(index.exists());
}

#[test]
fn content_of_another_id_is_damage_when_it_is_verified() {
    let store = Store::bare();
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let named = id_of(HashKind::Sha1, ObjectKind::Blob, b"named");
    pack.entry(named, EntryKind::Whole(ObjectKind::Blob), b"content");
    pack.store(&store.packs());
    let snapshot = store.snapshot(&store.cache());
    assert!(snapshot.read(&named, MIB).unwrap().is_some());
    match snapshot.read_verified(&named, MIB).unwrap_err() {
        SnapshotError::DamagedObject { source, .. } => {
            let actual = id_of(HashKind::Sha1, ObjectKind::Blob, b"content");
            assert_eq!(*source, Damage::WrongContent { actual });
        }
        other => panic!("{other:?}"),
    }
}

fn loose(store: &Store, name: &ObjectId, file: &[u8]) -> PathBuf {
    let hex = name.to_string();
    let directory = store.objects().join(&hex[..2]);
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(&hex[2..]);
    fs::write(&path, file).unwrap();
    path
}

#[test]
fn a_loose_object_that_git_would_not_read_is_damage() {
    let store = Store::bare();
    let id = id_of(HashKind::Sha1, ObjectKind::Blob, b"abc");
    let good = deflate(b"blob 3\0abc");
    let is_damaged = |file: &[u8]| {
        loose(&store, &id, file);
        let snapshot = store.snapshot(&store.cache());
        assert!(snapshot.contains(&id).unwrap());
        damage(&snapshot, &id)
    };
    assert_eq!(is_damaged(b""), Damage::Inflate(InflateError::Truncated));
    assert_eq!(is_damaged(&good[..good.len() - 1]), Damage::Inflate(InflateError::Truncated));
    assert_eq!(is_damaged(b"not deflated"), Damage::Inflate(InflateError::Corrupt));
    assert_eq!(is_damaged(&[&good[..], b"x"].concat()), Damage::TrailingBytes);
    for header in
        ["blob 3", "blob3\0", "blob \0", "blob +3\0", "blob 03\0", "blob x\0", "blub 3\0", "\0"]
    {
        let file = deflate(format!("{header}abc").as_bytes());
        assert_eq!(is_damaged(&file), Damage::LooseHeader, "{header:?}");
    }
    let long = deflate(b"blob 99999999999999999999\0abc");
    assert_eq!(is_damaged(&long), Damage::LooseHeader);
    assert!(matches!(
        is_damaged(&deflate(b"blob 4\0abc")),
        Damage::Inflate(InflateError::TooShort { .. })
    ));
    assert!(matches!(
        is_damaged(&deflate(b"blob 2\0abc")),
        Damage::Inflate(InflateError::TooLong { .. })
    ));
    loose(&store, &id, &good);
    let snapshot = store.snapshot(&store.cache());
    assert_eq!(snapshot.read_verified(&id, MIB).unwrap().unwrap().data, b"abc");
    let empty = id_of(HashKind::Sha1, ObjectKind::Tree, b"");
    loose(&store, &empty, &deflate(b"tree 0\0"));
    assert_eq!(snapshot.kind_and_size(&empty).unwrap(), Some((ObjectKind::Tree, 0)));
    assert_eq!(snapshot.read_verified(&empty, 0).unwrap().unwrap().data, b"");
}

#[test]
fn a_declared_size_allocates_nothing() {
    let store = Store::bare();
    let id = id_of(HashKind::Sha1, ObjectKind::Blob, b"abc");
    loose(&store, &id, &deflate(b"blob 18446744073709551615\0abc"));
    let snapshot = store.snapshot(&store.cache());
    assert!(snapshot.read(&id, u64::MAX).is_err());
    assert!(snapshot.stream(&id, u64::MAX, &mut |_| ControlFlow::Continue(())).is_err());
}

#[test]
fn damage_within_a_pack_names_the_pack() {
    let store = Store::bare();
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let base = pack.blob(b"base");
    let reserved = id_of(HashKind::Sha1, ObjectKind::Blob, b"r");
    pack.entry(reserved, EntryKind::RefDelta { base }, b"\x04\x04\x00\x00");
    let short = id_of(HashKind::Sha1, ObjectKind::Blob, b"s");
    pack.entry(short, EntryKind::RefDelta { base }, b"\x04");
    let end = pack.offset();
    let beyond = id_of(HashKind::Sha1, ObjectKind::Blob, b"b");
    pack.entries.push((beyond, end + 1000));
    pack.store(&store.packs());
    let snapshot = store.snapshot(&store.cache());
    assert_eq!(damage(&snapshot, &reserved), Damage::Delta(DeltaError::Reserved));
    assert_eq!(damage(&snapshot, &short), Damage::Delta(DeltaError::Truncated));
    assert!(snapshot.kind_and_size(&short).is_err());
    assert_eq!(damage(&snapshot, &beyond), Damage::Truncated);
}

#[test]
fn a_pack_cut_short_is_damage() {
    let store = Store::bare();
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let id = pack.blob(b"some content");
    let path = pack.store(&store.packs()).with_extension("pack");
    let good = fs::read(&path).unwrap();
    for len in [0, 5, 19, 25, good.len() - 1] {
        fs::write(&path, &good[..len]).unwrap();
        let snapshot = store.snapshot(&store.cache());
        damage(&snapshot, &id);
    }
    let mut other = good.clone();
    other[0] = b'X';
    fs::write(&path, other).unwrap();
    assert!(matches!(damage(&store.snapshot(&store.cache()), &id), Damage::PackHeader(_)));
}
