//! A recorder of changes on disk, for the tests that ask what survives a crash.
//!
//! A [`Disk`](super::Disk) made with one writes down every change in order, with its bytes. The
//! crash tests replay any prefix of the record, leaving out changes that no flush had made
//! durable, and look at the result with stock git. It can also fail one chosen change, which is
//! how the error paths are walked one by one. A server runs without one.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names an open file within one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// One change on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new directory.
    CreateDirectory {
        /// Its path.
        path: PathBuf,
    },
    /// An empty directory went.
    RemoveDirectory {
        /// Its path.
        path: PathBuf,
    },
    /// A new, empty file.
    CreateFile {
        /// Its name in this record.
        file: FileId,
        /// Its path.
        path: PathBuf,
    },
    /// A file that was there was opened for appending.
    OpenFile {
        /// Its name in this record.
        file: FileId,
        /// Its path.
        path: PathBuf,
    },
    /// Bytes were written.
    Write {
        /// Into this file.
        file: FileId,
        /// From this offset on.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A file was cut.
    Truncate {
        /// The file.
        file: FileId,
        /// To this many bytes.
        length: u64,
    },
    /// A second name for a file.
    Link {
        /// The name it has.
        from: PathBuf,
        /// The name it gets.
        to: PathBuf,
    },
    /// A new name for a file or directory, taking the place of a file of that name.
    Rename {
        /// The name it had.
        from: PathBuf,
        /// The name it gets.
        to: PathBuf,
    },
    /// A name went.
    Unlink {
        /// The name.
        path: PathBuf,
    },
    /// The bytes of a file were made durable.
    FlushFile {
        /// The file.
        file: FileId,
    },
    /// The entries of a directory were made durable.
    FlushDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The times of a file were set to now.
    Freshen {
        /// The file.
        path: PathBuf,
    },
    /// A word of the test, such as "the report went out here".
    Mark(&'static str),
}

/// The record, and the fault it shall cause.
#[derive(Debug, Default)]
pub struct Recorder {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    operations: Vec<Operation>,
    files: u64,
    /// Fail the change with this number (counted from 0) with this error, and as many that follow
    /// as the last word says.
    fault: Option<(usize, io::ErrorKind, Extent)>,
    attempts: usize,
}

/// How far a fault goes.
#[derive(Clone, Copy, Debug)]
enum Extent {
    Once,
    Twice,
    /// Every later change that adds to the disk, as when it is full.
    AllThatAdds,
}

impl Recorder {
    /// Everything recorded so far.
    pub fn operations(&self) -> Vec<Operation> {
        self.state().operations.clone()
    }

    /// Adds a mark.
    pub fn mark(&self, word: &'static str) {
        self.state().operations.push(Operation::Mark(word));
    }

    /// Makes change number `at` (from 0, counted from now) fail with `kind`; with `persistent`,
    /// every later one that adds to the disk too. Names are still removed: a full disk allows
    /// that.
    pub fn fail_at(&self, at: usize, kind: io::ErrorKind, persistent: bool) {
        let mut state = self.state();
        state.attempts = 0;
        let extent = if persistent { Extent::AllThatAdds } else { Extent::Once };
        state.fault = Some((at, kind, extent));
    }

    /// Makes change number `at` (from 0, counted from now) fail, and the one after it.
    pub fn fail_twice_at(&self, at: usize, kind: io::ErrorKind) {
        let mut state = self.state();
        state.attempts = 0;
        state.fault = Some((at, kind, Extent::Twice));
    }

    /// How many changes were tried since the last [`fail_at`](Self::fail_at).
    pub fn attempts(&self) -> usize {
        self.state().attempts
    }

    /// Whether the next change may happen. Called before it.
    pub(super) fn admit(&self, removes: bool) -> io::Result<()> {
        let mut state = self.state();
        let number = state.attempts;
        state.attempts += 1;
        match state.fault {
            Some((at, kind, extent))
                if number == at
                    || match extent {
                        Extent::Once => false,
                        Extent::Twice => number.checked_sub(1) == Some(at),
                        Extent::AllThatAdds => number > at && !removes,
                    } =>
            {
                Err(io::Error::new(kind, "injected fault"))
            }
            _ => Ok(()),
        }
    }

    /// Writes a change down. Called after it happened.
    pub(super) fn record(&self, operation: Operation) {
        self.state().operations.push(operation);
    }

    pub(super) fn name_file(&self) -> FileId {
        let mut state = self.state();
        state.files += 1;
        FileId(state.files)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
