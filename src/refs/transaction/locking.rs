//! How the lock files of transactions are made, and named in the record of what is in flight.
//!
//! A lock can only be noted before it is there if it is a second name of a file that is there
//! already: of the value that is ready, or of a blank file that is made for that. The record tells
//! by that file whether what has the name later is still our lock. Without a record a lock that
//! has no value is simply an empty file.

use super::ahead::Ahead;
use super::temporary::{Temporary, cannot_link};
use crate::refs::context::RefContext;
use crate::refs::lock::LockNote;
use std::io;
use std::path::{Path, PathBuf};

/// Creates a lock file: as a second name of a file, with the note that says so, or empty.
pub(super) fn create_lock(
    context: &RefContext,
    path: &Path,
    of: Option<(&Temporary, &LockNote)>,
) -> io::Result<LockNote> {
    if let Some((file, note)) = of {
        match context.disk.link(file.path(), path) {
            Err(error) if cannot_link(&error) => {}
            result => return result.map(|()| note.clone()),
        }
    }
    let file = context.disk.create_file(path, context.settings.file_mode)?;
    if !context.in_flight.is_recording() {
        return Ok(LockNote::default());
    }
    // A process that is killed right here leaves a lock that nothing names.
    let identity = file.stat().ok();
    Ok(LockNote::of(&context.in_flight, identity.iter().map(|identity| (path, identity))))
}

/// Notes that a lock is about to become a second name of `file`.
pub(super) fn note_lock(context: &RefContext, path: &Path, file: Option<&Temporary>) -> LockNote {
    let identity = file.and_then(Temporary::identity);
    LockNote::of(&context.in_flight, identity.map(|identity| (path, identity)))
}

/// The same for all locks of a group, in one write.
pub(super) fn note_locks<'a>(
    context: &RefContext,
    ahead: impl Iterator<Item = &'a mut Ahead>,
    blank: Option<&Temporary>,
) {
    if !context.in_flight.is_recording() {
        return;
    }
    let mut ahead: Vec<&mut Ahead> = ahead.collect();
    let paths: Vec<PathBuf> =
        ahead.iter().map(|ahead| context.lock_path(ahead.target.as_bstr())).collect();
    let names = ahead.iter().zip(&paths).filter_map(|(ahead, path)| {
        let identity = ahead.value_file().or(blank)?.identity()?;
        Some((path.as_path(), identity))
    });
    let note = LockNote::of(&context.in_flight, names);
    for ahead in &mut ahead {
        ahead.noted = Some((ahead.target.clone(), note.clone()));
    }
}
