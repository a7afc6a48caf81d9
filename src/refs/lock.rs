//! Lock files, and how to wait for one.
//!
//! A lock is a file that only one can create; git(1) does the same. It is removed when it is
//! dropped, on a panic too: a lock that stays behind blocks every later push until somebody
//! removes it by hand. Against a killed process there is the record of what is in flight, if this
//! process keeps one: a lock is noted before it is there, and the note is struck out after it has
//! gone.

use super::context::LockTimeout;
use crate::repo::{Disk, InFlight, InFlightGuard, Stat};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A lock that is held.
#[derive(Debug)]
pub(super) struct LockFile {
    disk: Disk,
    path: PathBuf,
    /// Struck out when this is dropped, after the file has gone.
    note: LockNote,
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if !remove_surely(&self.disk, &self.path) {
            self.note.leave();
        }
    }
}

/// Removes a file that must not stay, with a second try: there is nobody to tell. False if it
/// stays all the same.
pub(super) fn remove_surely(disk: &Disk, path: &Path) -> bool {
    disk.unlink(path).or_else(|_| disk.unlink(path)).is_ok()
}

/// The note of a lock, or one that several share: it is struck out when the last of them has gone.
#[derive(Clone, Debug, Default)]
pub(super) struct LockNote(Option<Arc<InFlightGuard>>);

impl LockNote {
    /// Notes that these paths are about to become names of these files.
    ///
    /// A record that cannot be written is no reason to refuse a push, least of all when it is
    /// being taken back: the lock is taken all the same, and if the process is killed while it is
    /// there the sweep reports it.
    pub(super) fn of<'n>(
        in_flight: &InFlight,
        names: impl IntoIterator<Item = (&'n Path, &'n Stat)>,
    ) -> Self {
        let mut names = names.into_iter().peekable();
        if !in_flight.is_recording() || names.peek().is_none() {
            return Self(None);
        }
        Self(in_flight.note_all(names).ok().map(Arc::new))
    }

    fn leave(&self) {
        if let Some(guard) = &self.0 {
            guard.leave();
        }
    }
}

/// Longer and longer pauses until the time is up.
#[derive(Debug)]
pub(super) struct Backoff {
    deadline: Option<Instant>,
    pause: Duration,
}

/// Our own locks are held for microseconds, git's for some hundred.
const PAUSE_FIRST: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(5);

impl Backoff {
    pub(super) fn new(timeout: LockTimeout) -> Self {
        let deadline = match timeout {
            LockTimeout::Forever => None,
            // A time too far to count is as good as forever.
            LockTimeout::AtMost(time) => Instant::now().checked_add(time),
        };
        Self { deadline, pause: PAUSE_FIRST }
    }

    /// Sleeps; false if the time was up already.
    pub(super) fn pause(&mut self) -> bool {
        let left = self.deadline.map(|deadline| deadline - Instant::now());
        if left == Some(Duration::ZERO) {
            return false;
        }
        // Between half and the whole of it, so that those who wait together come apart.
        let nanoseconds = u64::try_from(self.pause.as_nanos()).unwrap_or(u64::MAX);
        let chance = RandomState::new().hash_one(nanoseconds) % (nanoseconds / 2 + 1);
        let pause = Duration::from_nanos(nanoseconds / 2 + chance);
        thread::sleep(left.map_or(pause, |left| left.min(pause)));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}

/// Tries `take`, which gives the note of the lock, until it does not find the lock taken, or the
/// time is up.
pub(super) fn take_lock(
    disk: &Disk,
    path: PathBuf,
    timeout: LockTimeout,
    mut take: impl FnMut(&Path) -> io::Result<LockNote>,
) -> io::Result<LockFile> {
    let mut backoff = Backoff::new(timeout);
    loop {
        match take(&path) {
            Ok(note) => return Ok(LockFile { disk: disk.clone(), path, note }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && backoff.pause() => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::FlushPolicy;

    fn take(disk: &Disk, path: &Path, timeout: LockTimeout) -> io::Result<LockFile> {
        take_lock(disk, path.to_owned(), timeout, |path| {
            disk.create_file(path, 0o666).map(|_| LockNote::default())
        })
    }

    #[test]
    fn a_lock_goes_when_it_is_dropped_even_if_the_first_removal_fails() {
        let root = tempfile::tempdir().unwrap();
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        let path = root.path().join("x.lock");
        let lock = take(&disk, &path, LockTimeout::AtMost(Duration::ZERO)).unwrap();
        assert!(path.exists());
        recorder.fail_at(0, io::ErrorKind::Other, false);
        drop(lock);
        assert!(!path.exists());
    }

    #[test]
    fn a_timeout_of_zero_tries_once_and_a_longer_one_waits() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let path = root.path().join("x.lock");
        std::fs::write(&path, b"").unwrap();
        let started = Instant::now();
        let error = take(&disk, &path, LockTimeout::AtMost(Duration::ZERO)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        // However slow the machine: it did not wait.
        assert!(started.elapsed() < Duration::from_secs(10));
        let started = Instant::now();
        let timeout = LockTimeout::AtMost(Duration::from_millis(60));
        take(&disk, &path, timeout).unwrap_err();
        assert!(started.elapsed() >= Duration::from_millis(60));
    }

    #[test]
    fn who_waits_gets_the_lock_when_it_is_free() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let path = root.path().join("x.lock");
        let held = take(&disk, &path, LockTimeout::Forever).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| take(&disk, &path, LockTimeout::Forever).is_ok());
            thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }
}
