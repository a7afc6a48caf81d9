//! Objects that are made while the pack arrives are those that would be made afterwards.

use crate::ingest::testing::*;
use crate::ingest::*;
use crate::links::Link;
use crate::model::{HashKind, Limits, ObjectId, ObjectKind};
use crate::pack::writer::{PackBuilder, encode_delta};
use std::collections::{BTreeMap, BTreeSet};

const HASH: HashKind = HashKind::Sha1;

/// Bytes that do not repeat, and a few that say which they are.
fn large(family: u32, member: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(family) + 1;
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    })
    .take(len)
    .collect();
    bytes.extend_from_slice(format!("member {member}").as_bytes());
    bytes
}

/// Enough small objects for several threads.
fn fill(builder: &mut PackBuilder) {
    for number in 0..2000 {
        builder.whole(ObjectKind::Blob, format!("filling {number}").as_bytes());
    }
}

fn with(threads: usize) -> IngestOptions {
    IngestOptions { threads, ..keeping(HASH) }
}

fn ids(taken: &Taken) -> BTreeMap<ObjectId, ObjectKind> {
    taken.objects(HASH).into_iter().map(|(id, (kind, _))| (id, kind)).collect()
}

/// Families of more bytes together than are held: each is asked for again when others have come.
#[test]
fn what_is_far_from_its_base_is_made_from_it_all_the_same() {
    const FAMILIES: u32 = 40;
    let of = |family, member| large(family, member, 256 << 10);
    let mut builder = PackBuilder::new(HASH, 0);
    fill(&mut builder);
    let mut last = BTreeMap::new();
    for member in 0..6 {
        for family in 0..FAMILIES {
            let content = of(family, member);
            let offset = match last.get(&family) {
                None => builder.whole(ObjectKind::Blob, &content),
                Some(&base) => {
                    let delta = encode_delta(&of(family, member - 1), &content).unwrap();
                    let offset = builder.ofs_delta(base, &delta);
                    // Another one at once, while that is held.
                    let again = encode_delta(&content, &of(family, 100 + member)).unwrap();
                    builder.ofs_delta(offset, &again);
                    offset
                }
            };
            last.insert(family, offset);
        }
    }
    let bytes = builder.finish();
    let one = take(&bytes, &Store::default(), &with(1)).unwrap();
    let found = ids(&one);
    for family in 0..FAMILIES {
        for member in (0..6).chain(101..106) {
            let id = id_of(HASH, ObjectKind::Blob, &of(family, member));
            assert_eq!(found.get(&id), Some(&ObjectKind::Blob), "{family} {member}");
        }
    }
    let limits = Limits { base_cache_bytes_max: 1 << 20, ..Limits::default() };
    let little = IngestOptions { limits, ..with(4) };
    for options in [with(2), with(4), little] {
        let other = take(&bytes, &Store::default(), &options).unwrap();
        assert!(ids(&other) == found);
        assert_eq!(other.ingested.objects.len(), one.ingested.objects.len());
    }
}

fn tree(entries: impl Iterator<Item = u32>) -> Vec<u8> {
    let entry = |number: u32| {
        let mut id = [7; 20];
        id[..4].copy_from_slice(&number.to_be_bytes());
        [format!("100644 file{number:06}\0").as_bytes(), &id].concat()
    };
    entries.flat_map(entry).collect()
}

#[test]
fn trees_that_are_made_early_name_what_their_bytes_name() {
    let mut builder = PackBuilder::new(HASH, 1);
    fill(&mut builder);
    let mut named = BTreeSet::new();
    for family in 0..50u32 {
        let first = family * 1000;
        let mut base = tree(first..first + 100);
        let mut offset = builder.whole(ObjectKind::Tree, &base);
        for member in 1..20 {
            // One entry goes, one comes, the rest stays.
            let content = tree(
                (first..first + 100).filter(|n| n % 100 != member).chain([first + 200 + member]),
            );
            let delta = encode_delta(&base, &content).unwrap();
            offset = builder.ofs_delta(offset, &delta);
            named.insert(first + 200 + member);
            base = content;
        }
        named.extend(first..first + 100);
    }
    let bytes = builder.finish();
    for threads in [1, 4] {
        let taken = take(&bytes, &Store::default(), &with(threads)).unwrap();
        let boundary: BTreeSet<Link> = taken.ingested.objects.boundary().collect();
        let expected = named.iter().map(|number: &u32| {
            let mut id = [7; 20];
            id[..4].copy_from_slice(&number.to_be_bytes());
            Link { id: ObjectId::from_bytes_or_panic(&id), kind: ObjectKind::Blob }
        });
        assert!(boundary == expected.collect(), "{threads}");
        assert!(!taken.ingested.objects.has_malformed());
    }
}

#[test]
fn a_fault_of_the_pack_comes_before_one_of_what_is_made() {
    for threads in [1, 4] {
        let mut builder = PackBuilder::new(HASH, 1);
        let base = builder.whole(ObjectKind::Blob, b"a base of some bytes");
        let delta = encode_delta(b"a base of some other", b"and what is made of it").unwrap();
        let mut wrong = delta.clone();
        wrong[0] += 1;
        let offset = builder.ofs_delta(base, &wrong);
        fill(&mut builder);
        let bytes = builder.finish();
        let error = take(&bytes, &Store::default(), &with(threads)).unwrap_err();
        let IngestError::BadDelta { offset: told, .. } = error else { panic!("{error}") };
        assert_eq!(told, offset);
        let cut = bytes.get(..bytes.len() - 30).unwrap();
        let error = take(cut, &Store::default(), &with(threads)).unwrap_err();
        assert!(matches!(error, IngestError::EndedEarly { .. }), "{error}");
    }
}

#[test]
fn what_is_wrong_with_an_object_is_told_when_the_pack_has_come() {
    let base = tree(0..100);
    let name = [b"100644 a name that is too long\0".as_slice(), &[7; 20]].concat();
    let content = [base.clone(), name].concat();
    let mut builder = PackBuilder::new(HASH, 1);
    let offset = builder.whole(ObjectKind::Tree, &base);
    builder.ofs_delta(offset, &encode_delta(&base, &content).unwrap());
    fill(&mut builder);
    let bytes = builder.finish();
    for threads in [1, 4] {
        let limits = Limits { entry_name_bytes_max: 12, ..Limits::default() };
        let options = IngestOptions { limits, ..with(threads) };
        let error = take(&bytes, &Store::default(), &options).unwrap_err();
        assert!(matches!(error, IngestError::NameTooLong { .. }), "{error}");
        let cut = bytes.get(..bytes.len() - 30).unwrap();
        let error = take(cut, &Store::default(), &options).unwrap_err();
        assert!(matches!(error, IngestError::EndedEarly { .. }), "{error}");
    }
}

#[test]
fn a_pack_that_expands_too_far_comes_before_what_is_wrong_with_its_objects() {
    let mut builder = PackBuilder::new(HASH, 1);
    let base = builder.whole(ObjectKind::Blob, b"a base of some bytes");
    let delta = encode_delta(b"a base of some", b"and what is made of it").unwrap();
    builder.ofs_delta(base, &delta);
    fill(&mut builder);
    builder.whole(ObjectKind::Blob, &vec![0; 2 << 20]);
    let bytes = builder.finish();
    for (threads, base_cache_bytes_max) in [(1, 32 << 20), (4, 32 << 20), (1, 512 << 10)] {
        let mut limits = Limits { base_cache_bytes_max, ..Limits::default() };
        let error = |limits: &Limits| {
            let options = IngestOptions { limits: limits.clone(), ..with(threads) };
            take(&bytes, &Store::default(), &options).unwrap_err()
        };
        assert!(matches!(error(&limits), IngestError::BadDelta { .. }));
        (limits.expansion_free_bytes, limits.expansion_ratio_max) = (1 << 20, 1);
        assert!(matches!(error(&limits), IngestError::ExpandsTooFar { .. }));
    }
}

#[test]
fn an_entry_that_cannot_be_read_counts_as_one_however_the_tree_was_made() {
    let base = tree(0..30);
    let content = [base.clone(), b"no entry".to_vec()].concat();
    for is_delta in [false, true] {
        let mut builder = PackBuilder::new(HASH, 1);
        let offset = builder.whole(ObjectKind::Tree, &base);
        if is_delta {
            builder.ofs_delta(offset, &encode_delta(&base, &content).unwrap());
        } else {
            builder.whole(ObjectKind::Tree, &content);
        }
        let bytes = builder.finish();
        let limits = Limits { tree_entries_max: 30, ..Limits::default() };
        let options = IngestOptions { limits, ..with(1) };
        let error = take(&bytes, &Store::default(), &options).unwrap_err();
        assert!(matches!(error, IngestError::TooManyTreeEntries { .. }), "{is_delta} {error}");
    }
}
