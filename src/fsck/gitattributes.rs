//! The rules for the content of `.gitattributes`: sizes, which git's parsers could not bear.

use super::finding::{Refused, Report};
use super::message::FsckId;

/// LIMIT: bytes of a blob, as in git.
const BYTES_MAX: usize = 100 << 20;

/// LIMIT: from so many bytes on a line is too long, as in git.
const LINE_BYTES: usize = 2048;

/// Looks at the size, and at the lines up to the first NUL: git reads no further.
pub(super) fn check(data: &[u8], report: &mut Report<'_>) -> Result<(), Refused> {
    if data.len() > BYTES_MAX {
        return too_large(report);
    }
    let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.split(|byte| *byte == b'\n').any(|line| line.len() >= LINE_BYTES) {
        let text = ".gitattributes has too long lines to parse";
        return report.add(FsckId::GitattributesLineLength, text);
    }
    Ok(())
}

pub(super) fn too_large(report: &mut Report<'_>) -> Result<(), Refused> {
    report.add(FsckId::GitattributesLarge, ".gitattributes too large to parse")
}
