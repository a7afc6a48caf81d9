//! A buffer for one object after the other.

use std::ops::Deref;

/// The content of one object, in memory that is kept for the next.
///
/// Unlike a `Vec` it remembers how much of its memory was written before, so that making room for
/// output writes no zeros where an earlier object lay: feeding a stream byte by byte stays linear.
#[derive(Debug, Default)]
pub struct ObjectBuffer {
    /// Initialised memory; what lies at `filled` and behind is left over from earlier objects.
    bytes: Vec<u8>,
    filled: usize,
}

/// Memory above this is given back when an object is done with it.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Room that is made without a byte having come.
const FIRST_BYTES: usize = 64 << 10;

impl ObjectBuffer {
    /// Forgets the content. Keeps the memory, unless the object was an unusually large one.
    pub fn clear(&mut self) {
        self.filled = 0;
        if self.bytes.len() > KEPT_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }

    /// Bytes of content, free to take: leaves an empty buffer without memory.
    pub fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(std::mem::take(&mut self.filled));
        bytes
    }

    /// The content and the free space behind it as one slice of at most `size_max` bytes, with
    /// more free space than before if there was none.
    ///
    /// Memory doubles with what has really come, from 64 KiB; `size_max` alone makes it no
    /// larger.
    pub(super) fn window(&mut self, size_max: usize) -> &mut [u8] {
        if self.filled >= self.bytes.len() {
            let wanted = self.filled.saturating_mul(2).max(FIRST_BYTES).min(size_max);
            if wanted > self.bytes.len() {
                self.bytes.reserve_exact(wanted - self.bytes.len());
                self.bytes.resize(wanted, 0);
            }
        }
        let end = self.bytes.len().min(size_max);
        self.bytes.get_mut(..end).unwrap_or_default()
    }

    /// Counts bytes that were written to the window as content.
    pub(super) fn advance(&mut self, produced: usize) {
        self.filled = (self.filled + produced).min(self.bytes.len());
    }
}

impl Deref for ObjectBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or_default()
    }
}
