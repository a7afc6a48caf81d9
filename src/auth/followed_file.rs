//! A file of the operator's, followed through its changes.
//!
//! Guarantees that what was read last stays in force while the file is broken or away, that the
//! log says so once for each way in which it is broken, and that a change is seen within a second
//! of the next use, or at once when [`FollowedFile::reload`] is called.

use std::error::Error;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a followed file holds.
pub trait Content: Sized {
    /// What can be wrong with a line.
    type Fault: Error + Send + Sync + 'static;
    /// What the file is called in messages, such as "password file".
    const WHAT: &'static str;
    /// Reads the bytes of the file at `path`; an error comes with its line, from 1.
    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, (usize, Self::Fault)>;
    /// How many entries there are, for the log.
    fn entries(&self) -> usize;
}

/// A file that is read anew when it has changed.
pub struct FollowedFile<T> {
    path: PathBuf,
    state: Mutex<State<T>>,
}

/// Why a file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError<F> {
    /// It could not be read.
    #[error("cannot read {what} '{}'", path.display())]
    Read {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is larger than any such file.
    #[error("{what} '{}' is larger than {limit} bytes", path.display())]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// A line is wrong; `path` and `line` (counted from 1) tell where.
    #[error("{what} '{}', line {line}: {fault}", path.display())]
    Line {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is wrong with it.
        fault: F,
    },
}

struct State<T> {
    content: Arc<T>,
    stamp: Stamp,
    looked: Instant,
    /// What was last complained of, so that it is not said at every look.
    complaint: Option<String>,
}

/// What tells one content of the file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl<T: Content> FollowedFile<T> {
    /// Reads the file.
    pub fn open(path: &Path) -> Result<Self, FileError<T::Fault>> {
        let (content, stamp) = load::<T>(path)?;
        let content = Arc::new(content);
        let state = State { content, stamp, looked: Instant::now(), complaint: None };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// What the file holds now, give or take a second. Blocks on the file system.
    pub fn current(&self) -> Arc<T> {
        let mut state = self.lock();
        if state.looked.elapsed() >= LOOK_EVERY {
            self.look(&mut state, false);
        }
        Arc::clone(&state.content)
    }

    /// Reads the file again, changed or not. Blocks on the file system.
    pub fn reload(&self) {
        self.look(&mut self.lock(), true);
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, state: &mut State<T>, asked: bool) {
        state.looked = Instant::now();
        if asked {
            state.complaint = None;
        } else if stamp(&self.path).is_ok_and(|stamp| stamp == state.stamp) {
            return;
        }
        let path = &self.path;
        match load::<T>(path) {
            Ok((content, stamp)) => {
                let (what, entries) = (T::WHAT, content.entries());
                tracing::info!(?path, what, entries, "read anew");
                let content = Arc::new(content);
                *state = State { content, stamp, looked: state.looked, complaint: None };
            }
            // The stamp stays old, so that the next look tries again: the file may be half written.
            Err(error) => {
                let error = crate::report::with_causes(&error);
                if state.complaint.as_ref() != Some(&error) {
                    let what = T::WHAT;
                    tracing::error!(what, error, "going on with what was read before");
                    state.complaint = Some(error);
                }
            }
        }
    }
}

const BYTES_MAX: u64 = 16 << 20;
const LOOK_EVERY: Duration = Duration::from_secs(1);

fn load<T: Content>(path: &Path) -> Result<(T, Stamp), FileError<T::Fault>> {
    let what = T::WHAT;
    let read_error = |source| FileError::Read { what, path: path.to_owned(), source };
    // The stamp is taken first: a change in between shows as a difference at the next look.
    let stamp = stamp(path).map_err(read_error)?;
    if stamp.bytes > BYTES_MAX {
        return Err(FileError::TooLarge { what, path: path.to_owned(), limit: BYTES_MAX });
    }
    let bytes = fs::read(path).map_err(read_error)?;
    let content = T::parse(path, &bytes).map_err(|(line, fault)| FileError::Line {
        what,
        path: path.to_owned(),
        line,
        fault,
    })?;
    Ok((content, stamp))
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let metadata = fs::metadata(path)?;
    Ok(Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one number.
    #[derive(Debug, PartialEq)]
    struct Number(u32);

    impl Content for Number {
        type Fault = std::num::ParseIntError;
        const WHAT: &'static str = "number file";

        fn parse(_: &Path, bytes: &[u8]) -> Result<Self, (usize, Self::Fault)> {
            let text = std::str::from_utf8(bytes).unwrap();
            text.parse().map(Self).map_err(|error| (1, error))
        }

        fn entries(&self) -> usize {
            1
        }
    }

    #[test]
    fn a_change_is_seen_and_a_broken_file_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        fs::write(&path, "1").unwrap();
        let file = FollowedFile::<Number>::open(&path).unwrap();
        let look = || {
            file.lock().looked = Instant::now().checked_sub(LOOK_EVERY).unwrap();
            file.current().0
        };
        fs::write(&path, "22").unwrap();
        assert_eq!(look(), 22);
        fs::write(&path, "nonsense").unwrap();
        assert_eq!(look(), 22);
        let complaint = file.lock().complaint.clone().unwrap();
        assert!(complaint.starts_with("number file '") && complaint.contains("line 1: "));
        fs::remove_file(&path).unwrap();
        assert_eq!(look(), 22);
        fs::write(&path, "3").unwrap();
        assert_eq!(look(), 3);
        assert_eq!(file.lock().complaint, None);
    }

    #[test]
    fn between_looks_nothing_is_read_unless_it_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("number");
        fs::write(&path, "1").unwrap();
        let file = FollowedFile::<Number>::open(&path).unwrap();
        fs::write(&path, "22").unwrap();
        file.lock().looked = Instant::now();
        assert_eq!(file.current().0, 1);
        file.reload();
        assert_eq!(file.current().0, 22);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = FollowedFile::<Number>::open(Path::new("/nonexistent/x")).err().unwrap();
        assert_eq!(error.to_string(), "cannot read number file '/nonexistent/x'");
    }
}
