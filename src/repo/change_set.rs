//! Changes that become durable together, in the one safe order: bytes, then names, then the
//! directories that hold the names.
//!
//! It takes a *set* so that pushes that are ready together can share flushes.

use super::disk::Disk;
use super::durable_file::DurableFile;
use super::flush_policy::Component;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Files, renames and directories that become durable together.
#[derive(Debug, Default)]
pub struct ChangeSet {
    files: Vec<(DurableFile, Component)>,
    renames: Vec<(PathBuf, PathBuf)>,
    directories: BTreeSet<(PathBuf, Component)>,
}

impl ChangeSet {
    /// A set with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file whose bytes must be durable before any rename of the set.
    pub fn add_file(&mut self, file: DurableFile, component: Component) {
        self.files.push((file, component));
    }

    /// Adds a rename; renames happen in the order they were added, after all files are flushed.
    /// The directory that gets the name is flushed after them all.
    pub fn add_rename(&mut self, from: PathBuf, to: PathBuf, component: Component) {
        if let Some(parent) = to.parent() {
            self.add_directory(parent.to_owned(), component);
        }
        self.renames.push((from, to));
    }

    /// Adds a directory to be flushed after the renames.
    pub fn add_directory(&mut self, path: PathBuf, component: Component) {
        self.directories.insert((path, component));
    }

    /// Flushes the files, renames, flushes the directories. On an error the renames done so far
    /// stand: nothing refers to objects yet, and a ref's caller reports what may have moved.
    pub fn commit(self, disk: &Disk) -> io::Result<()> {
        for (file, component) in &self.files {
            file.flush_as(*component)?;
        }
        for (from, to) in &self.renames {
            disk.rename(from, to)?;
        }
        let mut flushed: Option<&Path> = None;
        for (directory, component) in &self.directories {
            // One flush serves every component of a directory; the first that is flushed at all
            // does it.
            if flushed == Some(directory) || !disk.policy.flushes_directories_of(*component) {
                continue;
            }
            disk.flush_directory(directory, *component)?;
            flushed = Some(directory);
        }
        Ok(())
    }
}
