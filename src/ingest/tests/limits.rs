//! Each limit at its value and one past it.

use super::history::pack;
use crate::ingest::testing::*;
use crate::ingest::*;
use crate::model::{ByteBudget, CancelToken, HashKind, Limits, ObjectId, ObjectKind, UnpackLimit};
use crate::pack::writer::{PackBuilder, encode_delta};
use std::fmt::Write;
use std::sync::Arc;

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
    let entries = |object: &(ObjectKind, Vec<u8>)| match object.0 {
        ObjectKind::Tree => crate::links::tree(&object.1, HashKind::Sha1).count(),
        _ => 0,
    };
    let widest = taken.objects(HashKind::Sha1).values().map(entries).max().unwrap() as u64;
    let largest = taken.objects(HashKind::Sha1).values().map(|object| object.1.len()).max();
    let exact = Limits {
        objects_max: (*object_count).into(),
        inflated_bytes_max: *inflated_bytes,
        object_bytes_max: largest.unwrap() as u64,
        named_objects_max: objects.named_len() as u64,
        tree_entries_max: widest,
        expansion_free_bytes: *inflated_bytes,
        expansion_ratio_max: 1,
        ..Limits::default()
    };
    assert!(*inflated_bytes > taken.ingested.received_bytes);
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
                "tree_entries_max",
                Limits { tree_entries_max: exact.tree_entries_max - 1, ..exact.clone() },
            ),
            (
                "expansion_ratio_max",
                Limits { expansion_free_bytes: exact.expansion_free_bytes - 1, ..exact.clone() },
            ),
            (
                "named_objects_max",
                Limits { named_objects_max: exact.named_objects_max - 1, ..exact.clone() },
            ),
        ] {
            let said = refused(&with(limits));
            assert_eq!(normal(&said), normal(told(name)));
        }
    }
}

/// What the table says that a client is told.
fn told(name: &str) -> &'static str {
    Limits::TABLE.iter().find(|row| row.name == name).unwrap().told
}

/// A message with `N` for each number and `ID` for each object.
fn normal(message: &str) -> String {
    let words = message.split(' ').map(|word| {
        let digits = word.trim_end_matches([',', ':']);
        match digits.parse::<u64>() {
            Ok(_) => word.replace(digits, "N"),
            Err(_) if ObjectId::from_hex(word.as_bytes()).is_ok() => "ID".to_owned(),
            Err(_) => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn limits_of_one_object_are_told_as_the_table_says() {
    let id = blob_id();
    let commit = format!("tree {id}\nparent {id}\nparent {id}\nauthor x\n\n").into_bytes();
    let tree = [b"100644 name\0".as_slice(), id.as_slice()].concat();
    let cases: [(&str, ObjectKind, &[u8], u64); 5] = [
        ("commit_parents_max", ObjectKind::Commit, &commit, 2),
        ("entry_name_bytes_max", ObjectKind::Tree, &tree, 4),
        ("tree_entries_max", ObjectKind::Tree, &tree, 1),
        ("metadata_bytes_max", ObjectKind::Tree, &tree, tree.len() as u64),
        ("object_bytes_max", ObjectKind::Tree, &tree, tree.len() as u64),
    ];
    for (name, kind, content, value) in cases {
        let mut builder = PackBuilder::new(HashKind::Sha1, 1);
        builder.whole(kind, content);
        let bytes = builder.finish();
        // In memory, and as a stream.
        for big_file_bytes in [512 << 20, 1] {
            let mut options = keeping(HashKind::Sha1);
            options.limits.big_file_bytes = big_file_bytes;
            let row = Limits::TABLE.iter().find(|row| row.name == name).unwrap();
            *(row.place)(&mut options.limits) = value;
            assert!(take(&bytes, &Store::default(), &options).is_ok(), "{name}");
            *(row.place)(&mut options.limits) = value - 1;
            let error = take(&bytes, &Store::default(), &options).unwrap_err();
            assert_eq!(normal(&error.to_string()), row.told);
            assert_eq!((error.blame(), error.limit().unwrap().name), (Blame::Limit, name));
        }
    }
}

fn blob_id() -> ObjectId {
    id_of(HashKind::Sha1, ObjectKind::Blob, b"")
}

#[test]
fn a_list_that_grows_with_each_commit_expands_less_than_the_limit_allows() {
    // What expands most among real histories: a long file, a line of which changes each time.
    let (directory, lines) = (tempfile::tempdir().unwrap(), 2_000);
    let repository = directory.path().join("r.git");
    init(&repository, HashKind::Sha1);
    let line = |n: u32| format!("{:08x} a line of the list\n", n.wrapping_mul(0x9e37_79b9));
    let mut stream = String::new();
    for n in 0..200 {
        let text: String = (0..lines + n).map(line).collect();
        write!(
            stream,
            "commit refs/heads/main\ncommitter A <a@b> {n} +0000\ndata 1\nm\n\
             M 100644 inline list\ndata {}\n{text}\n",
            text.len()
        )
        .unwrap();
    }
    git_ok(&repository, &["fast-import", "--quiet"], stream.as_bytes());
    let arguments = ["pack-objects", "--stdout", "--revs", "-q", "--all", "--depth=50"];
    let bytes = git_ok(&repository, &arguments, b"");
    let mut options = keeping(HashKind::Sha1);
    options.limits.expansion_free_bytes = 0;
    let taken = take(&bytes, &Store::default(), &options).unwrap();
    let ratio = taken.ingested.inflated_bytes / taken.ingested.received_bytes;
    assert!((50..options.limits.expansion_ratio_max / 2).contains(&ratio), "{ratio}");
}

#[test]
fn so_many_objects_are_kept_as_a_pack_whatever_the_unpack_limit() {
    let mut options = unpacking(HashKind::Sha1);
    let count = take(&bytes(), &Store::default(), &options).unwrap().ingested.object_count;
    options.limits.unpack_objects_max = u64::from(count) + 1;
    let taken = take(&bytes(), &Store::default(), &options).unwrap();
    assert_eq!(taken.ingested.stored, Stored::Loose { objects: count });
    options.limits.unpack_objects_max = count.into();
    assert_eq!(take(&bytes(), &Store::default(), &options).unwrap().pack_bytes(), bytes());
}

#[test]
fn without_shared_memory_the_objects_are_the_same() {
    // Some of the blobs are larger than what a push has to itself for one object.
    let mut builder = PackBuilder::new(HashKind::Sha1, 1);
    let mut contents = vec![vec![7; 1 << 20]];
    let mut base = builder.whole(ObjectKind::Blob, &contents[0]);
    for n in 0..8u8 {
        let last = contents.last().unwrap();
        let next = [&[n][..], last, &[n]].concat();
        base = builder.ofs_delta(base, &encode_delta(last, &next).unwrap());
        contents.push(next);
    }
    let large = builder.finish();
    for bytes in [bytes(), large] {
        for threads in [1, 2] {
            let mut options = IngestOptions { threads, ..keeping(HashKind::Sha1) };
            let expected = take(&bytes, &Store::default(), &options).unwrap();
            options.limits.push_memory_bytes_max = 0;
            let taken = take(&bytes, &Store::default(), &options).unwrap();
            assert!(taken.ingested.content_bytes_peak <= 4 << 20);
            assert_eq!(taken.objects(HashKind::Sha1), expected.objects(HashKind::Sha1));
            assert_eq!(taken.files().len(), 3);
        }
    }
}

#[test]
fn what_a_push_has_taken_of_the_memory_goes_back() {
    let limits = Limits::default();
    let budget = Arc::new(ByteBudget::new(limits.push_memory_bytes()));
    let bytes = bytes();
    for options in [keeping(HashKind::Sha1), unpacking(HashKind::Sha1)] {
        let (destination, _root) = destination();
        let cancel = CancelToken::new();
        let take = |input: &mut &[u8]| {
            let store = Store::default();
            ingest(input, &store, &destination, &options, &cancel, budget.owned_share())
        };
        // The first one succeeds, the other one ends early.
        let taken = take(&mut &bytes[..]).unwrap();
        assert!(take(&mut &bytes[..bytes.len() / 2]).is_err());
        assert_eq!(taken.memory.bytes(), 0, "its tables are small");
        let all = limits.push_memory_bytes_max;
        assert_eq!(budget.owned_share().grow_up_to(all, 0), all);
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
