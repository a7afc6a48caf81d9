//! The table.

use super::fault::{Blame, Fault, Phase};

/// Where a client reads of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The HTTP status and a plain text, which git shows for a discovery only; on a stdio channel
    /// standard error.
    Status,
    /// The `unpack` line of the report, with every ref refused as `unpacker error`.
    UnpackStatus,
    /// Band 3, which ends the answer.
    Fatal,
}

/// How loud the log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Somebody else's fault, and ordinary.
    Info,
    /// Worth a look.
    Warn,
    /// Ours.
    Error,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where the client reads of it.
    pub channel: Channel,
    /// The HTTP status, if the answer has not begun; once it has, it was 200.
    pub http_status: u16,
    /// The exit status of `receive-pack`.
    pub exit_status: u8,
    /// The level of the log line.
    pub level: LogLevel,
    /// The label of the metric and the verdict in the log line.
    pub label: &'static str,
    /// Whether the client is shown the error's own words; else "internal error" and the push id.
    pub shows_cause: bool,
}

/// What is said of a disk without room.
pub const NO_SPACE: &str = "no space left on the server's disk";

/// What is said of a file that may not grow further.
pub const FILE_TOO_LARGE: &str = "file too large for the server's limit";

/// What is said when the server has no descriptors or no memory left.
pub const OVERLOADED: &str = "the server has too many files open, try again later";

/// What is said from the moment at which a flush has failed.
pub const DISK_FAILED: &str = "the server's disk has failed to keep what was written; the server \
                               takes no push until its operator has looked at it";

/// What a fault means in a phase.
pub fn row(fault: Fault, phase: Phase) -> Row {
    let (http_status, label) = match fault {
        Fault::NoRepository => (404, "no-repository"),
        Fault::NotReceiving => (403, "not-receiving"),
        Fault::Unsupported => (403, "unsupported"),
        Fault::Unauthenticated => (401, "unauthenticated"),
        Fault::Protocol => (400, "protocol"),
        Fault::Disconnected => (400, "disconnected"),
        Fault::BadPack => (400, "bad-pack"),
        Fault::Limit => (413, "limit"),
        Fault::Stopping => (503, "stopping"),
        Fault::NoSpace => (507, "no-space"),
        Fault::FileTooLarge => (507, "file-too-large"),
        Fault::Overloaded => (503, "overloaded"),
        Fault::DiskFailed => (503, "disk-failed"),
        Fault::Damaged => (500, "damaged"),
        Fault::Internal => (500, "internal"),
    };
    let channel = match phase {
        Phase::Discovery | Phase::Request => Channel::Status,
        Phase::Unpack => Channel::UnpackStatus,
        Phase::Commit => Channel::Fatal,
    };
    let exit_status = match phase {
        Phase::Discovery | Phase::Request => 128,
        // git ends with 0 once it has reported, whatever it reported.
        Phase::Unpack | Phase::Commit => 0,
    };
    let level = match fault.blame() {
        Blame::Client | Blame::Policy => LogLevel::Info,
        Blame::Server if matches!(fault, Fault::Internal | Fault::Damaged) => LogLevel::Error,
        Blame::Server => LogLevel::Warn,
    };
    let shows_cause = fault != Fault::Internal;
    Row { channel, http_status, exit_status, level, label, shows_cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PHASES: [Phase; 4] = [Phase::Discovery, Phase::Request, Phase::Unpack, Phase::Commit];

    #[test]
    fn every_fault_has_a_label_of_its_own() {
        let labels: BTreeSet<_> =
            Fault::ALL.iter().map(|fault| row(*fault, Phase::Request).label).collect();
        assert_eq!(labels.len(), Fault::ALL.len());
    }

    #[test]
    fn only_an_internal_fault_hides_its_cause_and_what_needs_repair_cries() {
        for fault in Fault::ALL {
            for phase in PHASES {
                let row = row(fault, phase);
                assert_eq!(row.shows_cause, fault != Fault::Internal);
                let needs_repair = matches!(fault, Fault::Internal | Fault::Damaged);
                assert_eq!(row.level == LogLevel::Error, needs_repair);
            }
        }
    }

    #[test]
    fn blame_and_status_agree() {
        for fault in Fault::ALL {
            let status = row(fault, Phase::Request).http_status;
            match fault.blame() {
                Blame::Client => assert!((400..500).contains(&status), "{fault:?}"),
                Blame::Policy => assert!(matches!(status, 403 | 413), "{fault:?}"),
                Blame::Server => assert!((500..600).contains(&status), "{fault:?}"),
            }
        }
    }

    #[test]
    fn a_reported_failure_ends_with_status_zero_as_git_does() {
        assert_eq!(row(Fault::BadPack, Phase::Unpack).exit_status, 0);
        assert_eq!(row(Fault::Protocol, Phase::Request).exit_status, 128);
        assert_eq!(row(Fault::Internal, Phase::Commit).exit_status, 0);
    }
}
