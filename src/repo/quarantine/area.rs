//! A quarantine: what a push brings, in memory while that will do, else in a directory of its own.

use super::super::environment::Environment;
use super::super::keep::KeepRegistry;
use super::super::quoted_path;
use super::super::repository::Repository;
use super::directory::QuarantineDirectory;
use super::migrate;
use super::new_file::{NewContent, NewFile};
use super::outcome::{MigrateError, Migrated};
use super::received::Received;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What a push brings, apart from the repository's own objects until it is migrated.
///
/// Files that were received in memory stay there; the directory is made when something has to lie
/// in it. Dropping the quarantine, or [`discard`](Self::discard), removes the directory with all
/// that is in it. [`migrate`](Self::migrate) consumes it: it cannot happen twice.
#[derive(Debug)]
pub struct Quarantine {
    repository: Repository,
    directory: QuarantineDirectory,
    state: Mutex<State>,
    is_removed: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Files that are in memory alone, by their names below the quarantine.
    held: Vec<(PathBuf, Vec<u8>)>,
    received: Received,
}

impl Quarantine {
    /// An empty quarantine of a repository. Nothing is on disk yet.
    pub fn new(repository: &Repository) -> Self {
        repository.disk().remove_leftovers();
        Self {
            repository: repository.clone(),
            directory: QuarantineDirectory::new(repository.disk(), repository.objects_dir()),
            state: Mutex::default(),
            is_removed: false,
        }
    }

    /// Where files go that are not held in memory.
    pub fn directory(&self) -> &QuarantineDirectory {
        &self.directory
    }

    /// Takes a file that was received. One that was written must be here, unchanged, when the
    /// quarantine is migrated, and is kept open until it is flushed; files beyond a few hundred
    /// are closed and opened again for that.
    pub fn adopt(&mut self, file: NewFile) -> io::Result<()> {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        match file.content {
            NewContent::Held(bytes) => state.held.push((file.name, bytes)),
            NewContent::Written(written) => {
                state.received.adopt(written, self.directory.path()?.join(file.name));
            }
        }
        Ok(())
    }

    /// Puts everything that was received into the directory, for whoever has to find it there: a
    /// hook, or a walk over the new objects. Returns the directory.
    pub fn put_on_disk(&self) -> io::Result<&Path> {
        let path = self.directory.path()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((name, bytes)) = state.held.pop() {
            let to = path.join(&name);
            if let Err(error) = self.write(&to, &bytes, &mut state.received) {
                state.held.push((name, bytes));
                return Err(error);
            }
        }
        Ok(path)
    }

    fn write(&self, to: &Path, bytes: &[u8], received: &mut Received) -> io::Result<()> {
        let (disk, permissions) = (self.repository.disk(), self.repository.permissions());
        let mode = self.repository.file_mode(true);
        let mut file = match disk.create_file(to, mode) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = to.parent().unwrap_or(to);
                disk.create_directory(parent, self.repository.directory_mode())?;
                permissions.share_directory(disk, parent)?;
                disk.create_file(to, mode)?
            }
            created => created?,
        };
        permissions.share_file(&file)?;
        file.write_all(bytes)?;
        received.adopt(file, to.to_owned());
        Ok(())
    }

    /// To be called before a hook is let at the quarantine: puts everything on disk, and from now
    /// on a change to a file that was received is noticed, not only its removal.
    pub fn seal(&mut self) -> io::Result<()> {
        self.put_on_disk()?;
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).received.seal()
    }

    /// What a hook, or a git run by one, must find in its environment to see the quarantined
    /// objects: `GIT_QUARANTINE_PATH`, `GIT_OBJECT_DIRECTORY` and
    /// `GIT_ALTERNATE_OBJECT_DIRECTORIES`, all absolute (git-receive-pack(1), "Quarantine
    /// environment"). The directory is there from then on.
    pub fn environment(&self) -> io::Result<Environment> {
        const ALTERNATES: &str = "GIT_ALTERNATE_OBJECT_DIRECTORIES";
        let mut alternates = OsString::new();
        let before = self.repository.environment().var(ALTERNATES);
        if let Some(before) = before.filter(|before| !before.is_empty()) {
            alternates.push(before);
            alternates.push(":");
        }
        alternates.push(quoted_path::entry(self.repository.objects_dir()));
        let path = self.directory.path()?;
        let mut environment = Environment::empty();
        environment.set("GIT_QUARANTINE_PATH", path);
        environment.set("GIT_OBJECT_DIRECTORY", path);
        environment.set(ALTERNATES, alternates);
        Ok(environment)
    }

    /// Flushes whatever lies here by now, hooks' own objects included, and gives it its place
    /// among the repository's objects: loose ones, keep files, packs, reverse indexes, others,
    /// indexes last; then flushes the directories, each once. Every pack gets a keep file, which
    /// goes with the guard in the result.
    ///
    /// What is in memory is written right where it is to stay, under one of git's temporary
    /// names, flushed there and renamed.
    ///
    /// Nothing is moved if anything that was [adopted](Self::adopt) has been removed or changed
    /// meanwhile ([`MigrateError::Altered`]). After any other error some of it may have been moved:
    /// nothing refers to it yet.
    pub fn migrate(mut self, keeps: &KeepRegistry) -> Result<Migrated, MigrateError> {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let State { held, received } = std::mem::take(state);
        let area = self.directory.made().map(|(path, identity)| migrate::Area { path, identity });
        let migrated = migrate::run(&self.repository, area, held, received, keeps)?;
        // What cannot be removed has no effect, and the sweep finds it.
        let _ = self.remove();
        Ok(migrated)
    }

    /// Removes the quarantine with all that is in it. What cannot be removed now is removed when
    /// the next quarantine is made, or with [`Disk::remove_leftovers`](super::super::Disk).
    pub fn discard(mut self) -> io::Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> io::Result<()> {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).received.close();
        if std::mem::replace(&mut self.is_removed, true) {
            return Ok(());
        }
        match self.directory.made() {
            Some((path, of)) => self.repository.disk().remove_now_or_later(path, of),
            None => Ok(()),
        }
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        // What cannot be removed is tried again.
        let _ = self.remove();
    }
}
