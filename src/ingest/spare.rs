//! Buffers of objects that are done with, for those that come.

/// Memory that is kept for the next object.
#[derive(Debug)]
pub(super) struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

impl Spare {
    /// Nothing; room for `bytes_max`.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { buffers: Vec::new(), bytes: 0, bytes_max }
    }

    /// Memory that is kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a buffer, unless it has no memory or too much is kept already.
    pub(super) fn put(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() > 0 && self.bytes + buffer.capacity() <= self.bytes_max {
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }

    /// A buffer, empty of memory if none is kept.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }
}
