//! Directories of ours that could not be removed when it was time, to be tried again.
//!
//! To remove a directory takes a descriptor, and a process that is out of them has to leave it. Its
//! sweep comes with the next start; a server that runs for months must not wait for that.

use super::disk::Disk;
use super::held_directory::FileIdentity;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is to be removed, by path and by identity: a directory that got the path since is safe.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<Vec<(PathBuf, FileIdentity)>>);

/// LIMIT: directories that are kept in mind. More are left to the sweep.
const LEFTOVERS_MAX: usize = 4096;

impl Disk {
    /// Removes a directory of ours now or, if it cannot be now, later. The error says why not now.
    pub(super) fn remove_now_or_later(&self, path: &Path, of: FileIdentity) -> io::Result<()> {
        let removed = self.remove_tree_of(path, of);
        if removed.as_ref().is_err_and(may_pass) {
            let mut left = self.leftovers();
            if left.len() < LEFTOVERS_MAX {
                left.push((path.to_owned(), of));
            }
        }
        removed
    }

    /// Tries again to remove what could not be removed before, and tells how many directories
    /// still could not.
    pub fn remove_leftovers(&self) -> usize {
        // Taken out, so that nobody waits for the disk at the lock.
        let left = std::mem::take(&mut *self.leftovers());
        for (path, of) in left {
            // It takes its place again if need be.
            let _ = self.remove_now_or_later(&path, of);
        }
        self.leftovers().len()
    }

    fn leftovers(&self) -> MutexGuard<'_, Vec<(PathBuf, FileIdentity)>> {
        self.shared.leftovers.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether another time may do better. What is no longer our directory never will be again.
fn may_pass(error: &io::Error) -> bool {
    error.kind() != io::ErrorKind::NotADirectory
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::held_directory::HeldDirectory;
    use crate::repo::{FlushPolicy, PathLock};
    use std::fs;

    #[test]
    fn what_could_not_be_removed_goes_the_next_time() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("q");
        fs::create_dir_all(path.join("pack")).unwrap();
        let identity = HeldDirectory::open(&path).unwrap().unwrap().identity();
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        recorder.fail_at(0, io::ErrorKind::Other, false);
        disk.remove_now_or_later(&path, identity).unwrap_err();
        recorder.fail_at(0, io::ErrorKind::Other, false);
        assert_eq!(disk.remove_leftovers(), 1);
        assert_eq!(disk.clone().remove_leftovers(), 0);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_another_directory_by_now_is_let_be() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("q");
        fs::create_dir(&path).unwrap();
        let disk = Disk::default();
        let lock = PathLock::exclusive(&disk, &path).unwrap().unwrap();
        fs::rename(&path, root.path().join("away")).unwrap();
        fs::create_dir(&path).unwrap();
        disk.remove_now_or_later(&path, lock.identity()).unwrap_err();
        assert_eq!(disk.remove_leftovers(), 0);
        assert!(path.exists());
    }
}
