//! Deltas that are made into their objects while the pack still arrives.
//!
//! git writes most deltas soon after what they are made from. Whoever holds the latest objects can
//! make theirs at once: their instructions are inflated once instead of twice, and by the time the
//! last byte has come most of the work is done. What is too far from its base, too large, or made
//! from something that the pack names by id, is left to pass two.
//!
//! The thread that reads the pack makes the objects, and decides what is held from sizes alone, so
//! that the outcome does not depend on which thread is faster. Naming them is most of the work, and
//! is done by whoever has time: see [`Naming`].
//!
//! An error is told when all of the pack has come: whatever is wrong with the pack itself comes
//! first, as it does in pass two.

use super::context::Context;
use super::error::IngestError;
use super::naming::{Done, Job, Naming};
use super::spare::Spare;
use super::tree_starts::{TreeChange, TreeStarts};
use crate::model::ObjectKind;
use crate::pack::delta;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The objects that are held, and what is made of them.
pub(super) struct Early<'s, 'a> {
    context: Context<'a>,
    naming: Naming<'s, 'a>,
    /// By the offset of the entry.
    held: HashMap<u64, Held>,
    /// The same, in the order in which they are going to be looked at when room is needed.
    queue: VecDeque<u64>,
    bytes: usize,
    /// How much may be held, as memory has been taken.
    bytes_max: usize,
    object_bytes_max: usize,
    spare: Spare,
    failed: Option<IngestError>,
}

struct Held {
    kind: ObjectKind,
    content: Arc<Vec<u8>>,
    starts: Starts,
    depth: u64,
    /// Memory that it is counted for.
    bytes: usize,
    /// Whether something was made from it since it was last looked at.
    is_used: bool,
}

/// Where the entries of a tree begin.
enum Starts {
    /// Not looked for, as long as nothing is made from it.
    NotLookedFor,
    /// It is no well-formed tree. Looked for once, not for each of what is made from it.
    None,
    /// Found.
    Known(TreeStarts),
}

/// LIMIT: bytes that are held. A pack of git's own history makes of twice as much no more than one
/// in thirty more, and more than the processor has near is slow.
const HELD_BYTES_MAX: usize = 8 << 20;

/// By how much memory more is taken when it is needed.
const HELD_STEP_BYTES: usize = 1 << 20;

/// The largest object that is held.
const OBJECT_BYTES_MAX: usize = HELD_BYTES_MAX / 8;

/// Memory of buffers that are kept for the next object.
const SPARE_BYTES_MAX: usize = 1 << 20;

/// What an object that is held takes beside its bytes, in tables that have just grown.
const OVERHEAD_BYTES: usize = 256;

impl<'s, 'a> Early<'s, 'a> {
    /// Nothing yet. Objects of up to `object_bytes_max` are made.
    pub(super) fn new(
        context: Context<'a>,
        naming: Naming<'s, 'a>,
        object_bytes_max: usize,
    ) -> Self {
        Self {
            context,
            naming,
            held: HashMap::new(),
            queue: VecDeque::new(),
            bytes: 0,
            bytes_max: 0,
            object_bytes_max: object_bytes_max.min(OBJECT_BYTES_MAX),
            spare: Spare::new(SPARE_BYTES_MAX),
            failed: None,
        }
    }

    /// Holds a whole object of the pack, whose entry begins at `offset`, for what may be made
    /// from it.
    pub(super) fn hold(&mut self, offset: u64, kind: ObjectKind, content: &[u8]) {
        // Deltas of commits and tags are rare.
        let is_base = matches!(kind, ObjectKind::Blob | ObjectKind::Tree);
        if !is_base || content.len() > self.object_bytes_max {
            return;
        }
        let bytes = memory_bytes(kind, content.len());
        if self.make_room(bytes) {
            let mut own = self.buffer(content.len());
            own.extend_from_slice(content);
            let (content, starts) = (Arc::new(own), Starts::NotLookedFor);
            self.insert(offset, Held { kind, content, starts, depth: 0, bytes, is_used: false });
        }
    }

    /// Makes the object of the delta at `place`, whose entry begins at `offset`, if its base is
    /// held. Whether it was made.
    pub(super) fn make(
        &mut self,
        (place, offset): (u32, u64),
        base: u64,
        delta: &[u8],
        result_size: u64,
    ) -> bool {
        let Ok(size) = usize::try_from(result_size) else { return false };
        let Some(found) = self.held.get_mut(&base) else { return false };
        let (kind, depth) = (found.kind, found.depth + 1);
        if self.failed.is_some()
            || size > self.object_bytes_max
            || depth > self.context.options.limits.delta_depth_max
            || self.context.check_metadata(kind, result_size).is_err()
        {
            return false;
        }
        found.is_used = true;
        let hash = self.context.options.hash;
        if kind == ObjectKind::Tree && matches!(found.starts, Starts::NotLookedFor) {
            found.starts = TreeStarts::of(&found.content, hash).into();
        }
        let mut object = self.buffer(size);
        let Some(found) = self.held.get(&base) else { return false };
        if let Err(fault) = delta::apply(&found.content, delta, result_size, &mut object) {
            self.failed = Some(IngestError::BadDelta { offset, fault });
            return true;
        }
        let (starts, new) = match &found.starts {
            Starts::Known(base) => {
                let TreeChange { starts, new } = base.change(&object, delta, hash);
                (starts.into(), Some(new))
            }
            Starts::NotLookedFor | Starts::None => (Starts::NotLookedFor, None),
        };
        let content = Arc::new(object);
        let bytes = memory_bytes(kind, size);
        let job = Job { place, kind, content: Arc::clone(&content), new };
        if let Err(error) = self.naming.add(job) {
            self.failed = Some(error);
        }
        if self.make_room(bytes) {
            self.insert(offset, Held { kind, content, starts, depth, bytes, is_used: false });
        } else {
            self.put(content);
        }
        true
    }

    /// Hands on what was made, though it is little: no more may come for a while.
    pub(super) fn flush(&mut self) {
        if let Err(error) = self.naming.flush() {
            self.failed.get_or_insert(error);
        }
    }

    /// The most memory that contents may have taken.
    pub(super) fn bytes_peak(&self) -> usize {
        self.bytes_max + self.spare.bytes() + self.naming.bytes_max()
    }

    /// Waits for what is left, once all of the pack has come.
    pub(super) fn finish(self) -> Result<Vec<Done>, IngestError> {
        match self.failed {
            Some(error) => Err(error),
            None => self.naming.finish(),
        }
    }

    fn insert(&mut self, offset: u64, held: Held) {
        self.bytes += held.bytes;
        self.queue.push_back(offset);
        self.held.insert(offset, held);
    }

    /// Lets objects go that nothing was made from lately, until so many bytes have room. False if
    /// they have none.
    fn make_room(&mut self, needed: usize) -> bool {
        while self.bytes + needed > self.bytes_max {
            if self.bytes_max < HELD_BYTES_MAX
                && self.context.memory.add_luxury(HELD_STEP_BYTES as u64)
            {
                self.bytes_max += HELD_STEP_BYTES;
                continue;
            }
            let Some(offset) = self.queue.pop_front() else { return false };
            match self.held.get_mut(&offset) {
                Some(held) if held.is_used => {
                    held.is_used = false;
                    self.queue.push_back(offset);
                }
                Some(_) => {
                    if let Some(held) = self.held.remove(&offset) {
                        self.bytes -= held.bytes;
                        self.put(held.content);
                    }
                }
                None => {}
            }
        }
        true
    }

    /// A buffer with room for `len` bytes, and for little more: a small object that kept the buffer
    /// of a large one would be counted for less than it takes.
    fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.spare.take();
        if !(len..=len + slack(len)).contains(&buffer.capacity()) {
            return Vec::with_capacity(len);
        }
        buffer.clear();
        buffer
    }

    /// Keeps the buffer of an object, if nobody is about to name it.
    fn put(&mut self, content: Arc<Vec<u8>>) {
        if let Ok(buffer) = Arc::try_unwrap(content) {
            self.spare.put(buffer);
        }
    }
}

impl From<Option<TreeStarts>> for Starts {
    fn from(starts: Option<TreeStarts>) -> Self {
        starts.map_or(Self::None, Self::Known)
    }
}

/// The most that an object holds, whichever buffer it has got: what is held must not depend on
/// which threads are done with which buffers.
fn memory_bytes(kind: ObjectKind, size: usize) -> usize {
    // Where the entries of a tree begin takes four bytes for each, of 24 and more, and a quarter
    // of that is left free.
    let starts = if kind == ObjectKind::Tree { size / 4 } else { 0 };
    size + slack(size) + starts + OVERHEAD_BYTES
}

/// By how much the buffer of an object of `len` bytes may be larger.
fn slack(len: usize) -> usize {
    len / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::collector::Collector;
    use crate::ingest::testing::{Store, destination, keeping, memory};
    use crate::model::{CancelToken, HashKind, Limits};
    use crate::pack::writer::encode_delta;

    const HASH: HashKind = HashKind::Sha1;

    fn with_early(test: impl FnOnce(&mut Early<'_, '_>)) {
        let (limits, options) = (Limits::default(), keeping(HASH));
        let ((destination, _root), memory) = (destination(), memory(&limits));
        let (existing, cancel) = (Store::default(), CancelToken::new());
        let (destination, options) = (&destination, &options);
        let (existing, cancel, memory) = (&existing, &cancel, &memory);
        let context = Context { existing, destination, options, cancel, memory };
        std::thread::scope(|scope| {
            let collector = Collector::new(HASH, &limits);
            let naming = Naming::start(scope, context, &collector, 10);
            test(&mut Early::new(context, naming, OBJECT_BYTES_MAX));
        });
    }

    /// Makes `result` from the object at `base`, which has the content `from`.
    fn make(early: &mut Early<'_, '_>, offset: u64, (base, from): (u64, &[u8]), result: &[u8]) {
        let delta = encode_delta(from, result).unwrap();
        assert!(early.make((0, offset), base, &delta, result.len() as u64));
        assert!(early.failed.is_none());
    }

    fn assert_counted(early: &Early<'_, '_>) {
        for held in early.held.values() {
            let starts = match &held.starts {
                Starts::Known(starts) => starts.bytes(),
                Starts::NotLookedFor | Starts::None => 0,
            };
            let takes = held.content.capacity() + starts + OVERHEAD_BYTES / 2;
            assert!(takes <= held.bytes, "{takes} for {}", held.content.len());
        }
        assert_eq!(early.bytes, early.held.values().map(|held| held.bytes).sum::<usize>());
        assert!(early.bytes <= HELD_BYTES_MAX);
    }

    fn tree(entries: usize) -> Vec<u8> {
        let entry = |number: usize| [b"0 a\0".as_slice(), &[number.to_le_bytes()[0]; 20]].concat();
        (0..entries).flat_map(entry).collect()
    }

    #[test]
    fn small_objects_do_not_keep_the_buffers_of_large_ones() {
        with_early(|early| {
            let large = vec![0; OBJECT_BYTES_MAX / 10 * 9];
            for number in 0..40 {
                early.hold(10 * number, ObjectKind::Blob, &large);
                early.hold(10 * number + 1, ObjectKind::Blob, b"small");
                // Whatever something is made from stays.
                for small in 0..=number {
                    let (base, offset) = (10 * small + 1, 1000 * (small + 1) + number);
                    make(early, offset, (base, b"small"), b"smaller");
                }
                assert_counted(early);
            }
        });
    }

    #[test]
    fn a_small_tree_keeps_no_room_for_the_entries_of_a_large_one() {
        with_early(|early| {
            let large = tree(20_000);
            early.hold(0, ObjectKind::Tree, &large);
            for number in 1..100 {
                make(early, number, (0, &large), &large[..24]);
            }
            // One that has grown.
            make(early, 100, (1, &large[..24]), &tree(3000));
            make(early, 101, (100, &tree(3000)), &tree(3001));
            assert_counted(early);
        });
    }

    #[test]
    fn a_malformed_tree_is_read_once_however_many_are_made_from_it() {
        with_early(|early| {
            let malformed = [tree(10), b"no entry".to_vec()].concat();
            early.hold(0, ObjectKind::Tree, &malformed);
            make(early, 1, (0, &malformed), &malformed[1..]);
            assert!(matches!(early.held[&0].starts, Starts::None));
            early.hold(2, ObjectKind::Tree, &tree(10));
            make(early, 3, (2, &tree(10)), &malformed);
            assert!(matches!(early.held[&3].starts, Starts::None));
        });
    }
}
