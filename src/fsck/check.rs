//! Checking objects, one at a time.

use super::finding::{Finding, Refused, Report};
use super::message::FsckId;
use super::options::FsckOptions;
use super::special::{SpecialBlobs, SpecialRoles};
use super::{commit, gitattributes, gitmodules, tag, tree};
use crate::model::{ObjectKind, oid};

/// Checks objects; shared by all threads of a push.
#[derive(Clone, Debug)]
pub struct Fsck {
    options: FsckOptions,
}

/// What became of an object that [`SpecialBlobs`] asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialContent<'a> {
    /// It is a blob with these bytes.
    Blob(&'a [u8]),
    /// It is a blob that memory has no room for.
    TooLarge,
    /// It is not a blob.
    OtherKind,
    /// It is nowhere to be found.
    Missing,
}

impl Fsck {
    /// A check with these options.
    pub fn new(options: FsckOptions) -> Self {
        Self { options }
    }

    /// Checks an object, and calls `sink` with each finding as it is made: a few for commits, tags
    /// and trees; of a `.gitmodules` blob no more than [`Findings::KEPT_MAX`](super::Findings::KEPT_MAX) and
    /// the first error.
    ///
    /// A tree's special blobs are noted in `special`. A blob is checked if it was noted there
    /// before, else nothing is done about it.
    pub fn check(
        &self,
        kind: ObjectKind,
        id: &oid,
        data: &[u8],
        special: &mut SpecialBlobs,
        sink: &mut dyn FnMut(Finding),
    ) {
        if kind == ObjectKind::Blob {
            let roles = special.due(id);
            if !roles.is_empty() {
                self.check_special(id, roles, SpecialContent::Blob(data), sink);
                special.mark_checked(id, roles);
            }
            return;
        }
        let mut report = Report::new(&self.options, id, sink);
        // Whether it is refused is told by the findings. An object on the skip list cannot be read
        // on where its header is broken; a tree has names all the same.
        let _: Result<(), Refused> = match kind {
            ObjectKind::Tree => tree::check(data, special, &mut report),
            _ if report.is_on_skip_list() => Ok(()),
            ObjectKind::Commit => commit::check(data, &mut report),
            ObjectKind::Tag => tag::check(data, &mut report),
            ObjectKind::Blob => Ok(()),
        };
    }

    /// Checks an object as the special files that trees say it is.
    pub fn check_special(
        &self,
        id: &oid,
        roles: SpecialRoles,
        content: SpecialContent<'_>,
        sink: &mut dyn FnMut(Finding),
    ) {
        let mut report = Report::new(&self.options, id, sink);
        if report.is_on_skip_list() {
            return;
        }
        if roles.gitmodules {
            let _: Result<(), Refused> = as_gitmodules(content, &mut report);
        }
        if roles.gitattributes {
            let _: Result<(), Refused> = as_gitattributes(content, &mut report);
        }
    }
}

fn as_gitmodules(content: SpecialContent<'_>, report: &mut Report<'_>) -> Result<(), Refused> {
    match content {
        SpecialContent::Blob(data) => gitmodules::check(data, report),
        SpecialContent::TooLarge => {
            report.add(FsckId::GitmodulesLarge, ".gitmodules too large to parse")
        }
        SpecialContent::OtherKind => {
            report.add(FsckId::GitmodulesBlob, "non-blob found at .gitmodules")
        }
        SpecialContent::Missing => {
            report.add(FsckId::GitmodulesMissing, "unable to read .gitmodules blob")
        }
    }
}

fn as_gitattributes(content: SpecialContent<'_>, report: &mut Report<'_>) -> Result<(), Refused> {
    match content {
        SpecialContent::Blob(data) => gitattributes::check(data, report),
        SpecialContent::TooLarge => gitattributes::too_large(report),
        SpecialContent::OtherKind => {
            report.add(FsckId::GitattributesBlob, "non-blob found at .gitattributes")
        }
        SpecialContent::Missing => {
            report.add(FsckId::GitattributesMissing, "unable to read .gitattributes blob")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsck::{Findings, Severity};
    use crate::model::{HashKind, ObjectId};

    fn gitmodules(data: &[u8]) -> Vec<Finding> {
        let mut options = FsckOptions::strict(HashKind::Sha1);
        options.set("gitmodulesname", "warn").unwrap();
        let roles = SpecialRoles { gitmodules: true, gitattributes: false };
        let content = SpecialContent::Blob(data);
        let mut found = Vec::new();
        let id = ObjectId::empty_blob(HashKind::Sha1);
        Fsck::new(options).check_special(&id, roles, content, &mut |finding| found.push(finding));
        found
    }

    #[test]
    fn a_blob_made_of_faults_has_few_findings_and_its_first_error_is_among_them() {
        let head = format!("[submodule \"../{}\"]\n", "x".repeat(1 << 20));
        let found =
            gitmodules(format!("{head}{}url = -x\nurl = -y\n", "a\n".repeat(1 << 18)).as_bytes());
        assert_eq!(found.len(), Findings::KEPT_MAX + 1);
        let last = found.last().unwrap();
        assert_eq!(
            (last.severity, last.text.to_vec()),
            (Severity::Error, b"disallowed submodule url: -x".to_vec())
        );
        assert!(found.iter().all(|finding| finding.text.len() <= Finding::LINE_BYTES_MAX));
    }

    #[test]
    fn what_is_no_blob_or_not_there_is_told_for_each_role() {
        let fsck = Fsck::new(FsckOptions::strict(HashKind::Sha1));
        let both = SpecialRoles { gitmodules: true, gitattributes: true };
        let id = ObjectId::empty_blob(HashKind::Sha1);
        for (content, expected) in [
            (SpecialContent::TooLarge, ["gitmodulesLarge", "gitattributesLarge"]),
            (SpecialContent::OtherKind, ["gitmodulesBlob", "gitattributesBlob"]),
            (SpecialContent::Missing, ["gitmodulesMissing", "gitattributesMissing"]),
        ] {
            let mut found = Vec::new();
            fsck.check_special(&id, both, content, &mut |finding| found.push(finding.message));
            assert_eq!(found.iter().map(|id| id.as_str()).collect::<Vec<_>>(), expected);
        }
    }
}
