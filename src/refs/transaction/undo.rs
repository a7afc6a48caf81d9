//! How to take back what a transaction has done so far.
//!
//! Before a file is replaced or removed it gets a second name, so that taking it back is a
//! rename: a full disk has room for that.

use super::temporary::Temporary;
use crate::refs::error::{Doing, RefError};
use crate::repo::Disk;
use std::path::{Path, PathBuf};

/// Steps that can be taken back, newest last. Dropped, they are taken back as far as possible.
#[derive(Debug)]
pub(super) struct Undo {
    disk: Disk,
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// The file was not there before.
    Remove(PathBuf),
    /// The file was this one.
    Restore(Temporary, PathBuf),
}

impl Undo {
    pub(super) fn new(disk: &Disk) -> Self {
        Self { disk: disk.clone(), steps: Vec::new() }
    }

    /// Makes a change to a file, and remembers how to take it back: by putting `saved` there again
    /// or, without that, by removing the file.
    pub(super) fn around(
        &mut self,
        path: &Path,
        saved: Option<Temporary>,
        change: impl FnOnce() -> Result<(), RefError>,
    ) -> Result<(), RefError> {
        change()?;
        self.steps.push(match saved {
            Some(saved) => Step::Restore(saved, path.to_owned()),
            None => Step::Remove(path.to_owned()),
        });
        Ok(())
    }

    /// Whether nothing was done.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Takes everything back, the newest first, and goes on after a failure. The first is told.
    pub(super) fn take_back(&mut self) -> Result<(), RefError> {
        let mut result = Ok(());
        for step in self.steps.drain(..).rev() {
            let (done, path) = match step {
                Step::Remove(path) => (self.disk.unlink(&path).map(drop), path),
                Step::Restore(mut saved, path) => (saved.rename_to(&path), path),
            };
            result = result.and(done.doing("take back", &path));
        }
        result
    }

    /// Lets everything stand.
    pub(super) fn forget(&mut self) {
        self.steps.clear();
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // Reached with steps left on a panic only.
        let _ = self.take_back();
    }
}
