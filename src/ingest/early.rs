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
use super::naming::{Job, Naming};
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
    /// Of a tree, where its entries begin; not looked for before something is made from it.
    starts: Option<TreeStarts>,
    depth: u64,
    /// Memory that it is counted for.
    bytes: usize,
    /// Whether something was made from it since it was last looked at.
    is_used: bool,
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

/// A guess at what an object that is held takes beside its bytes.
const OVERHEAD_BYTES: usize = 160;

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
            let content = Arc::new(own);
            let held = Held { kind, content, starts: None, depth: 0, bytes, is_used: false };
            self.insert(offset, held);
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
        if kind == ObjectKind::Tree && found.starts.is_none() {
            found.starts = TreeStarts::of(&found.content, hash);
        }
        // Most often the one that is made from it in turn is the last that was made from it.
        let mut object = self.spare.take();
        if object.capacity() < size {
            object = Vec::with_capacity(size);
        }
        let Some(found) = self.held.get(&base) else { return false };
        if let Err(fault) = delta::apply(&found.content, delta, result_size, &mut object) {
            self.failed = Some(IngestError::BadDelta { offset, fault });
            return true;
        }
        let change = found.starts.as_ref().map(|base| base.change(&object, delta, hash));
        let content = Arc::new(object);
        let (starts, new) = match change {
            Some(TreeChange { starts, new }) => (starts, Some(new)),
            None => (None, None),
        };
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

    /// What is left to be waited for, once all of the pack has come.
    pub(super) fn into_naming(self) -> Result<Naming<'s, 'a>, IngestError> {
        self.failed.map_or(Ok(self.naming), Err)
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
                && self.context.memory.add_contents(HELD_STEP_BYTES as u64)
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

    /// A buffer with room for `len` bytes.
    fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.spare.take();
        buffer.clear();
        if buffer.capacity() < len {
            buffer = Vec::with_capacity(len);
        }
        buffer
    }

    /// Keeps the buffer of an object, if nobody is about to name it.
    fn put(&mut self, content: Arc<Vec<u8>>) {
        if let Ok(buffer) = Arc::try_unwrap(content) {
            self.spare.put(buffer);
        }
    }
}

fn memory_bytes(kind: ObjectKind, size: usize) -> usize {
    // Where the entries of a tree begin takes four bytes for each, of 24 and more.
    let starts = if kind == ObjectKind::Tree { size / 5 } else { 0 };
    size + starts + OVERHEAD_BYTES
}
