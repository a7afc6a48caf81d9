//! Bases from outside the pack, and objects that are there already.

use super::history::pack;
use crate::ingest::testing::*;
use crate::ingest::*;
use crate::model::{CancelToken, HashKind, ObjectId, ObjectKind};
use crate::pack::writer::{PackBuilder, encode_delta};
use crate::repo::{Disk, FlushPolicy};
use std::io;

const BLOB: ObjectKind = ObjectKind::Blob;

fn blob_id(content: &[u8]) -> ObjectId {
    id_of(HashKind::Sha1, BLOB, content)
}

const BASE: &[u8] = b"a base that somebody else has stored before";
const NEW: &[u8] = b"a base that somebody else has stored before, and more";

/// A pack of one delta against [`BASE`], and one against what that makes.
fn thin_pack() -> Vec<u8> {
    let mut builder = PackBuilder::new(HashKind::Sha1, 6);
    builder.ref_delta(blob_id(BASE), &encode_delta(BASE, NEW).unwrap());
    let newer = [NEW, b" still"].concat();
    builder.ref_delta(blob_id(NEW), &encode_delta(NEW, &newer).unwrap());
    builder.finish()
}

fn unresolved(result: Result<Taken, IngestError>) -> (u64, ObjectId) {
    match result {
        Err(IngestError::UnresolvedDeltas { count, base }) => (count, base),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_base_that_is_nowhere_is_named() {
    for options in [keeping(HashKind::Sha1), unpacking(HashKind::Sha1)] {
        let result = take(&thin_pack(), &Store::default(), &options);
        assert_eq!(unresolved(result), (2, blob_id(BASE)));
    }
}

#[test]
fn a_base_that_appears_while_the_pack_comes_is_found_by_looking_again() {
    let mut store = Store::with([(BLOB, BASE.to_vec())]);
    store.late.insert(blob_id(BASE));
    for options in [keeping(HashKind::Sha1), unpacking(HashKind::Sha1)] {
        let taken = take(&thin_pack(), &store, &options).unwrap();
        assert_eq!(taken.ingested.objects.len(), 2);
    }
}

#[test]
fn a_thin_pack_is_refused_where_thin_packs_are_not_allowed() {
    let store = Store::with([(BLOB, BASE.to_vec())]);
    let options = IngestOptions { thin: false, ..keeping(HashKind::Sha1) };
    let result = take(&thin_pack(), &store, &options);
    assert_eq!(unresolved(result), (2, blob_id(BASE)));
    let whole = pack(HashKind::Sha1, &[], "");
    assert!(take(&whole, &store, &options).is_ok());
}

#[test]
fn a_base_is_appended_once_from_whatever_form_it_has() {
    for (compressed, compressed_is_wrong) in [(false, false), (true, false), (true, true)] {
        let mut store = Store::with([(BLOB, BASE.to_vec())]);
        (store.compressed, store.compressed_is_wrong) = (compressed, compressed_is_wrong);
        let mut builder = PackBuilder::new(HashKind::Sha1, 6);
        for n in 0..5u8 {
            let new = [BASE, &[n; 5]].concat();
            builder.ref_delta(blob_id(BASE), &encode_delta(BASE, &new).unwrap());
        }
        let taken = take(&builder.finish(), &store, &keeping(HashKind::Sha1)).unwrap();
        assert_eq!(taken.pack().appended_bases, 1);
        assert_eq!(taken.ingested.objects.len(), 5, "the base is not brought by the push");
        let objects = taken.objects(HashKind::Sha1);
        assert_eq!(objects[&blob_id(BASE)], (BLOB, BASE.to_vec()));
        assert_eq!(objects.len(), 6);
    }
}

#[test]
fn a_base_that_cannot_be_read_is_the_servers_fault() {
    let mut store = Store::with([(BLOB, BASE.to_vec())]);
    store.unreadable.insert(blob_id(BASE));
    let error = take(&thin_pack(), &store, &keeping(HashKind::Sha1)).unwrap_err();
    assert!(matches!(error, IngestError::Existing { id, .. } if id == blob_id(BASE)));
    assert_eq!(error.blame(), Blame::Server);
}

#[test]
fn a_base_with_other_content_than_its_name_says_is_not_used() {
    let mut store = Store::default();
    store.objects.insert(blob_id(BASE), (BLOB, BASE.to_ascii_uppercase()));
    for big_file_bytes in [1 << 20, 10] {
        let mut options = keeping(HashKind::Sha1);
        options.limits.big_file_bytes = big_file_bytes;
        let error = take(&thin_pack(), &store, &options).unwrap_err();
        assert!(matches!(error, IngestError::Existing { id, .. } if id == blob_id(BASE)));
    }
}

#[test]
fn an_unreadable_base_does_not_matter_if_the_pack_brings_it() {
    let mut store = Store::with([(BLOB, BASE.to_vec())]);
    store.unreadable.insert(blob_id(BASE));
    let mut builder = PackBuilder::new(HashKind::Sha1, 6);
    builder.ref_delta(blob_id(BASE), &encode_delta(BASE, NEW).unwrap());
    builder.whole(BLOB, BASE);
    let taken = take(&builder.finish(), &store, &keeping(HashKind::Sha1)).unwrap();
    assert_eq!(taken.pack().appended_bases, 0);
}

#[test]
fn large_bases_are_streamed_to_the_end_of_the_pack() {
    let base: Vec<u8> = (0..300_000u32).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect();
    let new = [&base[..], b" and more"].concat();
    let mut builder = PackBuilder::new(HashKind::Sha1, 6);
    builder.ref_delta(blob_id(&base), &encode_delta(&base, &new).unwrap());
    let bytes = builder.finish();
    let store = Store::with([(BLOB, base.clone())]);
    let mut options = keeping(HashKind::Sha1);
    options.limits.big_file_bytes = 100_000;
    let taken = take(&bytes, &store, &options).unwrap();
    assert_eq!(taken.pack().appended_bases, 1);
    let objects = taken.objects(HashKind::Sha1);
    assert_eq!(objects[&blob_id(&base)].1, base);
    assert_eq!(objects[&blob_id(&new)].1, new);
    assert!(taken.ingested.content_bytes_peak < 400_000, "neither of the two was in memory");
}

#[test]
fn the_completed_pack_keeps_to_the_limit_of_packs() {
    let store = Store::with([(BLOB, BASE.to_vec())]);
    let stored = take(&thin_pack(), &store, &keeping(HashKind::Sha1)).unwrap().pack_bytes();
    let mut options = keeping(HashKind::Sha1);
    options.limits.pack_bytes_max = stored.len() as u64 - 20;
    assert!(take(&thin_pack(), &store, &options).is_ok());
    options.limits.pack_bytes_max -= 1;
    let error = take(&thin_pack(), &store, &options).unwrap_err();
    assert_eq!(error.limit().unwrap().name, "pack_bytes_max");
}

#[test]
fn a_large_base_is_not_appended_past_the_limit_of_packs() {
    const MIB: u64 = 1 << 20;
    // Nothing that zlib finds anything in.
    let mut state = 1u64;
    let base: Vec<u8> = (0..8 * MIB)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[1]
        })
        .collect();
    let mut builder = PackBuilder::new(HashKind::Sha1, 6);
    builder.ref_delta(blob_id(&base), &encode_delta(&base, &base[..1000]).unwrap());
    let (bytes, store) = (builder.finish(), Store::with([(BLOB, base)]));
    let mut options = keeping(HashKind::Sha1);
    (options.limits.big_file_bytes, options.limits.pack_bytes_max) = (MIB, 2 * MIB);
    let (destination, _root) = destination();
    let destination = Destination { held_bytes_max: 0, ..destination };
    let (cancel, share) = (CancelToken::new(), share(&options.limits));
    let result = ingest(&mut &bytes[..], &store, &destination, &options, &cancel, share);
    assert_eq!(result.unwrap_err().limit().unwrap().name, "pack_bytes_max");
    let directory = destination.directory.path().unwrap();
    let files = files_below(directory).into_iter().map(|file| directory.join(file));
    let written: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(written > 0 && written < 3 * MIB, "{written}");
}

/// Packs with `content` as a whole object and as a delta, in the forms they are compared in.
fn packs_with(content: &[u8]) -> Vec<(Vec<u8>, IngestOptions)> {
    let mut whole = PackBuilder::new(HashKind::Sha1, 6);
    whole.whole(BLOB, content);
    let mut delta = PackBuilder::new(HashKind::Sha1, 6);
    let base = delta.whole(BLOB, BASE);
    delta.ofs_delta(base, &encode_delta(BASE, content).unwrap());
    let (whole, delta) = (whole.finish(), delta.finish());
    let mut streaming = keeping(HashKind::Sha1);
    streaming.limits.big_file_bytes = 10;
    let forms = [keeping(HashKind::Sha1), unpacking(HashKind::Sha1), streaming];
    let packs = [whole, delta];
    packs
        .iter()
        .flat_map(|pack| forms.iter().map(|options| (pack.clone(), options.clone())))
        .collect()
}

/// A store that says it has `content`, though what it gives for it is `stored`.
fn store_with(content: &[u8], kind: ObjectKind, stored: &[u8]) -> Store {
    let mut store = Store::default();
    store.objects.insert(blob_id(content), (kind, stored.to_vec()));
    store
}

#[test]
fn the_same_object_is_no_collision() {
    for (bytes, options) in packs_with(NEW) {
        assert!(take(&bytes, &store_with(NEW, BLOB, NEW), &options).is_ok());
    }
}

#[test]
fn a_damaged_or_unreadable_copy_is_no_collision_and_ours_is_stored() {
    for (bytes, options) in packs_with(NEW) {
        let other = NEW.to_ascii_uppercase();
        for stored in [&other[..], &NEW[1..], &[NEW, b"x"].concat(), b""] {
            let taken = take(&bytes, &store_with(NEW, BLOB, stored), &options).unwrap();
            assert_eq!(taken.objects(HashKind::Sha1)[&blob_id(NEW)].1, NEW);
        }
        let taken = take(&bytes, &store_with(NEW, ObjectKind::Tree, NEW), &options).unwrap();
        assert_eq!(taken.objects(HashKind::Sha1)[&blob_id(NEW)].1, NEW);
        let mut store = store_with(NEW, BLOB, NEW);
        store.unreadable.insert(blob_id(NEW));
        assert!(take(&bytes, &store, &options).is_ok());
    }
}

#[test]
fn a_full_disk_is_told_wherever_it_strikes() {
    let store = Store::with([(BLOB, BASE.to_vec())]);
    for options in [keeping(HashKind::Sha1), unpacking(HashKind::Sha1)] {
        let options = IngestOptions { keep: Some("why".to_owned()), ..options };
        let mut at = 0;
        loop {
            let (mut destination, _root) = destination();
            let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
            destination.disk = disk;
            destination.held_bytes_max = 0;
            recorder.fail_at(at, io::ErrorKind::StorageFull, true);
            let cancel = crate::model::CancelToken::new();
            let input = &mut &thin_pack()[..];
            match ingest(input, &store, &destination, &options, &cancel, share(&options.limits)) {
                Err(error) => assert_eq!(error.blame(), Blame::NoSpace, "{at}: {error}"),
                Ok(_) => break,
            }
            at += 1;
        }
        assert!(at > 3, "{at}");
    }
}
