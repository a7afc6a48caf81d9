//! What can be done for an edit before its lock is held: all that takes long.

use super::edit::{Change, RefEdit};
use super::locking::note_lock;
use super::run::RefTransaction;
use super::temporary::Temporary;
use crate::model::{ObjectId, RefName};
use crate::refs::error::RefError;
use crate::refs::lock::LockNote;
use crate::refs::packed::Peeled;
use crate::refs::store::{RefStore, Resolved};
use bstr::BStr;

/// Where an edit leads, and the new value, ready to be moved into place.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) resolved: Resolved,
    pub(super) target: RefName,
    pub(super) value: Value,
    /// The note of the lock, and for which target that is.
    pub(super) noted: Option<(RefName, LockNote)>,
}

/// A new value.
#[derive(Debug)]
pub(super) enum Value {
    /// There is none: the ref shall go.
    Nothing,
    /// In a file, flushed.
    File(Temporary),
    /// To be a line in packed-refs.
    Line(ObjectId, Peeled),
}

/// Where new values are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Each into its file.
    Files,
    /// Into packed-refs, if the ref does not exist yet. One that exists never is packed: if a
    /// packed value changed, then `git pack-refs`, which removes files whose value it believes
    /// packed, could uncover one that was never meant to be current again.
    PackedRefs,
}

impl Ahead {
    /// Looks at the ref and, if it is as expected, writes the new value. Whoever comes too late
    /// for a race mostly learns it here, without having written anything.
    pub(super) fn new(
        transaction: &RefTransaction<'_>,
        edit: &RefEdit,
        placement: Placement,
    ) -> Result<Self, RefError> {
        let resolved = transaction.store.follow(edit.name.as_bstr())?;
        Self::led_to(transaction, edit, placement, resolved)
    }

    /// As above, the ref having been looked at.
    pub(super) fn led_to(
        transaction: &RefTransaction<'_>,
        edit: &RefEdit,
        placement: Placement,
        resolved: Resolved,
    ) -> Result<Self, RefError> {
        let store = transaction.store;
        let target = check(edit, &resolved)?;
        let value = match edit.change {
            Change::Delete => Value::Nothing,
            Change::Set(id) if placement == Placement::PackedRefs && resolved.id.is_none() => {
                Value::Line(id, (transaction.peel)(&id))
            }
            Change::Set(id) => Value::File(write_value(store, target.as_bstr(), id)?),
        };
        Ok(Self { resolved, target, value, noted: None })
    }

    /// Looks at the ref once more; the value stays.
    pub(super) fn look_again(&mut self, store: &RefStore, edit: &RefEdit) -> Result<(), RefError> {
        self.resolved = store.follow(edit.name.as_bstr())?;
        self.target = check(edit, &self.resolved)?;
        Ok(())
    }

    /// The note of the lock, which will be a second name of the value or of `blank`.
    pub(super) fn lock_note(&mut self, store: &RefStore, blank: Option<&Temporary>) -> LockNote {
        if let Some((target, note)) = &self.noted {
            // Unless a symbolic ref leads elsewhere by now.
            if *target == self.target {
                return note.clone();
            }
        }
        let context = store.context();
        let path = context.lock_path(self.target.as_bstr());
        let note = note_lock(context, &path, self.value_file().or(blank));
        self.noted = Some((self.target.clone(), note.clone()));
        note
    }

    pub(super) fn value_file(&self) -> Option<&Temporary> {
        match &self.value {
            Value::File(file) => Some(file),
            Value::Nothing | Value::Line(..) => None,
        }
    }
}

/// Locks without a value from which on they are names of one file.
const BLANK_FROM: usize = 64;

/// The file of which the locks of these edits can be second names, where they have no value.
/// Making and removing thousands of files costs a file system much more than that; and without
/// such a file a lock cannot be noted before it is there.
pub(super) fn blank_for<'a>(
    store: &RefStore,
    ahead: impl Iterator<Item = &'a Ahead>,
) -> Result<Option<Temporary>, RefError> {
    let mut without = ahead.filter(|ahead| ahead.value_file().is_none());
    let from = if store.context().in_flight.is_recording() { 1 } else { BLANK_FROM };
    match without.nth(from - 1) {
        Some(ahead) => {
            let place = store.temporary_place(ahead.target.as_bstr());
            Temporary::empty(store.context(), &place).map(Some)
        }
        None => Ok(None),
    }
}

/// Compares what the name of an edit leads to, and says what that is.
fn check(edit: &RefEdit, resolved: &Resolved) -> Result<RefName, RefError> {
    let name = edit.name.as_bstr();
    let target = RefName::for_deletion(resolved.target())
        .map_err(|error| RefError::Broken { name: name.into(), target: error.name })?;
    edit.expected.check(name, target.as_bstr(), resolved.id)?;
    Ok(target)
}

/// Writes and flushes the file of a ref.
pub(super) fn write_value(
    store: &RefStore,
    target: &BStr,
    id: ObjectId,
) -> Result<Temporary, RefError> {
    let place = store.temporary_place(target);
    Temporary::write(store.context(), &place, format!("{id}\n").as_bytes())
}
