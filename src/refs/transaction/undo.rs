//! How to take back what a transaction has done so far, durably.
//!
//! Before a file is replaced or removed it gets a second name, so that taking it back is a
//! rename: a full disk has room for that.
//!
//! What was changed may be durable already: a flush by another push, or the kernel in its own
//! time, is enough. So what is taken back is flushed too, before anybody is told that nothing
//! changed. And in the reverse of the order in which it was done: the files of refs that were
//! deleted are durable again before the packed-refs comes back that has older values of theirs.

use super::temporary::Temporary;
use crate::refs::error::{Doing, RefError};
use crate::refs::name_conflict::is_gone;
use crate::repo::{Component, Disk};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Steps that can be taken back, newest last. Dropped, they are taken back as far as possible.
#[derive(Debug)]
pub(super) struct Undo {
    disk: Disk,
    packed_refs: PathBuf,
    steps: Vec<Step>,
    /// Directories in which something was taken back.
    touched: BTreeSet<PathBuf>,
}

#[derive(Debug)]
enum Step {
    /// The file was not there before.
    Remove(PathBuf),
    /// The file was this one.
    Restore(Temporary, PathBuf),
}

impl Undo {
    /// `packed_refs` is the one file whose place in the order matters.
    pub(super) fn new(disk: &Disk, packed_refs: PathBuf) -> Self {
        let (steps, touched) = (Vec::new(), BTreeSet::new());
        Self { disk: disk.clone(), packed_refs, steps, touched }
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

    /// Takes everything back, the newest first, and makes that durable. Goes on after a failure;
    /// the first is told.
    pub(super) fn take_back(&mut self) -> Result<(), RefError> {
        let mut result = Ok(());
        let mut unflushed = BTreeSet::new();
        for step in std::mem::take(&mut self.steps).into_iter().rev() {
            let (Step::Remove(path) | Step::Restore(_, path)) = &step;
            let (path, is_packed_refs) = (path.clone(), *path == self.packed_refs);
            if is_packed_refs {
                // DURABILITY: it holds older values of refs whose files have just come back.
                result = result.and(self.flush(&mut unflushed));
            }
            let done = match step {
                Step::Remove(path) => self.disk.unlink(&path).map(drop),
                Step::Restore(saved, path) => self.restore(saved, &path),
            };
            result = result.and(done.doing("take back", &path));
            unflushed.extend(path.parent().map(Path::to_owned));
            if is_packed_refs {
                result = result.and(self.flush(&mut unflushed));
            }
        }
        result.and(self.flush(&mut unflushed))
    }

    /// The directories in which something was taken back.
    pub(super) fn touched(&self) -> &BTreeSet<PathBuf> {
        &self.touched
    }

    /// Lets everything stand.
    pub(super) fn forget(&mut self) {
        self.steps.clear();
    }

    fn restore(&self, mut saved: Temporary, path: &Path) -> io::Result<()> {
        saved.rename_to(path)?;
        if !self.disk.policy().flushes(Component::Reference) {
            return Ok(());
        }
        // Whoever wrote it may have flushed nothing. Then its bytes are not durable, and its name
        // must not become so before they are.
        match self.disk.open_to_flush(path) {
            Err(error) if is_gone(&error) => Ok(()),
            file => file?.flush_as(Component::Reference),
        }
    }

    fn flush(&mut self, unflushed: &mut BTreeSet<PathBuf>) -> Result<(), RefError> {
        let mut result = Ok(());
        for directory in std::mem::take(unflushed) {
            let flushed = self.disk.flush_directory(&directory, Component::Reference);
            result = result.and(flushed.doing("flush", &directory));
            self.touched.insert(directory);
        }
        result
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // Reached with steps left on a panic only.
        let _ = self.take_back();
    }
}
