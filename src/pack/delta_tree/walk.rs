//! The order in which deltas are resolved.

use super::tree::DeltaTree;
use crate::model::oid;

/// A walk through all deltas below one object, each after its base.
///
/// Take a delta from the iterator, make its object from that of its base, say so with
/// [`resolved`](Self::resolved), take the next. A delta that cannot be made is left out by not
/// saying so: what is below it does not come.
///
/// Depth first, and below each base the branch with the most deltas last. As a base is done with
/// when its last delta has been made, no more than log2(n) + 1 contents have to be kept at a time
/// for n deltas that name their bases by offset, however deep or wide the tree: a chain takes one.
/// Deltas by id give no such promise, for what is below them is not known beforehand.
#[derive(Debug)]
pub struct Walk<'t> {
    tree: &'t DeltaTree,
    pending: Vec<Delta>,
}

/// A delta whose base is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The place of its entry.
    pub place: u32,
    /// The place of its base.
    pub base: u32,
    /// Deltas from here down to a whole object, this one included.
    pub depth: u64,
    /// Whether it is the last one of its base: nobody asks for the content of the base again.
    pub is_last_of_base: bool,
}

impl<'t> Walk<'t> {
    /// Walks below the entry at `root`, which holds the object `id`: a whole object of the pack,
    /// or one that was added behind it because it was missing.
    ///
    /// Claims the deltas that name `id`. Threads may walk below different roots at the same time.
    pub fn below(tree: &'t DeltaTree, root: u32, id: &oid) -> Self {
        let mut walk = Self { tree, pending: Vec::new() };
        walk.push_children(root, id, 1);
        walk
    }

    /// Says that `delta` gave the object `id`. Returns whether anything is made from it, that is,
    /// whether its content has to be kept.
    pub fn resolved(&mut self, delta: &Delta, id: &oid) -> bool {
        let before = self.pending.len();
        self.push_children(delta.place, id, delta.depth + 1);
        self.pending.len() > before
    }

    fn push_children(&mut self, base: u32, id: &oid, depth: u64) {
        let by_offset = self.tree.children_of_entry(base).iter().rev();
        let by_id = self.tree.claim_children_of_id(id, base);
        let first = self.pending.len();
        self.pending.extend(by_offset.chain(by_id).map(|&place| Delta {
            place,
            base,
            depth,
            is_last_of_base: false,
        }));
        if let Some(last) = self.pending.get_mut(first) {
            last.is_last_of_base = true;
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Delta;

    fn next(&mut self) -> Option<Delta> {
        self.pending.pop()
    }
}
