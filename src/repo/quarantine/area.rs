//! The directory of one quarantine: made, locked, written into, taken away.

use super::super::durable_file::DurableFile;
use super::super::environment::Environment;
use super::super::keep::KeepRegistry;
use super::super::loose::loose_path;
use super::super::path_lock::PathLock;
use super::super::quoted_path;
use super::super::repository::Repository;
use super::migrate::{self, MigrateError, Migrated};
use super::received::Received;
use crate::model::oid;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// A private directory of objects inside a repository's own.
///
/// Dropping it, or [`discard`](Self::discard), removes it with all that is in it.
/// [`migrate`](Self::migrate) consumes it: it cannot happen twice.
#[derive(Debug)]
pub struct Quarantine {
    repository: Repository,
    path: PathBuf,
    received: Received,
    /// Directories below `path` that this value has made.
    directories: HashSet<PathBuf>,
    is_removed: bool,
    /// Held while alive, and what tells this directory from any other that may get its path.
    /// Where the file system locks no directories, as with NFS, the sweep goes by age.
    lock: PathLock,
}

impl Quarantine {
    /// Makes an empty quarantine in the repository's directory of objects.
    pub fn create(repository: &Repository) -> io::Result<Self> {
        let disk = repository.disk();
        disk.remove_leftovers();
        for _ in 0..ATTEMPTS_MAX {
            let path =
                disk.create_temporary_directory(repository.objects_dir(), OWN_PREFIX, 0o700)?;
            let lock = match PathLock::exclusive(disk, &path) {
                Ok(Some(lock)) => lock,
                // A sweep saw the directory before it was locked, and took it away.
                Ok(None) => continue,
                Err(error) => {
                    // It is empty. What cannot be removed is left to the sweep.
                    let _ = disk.remove_directory(&path);
                    return Err(error);
                }
            };
            return Ok(Self {
                repository: repository.clone(),
                path,
                received: Received::default(),
                directories: HashSet::new(),
                is_removed: false,
                lock,
            });
        }
        Err(io::Error::other("quarantine keeps vanishing"))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where packs go, made at the first call.
    pub fn pack_directory(&mut self) -> io::Result<PathBuf> {
        let directory = self.path.join("pack");
        self.make(&directory)?;
        Ok(directory)
    }

    /// Where a loose object goes. Its directory is made at the first call.
    pub fn loose_path(&mut self, id: &oid) -> io::Result<PathBuf> {
        let path = loose_path(&self.path, id);
        if let Some(parent) = path.parent() {
            self.make(parent)?;
        }
        Ok(path)
    }

    /// Takes a file that was received, under the path it has now: it must be here, unchanged, when
    /// the quarantine is migrated, and is kept open until it is flushed. Files beyond a few
    /// hundred are closed and opened again for that.
    pub fn adopt(&mut self, file: DurableFile, path: PathBuf) {
        self.received.adopt(file, path);
    }

    /// To be called before a hook is let at the quarantine: from now on a change to a file that was
    /// received is noticed, not only its removal.
    pub fn seal(&mut self) -> io::Result<()> {
        self.received.seal()
    }

    /// What a hook, or a git run by one, must find in its environment to see the quarantined
    /// objects: `GIT_QUARANTINE_PATH`, `GIT_OBJECT_DIRECTORY` and
    /// `GIT_ALTERNATE_OBJECT_DIRECTORIES`, all absolute (git-receive-pack(1), "Quarantine
    /// environment").
    pub fn environment(&self) -> Environment {
        const ALTERNATES: &str = "GIT_ALTERNATE_OBJECT_DIRECTORIES";
        let mut alternates = OsString::new();
        let before = self.repository.environment().var(ALTERNATES);
        if let Some(before) = before.filter(|before| !before.is_empty()) {
            alternates.push(before);
            alternates.push(":");
        }
        alternates.push(quoted_path::entry(self.repository.objects_dir()));
        let mut environment = Environment::empty();
        environment.set("GIT_QUARANTINE_PATH", &self.path);
        environment.set("GIT_OBJECT_DIRECTORY", &self.path);
        environment.set(ALTERNATES, alternates);
        environment
    }

    /// Flushes whatever lies here by now, hooks' own objects included, and moves it among the
    /// repository's objects: loose ones, keep files, packs, reverse indexes, others, indexes last;
    /// then flushes the directories, each once. Every pack gets a keep file, which goes with the
    /// guard in the result.
    ///
    /// Nothing is moved if anything that was [adopted](Self::adopt) has been removed or changed
    /// meanwhile ([`MigrateError::Altered`]). After any other error some of it may have been moved:
    /// nothing refers to it yet.
    pub fn migrate(mut self, keeps: &KeepRegistry) -> Result<Migrated, MigrateError> {
        let received = std::mem::take(&mut self.received);
        let area = migrate::Area { path: &self.path, identity: self.lock.identity() };
        let migrated = migrate::run(&self.repository, area, received, keeps)?;
        // What cannot be removed has no effect, and the sweep finds it.
        let _ = self.remove();
        Ok(migrated)
    }

    /// Removes the quarantine with all that is in it. What cannot be removed now is removed when
    /// the next quarantine is made, or with [`Disk::remove_leftovers`](super::super::Disk).
    pub fn discard(mut self) -> io::Result<()> {
        self.remove()
    }

    fn make(&mut self, directory: &Path) -> io::Result<()> {
        if self.directories.contains(directory) {
            return Ok(());
        }
        match self.repository.disk().create_directory(directory, 0o777) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created?,
        }
        self.directories.insert(directory.to_owned());
        Ok(())
    }

    fn remove(&mut self) -> io::Result<()> {
        self.received.close();
        if std::mem::replace(&mut self.is_removed, true) {
            return Ok(());
        }
        self.repository.disk().remove_now_or_later(&self.path, self.lock.identity())
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        // What cannot be removed now is tried again.
        let _ = self.remove();
    }
}

/// Names of our own quarantines begin so, and go on with six letters. git's have the letters
/// right behind `incoming-`; its prune sweeps both.
pub(in crate::repo) const OWN_PREFIX: &str = "tmp_objdir-incoming-packhouse-";

const ATTEMPTS_MAX: u32 = 10;
