//! New objects as loose files in the quarantine.

use super::error::IngestError;
use super::options::Destination;
use crate::model::{ObjectId, ObjectKind};
use crate::repo::{DurableFile, LooseWriter, loose_path};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Writes the objects of a push under their final names: nobody else looks into a quarantine.
#[derive(Debug)]
pub(super) struct LooseObjects<'a> {
    destination: &'a Destination,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    writer: LooseWriter,
    files: Vec<(DurableFile, PathBuf)>,
}

impl<'a> LooseObjects<'a> {
    pub(super) fn new(destination: &'a Destination) -> Self {
        let Destination { disk, permissions, compression, .. } = destination;
        let writer = LooseWriter::new(disk, *permissions, *compression);
        Self { destination, state: Mutex::new(State { writer, files: Vec::new() }) }
    }

    /// Writes an object, unless the pack brought it before.
    pub(super) fn write(
        &self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<(), IngestError> {
        let path = loose_path(&self.destination.objects_dir, id);
        let mut state = self.state();
        let mut write = || state.writer.write_at(&path, kind, content);
        let written = match write() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let fan_out = path.parent().unwrap_or(Path::new(""));
                self.destination.create_directory(fan_out).and_then(|()| write())
            }
            written => written,
        };
        match written {
            Ok(file) => {
                state.files.push((file, path));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(IngestError::disk("write a loose object", error)),
        }
    }

    /// The files that were written, open, with their names.
    pub(super) fn into_files(self) -> Vec<(DurableFile, PathBuf)> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).files
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
