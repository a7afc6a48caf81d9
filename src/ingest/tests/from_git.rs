//! Packs that git made are stored as git stores them.

use super::history::{COMMITS, pack, repository};
use crate::ingest::testing::*;
use crate::ingest::*;
use crate::model::{HashKind, ObjectKind};
use std::os::unix::fs::PermissionsExt;

const HASHES: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

/// Packs of the whole history in every form that git writes.
fn whole_packs(hash: HashKind) -> Vec<Vec<u8>> {
    let forms: [&[&str]; 5] = [
        &["--no-reuse-delta", "--depth=50", "--window=20", "--delta-base-offset"],
        &["--no-reuse-delta", "--depth=50", "--window=20"],
        &["--no-reuse-delta", "--depth=4095", "--window=2", "--delta-base-offset"],
        &["--no-reuse-delta", "--depth=4095", "--window=2"],
        &["--no-reuse-delta", "--depth=0"],
    ];
    forms.iter().map(|form| pack(hash, form, "")).collect()
}

#[test]
fn a_whole_pack_is_stored_byte_for_byte_with_the_index_that_git_writes() {
    for hash in HASHES {
        for bytes in whole_packs(hash) {
            let taken = take(&bytes, &Store::default(), &keeping(hash)).unwrap();
            let pack = taken.pack();
            assert_eq!(taken.pack_bytes(), bytes);
            assert_eq!((pack.appended_bases, &pack.keep), (0, &None));
            assert_eq!(pack.checksum, taken.ingested.received_pack_checksum);

            check_index(hash, &taken);
        }
    }
}

#[test]
fn kept_or_loose_the_objects_are_those_of_the_pack() {
    for hash in HASHES {
        let expected = all_objects(repository(hash));
        for bytes in whole_packs(hash) {
            for threads in [1, 3] {
                let options = IngestOptions { threads, ..keeping(hash) };
                let taken = take(&bytes, &Store::default(), &options).unwrap();
                assert_eq!(taken.objects(hash), expected);
                check_facts(&taken, &expected);
            }
        }
        let bytes = pack(hash, &["--no-reuse-delta"], "");
        let taken = take(&bytes, &Store::default(), &unpacking(hash)).unwrap();
        let objects = u32::try_from(expected.len()).unwrap();
        assert_eq!(taken.ingested.stored, Stored::Loose { objects });
        assert_eq!(taken.objects(hash), expected);
        assert!(!taken.objects_dir().join("pack").exists());
        check_facts(&taken, &expected);
    }
}

fn check_facts(taken: &Taken, expected: &Objects) {
    let Taken { ingested, .. } = taken;
    assert_eq!(ingested.object_count as usize, expected.len());
    let size: usize = expected.values().map(|(_, content)| content.len()).sum();
    assert_eq!(ingested.inflated_bytes, size as u64);
    let objects = &ingested.objects;
    assert_eq!(objects.len(), expected.len());
    for (id, (kind, _)) in expected {
        assert_eq!(objects.kind(id), Some(*kind));
    }
    assert_eq!(objects.boundary().count(), 0);
    assert!(objects.kinds_agree() && !objects.has_malformed());
    // Tags are named by nothing; the last commit is named by the last tag.
    assert_eq!(objects.named_len(), expected.len() - COMMITS / 10);
}

#[test]
fn files_have_gits_modes_and_only_the_names_that_were_asked_for() {
    let bytes = pack(HashKind::Sha1, &["--delta-base-offset"], "");
    let options = IngestOptions { keep: Some("why".to_owned()), ..keeping(HashKind::Sha1) };
    let taken = take_to_disk(&bytes, &Store::default(), &options).unwrap();
    let name = format!("pack-{}", taken.pack().checksum);
    let expected: Vec<std::path::PathBuf> =
        ["idx", "keep", "pack", "rev"].map(|end| format!("pack/{name}.{end}").into()).into();
    assert_eq!(taken.files(), expected);
    for file in taken.files() {
        let path = taken.objects_dir().join(file);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o444);
    }
    let keep = taken.pack().keep.as_ref().unwrap();
    assert_eq!(std::fs::read(taken.objects_dir().join(keep)).unwrap(), b"why\n");

    let options = IngestOptions { reverse_index_from: None, ..keeping(HashKind::Sha1) };
    let taken = take_to_disk(&bytes, &Store::default(), &options).unwrap();
    assert_eq!(taken.files().len(), 2);
    assert_eq!(taken.pack().rev, None);
    assert_eq!(taken.destination.disk.counts().file_flushes, 0, "migration flushes");

    let taken = take_to_disk(&bytes, &Store::default(), &unpacking(HashKind::Sha1)).unwrap();
    for file in taken.files() {
        let path = taken.objects_dir().join(file);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o444);
    }
}

#[test]
fn a_thin_pack_is_completed_behind_the_bytes_that_came() {
    for hash in HASHES {
        let old = all_objects_of(hash, "main~5");
        let expected = all_objects(repository(hash));
        for form in [&["--thin", "--delta-base-offset"][..], &["--thin"]] {
            let bytes = pack(hash, form, "main\n^main~5\n");
            for compressed in [false, true] {
                let mut store = store_of(&old);
                store.compressed = compressed;
                let taken = take(&bytes, &store, &keeping(hash)).unwrap();
                check_completed(hash, &bytes, &taken);
                let objects = taken.objects(hash);
                assert!(objects.iter().all(|(id, object)| expected[id] == *object));
                let own = objects.keys().filter(|id| !old.contains_key(*id)).count();
                assert_eq!(own, taken.ingested.object_count as usize);
                assert_eq!(taken.ingested.objects.len(), own);
                for link in taken.ingested.objects.boundary() {
                    assert_eq!(expected[&link.id].0, link.kind);
                }
            }
            let taken = take(&bytes, &store_of(&old), &unpacking(hash)).unwrap();
            let objects = taken.objects(hash);
            assert_eq!(objects.len(), taken.ingested.object_count as usize);
            assert!(objects.keys().all(|id| !old.contains_key(id)));
        }
    }
}

fn check_completed(hash: HashKind, received: &[u8], taken: &Taken) {
    let (pack, stored) = (taken.pack(), taken.pack_bytes());
    assert!(pack.appended_bases > 0);
    let body = 12..received.len() - hash.len_in_bytes();
    assert_eq!(stored[body.clone()], received[body]);
    assert_eq!(stored[..8], received[..8]);
    assert_eq!(stored[stored.len() - hash.len_in_bytes()..], *pack.checksum.as_slice());
    assert_ne!(pack.checksum, taken.ingested.received_pack_checksum);
    let count = u32::from_be_bytes(stored[8..12].try_into().unwrap());
    assert_eq!(count, taken.ingested.object_count + pack.appended_bases);
    check_index(hash, taken);
}

/// git reads the stored pack alone, and makes the index and reverse index of it that we made.
fn check_index(hash: HashKind, taken: &Taken) {
    let directory = taken.root.path().join("git");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("x.pack"), taken.pack_bytes()).unwrap();
    let format = format!("--object-format={hash}");
    git_ok(&directory, &["index-pack", "--rev-index", &format, "-o", "x.idx", "x.pack"], b"");
    let objects = taken.objects_dir();
    let read = |path: &std::path::Path| std::fs::read(path).unwrap();
    assert_eq!(read(&objects.join(&taken.pack().index)), read(&directory.join("x.idx")));
    let rev = taken.pack().rev.as_ref().unwrap();
    assert_eq!(read(&objects.join(rev)), read(&directory.join("x.rev")));
}

/// All objects that a revision leads to.
fn all_objects_of(hash: HashKind, revision: &str) -> Objects {
    let listed = git_ok(repository(hash), &["rev-list", "--objects", revision], b"");
    let listed = String::from_utf8(listed).unwrap();
    let all = all_objects(repository(hash));
    all.into_iter().filter(|(id, _)| listed.contains(&id.to_string())).collect()
}

fn store_of(objects: &Objects) -> Store {
    let objects = objects.iter().map(|(id, object)| (*id, object.clone())).collect();
    Store { objects, ..Store::default() }
}

#[test]
fn objects_that_are_there_already_are_stored_again() {
    let hash = HashKind::Sha1;
    let bytes = pack(hash, &["--delta-base-offset"], "");
    let store = store_of(&all_objects(repository(hash)));
    let taken = take(&bytes, &store, &keeping(hash)).unwrap();
    assert_eq!(taken.pack_bytes(), bytes);
    let taken = take(&bytes, &store, &unpacking(hash)).unwrap();
    assert_eq!(taken.objects(hash).len(), taken.ingested.object_count as usize);
}

#[test]
fn a_pack_of_reference_deltas_that_comes_again_gets_no_bases_from_outside() {
    let hash = HashKind::Sha1;
    let bytes = pack(hash, &["--no-reuse-delta", "--window=20"], "");
    let store = store_of(&all_objects(repository(hash)));
    let taken = take(&bytes, &store, &keeping(hash)).unwrap();
    assert_eq!(taken.pack().appended_bases, 0);
}

#[test]
fn an_empty_pack_leaves_nothing() {
    for hash in HASHES {
        let bytes = pack(hash, &[], "main\n^main\n");
        for options in [keeping(hash), unpacking(hash)] {
            let options = IngestOptions { keep: Some("why".to_owned()), ..options };
            let taken = take(&bytes, &Store::default(), &options).unwrap();
            assert_eq!(taken.ingested.stored, Stored::Nothing);
            assert_eq!(taken.ingested.object_count, 0);
            assert_eq!(taken.ingested.received_bytes, bytes.len() as u64);
            assert_eq!(taken.destination.disk.counts().creates, 0);
            assert!(taken.ingested.objects.is_empty());
        }
    }
}

#[test]
fn trees_made_by_deltas_name_what_they_name_as_whole_ones() {
    // The boundary of a part of the history, told by every form of the same pack.
    for hash in HASHES {
        let old = store_of(&all_objects_of(hash, "main~20"));
        let boundary = |form: &[&str]| {
            let bytes = pack(hash, form, "main\n^main~20\n");
            let taken = take(&bytes, &old, &keeping(hash)).unwrap();
            let objects = taken.ingested.objects;
            let mut links: Vec<_> = objects.boundary().collect();
            links.sort();
            (objects.named_len(), links)
        };
        let whole = boundary(&["--no-reuse-delta", "--depth=0"]);
        assert!(whole.1.iter().any(|link| link.kind == ObjectKind::Tree));
        assert_eq!(whole, boundary(&["--no-reuse-delta", "--depth=50", "--window=30"]));
        assert_eq!(whole, boundary(&["--thin", "--no-reuse-delta", "--window=30"]));
        assert_eq!(whole, boundary(&["--thin", "--no-reuse-delta", "--delta-base-offset"]));
    }
}
