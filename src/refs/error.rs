//! What can go wrong with a ref.
//!
//! The texts of refused updates are those of git 2.47 (`refs.c`, `refs/files-backend.c`), which
//! people know and scripts look for; they go to the client in band 2.

use crate::model::{Dialect, ObjectId, RefRefusal};
use bstr::{BStr, BString, ByteSlice};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a ref was not read or not changed.
///
/// `name` is always the ref that was asked for, `target` the one it leads to through symbolic
/// refs; mostly they are the same.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefError {
    /// It was to be created and is there.
    #[error("cannot lock ref '{name}': reference already exists")]
    AlreadyExists {
        /// The ref.
        name: BString,
    },
    /// It has another value than the edit builds on.
    #[error("cannot lock ref '{name}': is at {actual} but expected {expected}")]
    OutOfDate {
        /// The ref.
        name: BString,
        /// The value it has.
        actual: ObjectId,
        /// The value it should have had.
        expected: ObjectId,
    },
    /// It was expected to have a value and is not there.
    #[error("cannot lock ref '{name}': unable to resolve reference '{target}'")]
    Missing {
        /// The ref.
        name: BString,
        /// What it leads to.
        target: BString,
    },
    /// Its file holds neither an id nor the name of another ref.
    #[error("cannot lock ref '{name}': unable to resolve reference '{target}': reference broken")]
    Broken {
        /// The ref.
        name: BString,
        /// What it leads to.
        target: BString,
    },
    /// Symbolic refs lead on for longer than git follows them, or in a circle.
    #[error(
        "cannot lock ref '{name}': more than {} symbolic refs in a row",
        super::SYMREF_DEPTH_MAX
    )]
    SymrefTooDeep {
        /// The ref.
        name: BString,
    },
    /// A ref with this name and one that is there cannot both exist.
    #[error("cannot lock ref '{name}': '{existing}' exists; cannot create '{target}'")]
    NameConflict {
        /// The ref.
        name: BString,
        /// What it leads to.
        target: BString,
        /// The ref in the way.
        existing: BString,
        /// Whether that is a packed one.
        packed: bool,
    },
    /// Two refs of one transaction cannot both exist.
    #[error("cannot lock ref '{name}': cannot process '{target}' and '{other}' at the same time")]
    NameConflictInPush {
        /// The ref.
        name: BString,
        /// What it leads to.
        target: BString,
        /// The other one.
        other: BString,
    },
    /// A transaction names one ref twice.
    #[error("multiple updates for ref '{name}' not allowed")]
    Duplicate {
        /// The ref.
        name: BString,
    },
    /// A file that is no ref lies where a directory has to be.
    #[error(
        "cannot lock ref '{name}': unable to create lock file {}; non-directory in the way",
        path.display()
    )]
    FileInTheWay {
        /// The ref.
        name: BString,
        /// The lock file.
        path: PathBuf,
    },
    /// A directory that holds no ref, but is not empty, lies where the ref has to be.
    #[error(
        "cannot lock ref '{name}': there is a non-empty directory '{}' blocking reference '{target}'",
        path.display()
    )]
    DirectoryInTheWay {
        /// The ref.
        name: BString,
        /// What it leads to.
        target: BString,
        /// The directory.
        path: PathBuf,
    },
    /// Another process held the lock of the ref for longer than `core.filesRefLockTimeout`, or
    /// the lock could not be made.
    #[error("cannot lock ref '{name}': Unable to create '{}': {reason}", path.display())]
    Locked {
        /// The ref.
        name: BString,
        /// The lock file.
        path: PathBuf,
        /// Why.
        reason: LockFailure,
    },
    /// Another process held the lock of packed-refs, or of `shallow`, for longer than
    /// `core.packedRefsTimeout`.
    #[error("Unable to create '{}': {reason}", path.display())]
    PackedRefsLocked {
        /// The lock file.
        path: PathBuf,
        /// Why.
        reason: LockFailure,
    },
    /// The directories above the lock could not be created.
    #[error("cannot lock ref '{name}': unable to create directory for {}", path.display())]
    NoDirectory {
        /// The ref.
        name: BString,
        /// Its file.
        path: PathBuf,
        /// How it failed.
        #[source]
        source: Arc<io::Error>,
    },
    /// packed-refs has a line that means nothing.
    #[error("unexpected line in packed-refs: '{line}'")]
    PackedRefsLine {
        /// The line, or what there is of it.
        line: BString,
    },
    /// `shallow` has a line that names no commit.
    #[error("bad shallow line: '{line}'")]
    ShallowLine {
        /// The line.
        line: BString,
    },
    /// The history of this repository ends where another file says than its own.
    #[error("shallow file has changed since we read it")]
    ShallowChanged,
    /// git refused to change it, in these words: the repository keeps its refs as a reftable.
    #[error("{text}")]
    Refused {
        /// The words.
        text: BString,
    },
    /// Whoever watches the transaction (the `reference-transaction` hook) said no.
    #[error("ref updates aborted by hook")]
    Vetoed,
    /// The disk failed before anything changed.
    #[error("cannot {action} '{}'", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// How it failed.
        #[source]
        source: Arc<io::Error>,
    },
    /// The disk failed when the change had been made in part or was not durable yet: after a
    /// crash the ref may have its old or its new value.
    #[error("ref '{name}' may have moved: cannot {action} '{}'", path.display())]
    MayHaveMoved {
        /// The ref.
        name: BString,
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// How it failed.
        #[source]
        source: Arc<io::Error>,
    },
}

/// Why a lock could not be made; `Display` gives what git says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockFailure {
    kind: io::ErrorKind,
    text: String,
}

impl From<&io::Error> for LockFailure {
    fn from(error: &io::Error) -> Self {
        let kind = error.kind();
        let mut text = error.to_string();
        if kind == io::ErrorKind::AlreadyExists {
            "File exists.".clone_into(&mut text);
        } else if let Some(end) = text.find(" (os error") {
            text.truncate(end);
        }
        Self { kind, text }
    }
}

impl fmt::Display for LockFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Another process at work, or a name that no file can have: the disk is well.
fn is_of_the_request(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::AlreadyExists | io::ErrorKind::InvalidFilename)
}

impl RefError {
    /// Whether the repository or its disk is at fault rather than what was asked for.
    pub fn is_server_fault(&self) -> bool {
        match self {
            Self::Locked { reason, .. } | Self::PackedRefsLocked { reason, .. } => {
                !is_of_the_request(reason.kind)
            }
            Self::NoDirectory { source, .. } => !is_of_the_request(source.kind()),
            // A name that no file can have is the client's.
            Self::Io { source, .. } => source.kind() != io::ErrorKind::InvalidFilename,
            Self::MayHaveMoved { .. }
            | Self::PackedRefsLine { .. }
            | Self::ShallowLine { .. }
            | Self::FileInTheWay { .. }
            | Self::DirectoryInTheWay { .. } => true,
            Self::AlreadyExists { .. }
            | Self::OutOfDate { .. }
            | Self::Missing { .. }
            | Self::Broken { .. }
            | Self::SymrefTooDeep { .. }
            | Self::NameConflict { .. }
            | Self::NameConflictInPush { .. }
            | Self::Duplicate { .. }
            | Self::ShallowChanged
            | Self::Refused { .. }
            | Self::Vetoed => false,
        }
    }

    /// The words in which this dialect tells it. Since 2.51 git compares names with packed ones, and
    /// with each other, once all refs of a transaction are locked, and then speaks of no lock.
    pub fn text(&self, dialect: Dialect) -> String {
        let text = self.to_string();
        match self {
            Self::NameConflict { name, packed: true, .. }
            | Self::NameConflictInPush { name, .. }
                if dialect.batches_refs() =>
            {
                let lock = format!("cannot lock ref '{name}': ");
                text.strip_prefix(&lock).map(ToOwned::to_owned).unwrap_or(text)
            }
            _ => text,
        }
    }

    /// What that means for the ref, in the terms in which git since 2.51 reports it.
    pub fn refusal(&self) -> RefRefusal {
        match self {
            Self::AlreadyExists { .. } => RefRefusal::AlreadyExists,
            Self::Locked { reason, .. } if reason.kind == io::ErrorKind::AlreadyExists => {
                RefRefusal::AlreadyExists
            }
            Self::OutOfDate { .. } => RefRefusal::OutOfDate,
            Self::Missing { .. } => RefRefusal::Missing,
            // Two names for one ref are told like this where a symbolic ref is among them.
            Self::NameConflict { .. }
            | Self::NameConflictInPush { .. }
            | Self::DirectoryInTheWay { .. }
            | Self::Duplicate { .. } => RefRefusal::NameConflict,
            Self::Refused { text } => refusal_of(text.as_bstr()),
            Self::Locked { .. }
            | Self::Broken { .. }
            | Self::SymrefTooDeep { .. }
            | Self::FileInTheWay { .. }
            | Self::PackedRefsLocked { .. }
            | Self::NoDirectory { .. }
            | Self::PackedRefsLine { .. }
            | Self::ShallowLine { .. }
            | Self::ShallowChanged
            | Self::Vetoed
            | Self::Io { .. }
            | Self::MayHaveMoved { .. } => RefRefusal::Unclassified,
        }
    }

    /// Whether the ref may have its new value although this is an error.
    pub fn may_have_moved(&self) -> bool {
        matches!(self, Self::MayHaveMoved { .. })
    }

    /// The same failure, seen when part of the change had been made.
    pub(super) fn after_the_move(self, name: &BStr) -> Self {
        match self {
            Self::Io { action, path, source } => {
                Self::MayHaveMoved { name: name.into(), action, path, source }
            }
            Self::PackedRefsLocked { path, reason } => {
                let source = Arc::new(io::Error::new(reason.kind, reason.text));
                Self::MayHaveMoved { name: name.into(), action: "create", path, source }
            }
            other => other,
        }
    }
}

/// What git means that has refused a ref in these words.
fn refusal_of(text: &BStr) -> RefRefusal {
    // No name of a ref has a blank in it, so none can hold these words.
    const WORDS: [(&str, RefRefusal); 8] = [
        (": reference broken", RefRefusal::Unclassified),
        ("' exists; cannot create '", RefRefusal::NameConflict),
        ("' at the same time", RefRefusal::NameConflict),
        (": reference already exists", RefRefusal::AlreadyExists),
        (": reference is missing", RefRefusal::Missing),
        (": unable to resolve reference", RefRefusal::Missing),
        (" but expected ", RefRefusal::OutOfDate),
        ("trying to write ", RefRefusal::BadValue),
    ];
    let row = WORDS.iter().find(|(words, _)| text.contains_str(words));
    row.map_or(RefRefusal::Unclassified, |(_, refusal)| *refusal)
}

/// Says what was tried on which path when it failed.
pub(super) trait Doing<T> {
    /// `action` completes "cannot …".
    fn doing(self, action: &'static str, path: &Path) -> Result<T, RefError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, action: &'static str, path: &Path) -> Result<T, RefError> {
        self.map_err(|source| RefError::Io {
            action,
            path: path.to_owned(),
            source: Arc::new(source),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_after_the_move_says_so_and_keeps_its_cause() {
        let name = BString::from("refs/heads/x");
        let failed: io::Result<()> = Err(io::ErrorKind::StorageFull.into());
        let error = failed.doing("flush", Path::new("/r/refs/heads")).unwrap_err();
        assert!(error.is_server_fault() && !error.may_have_moved());
        let later = error.after_the_move(name.as_ref());
        assert!(later.may_have_moved());
        assert_eq!(
            later.to_string(),
            "ref 'refs/heads/x' may have moved: cannot flush '/r/refs/heads'"
        );
        assert!(std::error::Error::source(&later).is_some());
        let locked = |kind: io::ErrorKind| RefError::Locked {
            name: name.clone(),
            path: "/r/refs/heads/x.lock".into(),
            reason: (&io::Error::from(kind)).into(),
        };
        assert!(!locked(io::ErrorKind::AlreadyExists).is_server_fault());
        assert!(locked(io::ErrorKind::StorageFull).is_server_fault());
        assert_eq!(locked(io::ErrorKind::AlreadyExists).refusal(), RefRefusal::AlreadyExists);
        assert_eq!(locked(io::ErrorKind::StorageFull).refusal(), RefRefusal::Unclassified);
        let lost = RefError::AlreadyExists { name: name.clone() };
        assert!(!lost.is_server_fault());
        assert!(!lost.after_the_move(name.as_ref()).may_have_moved());
    }

    #[test]
    fn what_git_refuses_is_told_apart_by_its_words() {
        let name = "cannot lock ref 'refs/heads/x'";
        for (text, refusal) in [
            (format!("{name}: is at 1 but expected 2"), RefRefusal::OutOfDate),
            (format!("{name}: reference is missing but expected 2"), RefRefusal::Missing),
            (format!("{name}: unable to resolve reference 'refs/heads/x'"), RefRefusal::Missing),
            (
                format!("{name}: unable to resolve reference 'refs/heads/x': reference broken"),
                RefRefusal::Unclassified,
            ),
            (format!("{name}: reference already exists"), RefRefusal::AlreadyExists),
            (format!("{name}: 'a' exists; cannot create 'a/b'"), RefRefusal::NameConflict),
            ("cannot process 'a' and 'a/b' at the same time".into(), RefRefusal::NameConflict),
            ("trying to write non-commit object 1 to branch 'a'".into(), RefRefusal::BadValue),
            ("multiple updates for ref 'a' not allowed".into(), RefRefusal::Unclassified),
        ] {
            assert_eq!(RefError::Refused { text: text.into() }.refusal(), refusal);
        }
    }
}
