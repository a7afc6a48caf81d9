//! What is known about old commits, from the commit-graph or from their objects.

use super::commit_graph::CommitGraph;
use super::error::ConnectivityError;
use super::stores::{Data, Stores};
use crate::links;
use crate::model::{ObjectId, ObjectKind, oid};
use bstr::ByteSlice;
use std::cell::{Cell, OnceCell};
use std::collections::HashSet;
use std::sync::Arc;

/// The old commits of a repository.
pub(super) struct Commits<'a> {
    stores: &'a Stores<'a>,
    open_graph: &'a dyn Fn() -> Option<Arc<CommitGraph>>,
    graph: OnceCell<Option<Arc<CommitGraph>>>,
    shallow: &'a HashSet<ObjectId>,
    reads: Cell<u64>,
}

/// How young a commit is: no ancestor of a commit is younger, except that clocks lie, so that
/// among commits outside the commit-graph one may be.
///
/// A commit-graph is closed under parents: what it does not know is no ancestor of what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub(super) generation: u32,
    date: u64,
}

/// A commit as far as walks need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitFacts {
    pub(super) rank: Rank,
    pub(super) parents: Parents,
}

/// The parents of a commit that waits for them to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parents {
    /// These.
    Few(Vec<ObjectId>),
    /// So many that they are read again when they are needed: a thousand commits that wait may
    /// have ten thousand parents each.
    Many,
}

/// Parents that are held in memory for each commit that waits.
const PARENTS_HELD_MAX: usize = 8;

impl From<Vec<ObjectId>> for Parents {
    fn from(parents: Vec<ObjectId>) -> Self {
        if parents.len() <= PARENTS_HELD_MAX { Self::Few(parents) } else { Self::Many }
    }
}

/// What a ref's value leads to when tags are followed.
#[derive(Debug, Default)]
pub(super) struct Peeled {
    /// What the tags name, one after the other.
    pub(super) targets: Vec<ObjectId>,
    /// The commit at the end, if it is one that can be read.
    pub(super) commit: Option<(ObjectId, CommitFacts)>,
}

impl Rank {
    /// The generation of commits that the graph does not know.
    const OUTSIDE: u32 = u32::MAX;

    /// No commit is younger.
    pub(super) const YOUNGEST: Self = Self { generation: u32::MAX, date: u64::MAX };

    /// Whether the commit-graph vouches for the rank.
    pub(super) fn is_exact(self) -> bool {
        self.generation != Self::OUTSIDE
    }
}

impl<'a> Commits<'a> {
    pub(super) fn new(
        stores: &'a Stores<'a>,
        open_graph: &'a dyn Fn() -> Option<Arc<CommitGraph>>,
        shallow: &'a HashSet<ObjectId>,
    ) -> Self {
        Self { stores, open_graph, graph: OnceCell::new(), shallow, reads: Cell::new(0) }
    }

    pub(super) fn stores(&self) -> &'a Stores<'a> {
        self.stores
    }

    /// Whether history ends at a commit.
    pub(super) fn ends_at(&self, id: &ObjectId) -> bool {
        self.shallow.contains(id)
    }

    /// Loads the commit-graph, once; true if ranks that were given before may be other ones now.
    pub(super) fn load_graph(&self) -> bool {
        if self.graph.get().is_some() {
            return false;
        }
        // Its parents are those of the commits; a shallow repository has fewer, and git ignores
        // the graph there.
        let usable = self.shallow.is_empty();
        self.graph.get_or_init(|| usable.then(|| (self.open_graph)()).flatten()).is_some()
    }

    /// Whether the graph, if it was loaded, knows a commit.
    pub(super) fn graph_knows(&self, id: &oid) -> bool {
        self.graph().is_some_and(|graph| graph.contains(id))
    }

    /// How many objects were read.
    pub(super) fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Reads a commit; `None` if it is missing, unreadable or something else.
    ///
    /// A commit that the graph knows need not be there.
    pub(super) fn facts(&self, id: &ObjectId) -> Result<Option<CommitFacts>, ConnectivityError> {
        Ok(match self.graph_facts(id) {
            Some(facts) => Some(facts),
            None => self.read(id)?.and_then(|object| self.parse(id, object)),
        })
    }

    /// The same for an id that a complete commit names, so that it is sure to be a commit and no
    /// huge blob: one lookup less.
    pub(super) fn parent_facts(
        &self,
        id: &ObjectId,
    ) -> Result<Option<CommitFacts>, ConnectivityError> {
        Ok(match self.graph_facts(id) {
            Some(facts) => Some(facts),
            None => self.read_any(id)?.and_then(|object| self.parse(id, object)),
        })
    }

    /// The parents of a commit whose facts were found.
    pub(super) fn parents(
        &self,
        id: &ObjectId,
        parents: Parents,
    ) -> Result<Vec<ObjectId>, ConnectivityError> {
        Ok(match parents {
            Parents::Few(parents) => parents,
            Parents::Many => match self.graph().and_then(|graph| graph.find(id)) {
                Some(commit) => commit.parents,
                None => match self.read_any(id)? {
                    Some((ObjectKind::Commit, data)) => {
                        let commit = links::commit(&data, self.stores.hash);
                        commit.into_iter().flatten().map_while(Result::ok).collect()
                    }
                    _ => Vec::new(),
                },
            },
        })
    }

    /// The tree of a complete commit; `None` if it is missing or unreadable.
    pub(super) fn tree(&self, id: &ObjectId) -> Result<Option<ObjectId>, ConnectivityError> {
        if let Some(commit) = self.graph().and_then(|graph| graph.find(id)) {
            return Ok(Some(commit.tree));
        }
        Ok(match self.read(id)? {
            Some((ObjectKind::Commit, data)) => {
                links::commit(&data, self.stores.hash).ok().map(|commit| commit.tree)
            }
            _ => None,
        })
    }

    /// Follows tags from `id` to what they name.
    pub(super) fn peel(&self, id: &ObjectId) -> Result<Peeled, ConnectivityError> {
        let (mut id, mut peeled) = (*id, Peeled::default());
        loop {
            if let Some(facts) = self.graph_facts(&id) {
                peeled.commit = Some((id, facts));
                return Ok(peeled);
            }
            match self.read(&id)? {
                Some(commit @ (ObjectKind::Commit, _)) => {
                    peeled.commit = self.parse(&id, commit).map(|facts| (id, facts));
                    return Ok(peeled);
                }
                Some((ObjectKind::Tag, data)) => match links::tag(&data, self.stores.hash) {
                    Ok(target) => {
                        peeled.targets.push(target.id);
                        id = target.id;
                    }
                    Err(_) => return Ok(peeled),
                },
                _ => return Ok(peeled),
            }
        }
    }

    fn graph(&self) -> Option<&Arc<CommitGraph>> {
        self.graph.get().and_then(Option::as_ref)
    }

    /// What the graph, if it was loaded, says of a commit.
    pub(super) fn graph_facts(&self, id: &ObjectId) -> Option<CommitFacts> {
        let commit = self.graph()?.find(id)?;
        let rank = Rank { generation: commit.generation, date: commit.date };
        Some(CommitFacts { rank, parents: commit.parents.into() })
    }

    /// Reads an object that may be a commit or a tag; other kinds are not loaded.
    fn read(&self, id: &ObjectId) -> Result<Option<Data<'_>>, ConnectivityError> {
        match self.stores.old_kind(id)? {
            Ok(ObjectKind::Commit | ObjectKind::Tag) => self.read_any(id),
            _ => Ok(None),
        }
    }

    fn read_any(&self, id: &ObjectId) -> Result<Option<Data<'_>>, ConnectivityError> {
        self.reads.set(self.reads.get() + 1);
        Ok(self.stores.read_old(id)?.ok())
    }

    fn parse(&self, id: &ObjectId, (kind, data): Data) -> Option<CommitFacts> {
        if kind != ObjectKind::Commit {
            return None;
        }
        let commit = links::commit(&data, self.stores.hash).ok()?;
        let parents = if self.shallow.contains(id) {
            Vec::new()
        } else {
            commit.collect::<Result<Vec<_>, _>>().ok()?
        };
        let rank = Rank { generation: Rank::OUTSIDE, date: committer_date(&data) };
        Some(CommitFacts { rank, parents: parents.into() })
    }
}

/// The seconds on the `committer` line; zero if there are none, as in git.
fn committer_date(commit: &[u8]) -> u64 {
    let seconds = || {
        let header = commit.split_str("\n\n").next()?;
        let line = header.lines().find_map(|line| line.strip_prefix(b"committer "))?;
        let (_, date) = line.rsplit_once_str(">")?;
        let digits = date.trim_start();
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        digits.get(..end)?.to_str().ok()?.parse().ok()
    };
    seconds().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committer_date_is_found_and_anything_odd_is_zero() {
        let commit = |committer: &str| {
            committer_date(format!("tree 1\nauthor a <b> 7 +0000\n{committer}\n\nx").as_bytes())
        };
        assert_eq!(commit("committer a <b> 1234 +0100"), 1234);
        assert_eq!(commit("committer a <>> 5"), 5);
        assert_eq!(commit("committer a <b>  6 -0100"), 6);
        assert_eq!(commit("committer a <b> 99999999999999999999999 +0000"), 0);
        assert_eq!(commit("committer a <b>"), 0);
        assert_eq!(commit("committer a b 12 +0000"), 0);
        assert_eq!(commit("\ncommitter a <b> 12 +0000"), 0);
        assert_eq!(committer_date(b""), 0);
    }

    #[test]
    fn commits_outside_the_graph_are_younger_than_all_within() {
        let outside = Rank { generation: Rank::OUTSIDE, date: 1 };
        let within = Rank { generation: 100, date: 1000 };
        assert!(outside > within);
        assert!(within.is_exact() && !outside.is_exact());
    }
}
