//! Which old commits a visible ref leads to.
//!
//! Two fronts move down the history together, the youngest commit first: one from the values of
//! refs, which paints commits complete, and one from the wanted commits, which finds what else
//! has to be complete if they are not painted. In an orderly history the first front reaches a
//! wanted commit before its parents are looked at. Clocks may lie: then more is looked at than
//! necessary, or a commit is not painted that could be. Not being painted is not a verdict, so
//! that is safe; painting is always right.
//!
//! Refs are asked for in three steps, each only if those before have not done: the old values,
//! then visible refs that the commit-graph knows, then the others, each of which costs a read.

use super::commits::{CommitFacts, Commits, Parents, Rank};
use super::error::ConnectivityError;
use super::source::RefValues;
use crate::model::ObjectId;
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};

/// The commits painted so far and the two fronts.
pub(super) struct History<'a> {
    commits: Commits<'a>,
    /// Ids that refs lead to; any that is a ref's value or named by a tag on the way too, whatever
    /// its kind, and whether or not the object is there.
    complete: HashSet<ObjectId>,
    frontier: BinaryHeap<Step>,
    wanted: BinaryHeap<Step>,
    /// The ranks of all commits that were ever in `wanted`.
    ranks: HashMap<ObjectId, Rank>,
    /// Those of them that are not painted.
    unproven: BTreeSet<(Rank, ObjectId)>,
    seeds: Seeds,
    slack: u32,
    near_cost: u64,
}

/// Which refs have been put into the frontier.
enum Seeds {
    /// None yet; these are the old values.
    Waiting(Vec<ObjectId>),
    /// The old values.
    Near,
    /// Those that the commit-graph knows; these are left.
    Cheap(Vec<ObjectId>),
    /// All.
    All,
}

/// A commit of a front; its parents are next.
struct Step {
    rank: Rank,
    id: ObjectId,
    parents: Parents,
}

impl<'a> History<'a> {
    /// Nothing is painted but the old values.
    pub(super) fn new(commits: Commits<'a>, old_values: Vec<ObjectId>) -> Self {
        Self {
            commits,
            complete: old_values.iter().copied().collect(),
            frontier: BinaryHeap::new(),
            wanted: BinaryHeap::new(),
            ranks: HashMap::new(),
            unproven: BTreeSet::new(),
            seeds: Seeds::Waiting(old_values),
            slack: SLACK,
            near_cost: 0,
        }
    }

    pub(super) fn commits(&self) -> &Commits<'a> {
        &self.commits
    }

    /// Whether refs are known to lead to `id`. It may still be missing.
    pub(super) fn is_complete(&self, id: &ObjectId) -> bool {
        self.complete.contains(id)
    }

    /// How young a commit is, if it was ever wanted.
    pub(super) fn rank(&self, id: &ObjectId) -> Option<Rank> {
        self.ranks.get(id).copied()
    }

    /// The wanted commits, and their ancestors, to which no ref is known to lead: the oldest
    /// first.
    pub(super) fn unproven(&self) -> impl Iterator<Item = &ObjectId> {
        self.unproven.iter().map(|(_, id)| id)
    }

    /// Looks for these commits in the history of refs. To be called once: it stops as soon as they
    /// are found.
    pub(super) fn prove(
        &mut self,
        wants: &[ObjectId],
        refs: &mut dyn RefValues,
    ) -> Result<(), ConnectivityError> {
        for id in wants {
            self.want(id)?;
        }
        loop {
            self.commits.stores().check_cancel()?;
            if self.unproven.is_empty() {
                return Ok(());
            }
            self.load_graph_if_due();
            while self.wanted.peek().is_some_and(|step| self.complete.contains(&step.id)) {
                self.wanted.pop();
            }
            if self.frontier_is_next() {
                self.paint_parents()?;
            } else if !self.add_seeds(refs)? {
                let Some(step) = self.wanted.pop() else { return Ok(()) };
                for parent in self.commits.parents(&step.id, step.parents)? {
                    self.want(&parent)?;
                }
            }
        }
    }

    /// Whether a commit was wanted and could be read.
    pub(super) fn has_met(&self, id: &ObjectId) -> bool {
        self.ranks.contains_key(id)
    }

    /// Goes on until these commits, which have all been [met](Self::has_met), are found or refs are
    /// known not to lead there, whatever the clocks say: to the end of the history, if need be.
    pub(super) fn settle(
        &mut self,
        ids: &[ObjectId],
        refs: &mut dyn RefValues,
    ) -> Result<(), ConnectivityError> {
        let mut open: Vec<ObjectId> = ids.to_vec();
        while let Some(id) = open.last() {
            self.commits.stores().check_cancel()?;
            let rank = self.ranks.get(id).copied().unwrap_or(Rank::YOUNGEST);
            let next = self.frontier.peek().map(|step| step.rank);
            // The commit-graph vouches that nothing of the frontier is young enough.
            let is_past = next.is_some_and(|next| next.is_exact() && next < rank);
            let all_refs = matches!(self.seeds, Seeds::All);
            if self.complete.contains(id) || all_refs && (is_past || next.is_none()) {
                open.pop();
            } else if next.is_some() && !is_past {
                self.paint_parents()?;
            } else {
                self.add_seeds(refs)?;
            }
        }
        Ok(())
    }

    /// Adds a commit to the wanted ones, unless it is known or cannot be read.
    fn want(&mut self, id: &ObjectId) -> Result<(), ConnectivityError> {
        if self.complete.contains(id) || self.ranks.contains_key(id) {
            return Ok(());
        }
        if let Some(facts) = self.commits.facts(id)? {
            self.ranks.insert(*id, facts.rank);
            self.unproven.insert((facts.rank, *id));
            self.wanted.push(Step::new(*id, facts));
        }
        Ok(())
    }

    /// Whether the frontier's youngest commit can still lead to an unproven one.
    fn frontier_is_next(&mut self) -> bool {
        if matches!(self.seeds, Seeds::Near) && self.near_cost > NEAR_COST_MAX {
            return false;
        }
        let Some(next) = self.frontier.peek().map(|step| step.rank) else { return false };
        let oldest = || self.unproven.first().map(|(rank, _)| *rank);
        let Some(target) = self.wanted.peek().map(|step| step.rank).or_else(oldest) else {
            return false;
        };
        if next >= target {
            self.slack = SLACK;
            return true;
        }
        if next.is_exact() || self.slack == 0 {
            return false;
        }
        self.slack -= 1;
        true
    }

    fn paint_parents(&mut self) -> Result<(), ConnectivityError> {
        let Some(step) = self.frontier.pop() else { return Ok(()) };
        for parent in self.commits.parents(&step.id, step.parents)? {
            if self.paint(parent) && !self.unproven.is_empty() {
                let reads = self.commits.reads();
                if let Some(facts) = self.commits.parent_facts(&parent)? {
                    self.frontier.push(Step::new(parent, facts));
                }
                self.near_cost += 1 + (self.commits.reads() - reads) * READ_COST;
            }
        }
        Ok(())
    }

    /// Notes that refs lead to `id`; true if that is news.
    fn paint(&mut self, id: ObjectId) -> bool {
        if let Some(rank) = self.ranks.get(&id) {
            self.unproven.remove(&(*rank, id));
        }
        self.complete.insert(id)
    }

    /// Puts more refs into the frontier; false if all are in it.
    fn add_seeds(&mut self, refs: &mut dyn RefValues) -> Result<bool, ConnectivityError> {
        let (values, next) = match std::mem::replace(&mut self.seeds, Seeds::All) {
            Seeds::Waiting(old) => (old, Seeds::Near),
            Seeds::Near => {
                let values = refs.visible().map_err(ConnectivityError::Refs)?;
                // Many refs can have one value.
                let values: BTreeSet<_> = values.into_iter().collect();
                self.load_graph();
                for id in &values {
                    self.paint(*id);
                }
                let (cheap, rest): (Vec<_>, Vec<_>) =
                    values.into_iter().partition(|id| self.commits.graph_knows(id));
                (cheap, Seeds::Cheap(rest))
            }
            Seeds::Cheap(rest) => (rest, Seeds::All),
            Seeds::All => return Ok(false),
        };
        self.seeds = next;
        self.slack = SLACK;
        for value in values {
            if self.unproven.is_empty() {
                break;
            }
            self.seed(&value)?;
        }
        Ok(true)
    }

    /// Puts the commit that a ref's value leads to into the frontier.
    fn seed(&mut self, value: &ObjectId) -> Result<(), ConnectivityError> {
        let peeled = self.commits.peel(value)?;
        for target in peeled.targets {
            self.paint(target);
        }
        if let Some((id, facts)) = peeled.commit {
            self.paint(id);
            self.frontier.push(Step::new(id, facts));
        }
        Ok(())
    }

    /// Loads the commit-graph when a walk turns out not to be a short one: a graph may be large.
    fn load_graph_if_due(&mut self) {
        if self.commits.reads() > READS_WITHOUT_GRAPH {
            self.load_graph();
        }
    }

    /// Loads the commit-graph and ranks all commits anew.
    fn load_graph(&mut self) {
        if !self.commits.load_graph() {
            return;
        }
        for front in [&mut self.frontier, &mut self.wanted] {
            let steps = std::mem::take(front).into_iter();
            *front = steps
                .map(|step| match self.commits.graph_facts(&step.id) {
                    Some(facts) => Step::new(step.id, facts),
                    None => step,
                })
                .collect();
        }
        for (old, id) in std::mem::take(&mut self.unproven) {
            let rank = self.commits.graph_facts(&id).map_or(old, |facts| facts.rank);
            self.ranks.insert(id, rank);
            self.unproven.insert((rank, id));
        }
    }
}

/// How many commits outside the commit-graph are painted that are older than what is looked for,
/// in case a clock was wrong. git has five.
const SLACK: u32 = 32;

/// The reads after which a commit-graph is worth loading.
const READS_WITHOUT_GRAPH: u64 = 64;

/// What may be spent on the history of the old values before all refs are listed: the branch may
/// be that of another ref, which a listing would tell at once.
const NEAR_COST_MAX: u64 = 1024 * READ_COST;

/// What a commit costs that has to be read, when one from the graph costs one.
const READ_COST: u64 = 16;

impl Step {
    fn new(id: ObjectId, facts: CommitFacts) -> Self {
        Self { rank: facts.rank, id, parents: facts.parents }
    }

    fn key(&self) -> (Rank, ObjectId) {
        (self.rank, self.id)
    }
}

impl PartialEq for Step {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Step {}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Step {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}
