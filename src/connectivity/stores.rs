//! The repository's objects and those of the push, as the walks ask for them.

use super::error::ConnectivityError;
use super::source::{ObjectSource, SMALL_BYTES, SourceError};
use super::verdict::Fault;
use crate::links::NewObjects;
use crate::model::{ByteBudget, CancelToken, HashKind, Limit, ObjectId, ObjectKind, Share, oid};
use std::error::Error;
use std::ops::Deref;
use std::time::Duration;

/// What one look at an object gives: the answer, or what is wrong with the object.
pub(super) type Found<T> = Result<T, Fault>;

/// Both sides of a push. Every look at an object is also a look at the cancel token.
pub(super) struct Stores<'a> {
    pub(super) hash: HashKind,
    pub(super) new: &'a NewObjects,
    pub(super) old: &'a dyn ObjectSource,
    pub(super) brought: &'a dyn ObjectSource,
    /// What an object may have that is read.
    pub(super) bytes_max: Limit,
    /// What the large ones take together that are read at the same time, by all pushes.
    pub(super) memory: &'a ByteBudget,
    pub(super) cancel: &'a CancelToken,
}

impl<'a> Stores<'a> {
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
        self.found(id, self.check_cancel()?.old.kind(id))
    }

    /// Reads an object of the repository for its links.
    pub(super) fn read_old(&self, id: &ObjectId) -> Result<Found<Data<'a>>, ConnectivityError> {
        if id.is_empty_tree() {
            return Ok(Ok((ObjectKind::Tree, Bytes::default())));
        }
        self.read(id, self.old)
    }

    /// Reads an object of the push for its links.
    pub(super) fn read_new(&self, id: &ObjectId) -> Result<Found<Data<'a>>, ConnectivityError> {
        self.read(id, self.brought)
    }

    pub(super) fn check_cancel(&self) -> Result<&Self, ConnectivityError> {
        if self.cancel.is_cancelled() { Err(ConnectivityError::Cancelled) } else { Ok(self) }
    }

    /// Reads an object. A large one waits for memory that others have: each waits with nothing in
    /// its hands, so that none waits for ever.
    fn read(
        &self,
        id: &ObjectId,
        source: &dyn ObjectSource,
    ) -> Result<Found<Data<'a>>, ConnectivityError> {
        let bytes_max = self.bytes_max.value;
        let small =
            self.check_cancel().map(|_| source.read(id, bytes_max.min(SMALL_BYTES as u64)))?;
        let mut share = None;
        let read = match small {
            Err(SourceError::TooLarge) if bytes_max > SMALL_BYTES as u64 => {
                share = Some(self.wait_for_memory()?);
                source.read(id, bytes_max)
            }
            small => small,
        };
        let found = self.found(id, read)?;
        Ok(found.map(|(kind, bytes)| (kind, Bytes { bytes, _share: share })))
    }

    fn wait_for_memory(&self) -> Result<Share<&'a ByteBudget>, ConnectivityError> {
        let mut share = self.memory.share();
        let wanted = self.bytes_max.value.min(self.memory.limit().value);
        while share.grow_to(wanted, CANCEL_LOOK).is_err() {
            self.check_cancel()?;
        }
        Ok(share)
    }

    fn found<T>(
        &self,
        id: &ObjectId,
        result: Result<Option<T>, SourceError>,
    ) -> Result<Found<T>, ConnectivityError> {
        match result {
            Ok(Some(value)) => Ok(Ok(value)),
            Ok(None) => Ok(Err(Fault::Absent)),
            Err(SourceError::TooLarge) => Ok(Err(Fault::TooLarge(self.bytes_max))),
            Err(SourceError::Damaged(error)) => {
                // The pusher learns which object it is, and only the log the file it lies in.
                tracing::warn!(%id, error = &*error as &dyn Error, "object is damaged");
                Ok(Err(Fault::Damaged))
            }
            Err(SourceError::Unavailable(source)) => {
                Err(ConnectivityError::Object { id: *id, source })
            }
        }
    }
}

/// After what time a push that waits looks whether it shall go on.
const CANCEL_LOOK: Duration = Duration::from_millis(100);

/// The kind of an object and its bytes, or the beginning of them that has its links.
pub(super) type Data<'a> = (ObjectKind, Bytes<'a>);

/// Bytes that are held in memory, and the share of it that they take if they are many.
#[derive(Debug, Default)]
pub(super) struct Bytes<'a> {
    bytes: Vec<u8>,
    _share: Option<Share<&'a ByteBudget>>,
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectivity::corpus::{METADATA_BYTES, SHA1, Store};

    /// The length of a tree that is read with this memory.
    fn read(memory: &ByteBudget, large: bool) -> usize {
        let mut store = Store::default();
        let id = if large {
            store.put(SHA1, ObjectKind::Tree, vec![b'x'; SMALL_BYTES + 1])
        } else {
            store.put(SHA1, ObjectKind::Tree, vec![b'x'; SMALL_BYTES])
        };
        let stores = Stores {
            hash: SHA1,
            new: &NewObjects::new(),
            old: &store,
            brought: &store,
            bytes_max: METADATA_BYTES,
            memory,
            cancel: &CancelToken::new(),
        };
        let (_, bytes) = stores.read_old(&id).unwrap().unwrap();
        bytes.len()
    }

    #[test]
    fn large_objects_wait_for_the_memory_of_others_and_small_ones_do_not() {
        let memory = &ByteBudget::new(Limit { value: 1000, ..METADATA_BYTES });
        let mut others = memory.share();
        others.grow_to(1, CANCEL_LOOK).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| read(memory, true));
            assert_eq!(read(memory, false), SMALL_BYTES);
            std::thread::sleep(2 * CANCEL_LOOK);
            assert!(!waiting.is_finished());
            drop(others);
            assert_eq!(waiting.join().unwrap(), SMALL_BYTES + 1);
        });
    }
}
