//! What a server has promised: every commit it acknowledged, and the value of every ref.
//!
//! A push whose answer never came is a commit that may be there or not. A ref that shows another
//! value than was acknowledged, when it is asked for the next time, is a broken promise, noted on
//! the spot.

use crate::model::ObjectId;
use bstr::BString;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What one pusher, or all of them, were promised.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    commits: Vec<Entry>,
    refs: BTreeMap<(usize, BString), RefState>,
    broken: Vec<Broken>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    repository: usize,
    commit: ObjectId,
    parent: Option<ObjectId>,
    acknowledged: bool,
}

/// What is known of a ref.
#[derive(Clone, Debug, Default)]
pub(super) struct RefState {
    /// The value that was acknowledged last, or found at first; `None` if there was none.
    pub(super) value: Option<ObjectId>,
    /// The values of pushes whose answers never came.
    pub(super) perhaps: Vec<Option<ObjectId>>,
    /// Whether others push to it too, so that only its history can be checked.
    pub(super) shared: bool,
}

/// A ref that did not show what was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) repository: usize,
    pub(super) name: BString,
    pub(super) acknowledged: Option<ObjectId>,
    pub(super) shown: Option<ObjectId>,
}

/// What a look at a ref shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// What was acknowledged, or a first look.
    Expected,
    /// A push that was never answered has landed.
    Landed,
    /// Neither.
    Broken,
}

/// Something that was acknowledged and is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// A ref has another value.
    Ref(Broken),
    /// A commit is in no history of the repository's refs.
    Commit { repository: usize, commit: ObjectId },
}

impl Ledger {
    /// Notes a ref as it was found before the first push.
    pub(super) fn found(
        &mut self,
        repository: usize,
        name: &BString,
        value: Option<ObjectId>,
        shared: bool,
    ) {
        let state = RefState { value, perhaps: Vec::new(), shared };
        self.refs.insert((repository, name.clone()), state);
    }

    /// What is known of a ref.
    pub(super) fn state(&self, repository: usize, name: &BString) -> Option<&RefState> {
        self.refs.get(&(repository, name.clone()))
    }

    /// Compares a ref with what was promised, and takes the value that is shown for what it is.
    pub(super) fn seen(
        &mut self,
        repository: usize,
        name: &BString,
        shown: Option<ObjectId>,
    ) -> Sight {
        let Some(state) = self.refs.get_mut(&(repository, name.clone())) else {
            return Sight::Expected;
        };
        if state.shared || state.value == shown {
            return Sight::Expected;
        }
        let acknowledged = std::mem::replace(&mut state.value, shown);
        if state.perhaps.contains(&shown) {
            return Sight::Landed;
        }
        let name = name.clone();
        self.broken.push(Broken { repository, name, acknowledged, shown });
        Sight::Broken
    }

    /// Notes a ref that is about to be changed.
    pub(super) fn attempt(&mut self, repository: usize, name: &BString, new: Option<ObjectId>) {
        if let Some(state) = self.refs.get_mut(&(repository, name.clone()))
            && !state.shared
        {
            state.perhaps.push(new);
        }
    }

    /// Notes that a ref was changed, as the server says: nothing is in doubt any more.
    pub(super) fn acknowledge(&mut self, repository: usize, name: &BString, new: Option<ObjectId>) {
        if let Some(state) = self.refs.get_mut(&(repository, name.clone())) {
            state.value = new;
            state.perhaps.clear();
        }
    }

    /// Notes that a ref was not changed, as the server says.
    pub(super) fn refuse(&mut self, repository: usize, name: &BString, new: Option<ObjectId>) {
        if let Some(state) = self.refs.get_mut(&(repository, name.clone())) {
            state.perhaps.retain(|value| *value != new);
        }
    }

    /// Notes a commit that was sent; `acknowledged` unless nobody knows what became of it.
    pub(super) fn commit(
        &mut self,
        repository: usize,
        commit: ObjectId,
        parent: Option<ObjectId>,
        acknowledged: bool,
    ) {
        self.commits.push(Entry { repository, commit, parent, acknowledged });
    }

    /// Adds what another pusher was promised.
    pub(super) fn add(&mut self, other: Self) {
        self.commits.extend(other.commits);
        self.refs.extend(other.refs);
        self.broken.extend(other.broken);
    }

    /// The promises that were found broken while the run lasted.
    pub(super) fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// The repositories that were pushed to.
    pub(super) fn repositories(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = self.refs.keys().map(|(number, _)| *number).collect();
        numbers.dedup();
        numbers
    }

    /// The commits of a repository that were acknowledged.
    pub(super) fn acknowledged(&self, repository: usize) -> Vec<ObjectId> {
        let commits = self.commits.iter();
        commits
            .filter(|entry| entry.acknowledged && entry.repository == repository)
            .map(|entry| entry.commit)
            .collect()
    }

    /// Holds the refs of a repository, as they are shown after the run, against what was promised:
    /// their values, and that every acknowledged commit is in a history that leads to one of them.
    ///
    /// The histories are those that were sent; that the server has their objects is not seen here.
    pub(super) fn missing(
        &self,
        repository: usize,
        shown: &HashMap<BString, ObjectId>,
    ) -> Vec<Missing> {
        let mut missing = Vec::new();
        let mut tips = Vec::new();
        let from = (repository, BString::default());
        let own = self.refs.range(from..).take_while(|((number, _), _)| *number == repository);
        for ((_, name), state) in own {
            let value = shown.get(name).copied();
            tips.extend(value);
            if !state.shared && state.value != value && !state.perhaps.contains(&value) {
                missing.push(Missing::Ref(Broken {
                    repository,
                    name: name.clone(),
                    acknowledged: state.value,
                    shown: value,
                }));
            }
        }
        let entries = || self.commits.iter().filter(|entry| entry.repository == repository);
        let parents: HashMap<ObjectId, Option<ObjectId>> =
            entries().map(|entry| (entry.commit, entry.parent)).collect();
        let mut there = HashSet::new();
        for tip in tips {
            let mut at = Some(tip);
            while let Some(commit) = at.filter(|commit| there.insert(*commit)) {
                at = parents.get(&commit).copied().flatten();
            }
        }
        let lost = entries().filter(|entry| entry.acknowledged && !there.contains(&entry.commit));
        missing.extend(lost.map(|entry| Missing::Commit { repository, commit: entry.commit }));
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ObjectId {
        ObjectId::from([byte; 20])
    }

    fn name() -> BString {
        "refs/heads/a".into()
    }

    fn shown(value: Option<u8>) -> HashMap<BString, ObjectId> {
        value.map(|byte| (name(), id(byte))).into_iter().collect()
    }

    /// Commits 1 and 2, one on top of the other, acknowledged.
    fn two(shared: bool) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.found(0, &name(), None, shared);
        for (commit, parent) in [(1, None), (2, Some(id(1)))] {
            ledger.attempt(0, &name(), Some(id(commit)));
            ledger.commit(0, id(commit), parent, true);
            ledger.acknowledge(0, &name(), Some(id(commit)));
        }
        ledger
    }

    #[test]
    fn nothing_is_missing_where_the_last_acknowledged_value_is_shown() {
        assert_eq!(two(false).missing(0, &shown(Some(2))), []);
        assert_eq!(two(true).missing(0, &shown(Some(2))), []);
        assert_eq!(two(false).acknowledged(0).len(), 2);
        assert_eq!(two(false).repositories(), [0]);
    }

    #[test]
    fn a_push_that_was_forgotten_is_missing_by_ref_and_by_commit() {
        let missing = two(false).missing(0, &shown(Some(1)));
        assert!(matches!(missing[0], Missing::Ref(_)));
        assert_eq!(missing[1], Missing::Commit { repository: 0, commit: id(2) });
        assert_eq!(two(false).missing(0, &shown(None)).len(), 3);
        // Of a ref that others push to, the history alone tells.
        assert_eq!(two(true).missing(0, &shown(Some(1))).len(), 1);
    }

    #[test]
    fn a_lost_commit_under_later_ones_is_missing() {
        let mut ledger = two(false);
        assert_eq!(ledger.seen(0, &name(), Some(id(1))), Sight::Broken);
        ledger.commit(0, id(3), Some(id(1)), true);
        ledger.acknowledge(0, &name(), Some(id(3)));
        assert_eq!(
            ledger.missing(0, &shown(Some(3))),
            [Missing::Commit { repository: 0, commit: id(2) }]
        );
        assert_eq!(ledger.broken().len(), 1);
    }

    #[test]
    fn a_push_without_an_answer_may_be_there_or_not() {
        let mut ledger = two(false);
        ledger.attempt(0, &name(), Some(id(3)));
        ledger.commit(0, id(3), Some(id(2)), false);
        assert_eq!(ledger.missing(0, &shown(Some(2))), []);
        assert_eq!(ledger.missing(0, &shown(Some(3))), []);
        assert_eq!(ledger.missing(0, &shown(Some(1))).len(), 2);
        assert_eq!(ledger.seen(0, &name(), Some(id(3))), Sight::Landed);
        assert!(ledger.broken().is_empty());
    }

    #[test]
    fn a_deletion_is_a_promise_too() {
        let mut ledger = two(false);
        ledger.acknowledge(0, &name(), None);
        assert!(ledger.missing(0, &shown(Some(2))).iter().any(|m| matches!(m, Missing::Ref(_))));
    }
}
