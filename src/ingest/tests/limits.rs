//! Each limit at its value and one past it.

use super::history::pack;
use crate::ingest::testing::*;
use crate::ingest::*;
use crate::model::{HashKind, Limits, ObjectKind, UnpackLimit};
use crate::pack::writer::PackBuilder;

fn bytes() -> Vec<u8> {
    pack(HashKind::Sha1, &["--delta-base-offset"], "main~20\n")
}

fn refused(options: &IngestOptions) -> String {
    let error = take(&bytes(), &Store::default(), options).unwrap_err();
    assert_eq!(error.blame(), Blame::Limit, "{error}");
    error.to_string()
}

#[test]
fn the_unpack_limit_is_the_count_that_is_kept() {
    let bytes = bytes();
    let mut options = keeping(HashKind::Sha1);
    let count = take(&bytes, &Store::default(), &options).unwrap().ingested.object_count;
    options.unpack_limit = UnpackLimit(count.into());
    assert!(matches!(
        take(&bytes, &Store::default(), &options).unwrap().ingested.stored,
        Stored::Pack(_)
    ));
    options.unpack_limit = UnpackLimit(u64::from(count) + 1);
    let taken = take(&bytes, &Store::default(), &options).unwrap();
    assert_eq!(taken.ingested.stored, Stored::Loose { objects: count });
}

#[test]
fn a_pack_that_inflates_to_more_than_the_unpack_bytes_is_kept_whatever_its_count() {
    let bytes = bytes();
    let mut options = unpacking(HashKind::Sha1);
    let taken = take(&bytes, &Store::default(), &options).unwrap();
    options.limits.unpack_bytes_max = taken.ingested.inflated_bytes;
    let taken = take(&bytes, &Store::default(), &options).unwrap();
    assert!(matches!(taken.ingested.stored, Stored::Loose { .. }));
    options.limits.unpack_bytes_max -= 1;
    let taken = take(&bytes, &Store::default(), &options).unwrap();
    assert_eq!(taken.pack_bytes(), bytes);
}

#[test]
fn a_pack_that_was_written_and_then_unpacked_leaves_only_loose_objects() {
    // Content that does not compress, so that the pack outgrows the buffer.
    let mut state = 1u32;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    })
    .take(1_200_000)
    .collect();
    let mut builder = PackBuilder::new(HashKind::Sha1, 1);
    builder.whole(ObjectKind::Blob, &content);
    let bytes = builder.finish();
    let taken = take(&bytes, &Store::default(), &unpacking(HashKind::Sha1)).unwrap();
    assert_eq!(taken.ingested.stored, Stored::Loose { objects: 1 });
    assert_eq!(taken.files().len(), 1);
    assert_eq!(taken.objects(HashKind::Sha1).values().next().unwrap().1, content);
}

#[test]
fn receive_max_input_size_is_told_in_gits_words() {
    let size = bytes().len() as u64;
    let mut options = keeping(HashKind::Sha1);
    options.input_bytes_max = size;
    assert!(take(&bytes(), &Store::default(), &options).is_ok());
    options.input_bytes_max = size - 1;
    assert!(refused(&options).starts_with("pack exceeds maximum allowed size ("));
    options.input_bytes_max = 100;
    assert_eq!(refused(&options), "pack exceeds maximum allowed size (100 bytes)");
    options.input_bytes_max = 4096;
    assert_eq!(refused(&options), "pack exceeds maximum allowed size (4.00 KiB)");
    options.input_bytes_max = 0;
    options.limits.pack_bytes_max = 99;
    assert_eq!(refused(&options), "pack exceeds maximum allowed size (99 bytes)");
}

#[test]
fn git_humanises_sizes_the_same_way() {
    let directory = tempfile::tempdir().unwrap();
    let repository = directory.path().join("r.git");
    init(&repository, HashKind::Sha1);
    let bytes = bytes();
    for size in [1, 1023, 1024, 1025, 1029, 1030, 2000, 4096] {
        let mut options = keeping(HashKind::Sha1);
        options.input_bytes_max = size;
        let limit = format!("--max-input-size={size}");
        let output = git(&repository, &["index-pack", "--stdin", &limit], &bytes);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.trim_end(), format!("fatal: {}", refused(&options)));
    }
}

#[test]
fn the_other_limits_are_kept_to_the_unit() {
    let taken = take(&bytes(), &Store::default(), &keeping(HashKind::Sha1)).unwrap();
    let Ingested { object_count, inflated_bytes, objects, .. } = &taken.ingested;
    let largest = taken.objects(HashKind::Sha1).values().map(|object| object.1.len()).max();
    let exact = Limits {
        objects_max: (*object_count).into(),
        inflated_bytes_max: *inflated_bytes,
        object_bytes_max: largest.unwrap() as u64,
        named_objects_max: objects.named_len() as u64,
        ..Limits::default()
    };
    for threads in [1, 2] {
        let with = |limits| IngestOptions { limits, threads, ..keeping(HashKind::Sha1) };
        assert!(take(&bytes(), &Store::default(), &with(exact.clone())).is_ok());
        for (name, limits) in [
            ("objects_max", Limits { objects_max: exact.objects_max - 1, ..exact.clone() }),
            (
                "inflated_bytes_max",
                Limits { inflated_bytes_max: exact.inflated_bytes_max - 1, ..exact.clone() },
            ),
            (
                "object_bytes_max",
                Limits { object_bytes_max: exact.object_bytes_max - 1, ..exact.clone() },
            ),
            (
                "named_objects_max",
                Limits { named_objects_max: exact.named_objects_max - 1, ..exact.clone() },
            ),
        ] {
            let said = refused(&with(limits));
            assert!(said.contains(name), "{said}");
        }
    }
}

#[test]
fn a_small_cache_makes_no_other_objects() {
    let expected = take(&bytes(), &Store::default(), &keeping(HashKind::Sha1)).unwrap();
    let expected = expected.objects(HashKind::Sha1);
    for (cache, big) in [(0, 1 << 20), (1 << 20, 1 << 20), (96 << 20, 1), (96 << 20, 500)] {
        let mut options = keeping(HashKind::Sha1);
        options.limits.base_cache_bytes_max = cache;
        options.limits.big_file_bytes = big;
        let taken = take(&bytes(), &Store::default(), &options).unwrap();
        assert_eq!(taken.objects(HashKind::Sha1), expected);
        assert_eq!(taken.ingested.objects.boundary().count(), 0);
        assert_eq!(taken.files().len(), 3);
    }
}
