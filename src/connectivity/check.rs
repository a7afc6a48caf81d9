//! The order of proofs, and the verdicts.

use super::beside::Beside;
use super::closure::Closure;
use super::commit_graph::CommitGraph;
use super::commits::Commits;
use super::error::ConnectivityError;
use super::history::History;
use super::source::{ObjectSource, RefValues};
use super::stores::Stores;
use super::verdict::Verdicts;
use crate::links::{Link, NewObjects};
use crate::model::{ByteBudget, CancelToken, HashKind, Limit, ObjectId, ObjectKind};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// What has to be known to judge a push.
pub struct Connectivity<'a> {
    /// The repository's hash.
    pub hash: HashKind,
    /// What the push brings, and what that names.
    pub new: &'a NewObjects,
    /// The objects of the repository, without those of the push.
    pub old: &'a dyn ObjectSource,
    /// The objects of the push; those of the repository may be among them. Asked only if trees
    /// have to be walked or the blame has to be found: a [`LazySource`](super::LazySource) may
    /// never be opened.
    pub brought: &'a dyn ObjectSource,
    /// Gives the repository's commit-graph, if it has one that may be used. Called at most once,
    /// and only for a walk of some length.
    pub commit_graph: &'a dyn Fn() -> Option<Arc<CommitGraph>>,
    /// The commits at which history ends: those of the repository's `shallow` file and those that
    /// the push may add to it. Empty unless one of the two is shallow.
    pub shallow: &'a HashSet<ObjectId>,
    /// What a tree may have that is read for its links. A larger one refuses the values that need
    /// it read. Of commits and tags only the beginning is read.
    pub metadata_bytes: Limit,
    /// What all pushes share for such objects if they are large.
    pub metadata_memory: &'a ByteBudget,
    /// Asks the check to stop.
    pub cancel: &'a CancelToken,
}

impl Connectivity<'_> {
    /// Judges the new values of all commands that do not delete.
    ///
    /// All are judged together; only if that does not prove them all, each is walked by itself.
    pub fn check(
        &self,
        tips: &[ObjectId],
        refs: &mut dyn RefValues,
    ) -> Result<Verdicts, ConnectivityError> {
        let stores = &self.stores();
        let wants = Wants::new(stores, tips);
        let old_values = refs.old_values();
        let commits = Commits::new(stores, self.commit_graph, self.shallow);
        let mut history = History::new(commits, old_values.clone());
        let wanted_commits = wants.all_commits(&history)?;
        history.prove(&wanted_commits, refs)?;
        let history = &history;
        let proven = walk_beside(stores, history, &wants, &old_values)?;
        let mut closure = Closure::new(stores, history, self.shallow, &proven);
        let is_sound = self.new.kinds_agree() && !self.new.has_malformed();
        let tips: Vec<_> = if is_sound && prove_rest(&mut closure, history, &wants)? {
            vec![Ok(()); tips.len()]
        } else {
            tips.iter().map(|tip| closure.judge(*tip)).collect::<Result<_, _>>()?
        };
        let mut unreferenced = Vec::new();
        if tips.iter().any(Result::is_ok) {
            unreferenced.extend(closure.unreferenced());
            unreferenced.sort_unstable();
        }
        Ok(Verdicts { tips, unreferenced })
    }

    pub(super) fn stores(&self) -> Stores<'_> {
        Stores {
            hash: self.hash,
            new: self.new,
            old: self.old,
            brought: self.brought,
            bytes_max: self.metadata_bytes,
            memory: self.metadata_memory,
            cancel: self.cancel,
        }
    }
}

/// Finds trees and blobs in the trees of complete commits: of those on which the push builds,
/// then of the old values, on which a rewritten history does not build.
fn walk_beside(
    stores: &Stores<'_>,
    history: &History<'_>,
    wants: &Wants,
    old_values: &[ObjectId],
) -> Result<Vec<Link>, ConnectivityError> {
    let mut beside = Beside::new(stores, wants.contents.iter().copied().collect());
    let mut seen = HashSet::new();
    for bases in [&wants.commits[..], old_values] {
        if beside.is_done() {
            break;
        }
        let is_base = |id: &&ObjectId| history.is_complete(id) && seen.insert(**id);
        let mut bases: Vec<_> = bases.iter().filter(is_base).collect();
        bases.sort_unstable_by_key(|id| Reverse((history.rank(id), **id)));
        let mut trees = Vec::new();
        for id in bases {
            trees.extend(history.commits().tree(id)?);
        }
        if !trees.is_empty() {
            beside.walk(trees)?;
        }
    }
    Ok(beside.into_proven())
}

/// Proves what refs do not, object by object; false at the first that is not complete.
fn prove_rest(
    closure: &mut Closure<'_>,
    history: &History<'_>,
    wants: &Wants,
) -> Result<bool, ConnectivityError> {
    let link = |kind| move |id: &ObjectId| Link { id: *id, kind };
    // From the oldest commit on, so that none is reached before its parents are known.
    let unproven = history.unproven().map(link(ObjectKind::Commit));
    let commits = wants.commits.iter().map(link(ObjectKind::Commit));
    let tags = wants.tags.iter().map(link(ObjectKind::Tag));
    for link in unproven.chain(commits).chain(tags).chain(wants.contents.iter().copied()) {
        if !closure.is_complete(link)? {
            return Ok(false);
        }
    }
    for tip in &wants.tips {
        if closure.judge(*tip)?.is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What has to be complete for the push to be connected: the links that lead out of it, and the
/// new values that it does not bring. None of it need be there.
pub(super) struct Wants {
    commits: Vec<ObjectId>,
    tags: Vec<ObjectId>,
    /// Trees and blobs.
    contents: Vec<Link>,
    tips: BTreeSet<ObjectId>,
}

impl Wants {
    pub(super) fn new(stores: &Stores<'_>, tips: &[ObjectId]) -> Self {
        let is_old = |tip: &ObjectId| stores.new_kind(tip).is_none();
        let tips = tips.iter().copied().filter(is_old).collect();
        let (commits, tags, contents) = (Vec::new(), Vec::new(), Vec::new());
        let mut wants = Self { commits, tags, contents, tips };
        // In order, so that a push is judged in the same way every time.
        for link in stores.new.boundary().collect::<BTreeSet<_>>() {
            match link.kind {
                ObjectKind::Commit => wants.commits.push(link.id),
                ObjectKind::Tag => wants.tags.push(link.id),
                ObjectKind::Tree | ObjectKind::Blob => wants.contents.push(link),
            }
        }
        wants
    }

    /// The commits, and those that the tags and the new values are or lead to.
    pub(super) fn all_commits(
        &self,
        history: &History<'_>,
    ) -> Result<Vec<ObjectId>, ConnectivityError> {
        let mut commits = self.commits.clone();
        for id in self.tags.iter().chain(&self.tips).filter(|id| !history.is_complete(id)) {
            commits.extend(history.commits().peel(id)?.commit.map(|(id, _)| id));
        }
        Ok(commits)
    }
}
