//! What a sweep has to tell.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What was found and done in one place.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// Files and directories that were removed.
    pub removed: Vec<PathBuf>,
    /// What is left where it is, for an operator to look at.
    pub reported: Vec<Reported>,
    /// How many things of ours are in use.
    pub live: usize,
}

/// Something that stays.
#[derive(Debug)]
pub struct Reported {
    /// Where it is.
    pub path: PathBuf,
    /// What about it.
    pub finding: Finding,
}

/// Why something is reported.
#[derive(Debug, thiserror::Error)]
pub enum Finding {
    /// A lock of git's or ours. A live one is gone after a moment, or after the hooks it waits
    /// for: its age says which it is.
    #[error("it is a lock, {} s old", age.as_secs())]
    Lock {
        /// How long ago it was made.
        age: Duration,
    },
    /// A pack is kept from repacks by a `receive-pack` on this host that is no more.
    #[error("it is the keep file of process {process}, which has ended")]
    DeadKeep {
        /// Its process id, as the file says.
        process: u32,
    },
    /// It was given up as empty, and something was stored in it after all: to be moved to its
    /// place by hand.
    #[error("it was given up, and something is stored in it")]
    Stored,
    /// The disk failed.
    #[error("it cannot be swept")]
    Failed(#[source] io::Error),
}

impl SweepReport {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.reported.is_empty()
    }

    pub(super) fn report(&mut self, path: PathBuf, finding: Finding) {
        self.reported.push(Reported { path, finding });
    }
}
