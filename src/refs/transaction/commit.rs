//! The steps that carry out one edit, and those they share.

use super::edit::Change;
use super::packed_rewrite::{lock_packed_refs, packed_refs_place, write_packed_refs};
use super::prepare::{ATTEMPTS_MAX, Action, Prepared, free_place};
use super::run::Run;
use super::temporary::Temporary;
use super::undo::Undo;
use crate::refs::error::{Doing, RefError};
use crate::refs::lock::LockFile;
use crate::refs::packed::{PackedChanges, PackedRefs, Peeled};
use crate::refs::reflog::Move;
use crate::refs::store::RefStore;
use crate::repo::Component;
use bstr::ByteSlice;
use std::io;
use std::sync::Arc;

/// What the steps work on.
#[derive(Debug)]
pub(super) struct Work<'r, 'a> {
    pub(super) run: &'r mut Run<'a>,
    /// With it every step can be taken back.
    pub(super) undo: Option<Undo>,
    /// packed-refs as it is while its lock is held.
    pub(super) packed: Option<Arc<PackedRefs>>,
    /// Whether packed-refs was replaced, and its directory flushed while its lock was there.
    pub(super) swapped: bool,
}

/// Whether an edit must keep `git pack-refs` away. A deletion must even if the ref is not packed:
/// its value may be about to be.
pub(super) fn needs_packed_refs(member: &Prepared<'_>) -> bool {
    match member.action {
        Action::SetLoose(_) => false,
        Action::SetPacked(..) => true,
        Action::Delete => member.before.is_some(),
    }
}

impl<'a> Work<'_, 'a> {
    /// Takes the lock of packed-refs, and reads what stays in there until it is let go of.
    pub(super) fn lock_packed_refs(&mut self) -> Result<LockFile, RefError> {
        let lock = lock_packed_refs(self.run.store.context())?;
        self.packed = Some(self.run.store.packed_refs()?);
        Ok(lock)
    }

    /// Looks again, now that packed-refs is locked, whether the name of a ref that goes there is
    /// still free.
    pub(super) fn check_again(&mut self, member: &mut Prepared<'a>) -> Result<(), RefError> {
        match (&member.action, &self.packed) {
            (Action::SetPacked(..), Some(packed)) => check_name(member, packed),
            _ => Ok(()),
        }
    }

    pub(super) fn append_logs(&mut self, member: &mut Prepared<'a>) -> Result<(), RefError> {
        let change = Move {
            before: member.before,
            after: member.edit.change.after(),
            message: member.edit.message.as_bstr(),
        };
        if change.before.is_none() && change.after.is_none() {
            return Ok(());
        }
        let Run { reflogs, unflushed, .. } = &mut *self.run;
        reflogs.append(&member.resolved, change, |log| unflushed.add_log(member.index, log))
    }

    /// Moves a new value into the place of its ref.
    pub(super) fn move_into_place(&mut self, member: &mut Prepared<'a>) -> Result<(), RefError> {
        let store = self.run.store;
        let context = store.context();
        let path = context.ref_path(member.target.as_bstr());
        let creates = member.creates();
        let Action::SetLoose(temporary) = &mut member.action else { return Ok(()) };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut obstructed = false;
            let mut change = || {
                let renamed = temporary.rename_to(&path);
                obstructed = renamed.as_ref().is_err_and(is_obstructed);
                renamed.doing("rename to", &path)
            };
            let moved = match &mut self.undo {
                Some(undo) if member.is_loose => {
                    let place = store.temporary_place(member.target.as_bstr());
                    let saved = Temporary::second(context, &place, &path)?;
                    undo.around(&path, Some(saved), change)
                }
                Some(undo) => undo.around(&path, None, change),
                None => change(),
            };
            match moved {
                Ok(()) => break,
                // A directory was made there since we looked.
                Err(_) if obstructed && attempts < ATTEMPTS_MAX => {
                    free_place(store, member.edit, member.target.as_bstr())?;
                }
                Err(error) => return Err(error),
            }
        }
        member.lock.filled = true;
        if !creates {
            return Ok(());
        }
        // From here on nobody can create a ref below this one. One that was created since we
        // looked, and moved into packed-refs at once, shows now.
        let packed = store.packed_refs();
        packed.and_then(|packed| check_name(member, &packed)).or_else(|error| {
            member.lock.filled = false;
            if self.undo.is_none() {
                self.take_back(member).map_err(|error| error.after_the_move(member.name()))?;
            }
            Err(error)
        })
    }

    /// Removes the file of a ref that should not have been created.
    fn take_back(&mut self, member: &Prepared<'a>) -> Result<(), RefError> {
        let _lock = self.lock_packed_refs()?;
        let context = self.run.store.context();
        let path = context.ref_path(member.target.as_bstr());
        context.disk.unlink(&path).doing("remove", &path)?;
        // DURABILITY: the creation may be durable already.
        if let Some(directory) = path.parent() {
            let flushed = context.disk.flush_directory(directory, Component::Reference);
            flushed.doing("flush", directory)?;
            // Once more without the lock in it.
            self.run.unflushed.add_directory(member.index, directory.to_owned());
        }
        self.restore_packed(std::slice::from_ref(member))?;
        self.note_swapped(member.index);
        Ok(())
    }

    /// Gives refs that got a file for a moment the packed value back that they had without it:
    /// `git pack-refs` may have come by. packed-refs is locked.
    pub(super) fn restore_packed(&mut self, members: &[Prepared<'a>]) -> Result<(), RefError> {
        let packed = self.run.store.packed_refs()?;
        let mut changes = PackedChanges::new();
        for member in members {
            let target = member.target.as_bstr();
            let had_no_file = matches!(member.action, Action::SetLoose(_)) && !member.is_loose;
            if had_no_file && packed.find(target)? != member.before {
                changes.insert(target.into(), member.before.map(|id| (id, Peeled::Unknown)));
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        let new = write_packed_refs(self.run.store.context(), &packed, &changes)?;
        self.swap_packed_refs(new)
    }

    /// Writes what packed-refs shall be; `None` if it can stay as it is.
    pub(super) fn write_packed_refs(
        &self,
        members: &[Prepared<'a>],
    ) -> Result<Option<Temporary>, RefError> {
        let Some(packed) = &self.packed else { return Ok(None) };
        let mut changes = PackedChanges::new();
        for member in members {
            let target = member.target.as_bstr();
            match member.action {
                Action::SetPacked(id, peeled) => {
                    changes.insert(target.into(), Some((id, peeled)));
                }
                Action::Delete if packed.find(target)?.is_some() => {
                    changes.insert(target.into(), None);
                }
                Action::Delete | Action::SetLoose(_) => {}
            }
        }
        if changes.is_empty() {
            return Ok(None);
        }
        write_packed_refs(self.run.store.context(), packed, &changes).map(Some)
    }

    /// Puts a new packed-refs in place, durably.
    pub(super) fn swap_packed_refs(&mut self, mut new: Temporary) -> Result<(), RefError> {
        let context = self.run.store.context();
        let path = context.packed_refs_path();
        let mut change = || new.rename_to(&path).doing("rename to", &path);
        match &mut self.undo {
            Some(undo) => {
                let there = context.disk.stat(&path).doing("look at", &path)?.is_some();
                let save = || Temporary::second(context, &packed_refs_place(context), &path);
                undo.around(&path, there.then(save).transpose()?, change)?;
            }
            None => change()?,
        }
        self.swapped = true;
        // DURABILITY: before any file of a deleted ref goes.
        let directory = &context.common_dir;
        context
            .disk
            .flush_directory(directory, Component::Reference)
            .doing("flush", directory)
            .map_err(|error| error.after_the_move("packed-refs".into()))
    }

    /// Looks whether a directory with refs came into the place of a ref that was packed.
    pub(super) fn check_place(&mut self, member: &mut Prepared<'a>) -> Result<(), RefError> {
        if !matches!(member.action, Action::SetPacked(..)) || !member.creates() {
            return Ok(());
        }
        let store = self.run.store;
        let path = store.context().ref_path(member.target.as_bstr());
        match store.context().disk.stat_link(&path).doing("look at", &path)? {
            None => Ok(()),
            Some(_) => free_place(store, member.edit, member.target.as_bstr()),
        }
    }

    /// Takes refs out of packed-refs that were packed a moment ago.
    pub(super) fn take_out(&mut self, blocked: &[Prepared<'a>]) -> Result<(), RefError> {
        let packed = self.run.store.packed_refs()?;
        let names = blocked.iter().map(|member| (member.target.as_bstr().into(), None));
        let new = write_packed_refs(self.run.store.context(), &packed, &names.collect())?;
        self.swap_packed_refs(new)?;
        for member in blocked {
            self.note_swapped(member.index);
        }
        Ok(())
    }

    /// Removes the file of a deleted ref.
    pub(super) fn remove_file(&mut self, member: &mut Prepared<'a>) -> Result<(), RefError> {
        if member.edit.change != Change::Delete || !member.is_loose {
            return Ok(());
        }
        let context = self.run.store.context();
        let path = context.ref_path(member.target.as_bstr());
        let remove = || context.disk.unlink(&path).map(drop).doing("remove", &path);
        match &mut self.undo {
            Some(undo) => {
                let place = self.run.store.temporary_place(member.target.as_bstr());
                let saved = Temporary::second(context, &place, &path)?;
                undo.around(&path, Some(saved), remove)
            }
            None => remove(),
        }
    }

    /// Removes the log of a deleted ref.
    pub(super) fn remove_log(&mut self, member: &Prepared<'a>) {
        if member.edit.change != Change::Delete {
            return;
        }
        // The ref is gone; a log that cannot be removed does not bring it back.
        if let Ok(Some(directory)) = self.run.reflogs.remove(member.target.as_bstr()) {
            self.run.unflushed.add_directory(member.index, directory);
        }
    }

    /// Notes the directories that must be flushed before anybody is told of this edit.
    pub(super) fn note_directories(&mut self, member: &Prepared<'a>) {
        if needs_packed_refs(member) {
            self.note_swapped(member.index);
        }
        let context = self.run.store.context();
        let unflushed = &mut self.run.unflushed;
        let nothing_there = member.before.is_none() && member.edit.change == Change::Delete;
        if nothing_there {
            // Somebody may have deleted it just now, and not durably.
            unflushed.add_directory(member.index, context.common_dir.clone());
        }
        if matches!(member.action, Action::SetLoose(_)) || member.is_loose || nothing_there {
            let with_refs = member.lock.created_directories;
            for directory in context.directories_of(member.target.as_bstr(), with_refs) {
                unflushed.add_directory(member.index, directory);
            }
        }
    }

    /// Notes that the lock of packed-refs must go durably: it was there when its directory was
    /// flushed, and after a crash would keep everybody from deleting refs.
    fn note_swapped(&mut self, index: usize) {
        if self.swapped {
            let directory = self.run.store.context().common_dir.clone();
            self.run.unflushed.add_directory(index, directory);
        }
    }
}

/// Looks whether the name of a ref that is created is free in `packed`, if that is not what was
/// looked into before.
fn check_name(member: &Prepared<'_>, packed: &Arc<PackedRefs>) -> Result<(), RefError> {
    match &member.seen {
        Some(seen) if !Arc::ptr_eq(seen, packed) => {
            let obstacle = RefStore::obstacle(member.target.as_bstr(), packed, None)?;
            obstacle.map_or(Ok(()), |obstacle| Err(member.conflict(obstacle)))
        }
        _ => Ok(()),
    }
}

/// Whether a directory is in the way of a rename.
fn is_obstructed(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | IsADirectory)
}
