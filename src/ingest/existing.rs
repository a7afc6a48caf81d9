//! What ingest asks of the objects that are there already.

use super::error::StoreError;
use crate::model::{ObjectId, ObjectKind};
use std::ops::ControlFlow;

/// The objects that the repository had when the push began.
///
/// Shared by threads. Contents come unverified: whoever reads them hashes them.
pub trait ExistingObjects: Sync {
    /// Whether there is an object of this id. A miss is final: nothing looks again.
    fn contains(&self, id: &ObjectId) -> Result<bool, StoreError>;

    /// The kind and size of an object that deltas need as their base; with `refresh`, a miss may
    /// look again at what has appeared since the push began.
    fn find(&self, id: &ObjectId, refresh: bool) -> Result<Option<ExistingObject>, StoreError>;

    /// The object; an error if it, or one of the bases that it is stored against, has more than
    /// `bytes_max` bytes. `None` if it is there no longer.
    fn read(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ObjectKind, Vec<u8>)>, StoreError>;

    /// Hands the content of an object to `sink` piece by piece until that has had enough, in bounded memory where it is held
    /// whole, else in memory if that takes no more than `bytes_max`. `None` if it is there no
    /// longer. With an error, part of the content may have been handed out.
    fn stream(
        &self,
        id: &ObjectId,
        bytes_max: u64,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Option<ExistingObject>, StoreError>;

    /// The zlib stream of an object, if a pack holds it whole and the stream has no more than
    /// `bytes_max` bytes; else `None`.
    fn compressed(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ExistingObject, Vec<u8>)>, StoreError>;
}

/// What an existing object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExistingObject {
    /// Its kind.
    pub kind: ObjectKind,
    /// Bytes of its content.
    pub size: u64,
}
