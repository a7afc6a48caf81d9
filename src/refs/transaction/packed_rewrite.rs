//! packed-refs, written anew under its lock.
//!
//! git writes `packed-refs.new` and fails if there is one already; so we use another name, in
//! case we die before the rename.

use super::locking::{create_lock, note_lock};
use super::temporary::Temporary;
use crate::refs::context::{LockTimeout, RefContext, with_lock_suffix};
use crate::refs::error::{Doing, RefError};
use crate::refs::lock::{LockFile, take_lock};
use crate::refs::packed::{PackedChanges, PackedRefs};
use crate::refs::store::TemporaryPlace;
use crate::repo::Component;
use std::io::BufWriter;
use std::path::PathBuf;

/// Takes the lock of packed-refs. While it is held `git pack-refs` packs nothing: neither a value
/// that is about to be deleted nor one that is about to be written.
pub(super) fn lock_packed_refs(context: &RefContext) -> Result<LockFile, RefError> {
    let timeout = context.settings.packed_refs_timeout;
    lock_shared_file(context, context.packed_refs_path(), &packed_refs_place(context), timeout)
}

/// Takes the lock of a file that is no ref's and that git locks too. A blank file is made in `place`
/// if the lock is to be noted.
pub(super) fn lock_shared_file(
    context: &RefContext,
    file: PathBuf,
    place: &TemporaryPlace,
    timeout: LockTimeout,
) -> Result<LockFile, RefError> {
    let path = with_lock_suffix(file);
    // Where there is no room for it, as on the way back from a full disk, the lock may do without.
    let blank = context.in_flight.is_recording();
    let blank = blank.then(|| Temporary::empty(context, place).ok()).flatten();
    let note = note_lock(context, &path, blank.as_ref());
    let of = blank.as_ref().map(|blank| (blank, &note));
    take_lock(&context.disk, path.clone(), timeout, |path| create_lock(context, path, of))
        .map_err(|error| RefError::PackedRefsLocked { path, reason: (&error).into() })
}

/// Writes and flushes the file that is to take the place of packed-refs.
pub(super) fn write_packed_refs(
    context: &RefContext,
    packed: &PackedRefs,
    changes: &PackedChanges,
) -> Result<Temporary, RefError> {
    let (disk, mode) = (&context.disk, context.settings.file_mode);
    let TemporaryPlace { directory, prefix } = packed_refs_place(context);
    let file =
        disk.create_temporary(&directory, prefix, mode).doing("create a file in", &directory)?;
    let path = file.path().to_owned();
    let temporary = Temporary::of(disk, path.clone());
    // Millions of lines: few writes.
    let mut writer = BufWriter::with_capacity(1 << 17, file);
    packed.write_changed(changes, &mut writer)?.doing("write", &path)?;
    let file = writer.into_inner().map_err(std::io::IntoInnerError::into_error);
    file.and_then(|file| file.flush_as(Component::Reference)).doing("write", &path)?;
    Ok(temporary)
}

/// Where packed-refs is written until it is renamed.
pub(super) fn packed_refs_place(context: &RefContext) -> TemporaryPlace {
    TemporaryPlace { directory: context.common_dir.clone(), prefix: "tmp_packed_refs_" }
}
