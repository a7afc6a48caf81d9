//! The header of a commit or tag: whether it has lines at all, and reading them one by one.

use super::finding::{Refused, Report};
use super::message::FsckId;
use crate::model::{HashKind, HexId};
use bstr::ByteSlice;

/// Looks whether the header is made of whole lines without NULs. Nothing else can be said of one
/// that is not.
///
/// The header ends before the first empty line, or with the object.
pub(super) fn check(data: &[u8], report: &mut Report<'_>) -> Result<(), Refused> {
    let header = data.find(b"\n\n").and_then(|end| data.get(..end));
    match header.unwrap_or(data).find_byte(0) {
        Some(offset) => {
            let text = "unterminated header: NUL at offset ";
            report.add_bytes(FsckId::NulInHeader, text, offset.to_string().as_bytes())
        }
        None if header.is_some() || data.ends_with(b"\n") => Ok(()),
        None => report.add(FsckId::UnterminatedHeader, "unterminated header"),
    }
}

/// The lines of a header that was found to have some.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// What stands behind `word` on the next line, if it begins with that; else the line stays the
    /// next.
    pub(super) fn after(&mut self, word: &str) -> Option<&'a [u8]> {
        let line = self.rest.strip_prefix(word.as_bytes())?;
        let (line, rest) = line.split_once_str(b"\n").unwrap_or((line, b""));
        self.rest = rest;
        Some(line)
    }

    /// Whether something stands where the next line or the empty line should be.
    pub(super) fn has_more(&self) -> bool {
        !self.rest.is_empty() && !self.rest.starts_with(b"\n")
    }
}

/// Whether a line is an id, and nothing but that.
pub(super) fn is_id(line: &[u8], hash: HashKind) -> bool {
    HexId::new(line, hash).is_some()
}
