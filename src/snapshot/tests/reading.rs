//! What is read of objects, with stock git as the oracle, and what damage does.

use super::damage::damage;
use crate::model::{HashKind, ObjectId, ObjectKind};
use crate::pack::entry::EntryKind;
use crate::pack::inflate::{Inflater, ObjectBuffer};
use crate::snapshot::testing::{MIB, PackBuilder, Store, deflate, delta, id_of};
use crate::snapshot::{Damage, Object, SnapshotError};
use std::ops::ControlFlow;

/// Reads every object in every way and compares with git.
fn assert_reads_as_git_does(store: &Store) {
    let objects = store.all_objects();
    let names: Vec<_> = objects.iter().map(|(id, ..)| id.to_string()).collect();
    let input = names.join("\n");
    let told = store.git_bytes(&["cat-file", "--batch"], input.as_bytes());
    let mut rest = &told[..];
    let snapshot = store.snapshot(&store.cache());
    let mut inflater: Inflater = Inflater::default();
    for (id, kind, size) in &objects {
        let line = rest.iter().position(|byte| *byte == b'\n').unwrap();
        let (data, tail) = rest[line + 1..].split_at(usize::try_from(*size).unwrap());
        rest = &tail[1..];
        assert_eq!(snapshot.kind_and_size(id).unwrap(), Some((*kind, *size)));
        let object = Object { kind: *kind, data: data.to_vec() };
        assert_eq!(snapshot.read(id, MIB).unwrap(), Some(object.clone()));
        assert_eq!(snapshot.read_verified(id, MIB).unwrap(), Some(object));
        let mut streamed = Vec::new();
        let facts = snapshot.stream(id, MIB, &mut |chunk| {
            streamed.extend_from_slice(chunk);
            ControlFlow::Continue(())
        });
        assert_eq!(facts.unwrap(), Some((*kind, *size)));
        assert_eq!(streamed, data);
        if let Some(entry) = snapshot.compressed(id, MIB).unwrap() {
            let mut out = ObjectBuffer::default();
            let len = inflater.once(&entry.zlib, entry.size, &mut out).unwrap();
            assert_eq!((entry.kind, len), (*kind, entry.zlib.len()));
            assert_eq!(*out, *data);
        }
    }
}

#[test]
fn every_object_reads_as_git_reads_it() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let store = Store::git_init(hash);
        store.commit("main", 60, false);
        store.git(&["-c", "user.name=A", "-c", "user.email=a@b", "tag", "-am", "t", "v1", "main"]);
        assert_reads_as_git_does(&store);
        store.git(&["repack", "-adfq", "--depth=50"]);
        assert_reads_as_git_does(&store);
    }
}

#[test]
fn deltas_that_name_their_base_read_as_git_reads_them() {
    let store = Store::git_init(HashKind::Sha1);
    store.commit("main", 60, false);
    store.git(&["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq", "--depth=50"]);
    assert_reads_as_git_does(&store);
}

#[test]
fn a_compressed_entry_is_the_packs_own_bytes_and_there_is_none_for_deltas_and_loose_objects() {
    let store = Store::bare();
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let data = vec![7; 100_000];
    let whole = pack.blob(&data);
    let (_, offset) = pack.entries[0];
    let small = id_of(HashKind::Sha1, ObjectKind::Blob, b"small");
    let instructions = delta(&data, 0, b"small");
    pack.entry(small, EntryKind::OfsDelta { base_offset: offset }, &instructions);
    pack.store(&store.packs());
    let snapshot = store.snapshot(&store.cache());
    let entry = snapshot.compressed(&whole, MIB).unwrap().unwrap();
    assert_eq!((entry.kind, entry.size), (ObjectKind::Blob, 100_000));
    assert_eq!(entry.zlib, deflate(&data));
    assert_eq!(snapshot.compressed(&whole, 10).unwrap(), None, "too long");
    let refreshing = snapshot.refreshing();
    let (none, done) = store.count(|| refreshing.compressed(&small, MIB).unwrap());
    assert_eq!(none, None);
    assert_eq!(done.listings, 0, "it is there: no reason to look again");
    assert_eq!(snapshot.read(&small, MIB).unwrap().unwrap().data, b"small");
}

/// A chain of deltas, each adding a byte to the one before, the deepest last.
fn chain(pack: &mut PackBuilder, depth: usize, by_id: bool) -> ObjectId {
    let mut content = vec![b'x'];
    let mut base = pack.blob(&content);
    for number in 0..depth {
        let offset = pack.entries.last().unwrap().1;
        let before = content.clone();
        content = vec![b'x', number.to_le_bytes()[0], number.to_le_bytes()[1]];
        let id = id_of(HashKind::Sha1, ObjectKind::Blob, &content);
        let kind = if by_id {
            EntryKind::RefDelta { base }
        } else {
            EntryKind::OfsDelta { base_offset: offset }
        };
        pack.entry(id, kind, &delta(&before, 1, &content));
        base = id;
    }
    base
}

#[test]
fn chains_of_thousands_of_deltas_are_read_without_recursion() {
    for by_id in [false, true] {
        let store = Store::bare();
        let mut pack = PackBuilder::new(HashKind::Sha1);
        let deepest = chain(&mut pack, 10_000, by_id);
        pack.store(&store.packs());
        let snapshot = store.snapshot(&store.cache());
        assert_eq!(snapshot.kind_and_size(&deepest).unwrap(), Some((ObjectKind::Blob, 3)));
        let read = move || snapshot.read_verified(&deepest, MIB).unwrap().is_some();
        let small_stack = std::thread::Builder::new().stack_size(256 << 10).spawn(read);
        assert!(small_stack.unwrap().join().unwrap());
    }
}

#[test]
fn a_base_may_be_in_another_pack_or_loose_and_is_damage_if_it_is_nowhere() {
    let store = Store::git_init(HashKind::Sha1);
    let loose_base = store.git_with(&["hash-object", "-w", "--stdin"], b"loose base");
    let loose_base = crate::snapshot::testing::id_of_hex(&loose_base);
    let mut other = PackBuilder::new(HashKind::Sha1);
    let packed_base = other.blob(b"packed base");
    other.store(&store.packs());
    let nowhere = id_of(HashKind::Sha1, ObjectKind::Blob, b"nowhere");
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let mut add = |base: ObjectId, content: &[u8], result: &[u8]| {
        let id = id_of(HashKind::Sha1, ObjectKind::Blob, result);
        pack.entry(id, EntryKind::RefDelta { base }, &delta(content, 3, result));
        id
    };
    let on_loose = add(loose_base, b"loose base", b"loo on loose");
    let on_packed = add(packed_base, b"packed base", b"pac on packed");
    let on_nothing = add(nowhere, b"nowhere", b"now on nothing");
    pack.store(&store.packs());
    let snapshot = store.snapshot(&store.cache());
    assert_eq!(snapshot.read_verified(&on_loose, MIB).unwrap().unwrap().data, b"loo on loose");
    assert_eq!(snapshot.read_verified(&on_packed, MIB).unwrap().unwrap().data, b"pac on packed");
    assert_eq!(snapshot.kind_and_size(&on_loose).unwrap(), Some((ObjectKind::Blob, 12)));
    assert_eq!(snapshot.kind_and_size(&on_packed).unwrap(), Some((ObjectKind::Blob, 13)));
    assert_eq!(damage(&snapshot, &on_nothing), Damage::BaseMissing { base: nowhere });
}

#[test]
fn objects_over_the_bound_are_refused_and_so_are_bases_and_results() {
    let store = Store::git_init(HashKind::Sha1);
    let loose = store.git_with(&["hash-object", "-w", "--stdin"], &[b'l'; 1000]);
    let loose = crate::snapshot::testing::id_of_hex(&loose);
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let base = pack.blob(&[b'b'; 1000]);
    let small = id_of(HashKind::Sha1, ObjectKind::Blob, b"small");
    pack.entry(small, EntryKind::RefDelta { base }, &delta(&[b'b'; 1000], 0, b"small"));
    let large_data = [&[b'b'; 999][..], b"large"].concat();
    let large = id_of(HashKind::Sha1, ObjectKind::Blob, &large_data);
    pack.entry(large, EntryKind::RefDelta { base }, &delta(&[b'b'; 1000], 999, &large_data));
    pack.store(&store.packs());
    let snapshot = store.snapshot(&store.cache());
    for (id, size) in [(loose, 1000), (base, 1000), (small, 1000), (large, 1004)] {
        let needed = size;
        match snapshot.read(&id, needed - 1).unwrap_err() {
            SnapshotError::TooLarge { size, bytes_max, .. } => {
                assert_eq!((size, bytes_max), (needed, needed - 1));
            }
            other => panic!("{other:?}"),
        }
        assert!(snapshot.read(&id, needed).unwrap().is_some());
    }
}

#[test]
fn large_blobs_are_streamed_in_chunks_whether_loose_or_packed() {
    let store = Store::git_init(HashKind::Sha1);
    let mut state = 1u32;
    let data: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(3 << 20)
    .collect();
    let id = store.git_with(&["hash-object", "-w", "--stdin"], &data);
    let id = crate::snapshot::testing::id_of_hex(&id);
    for packed in [false, true] {
        if packed {
            store.git_with(&["pack-objects", "-q", "objects/pack/pack"], id.to_string().as_bytes());
            store.git(&["prune-packed"]);
        }
        let snapshot = store.snapshot(&store.cache());
        let (mut streamed, mut largest) = (Vec::new(), 0);
        let facts = snapshot
            .stream(&id, 1000, &mut |chunk| {
                largest = largest.max(chunk.len());
                streamed.extend_from_slice(chunk);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(facts, Some((ObjectKind::Blob, data.len() as u64)));
        assert!(streamed == data);
        assert!(largest <= 256 << 10, "{largest}");
        let mut pieces = 0;
        let facts = snapshot.stream(&id, 1000, &mut |_| {
            pieces += 1;
            ControlFlow::Break(())
        });
        assert_eq!(facts.unwrap(), Some((ObjectKind::Blob, data.len() as u64)));
        assert_eq!(pieces, 1, "it had enough");
        assert_eq!(snapshot.compressed(&id, MIB).unwrap(), None, "longer than a mebibyte");
    }
}

#[test]
fn threads_read_the_same_objects_at_once() {
    let store = Store::git_init(HashKind::Sha1);
    store.commit("main", 80, true);
    store.git(&["repack", "-adfq", "--depth=40"]);
    let ids: Vec<_> = store.all_objects().into_iter().map(|(id, ..)| id).collect();
    let snapshot = store.snapshot(&store.cache());
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (ids, snapshot) = (&ids, &snapshot);
            scope.spawn(move || {
                for number in 0..ids.len() {
                    let id = &ids[(number * 7 + thread * 31) % ids.len()];
                    assert!(snapshot.read_verified(id, MIB).unwrap().is_some());
                }
            });
        }
    });
}
