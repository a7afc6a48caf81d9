//! The directory of one quarantine: made and locked when it is first needed, and taken away.

use super::super::disk::Disk;
use super::super::held_directory::FileIdentity;
use super::super::path_lock::PathLock;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Where a quarantine is on disk. A push that fits in memory never asks; clones share the answer.
#[derive(Clone, Debug)]
pub struct QuarantineDirectory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    disk: Disk,
    objects_dir: PathBuf,
    made: OnceLock<Made>,
    /// Held while it is made, by whichever thread of the push asks first.
    making: Mutex<()>,
}

#[derive(Debug)]
struct Made {
    path: PathBuf,
    /// Held while alive, and what tells this directory from any other that may get its path.
    /// Where the file system locks no directories, as with NFS, the sweep goes by age.
    lock: PathLock,
}

impl QuarantineDirectory {
    pub(super) fn new(disk: &Disk, objects_dir: &Path) -> Self {
        Self(Arc::new(Shared {
            disk: disk.clone(),
            objects_dir: objects_dir.to_owned(),
            made: OnceLock::new(),
            making: Mutex::new(()),
        }))
    }

    /// A directory that is there already, for tests of what writes into one.
    #[cfg(test)]
    pub(crate) fn at(disk: &Disk, path: &Path) -> Self {
        let directory = Self::new(disk, path);
        let lock = PathLock::exclusive(disk, path).unwrap().unwrap();
        directory.0.made.set(Made { path: path.to_owned(), lock }).unwrap();
        directory
    }

    /// The directory, which exists from now on.
    pub fn path(&self) -> io::Result<&Path> {
        if let Some(path) = self.path_if_made() {
            return Ok(path);
        }
        let _making = self.0.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = self.path_if_made() {
            return Ok(path);
        }
        let made = self.make()?;
        Ok(&self.0.made.get_or_init(|| made).path)
    }

    /// The directory, if anybody needed it.
    pub(super) fn path_if_made(&self) -> Option<&Path> {
        self.0.made.get().map(|made| made.path.as_path())
    }

    /// The directory and what it is known by, if anybody needed it.
    pub(super) fn made(&self) -> Option<(&Path, FileIdentity)> {
        self.0.made.get().map(|made| (made.path.as_path(), made.lock.identity()))
    }

    fn make(&self) -> io::Result<Made> {
        let Shared { disk, objects_dir, .. } = &*self.0;
        for _ in 0..ATTEMPTS_MAX {
            let path = disk.create_temporary_directory(objects_dir, OWN_PREFIX, 0o700)?;
            match PathLock::exclusive(disk, &path) {
                Ok(Some(lock)) => return Ok(Made { path, lock }),
                // A sweep saw the directory before it was locked, and took it away.
                Ok(None) => {}
                Err(error) => {
                    // It is empty. What cannot be removed is left to the sweep.
                    let _ = disk.remove_directory(&path);
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("quarantine keeps vanishing"))
    }
}

/// Names of our own quarantines begin so, and go on with six letters. git's have the letters
/// right behind `incoming-`; its prune sweeps both.
pub(in crate::repo) const OWN_PREFIX: &str = "tmp_objdir-incoming-packhouse-";

const ATTEMPTS_MAX: u32 = 10;
