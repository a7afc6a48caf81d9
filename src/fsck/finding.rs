//! What a check has to say of an object, and a bounded collection of it.

use super::message::{FsckId, Level};
use super::options::FsckOptions;
use crate::model::{ObjectId, oid};
use bstr::{BStr, BString};
use std::borrow::Cow;
use std::fmt;

/// Whether a finding refuses its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// It is only told.
    Warning,
    /// The object is refused.
    Error,
}

/// One fault of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The object.
    pub object: ObjectId,
    /// What is wrong with it.
    pub message: FsckId,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong, in git's words, together with the bytes of the object that are. At most
    /// [`Finding::LINE_BYTES_MAX`] bytes.
    pub text: Cow<'static, BStr>,
    /// What git's own reader says of an object that it cannot read: `error: <cause>`, on the line
    /// before.
    pub cause: Option<&'static str>,
}

impl Finding {
    /// LIMIT: bytes of a line, as in git, which cuts longer ones.
    pub const LINE_BYTES_MAX: usize = 4095;

    /// The line that git prints of it, without its end: `error: object <id>: <message>: <text>`.
    ///
    /// Control bytes become `?`, as in all that git prints of errors; line feeds stay.
    pub fn line(&self) -> BString {
        let word = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        let head = format!("{word}: object {}: {}: ", self.object, self.message);
        let mut line = BString::from(head);
        line.extend_from_slice(&self.text);
        line.truncate(Self::LINE_BYTES_MAX);
        for byte in line.iter_mut() {
            if byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n') {
                *byte = b'?';
            }
        }
        line
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {}: {}: {}", self.object, self.message, self.text)
    }
}

/// The first findings of a push, and whether any refuses it.
///
/// A hostile push could be made of findings; only so many are kept, the others are counted.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    dropped: u64,
    has_error: bool,
}

impl Findings {
    /// LIMIT: findings that are kept.
    pub const KEPT_MAX: usize = 256;

    /// Takes one more. An error takes the place of the last warning if there is no room for the
    /// first of them, so that a refusal is always told.
    pub fn push(&mut self, finding: Finding) {
        let is_first_error = finding.severity == Severity::Error && !self.has_error;
        self.has_error |= is_first_error;
        if self.kept.len() < Self::KEPT_MAX {
            self.kept.push(finding);
            return;
        }
        self.dropped = self.dropped.saturating_add(1);
        if is_first_error && let Some(last) = self.kept.last_mut() {
            *last = finding;
        }
    }

    /// Takes over what another thread found.
    pub fn absorb(&mut self, other: Self) {
        self.dropped = self.dropped.saturating_add(other.dropped);
        other.kept.into_iter().for_each(|finding| self.push(finding));
    }

    /// Those that were kept, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.kept.iter()
    }

    /// How many were not kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether an object is refused.
    pub fn has_error(&self) -> bool {
        self.has_error
    }
}

/// The rest of an object need not be looked at: it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

/// Takes what is found in one object.
pub(super) struct Report<'a> {
    options: &'a FsckOptions,
    object: ObjectId,
    is_on_skip_list: bool,
    /// Findings that were told.
    told: usize,
    is_refused: bool,
    sink: &'a mut dyn FnMut(Finding),
}

/// LIMIT: findings that are told of one object, and the first error besides: a `.gitmodules` blob
/// can have one for every two bytes, each with a name of kilobytes.
const TOLD_MAX: usize = Findings::KEPT_MAX;

impl<'a> Report<'a> {
    pub(super) fn new(
        options: &'a FsckOptions,
        object: &oid,
        sink: &'a mut dyn FnMut(Finding),
    ) -> Self {
        let object = object.to_owned();
        let is_on_skip_list = options.skips(&object);
        Self { options, object, is_on_skip_list, told: 0, is_refused: false, sink }
    }

    pub(super) fn options(&self) -> &'a FsckOptions {
        self.options
    }

    /// Whether nobody wants to hear of the object.
    pub(super) fn is_on_skip_list(&self) -> bool {
        self.is_on_skip_list
    }

    /// Tells of a fault; an error if that refuses the object.
    pub(super) fn add(&mut self, message: FsckId, text: &'static str) -> Result<(), Refused> {
        self.tell(message, None, || Cow::Borrowed(text.into()))
    }

    /// Tells that an object cannot be read, and why not; an error if that refuses it.
    pub(super) fn add_caused(
        &mut self,
        message: FsckId,
        text: &'static str,
        cause: &'static str,
    ) -> Result<(), Refused> {
        self.tell(message, Some(cause), || Cow::Borrowed(text.into()))
    }

    /// Tells of a fault together with the bytes at fault.
    pub(super) fn add_bytes(
        &mut self,
        message: FsckId,
        text: &'static str,
        bytes: &[u8],
    ) -> Result<(), Refused> {
        self.tell(message, None, || {
            let room = Finding::LINE_BYTES_MAX.saturating_sub(text.len());
            let bytes = bytes.get(..room).unwrap_or(bytes);
            Cow::Owned([text.as_bytes(), bytes].concat().into())
        })
    }

    fn tell(
        &mut self,
        message: FsckId,
        cause: Option<&'static str>,
        text: impl FnOnce() -> Cow<'static, BStr>,
    ) -> Result<(), Refused> {
        if self.is_on_skip_list {
            return Ok(());
        }
        let severity = match self.options.level(message) {
            Level::Ignore => return Ok(()),
            Level::Info | Level::Warn => Severity::Warning,
            Level::Error | Level::Fatal => Severity::Error,
        };
        let is_first_error = severity == Severity::Error && !self.is_refused;
        self.is_refused |= is_first_error;
        if self.told < TOLD_MAX || is_first_error {
            self.told = self.told.saturating_add(1);
            let object = self.object;
            (self.sink)(Finding { object, message, severity, text: text(), cause });
        }
        if severity == Severity::Error { Err(Refused) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HashKind;

    fn finding(number: usize, severity: Severity) -> Finding {
        Finding {
            object: ObjectId::empty_blob(HashKind::Sha1),
            message: FsckId::GitmodulesUrl,
            severity,
            text: Cow::Owned(format!("disallowed submodule url: -{number}").into()),
            cause: None,
        }
    }

    #[test]
    fn a_line_is_cut_and_free_of_control_bytes() {
        let mut long = finding(0, Severity::Error);
        assert_eq!(
            long.line(),
            "error: object e69de29bb2d1d6434b8b29ae775ad8c2e48c5391: gitmodulesUrl: disallowed \
             submodule url: -0"
        );
        long.text = Cow::Owned(b"a\x1b[31m\tb\nc\x7f\xff".into());
        assert!(long.line().ends_with(b": a?[31m\tb\nc?\xff"));
        long.text = Cow::Owned("x".repeat(5000).into());
        assert_eq!(long.line().len(), Finding::LINE_BYTES_MAX);
    }

    #[test]
    fn findings_are_bounded_and_an_error_is_always_among_them() {
        let mut findings = Findings::default();
        for number in 0..Findings::KEPT_MAX + 10 {
            findings.push(finding(number, Severity::Warning));
        }
        assert_eq!(findings.iter().count(), Findings::KEPT_MAX);
        assert!(!findings.has_error());
        let mut all = Findings::default();
        findings.push(finding(0, Severity::Error));
        findings.push(finding(1, Severity::Error));
        assert_eq!(findings.dropped(), 12);
        all.absorb(findings);
        let errors: Vec<_> = all.iter().filter(|f| f.severity == Severity::Error).collect();
        assert_eq!(errors, [&finding(0, Severity::Error)]);
        assert!(all.has_error());
    }
}
