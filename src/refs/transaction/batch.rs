//! Edits in one transaction that goes on without those that it refuses, as git moves the refs of a
//! push since 2.51 (`REF_TRANSACTION_ALLOW_FAILURE`).
//!
//! What is wrong with one ref keeps that ref out and no other. What is wrong with the repository, or
//! with the list of edits, is the end of all of them, with nothing changed. Of two refs that cannot
//! be beside each other and are both to be created, the one below stays.
//!
//! Once everything is locked and checked each edit is carried out for itself: where the disk fails
//! for one, the others are told as what they are, and not, as git has it, as failed with it. The
//! witness is told of refused refs while the transaction is being prepared, and not afterwards.

use super::ahead::{Ahead, blank_for};
use super::edit::{Applied, RefEdit};
use super::group::{Group, Outcome};
use super::locking::note_locks;
use super::prepare::Prepared;
use super::run::{RefTransaction, Run};
use super::witness::{Story, TransactionState, Witness};
use crate::model::RefRefusal;
use crate::refs::error::RefError;
use crate::refs::name_conflict::Names;
use crate::refs::store::Resolved;
use bstr::ByteSlice;
use std::collections::BTreeSet;

/// Edits that are left, in the order in which they are locked.
type Looked<'a> = Vec<(usize, &'a RefEdit, Ahead)>;

impl RefTransaction<'_> {
    /// Applies edits in one transaction, without those that their refs refuse. An error means that
    /// nothing was changed at all. What is applied is durable on return.
    ///
    /// Where refs are a reftable, edits are applied [each for itself](Self::apply_each): git's
    /// commands have had no such transaction for long enough.
    pub fn apply_batch(
        &self,
        edits: &[RefEdit],
    ) -> Result<Vec<Result<Applied, RefError>>, RefError> {
        if let Some(writer) = self.reftable() {
            return Ok(writer.apply_each(edits));
        }
        let mut names = Names::default();
        for edit in edits {
            names.insert_new(edit, edit.name.as_bstr())?;
        }
        self.tell_preparing(edits)?;
        let mut run = Run::new(self)?;
        let mut refused = Vec::new();
        let prepared = run.prepare_batch(edits, &mut names, &mut refused);
        let members = match prepared {
            Ok(members) => members,
            Err(error) => {
                if let (Some(witness), Some(story)) = (self.witness, run.story.take()) {
                    story.conclude(witness, Some(&error));
                }
                return Err(error);
            }
        };
        if members.is_empty() {
            self.tell_nothing()?;
            return Ok(run.finish(edits, refused));
        }
        let places: Vec<usize> = members.iter().map(|member| member.index).collect();
        let mut outcomes = Group::new(&mut run, members).commit_each();
        outcomes.append(&mut refused);
        let story = run.story.take();
        let results = run.finish(edits, outcomes);
        if let (Some(witness), Some(story)) = (self.witness, story) {
            self.conclude(witness, story, edits, &places, &results);
        }
        // A veto is of the whole.
        let is_veto = |result: &Result<_, _>| matches!(result, Err(RefError::Vetoed));
        if results.iter().any(is_veto) { Err(RefError::Vetoed) } else { Ok(results) }
    }

    /// Tells the end of a transaction: of those members alone that were applied, if some were not.
    fn conclude(
        &self,
        witness: &dyn Witness,
        story: Story,
        edits: &[RefEdit],
        places: &[usize],
        results: &[Result<Applied, RefError>],
    ) {
        let of_members = || places.iter().filter_map(|at| results.get(*at));
        let failure = of_members().find_map(|result| result.as_ref().err());
        if failure.is_none() || of_members().all(Result::is_err) {
            story.conclude(witness, failure);
            return;
        }
        let applied: Vec<(&RefEdit, Resolved)> = edits
            .iter()
            .zip(results)
            .filter(|(_, result)| result.is_ok())
            .filter_map(|(edit, _)| Some((edit, self.store.resolve(&edit.name).ok()?)))
            .collect();
        let applied = applied.iter().map(|(edit, led)| (*edit, led.chain.as_slice()));
        if let Ok(story) = Story::of(self.store, self.dialect, applied) {
            witness.see(TransactionState::Committed, &story.updates);
        }
    }
}

impl<'a> Run<'a> {
    /// Locks and checks edits. Those that their refs refuse go to `refused`.
    fn prepare_batch(
        &mut self,
        edits: &'a [RefEdit],
        names: &mut Names,
        refused: &mut Vec<Outcome>,
    ) -> Result<Vec<Prepared<'a>>, RefError> {
        let transaction = self.transaction;
        let mut looked = self.look_at_batch(edits, names, refused)?;
        let blank = blank_for(self.store, looked.iter().map(|(.., ahead)| ahead))?;
        let values = looked.iter_mut().map(|(.., ahead)| ahead);
        note_locks(self.store.context(), values, blank.as_ref());
        let mut members = Vec::with_capacity(looked.len());
        for (index, edit, ahead) in looked {
            let chain = ahead.resolved.chain.clone();
            match Prepared::new(transaction, index, edit, ahead, blank.as_ref(), Some(names)) {
                Ok(member) => members.push(member),
                Err(error) if is_of_the_ref(&error) => {
                    // It is in nobody's way any more.
                    for name in &chain {
                        names.remove(name.as_bstr());
                    }
                    refused.push((index, Err(error)));
                }
                Err(error) => return Err(self.give_up_batch(edits, index, refused, error)),
            }
        }
        Ok(members)
    }

    /// Looks at the refs and writes their new values, in one order for everybody, so that no two
    /// wait for each other.
    fn look_at_batch(
        &mut self,
        edits: &'a [RefEdit],
        names: &mut Names,
        refused: &mut Vec<Outcome>,
    ) -> Result<Looked<'a>, RefError> {
        let transaction = self.transaction;
        let placement = transaction.placement(edits);
        let mut order: Vec<(usize, &RefEdit)> = edits.iter().enumerate().collect();
        order.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        let mut looked = Vec::with_capacity(edits.len());
        for (index, edit) in order {
            match transaction.look_ahead(edit, placement, names) {
                Ok(ahead) => looked.push((index, edit, ahead)),
                Err(error) if is_of_the_ref(&error) => {
                    names.remove(edit.name.as_bstr());
                    refused.push((index, Err(error)));
                }
                Err(error) => return Err(self.give_up_batch(edits, index, refused, error)),
            }
        }
        Ok(looked)
    }

    /// Notes that the batch ends with the edit of this index.
    fn give_up_batch(
        &mut self,
        edits: &[RefEdit],
        index: usize,
        refused: &[Outcome],
        error: RefError,
    ) -> RefError {
        if self.transaction.witness.is_none() {
            return error;
        }
        let refused: BTreeSet<usize> = refused.iter().map(|(index, _)| *index).collect();
        let before: Vec<RefEdit> = edits
            .iter()
            .take(index)
            .enumerate()
            .filter(|(at, _)| !refused.contains(at))
            .map(|(_, edit)| edit.clone())
            .collect();
        self.give_up(&before, before.len(), error).1
    }
}

/// Whether this keeps out the ref, and not the whole transaction.
fn is_of_the_ref(error: &RefError) -> bool {
    error.refusal() != RefRefusal::Unclassified
}
