//! The rules for commits.

use super::finding::{Refused, Report};
use super::header::{self, Lines, is_id};
use super::ident;
use super::message::FsckId;

/// Looks at a commit up to the first fault that refuses it.
pub(super) fn check(data: &[u8], report: &mut Report<'_>) -> Result<(), Refused> {
    let hash = report.options().hash();
    header::check(data, report)?;
    let mut lines = Lines::new(data);
    // Without this line git does not look for the others, whatever the fault is worth.
    let Some(tree) = lines.after("tree ") else {
        return report.add(FsckId::MissingTree, "invalid format - expected 'tree' line");
    };
    if !is_id(tree, hash) {
        report.add(FsckId::BadTreeSha1, "invalid 'tree' line format - bad sha1")?;
    }
    while let Some(parent) = lines.after("parent ") {
        if !is_id(parent, hash) {
            report.add(FsckId::BadParentSha1, "invalid 'parent' line format - bad sha1")?;
        }
    }
    let mut authors = 0u64;
    while let Some(author) = lines.after("author ") {
        authors = authors.saturating_add(1);
        ident::check(author, report)?;
    }
    match authors {
        0 => report.add(FsckId::MissingAuthor, "invalid format - expected 'author' line")?,
        1 => {}
        _ => report.add(FsckId::MultipleAuthors, "invalid format - multiple 'author' lines")?,
    }
    let Some(committer) = lines.after("committer ") else {
        return report.add(FsckId::MissingCommitter, "invalid format - expected 'committer' line");
    };
    ident::check(committer, report)?;
    if data.contains(&0) {
        report.add(FsckId::NulInCommit, "NUL byte in the commit object body")?;
    }
    Ok(())
}
