//! One base of a thin pack, made for being appended.

use super::context::Context;
use super::error::IngestError;
use super::existing::ExistingObject;
use super::in_order::Weighed;
use super::object_hash::object_id;
use crate::model::{HashKind, ObjectId};
use crate::pack::inflate::{Inflater, ObjectBuffer};
use crate::pack::writer::Deflater;

/// Makes bases, each verified against its id.
pub(super) struct BaseMaker<'a> {
    context: Context<'a>,
    memory_max: usize,
    deflater: Deflater,
    inflater: Inflater,
    inflated: ObjectBuffer,
}

/// A base that is ready.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) id: ObjectId,
    pub(super) info: ExistingObject,
    /// Its zlib stream; none of an object that is too large for memory.
    pub(super) stream: Option<Vec<u8>>,
}

impl Weighed for Made {
    fn bytes(&self) -> usize {
        self.stream.as_ref().map_or(0, Vec::capacity)
    }
}

impl<'a> BaseMaker<'a> {
    /// Makes objects in memory that have no more than `memory_max` bytes.
    pub(super) fn new(context: Context<'a>, memory_max: usize) -> Self {
        Self {
            context,
            memory_max,
            deflater: Deflater::new(context.destination.compression),
            inflater: Inflater::default(),
            inflated: ObjectBuffer::default(),
        }
    }

    /// The base as a pack holds it, if one holds it whole, else deflated anew.
    pub(super) fn make(&mut self, id: &ObjectId) -> Result<Made, IngestError> {
        match self.copied(id) {
            Some(made) => Ok(made),
            None => self.deflated(id),
        }
    }

    fn copied(&mut self, id: &ObjectId) -> Option<Made> {
        let bytes_max = self.memory_max as u64;
        // With an error it is made anew, and what is wrong will show there.
        let (info, stream) = self.context.existing.compressed(id, bytes_max).ok()??;
        // What the base was verified by may have been another copy of it.
        if info.size > bytes_max
            || self.inflater.once(&stream, info.size, &mut self.inflated) != Ok(stream.len())
        {
            return None;
        }
        let actual = object_id(self.hash(), info.kind, &self.inflated).ok()?;
        (actual == *id).then_some(Made { id: *id, info, stream: Some(stream) })
    }

    fn deflated(&mut self, id: &ObjectId) -> Result<Made, IngestError> {
        let failed = |source| IngestError::Existing { id: *id, source };
        let gone = || failed("it has gone since the push began".into());
        let existing = self.context.existing;
        let info = existing.find(id, true).map_err(failed)?.ok_or_else(gone)?;
        if info.size > self.memory_max as u64 {
            return Ok(Made { id: *id, info, stream: None });
        }
        let read = self.context.existing().read(id)?;
        let (kind, content) = read.map_err(failed)?.ok_or_else(gone)?;
        verify(id, object_id(self.hash(), kind, &content))?;
        let info = ExistingObject { kind, size: content.len() as u64 };
        let mut stream = Vec::new();
        self.deflater.append(&content, &mut stream);
        Ok(Made { id: *id, info, stream: Some(stream) })
    }

    fn hash(&self) -> HashKind {
        self.context.options.hash
    }
}

/// An error unless the id that was made of a content is the one that it is asked for by.
pub(super) fn verify(
    id: &ObjectId,
    actual: Result<ObjectId, IngestError>,
) -> Result<(), IngestError> {
    if actual.is_ok_and(|actual| actual == *id) {
        return Ok(());
    }
    let source = "its content is not that of its id".into();
    Err(IngestError::Existing { id: *id, source })
}
