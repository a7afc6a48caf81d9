//! Files that hold a new value until it is moved into its place.

use crate::refs::context::RefContext;
use crate::refs::error::{Doing, RefError};
use crate::refs::lock::remove_surely;
use crate::refs::packed_cache::PACKED_REFS_BYTES_MAX;
use crate::refs::store::TemporaryPlace;
use crate::repo::{Component, Disk, DurableFile, Stat};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is removed when it is dropped, unless it has been moved.
#[derive(Debug)]
pub(super) struct Temporary {
    disk: Disk,
    path: PathBuf,
    moved: bool,
    /// Which file it is, if locks that are names of it are to be noted.
    identity: Option<Stat>,
}

impl Temporary {
    /// Takes charge of a file.
    pub(super) fn of(disk: &Disk, path: PathBuf) -> Self {
        Self { disk: disk.clone(), path, moved: false, identity: None }
    }

    /// Writes and flushes the bytes that a file of refs shall have.
    pub(super) fn write(
        context: &RefContext,
        place: &TemporaryPlace,
        bytes: &[u8],
    ) -> Result<Self, RefError> {
        let (disk, directory) = (&context.disk, &place.directory);
        let mut file = disk
            .create_temporary(directory, place.prefix, context.settings.file_mode)
            .doing("create a file in", directory)?;
        let temporary = Self::of(disk, file.path().to_owned());
        file.write_all(bytes)
            .and_then(|()| file.flush_as(Component::Reference))
            .doing("write", &temporary.path)?;
        temporary.identified(context, &file)
    }

    /// Creates an empty file, not to be moved anywhere.
    pub(super) fn empty(context: &RefContext, place: &TemporaryPlace) -> Result<Self, RefError> {
        let (disk, directory) = (&context.disk, &place.directory);
        let file = disk
            .create_temporary(directory, place.prefix, context.settings.file_mode)
            .doing("create a file in", directory)?;
        Self::of(disk, file.path().to_owned()).identified(context, &file)
    }

    /// Called once nothing more is written to it.
    fn identified(mut self, context: &RefContext, file: &DurableFile) -> Result<Self, RefError> {
        if context.in_flight.is_recording() {
            self.identity = Some(file.stat().doing("look at", &self.path)?);
        }
        Ok(self)
    }

    /// Gives a file a second name or, where a file can have only one, copies it.
    pub(super) fn second(
        context: &RefContext,
        place: &TemporaryPlace,
        path: &Path,
    ) -> Result<Self, RefError> {
        let disk = &context.disk;
        match disk.link_temporary(path, &place.directory, place.prefix) {
            Ok(linked) => Ok(Self::of(disk, linked)),
            Err(error) if cannot_link(&error) => {
                let bytes = disk.read(path, PACKED_REFS_BYTES_MAX).doing("read", path)?;
                Self::write(context, place, &bytes)
            }
            Err(error) => Err(error).doing("link", path),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn identity(&self) -> Option<&Stat> {
        self.identity.as_ref()
    }

    /// Moves the file to `path`, in place of one that is there.
    pub(super) fn rename_to(&mut self, path: &Path) -> io::Result<()> {
        self.disk.rename(&self.path, path)?;
        self.moved = true;
        Ok(())
    }
}

/// Whether this file system has no second names, or no room for one more.
pub(super) fn cannot_link(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), PermissionDenied | TooManyLinks | Unsupported)
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.moved {
            remove_surely(&self.disk, &self.path);
        }
    }
}
