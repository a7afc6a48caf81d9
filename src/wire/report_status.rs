//! The report: what became of the pack and of each ref.
//!
//! `report-status` and `report-status-v2` (gitprotocol-pack, "Report Status"): a line for the
//! pack, one verdict for every command in the client's order, a flush. Version 2 may add what the
//! `proc-receive` hook made of a ref. Texts are made fit for their line: a reason cannot forge
//! another line, and a failure cannot read as `ok`.
//!
//! The report is a stream of pkt-lines by itself; putting it on band 1 is the caller's business,
//! and so is giving every command its status when the pack failed.

use super::capabilities::ReportStatusVersion;
use super::pkt_line::{
    self, Decoded, PktLine, PktLineError, encode_flush, encode_text, without_line_feed,
};
use crate::model::{Command, CommandStatus, ObjectId};
use bstr::{BString, ByteSlice};

/// What became of the pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnpackStatus {
    /// It was taken in, or there was none to take.
    Ok,
    /// It was not; the client prints the text after `remote unpack failed: `.
    Failed(BString),
}

/// A command with all that the report says of it.
#[derive(Clone, Copy, Debug)]
pub struct CommandVerdict<'a> {
    /// The command with its status.
    pub command: &'a Command,
    /// What the `proc-receive` hook made of it; told in version 2 only, and only if it succeeded.
    pub reports: &'a [RefReport],
}

/// One ref that was changed in place of the one that the command named; what is `None` is as the
/// command had it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefReport {
    /// The name of the ref that was changed.
    pub ref_name: Option<BString>,
    /// Its value before.
    pub old: Option<ObjectId>,
    /// Its value now.
    pub new: Option<ObjectId>,
    /// Whether the change was no fast-forward.
    pub forced_update: bool,
}

impl<'a> From<&'a Command> for CommandVerdict<'a> {
    fn from(command: &'a Command) -> Self {
        Self { command, reports: &[] }
    }
}

/// Appends the report in the form that the client reads, nothing if it reads none.
///
/// Every command gets exactly one verdict. One without a status is our fault and is told as such
/// rather than left out: a client waits for the verdict of each ref that it sent.
pub fn encode_report_status<'a, V: Into<CommandVerdict<'a>>>(
    out: &mut Vec<u8>,
    version: ReportStatusVersion,
    unpack: &UnpackStatus,
    verdicts: impl IntoIterator<Item = V>,
) {
    if version == ReportStatusVersion::None {
        return;
    }
    match unpack {
        UnpackStatus::Ok => encode_text(out, &[b"unpack ok"]),
        UnpackStatus::Failed(text) => {
            let text = one_line(text);
            let text = if text == b"ok" { b"unpacker error".as_bstr() } else { text.as_bstr() };
            encode_text(out, &[b"unpack ", text]);
        }
    }
    for verdict in verdicts {
        encode_verdict(out, version, verdict.into());
    }
    encode_flush(out);
}

fn encode_verdict(out: &mut Vec<u8>, version: ReportStatusVersion, verdict: CommandVerdict<'_>) {
    let name = verdict.command.name.as_slice();
    match &verdict.command.status {
        CommandStatus::Pending => {
            encode_text(out, &[b"ng ", name, b" internal error: no verdict"]);
        }
        CommandStatus::Rejected(reason) => {
            let reason = one_line(reason.to_string().as_bytes());
            encode_text(out, &[b"ng ", name, b" ", &reason]);
        }
        CommandStatus::Done => {
            encode_text(out, &[b"ok ", name]);
            if version == ReportStatusVersion::V2 {
                encode_reports(out, name, verdict.reports);
            }
        }
    }
}

fn encode_reports(out: &mut Vec<u8>, name: &[u8], reports: &[RefReport]) {
    for (index, report) in reports.iter().enumerate() {
        if index > 0 {
            // Options belong to the `ok` before them, so each further record needs its own.
            encode_text(out, &[b"ok ", name]);
        }
        if let Some(ref_name) = &report.ref_name {
            encode_text(out, &[b"option refname ", ref_name]);
        }
        if let Some(old) = report.old {
            encode_text(out, &[b"option old-oid ", old.to_string().as_bytes()]);
        }
        if let Some(new) = report.new {
            encode_text(out, &[b"option new-oid ", new.to_string().as_bytes()]);
        }
        if report.forced_update {
            encode_text(out, &[b"option forced-update"]);
        }
    }
}

/// The text on one line and not empty: a control byte becomes a blank.
fn one_line(text: &[u8]) -> Vec<u8> {
    let blank = |&byte: &u8| if byte.is_ascii_control() { b' ' } else { byte };
    let line: Vec<u8> = text.trim_ascii().iter().map(blank).collect();
    if line.is_empty() { b"failed".to_vec() } else { line }
}

/// A report as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportStatus {
    /// What became of the pack.
    pub unpack: UnpackStatus,
    /// The verdicts in the order of the report.
    pub refs: Vec<RefStatus>,
}

/// The verdict on one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefStatus {
    /// The name that the command gave.
    pub name: BString,
    /// Whether it was changed, else why not.
    pub outcome: Result<(), BString>,
    /// What was changed in its place, in version 2.
    pub reports: Vec<RefReport>,
}

/// Why some bytes are no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportStatusError {
    /// The framing.
    #[error(transparent)]
    PktLine(#[from] PktLineError),
    /// The bytes end before the report does.
    #[error("report ends before its flush")]
    Truncated,
    /// A line that has no place where it stands.
    #[error("unexpected line in report: '{}'", .0.escape_ascii())]
    UnexpectedLine(BString),
    /// Something follows the flush.
    #[error("{0} bytes after the report")]
    TrailingBytes(usize),
}

impl ReportStatus {
    /// Reads a whole report of either version, as it comes out of band 1.
    pub fn parse(mut bytes: &[u8]) -> Result<Self, ReportStatusError> {
        let unpack = match next_line(&mut bytes)? {
            Some(b"unpack ok") => UnpackStatus::Ok,
            Some(line) => match line.strip_prefix(b"unpack ") {
                Some(text) => UnpackStatus::Failed(text.into()),
                None => return Err(unexpected(line)),
            },
            None => return Err(unexpected(b"")),
        };
        let mut refs: Vec<RefStatus> = Vec::new();
        while let Some(line) = next_line(&mut bytes)? {
            if let Some(name) = line.strip_prefix(b"ok ") {
                match refs.last_mut() {
                    Some(last) if continues(last, name) => last.reports.push(RefReport::default()),
                    _ => refs.push(RefStatus::new(name, Ok(()))),
                }
            } else if let Some(rest) = line.strip_prefix(b"ng ") {
                let (name, reason) = rest.split_once_str(b" ").ok_or_else(|| unexpected(line))?;
                refs.push(RefStatus::new(name, Err(reason.into())));
            } else if let Some(option) = line.strip_prefix(b"option ") {
                let last = refs.last_mut().filter(|last| last.outcome.is_ok());
                last.and_then(|last| last.apply(option)).ok_or_else(|| unexpected(line))?;
            } else {
                return Err(unexpected(line));
            }
        }
        if bytes.is_empty() {
            Ok(Self { unpack, refs })
        } else {
            Err(ReportStatusError::TrailingBytes(bytes.len()))
        }
    }
}

impl RefStatus {
    fn new(name: &[u8], outcome: Result<(), BString>) -> Self {
        Self { name: name.into(), outcome, reports: Vec::new() }
    }

    /// Puts an option into the record to which it belongs: the last, a first if there is none.
    /// `None` if the value cannot be read.
    fn apply(&mut self, option: &[u8]) -> Option<()> {
        let mut report = self.reports.pop().unwrap_or_default();
        let (key, value) = option.split_once_str(b" ").unwrap_or((option, b""));
        match key {
            b"refname" => report.ref_name = Some(value.into()),
            b"old-oid" => report.old = Some(ObjectId::from_hex(value).ok()?),
            b"new-oid" => report.new = Some(ObjectId::from_hex(value).ok()?),
            b"forced-update" => report.forced_update = true,
            // A client skips options that it does not know.
            _ => {}
        }
        self.reports.push(report);
        Some(())
    }
}

/// Whether an `ok` for `name` begins a further record of `last` rather than another verdict.
fn continues(last: &RefStatus, name: &[u8]) -> bool {
    last.outcome.is_ok() && !last.reports.is_empty() && last.name == name
}

/// The next line without its LF, `None` for the flush.
fn next_line<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, ReportStatusError> {
    let Decoded::Complete { line, consumed } = pkt_line::decode(bytes)? else {
        return Err(ReportStatusError::Truncated);
    };
    *bytes = bytes.get(consumed..).unwrap_or_default();
    match line {
        PktLine::Data(payload) => Ok(Some(without_line_feed(payload))),
        PktLine::Flush => Ok(None),
        PktLine::Delim | PktLine::ResponseEnd => Err(unexpected(b"")),
    }
}

fn unexpected(line: &[u8]) -> ReportStatusError {
    ReportStatusError::UnexpectedLine(line.get(..100).unwrap_or(line).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{HashKind, RejectReason};
    use crate::wire::pkt_line::{PACKET_BYTES_MAX, encode_data};
    use proptest::prelude::*;

    fn command(name: &str, status: CommandStatus) -> Command {
        let id = ObjectId::empty_tree(HashKind::Sha1);
        Command { status, ..Command::new(id, id, name) }
    }

    fn report(version: ReportStatusVersion, unpack: &UnpackStatus, commands: &[Command]) -> String {
        let mut out = Vec::new();
        encode_report_status(&mut out, version, unpack, commands);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn done_and_refused_refs_are_told_in_the_order_of_the_commands() {
        let commands = [
            command("refs/heads/b", CommandStatus::Done),
            command("refs/heads/a", CommandStatus::Rejected(RejectReason::NonFastForward)),
            command("refs/heads/c", CommandStatus::Done),
        ];
        for version in [ReportStatusVersion::V1, ReportStatusVersion::V2] {
            assert_eq!(
                report(version, &UnpackStatus::Ok, &commands),
                "000eunpack ok\n0014ok refs/heads/b\n0025ng refs/heads/a non-fast-forward\n\
                 0014ok refs/heads/c\n0000"
            );
        }
    }

    #[test]
    fn a_client_that_reads_no_report_gets_none() {
        let commands = [command("r", CommandStatus::Done)];
        assert_eq!(report(ReportStatusVersion::None, &UnpackStatus::Ok, &commands), "");
    }

    #[test]
    fn a_failed_pack_is_told_with_its_text() {
        let commands = [command("r", CommandStatus::Rejected(RejectReason::UnpackerError))];
        assert_eq!(
            report(
                ReportStatusVersion::V1,
                &UnpackStatus::Failed("index-pack abnormal exit".into()),
                &commands
            ),
            "0024unpack index-pack abnormal exit\n0018ng r unpacker error\n0000"
        );
    }

    #[test]
    fn no_text_can_forge_a_line_or_read_as_success() {
        let parse = |text: &str| {
            let commands =
                [command("r", CommandStatus::Rejected(RejectReason::Unsupported(text.into())))];
            let unpack = UnpackStatus::Failed(text.into());
            let bytes = report(ReportStatusVersion::V2, &unpack, &commands);
            ReportStatus::parse(bytes.as_bytes()).unwrap()
        };
        let told = parse("a\n0014ok refs/heads/b\n\0\r\u{7f}z\n");
        assert_eq!(told.unpack, UnpackStatus::Failed("a 0014ok refs/heads/b    z".into()));
        assert_eq!(told.refs[0].outcome, Err("a 0014ok refs/heads/b    z".into()));
        assert_eq!(told.refs.len(), 1);

        assert_eq!(parse("ok").unpack, UnpackStatus::Failed("unpacker error".into()));
        assert_eq!(parse("\nok\n").unpack, UnpackStatus::Failed("unpacker error".into()));
        assert_eq!(parse("").unpack, UnpackStatus::Failed("failed".into()));
        assert_eq!(parse(" \n").refs[0].outcome, Err("failed".into()));
    }

    #[test]
    fn a_command_without_a_verdict_is_told_as_our_fault() {
        let commands = [command("r", CommandStatus::Pending)];
        assert_eq!(
            report(ReportStatusVersion::V1, &UnpackStatus::Ok, &commands),
            "000eunpack ok\n0024ng r internal error: no verdict\n0000"
        );
    }

    #[test]
    fn a_reason_that_does_not_fit_is_cut_and_the_name_is_kept() {
        let name = format!("refs/heads/{}", "n".repeat(65_000));
        let reason = RejectReason::Unsupported("r".repeat(70_000));
        let commands = [command(&name, CommandStatus::Rejected(reason))];
        let bytes = report(ReportStatusVersion::V1, &UnpackStatus::Ok, &commands);
        let told = ReportStatus::parse(bytes.as_bytes()).unwrap();
        assert_eq!(told.refs[0].name, name);
        assert_eq!(told.refs[0].outcome.as_ref().unwrap_err().len(), PACKET_BYTES_MAX - 65_020);
    }

    #[test]
    fn a_rewritten_ref_is_told_in_version_two_only() {
        let id = ObjectId::empty_tree(HashKind::Sha1);
        let for_main = command("refs/for/main", CommandStatus::Done);
        let reports = [
            RefReport {
                ref_name: Some("refs/changes/1".into()),
                old: Some(ObjectId::null(HashKind::Sha1)),
                new: Some(id),
                forced_update: true,
            },
            RefReport { ref_name: Some("refs/changes/2".into()), ..RefReport::default() },
        ];
        let verdict = CommandVerdict { command: &for_main, reports: &reports };

        let mut out = Vec::new();
        encode_report_status(&mut out, ReportStatusVersion::V1, &UnpackStatus::Ok, [verdict]);
        assert_eq!(out.as_bstr(), "000eunpack ok\n0015ok refs/for/main\n0000");

        out.clear();
        encode_report_status(&mut out, ReportStatusVersion::V2, &UnpackStatus::Ok, [verdict]);
        let mut expected = Vec::new();
        for line in [
            "unpack ok",
            "ok refs/for/main",
            "option refname refs/changes/1",
            "option old-oid 0000000000000000000000000000000000000000",
            "option new-oid 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            "option forced-update",
            "ok refs/for/main",
            "option refname refs/changes/2",
        ] {
            encode_data(&mut expected, &[line.as_bytes(), b"\n"]).unwrap();
        }
        encode_flush(&mut expected);
        assert_eq!(out.as_bstr(), expected.as_bstr());
        assert_eq!(ReportStatus::parse(&out).unwrap().refs[0].reports, reports);
    }

    #[test]
    fn a_refused_ref_has_no_records() {
        let refused = command("r", CommandStatus::Rejected(RejectReason::HookDeclined));
        let reports = [RefReport { forced_update: true, ..RefReport::default() }];
        let verdict = CommandVerdict { command: &refused, reports: &reports };
        let mut out = Vec::new();
        encode_report_status(&mut out, ReportStatusVersion::V2, &UnpackStatus::Ok, [verdict]);
        assert_eq!(out.as_bstr(), "000eunpack ok\n0017ng r hook declined\n0000");
    }

    #[test]
    fn what_is_no_report_is_refused() {
        let lines = |lines: &[&str]| {
            let mut out = Vec::new();
            for line in lines {
                encode_data(&mut out, &[line.as_bytes()]).unwrap();
            }
            encode_flush(&mut out);
            ReportStatus::parse(&out)
        };
        for bad in [
            &[][..],
            &["ok r"],
            &["unpack"],
            &["unpack ok", "unpack ok"],
            &["unpack ok", "ng r"],
            &["unpack ok", "option refname x"],
            &["unpack ok", "ng r no", "option refname x"],
            &["unpack ok", "ok r", "option old-oid x"],
        ] {
            let error = lines(bad).unwrap_err();
            assert!(matches!(error, ReportStatusError::UnexpectedLine(_)), "{bad:?}: {error}");
        }
        assert_eq!(ReportStatus::parse(b"000eunpack ok\n"), Err(ReportStatusError::Truncated));
        assert_eq!(ReportStatus::parse(b""), Err(ReportStatusError::Truncated));
        assert_eq!(
            ReportStatus::parse(b"000eunpack ok\n0000x"),
            Err(ReportStatusError::TrailingBytes(1))
        );
    }

    fn any_report() -> impl Strategy<Value = RefReport> {
        let id = || prop::option::of(any::<[u8; 20]>().prop_map(ObjectId::from));
        (id(), id(), any::<bool>()).prop_map(|(old, new, forced_update)| RefReport {
            ref_name: Some("refs/changes/1".into()),
            old,
            new,
            forced_update,
        })
    }

    fn any_command() -> impl Strategy<Value = (Command, Vec<RefReport>)> {
        let name = prop::collection::vec(
            any::<u8>().prop_filter("a separator", |b| !b" \n\0".contains(b)),
            1..30,
        );
        let status = prop_oneof![
            Just(CommandStatus::Done),
            Just(CommandStatus::Rejected(RejectReason::HookDeclined)),
        ];
        (name, status, prop::collection::vec(any_report(), 0..3)).prop_map(
            |(name, status, reports)| {
                let null = ObjectId::null(HashKind::Sha1);
                (Command { status, ..Command::new(null, null, name) }, reports)
            },
        )
    }

    proptest! {
        #[test]
        fn every_command_is_told_once_and_reads_back(
            commands in prop::collection::vec(any_command(), 0..8),
            failed in prop::option::of("[a-z ]{1,20}[a-z]"),
        ) {
            let unpack = match &failed {
                Some(text) => UnpackStatus::Failed(text.trim().into()),
                None => UnpackStatus::Ok,
            };
            prop_assume!(unpack != UnpackStatus::Failed("ok".into()));
            let mut out = Vec::new();
            let verdicts =
                commands.iter().map(|(command, reports)| CommandVerdict { command, reports });
            encode_report_status(&mut out, ReportStatusVersion::V2, &unpack, verdicts);

            let told = ReportStatus::parse(&out).unwrap();
            prop_assert_eq!(told.unpack, unpack);
            let expected: Vec<RefStatus> = commands
                .into_iter()
                .map(|(command, reports)| match command.status {
                    CommandStatus::Rejected(reason) => {
                        RefStatus::new(&command.name, Err(reason.to_string().into()))
                    }
                    _ => RefStatus { reports, ..RefStatus::new(&command.name, Ok(())) },
                })
                .collect();
            prop_assert_eq!(told.refs, expected);
        }
    }
}
