//! Where packhouse differs from git on purpose. The reasons are in docs/PROTOCOL.md, which must
//! name each.

use super::observe::Observation;

/// One accepted difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// `unpack <reason>` says what was wrong, not which helper process ended abnormally.
    UnpackReason,
    /// The words for a pack, a missing object or a request that is wrong are our own.
    Diagnostics,
    /// The advice about branches that are checked out or HEAD's is our own.
    Advice,
    /// An object that an alternate has is stored again, not skipped.
    StoredAgain,
    /// A tree's entries must be of the kind that their modes say.
    KindsMatch,
    /// An atomic push in which one ref is refused changes no ref, whatever the refusal.
    AtomicIsAtomic,
    /// Bytes after the pack are refused whatever the pack's size.
    TrailingBytes,
    /// A protocol fault is answered in words (band 3 or an ERR packet), where git says nothing.
    FatalInWords,
    /// Of several findings of fsck, those are told first that came first.
    FsckOrder,
    /// A certificate without an end or a signature, or with something beside it, is refused.
    CertificateAlone,
    /// A certificate goes into the quarantine, and from there with the push; it has one also if the
    /// push brings nothing else.
    CertificateQuarantined,
    /// A transaction that the `reference-transaction` hook stopped is reported; git ends without.
    VetoIsReported,
    /// A push that adds no line leaves no empty `shallow` file.
    EmptyShallow,
    /// Every ref that needs a border is judged by itself, and those after it are not forgotten.
    BorderOfEach,
    /// What `push-to-checkout` and the commands for a work tree say goes to the pusher.
    WorkTreeWords,
    /// A push whose old values are out of date leaves no objects.
    LostRace,
}

/// All of them.
pub const ALL: &[Accepted] = &[
    Accepted::UnpackReason,
    Accepted::Diagnostics,
    Accepted::Advice,
    Accepted::StoredAgain,
    Accepted::KindsMatch,
    Accepted::AtomicIsAtomic,
    Accepted::TrailingBytes,
    Accepted::FatalInWords,
    Accepted::FsckOrder,
    Accepted::CertificateAlone,
    Accepted::CertificateQuarantined,
    Accepted::VetoIsReported,
    Accepted::EmptyShallow,
    Accepted::BorderOfEach,
    Accepted::WorkTreeWords,
    Accepted::LostRace,
];

impl Accepted {
    /// The name docs/PROTOCOL.md uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnpackReason => "unpack-reason",
            Self::Diagnostics => "diagnostics",
            Self::Advice => "advice",
            Self::StoredAgain => "stored-again",
            Self::KindsMatch => "kinds-match",
            Self::AtomicIsAtomic => "atomic-is-atomic",
            Self::TrailingBytes => "trailing-bytes",
            Self::FatalInWords => "fatal-in-words",
            Self::FsckOrder => "fsck-order",
            Self::CertificateAlone => "certificate-alone",
            Self::CertificateQuarantined => "certificate-quarantined",
            Self::VetoIsReported => "veto-is-reported",
            Self::EmptyShallow => "empty-shallow",
            Self::BorderOfEach => "border-of-each",
            Self::WorkTreeWords => "work-tree-words",
            Self::LostRace => "lost-race",
        }
    }

    /// Takes what this difference covers out of an observation.
    pub fn forgive(self, mut seen: Observation) -> Observation {
        match self {
            Self::UnpackReason => {
                for line in &mut seen.answer.report {
                    if line.starts_with("unpack ") && line != "unpack ok" {
                        *line = "unpack (some reason)".into();
                    }
                }
            }
            Self::Diagnostics => {
                seen.answer.messages = seen
                    .answer
                    .messages
                    .lines()
                    .filter(|line| {
                        // git's progress shares the line with what ends it.
                        let last = line.rsplit('\r').next().unwrap_or(line);
                        !last.starts_with("error: ") && !last.starts_with("fatal: ")
                    })
                    .map(|line| format!("{line}\n"))
                    .collect();
            }
            Self::Advice => {
                let said = |line: &&str| {
                    line.starts_with("error: refusing ") || line.starts_with("word of ")
                };
                let lines: Vec<&str> = seen.answer.messages.lines().filter(said).collect();
                seen.answer.messages = lines.join("\n");
            }
            Self::StoredAgain => seen.loose = 0,
            Self::LostRace => {
                seen.objects.clear();
                (seen.loose, seen.packs) = (0, 0);
            }
            Self::TrailingBytes
            | Self::KindsMatch
            | Self::AtomicIsAtomic
            | Self::CertificateAlone
            | Self::BorderOfEach => {
                seen = Observation::default();
            }
            Self::CertificateQuarantined => {
                seen.objects.clear();
                seen.loose = 0;
                let is_of_quarantine = |line: &&str| {
                    line.starts_with("GIT_QUARANTINE_PATH=")
                        || line.starts_with("GIT_OBJECT_DIRECTORY=")
                        || line.starts_with("GIT_ALTERNATE_OBJECT_DIRECTORIES=")
                };
                let lines = seen.hooks.lines().filter(|line| !is_of_quarantine(line));
                seen.hooks = lines.map(|line| format!("{line}\n")).collect();
            }
            Self::FsckOrder => {
                let mut lines: Vec<&str> = seen.answer.messages.lines().collect();
                lines.sort_unstable();
                seen.answer.messages = lines.join("\n");
            }
            Self::EmptyShallow => seen.shallow = seen.shallow.filter(|lines| !lines.is_empty()),
            Self::FatalInWords => {
                seen.answer.fatal.clear();
                seen.answer.complete = false;
                seen.answer.report.clear();
            }
            Self::VetoIsReported => {
                seen.answer = crate::support::answer::Answer::default();
                seen.status = None;
                // For refs that moved before, the last hooks run; git does not come to that.
                seen.hooks.clear();
            }
            Self::WorkTreeWords => {
                let all = format!("{}{}", seen.answer.messages, seen.diagnosis);
                // Of a command that cannot be started each says so in its own words.
                let mut lines: Vec<&str> = all
                    .lines()
                    .filter(|line| !line.contains("No such file or directory"))
                    .collect();
                lines.sort_unstable();
                seen.answer.messages = lines.join("\n");
                seen.diagnosis.clear();
            }
        }
        seen
    }
}
