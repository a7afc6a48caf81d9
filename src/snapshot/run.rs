//! Many indexes merged into one sorted table in memory.
//!
//! A run never changes. New packs become a run of their own; runs are merged so that there are
//! few of them and each is a good deal longer than the next. That makes a lookup in 5,000 packs
//! cost what it costs in one, and a new pack cost its own objects, not the repository's.

use super::error::IndexFault;
use super::layout::{IndexError, Layout, Place};
use crate::model::{ObjectId, oid};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashSet};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{self, AtomicU64};
use std::sync::{Arc, OnceLock};

/// A pack that an index describes.
#[derive(Debug)]
pub(super) struct PackFile {
    /// Names the pack in this process: two packs that had one path, one after the other, have
    /// different numbers.
    pub(super) number: u64,
    pub(super) path: PathBuf,
    /// The checksum at the end of the pack, once its index has been read. A multi-pack-index
    /// does not say.
    pub(super) checksum: OnceLock<ObjectId>,
}

/// A sorted table of objects and the packs they are in. An object may be in it many times.
pub(super) struct Run {
    id_bytes: usize,
    /// All ids in a row.
    ids: Vec<u8>,
    /// For each id, the number of its pack in `packs`.
    pack_numbers: Vec<u32>,
    /// For each id, where its entry begins.
    offsets: Vec<u64>,
    /// For each first byte, how many ids begin with it or a lesser one.
    fan_out: Box<[usize; 256]>,
    packs: Vec<Arc<PackFile>>,
}

/// A run of more than this many times the next one's length is left alone by a merge. Eight
/// keeps ten million objects in seven runs.
const GROWTH: usize = 8;

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run of {} objects in {} packs", self.len(), self.packs.len())
    }
}

impl PackFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { number: next_number(), path, checksum: OnceLock::new() }
    }
}

/// A number that no other file of this process has had.
pub(super) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, atomic::Ordering::Relaxed)
}

impl Run {
    /// An empty table of ids of so many bytes, for [`add_index`](Self::add_index).
    pub(super) fn new(id_bytes: usize) -> Self {
        Self::with_capacity(id_bytes, 0, Vec::new())
    }

    /// Adds what an index that is in memory whole says. Its ids must be in order, or no lookup
    /// would find them where they lie. If it is not valid, nothing is added.
    ///
    /// After the last, the table is to be [sorted](Self::sort).
    pub(super) fn add_index(
        &mut self,
        layout: &Layout,
        bytes: &[u8],
        packs: &[Arc<PackFile>],
    ) -> Result<(), IndexError> {
        let (before, shift) = (self.len(), self.packs.len());
        let added = self.add_entries(layout, bytes, packs.len(), shift);
        if added.is_ok() {
            self.packs.extend_from_slice(packs);
        } else {
            self.ids.truncate(before * self.id_bytes);
            self.pack_numbers.truncate(before);
            self.offsets.truncate(before);
        }
        added
    }

    fn add_entries(
        &mut self,
        layout: &Layout,
        bytes: &[u8],
        packs: usize,
        shift: usize,
    ) -> Result<(), IndexError> {
        let ids = layout.ids(bytes, 0..layout.count())?;
        let mut before: &[u8] = &[];
        for (index, position) in (0..layout.count()).enumerate() {
            let id = layout.id_in(ids, index);
            let is_as_said =
                id.first().is_some_and(|first| layout.bucket(*first).contains(&position));
            if !is_as_said || before > id {
                return Err(IndexFault::Order.into());
            }
            let Place { pack, offset } = layout.place(bytes, position)?;
            if pack as usize >= packs {
                return Err(IndexFault::PackNames.into());
            }
            self.push(id, pack.saturating_add(u32::try_from(shift).unwrap_or(u32::MAX)), offset);
            before = id;
        }
        Ok(())
    }

    /// Puts the entries of all indexes in order.
    pub(super) fn sort(&mut self) {
        let is_sorted = (1..self.len()).all(|index| self.id(index - 1) <= self.id(index));
        if !is_sorted {
            let key = |index: usize| {
                let id = self.id(index);
                (id.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes)), index)
            };
            let mut order: Vec<(u64, usize)> = (0..self.len()).map(key).collect();
            // Copies of one object stay in the order of their packs.
            order.sort_unstable_by(|(key, index), (other_key, other)| {
                let ids = || self.id(*index).cmp(self.id(*other)).then(index.cmp(other));
                key.cmp(other_key).then_with(ids)
            });
            let packs = std::mem::take(&mut self.packs);
            let mut sorted = Self::with_capacity(self.id_bytes, self.len(), packs);
            for (_, index) in order {
                let (id, pack, offset) = self.entry(index);
                sorted.push(id, pack, offset);
            }
            *self = sorted;
        }
        self.count_fan_out();
    }

    /// Objects in it.
    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let packs = self.packs.len() * size_of::<Arc<PackFile>>();
        let tables = self.ids.capacity()
            + self.pack_numbers.capacity() * size_of::<u32>()
            + self.offsets.capacity() * size_of::<u64>();
        (packs + tables + size_of_val(&*self.fan_out)) as u64
    }

    /// All places of an object.
    pub(super) fn find(&self, id: &oid) -> impl Iterator<Item = (&Arc<PackFile>, u64)> {
        self.positions(id.as_bytes()).filter_map(|index| {
            let pack = self.packs.get(*self.pack_numbers.get(index)? as usize)?;
            Some((pack, *self.offsets.get(index)?))
        })
    }

    /// What is left when these packs have gone; `None` if none of them is here.
    pub(super) fn without(&self, gone: &HashSet<u64>) -> Option<Self> {
        if !self.packs.iter().any(|pack| gone.contains(&pack.number)) {
            return None;
        }
        let mut kept = Vec::new();
        let renumbered: Vec<Option<u32>> = self
            .packs
            .iter()
            .map(|pack| {
                let stays = !gone.contains(&pack.number);
                stays.then(|| number_of(&mut kept, pack))
            })
            .collect();
        let mut run = Self::with_capacity(self.id_bytes, 0, kept);
        for index in 0..self.len() {
            let (id, pack, offset) = self.entry(index);
            if let Some(pack) = renumbered.get(pack as usize).copied().flatten() {
                run.push(id, pack, offset);
            }
        }
        run.count_fan_out();
        Some(run)
    }

    /// Both in one.
    fn merge(&self, other: &Self) -> Self {
        let mut packs = self.packs.clone();
        let shift = u32::try_from(packs.len()).unwrap_or(u32::MAX);
        packs.extend(other.packs.iter().cloned());
        let mut run = Self::with_capacity(self.id_bytes, self.len() + other.len(), packs);
        let (mut left, mut right) = (0, 0);
        while left < self.len() || right < other.len() {
            let take_left =
                right >= other.len() || (left < self.len() && self.id(left) <= other.id(right));
            if take_left {
                let (id, pack, offset) = self.entry(left);
                run.push(id, pack, offset);
                left += 1;
            } else {
                let (id, pack, offset) = other.entry(right);
                run.push(id, pack.saturating_add(shift), offset);
                right += 1;
            }
        }
        run.count_fan_out();
        run
    }

    fn with_capacity(id_bytes: usize, count: usize, packs: Vec<Arc<PackFile>>) -> Self {
        Self {
            id_bytes,
            ids: Vec::with_capacity(count * id_bytes),
            pack_numbers: Vec::with_capacity(count),
            offsets: Vec::with_capacity(count),
            fan_out: Box::new([0; 256]),
            packs,
        }
    }

    fn push(&mut self, id: &[u8], pack: u32, offset: u64) {
        self.ids.extend_from_slice(id);
        self.pack_numbers.push(pack);
        self.offsets.push(offset);
    }

    fn count_fan_out(&mut self) {
        let mut counts = Box::new([0; 256]);
        for id in self.ids.chunks_exact(self.id_bytes.max(1)) {
            if let Some(count) = id.first().and_then(|first| counts.get_mut(usize::from(*first))) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for count in counts.iter_mut() {
            sum += *count;
            *count = sum;
        }
        self.fan_out = counts;
    }

    fn id(&self, index: usize) -> &[u8] {
        let start = index * self.id_bytes;
        self.ids.get(start..start + self.id_bytes).unwrap_or_default()
    }

    fn entry(&self, index: usize) -> (&[u8], u32, u64) {
        let pack = self.pack_numbers.get(index).copied().unwrap_or_default();
        (self.id(index), pack, self.offsets.get(index).copied().unwrap_or_default())
    }

    fn bucket(&self, first: u8) -> Range<usize> {
        let start = first.checked_sub(1).map_or(0, |before| self.fan_out[usize::from(before)]);
        start..self.fan_out[usize::from(first)]
    }

    fn positions(&self, id: &[u8]) -> Range<usize> {
        let Some(first) = id.first().filter(|_| id.len() == self.id_bytes) else {
            return 0..0;
        };
        let mut bucket = self.bucket(*first);
        let end = bucket.end;
        while !bucket.is_empty() {
            let middle = bucket.start + bucket.len() / 2;
            if self.id(middle).cmp(id) == Ordering::Less {
                bucket.start = middle + 1;
            } else {
                bucket.end = middle;
            }
        }
        let start = bucket.start;
        let same = (start..end).take_while(|index| self.id(*index) == id).count();
        start..start + same
    }
}

/// Adds new runs to a list that is kept from the longest to the shortest.
pub(super) fn add(runs: &mut Vec<Arc<Run>>, new: Vec<Run>) {
    let mut merged = match merge_all(new) {
        Some(merged) if merged.len() > 0 => Arc::new(merged),
        _ => return,
    };
    while let Some(last) = runs.last() {
        if last.len() >= merged.len().saturating_mul(GROWTH) {
            break;
        }
        merged = Arc::new(last.merge(&merged));
        runs.pop();
    }
    runs.push(merged);
}

/// Merges the two shortest until one is left, so that no entry is copied more than a logarithmic
/// number of times.
fn merge_all(runs: Vec<Run>) -> Option<Run> {
    let mut shortest: BinaryHeap<Reverse<(usize, usize)>> =
        runs.iter().enumerate().map(|(place, run)| Reverse((run.len(), place))).collect();
    let mut places: Vec<Option<Run>> = runs.into_iter().map(Some).collect();
    loop {
        let Reverse((_, first)) = shortest.pop()?;
        let Some(Reverse((_, second))) = shortest.pop() else {
            return places.get_mut(first)?.take();
        };
        let longer = places.get_mut(second)?.take()?;
        let place = places.get_mut(first)?;
        let merged = longer.merge(&place.take()?);
        shortest.push(Reverse((merged.len(), first)));
        *place = Some(merged);
    }
}

fn number_of(packs: &mut Vec<Arc<PackFile>>, pack: &Arc<PackFile>) -> u32 {
    packs.push(Arc::clone(pack));
    u32::try_from(packs.len() - 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HashKind;
    use crate::snapshot::testing::{checksum, index_v2};
    use proptest::prelude::*;

    /// An index of objects that are named by numbers; there are few, so that packs share some.
    fn index(numbers: &[u16]) -> Run {
        let pack = Arc::new(PackFile::new(PathBuf::new()));
        let entries: Vec<_> =
            numbers.iter().map(|number| (id(*number), 12 + u64::from(*number))).collect();
        let bytes = index_v2(HashKind::Sha1, &entries, &checksum(HashKind::Sha1, b""));
        let layout = Layout::read(&bytes[..], bytes.len() as u64, HashKind::Sha1).unwrap();
        let mut run = Run::new(20);
        run.add_index(&layout, &bytes, &[pack]).unwrap();
        run.sort();
        run
    }

    fn id(number: u16) -> ObjectId {
        let mut id = [0; 20];
        (id[0], id[19]) = (number.to_le_bytes()[0] % 5, number.to_le_bytes()[0]);
        ObjectId::Sha1(id)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn merged_runs_have_what_their_indexes_have_and_lose_what_goes(
            rounds in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(0u16..40, 0..12), 0..5),
                0..6,
            ),
            goes in any::<u64>(),
        ) {
            let mut runs = Vec::new();
            let mut packs: Vec<(u64, Vec<u16>)> = Vec::new();
            for round in rounds {
                let new: Vec<_> = round.iter().map(|numbers| index(numbers)).collect();
                for (run, numbers) in new.iter().zip(round) {
                    packs.push((run.packs[0].number, numbers));
                }
                add(&mut runs, new);
            }
            let holders = |runs: &[Arc<Run>], number: u16| {
                let mut holders: Vec<_> = runs
                    .iter()
                    .flat_map(|run| run.find(&id(number)).map(|(pack, offset)| {
                        assert_eq!(offset, 12 + u64::from(number));
                        pack.number
                    }).collect::<Vec<_>>())
                    .collect();
                holders.sort_unstable();
                holders
            };
            let expected = |packs: &[(u64, Vec<u16>)], number: u16| {
                packs
                    .iter()
                    .flat_map(|(pack, numbers)| {
                        let times = numbers.iter().filter(|other| **other == number).count();
                        vec![*pack; times]
                    })
                    .collect::<Vec<_>>()
            };
            for number in 0..41 {
                prop_assert_eq!(holders(&runs, number), expected(&packs, number));
            }
            for pair in runs.windows(2) {
                prop_assert!(pair[0].len() >= GROWTH * pair[1].len());
            }
            let (gone, left): (Vec<_>, Vec<_>) =
                packs.into_iter().partition(|(pack, _)| goes >> (pack % 64) & 1 != 0);
            let gone = gone.into_iter().map(|(pack, _)| pack).collect();
            let runs: Vec<_> = runs
                .iter()
                .map(|run| run.without(&gone).map_or_else(|| Arc::clone(run), Arc::new))
                .collect();
            for number in 0..41 {
                prop_assert_eq!(holders(&runs, number), expected(&left, number));
            }
        }
    }

    #[test]
    fn five_thousand_packs_that_come_one_by_one_stay_in_a_handful_of_runs() {
        let mut runs = Vec::new();
        for number in 0..5000 {
            add(&mut runs, vec![index(&[number % 256])]);
            assert!(runs.len() <= 5);
        }
        assert_eq!(runs.iter().map(|run| run.len()).sum::<usize>(), 5000);
    }
}
