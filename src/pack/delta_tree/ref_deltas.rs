//! The deltas that name their bases by id.

use crate::model::{HashKind, ObjectId, oid};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Places of deltas, sorted by the ids of their bases.
#[derive(Debug)]
pub(super) struct RefDeltas {
    hash: HashKind,
    ids: Vec<u8>,
    places: Vec<u32>,
    /// Whether the deltas of a base have been claimed, at the first of them.
    claimed: Vec<AtomicBool>,
    /// Deltas whose base begins with a byte up to this one.
    fanout: Vec<u32>,
}

impl RefDeltas {
    /// Sorts deltas given as the ids of their bases, one behind the other, and their places.
    pub(super) fn new(hash: HashKind, ids: &[u8], places: &[u32]) -> Self {
        let id_len = hash.len_in_bytes();
        let id = |n: u32| &ids[n as usize * id_len..(n as usize + 1) * id_len];
        let mut order: Vec<u32> = (0u32..).zip(places).map(|(n, _)| n).collect();
        order.sort_unstable_by(|&a, &b| id(a).cmp(id(b)).then(a.cmp(&b)));

        let mut fanout = vec![0u32; 256];
        let mut sorted_ids = Vec::with_capacity(ids.len());
        for &n in &order {
            fanout[usize::from(id(n)[0])] += 1;
            sorted_ids.extend_from_slice(id(n));
        }
        let mut sum = 0;
        for count in &mut fanout {
            sum += *count;
            *count = sum;
        }
        Self {
            hash,
            ids: sorted_ids,
            claimed: order.iter().map(|_| AtomicBool::new(false)).collect(),
            places: order.into_iter().map(|n| places[n as usize]).collect(),
            fanout,
        }
    }

    pub(super) fn is_named(&self, id: &oid) -> bool {
        !self.range(id).is_empty()
    }

    /// The places of the deltas against `id`, to the first who asks.
    pub(super) fn claim(&self, id: &oid) -> &[u32] {
        let range = self.range(id);
        match self.claimed.get(range.start) {
            Some(claimed) if !range.is_empty() && !claimed.swap(true, Ordering::AcqRel) => {
                &self.places[range]
            }
            _ => &[],
        }
    }

    /// The ids against which there are deltas that nobody has asked for.
    pub(super) fn unclaimed(&self) -> impl Iterator<Item = ObjectId> {
        let mut start = 0;
        std::iter::from_fn(move || {
            while start < self.places.len() {
                let at = start;
                let id = self.id(at);
                start += self.ids[at * self.hash.len_in_bytes()..]
                    .chunks_exact(self.hash.len_in_bytes())
                    .take_while(|other| *other == id)
                    .count();
                if !self.claimed[at].load(Ordering::Acquire) {
                    return ObjectId::try_from(id).ok();
                }
            }
            None
        })
    }

    fn range(&self, id: &oid) -> Range<usize> {
        let first = usize::from(id.first_byte());
        let start = first.checked_sub(1).map_or(0, |before| self.fanout[before] as usize);
        let end = self.fanout[first] as usize;
        let from = partition_point(start..end, |n| self.id(n) < id.as_bytes());
        from..partition_point(from..end, |n| self.id(n) == id.as_bytes())
    }

    fn id(&self, n: usize) -> &[u8] {
        let len = self.hash.len_in_bytes();
        &self.ids[n * len..(n + 1) * len]
    }
}

/// The first number of `range` for which `is_before` does not hold, where it holds for none after
/// that.
fn partition_point(range: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let Range { mut start, mut end } = range;
    while start < end {
        let middle = start + (end - start) / 2;
        if is_before(middle) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}
