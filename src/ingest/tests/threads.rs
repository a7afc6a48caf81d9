//! However many threads resolve the deltas, the result is the same.

use crate::ingest::testing::*;
use crate::ingest::*;
use crate::model::{HashKind, ObjectId, ObjectKind};
use crate::pack::writer::{PackBuilder, encode_delta};
use std::path::PathBuf;

const FAMILIES: u32 = 300;
const MEMBERS: u32 = 9;

fn content(family: u32, member: u32) -> Vec<u8> {
    let line = format!("member {member} of family {family}\n");
    [line.repeat(5).as_bytes(), b"and what they have in common, which is quite a lot"].concat()
}

fn id(family: u32, member: u32) -> ObjectId {
    id_of(HashKind::Sha1, ObjectKind::Blob, &content(family, member))
}

/// Families of deltas: by offset, by id with the base before or behind, some without their first
/// member, some with one that comes twice.
fn families(thin: bool) -> Vec<u8> {
    let mut builder = PackBuilder::new(HashKind::Sha1, 1);
    for family in 0..FAMILIES {
        let of = |member: u32| content(family, member);
        let delta = |member: u32| encode_delta(&of(member - 1), &of(member)).unwrap();
        match family % 3 {
            0 => {
                let mut base = builder.whole(ObjectKind::Blob, &of(0));
                for member in 1..MEMBERS {
                    base = builder.ofs_delta(base, &delta(member));
                }
                let again = encode_delta(&of(4), &of(6)).unwrap();
                builder.ref_delta(id(family, 4), &again);
            }
            1 => {
                for member in (1..MEMBERS).rev() {
                    builder.ref_delta(id(family, member - 1), &delta(member));
                }
                if !thin {
                    builder.whole(ObjectKind::Blob, &of(0));
                }
            }
            _ => {
                let base = builder.whole(ObjectKind::Blob, &of(0));
                builder.whole(ObjectKind::Blob, &of(0));
                for member in 1..MEMBERS {
                    builder.ref_delta(id(family, member - 1), &delta(member));
                }
                let far = encode_delta(&of(0), &of(5)).unwrap();
                builder.ofs_delta(base, &far);
            }
        }
    }
    builder.finish()
}

fn all_files(taken: &Taken) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |file: &PathBuf| std::fs::read(taken.objects_dir().join(file)).unwrap();
    taken.files().into_iter().map(|file| (file.clone(), read(&file))).collect()
}

#[test]
fn the_files_are_the_same() {
    let bases = (0..FAMILIES).map(|family| (ObjectKind::Blob, content(family, 0)));
    for (bytes, store) in
        [(families(false), Store::default()), (families(true), Store::with(bases))]
    {
        let with = |threads| {
            let options = IngestOptions { threads, ..keeping(HashKind::Sha1) };
            take(&bytes, &store, &options).unwrap()
        };
        let one = with(1);
        assert!(one.ingested.object_count > 2 * 1000);
        for threads in [2, 4] {
            let more = with(threads);
            assert!(all_files(&more) == all_files(&one), "{threads}");
            assert_eq!(more.ingested.objects.len(), one.ingested.objects.len());
        }
    }
}

#[test]
fn the_error_is_of_the_same_sort() {
    let bytes = families(true);
    for threads in [1, 4] {
        let options = IngestOptions { threads, ..keeping(HashKind::Sha1) };
        let error = take(&bytes, &Store::default(), &options).unwrap_err();
        let IngestError::UnresolvedDeltas { count, base } = error else { panic!("{error}") };
        assert_eq!(count, u64::from(FAMILIES / 3 * (MEMBERS - 1)));
        // The last member of the family comes first.
        assert_eq!(base, id(1, MEMBERS - 2));
    }
    let mut options = IngestOptions { threads: 4, ..keeping(HashKind::Sha1) };
    options.limits.delta_depth_max = 3;
    let error = take(&families(false), &Store::default(), &options).unwrap_err();
    assert!(matches!(error, IngestError::DeltaTooDeep { .. }), "{error}");
}
