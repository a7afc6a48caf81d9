//! What a multi-pack-index saves, and when it is not used.

use super::indexes::put;
use crate::model::{HashKind, ObjectId};
use crate::snapshot::SnapshotCache;
use crate::snapshot::testing::{Done, MIB, Store};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

type Change = fn(&mut Vec<u8>);

/// A git repository of three packs with a multi-pack-index over them.
fn with_multi() -> (Store, PathBuf, Vec<ObjectId>) {
    let store = Store::git_init(HashKind::Sha1);
    for branch in ["a", "b", "c"] {
        store.commit(branch, 3, true);
    }
    store.git(&["multi-pack-index", "write"]);
    let ids = store.all_objects().into_iter().map(|(id, ..)| id).collect();
    store.settle();
    let path = store.packs().join("multi-pack-index");
    (store, path, ids)
}

fn assert_all(store: &Store, cache: &SnapshotCache, ids: &[ObjectId]) {
    let snapshot = store.snapshot(cache);
    for id in ids {
        assert!(snapshot.contains(id).unwrap());
        assert!(snapshot.read_verified(id, MIB).unwrap().is_some());
    }
}

#[test]
fn a_multi_pack_index_is_opened_instead_of_the_indexes_that_it_covers() {
    let (store, _, mut ids) = with_multi();
    for bytes_max in [MIB, 0] {
        let cache = SnapshotCache::new(store.disk.clone(), bytes_max);
        let (snapshot, done) = store.count(|| {
            let snapshot = store.snapshot(&cache);
            for id in &ids {
                assert!(snapshot.contains(id).unwrap());
            }
            snapshot
        });
        assert_eq!(done, Done { stats: 3, listings: 1, opens: 1 }, "{bytes_max}");
        for id in &ids {
            assert!(snapshot.read_verified(id, MIB).unwrap().is_some());
        }
        let (_, done) = store.count(|| store.snapshot(&cache));
        assert_eq!(done, Done { stats: 1, ..Done::default() });
    }

    let cache = store.cache();
    store.snapshot(&cache);
    ids.push(put(&store, "uncovered").0);
    let (_, done) = store.count(|| store.snapshot(&cache));
    assert_eq!(done, Done { stats: 3, listings: 1, opens: 1 });
    assert_all(&store, &cache, &ids);
}

#[test]
fn a_new_multi_pack_index_takes_the_place_of_the_old_one() {
    let (store, _, mut ids) = with_multi();
    let cache = store.cache();
    assert_all(&store, &cache, &ids);
    store.commit("d", 3, true);
    store.git(&["multi-pack-index", "write"]);
    ids = store.all_objects().into_iter().map(|(id, ..)| id).collect();
    assert_all(&store, &cache, &ids);
    store.git(&["repack", "-adq", "--write-midx"]);
    assert_all(&store, &cache, &ids);
}

#[test]
fn a_multi_pack_index_that_names_a_pack_that_has_gone_is_ignored_whole() {
    let (store, path, _) = with_multi();
    let stale = fs::read(&path).unwrap();
    let cache = store.cache();
    store.snapshot(&cache);
    store.commit("d", 3, true);
    let ids: Vec<_> = store.all_objects().into_iter().map(|(id, ..)| id).collect();
    store.git(&["repack", "-adq"]);
    fs::write(&path, stale).unwrap();
    let fresh = store.cache();
    let (_, done) = store.count(|| store.snapshot(&fresh));
    assert_eq!(done.opens, 2, "the multi-pack-index, and the one index there is");
    assert_all(&store, &fresh, &ids);
    assert_all(&store, &cache, &ids);
}

#[test]
fn a_multi_pack_index_that_is_not_understood_is_ignored_and_read_once() {
    let (store, path, ids) = with_multi();
    let good = fs::read(&path).unwrap();
    let changes: [Change; 6] = [
        |bytes| bytes[0] = b'X',
        |bytes| bytes[4] = 2,
        |bytes| bytes[5] = 2,
        |bytes| bytes[12] ^= 1,
        |bytes| bytes.truncate(30),
        |bytes| bytes[11] = 200,
    ];
    for change in changes {
        let mut bytes = good.clone();
        change(&mut bytes);
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        let cache = store.cache();
        let (_, done) = store.count(|| store.snapshot(&cache));
        assert_eq!(done.opens, 4);
        let (_, done) = store.count(|| store.snapshot(&cache));
        assert_eq!(done.opens, 0);
        assert_all(&store, &cache, &ids);
    }
}

#[test]
fn a_multi_pack_index_with_a_wrong_checksum_is_ignored_too() {
    let (store, path, ids) = with_multi();
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    store.settle();
    let cache = store.cache();
    let (_, done) = store.count(|| store.snapshot(&cache));
    assert_eq!((done.listings, done.opens), (1, 4));
    assert_all(&store, &cache, &ids);
    put(&store, "another");
    let (_, done) = store.count(|| store.snapshot(&cache));
    assert_eq!((done.listings, done.opens), (1, 1), "it is not read again");
}

#[test]
fn a_chain_of_multi_pack_indexes_is_not_needed() {
    let (store, path, ids) = with_multi();
    let chain = store.packs().join("multi-pack-index.d");
    fs::create_dir(&chain).unwrap();
    fs::rename(path, chain.join("multi-pack-index-0.midx")).unwrap();
    assert_all(&store, &store.cache(), &ids);
}

#[test]
fn no_change_of_a_byte_in_an_index_makes_a_panic_or_a_wrong_object() {
    let (store, multi, ids) = with_multi();
    let index = fs::read_dir(store.packs())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "idx"))
        .unwrap();
    for path in [multi, index] {
        let good = fs::read(&path).unwrap();
        let copy = path.with_extension("copy");
        fs::write(&copy, &good).unwrap();
        fs::rename(&copy, &path).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        for place in (0..good.len()).step_by(17) {
            file.write_all_at(&[!good[place]], place as u64).unwrap();
            for bytes_max in [0, MIB] {
                let cache = SnapshotCache::new(store.disk.clone(), bytes_max);
                let Ok(snapshot) = cache.snapshot(&store.sources(), store.hash) else {
                    continue;
                };
                for id in &ids[..5] {
                    let _ = snapshot.contains(id);
                    let _ = snapshot.read_verified(id, MIB);
                }
            }
            file.write_all_at(&[good[place]], place as u64).unwrap();
        }
    }
}
