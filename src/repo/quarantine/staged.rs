//! A file that was written where it is to stay, under a temporary name.

use super::super::disk::Disk;
use super::super::durable_file::DurableFile;
use super::super::repository::Repository;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A file with one of git's temporary names, which git's prune and our sweep take for abandoned
/// when it is old. Removed when it is dropped, unless it has got its name.
#[derive(Debug)]
pub(super) struct Staged {
    disk: Disk,
    path: PathBuf,
    is_named: bool,
}

impl Staged {
    /// Writes `bytes` to a new file in `directory`, with the permissions of an object.
    pub(super) fn write(
        repository: &Repository,
        directory: &Path,
        prefix: &str,
        bytes: &[u8],
    ) -> io::Result<(Self, DurableFile)> {
        let disk = repository.disk();
        let mut file = disk.create_temporary(directory, prefix, repository.file_mode(true))?;
        let path = file.path().to_owned();
        let staged = Self { disk: disk.clone(), path, is_named: false };
        repository.permissions().share_file(&file)?;
        file.write_all(bytes)?;
        Ok((staged, file))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    pub(super) fn rename(&mut self, to: &Path) -> io::Result<()> {
        self.disk.rename(&self.path, to)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_named {
            // With a second try: there is nobody to tell. What stays is swept when it is old.
            let _ = self.disk.unlink(&self.path).or_else(|_| self.disk.unlink(&self.path));
        }
    }
}

/// Directories that were made on the way. Dropped, they are removed as far as they are empty:
/// a migration that failed leaves none.
#[derive(Debug)]
pub(super) struct MadeDirectories {
    disk: Disk,
    paths: Vec<PathBuf>,
}

impl MadeDirectories {
    pub(super) fn new(disk: &Disk) -> Self {
        Self { disk: disk.clone(), paths: Vec::new() }
    }

    pub(super) fn note(&mut self, path: &Path) {
        self.paths.push(path.to_owned());
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.paths.iter().any(|made| made == path)
    }

    /// Lets them stand: there is something in each.
    pub(super) fn settle(&mut self) {
        self.paths.clear();
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        for path in self.paths.drain(..) {
            // One that is not empty, or not ours any more, stays.
            let _ = self.disk.remove_directory(&path);
        }
    }
}
