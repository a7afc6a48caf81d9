//! Other programs at work between a snapshot and its use.

use crate::model::{HashKind, ObjectId};
use crate::snapshot::testing::{MIB, PackBuilder, Store};
use crate::snapshot::{Damage, SnapshotCache, SnapshotError};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

fn ids_of(store: &Store) -> Vec<ObjectId> {
    store.all_objects().into_iter().map(|(id, ..)| id).collect()
}

#[test]
fn a_pack_that_was_repacked_away_is_read_after_one_refresh() {
    for bytes_max in [64 * MIB, 0] {
        let store = Store::git_init(HashKind::Sha1);
        store.commit("a", 10, true);
        store.commit("b", 10, false);
        let ids = ids_of(&store);
        let snapshot = store.snapshot(&SnapshotCache::new(store.disk.clone(), bytes_max));
        store.git(&["gc", "--quiet", "--prune=now"]);
        let ((), done) = store.count(|| {
            for id in &ids {
                let object = snapshot.read_verified(id, MIB).unwrap();
                assert!(object.is_some(), "{id}");
            }
        });
        assert_eq!(done.listings, 1);
    }
}

#[test]
fn a_loose_object_that_was_packed_away_is_read_after_one_refresh() {
    let store = Store::git_init(HashKind::Sha1);
    store.commit("a", 3, false);
    let ids = ids_of(&store);
    let snapshot = store.snapshot(&store.cache());
    for id in &ids {
        assert!(snapshot.contains(id).unwrap());
    }
    store.git(&["repack", "-adq"]);
    let ((), done) = store.count(|| {
        for id in &ids {
            assert!(snapshot.kind_and_size(id).unwrap().is_some());
        }
    });
    assert_eq!(done.listings, 1);
}

#[test]
fn a_hit_that_was_pruned_is_a_miss_after_one_refresh() {
    let store = Store::bare();
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let ids = [pack.blob(b"one"), pack.blob(b"two")];
    let index = pack.store(&store.packs());
    let snapshot = store.snapshot(&store.cache());
    fs::remove_file(index.with_extension("pack")).unwrap();
    fs::remove_file(index).unwrap();
    assert!(snapshot.contains(&ids[0]).unwrap(), "as it was when the push began");
    let ((), done) = store.count(|| {
        for id in &ids {
            assert_eq!(snapshot.read(id, MIB).unwrap(), None);
            assert_eq!(snapshot.kind_and_size(id).unwrap(), None);
            assert_eq!(snapshot.compressed(id, MIB).unwrap(), None);
            assert_eq!(snapshot.stream(id, MIB, &mut |_| ControlFlow::Continue(())).unwrap(), None);
            assert!(!snapshot.contains(id).unwrap());
        }
    });
    assert_eq!(done.listings, 1);
}

/// Two packs of the same objects at different offsets.
fn twins(store: &Store) -> (ObjectId, PathBuf, PackBuilder) {
    let mut first = PackBuilder::new(HashKind::Sha1);
    let id = first.blob(b"the one that is read");
    first.blob(b"another");
    let mut second = PackBuilder::new(HashKind::Sha1);
    second.blob(b"another");
    second.blob(b"the one that is read");
    (id, first.store(&store.packs()), second)
}

#[test]
fn a_pack_that_was_replaced_under_its_name_is_noticed_by_its_checksum() {
    let store = Store::bare();
    let (id, index, second) = twins(&store);
    let snapshot = store.snapshot(&store.cache());
    let other = second.store(&store.packs());
    fs::rename(other.with_extension("pack"), index.with_extension("pack")).unwrap();
    fs::rename(&other, &index).unwrap();
    let (object, done) = store.count(|| snapshot.read_verified(&id, MIB).unwrap().unwrap());
    assert_eq!(object.data, b"the one that is read");
    assert_eq!(done.listings, 1);
}

#[test]
fn a_pack_that_does_not_belong_to_its_index_is_damage_and_not_a_miss() {
    let store = Store::bare();
    let (id, index, second) = twins(&store);
    let other = second.store(&store.packs());
    fs::rename(other.with_extension("pack"), index.with_extension("pack")).unwrap();
    fs::remove_file(other).unwrap();
    let snapshot = store.snapshot(&store.cache());
    match snapshot.read(&id, MIB).unwrap_err() {
        SnapshotError::DamagedObject { path, source, .. } => {
            assert_eq!(path, index.with_extension("pack"));
            assert!(matches!(*source, Damage::OtherPack { .. }), "{source}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_push_that_runs_through_many_repacks_loses_nothing() {
    let store = Store::git_init(HashKind::Sha1);
    store.commit("main", 20, true);
    let ids = ids_of(&store);
    let cache = store.cache();
    std::thread::scope(|scope| {
        let repacks = scope.spawn(|| {
            for number in 0..6 {
                let depth = format!("--depth={}", 2 + number);
                store.git(&["repack", "-adfq", &depth]);
            }
        });
        // Each pass is a push: one repack during it is what its refresh is for.
        let mut passes = 0;
        while !repacks.is_finished() || passes == 0 {
            let snapshot = store.snapshot(&cache).refreshing();
            for id in ids.iter().step_by(7) {
                assert!(snapshot.contains(id).unwrap(), "{id}");
            }
            passes += 1;
        }
    });
}

#[test]
fn packs_that_vanish_one_by_one_fail_no_snapshot() {
    let store = Store::bare();
    let mut whole = PackBuilder::new(HashKind::Sha1);
    let mut ids = Vec::new();
    let mut old = Vec::new();
    for number in 0..300 {
        let content = format!("blob {number}");
        ids.push(whole.blob(content.as_bytes()));
        let mut pack = PackBuilder::new(HashKind::Sha1);
        pack.blob(content.as_bytes());
        old.push(pack.store(&store.packs()));
    }
    let warm = store.cache();
    store.snapshot(&warm);
    // As git repack does: the new pack first, then the old ones go, the index of each first.
    whole.store(&store.packs());
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| {
            for index in &old {
                fs::remove_file(index).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(500));
                fs::remove_file(index.with_extension("pack")).unwrap();
            }
        });
        let mut passes = 0;
        while !removal.is_finished() || passes == 0 {
            for cache in [&warm, &store.cache()] {
                let snapshot = store.snapshot(cache).refreshing();
                for id in ids.iter().step_by(37) {
                    assert!(snapshot.read(id, MIB).unwrap().is_some(), "{id}");
                }
            }
            passes += 1;
        }
    });
}

#[test]
fn packs_that_only_come_cost_no_second_listing() {
    let store = Store::bare();
    super::freshness::put(&store, 0);
    let cache = store.cache();
    store.snapshot(&cache);
    let elsewhere = Store::bare();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 1..60 {
                let (pack, _) = super::freshness::pack(number);
                let from = pack.store(&elsewhere.packs());
                for ending in ["pack", "idx"] {
                    let from = from.with_extension(ending);
                    fs::copy(&from, store.packs().join("tmp")).unwrap();
                    let to = store.packs().join(from.file_name().unwrap());
                    fs::rename(store.packs().join("tmp"), to).unwrap();
                }
            }
        });
        while !writer.is_finished() {
            let (_, done) = store.count(|| store.snapshot(&cache));
            assert!(done.listings <= 1, "{done:?}");
        }
    });
}
