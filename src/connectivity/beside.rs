//! New trees walked beside those of complete commits.
//!
//! What a push does not bring is nearly always at the same path in a commit that the pusher was
//! told of. At each path, all new trees that stand there are taken together with all complete
//! trees that stand there; only paths at which a push brings a tree are visited. Whatever is an
//! entry of a complete tree is complete, as the kind that the entry says, wherever the push
//! needs it.

use super::error::ConnectivityError;
use super::stores::Stores;
use crate::links::{self, Link};
use crate::model::{ObjectId, ObjectKind};
use bstr::BString;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The trees and blobs that are looked for.
pub(super) struct Beside<'a> {
    stores: &'a Stores<'a>,
    wanted: HashSet<Link>,
    proven: Vec<Link>,
    /// A push can have as many paths as it likes, since a tree can stand at many; what is not
    /// found in time is left to the exact walk, which looks at each tree once.
    reads_left: usize,
}

/// One path.
struct Place {
    new: BTreeSet<ObjectId>,
    complete: BTreeSet<ObjectId>,
}

impl<'a> Beside<'a> {
    pub(super) fn new(stores: &'a Stores<'a>, wanted: HashSet<Link>) -> Self {
        Self { stores, wanted, proven: Vec::new(), reads_left: 0 }
    }

    /// Whether nothing is left to be found.
    pub(super) fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    /// What was found.
    pub(super) fn into_proven(self) -> Vec<Link> {
        self.proven
    }

    /// Walks from the root trees of new commits and of complete ones.
    pub(super) fn walk(
        &mut self,
        new: BTreeSet<ObjectId>,
        complete: BTreeSet<ObjectId>,
    ) -> Result<(), ConnectivityError> {
        let size = self.stores.new.len().saturating_add(complete.len());
        self.reads_left = size.saturating_mul(READS_PER_OBJECT).saturating_add(READS_MIN);
        for id in &complete {
            self.found(Link { id: *id, kind: ObjectKind::Tree });
        }
        let mut places = vec![Place { new, complete }];
        while let Some(place) = places.pop() {
            let subtrees = self.read_complete(&place.complete)?;
            if self.is_done() || self.reads_left == 0 {
                return Ok(());
            }
            places.extend(self.read_new(&place.new, subtrees)?);
        }
        Ok(())
    }

    /// Marks all entries of complete trees of one path; returns those that are trees, by name.
    fn read_complete(
        &mut self,
        trees: &BTreeSet<ObjectId>,
    ) -> Result<BTreeMap<BString, BTreeSet<ObjectId>>, ConnectivityError> {
        let mut subtrees: BTreeMap<BString, BTreeSet<ObjectId>> = BTreeMap::new();
        for id in trees {
            if self.is_done() || !self.may_read() {
                break;
            }
            let Ok((ObjectKind::Tree, data)) = self.stores.read_old(id)? else { continue };
            for entry in links::tree(&data, self.stores.hash).map_while(Result::ok) {
                let Some(kind) = entry.kind() else { continue };
                self.found(Link { id: entry.id.to_owned(), kind });
                if kind == ObjectKind::Tree {
                    subtrees.entry(entry.name.to_owned()).or_default().insert(entry.id.to_owned());
                }
            }
        }
        Ok(subtrees)
    }

    /// The paths below that have both new trees and complete ones.
    fn read_new(
        &mut self,
        trees: &BTreeSet<ObjectId>,
        mut subtrees: BTreeMap<BString, BTreeSet<ObjectId>>,
    ) -> Result<Vec<Place>, ConnectivityError> {
        let mut new: BTreeMap<BString, BTreeSet<ObjectId>> = BTreeMap::new();
        for id in trees {
            if subtrees.is_empty() || !self.may_read() {
                break;
            }
            let Ok((ObjectKind::Tree, data)) = self.stores.read_new(id)? else { continue };
            for entry in links::tree(&data, self.stores.hash).map_while(Result::ok) {
                let is_new = || self.stores.new_kind(entry.id) == Some(ObjectKind::Tree);
                if entry.kind() == Some(ObjectKind::Tree)
                    && subtrees.contains_key(entry.name)
                    && is_new()
                {
                    new.entry(entry.name.to_owned()).or_default().insert(entry.id.to_owned());
                }
            }
        }
        let both = |(name, new)| Some(Place { new, complete: subtrees.remove(&name)? });
        Ok(new.into_iter().filter_map(both).collect())
    }

    fn found(&mut self, link: Link) {
        if self.wanted.remove(&link) {
            self.proven.push(link);
        }
    }

    fn may_read(&mut self) -> bool {
        let left = self.reads_left.checked_sub(1);
        self.reads_left = left.unwrap_or(0);
        left.is_some()
    }
}

const READS_PER_OBJECT: usize = 4;
const READS_MIN: usize = 1024;
