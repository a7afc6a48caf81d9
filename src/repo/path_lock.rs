//! A file or directory held with flock(2).
//!
//! The lock says "somebody alive works here": the kernel drops it with the process, however that
//! ends, so what is not locked has no owner. It is advisory and of our own making: git looks at
//! none of these locks, so they guard only what packhouse does to its own things.
//!
//! Every way to take one ends with the check that the path still names what was locked. Without
//! it, the one who waited for a lock would hold what the one before it had removed or renamed.
//!
//! Not every file system locks directories; NFS, for one, does not. There a lock is taken in name
//! only, and whoever asks for one alone does not get it: nothing that is in use is ever taken for
//! abandoned, and some of what is abandoned stays.

use super::disk::{Disk, Stat};
use super::held_directory::FileIdentity;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// A locked file or directory. Dropping it unlocks it.
#[derive(Debug)]
pub struct PathLock {
    file: File,
    identity: FileIdentity,
    /// False where the file system has no such locks.
    is_held: bool,
}

/// What became of an attempt that does not wait.
#[derive(Debug)]
pub enum LockAttempt {
    /// It is ours.
    Held(PathLock),
    /// Somebody alive holds it.
    Busy,
    /// The file system has no such locks, so nobody can tell.
    Unknown,
    /// There is nothing at the path, or no longer what was locked.
    Gone,
}

impl PathLock {
    /// Takes the lock for us alone; `None` if there is nothing at `path`, or another thing by the
    /// time the lock was ours.
    pub fn exclusive(disk: &Disk, path: &Path) -> io::Result<Option<Self>> {
        Self::take(disk, path, File::lock)
    }

    /// Takes the lock beside others that share it; `None` as for
    /// [`exclusive`](Self::exclusive).
    pub fn shared(disk: &Disk, path: &Path) -> io::Result<Option<Self>> {
        Self::take(disk, path, File::lock_shared)
    }

    /// Takes the lock for us alone, unless somebody holds it.
    pub fn try_exclusive(disk: &Disk, path: &Path) -> io::Result<LockAttempt> {
        let Some(mut lock) = Self::open(disk, path)? else { return Ok(LockAttempt::Gone) };
        match lock.file.try_lock() {
            Ok(()) => lock.is_held = true,
            Err(TryLockError::WouldBlock) => return Ok(LockAttempt::Busy),
            Err(TryLockError::Error(error)) => lock.is_held = supported(Err(error))?,
        }
        Ok(match (lock.is_at(disk, path)?, lock.is_held) {
            (false, _) => LockAttempt::Gone,
            (true, false) => LockAttempt::Unknown,
            (true, true) => LockAttempt::Held(lock),
        })
    }

    /// Turns a shared lock into one for us alone, unless others share it. If they do, **nothing is
    /// held any more**: flock(2) gives up the old lock first. Of several that try at the same
    /// time one gets it.
    pub fn try_make_exclusive(self) -> io::Result<Option<Self>> {
        if !self.is_held {
            return Ok(None);
        }
        match self.file.try_lock() {
            Ok(()) => Ok(Some(self)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Lets others in. flock(2) may give up the lock for a moment in between, so the caller checks
    /// [`is_at`](Self::is_at) afterwards.
    pub fn make_shared(&self) -> io::Result<()> {
        if self.is_held { self.file.lock_shared() } else { Ok(()) }
    }

    /// Whether `path` names what is locked.
    pub fn is_at(&self, disk: &Disk, path: &Path) -> io::Result<bool> {
        let found = disk.stat(path)?;
        Ok(found.is_some_and(|stat| self.is_of(&stat)))
    }

    /// Whether what was looked at is what is locked.
    pub(super) fn is_of(&self, stat: &Stat) -> bool {
        FileIdentity { device: stat.device, inode: stat.inode } == self.identity
    }

    /// Which file or directory is locked.
    pub(super) fn identity(&self) -> FileIdentity {
        self.identity
    }

    fn take(
        disk: &Disk,
        path: &Path,
        wait: impl Fn(&File) -> io::Result<()>,
    ) -> io::Result<Option<Self>> {
        let Some(mut lock) = Self::open(disk, path)? else { return Ok(None) };
        // A signal that ends the wait is no reason to go without the lock.
        let result = loop {
            match wait(&lock.file) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        lock.is_held = supported(result)?;
        Ok(lock.is_at(disk, path)?.then_some(lock))
    }

    fn open(disk: &Disk, path: &Path) -> io::Result<Option<Self>> {
        let Some(file) = super::disk::absent_is_none(disk.open(path))? else { return Ok(None) };
        let Stat { device, inode, .. } = file.metadata()?.into();
        Ok(Some(Self { file, identity: FileIdentity { device, inode }, is_held: false }))
    }
}

impl Drop for PathLock {
    /// Unlocks by name: to close the descriptor would not be enough while a child process that is
    /// just being started, such as a hook of another push, has a copy of it.
    fn drop(&mut self) {
        if self.is_held {
            // An error leaves the lock to the closing of the descriptor, right after.
            drop(self.file.unlock());
        }
    }
}

/// False for the errors of a file system that has no such locks: "no locks available", "not
/// supported", and what NFS says of a directory, which cannot be opened for writing.
fn supported(locked: io::Result<()>) -> io::Result<bool> {
    use rustix::io::Errno;
    let Err(error) = locked else { return Ok(true) };
    match Errno::from_io_error(&error) {
        Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::BADF) => Ok(false),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    fn root() -> (Disk, tempfile::TempDir) {
        (Disk::default(), tempfile::tempdir().unwrap())
    }

    #[test]
    fn a_directory_is_held_until_the_lock_is_dropped() {
        let (disk, root) = root();
        let held = PathLock::exclusive(&disk, root.path()).unwrap().unwrap();
        assert!(matches!(PathLock::try_exclusive(&disk, root.path()).unwrap(), LockAttempt::Busy));
        drop(held);
        assert!(matches!(
            PathLock::try_exclusive(&disk, root.path()).unwrap(),
            LockAttempt::Held(_)
        ));
    }

    #[test]
    fn what_is_not_there_cannot_be_locked() {
        let (disk, root) = root();
        let path = root.path().join("none");
        assert!(PathLock::exclusive(&disk, &path).unwrap().is_none());
        assert!(PathLock::shared(&disk, &path).unwrap().is_none());
        assert!(matches!(PathLock::try_exclusive(&disk, &path).unwrap(), LockAttempt::Gone));
    }

    #[test]
    fn the_last_of_those_who_share_gets_it_alone() {
        let (disk, root) = root();
        let one = PathLock::shared(&disk, root.path()).unwrap().unwrap();
        let other = PathLock::shared(&disk, root.path()).unwrap().unwrap();
        assert!(one.try_make_exclusive().unwrap().is_none());
        let alone = other.try_make_exclusive().unwrap().unwrap();
        alone.make_shared().unwrap();
        assert!(alone.is_at(&disk, root.path()).unwrap());
        assert!(PathLock::shared(&disk, root.path()).unwrap().is_some());
    }

    #[test]
    fn where_there_are_no_locks_nobody_has_anything_alone() {
        for errno in [rustix::io::Errno::NOLCK, rustix::io::Errno::BADF] {
            assert!(!supported(Err(errno.into())).unwrap());
        }
        assert!(supported(Ok(())).unwrap());
        assert!(supported(Err(rustix::io::Errno::IO.into())).is_err());
        let (disk, root) = root();
        let lock = PathLock::open(&disk, root.path()).unwrap().unwrap();
        lock.make_shared().unwrap();
        assert!(lock.is_at(&disk, root.path()).unwrap());
        assert!(lock.try_make_exclusive().unwrap().is_none());
    }

    #[test]
    fn the_one_who_waited_does_not_get_what_was_removed_meanwhile() {
        for replace in [false, true] {
            let (disk, root) = root();
            let path = root.path().join("d");
            fs::create_dir(&path).unwrap();
            let held = PathLock::exclusive(&disk, &path).unwrap().unwrap();
            let (opened, is_opened) = mpsc::channel();
            let waiter = thread::spawn({
                let (disk, path) = (disk.clone(), path.clone());
                move || {
                    opened.send(()).unwrap();
                    PathLock::exclusive(&disk, &path).unwrap().is_none()
                }
            });
            is_opened.recv().unwrap();
            thread::sleep(Duration::from_millis(20));
            fs::rename(&path, root.path().join("away")).unwrap();
            if replace {
                fs::create_dir(&path).unwrap();
            }
            drop(held);
            assert!(waiter.join().unwrap());
        }
    }
}
