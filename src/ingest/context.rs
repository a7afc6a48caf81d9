//! What every part of one ingest is given.

use super::collision::CollisionCheck;
use super::error::IngestError;
use super::existing::ExistingObjects;
use super::existing_reader::ExistingReader;
use super::memory::PushMemory;
use super::options::{Destination, IngestOptions};
use crate::model::{CancelToken, ObjectKind};

/// The world of one ingest.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) existing: &'a dyn ExistingObjects,
    pub(super) destination: &'a Destination,
    pub(super) options: &'a IngestOptions,
    pub(super) cancel: &'a CancelToken,
    pub(super) memory: &'a PushMemory,
}

impl<'a> Context<'a> {
    /// An error if somebody asked the push to stop.
    pub(super) fn check_on(&self) -> Result<(), IngestError> {
        if self.cancel.is_cancelled() { Err(IngestError::Cancelled) } else { Ok(()) }
    }

    /// An error if an object of this size may not be read for its links. Blobs have none.
    pub(super) fn check_metadata(&self, kind: ObjectKind, size: u64) -> Result<(), IngestError> {
        let limit = self.options.limits.metadata_bytes();
        if kind != ObjectKind::Blob && size > limit.value {
            return Err(IngestError::MetadataTooLarge { kind, size, limit });
        }
        Ok(())
    }

    /// Compares new objects with existing ones.
    pub(super) fn collision_check(&self) -> CollisionCheck<'a> {
        CollisionCheck { hash: self.options.hash, existing: self.existing() }
    }

    /// The existing objects, read with care for memory.
    pub(super) fn existing(&self) -> ExistingReader<'a> {
        let bytes_max = self.options.limits.big_file_bytes.max(EXISTING_BYTES_MAX);
        ExistingReader { objects: self.existing, bytes_max, memory: self.memory }
    }
}

/// What an existing object may have that has to be made in memory because it is nowhere held
/// whole: git makes no delta of a larger one (`core.bigFileThreshold`).
const EXISTING_BYTES_MAX: u64 = 512 << 20;
