//! The tree and its builder.

use super::ref_deltas::RefDeltas;
use crate::model::{HashKind, ObjectId, oid};
use crate::pack::entry::EntryKind;
use crate::pack::table::{ENTRIES_MAX, EntryTable};
use std::sync::atomic::{AtomicU32, Ordering};

/// Collects entries in the order of the pack.
#[derive(Debug)]
pub struct DeltaTreeBuilder {
    hash: HashKind,
    /// For each entry the place of its base, or one of the marks.
    bases: Vec<u32>,
    ref_ids: Vec<u8>,
    ref_places: Vec<u32>,
}

/// The entries of a pack with their bases, by place in its [`EntryTable`].
///
/// Shared between threads: the one thing that changes is which deltas by id have been claimed.
#[derive(Debug)]
pub struct DeltaTree {
    bases: Vec<AtomicU32>,
    /// For each entry where its deltas by offset begin in `children`; one more at the end.
    starts: Vec<u32>,
    /// Deltas by offset, those with the most descendants last among the deltas of one base.
    children: Vec<u32>,
    refs: RefDeltas,
    deltas: u64,
}

/// A delta whose base cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("delta at offset {offset} has its base at {base_offset}, where no entry begins")]
pub struct NoSuchBase {
    /// Where the delta begins.
    pub offset: u64,
    /// Where its base would.
    pub base_offset: u64,
}

/// A whole object that deltas are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its place.
    pub place: u32,
    /// Deltas below it, as far as they name their bases by offset.
    pub descendants: u32,
}

/// The base of a whole object.
const WHOLE: u32 = u32::MAX;
/// The base of a delta by id that has not been claimed.
const UNCLAIMED: u32 = u32::MAX - 1;
const _: () = assert!(ENTRIES_MAX <= UNCLAIMED);

impl DeltaTreeBuilder {
    /// Starts with no entries, for a repository of `hash`.
    pub fn new(hash: HashKind) -> Self {
        Self { hash, bases: Vec::new(), ref_ids: Vec::new(), ref_places: Vec::new() }
    }

    /// Adds the entry that `table` got last.
    pub fn push(&mut self, table: &EntryTable, kind: &EntryKind) -> Result<(), NoSuchBase> {
        // The table has no more entries than that.
        let place = u32::try_from(self.bases.len()).unwrap_or(ENTRIES_MAX);
        let base = match kind {
            EntryKind::Whole(_) => WHOLE,
            &EntryKind::OfsDelta { base_offset } => {
                let found = table.place_at(base_offset).filter(|&base| base < place);
                found.ok_or(NoSuchBase { offset: table.offset(place), base_offset })?
            }
            EntryKind::RefDelta { base } => {
                self.ref_ids.extend_from_slice(base.as_slice());
                self.ref_places.push(place);
                UNCLAIMED
            }
        };
        self.bases.push(base);
        Ok(())
    }

    /// The tree, once all entries are there.
    pub fn build(self) -> DeltaTree {
        let descendants = self.descendants();
        let mut starts = vec![0u32; self.bases.len() + 1];
        let by_offset = || (0u32..).zip(&self.bases).filter(|(_, base)| **base < ENTRIES_MAX);
        for (_, &base) in by_offset() {
            starts[base as usize + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut children = vec![0u32; sum as usize];
        for (place, &base) in by_offset() {
            let slot = &mut next[base as usize];
            children[*slot as usize] = place;
            *slot += 1;
        }
        for pair in starts.windows(2) {
            children[pair[0] as usize..pair[1] as usize]
                .sort_by_key(|&child| descendants[child as usize]);
        }
        DeltaTree {
            deltas: children.len() as u64 + self.ref_places.len() as u64,
            refs: RefDeltas::new(self.hash, &self.ref_ids, &self.ref_places),
            bases: self.bases.into_iter().map(AtomicU32::new).collect(),
            starts,
            children,
        }
    }

    /// For each entry how many deltas are below it, as far as offsets tell. Bases by offset lie
    /// before their deltas, so one pass from the end does.
    fn descendants(&self) -> Vec<u32> {
        let mut descendants = vec![0u32; self.bases.len()];
        for (place, &base) in self.bases.iter().enumerate().rev() {
            if base < ENTRIES_MAX {
                // No more than there are entries.
                descendants[base as usize] += descendants[place] + 1;
            }
        }
        descendants
    }
}

impl DeltaTree {
    /// Memory that each entry takes.
    pub const ENTRY_BYTES: usize = size_of::<AtomicU32>() + 2 * size_of::<u32>();

    /// Memory that each delta takes besides that names its base by id.
    pub const fn ref_delta_bytes(id_bytes: usize) -> usize {
        id_bytes + size_of::<u32>() + size_of::<bool>()
    }

    /// Deltas of all sorts. When every walk is over and fewer came by, the rest cannot be
    /// resolved: a base is missing, or some deltas name each other.
    pub fn deltas(&self) -> u64 {
        self.deltas
    }

    /// The deltas that name their base by the offset of the entry at `place`. None for a place
    /// behind the entries that the tree was built from.
    pub fn children_of_entry(&self, place: u32) -> &[u32] {
        let at = place as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&start), Some(&end)) => &self.children[start as usize..end as usize],
            _ => &[],
        }
    }

    /// Whether deltas name `id` as their base, claimed or not.
    pub fn is_named(&self, id: &oid) -> bool {
        self.refs.is_named(id)
    }

    /// The deltas that name their base by `id`, which the entry at `base` holds: the first time.
    /// After that none, be it for the same entry or another one that holds the same object: each
    /// delta is resolved once, whoever asks from which thread.
    pub fn claim_children_of_id(&self, id: &oid, base: u32) -> &[u32] {
        let children = self.refs.claim(id);
        for &child in children {
            self.bases[child as usize].store(base, Ordering::Release);
        }
        children
    }

    /// The base of an entry: `None` for a whole object, and for a delta by id that nobody has
    /// claimed.
    ///
    /// From a delta that a [`Walk`](super::Walk) came by, this leads up to a whole object.
    pub fn base_of(&self, place: u32) -> Option<u32> {
        let base = self.bases.get(place as usize)?.load(Ordering::Acquire);
        (base < ENTRIES_MAX).then_some(base)
    }

    /// Whether the entry at `place` is a delta.
    pub fn is_delta(&self, place: u32) -> bool {
        let base = self.bases.get(place as usize);
        base.is_some_and(|base| base.load(Ordering::Relaxed) != WHOLE)
    }

    /// The whole objects that deltas are made from, in the order of the pack. `table` must have
    /// the ids of all whole objects.
    pub fn roots<'a>(&'a self, table: &'a EntryTable) -> impl Iterator<Item = Root> + 'a {
        let whole =
            (0u32..).zip(&self.bases).filter(|(_, base)| base.load(Ordering::Relaxed) == WHOLE);
        whole.filter_map(|(place, _)| {
            let has_children = !self.children_of_entry(place).is_empty();
            (has_children || self.is_named(table.id(place)))
                .then(|| Root { place, descendants: self.descendants_of(place) })
        })
    }

    /// The ids that unclaimed deltas name as their bases, each once, in order.
    ///
    /// After the walks below all whole objects of a pack: what it is missing, and what cannot be.
    pub fn unclaimed_bases(&self) -> impl Iterator<Item = ObjectId> {
        self.refs.unclaimed()
    }

    /// Leaves the deltas whose objects have their names in `table` out of all walks, but for those
    /// that a delta without a name is made from, directly or not.
    ///
    /// To be called before any walk; what counts as a delta stays the same.
    pub fn leave_out_named(&mut self, table: &EntryTable) {
        let mut is_left = vec![false; self.bases.len()];
        for at in (0..self.bases.len()).rev() {
            let (base, place) = (*self.bases[at].get_mut(), u32::try_from(at).unwrap_or(u32::MAX));
            let left = match table.kind(place) {
                Some(_) => is_left[at] || self.refs.is_named(table.id(place)),
                None => true,
            };
            is_left[at] = left;
            if left && base < ENTRIES_MAX {
                is_left[base as usize] = true;
            }
        }
        let mut children = Vec::new();
        for at in 0..self.bases.len() {
            let own = self.starts[at] as usize..self.starts[at + 1] as usize;
            // No more than there were.
            self.starts[at] = u32::try_from(children.len()).unwrap_or(u32::MAX);
            let left = self.children[own].iter().filter(|child| is_left[**child as usize]);
            children.extend(left);
        }
        if let Some(end) = self.starts.last_mut() {
            *end = u32::try_from(children.len()).unwrap_or(u32::MAX);
        }
        self.children = children;
    }

    fn descendants_of(&self, place: u32) -> u32 {
        let mut count = 0;
        let mut pending = vec![place];
        while let Some(place) = pending.pop() {
            let children = self.children_of_entry(place);
            count += children.len();
            pending.extend_from_slice(children);
        }
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}
