//! New objects as loose ones: in memory if they are few and small, else files in the quarantine.

use super::error::IngestError;
use super::options::Destination;
use crate::model::{ObjectId, ObjectKind};
use crate::repo::{LooseWriter, NewContent, NewFile, loose_path};
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Deflates the objects of a push. On disk they get their final names at once: nobody else looks
/// into a quarantine.
#[derive(Debug)]
pub(super) struct LooseObjects<'a> {
    destination: &'a Destination,
    in_memory: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    writer: LooseWriter,
    files: Vec<NewFile>,
    /// Those in memory: a pack may bring an object twice.
    held: HashSet<ObjectId>,
}

impl<'a> LooseObjects<'a> {
    /// Nothing yet. What is to come goes to memory if it is known to be little.
    pub(super) fn new(destination: &'a Destination, in_memory: bool) -> Self {
        let Destination { disk, permissions, compression, .. } = destination;
        let writer = LooseWriter::new(disk, *permissions, *compression);
        let state = State { writer, files: Vec::new(), held: HashSet::new() };
        Self { destination, in_memory, state: Mutex::new(state) }
    }

    /// Takes an object, unless the pack brought it before.
    pub(super) fn write(
        &self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<(), IngestError> {
        let mut state = self.state();
        let taken = if self.in_memory {
            state.hold(id, kind, content)
        } else {
            self.write_file(&mut state, id, kind, content)
        };
        taken.map_err(|error| IngestError::disk("write a loose object", error))
    }

    fn write_file(
        &self,
        state: &mut State,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
    ) -> io::Result<()> {
        let name = loose_path(Path::new(""), id);
        let path = self.destination.directory.path()?.join(&name);
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
                state.files.push(NewFile { name, content: NewContent::Written(file) });
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The files, with their names.
    pub(super) fn into_files(self) -> Vec<NewFile> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).files
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn hold(&mut self, id: &ObjectId, kind: ObjectKind, content: &[u8]) -> io::Result<()> {
        if self.held.insert(*id) {
            let bytes = self.writer.deflated(kind, content)?;
            let name = loose_path(Path::new(""), id);
            self.files.push(NewFile { name, content: NewContent::Held(bytes) });
        }
        Ok(())
    }
}
