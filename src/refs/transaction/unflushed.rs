//! What has changed and is not durable yet.

use crate::refs::error::{Doing, RefError};
use crate::refs::name_conflict::is_gone;
use crate::refs::reflog::Written;
use crate::repo::{Component, Disk, DurableFile};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Directories and reflogs to be flushed, each with the edits (by index) that depend on it.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    directories: BTreeMap<PathBuf, Vec<usize>>,
    logs: Vec<(usize, DurableFile)>,
    failures: Vec<(usize, RefError)>,
}

/// LIMIT: reflogs that are held open at once.
const OPEN_LOGS_MAX: usize = 64;

impl Unflushed {
    pub(super) fn add_directory(&mut self, index: usize, directory: PathBuf) {
        self.directories.entry(directory).or_default().push(index);
    }

    pub(super) fn add_log(&mut self, index: usize, log: Written) {
        for directory in log.directories {
            self.add_directory(index, directory);
        }
        self.logs.push((index, log.file));
        if self.logs.len() >= OPEN_LOGS_MAX {
            self.flush_logs();
        }
    }

    /// Flushes everything and tells which edits are not durable, and why.
    pub(super) fn flush(mut self, disk: &Disk) -> Vec<(usize, RefError)> {
        self.flush_logs();
        for (directory, indexes) in self.directories {
            let flushed = match disk.flush_directory(&directory, Component::Reference) {
                // Empty again, and removed: what it held is gone, or in packed-refs. Who did that
                // answers for it; the directory above, which lost it, is flushed too.
                Err(error) if is_gone(&error) => continue,
                result => result.doing("flush", &directory),
            };
            if let Err(error) = flushed {
                self.failures.extend(indexes.iter().map(|index| (*index, error.clone())));
            }
        }
        self.failures
    }

    fn flush_logs(&mut self) {
        for (index, log) in self.logs.drain(..) {
            if let Err(error) = log.flush_as(Component::Reference).doing("flush", log.path()) {
                self.failures.push((index, error));
            }
        }
    }
}
