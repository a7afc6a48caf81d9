//! Whether a new object is the existing one of the same id.
//!
//! Two objects of one id are a collision, and the second is refused: else a pusher could put its
//! own content behind a name that others trust. A copy that cannot be read, or whose content is
//! not that of its name, is damage rather than a collision; the new object then repairs it.

use super::content::Content;
use super::error::IngestError;
use super::existing::ExistingObject;
use super::existing_reader::{ExistingReader, Piece};
use super::object_hash::ObjectHasher;
use crate::model::{HashKind, ObjectId, ObjectKind};
use std::ops::ControlFlow;

/// Compares new objects with existing ones.
#[derive(Clone, Copy)]
pub(super) struct CollisionCheck<'a> {
    pub(super) existing: ExistingReader<'a>,
    pub(super) hash: HashKind,
}

/// A larger one is compared piece by piece.
const READ_BYTES_MAX: usize = 1 << 20;

impl CollisionCheck<'_> {
    /// Whether there is an object of this id to compare with.
    pub(super) fn is_due(&self, id: &ObjectId) -> Result<bool, IngestError> {
        self.existing
            .objects
            .contains(id)
            .map_err(|source| IngestError::Existing { id: *id, source })
    }

    /// Looks for an existing object of this id and compares it with a new one.
    pub(super) fn check(
        &self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<(), IngestError> {
        if !self.is_due(id)? {
            return Ok(());
        }
        // Most often it is the same; then one read settles it.
        if content.len() <= READ_BYTES_MAX
            && let Ok(Some((theirs, bytes))) = self.existing.read(id)?
            && theirs == kind
            && bytes == content
        {
            return Ok(());
        }
        self.compare(id, kind, content.len() as u64, |offset, theirs| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let end = start.saturating_add(theirs.len());
            Ok(content.get(start..end) == Some(theirs))
        })
    }

    /// Compares the existing object of this id with a new one that may be large.
    pub(super) fn compare_content(
        &self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &Content,
    ) -> Result<(), IngestError> {
        self.compare(id, kind, content.len(), |offset, theirs| {
            let mut rest = theirs;
            let mut is_same = true;
            content.read(offset, theirs.len() as u64, |ours| {
                let (start, tail) = rest.split_at(ours.len().min(rest.len()));
                is_same &= start == ours;
                rest = tail;
                Ok::<_, IngestError>(())
            })?;
            Ok(is_same)
        })
    }

    fn compare(
        &self,
        id: &ObjectId,
        kind: ObjectKind,
        size: u64,
        mut is_ours: impl FnMut(u64, &[u8]) -> Result<bool, IngestError>,
    ) -> Result<(), IngestError> {
        let mut offset = 0;
        let mut same = Ok(true);
        let found = self.existing.stream(id, |piece| {
            let Piece::Bytes(theirs) = piece else {
                (offset, same) = (0, Ok(true));
                return ControlFlow::Continue(());
            };
            let end = offset + theirs.len() as u64;
            same = if end > size { Ok(false) } else { is_ours(offset, theirs) };
            offset = end;
            // The first difference says it all.
            if matches!(same, Ok(true)) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        let Ok(Some(theirs)) = found else { return Ok(()) };
        let is_same = same? && theirs == ExistingObject { kind, size } && offset == size;
        if is_same || !self.is_intact(id)? {
            return Ok(());
        }
        Err(IngestError::Collision { id: *id })
    }

    /// Whether the existing object has the content of its name.
    fn is_intact(&self, id: &ObjectId) -> Result<bool, IngestError> {
        let Ok(Some(info)) = self.existing.objects.find(id, false) else { return Ok(false) };
        let begin = || ObjectHasher::new(self.hash, info.kind, info.size);
        let mut hasher = begin();
        let found = self.existing.stream(id, |piece| {
            match piece {
                Piece::Start => hasher = begin(),
                Piece::Bytes(bytes) => hasher.update(bytes),
            }
            ControlFlow::Continue(())
        })?;
        Ok(match hasher.finish() {
            Ok(actual) => matches!(found, Ok(Some(_))) && actual == *id,
            // Made to collide: then the id says nothing, and to refuse is right.
            Err(_) => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::error::StoreError;
    use crate::ingest::existing::ExistingObjects;
    use crate::ingest::object_hash::object_id;
    use crate::ingest::testing::memory;
    use crate::model::Limits;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Gives one content to whoever asks first and another one after that: as near to a collision
    /// as one gets without making one.
    struct TwoFaced {
        faces: [(ObjectKind, &'static [u8]); 2],
        asked: AtomicUsize,
    }

    impl ExistingObjects for TwoFaced {
        fn contains(&self, _: &ObjectId) -> Result<bool, StoreError> {
            Ok(true)
        }
        fn find(&self, _: &ObjectId, _: bool) -> Result<Option<ExistingObject>, StoreError> {
            let [_, (kind, content)] = self.faces;
            Ok(Some(ExistingObject { kind, size: content.len() as u64 }))
        }
        fn read(&self, _: &ObjectId, _: u64) -> Result<Option<(ObjectKind, Vec<u8>)>, StoreError> {
            let [(kind, content), _] = self.faces;
            Ok(Some((kind, content.to_vec())))
        }
        fn stream(
            &self,
            _: &ObjectId,
            _: u64,
            sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
        ) -> Result<Option<ExistingObject>, StoreError> {
            let (kind, content) = self.faces[self.asked.fetch_add(1, Ordering::Relaxed)];
            let _ = content.chunks(3).try_for_each(sink);
            Ok(Some(ExistingObject { kind, size: content.len() as u64 }))
        }
        fn compressed(
            &self,
            _: &ObjectId,
            _: u64,
        ) -> Result<Option<(ExistingObject, Vec<u8>)>, StoreError> {
            unreachable!("only bases are copied")
        }
    }

    const OURS: &[u8] = b"the content of ours";

    /// Both ways to compare, with an existing object that is `theirs` and has the right id.
    fn compare(kind: ObjectKind, theirs: &'static [u8]) -> [Result<(), IngestError>; 2] {
        let id = object_id(HashKind::Sha1, ObjectKind::Blob, OURS).unwrap();
        [false, true].map(|streamed| {
            let faces = [(kind, theirs), (ObjectKind::Blob, OURS)];
            let existing = TwoFaced { faces, asked: AtomicUsize::new(0) };
            let memory = memory(&Limits::default());
            let check = CollisionCheck {
                existing: ExistingReader { objects: &existing, bytes_max: 1000, memory: &memory },
                hash: HashKind::Sha1,
            };
            if streamed {
                check.compare_content(&id, ObjectKind::Blob, &Content::Memory(OURS.to_vec()))
            } else {
                check.check(&id, ObjectKind::Blob, OURS)
            }
        })
    }

    #[test]
    fn another_object_of_the_same_id_is_refused_and_named() {
        let id = object_id(HashKind::Sha1, ObjectKind::Blob, OURS).unwrap();
        for (kind, theirs) in [
            (ObjectKind::Blob, b"the content of them".as_slice()),
            (ObjectKind::Blob, b"the content of our"),
            (ObjectKind::Blob, b"the content of ours, longer"),
            (ObjectKind::Blob, b""),
            (ObjectKind::Tree, OURS),
        ] {
            for result in compare(kind, theirs) {
                let error = result.unwrap_err();
                assert!(matches!(error, IngestError::Collision { id: named } if named == id));
                assert!(error.to_string().contains(&id.to_string()));
            }
        }
        assert!(compare(ObjectKind::Blob, OURS).iter().all(Result::is_ok));
    }
}
