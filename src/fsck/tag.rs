//! The rules for tags.

use super::finding::{Refused, Report};
use super::header::{self, Lines, is_id};
use super::ident;
use super::message::FsckId;
use crate::model::{ObjectKind, RefName};
use bstr::ByteSlice;

/// Looks at a tag up to the first fault that refuses it.
pub(super) fn check(data: &[u8], report: &mut Report<'_>) -> Result<(), Refused> {
    let hash = report.options().hash();
    header::check(data, report)?;
    let mut lines = Lines::new(data);
    let Some(object) = lines.after("object ") else {
        return report.add(FsckId::MissingObject, "invalid format - expected 'object' line");
    };
    if !is_id(object, hash) {
        report.add(FsckId::BadObjectSha1, "invalid 'object' line format - bad sha1")?;
    }
    let Some(kind) = lines.after("type ") else {
        return report.add(FsckId::MissingTypeEntry, "invalid format - expected 'type' line");
    };
    if ObjectKind::from_bytes(kind).is_none() {
        report.add(FsckId::BadType, "invalid 'type' value")?;
    }
    let Some(name) = lines.after("tag ") else {
        return report.add(FsckId::MissingTagEntry, "invalid format - expected 'tag' line");
    };
    if !RefName::is_deletable([b"refs/tags/", name].concat().as_bstr()) {
        report.add_bytes(FsckId::BadTagName, "invalid 'tag' name: ", name)?;
    }
    let Some(tagger) = lines.after("tagger ") else {
        // Tags of early years have none.
        let text = "invalid format - expected 'tagger' line";
        report.add(FsckId::MissingTaggerEntry, text)?;
        return extra(&lines, report);
    };
    // A bad tagger does not hide what stands behind it.
    let tagger = ident::check(tagger, report);
    extra(&lines, report)?;
    tagger
}

/// Looks for a line between the tagger and the text.
fn extra(lines: &Lines<'_>, report: &mut Report<'_>) -> Result<(), Refused> {
    if lines.has_more() {
        let text = "invalid format - extra header(s) after 'tagger'";
        report.add(FsckId::ExtraHeaderEntry, text)?;
    }
    Ok(())
}
