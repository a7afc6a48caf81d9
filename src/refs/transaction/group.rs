//! Edits that are ready, carried out together.
//!
//! Either each for itself, where one that fails leaves the others; or all or none, where each
//! step can be taken back until the last is done.

use super::commit::{Work, needs_packed_refs};
use super::edit::Applied;
use super::prepare::Prepared;
use super::run::Run;
use super::undo::Undo;
use super::witness::Story;
use crate::refs::error::{Doing, RefError};
use crate::refs::lock::LockFile;
use crate::refs::name_conflict::is_gone;
use crate::repo::{Component, Disk};
use bstr::{BStr, BString, ByteSlice};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What became of the edit with this index.
pub(super) type Outcome = (usize, Result<Applied, RefError>);

/// The edit that failed, where one failure is the end.
type Stopped = (usize, RefError);

/// A group of edits under their locks.
#[derive(Debug)]
pub(super) struct Group<'r, 'a> {
    /// First, so that a panic takes back what was done before the locks go.
    work: Work<'r, 'a>,
    members: Vec<Prepared<'a>>,
    packed_lock: Option<LockFile>,
    outcomes: Vec<Outcome>,
}

impl<'r, 'a> Group<'r, 'a> {
    pub(super) fn new(run: &'r mut Run<'a>, members: Vec<Prepared<'a>>) -> Self {
        let work = Work { run, undo: None, packed: None, swapped: false };
        Self { members, outcomes: Vec::new(), packed_lock: None, work }
    }

    /// Carries out each edit for itself.
    pub(super) fn commit_each(mut self) -> Vec<Outcome> {
        // Without `undo` every failure is an outcome.
        let _ = self.carry_out();
        self.finish();
        self.outcomes
    }

    /// Carries out all edits or none, disk permitting.
    pub(super) fn commit_all(mut self) -> Result<Vec<Outcome>, (usize, RefError)> {
        let context = self.work.run.store.context();
        self.work.undo = Some(Undo::new(&context.disk, context.packed_refs_path()));
        match self.carry_out() {
            Ok(()) => {
                self.finish();
                Ok(self.outcomes)
            }
            Err((index, error)) => Err((index, self.take_back(index, error))),
        }
    }

    /// Undoes everything durably, under all locks still, lets go of them, and says what is to be
    /// told of it.
    fn take_back(mut self, index: usize, error: RefError) -> RefError {
        let Some(undo) = self.work.undo.take().filter(|undo| !undo.is_empty()) else {
            return error;
        };
        let (undone, touched) = self.undo_all(undo);
        let mut name = BStr::new("");
        for member in &mut self.members {
            member.lock.filled = false;
            if member.index == index {
                name = member.name();
            }
        }
        let disk = self.work.run.store.context().disk.clone();
        drop(self);
        // The locks were there when their directories were flushed; after a crash they would be.
        let unlocked = flush_what_is_there(&disk, &touched);
        let undone = undone.and(unlocked);
        undone.map_or_else(|in_part| in_part.after_the_move(name), |()| error)
    }

    fn undo_all(&mut self, mut undo: Undo) -> (Result<(), RefError>, BTreeSet<PathBuf>) {
        // `git pack-refs` must neither pack what goes nor keep what it has packed already.
        let mut locked = Ok(());
        if self.packed_lock.is_none() {
            locked = self.work.lock_packed_refs().map(|lock| self.packed_lock = Some(lock));
        }
        let undone = undo.take_back();
        let undone = locked.and(undone).and_then(|()| self.work.restore_packed(&self.members));
        let mut touched = undo.touched().clone();
        if self.work.swapped {
            touched.insert(self.work.run.store.context().common_dir.clone());
        }
        (undone, touched)
    }

    fn carry_out(&mut self) -> Result<(), Stopped> {
        self.begin_story()?;
        if self.members.iter().any(needs_packed_refs) {
            match self.work.lock_packed_refs() {
                Ok(lock) => self.packed_lock = Some(lock),
                Err(error) => {
                    if let Some(story) = &mut self.work.run.story {
                        story.give_up_packed();
                    }
                    self.fail_where(needs_packed_refs, &error)?;
                }
            }
        }
        let indexes: Vec<usize> = self.members.iter().map(|member| member.index).collect();
        if !indexes.is_empty() && !(self.work.run.transaction.admit)(&indexes) {
            self.fail_where(|_| true, &RefError::Vetoed)?;
        }
        self.tell_prepared()?;
        self.each(Work::check_again)?;
        self.each(Work::append_logs)?;
        let rewritten = match self.work.write_packed_refs(&self.members) {
            Ok(rewritten) => rewritten,
            Err(error) => {
                self.fail_where(needs_packed_refs, &error)?;
                None
            }
        };
        self.each(Work::move_into_place)?;
        if let Some(rewritten) = rewritten {
            if let Err(error) = self.work.swap_packed_refs(rewritten) {
                self.fail_where(needs_packed_refs, &error)?;
            }
            self.take_out_the_blocked()?;
            self.tell_packed();
        }
        self.each(Work::remove_file)
    }

    /// Makes up what the witness is told, if there is one.
    fn begin_story(&mut self) -> Result<(), Stopped> {
        let run = &mut *self.work.run;
        if run.transaction.witness.is_none() || self.members.is_empty() {
            return Ok(());
        }
        let mut members: Vec<&Prepared<'a>> = self.members.iter().collect();
        members.sort_by_key(|member| member.index);
        let edits = members.iter().map(|member| (member.edit, member.resolved.chain.as_slice()));
        match Story::of(run.store, run.transaction.dialect, edits) {
            Ok(story) => run.story = Some(story),
            Err(error) => self.fail_where(|_| true, &error)?,
        }
        Ok(())
    }

    /// Tells the witness that everything is ready, and hears whether it may go on.
    fn tell_prepared(&mut self) -> Result<(), Stopped> {
        let run = &mut *self.work.run;
        let (Some(witness), Some(story)) = (run.transaction.witness, &mut run.story) else {
            return Ok(());
        };
        if self.members.is_empty() {
            return Ok(());
        }
        let has_packed = |name: &BString| match &self.work.packed {
            Some(packed) => packed.find(name.as_bstr()).is_ok_and(|id| id.is_some()),
            None => false,
        };
        let deletes_packed = story.packed.iter().any(|update| has_packed(&update.name));
        if !story.prepare(witness, deletes_packed) {
            self.fail_where(|_| true, &RefError::Vetoed)?;
        }
        Ok(())
    }

    fn tell_packed(&mut self) {
        let run = &mut *self.work.run;
        if let (Some(witness), Some(story)) = (run.transaction.witness, &mut run.story) {
            story.commit_packed(witness);
        }
    }

    /// Looks whether files came into the way of refs that have just been packed, and takes those
    /// refs out again.
    fn take_out_the_blocked(&mut self) -> Result<(), Stopped> {
        let before = self.outcomes.len();
        let blocked = self.partition(Work::check_place)?;
        if blocked.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.work.take_out(&blocked) {
            for (outcome, member) in self.outcomes.iter_mut().skip(before).zip(&blocked) {
                outcome.1 = Err(error.clone().after_the_move(member.name()));
            }
        }
        Ok(())
    }

    /// Does one step for each edit that is left.
    fn each(
        &mut self,
        step: impl FnMut(&mut Work<'r, 'a>, &mut Prepared<'a>) -> Result<(), RefError>,
    ) -> Result<(), Stopped> {
        self.partition(step).map(drop)
    }

    /// Does one step for each edit that is left; returns those that failed, still locked.
    fn partition(
        &mut self,
        mut step: impl FnMut(&mut Work<'r, 'a>, &mut Prepared<'a>) -> Result<(), RefError>,
    ) -> Result<Vec<Prepared<'a>>, Stopped> {
        let mut failed = Vec::new();
        let mut members = std::mem::take(&mut self.members).into_iter();
        while let Some(mut member) = members.next() {
            match step(&mut self.work, &mut member) {
                Ok(()) => self.members.push(member),
                Err(error) if self.work.undo.is_some() => {
                    let index = member.index;
                    self.members.push(member);
                    self.members.extend(members);
                    return Err((index, error));
                }
                Err(error) => {
                    self.outcomes.push((member.index, Err(error)));
                    failed.push(member);
                }
            }
        }
        Ok(failed)
    }

    fn fail_where(
        &mut self,
        which: impl Fn(&Prepared<'a>) -> bool,
        error: &RefError,
    ) -> Result<(), Stopped> {
        self.each(|_, member| if which(member) { Err(error.clone()) } else { Ok(()) })
    }

    /// Lets everything stand, lets go of the locks and notes what has to be flushed.
    fn finish(&mut self) {
        if let Some(undo) = &mut self.work.undo {
            undo.forget();
        }
        for member in &mut self.members {
            self.work.remove_log(member);
        }
        self.packed_lock = None;
        for member in self.members.drain(..) {
            self.work.note_directories(&member);
            let applied = Applied {
                name: member.target.clone(),
                before: member.before,
                after: member.edit.change.after(),
            };
            self.outcomes.push((member.index, Ok(applied)));
        }
    }
}

/// Flushes directories, of which those that were empty may have been removed.
fn flush_what_is_there(disk: &Disk, directories: &BTreeSet<PathBuf>) -> Result<(), RefError> {
    let mut result = Ok(());
    for directory in directories {
        let flushed = match disk.flush_directory(directory, Component::Reference) {
            Err(error) if is_gone(&error) => Ok(()),
            flushed => flushed.doing("flush", directory),
        };
        result = result.and(flushed);
    }
    result
}
