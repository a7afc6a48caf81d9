//! Two of the ways to apply edits: each for itself, and all or none.

use super::ahead::{Ahead, Placement, blank_for};
use super::edit::{Applied, Change, RefEdit};
use super::group::{Group, Outcome};
use super::locking::note_locks;
use super::prepare::Prepared;
use super::unflushed::Unflushed;
use super::witness::{Story, Witness};
use crate::model::Dialect;
use crate::refs::error::RefError;
use crate::refs::name_conflict::Names;
use crate::refs::packed::{Peel, Peeled};
use crate::refs::reflog::Reflogs;
use crate::refs::reftable::ReftableWriter;
use crate::refs::store::{Backend, RefStore, Resolved};
use bstr::{BStr, ByteSlice};
use std::fmt;

/// Changes refs.
#[derive(Clone, Copy)]
pub struct RefTransaction<'a> {
    pub(super) store: &'a RefStore,
    pub(super) peel: &'a Peel<'a>,
    pub(super) admit: &'a dyn Fn(&[usize]) -> bool,
    pub(super) witness: Option<&'a dyn Witness>,
    pub(super) dialect: Dialect,
    pack_from: usize,
    batch_max: usize,
    one_by_one: bool,
}

/// New values in one go from which those of new refs are put into packed-refs. A value in a file
/// of its own costs a flush, some milliseconds on most disks; rewriting packed-refs costs one, and
/// the time to copy it, which for a hundred thousand refs is that of a few flushes.
const PACK_FROM: usize = 300;

/// LIMIT: edits that share a rewrite of packed-refs. It bounds the memory for their locks, about
/// half a kilobyte each, and the time for which the first of these is held.
const BATCH_MAX: usize = 20_000;

impl<'a> RefTransaction<'a> {
    /// Changes of the refs in `store`.
    pub fn new(store: &'a RefStore) -> Self {
        Self {
            store,
            peel: &|_| Peeled::Unknown,
            admit: &|_| true,
            witness: None,
            dialect: Dialect::default(),
            pack_from: PACK_FROM,
            batch_max: BATCH_MAX,
            one_by_one: false,
        }
    }

    /// Asks `peel` what tags lead to, so that packed-refs can go on to say that it knows.
    #[must_use]
    pub fn peeling(self, peel: &'a Peel<'a>) -> Self {
        Self { peel, ..self }
    }

    /// Asks `admit` before anything is changed, with the locks held and the indexes of the edits
    /// that are ready; if it says no they fail with [`RefError::Vetoed`].
    #[cfg(test)]
    pub(in crate::refs) fn admitted_by(self, admit: &'a dyn Fn(&[usize]) -> bool) -> Self {
        Self { admit, ..self }
    }

    /// Tells `witness` of each transaction what git tells the `reference-transaction` hook; if it
    /// says no to one that is prepared, the edits fail with [`RefError::Vetoed`]. Edits are then
    /// carried out one by one, and none goes into packed-refs.
    #[must_use]
    pub fn witnessed_by(self, witness: &'a dyn Witness) -> Self {
        Self { witness: Some(witness), one_by_one: true, ..self }
    }

    /// Tells the witness what git tells it in this dialect.
    #[must_use]
    pub fn in_dialect(self, dialect: Dialect) -> Self {
        Self { dialect, ..self }
    }

    /// Carries out each edit before the next is looked at, as git does. Without this, deletions
    /// that have nothing to do with each other share one rewrite of packed-refs: the same
    /// outcome, but a hook could see the difference.
    #[must_use]
    pub fn one_by_one(self) -> Self {
        Self { one_by_one: true, ..self }
    }

    /// Puts new refs into packed-refs if there are at least this many new values.
    #[must_use]
    pub fn packing_from(self, values: usize) -> Self {
        Self { pack_from: values, ..self }
    }

    #[cfg(test)]
    pub(in crate::refs) fn in_batches_of(self, batch_max: usize) -> Self {
        Self { batch_max, ..self }
    }

    /// Applies the edits in order, each for itself: the outcome is that of one transaction after
    /// the other. What is applied is durable on return.
    pub fn apply_each(&self, edits: &[RefEdit]) -> Vec<Result<Applied, RefError>> {
        if let Some(writer) = self.reftable() {
            return writer.apply_each(edits);
        }
        if let Some(witness) = self.witness {
            return edits.iter().flat_map(|edit| self.apply_told(edit, witness)).collect();
        }
        let mut run = match Run::new(self) {
            Ok(run) => run,
            Err(error) => return edits.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut outcomes = Vec::with_capacity(edits.len());
        let placement = self.placement(edits);
        let mut batch = Batch::default();
        for (index, edit) in edits.iter().enumerate() {
            // What nobody can join and nothing waits for needs no look at the batch.
            let may_join = edit.change == Change::Delete || placement == Placement::PackedRefs;
            if self.one_by_one || !may_join && batch.members.is_empty() {
                outcomes.extend(run.commit_one(index, edit, placement));
                continue;
            }
            let mut resolved = self.store.resolve(&edit.name);
            if resolved.as_ref().is_ok_and(|resolved| batch.concerns(resolved)) {
                outcomes.extend(run.commit(std::mem::take(&mut batch), placement));
                resolved = self.store.resolve(&edit.name);
            } else if batch.members.len() >= self.batch_max {
                outcomes.extend(run.commit(std::mem::take(&mut batch), placement));
            }
            match resolved {
                // The value of a ref that exists goes into a file, and its lock need not be held
                // until the rest of the batch is done.
                Ok(led) if edit.change == Change::Delete || may_join && led.id.is_none() => {
                    batch.add(index, edit, led);
                }
                Ok(_) => outcomes.extend(run.commit_one(index, edit, placement)),
                Err(error) => outcomes.push((index, Err(error))),
            }
        }
        outcomes.extend(run.commit(batch, placement));
        run.finish(edits, outcomes)
    }

    /// Applies all edits or none, and tells which one failed.
    ///
    /// Everything is checked, locked and written before the first ref moves, and a failure after
    /// that is taken back. A crash while refs are being moved leaves some of them moved; so may a
    /// disk that fails twice, and that is told ([`RefError::may_have_moved`]).
    pub fn apply_atomic(&self, edits: &[RefEdit]) -> Result<Vec<Applied>, (usize, RefError)> {
        if let Some(writer) = self.reftable() {
            return writer.apply_atomic(edits);
        }
        let mut names = Names::default();
        for (index, edit) in edits.iter().enumerate() {
            names.insert_new(edit, edit.name.as_bstr()).map_err(|error| (index, error))?;
        }
        self.tell_preparing(edits).map_err(|error| (0, error))?;
        if edits.is_empty() {
            // git tells of a transaction all the same.
            return self.tell_nothing().map_err(|error| (0, error)).map(|()| Vec::new());
        }
        let mut run = Run::new(self).map_err(|error| (0, error))?;
        let outcomes = self.apply_all(&mut run, edits, &mut names);
        let story = run.story.take();
        let result = outcomes.and_then(|outcomes| {
            let results = run.finish(edits, outcomes).into_iter().enumerate();
            results.map(|(index, result)| result.map_err(|error| (index, error))).collect()
        });
        if let (Some(witness), Some(story)) = (self.witness, story) {
            story.conclude(witness, result.as_ref().err().map(|(_, error)| error));
        }
        result
    }

    /// Tells the witness that a transaction begins, where git does.
    pub(super) fn tell_preparing(&self, edits: &[RefEdit]) -> Result<(), RefError> {
        match self.witness.filter(|_| self.dialect.tells_preparing()) {
            Some(witness) if !Story::begin(self.store, witness, edits) => Err(RefError::Vetoed),
            _ => Ok(()),
        }
    }

    /// Tells the witness of a transaction that has nothing to do.
    pub(super) fn tell_nothing(&self) -> Result<(), RefError> {
        let agreed = self.witness.is_none_or(Story::of_nothing);
        if agreed { Ok(()) } else { Err(RefError::Vetoed) }
    }

    /// Who makes the changes where the refs are no files.
    pub(super) fn reftable(&self) -> Option<ReftableWriter<'a>> {
        let (context, witness) = (self.store.context(), self.witness);
        match self.store.backend() {
            Backend::Files => None,
            Backend::Reftable(reftable) => Some(ReftableWriter { context, reftable, witness }),
        }
    }

    fn apply_all(
        &self,
        run: &mut Run<'a>,
        edits: &'a [RefEdit],
        names: &mut Names,
    ) -> Result<Vec<Outcome>, (usize, RefError)> {
        let placement = self.placement(edits);
        // In one order for everybody, so that no two wait for each other.
        let mut order: Vec<(usize, &RefEdit)> = edits.iter().enumerate().collect();
        order.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        let mut ahead = Vec::with_capacity(edits.len());
        for (index, edit) in order {
            let value = self.look_ahead(edit, placement, names);
            let value = value.map_err(|error| run.give_up(edits, index, error))?;
            ahead.push((index, edit, value));
        }
        let blank = blank_for(self.store, ahead.iter().map(|(.., ahead)| ahead));
        let blank = blank.map_err(|error| (0, error))?;
        let values = ahead.iter_mut().map(|(.., ahead)| ahead);
        note_locks(self.store.context(), values, blank.as_ref());
        // Only now, with all values written, is the first lock taken.
        let mut members = Vec::with_capacity(edits.len());
        for (index, edit, ahead) in ahead {
            let member = Prepared::new(self, index, edit, ahead, blank.as_ref(), Some(names));
            members.push(member.map_err(|error| run.give_up(edits, index, error))?);
        }
        Group::new(run, members).commit_all()
    }

    /// Applies one edit of which `witness` is told.
    fn apply_told(&self, edit: &RefEdit, witness: &dyn Witness) -> Vec<Result<Applied, RefError>> {
        let mut run = match Run::new(self) {
            Ok(run) => run,
            Err(error) => return vec![Err(error)],
        };
        let outcomes = run.commit_one(0, edit, Placement::Files);
        let story = run.story.take();
        let results = run.finish(std::slice::from_ref(edit), outcomes);
        if let Some(story) = story {
            story.conclude(witness, results.iter().find_map(|result| result.as_ref().err()));
        }
        results
    }

    /// Prepares the value of one of several edits, no two of which may lead to the same ref.
    pub(super) fn look_ahead(
        &self,
        edit: &RefEdit,
        placement: Placement,
        names: &mut Names,
    ) -> Result<Ahead, RefError> {
        let ahead = Ahead::new(self, edit, placement)?;
        for name in ahead.resolved.chain.iter().skip(1) {
            names.insert_new(edit, name.as_bstr())?;
        }
        Ok(ahead)
    }

    pub(super) fn placement(&self, edits: &[RefEdit]) -> Placement {
        let values = edits.iter().filter(|edit| edit.change != Change::Delete).count();
        if values >= self.pack_from && !self.one_by_one {
            Placement::PackedRefs
        } else {
            Placement::Files
        }
    }
}

impl fmt::Debug for RefTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefTransaction")
            .field("store", self.store)
            .field("pack_from", &self.pack_from)
            .field("one_by_one", &self.one_by_one)
            .field("is_witnessed", &self.witness.is_some())
            .finish_non_exhaustive()
    }
}

/// Edits that will be carried out together, and the names they touch.
#[derive(Debug, Default)]
struct Batch<'a> {
    members: Vec<(usize, &'a RefEdit, Resolved)>,
    names: Names,
}

impl<'a> Batch<'a> {
    fn add(&mut self, index: usize, edit: &'a RefEdit, resolved: Resolved) {
        for name in &resolved.chain {
            self.names.insert(name.as_bstr());
        }
        self.members.push((index, edit, resolved));
    }

    /// Whether an edit that leads there must wait for this batch.
    fn concerns(&self, resolved: &Resolved) -> bool {
        resolved.chain.iter().any(|name| self.names.concern(name.as_bstr()))
    }
}

impl Names {
    /// Adds a name to which `edit` leads; an error if another edit leads there too.
    pub(super) fn insert_new(&mut self, edit: &RefEdit, name: &BStr) -> Result<(), RefError> {
        if self.contains(name) {
            return Err(RefError::Duplicate { name: edit.name.as_bstr().into() });
        }
        self.insert(name);
        Ok(())
    }
}

/// One use of a transaction.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) transaction: &'a RefTransaction<'a>,
    pub(super) store: &'a RefStore,
    pub(super) reflogs: Reflogs<'a>,
    pub(super) unflushed: Unflushed,
    /// What the witness is told, if there is one.
    pub(super) story: Option<Story>,
}

impl<'a> Run<'a> {
    pub(super) fn new(transaction: &'a RefTransaction<'a>) -> Result<Self, RefError> {
        let store = transaction.store;
        let reflogs = Reflogs::new(store)?;
        Ok(Self { transaction, store, reflogs, unflushed: Unflushed::default(), story: None })
    }

    /// Notes that the edit with this index could not be made ready: git has the deletions before
    /// it on the list for packed-refs then, and tells that this list is given up.
    pub(super) fn give_up(
        &mut self,
        edits: &[RefEdit],
        index: usize,
        error: RefError,
    ) -> (usize, RefError) {
        if self.transaction.witness.is_some() && !matches!(error, RefError::Duplicate { .. }) {
            let before: Vec<(&RefEdit, Resolved)> = edits
                .iter()
                .take(index)
                .filter_map(|edit| Some((edit, self.store.resolve(&edit.name).ok()?)))
                .collect();
            let before = before.iter().map(|(edit, led)| (*edit, led.chain.as_slice()));
            self.story =
                Story::of(self.store, self.transaction.dialect, before).ok().map(|mut story| {
                    story.give_up_packed();
                    story
                });
        }
        (index, error)
    }

    /// Carries out one edit.
    fn commit_one(
        &mut self,
        index: usize,
        edit: &'a RefEdit,
        placement: Placement,
    ) -> Vec<Outcome> {
        match Ahead::new(self.transaction, edit, placement) {
            Ok(ahead) => self.commit_all_of(vec![(index, edit, ahead)]),
            Err(error) => vec![(index, Err(error))],
        }
    }

    /// Carries out edits none of which has to do with another.
    fn commit(&mut self, batch: Batch<'a>, placement: Placement) -> Vec<Outcome> {
        let Batch { mut members, .. } = batch;
        members.sort_by(|(_, a, _), (_, b, _)| a.name.cmp(&b.name));
        let mut outcomes = Vec::new();
        let mut ahead = Vec::with_capacity(members.len());
        for (index, edit, resolved) in members {
            match Ahead::led_to(self.transaction, edit, placement, resolved) {
                Ok(value) => ahead.push((index, edit, value)),
                Err(error) => outcomes.push((index, Err(error))),
            }
        }
        outcomes.extend(self.commit_all_of(ahead));
        outcomes
    }

    fn commit_all_of(&mut self, mut ahead: Vec<(usize, &'a RefEdit, Ahead)>) -> Vec<Outcome> {
        let transaction = self.transaction;
        let mut outcomes = Vec::new();
        let blank = match blank_for(self.store, ahead.iter().map(|(.., ahead)| ahead)) {
            Ok(blank) => blank,
            Err(error) => {
                outcomes.extend(ahead.iter().map(|(index, ..)| (*index, Err(error.clone()))));
                return outcomes;
            }
        };
        let values = ahead.iter_mut().map(|(.., ahead)| ahead);
        note_locks(self.store.context(), values, blank.as_ref());
        let mut members = Vec::with_capacity(ahead.len());
        for (index, edit, ahead) in ahead {
            match Prepared::new(transaction, index, edit, ahead, blank.as_ref(), None) {
                Ok(member) => members.push(member),
                Err(error) => outcomes.push((index, Err(error))),
            }
        }
        if !members.is_empty() {
            outcomes.extend(Group::new(self, members).commit_each());
        }
        outcomes
    }

    /// Makes everything durable, and puts the outcomes in order.
    pub(super) fn finish(
        self,
        edits: &[RefEdit],
        outcomes: Vec<Outcome>,
    ) -> Vec<Result<Applied, RefError>> {
        let mut results: Vec<Option<Result<Applied, RefError>>> = vec![None; edits.len()];
        for (index, outcome) in outcomes {
            if let Some(result) = results.get_mut(index) {
                *result = Some(outcome);
            }
        }
        for (index, error) in self.unflushed.flush(&self.store.context().disk) {
            if let (Some(result @ Some(Ok(_))), Some(edit)) =
                (results.get_mut(index), edits.get(index))
            {
                *result = Some(Err(error.after_the_move(edit.name.as_bstr())));
            }
        }
        let every = "every edit is prepared once, and a prepared one has an outcome";
        results.into_iter().map(|result| result.expect(every)).collect()
    }
}
