//! The answer to a push as a client reads it: bands, and the report in the first of them.

use crate::wire::report_status::ReportStatusError;
use crate::wire::sideband::{SidebandError, SidebandEvent};
use crate::wire::{Band, ReportStatus, SidebandDecoder, UnpackStatus};
use bstr::{BString, ByteSlice as _};

/// What became of the refs of a push that the server took in.
pub(super) type Verdicts = Vec<(BString, Result<(), String>)>;

/// Why there are no verdicts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The bands.
    #[error("the answer is not understood: {0}")]
    Bands(#[from] SidebandError),
    /// The report.
    #[error("the report is not understood: {0}")]
    Report(#[from] ReportStatusError),
    /// The server gave up, and said why.
    #[error("the server gave up: {0}")]
    GaveUp(String),
    /// The pack was not taken in.
    #[error("remote unpack failed: {0}")]
    Unpack(String),
    /// The answer ends before the report.
    #[error("the answer ends before its report")]
    Truncated,
}

/// Reads an answer whose bands were asked for if `banded`.
pub(super) fn read(body: &[u8], banded: bool) -> Result<Verdicts, AnswerError> {
    let report = if banded { &report_in_bands(body)? } else { body };
    if report.is_empty() {
        return Err(AnswerError::Truncated);
    }
    let report = ReportStatus::parse(report)?;
    if let UnpackStatus::Failed(text) = &report.unpack {
        return Err(AnswerError::Unpack(text.to_str_lossy().into_owned()));
    }
    let verdict = |text: BString| text.to_str_lossy().into_owned();
    Ok(report
        .refs
        .into_iter()
        .map(|status| (status.name, status.outcome.map_err(verdict)))
        .collect())
}

fn report_in_bands(body: &[u8]) -> Result<Vec<u8>, AnswerError> {
    let (mut bands, mut rest, mut report) = (SidebandDecoder::new(), body, Vec::new());
    loop {
        match bands.next(rest)? {
            SidebandEvent::Chunk { band, payload, consumed } => {
                match band {
                    Band::Data => report.extend_from_slice(payload),
                    Band::Progress => {}
                    Band::Error => {
                        let text = payload.trim().to_str_lossy().into_owned();
                        return Err(AnswerError::GaveUp(text));
                    }
                }
                rest = rest.get(consumed..).unwrap_or_default();
            }
            SidebandEvent::End { .. } => return Ok(report),
            SidebandEvent::NeedMore => return Err(AnswerError::Truncated),
        }
    }
}

/// A text without what is different each time: ids become `<id>`, so that the same fault has the
/// same text.
pub(super) fn without_ids(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run = String::new();
    for letter in text.chars().map(Some).chain([None]) {
        match letter {
            Some(letter) if letter.is_ascii_hexdigit() => run.push(letter),
            _ => {
                out.push_str(if run.len() >= ID_DIGITS_MIN { "<id>" } else { &run });
                run.clear();
                out.extend(letter);
            }
        }
    }
    out
}

/// The shortest id that is named in texts: a push's.
const ID_DIGITS_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pkt_line::{encode_flush, encode_text};
    use crate::wire::sideband;

    fn report(unpack: &str, refs: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_text(&mut out, &[b"unpack ", unpack.as_bytes()]);
        for line in refs {
            encode_text(&mut out, &[line.as_bytes()]);
        }
        encode_flush(&mut out);
        out
    }

    #[test]
    fn verdicts_are_read_with_and_without_bands() {
        let report = report("ok", &["ok refs/heads/a", "ng refs/heads/b hook declined"]);
        let mut banded = Vec::new();
        sideband::encode(&mut banded, Band::Progress, b"hello\n");
        sideband::encode(&mut banded, Band::Data, &report);
        sideband::encode_end(&mut banded);
        for verdicts in [read(&report, false).unwrap(), read(&banded, true).unwrap()] {
            assert_eq!(verdicts[0], ("refs/heads/a".into(), Ok(())));
            assert_eq!(verdicts[1].1, Err("hook declined".into()));
        }
    }

    #[test]
    fn an_answer_without_verdicts_says_why() {
        let unpack = read(&report("index-pack failed", &[]), false);
        assert_eq!(unpack, Err(AnswerError::Unpack("index-pack failed".into())));
        let mut banded = Vec::new();
        sideband::encode(&mut banded, Band::Error, b"no space\n");
        assert_eq!(read(&banded, true), Err(AnswerError::GaveUp("no space".into())));
        assert_eq!(read(b"", true), Err(AnswerError::Truncated));
        assert_eq!(read(b"0000", true), Err(AnswerError::Truncated));
        assert_eq!(read(b"", false), Err(AnswerError::Truncated));
    }

    #[test]
    fn texts_lose_what_is_different_each_time() {
        let id = "a".repeat(40);
        assert_eq!(
            without_ids(&format!("is at {id} but expected {id} (push 0123456789abcdef)")),
            "is at <id> but expected <id> (push <id>)"
        );
        assert_eq!(without_ids("bad face"), "bad face");
    }
}
