//! Existing objects, which may have been stored to cost memory: as deltas of large ones.
//!
//! What is held whole is read piece by piece. A delta has to be made in memory, with its base; how
//! large that is shows only on the way. So each is tried with little memory, then with more, for
//! which a push waits its turn.

use super::error::{IngestError, StoreError};
use super::existing::{ExistingObject, ExistingObjects};
use super::memory::PushMemory;
use crate::model::{ObjectId, ObjectKind};
use std::ops::ControlFlow;

/// Reads existing objects.
#[derive(Clone, Copy)]
pub(super) struct ExistingReader<'a> {
    pub(super) objects: &'a dyn ExistingObjects,
    /// What one of them, and each of its bases, may have that is made in memory.
    pub(super) bytes_max: u64,
    pub(super) memory: &'a PushMemory,
}

/// What is read without asking, and what with moderate memory.
const STEPS: [u64; 2] = [1 << 20, 16 << 20];

/// An object, its base, and the delta between them.
const IN_MEMORY: u64 = 2;

impl ExistingReader<'_> {
    /// The object; `None` if it is there no longer.
    #[expect(clippy::type_complexity, reason = "an error of the store is not one of the push")]
    pub(super) fn read(
        &self,
        id: &ObjectId,
    ) -> Result<Result<Option<(ObjectKind, Vec<u8>)>, StoreError>, IngestError> {
        self.attempt(|bytes_max| self.objects.read(id, bytes_max))
    }

    /// Hands the content to the sink that `begin` makes, until that has had enough; `begin` may be
    /// called more than once. `None` if the object is there no longer.
    pub(super) fn stream(
        &self,
        id: &ObjectId,
        mut sink: impl FnMut(Piece<'_>) -> ControlFlow<()>,
    ) -> Result<Result<Option<ExistingObject>, StoreError>, IngestError> {
        self.attempt(|bytes_max| {
            // What an attempt before has handed out was not all.
            if sink(Piece::Start).is_break() {
                return Ok(None);
            }
            self.objects.stream(id, bytes_max, &mut |bytes| sink(Piece::Bytes(bytes)))
        })
    }

    fn attempt<T>(
        &self,
        mut attempt: impl FnMut(u64) -> Result<T, StoreError>,
    ) -> Result<Result<T, StoreError>, IngestError> {
        for (number, bytes_max) in STEPS.into_iter().enumerate() {
            let taken = if number == 0 { 0 } else { bytes_max * IN_MEMORY };
            let result = self.with_memory(taken, || attempt(bytes_max))?;
            if result.is_ok() {
                return Ok(result);
            }
        }
        self.with_memory(self.bytes_max.saturating_mul(IN_MEMORY), || attempt(self.bytes_max))
    }

    fn with_memory<T>(&self, bytes: u64, work: impl FnOnce() -> T) -> Result<T, IngestError> {
        let added = self.memory.add_tables(bytes);
        let result = added.map(|()| work());
        self.memory.drop_tables(bytes);
        result
    }
}

/// A part of a content.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    /// The content begins, or begins again.
    Start,
    /// The next bytes.
    Bytes(&'a [u8]),
}
