//! The repository's objects and those of the push, as the walks ask for them.

use super::error::ConnectivityError;
use super::source::{ObjectSource, SourceError};
use super::verdict::Fault;
use crate::links::NewObjects;
use crate::model::{CancelToken, HashKind, ObjectId, ObjectKind, oid};
use std::error::Error;

/// What one look at an object gives: the answer, or what is wrong with the object.
pub(super) type Found<T> = Result<T, Fault>;

/// Both sides of a push. Every look at an object is also a look at the cancel token.
pub(super) struct Stores<'a> {
    pub(super) hash: HashKind,
    pub(super) new: &'a NewObjects,
    pub(super) old: &'a dyn ObjectSource,
    pub(super) brought: &'a dyn ObjectSource,
    pub(super) bytes_max: u64,
    pub(super) cancel: &'a CancelToken,
}

impl Stores<'_> {
    /// Whether the push brings the object, and what it is.
    pub(super) fn new_kind(&self, id: &oid) -> Option<ObjectKind> {
        self.new.kind(id)
    }

    /// The kind of an object of the repository. The empty tree is always there, as for git, which
    /// knows it without a file.
    pub(super) fn old_kind(&self, id: &ObjectId) -> Result<Found<ObjectKind>, ConnectivityError> {
        if id.is_empty_tree() {
            return Ok(Ok(ObjectKind::Tree));
        }
        found(id, self.check_cancel()?.old.kind(id))
    }

    /// Reads an object of the repository.
    pub(super) fn read_old(&self, id: &ObjectId) -> Result<Found<Data>, ConnectivityError> {
        if id.is_empty_tree() {
            return Ok(Ok((ObjectKind::Tree, Vec::new())));
        }
        found(id, self.check_cancel()?.old.read(id, self.bytes_max))
    }

    /// Reads an object of the push.
    pub(super) fn read_new(&self, id: &ObjectId) -> Result<Found<Data>, ConnectivityError> {
        found(id, self.check_cancel()?.brought.read(id, self.bytes_max))
    }

    pub(super) fn check_cancel(&self) -> Result<&Self, ConnectivityError> {
        if self.cancel.is_cancelled() { Err(ConnectivityError::Cancelled) } else { Ok(self) }
    }
}

/// The kind of an object and its bytes.
pub(super) type Data = (ObjectKind, Vec<u8>);

fn found<T>(
    id: &ObjectId,
    result: Result<Option<T>, SourceError>,
) -> Result<Found<T>, ConnectivityError> {
    match result {
        Ok(Some(value)) => Ok(Ok(value)),
        Ok(None) => Ok(Err(Fault::Absent)),
        Err(SourceError::Damaged(error)) => {
            // The pusher learns which object it is, and only the log the file it lies in.
            tracing::warn!(%id, error = &*error as &dyn Error, "object is damaged");
            Ok(Err(Fault::Damaged))
        }
        Err(SourceError::Unavailable(source)) => Err(ConnectivityError::Object { id: *id, source }),
    }
}
