//! Whether one commit is an ancestor of another.

use super::commit_graph::CommitGraph;
use super::commits::{CommitFacts, Commits, Parents, Rank};
use super::error::ConnectivityError;
use super::source::ObjectSource;
use super::stores::Stores;
use crate::links::NewObjects;
use crate::model::{ByteBudget, CancelToken, HashKind, Limit, ObjectId, ObjectKind};
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

/// What has to be known to compare commits.
///
/// The answer is that of `git merge-base --is-ancestor`, except that clocks which lie never make
/// it a wrong one.
pub struct Ancestry<'a> {
    /// The repository's hash.
    pub hash: HashKind,
    /// All its objects.
    pub objects: &'a dyn ObjectSource,
    /// Gives the repository's commit-graph, if it has one that may be used. Called at most once
    /// for each question, and only for a walk of some length.
    pub commit_graph: &'a dyn Fn() -> Option<Arc<CommitGraph>>,
    /// The commits at which history ends.
    pub shallow: &'a HashSet<ObjectId>,
    /// What the links of a commit may take that is read; one with more leads nowhere.
    pub metadata_bytes: Limit,
    /// What all pushes share for such objects if they are large.
    pub metadata_memory: &'a ByteBudget,
    /// Asks the walk to stop.
    pub cancel: &'a CancelToken,
}

/// The reads after which a commit-graph is worth loading.
const READS_WITHOUT_GRAPH: u64 = 64;

impl Ancestry<'_> {
    /// Whether `old` is `new` or one of its ancestors; `None` if either is no commit. A parent that
    /// is missing or unreadable leads nowhere.
    pub fn is_ancestor(
        &self,
        old: &ObjectId,
        new: &ObjectId,
    ) -> Result<Option<bool>, ConnectivityError> {
        let nothing = NewObjects::new();
        let stores = Stores {
            hash: self.hash,
            new: &nothing,
            old: self.objects,
            brought: self.objects,
            bytes_max: self.metadata_bytes,
            memory: self.metadata_memory,
            cancel: self.cancel,
        };
        for id in [old, new] {
            if !matches!(stores.old_kind(id)?, Ok(ObjectKind::Commit)) {
                return Ok(None);
            }
        }
        let commits = Commits::new(&stores, self.commit_graph, self.shallow);
        Walk { commits, seen: HashMap::new(), open: BinaryHeap::new(), new_open: 0 }
            .leads_to(old, new)
            .map(Some)
    }
}

/// From which side a commit was reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// From the new commit only: its history may lead to the old one.
    New,
    /// From the old commit: nothing below an ancestor of it leads to it.
    Old,
}

/// A commit that was reached.
struct Seen {
    side: Side,
    /// Whether its parents are to be told.
    is_open: bool,
    parents: Parents,
}

/// Two fronts that go down the history, the youngest commit first. Where the front of the old
/// commit comes, that of the new one ends. Once nothing is left of that, the old commit is none of
/// its ancestors: the order decides how soon that is, and never what the answer is.
struct Walk<'a> {
    commits: Commits<'a>,
    seen: HashMap<ObjectId, Seen>,
    open: BinaryHeap<(Rank, ObjectId)>,
    /// How many commits are open that were reached from the new one only.
    new_open: usize,
}

impl Walk<'_> {
    fn leads_to(mut self, old: &ObjectId, new: &ObjectId) -> Result<bool, ConnectivityError> {
        if new == old {
            return Ok(true);
        }
        self.reach(old, Side::Old)?;
        self.reach(new, Side::New)?;
        while self.new_open > 0 {
            self.load_graph_if_due();
            let Some((rank, id)) = self.open.pop() else { break };
            if self.is_below(rank, old) {
                break;
            }
            let Some(seen) = self.seen.get_mut(&id).filter(|seen| seen.is_open) else { continue };
            seen.is_open = false;
            let (side, parents) = (seen.side, seen.parents.clone());
            self.new_open -= usize::from(side == Side::New);
            let parents = self.commits.parents(&id, parents)?;
            if side == Side::New && parents.contains(old) {
                return Ok(true);
            }
            for parent in parents {
                self.reach(&parent, side)?;
            }
        }
        Ok(false)
    }

    /// Notes that a commit was reached from a side. That the old one leads to a commit is news even
    /// if the new one was known to.
    fn reach(&mut self, id: &ObjectId, side: Side) -> Result<(), ConnectivityError> {
        let rank = match self.seen.get_mut(id) {
            None => {
                let Some(facts) = self.commits.parent_facts(id)? else { return Ok(()) };
                let CommitFacts { rank, parents } = facts;
                self.seen.insert(*id, Seen { side, is_open: true, parents });
                rank
            }
            Some(seen) if seen.side == Side::New && side == Side::Old => {
                seen.side = Side::Old;
                if seen.is_open {
                    self.new_open -= 1;
                    return Ok(());
                }
                seen.is_open = true;
                // What was told too late is told on at once.
                Rank::YOUNGEST
            }
            Some(_) => return Ok(()),
        };
        self.new_open += usize::from(side == Side::New);
        self.open.push((rank, *id));
        Ok(())
    }

    /// Whether the commit-graph says that what has this rank, or a lower one, is no descendant.
    fn is_below(&self, rank: Rank, old: &ObjectId) -> bool {
        let old = self.commits.graph_facts(old);
        old.is_some_and(|old| rank.is_exact() && rank.generation < old.rank.generation)
    }

    /// Loads the commit-graph when the walk turns out not to be a short one, and ranks what is
    /// open anew.
    fn load_graph_if_due(&mut self) {
        if self.commits.reads() <= READS_WITHOUT_GRAPH || !self.commits.load_graph() {
            return;
        }
        let open = std::mem::take(&mut self.open).into_iter();
        self.open = open
            .map(|(rank, id)| (self.commits.graph_facts(&id).map_or(rank, |facts| facts.rank), id))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectivity::corpus::{METADATA_BYTES, SHA1, Store, absent};
    use proptest::prelude::*;

    fn ask(store: &Store, old: ObjectId, new: ObjectId) -> Option<bool> {
        let (shallow, cancel) = (HashSet::new(), CancelToken::new());
        let ancestry = Ancestry {
            hash: SHA1,
            objects: store,
            commit_graph: &|| None,
            shallow: &shallow,
            metadata_bytes: METADATA_BYTES,
            metadata_memory: &ByteBudget::new(METADATA_BYTES),
            cancel: &cancel,
        };
        ancestry.is_ancestor(&old, &new).unwrap()
    }

    /// A line of commits, a second apart.
    fn line(store: &mut Store, len: u64) -> Vec<ObjectId> {
        let tree = store.tree(&[]);
        let mut commits: Vec<ObjectId> = Vec::new();
        for n in 0..len {
            let parents: Vec<_> = commits.last().copied().into_iter().collect();
            commits.push(store.commit(tree, &parents, 1000 + n));
        }
        commits
    }

    #[test]
    fn only_commits_are_compared() {
        let mut store = Store::default();
        let (blob, commits) = (store.blob("x"), line(&mut store, 1));
        assert_eq!(ask(&store, blob, commits[0]), None);
        assert_eq!(ask(&store, commits[0], blob), None);
        assert_eq!(ask(&store, absent(1), commits[0]), None);
        assert_eq!(ask(&store, commits[0], commits[0]), Some(true));
    }

    #[test]
    fn a_long_history_below_is_not_walked() {
        let mut store = Store::default();
        let commits = line(&mut store, 5000);
        let tree = store.tree(&[]);
        let fork = store.commit(tree, &[commits[4990]], 9000);
        assert_eq!(ask(&store, commits[4990], commits[4999]), Some(true));
        assert_eq!(ask(&store, commits[4999], fork), Some(false));
        assert_eq!(ask(&store, fork, commits[4999]), Some(false));
        assert!(store.reads() < 100, "{}", store.reads());
    }

    #[test]
    fn a_cancelled_walk_ends_without_an_answer() {
        let mut store = Store::default();
        let commits = line(&mut store, 3);
        let (shallow, cancel) = (HashSet::new(), CancelToken::new());
        cancel.cancel();
        let ancestry = Ancestry {
            hash: SHA1,
            objects: &store,
            commit_graph: &|| None,
            shallow: &shallow,
            metadata_bytes: METADATA_BYTES,
            metadata_memory: &ByteBudget::new(METADATA_BYTES),
            cancel: &cancel,
        };
        let answer = ancestry.is_ancestor(&commits[0], &commits[2]);
        assert!(matches!(answer, Err(ConnectivityError::Cancelled)));
    }

    proptest! {
        /// Each commit has up to two of the ones before as parents, and any date.
        #[test]
        fn whatever_the_clocks_say_the_answer_is_that_of_the_whole_walk(
            commits in prop::collection::vec((any::<u8>(), any::<u8>(), 0u64..50), 2..40),
            old in any::<prop::sample::Index>(),
            new in any::<prop::sample::Index>(),
        ) {
            let mut store = Store::default();
            let tree = store.tree(&[]);
            let mut ids: Vec<ObjectId> = Vec::new();
            let mut ancestors: Vec<HashSet<ObjectId>> = Vec::new();
            for (n, (first, second, date)) in commits.iter().enumerate() {
                let parents: Vec<usize> = [*first, *second]
                    .iter()
                    .filter(|_| n > 0)
                    .map(|parent| usize::from(*parent) % n)
                    .collect();
                let parent_ids: Vec<_> = parents.iter().map(|at| ids[*at]).collect();
                // The number keeps alike commits apart.
                let id = store.commit(tree, &parent_ids, date * 100 + n as u64);
                let mut all: HashSet<_> = HashSet::from([id]);
                for parent in parents {
                    all.extend(ancestors[parent].iter().copied());
                }
                ids.push(id);
                ancestors.push(all);
            }
            let (old, new) = (old.index(ids.len()), new.index(ids.len()));
            let expected = ancestors[new].contains(&ids[old]);
            prop_assert_eq!(ask(&store, ids[old], ids[new]), Some(expected));
        }
    }
}
