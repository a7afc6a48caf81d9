//! Which indexes are read, which are not, and which are errors.

use crate::model::{HashKind, ObjectId};
use crate::snapshot::testing::{Done, MIB, PackBuilder, Store, checksum, index_v1, index_v2, seal};
use crate::snapshot::{IndexFault, SnapshotCache, SnapshotError};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub(super) fn put(store: &Store, content: &str) -> (ObjectId, PathBuf) {
    let mut pack = PackBuilder::new(store.hash);
    let id = pack.blob(content.as_bytes());
    (id, pack.store(&store.packs()))
}

fn fault_of(store: &Store, path: &Path) -> IndexFault {
    match store.cache().snapshot(&store.sources(), store.hash).unwrap_err() {
        SnapshotError::CorruptIndex { path: named, source } => {
            assert_eq!(named, path);
            source
        }
        other => panic!("{other:?}"),
    }
}

fn io_error_at(store: &Store, cache: &SnapshotCache, path: &Path) {
    match cache.snapshot(&store.sources(), store.hash).unwrap_err() {
        SnapshotError::Io { path: named, .. } => assert_eq!(named, path),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_index_without_its_pack_and_a_pack_without_its_index_are_ignored() {
    let store = Store::bare();
    let (without_pack, index) = put(&store, "a");
    fs::remove_file(index.with_extension("pack")).unwrap();
    let (without_index, index) = put(&store, "b");
    fs::remove_file(index).unwrap();
    let (whole, _) = put(&store, "c");
    let (snapshot, done) = store.count(|| store.snapshot(&store.cache()));
    assert_eq!(done.opens, 1);
    assert!(!snapshot.contains(&without_pack).unwrap());
    assert!(!snapshot.contains(&without_index).unwrap());
    assert!(snapshot.contains(&whole).unwrap());
}

#[test]
fn files_that_are_being_written_are_ignored() {
    let store = Store::bare();
    put(&store, "a");
    for name in [".pack-1.idx", ".pack-1.pack", "tmp_idx_x1", "tmp_pack_x1", ".tmp-9-pack-2.idx"] {
        fs::write(store.packs().join(name), b"half").unwrap();
    }
    store.snapshot(&store.cache());
}

#[test]
fn a_corrupt_index_is_an_error_that_names_it() {
    let store = Store::bare();
    put(&store, "good");
    let (_, path) = put(&store, "bad");
    let good = fs::read(&path).unwrap();
    let corrupt = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
        fault_of(&store, &path)
    };
    let size = good.len() as u64;
    assert_eq!(corrupt(&|bytes| bytes.clear()), IndexFault::TooShort { size: 0 });
    assert_eq!(corrupt(&|bytes| bytes.truncate(1071)), IndexFault::Size { size: 1071, count: 1 });
    assert_eq!(
        corrupt(&|bytes| bytes.extend([0; 16])),
        IndexFault::Size { size: size + 16, count: 1 }
    );
    assert_eq!(corrupt(&|bytes| bytes[7] = 3), IndexFault::Version { version: 3 });
    // With zeros all over, as after a crash, it looks like an empty one of version 1.
    assert!(matches!(corrupt(&|bytes| bytes.fill(0)), IndexFault::Size { count: 0, .. }));
    assert_eq!(corrupt(&|bytes| bytes[8] = 1), IndexFault::FanOut);
    assert_eq!(corrupt(&|bytes| bytes[1040] ^= 1), IndexFault::Checksum);
    let sealed = |change: &dyn Fn(&mut Vec<u8>)| {
        corrupt(&|bytes| {
            change(bytes);
            seal(HashKind::Sha1, bytes);
        })
    };
    assert_eq!(sealed(&|bytes| bytes[1032] ^= 0x80), IndexFault::Order);
    assert_eq!(sealed(&|bytes| bytes[1032 + 24..1032 + 28].fill(0)), IndexFault::Offset);
    assert_eq!(sealed(&|bytes| bytes[1032 + 24..1032 + 28].fill(0xff)), IndexFault::Offset);
    fs::remove_file(&path).unwrap();
    fs::write(&path, &good).unwrap();
    store.snapshot(&store.cache());
}

#[test]
fn ids_out_of_order_are_corrupt() {
    let store = Store::bare();
    let mut pack = PackBuilder::new(HashKind::Sha1);
    for number in 0..300u32 {
        pack.blob(&number.to_be_bytes());
    }
    let path = pack.store(&store.packs());
    let mut bytes = fs::read(&path).unwrap();
    // Two ids of one bucket changed places.
    let ids = 1032;
    let place = (0..299)
        .find(|n| bytes[ids + 20 * n] == bytes[ids + 20 * (n + 1)])
        .map(|n| ids + 20 * n)
        .unwrap();
    let (left, right) = bytes[place..place + 40].split_at_mut(20);
    left.swap_with_slice(right);
    seal(HashKind::Sha1, &mut bytes);
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    assert_eq!(fault_of(&store, &path), IndexFault::Order);
}

#[test]
fn an_index_that_cannot_be_read_is_an_error_and_not_a_missing_object() {
    let store = Store::bare();
    let (id, path) = put(&store, "a");
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    let cache = store.cache();
    io_error_at(&store, &cache, &path);
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    assert!(store.snapshot(&cache).contains(&id).unwrap(), "the cache has not kept the error");

    fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    io_error_at(&store, &cache, &path);
}

#[test]
fn an_index_is_known_by_its_file_and_not_by_its_name() {
    let store = Store::bare();
    let (first, path) = put(&store, "first");
    store.settle();
    let cache = store.cache();
    store.snapshot(&cache);

    // Another pack under the name of the first, as `git repack -f` once made it.
    let (second, other) = put(&store, "second");
    fs::rename(other.with_extension("pack"), path.with_extension("pack")).unwrap();
    fs::rename(&other, &path).unwrap();
    let (snapshot, done) = store.count(|| store.snapshot(&cache));
    assert_eq!(done.opens, 1);
    assert!(snapshot.contains(&second).unwrap());
    assert!(!snapshot.contains(&first).unwrap());
    assert!(snapshot.read_verified(&second, MIB).unwrap().is_some());
}

#[test]
fn version_1_and_sha_256_and_empty_indexes_are_read() {
    let store = Store::git_init(HashKind::Sha1);
    store.commit("main", 30, true);
    store.git(&["-c", "pack.indexVersion=1", "repack", "-adfq"]);
    let index = fs::read_dir(store.packs()).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.extension().is_some_and(|ending| ending == "idx").then_some(path)
    });
    assert_ne!(fs::read(index.unwrap()).unwrap()[..4], *b"\xfftOc");
    PackBuilder::new(HashKind::Sha1).store(&store.packs());
    for bytes_max in [0, MIB] {
        let cache = SnapshotCache::new(store.disk.clone(), bytes_max);
        let snapshot = store.snapshot(&cache);
        for (id, kind, size) in store.all_objects() {
            assert_eq!(snapshot.kind_and_size(&id).unwrap(), Some((kind, size)));
        }
    }

    let store = Store::git_init(HashKind::Sha256);
    store.commit("main", 30, true);
    PackBuilder::new(HashKind::Sha256).store(&store.packs());
    for bytes_max in [0, MIB] {
        let cache = SnapshotCache::new(store.disk.clone(), bytes_max);
        let snapshot = store.snapshot(&cache);
        for (id, kind, size) in store.all_objects() {
            assert_eq!(snapshot.kind_and_size(&id).unwrap(), Some((kind, size)));
        }
    }
}

#[test]
fn indexes_too_large_for_the_budget_are_searched_where_they_lie() {
    let store = Store::bare();
    let mut ids = Vec::new();
    let mut big = PackBuilder::new(HashKind::Sha1);
    for number in 0..2000u32 {
        ids.push(big.blob(&number.to_be_bytes()));
    }
    big.store(&store.packs());
    ids.extend((0..10).map(|number| put(&store, &format!("small {number}")).0));
    store.settle();
    let cache = SnapshotCache::new(store.disk.clone(), 30_000);
    let (snapshot, done) = store.count(|| store.snapshot(&cache));
    assert_eq!(done.opens, 11, "each once");
    assert!(cache.bytes() < 30_000);
    let ((), done) = store.count(|| {
        for id in &ids {
            assert!(snapshot.contains(id).unwrap());
        }
    });
    assert_eq!(done, Done::default(), "the large one is still open");
    let ((), done) = store.count(|| {
        let next = store.snapshot(&cache);
        assert!(next.contains(&ids[7]).unwrap());
    });
    assert_eq!(done, Done { stats: 1, ..Done::default() }, "it stays open");
}

#[test]
fn the_smallest_indexes_take_the_place_of_a_larger_one_in_memory() {
    let store = Store::bare();
    let mut big = PackBuilder::new(HashKind::Sha1);
    let in_big: Vec<_> = (0..400u32).map(|number| big.blob(&number.to_be_bytes())).collect();
    big.store(&store.packs());
    store.settle();
    let cache = SnapshotCache::new(store.disk.clone(), 18_000);
    let (_, done) = store.count(|| store.snapshot(&cache));
    assert_eq!(done.opens, 1);
    let in_small: Vec<_> = (0..8).map(|n| put(&store, &format!("small {n}")).0).collect();
    store.settle();
    let snapshot = store.snapshot(&cache);
    let ((), done) = store.count(|| {
        for id in &in_small {
            assert!(snapshot.contains(id).unwrap());
        }
    });
    assert_eq!(done, Done::default());
    for id in &in_big {
        assert!(snapshot.contains(id).unwrap());
        assert!(snapshot.read_verified(id, MIB).unwrap().is_some());
    }
}

#[test]
fn more_large_indexes_than_may_be_open_are_searched_too() {
    let store = Store::bare();
    let ids: Vec<_> = (0..300).map(|number| put(&store, &number.to_string()).0).collect();
    let snapshot = store.snapshot(&SnapshotCache::new(store.disk.clone(), 0));
    for id in [&ids[0], &ids[150], &ids[299]] {
        assert!(snapshot.contains(id).unwrap());
    }
}

#[test]
fn a_corrupt_index_that_is_searched_where_it_lies_is_an_error_that_names_it() {
    let store = Store::bare();
    let (id, path) = put(&store, "a");
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 1;
    fs::write(&path, bytes).unwrap();
    let snapshot = store.snapshot(&SnapshotCache::new(store.disk.clone(), 0));
    match snapshot.contains(&id).unwrap_err() {
        SnapshotError::CorruptIndex { path: named, source } => {
            assert_eq!((named, source), (path, IndexFault::FanOut));
        }
        other => panic!("{other:?}"),
    }
}

/// A pack with an entry at each of these offsets, in a file with holes.
fn sparse_pack(store: &Store, offsets: &[u64]) -> (Vec<(ObjectId, u64)>, Vec<u8>, PathBuf) {
    let path = store.packs().join("pack-sparse.pack");
    let file = File::create(&path).unwrap();
    let mut entries = Vec::new();
    let mut end = 12;
    for offset in offsets {
        let mut one = PackBuilder::new(HashKind::Sha1);
        let id = one.blob(format!("at {offset}").as_bytes());
        file.write_all_at(&one.bytes[12..], *offset).unwrap();
        entries.push((id, *offset));
        end = offset + one.bytes.len() as u64;
    }
    file.write_all_at(b"PACK\0\0\0\x02\0\0\0\x03", 0).unwrap();
    // Nobody reads the whole of it: any trailer does.
    let trailer = checksum(HashKind::Sha1, b"sparse");
    file.write_all_at(&trailer, end).unwrap();
    (entries, trailer, path)
}

#[test]
fn offsets_past_2_and_4_gib_are_read() {
    let store = Store::bare();
    let offsets = [12, (1 << 31) - 100, 1 << 31, (1 << 32) + 7, 5 << 32];
    let (entries, trailer, path) = sparse_pack(&store, &offsets);
    let index = path.with_extension("idx");
    fs::write(&index, index_v2(HashKind::Sha1, &entries, &trailer)).unwrap();
    let read_all = |bytes_max| {
        let snapshot = store.snapshot(&SnapshotCache::new(store.disk.clone(), bytes_max));
        for (id, offset) in &entries {
            let object = snapshot.read_verified(id, MIB).unwrap().unwrap();
            assert_eq!(object.data, format!("at {offset}").as_bytes());
        }
    };
    read_all(MIB);
    read_all(0);

    let (entries, trailer, path) = sparse_pack(&store, &[12, (1 << 32) - 9]);
    fs::remove_file(&index).unwrap();
    fs::write(path.with_extension("idx"), index_v1(HashKind::Sha1, &entries, &trailer)).unwrap();
    let snapshot = store.snapshot(&store.cache());
    for (id, _) in &entries {
        assert!(snapshot.read_verified(id, MIB).unwrap().is_some());
    }
}
