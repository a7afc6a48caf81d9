//! The one line in the log that each push leaves.
//!
//! Guarantees that values a client chose cannot forge or break a line: they are logged as string
//! fields, which the text format quotes and escapes and the JSON format escapes, and bytes that
//! are not UTF-8 are spelled out.

use crate::model::PushId;
use crate::receive::{PushOutcome, ReceiveError, Verdict};
use crate::report::{Fault, LogLevel, Phase, row, with_causes};
use std::fmt::Write as _;
use std::time::Duration;

/// Whose push it was, and where to.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// The name under which the log and the client know it.
    pub(super) id: PushId,
    /// The repository's place, escaped.
    pub(super) repository: String,
    /// The user, if known.
    pub(super) user: Option<String>,
    /// The peer.
    pub(super) address: String,
}

/// Logs with a level that is a value.
macro_rules! log_at {
    ($level:expr, $($field:tt)*) => {
        match $level {
            LogLevel::Info => tracing::info!(target: TARGET, $($field)*),
            LogLevel::Warn => tracing::warn!(target: TARGET, $($field)*),
            LogLevel::Error => tracing::error!(target: TARGET, $($field)*),
        }
    };
}

/// Logs how a push ended. A probe leaves no trace unless somebody debugs.
pub(super) fn ended(subject: &Subject, outcome: &PushOutcome) {
    let Subject { id, repository, user, address } = subject;
    let id = id.to_string();
    if let Ok(Verdict::Probe) = outcome.result {
        tracing::debug!(target: TARGET, id, repository, user, address, "probe");
        return;
    }
    let (done, rejected) = match outcome.result {
        Ok(Verdict::Reported { done, rejected }) => (done, rejected),
        _ => (0, outcome.commands.len()),
    };
    let (level, verdict, error) = match &outcome.result {
        Ok(_) if rejected == 0 => (LogLevel::Info, "ok", None),
        Ok(_) => (LogLevel::Info, "rejected", None),
        Err(error) => {
            let row = row(error.fault(), error.phase());
            (row.level, row.label, Some(with_causes(error)))
        }
    };
    log_at!(
        level,
        id,
        repository,
        user,
        address,
        refs = outcome.commands.len(),
        done,
        rejected,
        objects = outcome.objects,
        bytes = outcome.bytes,
        total_ms = milliseconds(outcome.steps.iter().map(|(_, time)| *time).sum()),
        steps_ms = steps(&outcome.steps),
        verdict,
        error,
        "push"
    );
    if let Some(fault) = &outcome.cleanup_fault {
        tracing::warn!(target: TARGET, id, repository, fault, "a new repository was left behind");
    }
}

/// Logs an advertisement that failed.
pub(super) fn advertisement_failed(subject: &Subject, error: &ReceiveError) {
    let Subject { id, repository, user, address } = subject;
    let id = id.to_string();
    let row = row(error.fault(), error.phase());
    let (verdict, error) = (row.label, with_causes(error));
    log_at!(row.level, id, repository, user, address, verdict, error, "advertisement");
}

/// Logs, when it is dropped by a panic, whose request met a bug of ours.
pub(super) struct PanicNote(pub(super) Subject);

impl Drop for PanicNote {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Subject { id, repository, user, address } = &self.0;
            let id = id.to_string();
            tracing::error!(target: TARGET, id, repository, user, address, "panic: this is a bug");
        }
    }
}

/// Logs a push whose client goes away before anybody has taken it up, unless it is withdrawn.
pub(super) struct AbandonNote(Option<Subject>);

impl AbandonNote {
    pub(super) fn new(subject: Subject) -> Self {
        Self(Some(subject))
    }

    pub(super) fn withdraw(mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonNote {
    fn drop(&mut self) {
        if let Some(Subject { id, repository, user, address }) = &self.0 {
            let id = id.to_string();
            let verdict = row(Fault::Disconnected, Phase::Request).label;
            tracing::info!(target: TARGET, id, repository, user, address, verdict, "push");
        }
    }
}

/// Logs what git would write to its own standard error.
pub(super) fn diagnosed(subject: &Subject, text: &[u8]) {
    let Subject { id, repository, .. } = subject;
    let id = id.to_string();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let text = escaped(line);
        tracing::info!(target: TARGET, id = id.as_str(), repository, text, "diagnostic");
    }
}

/// Bytes as text, with those that are not UTF-8 spelled out.
pub(super) fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

const TARGET: &str = "packhouse::push";

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn steps(steps: &[(&'static str, Duration)]) -> String {
    let mut text = String::new();
    for (name, time) in steps {
        let separator = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{separator}{name}={}", milliseconds(*time));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Captured {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    fn captured(json: bool, log: impl FnOnce()) -> String {
        let captured = Captured::default();
        let builder = tracing_subscriber::fmt().with_writer(captured.clone()).with_ansi(false);
        if json {
            tracing::subscriber::with_default(builder.json().finish(), log);
        } else {
            tracing::subscriber::with_default(builder.finish(), log);
        }
        let bytes = captured.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn subject(repository: &[u8]) -> Subject {
        Subject {
            id: PushId::new(7),
            repository: escaped(repository),
            user: Some("ann".into()),
            address: "192.0.2.1".into(),
        }
    }

    fn outcome(result: Result<Verdict, ReceiveError>) -> PushOutcome {
        PushOutcome {
            id: PushId::new(7),
            result,
            commands: Vec::new(),
            objects: 3,
            bytes: 99,
            steps: vec![
                ("commands", Duration::from_micros(1500)),
                ("unpack", Duration::from_millis(20)),
            ],
            answered: true,
            cleanup_fault: None,
        }
    }

    #[test]
    fn a_push_leaves_one_line() {
        let good = outcome(Ok(Verdict::Reported { done: 2, rejected: 0 }));
        let line = captured(false, || ended(&subject(b"a/x.git"), &good));
        assert_eq!(line.matches('\n').count(), 1);
        assert!(!line.contains("error"));
        for part in [
            "INFO packhouse::push: push id=\"0000000000000007\" repository=\"a/x.git\" user=\"ann\"",
            "done=2 rejected=0 objects=3 bytes=99 total_ms=21.5",
            "steps_ms=\"commands=1.5 unpack=20\" verdict=\"ok\"",
        ] {
            assert!(line.contains(part), "{line}");
        }
        let some = outcome(Ok(Verdict::Reported { done: 1, rejected: 1 }));
        let line = captured(true, || ended(&subject(b"a/x.git"), &some));
        assert!(line.contains(r#""verdict":"rejected""#), "{line}");
        assert!(line.contains(r#""repository":"a/x.git""#), "{line}");
    }

    #[test]
    fn a_fault_is_logged_with_its_causes_at_its_level() {
        let error = ReceiveError::internal(Phase::Commit, "migrating", io::Error::other("no disk"));
        let line = captured(false, || ended(&subject(b"x"), &outcome(Err(error))));
        assert!(line.contains("ERROR") && line.contains("verdict=\"internal\""), "{line}");
        assert!(line.contains("migrating failed: no disk"), "{line}");
        let error = ReceiveError::new(Fault::BadPack, Phase::Unpack, "bad");
        let line = captured(false, || ended(&subject(b"x"), &outcome(Err(error))));
        assert!(line.contains("INFO") && line.contains("verdict=\"bad-pack\""), "{line}");
    }

    #[test]
    fn no_name_breaks_or_forges_a_line() {
        let evil = b"x\n2026 INFO push user=\"root\" \x1b[31m\xff\xe2\x80\xae";
        for json in [false, true] {
            let good = outcome(Ok(Verdict::Reported { done: 1, rejected: 0 }));
            let line = captured(json, || ended(&subject(evil), &good));
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(!line.contains('\x1b') && !line.contains("user=\"root\""), "{line}");
            assert!(line.contains("xff"), "{line}");
        }
        let lines = captured(false, || diagnosed(&subject(b"x"), b"one\x07\n\ntwo\n"));
        assert_eq!(lines.matches('\n').count(), 2, "{lines}");
        assert!(!lines.contains('\x07'));
    }

    #[test]
    fn a_probe_is_no_push() {
        let probe = outcome(Ok(Verdict::Probe));
        assert_eq!(captured(false, || ended(&subject(b"x"), &probe)), "");
    }
}
