//! What the `reference-transaction` hook is told of a transaction (githooks(5)), update for update
//! as git tells it with its files backend.
//!
//! A transaction is prepared with all locks held, and then committed or aborted. What git's hook
//! sees beside the refs of the edits: the refs at the end of symbolic ones; and, for deletions, a
//! second transaction, that of packed-refs, which is aborted if no deleted ref is in there. git 2.47
//! also tells of HEAD, when what it names moves, and of the symbolic refs themselves. Newer git does
//! not; but it tells that each transaction is about to be prepared, before anything is locked.

use super::edit::{Change, Expected, RefEdit};
use crate::model::{Dialect, HashKind, ObjectId};
use crate::refs::error::RefError;
use crate::refs::store::{RefStore, RefValue};
use bstr::BString;
use std::fmt;
use std::time::Duration;

/// Who watches transactions.
pub trait Witness {
    /// Learns how a transaction stands. Whether it may go on is heard for
    /// [`Preparing`](TransactionState::Preparing) and [`Prepared`](TransactionState::Prepared).
    fn see(&self, state: TransactionState, updates: &[ToldUpdate]) -> bool;

    /// Gets what was said by a hook that git has told of the transaction in its place, as it does
    /// where refs are a reftable; an empty piece after each [`patience`](Self::patience) of silence.
    fn hear(&self, said: &[u8]) {
        let _ = said;
    }

    /// How long it may be silent; none for ever.
    fn patience(&self) -> Option<Duration> {
        None
    }
}

/// How a transaction stands; `Display` gives the argument of the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// Nothing is locked or checked yet; told in dialects that know it.
    Preparing,
    /// Everything is locked and checked, and nothing has changed.
    Prepared,
    /// The changes are made.
    Committed,
    /// Nothing was changed, and the locks are gone.
    Aborted,
}

impl fmt::Display for TransactionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Preparing => "preparing",
            Self::Prepared => "prepared",
            Self::Committed => "committed",
            Self::Aborted => "aborted",
        })
    }
}

/// One update of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldUpdate {
    /// The value that is asked for under the lock; null if any will do, or none.
    pub old: ObjectId,
    /// The new value; null if the ref goes.
    pub new: ObjectId,
    /// The full name.
    pub name: BString,
}

/// What is told of one transaction, and how far it has been told.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) updates: Vec<ToldUpdate>,
    /// The deletions once more, as packed-refs sees them.
    pub(super) packed: Vec<ToldUpdate>,
    dialect: Dialect,
    /// Whether the witness waits for the end of the transaction.
    is_open: bool,
    /// The same for that of packed-refs.
    packed_is_open: bool,
}

impl Story {
    /// The story of edits, each with the names that its own leads through, in the order in which
    /// they were asked for.
    pub(super) fn of<'e>(
        store: &RefStore,
        dialect: Dialect,
        edits: impl IntoIterator<Item = (&'e RefEdit, &'e [BString])>,
    ) -> Result<Self, RefError> {
        let head = match store.head() {
            _ if dialect.tells_preparing() => None,
            Ok(Some(RefValue::Symbolic(target))) => Some(target),
            Ok(_) | Err(RefError::Broken { .. }) => None,
            Err(error) => return Err(error),
        };
        let hash = store.context().hash;
        let mut open: Vec<Open<'e>> =
            edits.into_iter().filter_map(|(edit, chain)| Open::first(edit, chain, hash)).collect();
        let mut at = 0;
        // git looks at one update after the other, and puts what it finds to be done, too, at the
        // end of its list.
        while let Some(update) = open.get_mut(at) {
            at += 1;
            if update.only_logged {
                continue;
            }
            let of_head = (head.as_ref() == Some(update.name)).then(|| update.of_head());
            let referent = update.lead_on(hash);
            open.extend(of_head.into_iter().chain(referent));
        }
        let null = ObjectId::null(hash);
        let deleted = open.iter().filter(|update| update.deletes && !update.only_logged);
        let packed = deleted.map(|update| update.told(null, null)).collect();
        let is_told = |update: &&Open<'e>| !(dialect.tells_preparing() && update.only_logged);
        let told = open.iter().filter(is_told);
        let updates = told.map(|update| update.told(update.old, update.new)).collect();
        Ok(Self { updates, packed, dialect, is_open: false, packed_is_open: false })
    }

    /// Tells that edits are about to be prepared, by the names that they have; false if they must
    /// not be, which is told, too.
    pub(super) fn begin(store: &RefStore, witness: &dyn Witness, edits: &[RefEdit]) -> bool {
        let hash = store.context().hash;
        let names: Vec<[BString; 1]> =
            edits.iter().map(|edit| [edit.name.as_bstr().to_owned()]).collect();
        let updates = edits.iter().zip(&names).filter_map(|(edit, name)| {
            Open::first(edit, name, hash).map(|update| update.told(update.old, update.new))
        });
        let updates: Vec<ToldUpdate> = updates.collect();
        let agreed = witness.see(TransactionState::Preparing, &updates);
        if !agreed {
            witness.see(TransactionState::Aborted, &updates);
        }
        agreed
    }

    /// Tells of a transaction without updates; false if it must not be.
    pub(super) fn of_nothing(witness: &dyn Witness) -> bool {
        let agreed = witness.see(TransactionState::Prepared, &[]);
        let state = if agreed { TransactionState::Committed } else { TransactionState::Aborted };
        witness.see(state, &[]);
        agreed
    }

    /// Notes that the deletions were about to be made in packed-refs, and did not get there.
    pub(super) fn give_up_packed(&mut self) {
        self.packed_is_open = !self.packed.is_empty();
    }

    /// Tells that everything is ready; false if it must not go on. `in_packed` says whether a
    /// deleted ref is in packed-refs.
    pub(super) fn prepare(&mut self, witness: &dyn Witness, in_packed: bool) -> bool {
        if in_packed {
            self.packed_is_open = true;
            if self.dialect.tells_preparing()
                && !witness.see(TransactionState::Preparing, &self.packed)
            {
                return false;
            }
            if !witness.see(TransactionState::Prepared, &self.packed) {
                return false;
            }
        } else if !self.packed.is_empty() {
            witness.see(TransactionState::Aborted, &self.packed);
        }
        self.is_open = true;
        witness.see(TransactionState::Prepared, &self.updates)
    }

    /// Tells that the deletions are in packed-refs.
    pub(super) fn commit_packed(&mut self, witness: &dyn Witness) {
        if std::mem::take(&mut self.packed_is_open) {
            witness.see(TransactionState::Committed, &self.packed);
        }
    }

    /// Tells the end, once the locks are gone and what was done is durable. Of a failure in the
    /// middle, which left something changed, nothing is said.
    pub(super) fn conclude(self, witness: &dyn Witness, failure: Option<&RefError>) {
        let Some(error) = failure else {
            witness.see(TransactionState::Committed, &self.updates);
            return;
        };
        if error.may_have_moved() {
            return;
        }
        if self.packed_is_open {
            witness.see(TransactionState::Aborted, &self.packed);
        }
        if self.is_open {
            witness.see(TransactionState::Aborted, &self.updates);
        }
    }
}

/// An update on git's list.
struct Open<'e> {
    name: &'e BString,
    is_head: bool,
    rest: &'e [BString],
    old: ObjectId,
    new: ObjectId,
    deletes: bool,
    /// The ref itself stays as it is: it is HEAD, or symbolic.
    only_logged: bool,
}

impl<'e> Open<'e> {
    fn first(edit: &RefEdit, chain: &'e [BString], hash: HashKind) -> Option<Self> {
        let (name, rest) = chain.split_first()?;
        let null = ObjectId::null(hash);
        let old = match edit.expected {
            Expected::MustBe(id) => id,
            Expected::MustNotExist | Expected::Any => null,
        };
        let (new, deletes) = match edit.change {
            Change::Set(id) => (id, false),
            Change::Delete => (null, true),
        };
        Some(Self { name, is_head: false, rest, old, new, deletes, only_logged: false })
    }

    fn of_head(&self) -> Self {
        Self { is_head: true, rest: &[], only_logged: true, ..*self }
    }

    /// The update of the ref that this symbolic one names, of which nothing but the log is
    /// written then.
    fn lead_on(&mut self, hash: HashKind) -> Option<Self> {
        let (name, rest) = self.rest.split_first()?;
        let referent = Self { name, rest, ..*self };
        self.only_logged = true;
        self.old = ObjectId::null(hash);
        Some(referent)
    }

    fn told(&self, old: ObjectId, new: ObjectId) -> ToldUpdate {
        let name = if self.is_head { "HEAD".into() } else { self.name.clone() };
        ToldUpdate { old, new, name }
    }
}
