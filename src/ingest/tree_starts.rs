//! Where the entries of a tree begin, so that a delta of it need not be read whole.

use crate::links;
use crate::model::HashKind;
use crate::pack::delta::{self, Instruction};
use std::ops::Range;

/// Where each entry of a well-formed tree begins, and where the last one ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeStarts {
    /// Ascending; the length of the tree comes last.
    starts: Vec<u32>,
}

/// What a delta makes of a tree whose entries are all known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeChange {
    /// Where the entries of the tree begin; `None` if one of them cannot be read.
    pub(super) starts: Option<TreeStarts>,
    /// Those that are not entries of the base.
    pub(super) new: NewEntries,
}

/// The entries of a tree that are not those of the one that it was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NewEntries {
    /// Where they begin. The last one is the one that cannot be read, if there is one.
    pub(super) starts: Vec<u32>,
    /// How many entries the tree has that can be read, old and new.
    pub(super) total: u64,
}

impl NewEntries {
    /// Memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u32>()
    }
}

impl TreeStarts {
    /// Reads a tree; `None` if it is malformed, or too large for what it is for.
    pub(super) fn of(content: &[u8], hash: HashKind) -> Option<Self> {
        let mut starts = Self::default();
        let mut entries = links::tree(content, hash);
        loop {
            let at = content.len() - entries.rest().len();
            match entries.next() {
                Some(Ok(_)) => starts.push(at),
                Some(Err(_)) => return None,
                None => break,
            }
        }
        u32::try_from(content.len()).is_ok().then(|| starts.finish(content.len()))
    }

    /// What `delta`, which was applied, has made of this tree: `content`.
    ///
    /// An entry that was copied whole, from where an entry of the base begins, is an entry of the
    /// base and not looked at again. That makes the cost of a tree that of its changes.
    pub(super) fn change(&self, content: &[u8], delta: &[u8], hash: HashKind) -> TreeChange {
        let mut starts = Self::with_room_for(self);
        let mut new = NewEntries::default();
        let end = starts.follow(self, content, delta, hash, &mut new.starts);
        new.total = starts.entries();
        if let Err(at) = end {
            new.starts.push(key(at));
            return TreeChange { starts: None, new };
        }
        TreeChange { starts: Some(starts.finish(content.len())), new }
    }

    /// Follows the instructions of `delta`. An error tells where an entry cannot be read.
    fn follow(
        &mut self,
        base: &Self,
        content: &[u8],
        delta: &[u8],
        hash: HashKind,
        new: &mut Vec<u32>,
    ) -> Result<(), usize> {
        let mut region = 0;
        // Where the next entry begins: never before the region at hand.
        let mut at = 0;
        // The delta was applied before, so that these errors do not happen; if they did, the tree
        // must not pass for one without links.
        let end = content.len();
        for instruction in delta::instructions(delta, base.content_len()).map_err(|_| end)? {
            let instruction = instruction.map_err(|_| end)?;
            let end = region + instruction.len();
            while at < end {
                if let Instruction::Copy(range) = &instruction {
                    let from = range.start + (at - region);
                    at += self.copy_whole(base, from..range.end, at);
                    if at >= end {
                        break;
                    }
                }
                let mut entries = links::tree(content.get(at..).unwrap_or_default(), hash);
                // Nothing where an entry should be is as bad as half of one.
                let Some(Ok(_)) = entries.next() else { return Err(at) };
                self.push(at);
                new.push(key(at));
                at = content.len() - entries.rest().len();
            }
            region = end;
        }
        Ok(())
    }

    /// None yet, for a tree like `other`.
    pub(super) fn with_room_for(other: &Self) -> Self {
        Self { starts: Vec::with_capacity(other.starts.len() + 1) }
    }

    /// Adds the next start.
    pub(super) fn push(&mut self, at: usize) {
        self.starts.push(key(at));
    }

    /// Adds where the tree ends. Takes no more than a quarter more memory than it needs, whatever
    /// there was room for: what a large tree is made into may be small.
    pub(super) fn finish(mut self, content_len: usize) -> Self {
        self.push(content_len);
        if self.starts.capacity() / 5 * 4 > self.starts.len() {
            self.starts.shrink_to_fit();
        }
        self
    }

    /// How many entries there are, while none has been added behind them.
    pub(super) fn entries(&self) -> u64 {
        self.starts.len() as u64
    }

    /// The length of the tree.
    pub(super) fn content_len(&self) -> usize {
        self.starts.last().map_or(0, |&len| len as usize)
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u32>()
    }

    /// Adds the entries of `base` that lie wholly in `range` of it and begin at the start of the
    /// range, as they are found at `at` of this tree. Returns how long they are together: 0 if no
    /// entry begins at the start of the range.
    pub(super) fn copy_whole(&mut self, base: &Self, range: Range<usize>, at: usize) -> usize {
        let Ok(first) = base.starts.binary_search(&key(range.start)) else { return 0 };
        let tail = base.starts.get(first..).unwrap_or_default();
        let count = tail.partition_point(|&start| start <= key(range.end));
        let Some((&end, whole)) = tail.get(..count).and_then(<[u32]>::split_last) else { return 0 };
        let (from, to) = (key(range.start), key(at));
        self.starts.extend(whole.iter().map(|start| (start - from).saturating_add(to)));
        (end - from) as usize
    }
}

fn key(position: usize) -> u32 {
    // Trees of more bytes have no starts.
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::collector::Collector;
    use crate::links::{Link, NewObjects};
    use crate::model::{Limits, ObjectId, ObjectKind};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const HASH: HashKind = HashKind::Sha1;

    fn entry() -> impl Strategy<Value = Vec<u8>> {
        ("(100644|40000|160000|120000|0)", "[a-z ]{1,8}", any::<[u8; 20]>()).prop_map(
            |(mode, name, id)| [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &id].concat(),
        )
    }

    /// A step of a delta: entries of the base, by the number of the first one and how many, with
    /// both ends moved by some bytes; or bytes that are inserted.
    #[derive(Clone, Debug)]
    enum Step {
        Copy(usize, usize, isize, isize),
        Insert(Vec<u8>),
        /// As a delta of git's has it that changes the id of an entry, or its name: copies up to
        /// some byte of an entry, inserts what else is to be in it, goes on behind some byte of the
        /// base's next one.
        Replace {
            first: usize,
            count: usize,
            cut: usize,
            tail: Vec<u8>,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        let shift = || prop_oneof![4 => Just(0isize), 1 => -40isize..40];
        prop_oneof![
            3 => (0usize..20, 0usize..20, shift(), shift())
                .prop_map(|(first, count, start, end)| Step::Copy(first, count, start, end)),
            2 => entry().prop_map(Step::Insert),
            3 => (0usize..20, 0usize..6, 0usize..60, entry()).prop_map(|(first, count, cut, tail)| {
                Step::Replace { first, count, cut, tail }
            }),
            1 => prop::collection::vec(any::<u8>(), 1..30).prop_map(Step::Insert),
        ]
    }

    /// The delta, as far as its steps lie within the base.
    fn encode(base: &[u8], starts: &[u32], steps: &[Step]) -> Vec<u8> {
        let mut made = Made::default();
        let at = |n: usize, shift: isize| {
            let place = starts[n.min(starts.len() - 1)] as usize;
            place.saturating_add_signed(shift).min(base.len())
        };
        for step in steps {
            match step {
                Step::Copy(first, count, start, end) => {
                    made.copy(at(*first, *start), at(first + count, *end));
                }
                Step::Insert(bytes) => made.insert(bytes),
                Step::Replace { first, count, cut, tail } => {
                    // The entry that is changed keeps its beginning, and gets another end.
                    let changed = at(first + count, 0)..at(first + count + 1, 0);
                    let kept = (*cut).min(changed.len());
                    made.copy(at(*first, 0), changed.start + kept);
                    made.insert(
                        tail.get(tail.len().saturating_sub(changed.len() - kept)..).unwrap(),
                    );
                }
            }
        }
        let Made { body, size } = made;
        let mut delta = Vec::new();
        for size in [base.len(), size] {
            let [low, high, ..] = u32::try_from(size).unwrap().to_le_bytes();
            let size = u32::from(low) | u32::from(high) << 8;
            delta.extend_from_slice(&[
                u8::try_from(size & 0x7f).unwrap() | 0x80,
                u8::try_from(size >> 7 & 0x7f).unwrap() | 0x80,
                u8::try_from(size >> 14).unwrap(),
            ]);
        }
        delta.extend(body);
        delta
    }

    #[derive(Default)]
    struct Made {
        body: Vec<u8>,
        size: usize,
    }

    impl Made {
        fn copy(&mut self, start: usize, end: usize) {
            if start < end {
                let [o0, o1, ..] = u32::try_from(start).unwrap().to_le_bytes();
                let [l0, l1, ..] = u32::try_from(end - start).unwrap().to_le_bytes();
                self.body.extend_from_slice(&[0xb3, o0, o1, l0, l1]);
                self.size += end - start;
            }
        }

        fn insert(&mut self, bytes: &[u8]) {
            if !bytes.is_empty() {
                self.body.push(u8::try_from(bytes.len()).unwrap());
                self.body.extend_from_slice(bytes);
                self.size += bytes.len();
            }
        }
    }

    fn facts(objects: &NewObjects) -> (bool, BTreeSet<Link>) {
        (objects.has_malformed(), objects.boundary().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_tree_made_by_a_delta_names_what_its_bytes_name(
            base in prop::collection::vec(entry(), 0..20),
            deltas in prop::collection::vec(prop::collection::vec(step(), 1..8), 1..4),
        ) {
            let mut base = base.concat();
            let mut starts = TreeStarts::of(&base, HASH).unwrap();
            let id = ObjectId::null(HASH);
            let mut by_delta = Collector::new(HASH, &Limits::default());
            by_delta.note(&id, ObjectKind::Tree, &base).unwrap();
            let mut whole = by_delta.sibling();
            whole.note(&id, ObjectKind::Tree, &base).unwrap();
            // Each tree is made from the one before, with what was found out about that.
            for steps in deltas {
                let delta = encode(&base, &starts.starts, &steps);
                let mut content = Vec::new();
                if delta::apply(&base, &delta, u64::MAX, &mut content).is_err() {
                    // Too short for git, or empty.
                    break;
                }
                let change = starts.change(&content, &delta, HASH);
                by_delta.note_new_entries(&id, &content, &change.new).unwrap();
                let made = change.starts;
                whole.note(&id, ObjectKind::Tree, &content).unwrap();
                prop_assert_eq!(&made, &TreeStarts::of(&content, HASH));
                // What cannot be read makes no base for others.
                let Some(made) = made else { break };
                (base, starts) = (content, made);
            }
            let (by_delta, whole) = (by_delta.into_objects(), whole.into_objects());
            prop_assert_eq!(facts(&by_delta), facts(&whole));
        }
    }

    #[test]
    fn a_malformed_tree_has_no_starts() {
        assert_eq!(TreeStarts::of(b"100644 a", HASH), None);
        assert_eq!(TreeStarts::of(b"", HASH).unwrap().content_len(), 0);
    }
}
