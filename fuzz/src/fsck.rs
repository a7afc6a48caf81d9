//! fsck: what is found in an object is bounded, and nothing is found in one on the skip list.
//!
//! The first byte says which kind of object the rest is; a blob is looked at as every special file.

use packhouse::fsck::{
    Finding, Findings, Fsck, FsckOptions, Severity, SpecialBlobs, SpecialContent, SpecialRoles,
};
use packhouse::model::{HashKind, ObjectId, ObjectKind};

const KINDS: [ObjectKind; 4] =
    [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Tag, ObjectKind::Blob];

pub fn run(bytes: &[u8]) {
    let Some((&first, data)) = bytes.split_first() else { return };
    let kind = KINDS[usize::from(first) % KINDS.len()];
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let found = check(kind, data, hash, FsckOptions::strict(hash));
        assert!(found.len() <= Findings::KEPT_MAX + 1);
        for finding in &found {
            assert!(finding.line().len() <= Finding::LINE_BYTES_MAX);
        }
        // A check that is not strict finds no other faults to refuse.
        let lenient = check(kind, data, hash, FsckOptions::lenient(hash));
        let refuses = |found: &[Finding]| found.iter().any(|f| f.severity == Severity::Error);
        assert!(refuses(&found) || !refuses(&lenient), "{found:?} {lenient:?}");

        let mut skipping = FsckOptions::strict(hash);
        skipping.skip(ObjectId::empty_blob(hash));
        assert_eq!(check(kind, data, hash, skipping), []);
    }
}

fn check(kind: ObjectKind, data: &[u8], hash: HashKind, options: FsckOptions) -> Vec<Finding> {
    let (fsck, id) = (Fsck::new(options), ObjectId::empty_blob(hash));
    let (mut special, mut found) = (SpecialBlobs::new(), Vec::new());
    let mut sink = |finding| found.push(finding);
    if kind == ObjectKind::Blob {
        let roles = SpecialRoles { gitmodules: true, gitattributes: true };
        fsck.check_special(&id, roles, SpecialContent::Blob(data), &mut sink);
    } else {
        fsck.check(kind, &id, data, &mut special, &mut sink);
    }
    // An entry has a mode, a name and an id at least.
    assert!(special.len() * (hash.len_in_bytes() + 3) <= data.len());
    found
}
