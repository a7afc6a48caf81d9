//! The trees of complete commits, walked where the push changes them.
//!
//! What a push does not bring is nearly always at the same path in a commit that the pusher was
//! told of. Whatever is an entry of a complete tree is complete, as the kind that the entry says,
//! wherever the push needs it. So complete trees are read, and of the trees below them those with
//! a name that some new tree of the push has: a path at which the push brings a tree consists of
//! such names. The new trees themselves are not read again: their names were noted while their
//! bytes were in memory.

use super::error::ConnectivityError;
use super::stores::Stores;
use crate::links::{self, Link, TreeNames};
use crate::model::{ObjectId, ObjectKind};
use bstr::BString;
use std::collections::{BTreeMap, HashSet};

/// The trees and blobs that are looked for.
pub(super) struct Beside<'a> {
    stores: &'a Stores<'a>,
    wanted: HashSet<Link>,
    proven: Vec<Link>,
    seen: HashSet<ObjectId>,
    names: Option<TreeNames>,
    /// Names can stand in more places than those at which the push brings trees; what is not found
    /// in time is left to the exact walk.
    reads_left: usize,
}

impl<'a> Beside<'a> {
    pub(super) fn new(stores: &'a Stores<'a>, wanted: HashSet<Link>) -> Self {
        let (proven, seen) = (Vec::new(), HashSet::new());
        Self { stores, wanted, proven, seen, names: None, reads_left: 0 }
    }

    /// Whether nothing is left to be found.
    pub(super) fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    /// What was found.
    pub(super) fn into_proven(self) -> Vec<Link> {
        self.proven
    }

    /// Walks from root trees of complete commits, in this order. Neighbours should be alike:
    /// their deltas have bases in common.
    pub(super) fn walk(&mut self, roots: Vec<ObjectId>) -> Result<(), ConnectivityError> {
        let names = match self.names.take() {
            Some(names) => names,
            None => self.stores.new.tree_names(),
        };
        let size = self.stores.new.len().saturating_add(roots.len());
        self.reads_left = size.saturating_mul(READS_PER_OBJECT).saturating_add(READS_MIN);
        for id in &roots {
            self.found(Link { id: *id, kind: ObjectKind::Tree });
        }
        // The trees of one name at a time, for the same reason.
        let mut groups = vec![roots];
        while let Some(trees) = groups.pop() {
            let mut below: BTreeMap<BString, Vec<ObjectId>> = BTreeMap::new();
            for id in trees {
                if self.is_done() || !self.seen.insert(id) {
                    continue;
                }
                let left = self.reads_left.checked_sub(1);
                let Some(left) = left else { return Ok(()) };
                self.reads_left = left;
                self.read(&id, &names, &mut below)?;
            }
            groups.extend(below.into_values());
        }
        self.names = Some(names);
        Ok(())
    }

    /// Marks all entries of a complete tree, and notes those below which to go on.
    fn read(
        &mut self,
        id: &ObjectId,
        names: &TreeNames,
        below: &mut BTreeMap<BString, Vec<ObjectId>>,
    ) -> Result<(), ConnectivityError> {
        let Ok((ObjectKind::Tree, data)) = self.stores.read_old(id)? else { return Ok(()) };
        for entry in links::tree(&data, self.stores.hash).map_while(Result::ok) {
            let Some(kind) = entry.kind() else { continue };
            let id = entry.id.to_owned();
            self.found(Link { id, kind });
            if kind == ObjectKind::Tree && !self.seen.contains(&id) && names.contains(entry.name) {
                match below.get_mut(entry.name) {
                    Some(trees) => trees.push(id),
                    None => _ = below.insert(entry.name.to_owned(), vec![id]),
                }
            }
        }
        Ok(())
    }

    fn found(&mut self, link: Link) {
        if self.wanted.remove(&link) {
            self.proven.push(link);
        }
    }
}

const READS_PER_OBJECT: usize = 4;
const READS_MIN: usize = 1024;
