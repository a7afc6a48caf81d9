//! Lock files, and how to wait for one.
//!
//! A lock is a file that only one can create; git(1) does the same. It is removed when it is
//! dropped, on a panic too: a lock that stays behind blocks every later push until somebody
//! removes it by hand.

use super::context::LockTimeout;
use crate::repo::Disk;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A lock that is held.
#[derive(Debug)]
pub(super) struct LockFile {
    disk: Disk,
    path: PathBuf,
}

impl LockFile {
    /// Takes charge of a lock file that was just created.
    pub(super) fn held(disk: &Disk, path: PathBuf) -> Self {
        Self { disk: disk.clone(), path }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        remove_surely(&self.disk, &self.path);
    }
}

/// Removes a file that must not stay, with a second try: there is nobody to tell.
pub(super) fn remove_surely(disk: &Disk, path: &Path) {
    if disk.unlink(path).is_err() {
        let _ = disk.unlink(path);
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

/// Tries `take` until it does not find the lock taken, or the time is up.
pub(super) fn take_lock(
    disk: &Disk,
    path: PathBuf,
    timeout: LockTimeout,
    mut take: impl FnMut(&Path) -> io::Result<()>,
) -> io::Result<LockFile> {
    let mut backoff = Backoff::new(timeout);
    loop {
        match take(&path) {
            Ok(()) => return Ok(LockFile::held(disk, path)),
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
        take_lock(disk, path.to_owned(), timeout, |path| disk.create_file(path, 0o666).map(drop))
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
        assert!(started.elapsed() < Duration::from_millis(50));
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
