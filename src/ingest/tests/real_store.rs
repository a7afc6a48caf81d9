//! Ingest beside a real repository, through its snapshot, and on a disk that changes its mind.

use super::history::{pack, repository};
use crate::ingest::testing::*;
use crate::ingest::*;
use crate::model::{CancelToken, HashKind, ObjectId, ObjectKind};
use crate::pack::writer::{PackBuilder, encode_delta};
use crate::repo::{Disk, SharedPermissions};
use crate::snapshot::{ObjectSnapshot, SnapshotCache, Sources};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BASE: &[u8] = b"some content that is a base";
const NEW: &[u8] = b"some content that is new";

fn snapshot(repository: &Path, hash: HashKind) -> ObjectSnapshot {
    let sources = Sources { own: repository.join("objects"), alternates: Vec::new() };
    SnapshotCache::new(Disk::default(), 1 << 20).snapshot(&sources, hash).unwrap()
}

fn thin_pack() -> Vec<u8> {
    let mut builder = PackBuilder::new(HashKind::Sha1, 6);
    let id = id_of(HashKind::Sha1, ObjectKind::Blob, BASE);
    builder.ref_delta(id, &encode_delta(BASE, NEW).unwrap());
    builder.finish()
}

#[test]
fn a_thin_pack_is_completed_from_packs_and_compared_with_all_that_is_there() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let store = snapshot(repository(hash), hash);
        let expected = all_objects(repository(hash));
        for form in [&["--thin", "--delta-base-offset"][..], &["--thin"]] {
            let bytes = pack(hash, form, "main\n^main~3\n");
            let taken = take(&bytes, &store, &keeping(hash)).unwrap();
            assert!(taken.pack().appended_bases > 0);
            let objects = taken.objects(hash);
            assert!(objects.iter().all(|(id, object)| expected[id] == *object));
            let taken = take(&bytes, &store, &unpacking(hash)).unwrap();
            assert_eq!(taken.objects(hash).len(), taken.ingested.object_count as usize);
        }
    }
}

#[test]
fn a_base_that_arrives_during_the_push_is_found() {
    let root = tempfile::tempdir().unwrap();
    let repository = root.path().join("r.git");
    init(&repository, HashKind::Sha1);
    let store = snapshot(&repository, HashKind::Sha1);
    git_ok(&repository, &["hash-object", "-w", "--stdin"], BASE);
    git_ok(&repository, &["repack", "-adk", "-q"], b"");
    let taken = take(&thin_pack(), &store, &keeping(HashKind::Sha1)).unwrap();
    assert_eq!(taken.pack().appended_bases, 1);
    assert_eq!(taken.objects(HashKind::Sha1).len(), 2);
}

#[test]
fn a_base_that_is_stored_against_a_larger_one_is_used() {
    let root = tempfile::tempdir().unwrap();
    let repository = root.path().join("r.git");
    init(&repository, HashKind::Sha1);
    let lines = (0..3000).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    let (large, base) = (lines.as_bytes(), &lines.as_bytes()[..20_000]);
    let pack_of = |content: &[&[u8]]| {
        let mut builder = PackBuilder::new(HashKind::Sha1, 6);
        let first = builder.whole(ObjectKind::Blob, content[0]);
        builder.ofs_delta(first, &encode_delta(content[0], content[1]).unwrap());
        builder.finish()
    };
    git_ok(&repository, &["index-pack", "--stdin"], &pack_of(&[large, base]));
    let new = [base, b"and one more"].concat();
    let mut builder = PackBuilder::new(HashKind::Sha1, 6);
    let id = id_of(HashKind::Sha1, ObjectKind::Blob, base);
    builder.ref_delta(id, &encode_delta(base, &new).unwrap());
    let bytes = builder.finish();
    let taken =
        take(&bytes, &snapshot(&repository, HashKind::Sha1), &keeping(HashKind::Sha1)).unwrap();
    assert_eq!(taken.pack().appended_bases, 1);
    assert_eq!(taken.objects(HashKind::Sha1).len(), 2);
    // It is compared too when it comes itself.
    let again = pack_of(&[base, large]);
    take(&again, &snapshot(&repository, HashKind::Sha1), &keeping(HashKind::Sha1)).unwrap();
}

/// A store that damages the quarantined pack when a base is read.
struct Damaging<'a>(&'a Path, Store);

impl ExistingObjects for Damaging<'_> {
    fn contains(&self, id: &ObjectId) -> Result<bool, StoreError> {
        self.1.contains(id)
    }
    fn find(&self, id: &ObjectId, refresh: bool) -> Result<Option<ExistingObject>, StoreError> {
        self.1.find(id, refresh)
    }
    fn read(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ObjectKind, Vec<u8>)>, StoreError> {
        for entry in fs::read_dir(self.0.join("pack")).unwrap() {
            let file = fs::OpenOptions::new().write(true).open(entry.unwrap().path()).unwrap();
            file.write_all_at(b"??", 100).unwrap();
        }
        self.1.read(id, bytes_max)
    }
    fn stream(
        &self,
        id: &ObjectId,
        bytes_max: u64,
        sink: &mut dyn FnMut(&[u8]) -> std::ops::ControlFlow<()>,
    ) -> Result<Option<ExistingObject>, StoreError> {
        self.1.stream(id, bytes_max, sink)
    }
    fn compressed(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ExistingObject, Vec<u8>)>, StoreError> {
        self.1.compressed(id, bytes_max)
    }
}

#[test]
fn a_pack_that_changes_on_disk_before_it_is_sealed_is_the_servers_fault() {
    let (mut destination, _root) = destination();
    // So that the test may write to it too.
    destination.permissions = SharedPermissions::Add(0o222);
    destination.held_bytes_max = 0;
    let store = Store::with([(ObjectKind::Blob, BASE.to_vec())]);
    let store = Damaging(destination.directory.path().unwrap(), store);
    let options = keeping(HashKind::Sha1);
    // More than is held in memory while it comes; it does not compress.
    let large: Vec<u8> =
        (0..1u32 << 18).flat_map(|n| n.wrapping_mul(n | 1).to_be_bytes()).collect();
    let mut builder = PackBuilder::new(HashKind::Sha1, 0);
    builder.whole(ObjectKind::Blob, &large);
    let id = id_of(HashKind::Sha1, ObjectKind::Blob, BASE);
    builder.ref_delta(id, &encode_delta(BASE, NEW).unwrap());
    let bytes = builder.finish();
    let input = &mut &bytes[..];
    let error = {
        let share = share(&options.limits);
        ingest(input, &store, &destination, &options, &CancelToken::new(), share).unwrap_err()
    };
    assert!(matches!(error, IngestError::Reread), "{error:?}");
    assert_eq!(error.blame(), Blame::Server);
}
