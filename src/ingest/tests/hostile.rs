//! Packs that somebody made to hurt.

use super::history::pack;
use crate::ingest::testing::*;
use crate::ingest::*;
use crate::model::{HashKind, Limits, ObjectId, ObjectKind};
use crate::pack::checksum::Checksum;
use crate::pack::delta::DeltaError;
use crate::pack::entry::{EntryHeader, EntryKind};
use crate::pack::header::PackHeader;
use crate::pack::writer::{Deflater, PackBuilder, encode_delta};
use proptest::prelude::*;
use proptest::sample::Index;

fn builder() -> PackBuilder {
    PackBuilder::new(HashKind::Sha1, 9)
}

fn blob_id(content: &[u8]) -> ObjectId {
    id_of(HashKind::Sha1, ObjectKind::Blob, content)
}

fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let mut checksum = Checksum::new(HashKind::Sha1);
    checksum.update(&body);
    body.extend_from_slice(checksum.finish().as_slice());
    body
}

/// A delta that copies `len` bytes from the start of a base of `base_size` bytes, `times` times.
fn copies(base_size: u64, len: u64, times: u64) -> Vec<u8> {
    let mut delta = Vec::new();
    for mut size in [base_size, len * times] {
        while size > 0x7f {
            delta.push(size.to_le_bytes()[0] | 0x80);
            size >>= 7;
        }
        delta.push(size.to_le_bytes()[0]);
    }
    let [l0, l1, l2, ..] = len.to_le_bytes();
    for _ in 0..times {
        delta.extend_from_slice(&[0xf0, l0, l1, l2]);
    }
    delta
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_damaged_pack_is_never_stored_and_never_panics(
        damage in prop::collection::vec((any::<Index>(), 1u8..), 1..4),
        form in 0usize..3,
        unpack in any::<bool>(),
    ) {
        let forms: [&[&str]; 3] = [&["--delta-base-offset"], &[], &["--thin"]];
        let revisions = if form == 2 { "main\n^main~2\n" } else { "main~35\n" };
        let mut bytes = pack(HashKind::Sha1, forms[form], revisions);
        let whole = bytes.clone();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        let hash = HashKind::Sha1;
        let options = if unpack { unpacking(hash) } else { keeping(hash) };
        let taken = take(&bytes, &Store::default(), &options);
        prop_assert!(taken.is_err() || (bytes == whole && form != 2));
    }

    #[test]
    fn a_damaged_pack_with_a_right_trailer_gets_gits_verdict(
        damage in prop::collection::vec((any::<Index>(), 1u8..), 1..3),
        by_id in any::<bool>(),
        unpack in any::<bool>(),
        threads in 1usize..3,
    ) {
        let form: &[&str] = if by_id { &[] } else { &["--delta-base-offset"] };
        let mut body = pack(HashKind::Sha1, form, "main~35\n");
        body.truncate(body.len() - 20);
        for (at, value) in damage {
            // Near the beginning of entries, where damage means something.
            let at = at.index(body.len());
            body[at] ^= value;
        }
        let bytes = sealed(body);
        let options = if unpack { unpacking(HashKind::Sha1) } else { keeping(HashKind::Sha1) };
        let options = IngestOptions { threads, ..options };
        let ours = take(&bytes, &Store::default(), &options);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("x.pack"), &bytes).unwrap();
        let arguments = ["index-pack", "--object-format=sha1", "-o", "x.idx", "x.pack"];
        let theirs = git(directory.path(), &arguments, b"");
        let said = String::from_utf8_lossy(&theirs.stderr).into_owned();
        prop_assert_eq!(ours.is_ok(), theirs.status.success(), "{:?} {}", ours, said);
    }

    #[test]
    fn damaged_instructions_get_gits_verdict(
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<Index>()),
        kind in prop_oneof![
            Just(ObjectKind::Commit), Just(ObjectKind::Tree),
            Just(ObjectKind::Blob), Just(ObjectKind::Tag),
        ],
        small in any::<bool>(),
    ) {
        let base = b"some content that a delta is made against, and then damaged".as_slice();
        let next = [&base[..20], b" with something else in the middle ", &base[20..]].concat();
        let mut delta = encode_delta(base, &next).unwrap();
        for (at, value) in damage {
            let at = at.index(delta.len());
            delta[at] = value;
        }
        if let Some(cut) = cut {
            delta.truncate(cut.index(delta.len()));
        }
        let mut pack = builder();
        let first = pack.whole(kind, base);
        pack.ofs_delta(first, &delta);
        let bytes = pack.finish();
        let mut options = keeping(HashKind::Sha1);
        if small {
            // So that the delta is read as a stream.
            options.limits.big_file_bytes = 10;
        }
        let ours = take(&bytes, &Store::default(), &options);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("x.pack"), &bytes).unwrap();
        let arguments = ["index-pack", "--object-format=sha1", "-o", "x.idx", "x.pack"];
        let theirs = git(directory.path(), &arguments, b"");
        let said = String::from_utf8_lossy(&theirs.stderr).into_owned();
        prop_assert_eq!(ours.is_ok(), theirs.status.success(), "{:?} {}", ours, said);
    }
}

#[test]
fn a_chain_of_ten_thousand_reference_deltas_told_backwards_is_resolved() {
    let depth = 10_000u32;
    let content =
        |n: u32| [b"a base that is not quite short ".as_slice(), &n.to_be_bytes()].concat();
    let mut pack = builder();
    for n in (1..=depth).rev() {
        let delta = encode_delta(&content(n - 1), &content(n)).unwrap();
        pack.ref_delta(blob_id(&content(n - 1)), &delta);
    }
    pack.whole(ObjectKind::Blob, &content(0));
    let bytes = pack.finish();
    let taken = take(&bytes, &Store::default(), &keeping(HashKind::Sha1)).unwrap();
    assert_eq!(taken.ingested.objects.len(), 10_001);
    assert_eq!(taken.pack().appended_bases, 0);

    let mut options = keeping(HashKind::Sha1);
    options.limits.delta_depth_max = 9_999;
    let error = take(&bytes, &Store::default(), &options).unwrap_err();
    assert_eq!(error.limit().unwrap().name, "delta_depth_max");
}

#[test]
fn a_bomb_of_deltas_stays_within_the_budget() {
    // 64 KiB of zeros, doubled with each delta: 128 MiB in the end, in a pack of a few KiB. Every
    // second object has another delta, so that it is needed again when it has gone.
    let mut pack = builder();
    let mut base = pack.whole(ObjectKind::Blob, &vec![0; 64 << 10]);
    let mut len = 64 << 10;
    for n in 0..11 {
        if n % 2 == 0 {
            pack.ofs_delta(base, &copies(len, 1 << 15, 3));
        }
        base = pack.ofs_delta(base, &copies(len, len.min(1 << 23), len * 2 / len.min(1 << 23)));
        len *= 2;
    }
    let bytes = pack.finish();
    assert!(bytes.len() < 10_000);
    let budget = 4 << 20;
    let mut options = keeping(HashKind::Sha1);
    options.limits.base_cache_bytes_max = budget;
    let taken = take(&bytes, &Store::default(), &options).unwrap();
    assert!(taken.ingested.inflated_bytes > 250 << 20);
    assert!(taken.ingested.content_bytes_peak <= budget, "{}", taken.ingested.content_bytes_peak);
    assert_eq!(taken.files().len(), 3, "what was put aside is gone");

    options.limits.object_bytes_max = len - 1;
    let error = take(&bytes, &Store::default(), &options).unwrap_err();
    assert!(matches!(error, IngestError::ObjectTooLarge { size, .. } if size == len));
    options.limits = Limits { inflated_bytes_max: 250 << 20, ..Limits::default() };
    let error = take(&bytes, &Store::default(), &options).unwrap_err();
    assert_eq!(error.limit().unwrap().name, "inflated_bytes_max");
}

#[test]
fn a_bomb_of_instructions_stays_within_the_budget() {
    // 40 MiB of instructions that insert zeros.
    let mut delta = copies(10, 10, 4_000_000);
    delta.truncate(delta.len() - 16_000_000);
    for _ in 0..40_000_000 / 125 {
        delta.push(125);
        delta.extend_from_slice(&[0; 125]);
    }
    let mut pack = builder();
    let base = pack.whole(ObjectKind::Blob, b"0123456789");
    pack.ofs_delta(base, &delta);
    let bytes = pack.finish();
    assert!(bytes.len() < 200_000);
    let mut options = keeping(HashKind::Sha1);
    options.limits.base_cache_bytes_max = 4 << 20;
    let taken = take(&bytes, &Store::default(), &options).unwrap();
    assert_eq!(taken.ingested.inflated_bytes, 40_000_010);
    assert!(taken.ingested.content_bytes_peak <= 4 << 20);
    let id = blob_id(&vec![0; 40_000_000]);
    assert_eq!(taken.ingested.objects.kind(&id), Some(ObjectKind::Blob));
}

#[test]
fn bases_that_had_to_go_are_made_again_and_that_work_is_bounded() {
    // A chain of deltas by id, each with a twin that comes when the chain below is done: nobody
    // knows beforehand which of the two is the long one.
    let size = 100_000;
    let content = |n: u32, twin: bool| {
        let mut content = vec![0; size];
        content[..4].copy_from_slice(&n.to_be_bytes());
        content[4] = twin.into();
        content
    };
    let mut pack = builder();
    pack.whole(ObjectKind::Blob, &content(0, false));
    let mut places = Vec::new();
    for n in 1..60 {
        let base = content(n - 1, false);
        for twin in [true, false] {
            places.push((blob_id(&base), encode_delta(&base, &content(n, twin)).unwrap()));
        }
    }
    for (base, delta) in places {
        pack.ref_delta(base, &delta);
    }
    let bytes = pack.finish();
    let mut options = keeping(HashKind::Sha1);
    options.limits.base_cache_bytes_max = 2 << 20;
    let taken = take(&bytes, &Store::default(), &options).unwrap();
    assert_eq!(taken.ingested.objects.len(), 119);
    assert!(taken.ingested.content_bytes_peak <= 2 << 20);
    assert_eq!(taken.objects(HashKind::Sha1).len(), 119);
    options.limits.inflated_bytes_max = 12_000_000;
    let error = take(&bytes, &Store::default(), &options).unwrap_err();
    assert!(matches!(error, IngestError::InflatedTooLarge { .. }), "{error}");
}

#[test]
fn an_existing_base_is_read_again_if_what_was_made_of_it_had_to_go() {
    let content = |n: u32, twin: bool| {
        let mut content = vec![0; 100_000];
        content.extend_from_slice(&[&n.to_be_bytes()[..], &[u8::from(twin)]].concat());
        content
    };
    // One delta of the existing object; below it a chain whose members are all needed twice.
    let mut pack = builder();
    for n in 1..60 {
        let base = content(n - 1, false);
        for twin in [true, false].into_iter().filter(|twin| n > 1 || !twin) {
            pack.ref_delta(blob_id(&base), &encode_delta(&base, &content(n, twin)).unwrap());
        }
    }
    let bytes = pack.finish();
    let store = Store::with([(ObjectKind::Blob, content(0, false))]);
    for threads in [1, 2] {
        let mut options = IngestOptions { threads, ..keeping(HashKind::Sha1) };
        options.limits.base_cache_bytes_max = 2 << 20;
        let taken = take(&bytes, &store, &options).unwrap();
        assert_eq!(taken.ingested.objects.len(), 117);
        assert_eq!(taken.pack().appended_bases, 1);
        assert_eq!(taken.objects(HashKind::Sha1).len(), 118);
    }
}

#[test]
fn deltas_of_deltas_that_lead_in_a_circle_are_unresolved() {
    let (one, two) = (b"one thing or the other".as_slice(), b"two things or the others".as_slice());
    let mut pack = builder();
    pack.ref_delta(blob_id(two), &encode_delta(two, one).unwrap());
    pack.ref_delta(blob_id(one), &encode_delta(one, two).unwrap());
    let bytes = pack.finish();
    for options in [keeping(HashKind::Sha1), unpacking(HashKind::Sha1)] {
        let error = take(&bytes, &Store::default(), &options).unwrap_err();
        let base = blob_id(two);
        assert_eq!(
            error.to_string(),
            format!("pack has 2 unresolved deltas, the first against {base}")
        );
        assert_eq!(error.blame(), Blame::BadPack);
    }
    // A delta against itself.
    let mut pack = builder();
    pack.ref_delta(blob_id(one), &encode_delta(one, one).unwrap());
    let error = take(&pack.finish(), &Store::default(), &keeping(HashKind::Sha1)).unwrap_err();
    assert!(matches!(error, IngestError::UnresolvedDeltas { count: 1, .. }));
}

#[test]
fn a_bad_delta_is_told_with_its_offset() {
    let base = b"0123456789".as_slice();
    let good = encode_delta(base, b"01234x6789").unwrap();
    for (delta, fault) in [
        (good[..good.len() - 1].to_vec(), DeltaError::Truncated),
        (vec![10, 10, 0, 0], DeltaError::Reserved),
        (vec![11, 10, 0x90, 10], DeltaError::BaseSize { declared: 11, actual: 10 }),
        (vec![10, 11, 0x90, 10], DeltaError::ResultSize { declared: 11 }),
    ] {
        let mut pack = builder();
        let first = pack.whole(ObjectKind::Blob, base);
        let offset = pack.ofs_delta(first, &delta);
        let bytes = pack.finish();
        for options in [keeping(HashKind::Sha1), unpacking(HashKind::Sha1)] {
            let error = take(&bytes, &Store::default(), &options).unwrap_err();
            let IngestError::BadDelta { offset: at, fault: found } = error else {
                panic!("{error}");
            };
            assert_eq!((at, found), (offset, fault));
        }
    }
}

#[test]
fn a_base_offset_at_which_nothing_begins_is_refused() {
    let mut pack = builder();
    let first = pack.whole(ObjectKind::Blob, b"0123456789");
    pack.ofs_delta(first + 1, &copies(10, 5, 2));
    let error = take(&pack.finish(), &Store::default(), &keeping(HashKind::Sha1)).unwrap_err();
    assert!(matches!(error, IngestError::NoSuchBase(_)));
    assert_eq!(error.blame(), Blame::BadPack);
}

#[test]
fn version_3_is_stored_as_it_came() {
    let mut pack = builder();
    pack.whole(ObjectKind::Blob, b"content");
    let mut body = pack.finish();
    body.truncate(body.len() - 20);
    body[7] = 3;
    let bytes = sealed(body);
    let taken = take(&bytes, &Store::default(), &keeping(HashKind::Sha1)).unwrap();
    assert_eq!(taken.pack_bytes(), bytes);
    assert_eq!(taken.objects(HashKind::Sha1).len(), 1);
}

#[test]
fn an_object_that_comes_twice_is_stored_as_it_came() {
    let mut pack = builder();
    let first = pack.whole(ObjectKind::Blob, b"twice, and long enough");
    pack.whole(ObjectKind::Blob, b"twice, and long enough");
    let other = b"twice, and long enough for that";
    pack.ofs_delta(first, &encode_delta(b"twice, and long enough", other).unwrap());
    pack.ref_delta(
        blob_id(b"twice, and long enough"),
        &encode_delta(b"twice, and long enough", other).unwrap(),
    );
    let bytes = pack.finish();
    let taken = take(&bytes, &Store::default(), &keeping(HashKind::Sha1)).unwrap();
    assert_eq!(taken.pack_bytes(), bytes);
    assert_eq!((taken.ingested.object_count, taken.ingested.objects.len()), (4, 2));
    let taken = take(&bytes, &Store::default(), &unpacking(HashKind::Sha1)).unwrap();
    assert_eq!(taken.ingested.stored, Stored::Loose { objects: 2 });
    assert_eq!(taken.objects(HashKind::Sha1).len(), 2);
}

#[test]
fn declared_numbers_cost_nothing() {
    // A terabyte in two bytes, and two billion entries that do not come.
    let mut body = PackHeader { version: 2, count: 1 }.encode().to_vec();
    let kind = EntryKind::Whole(ObjectKind::Blob);
    EntryHeader { kind, size: 1 << 40 }.encode(12, &mut body);
    Deflater::new(1).append(b"xy", &mut body);
    let mut options = keeping(HashKind::Sha1);
    options.limits.object_bytes_max = u64::MAX;
    options.limits.inflated_bytes_max = u64::MAX;
    options.limits.objects_max = u64::MAX;
    options.limits.expansion_free_bytes = u64::MAX;
    let error = take(&sealed(body), &Store::default(), &options).unwrap_err();
    assert!(matches!(error, IngestError::BadPack(_)), "{error}");

    let body = PackHeader { version: 2, count: 1 << 31 }.encode().to_vec();
    let error = take(&body, &Store::default(), &options).unwrap_err();
    assert!(matches!(error, IngestError::EndedEarly { .. }), "{error}");
    let error = take(&body, &Store::default(), &keeping(HashKind::Sha1)).unwrap_err();
    assert_eq!(error.limit().unwrap().name, "objects_max");

    // A delta that declares a result of a terabyte and makes ten bytes.
    let mut pack = builder();
    let first = pack.whole(ObjectKind::Blob, b"0123456789");
    let mut delta = copies(10, 1 << 39, 2);
    delta.truncate(delta.len() - 8);
    delta.extend_from_slice(&[0x90, 10]);
    pack.ofs_delta(first, &delta);
    let error = take(&pack.finish(), &Store::default(), &options).unwrap_err();
    assert!(matches!(error, IngestError::BadDelta { .. }), "{error}");
}
