//! Completing a thin pack: the bases that it misses are appended, so that it can stand alone.
//!
//! The received bytes stay where they are. Then the count in the header and the trailer are put
//! right; that takes reading the pack back once, which also shows whether the disk has kept what
//! it was given.

use super::context::Context;
use super::error::IngestError;
use super::existing::ExistingObject;
use super::existing_reader::Piece;
use super::object_hash::{ObjectHasher, object_id};
use super::pack_body::PackBody;
use super::visitor::Arrived;
use crate::model::{HashKind, Limit, ObjectId};
use crate::pack::checksum::Checksum;
use crate::pack::entry::{EntryHeader, EntryKind};
use crate::pack::header::PackHeader;
use crate::pack::inflate::{Inflater, ObjectBuffer};
use crate::pack::parser::PackEnd;
use crate::pack::writer::Deflater;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::{self, Write};
use std::ops::ControlFlow;

/// Appends `missing` to the pack in `file`, names them in its table, and returns its new trailer.
pub(super) fn complete(
    file: &mut PackBody<'_>,
    arrived: &mut Arrived,
    end: &PackEnd,
    body_end: u64,
    missing: &[ObjectId],
    context: Context<'_>,
) -> Result<ObjectId, IngestError> {
    let mut appender = Appender::new(file, body_end, context, arrived.plan.object_bytes_max);
    for id in missing {
        context.check_on()?;
        let (offset, crc32, info) = appender.append(id)?;
        let place = arrived.table.push(offset, crc32)?;
        arrived.table.set_object(place, info.kind, id);
    }
    let new_end = appender.finish()?;
    let count = u64::from(end.entries) + missing.len() as u64;
    let count = u32::try_from(count).map_err(|_| IngestError::Reread)?;
    let header = PackHeader { version: arrived.version, count };
    seal(file, header, end, body_end, new_end)
}

/// Writes whole entries behind a pack.
struct Appender<'a, 'd> {
    context: Context<'a>,
    memory_max: usize,
    out: Tail<'a, 'd>,
    deflater: Deflater,
    inflater: Inflater,
    inflated: ObjectBuffer,
    stream: Vec<u8>,
}

/// Bytes that are collected to large writes, with the CRC-32 of the entry at hand.
struct Tail<'a, 'd> {
    file: &'a mut PackBody<'d>,
    /// Where the buffer is to be written.
    offset: u64,
    buffer: Vec<u8>,
    crc32: crc32fast::Hasher,
}

const BUFFER_BYTES: usize = 256 << 10;

impl<'a, 'd> Appender<'a, 'd> {
    fn new(
        file: &'a mut PackBody<'d>,
        offset: u64,
        context: Context<'a>,
        memory_max: usize,
    ) -> Self {
        let (buffer, crc32) = (Vec::new(), crc32fast::Hasher::new());
        Self {
            context,
            memory_max,
            out: Tail { file, offset, buffer, crc32 },
            deflater: Deflater::new(context.destination.compression),
            inflater: Inflater::default(),
            inflated: ObjectBuffer::default(),
            stream: Vec::new(),
        }
    }

    /// Appends an existing object. Returns where its entry begins, the CRC-32 of that, and what it
    /// is.
    fn append(&mut self, id: &ObjectId) -> Result<(u64, u32, ExistingObject), IngestError> {
        let offset = self.out.place();
        let info = match self.copied(id)? {
            Some(info) => info,
            None => self.deflated(id)?,
        };
        let value = self.context.options.limits.pack_bytes_max;
        if self.out.place() > value {
            let limit = Limit { name: "pack_bytes_max", value, unit: "bytes" };
            return Err(IngestError::PackTooLarge { limit });
        }
        Ok((offset, self.out.take_crc32(), info))
    }

    /// Appends the object as a pack holds it, if one holds it whole.
    fn copied(&mut self, id: &ObjectId) -> Result<Option<ExistingObject>, IngestError> {
        let bytes_max = self.memory_max as u64;
        let Ok(Some((info, stream))) = self.context.existing.compressed(id, bytes_max) else {
            // Then it is made anew, and what is wrong will show there.
            return Ok(None);
        };
        // What the base was verified by may have been another copy of it.
        if info.size > bytes_max {
            return Ok(None);
        }
        let inflated = self.inflater.once(&stream, info.size, &mut self.inflated);
        if inflated != Ok(stream.len()) {
            return Ok(None);
        }
        match object_id(self.hash(), info.kind, &self.inflated) {
            Ok(actual) if actual == *id => {
                self.out.header(info)?;
                self.out.put(&stream)?;
                Ok(Some(info))
            }
            _ => Ok(None),
        }
    }

    /// Appends the object deflated anew.
    fn deflated(&mut self, id: &ObjectId) -> Result<ExistingObject, IngestError> {
        let failed = |source| IngestError::Existing { id: *id, source };
        let gone = || failed("it has gone since the push began".into());
        let existing = self.context.existing;
        let info = existing.find(id, true).map_err(failed)?.ok_or_else(gone)?;
        if info.size > self.memory_max as u64 {
            self.out.header(info)?;
            self.deflate_stream(id, info)?;
            return Ok(info);
        }
        let read = self.context.existing().read(id)?;
        let (kind, content) = read.map_err(failed)?.ok_or_else(gone)?;
        verify(id, object_id(self.hash(), kind, &content))?;
        let info = ExistingObject { kind, size: content.len() as u64 };
        self.stream.clear();
        self.deflater.append(&content, &mut self.stream);
        self.out.header(info)?;
        self.out.put(&self.stream)?;
        Ok(info)
    }

    /// Appends the zlib stream of an object that is too large for memory.
    fn deflate_stream(&mut self, id: &ObjectId, info: ExistingObject) -> Result<(), IngestError> {
        let level = Compression::new(self.context.destination.compression.min(9));
        let mut hasher = ObjectHasher::new(self.hash(), info.kind, info.size);
        let mut written = Ok(());
        let (existing, has_begun) = (self.context.existing(), &mut false);
        let mut encoder = ZlibEncoder::new(&mut self.out, level);
        let streamed = existing.stream(id, |piece| {
            match piece {
                // What was written before cannot be taken back.
                Piece::Start if *has_begun => return ControlFlow::Break(()),
                Piece::Start => {}
                Piece::Bytes(bytes) => {
                    *has_begun = true;
                    hasher.update(bytes);
                    written = encoder.write_all(bytes);
                }
            }
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let failed = |source| IngestError::Existing { id: *id, source };
        let streamed = streamed.map_err(failed)?;
        let written = written.and_then(|()| encoder.finish().map(drop));
        written.map_err(|error| IngestError::disk(WRITING, error))?;
        if streamed != Some(info) {
            return Err(failed("it has changed since the push began".into()));
        }
        verify(id, hasher.finish())
    }

    fn hash(&self) -> HashKind {
        self.context.options.hash
    }

    /// Writes what is left. Returns where the new trailer goes.
    fn finish(mut self) -> Result<u64, IngestError> {
        self.out.write_out().map_err(|error| IngestError::disk(WRITING, error))?;
        Ok(self.out.offset)
    }
}

fn verify(id: &ObjectId, actual: Result<ObjectId, IngestError>) -> Result<(), IngestError> {
    if actual.is_ok_and(|actual| actual == *id) {
        return Ok(());
    }
    let source = "its content is not that of its id".into();
    Err(IngestError::Existing { id: *id, source })
}

const WRITING: &str = "append a base to the pack";

impl Tail<'_, '_> {
    fn place(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    fn header(&mut self, info: ExistingObject) -> Result<(), IngestError> {
        let mut bytes = Vec::with_capacity(EntryHeader::BYTES_MAX);
        let kind = EntryKind::Whole(info.kind);
        EntryHeader { kind, size: info.size }.encode(self.place(), &mut bytes);
        self.put(&bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), IngestError> {
        self.write_all(bytes).map_err(|error| IngestError::disk(WRITING, error))
    }

    fn take_crc32(&mut self) -> u32 {
        std::mem::take(&mut self.crc32).finalize()
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.offset)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Write for Tail<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.crc32.update(bytes);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_out()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Puts the header and the trailer right. Returns the trailer.
fn seal(
    file: &mut PackBody<'_>,
    header: PackHeader,
    received: &PackEnd,
    body_end: u64,
    new_end: u64,
) -> Result<ObjectId, IngestError> {
    let hash = received.checksum.kind();
    let (mut as_received, mut as_stored) = (Checksum::new(hash), Checksum::new(hash));
    let mut buffer = vec![0u8; BUFFER_BYTES];
    let header = header.encode();
    let mut at = 0;
    while at < new_end {
        // The appended part is read separately, so that the received one ends with a piece.
        let until = if at < body_end { body_end } else { new_end };
        let len = usize::try_from(until - at).unwrap_or(usize::MAX).min(BUFFER_BYTES);
        let piece = buffer.get_mut(..len).unwrap_or_default();
        let read = file.read_exact_at(piece, at);
        read.map_err(|error| IngestError::disk("read the pack back", error))?;
        if at < body_end {
            as_received.update(piece);
        }
        if at == 0
            && let Some(start) = piece.first_chunk_mut()
        {
            *start = header;
        }
        as_stored.update(piece);
        at += len as u64;
    }
    if as_received.finish() != received.checksum {
        return Err(IngestError::Reread);
    }
    let trailer = as_stored.finish();
    let mut write = || -> io::Result<()> {
        file.write_all_at(&header, 0)?;
        file.write_all_at(trailer.as_slice(), new_end)
    };
    write().map_err(|error| IngestError::disk(WRITING, error))?;
    Ok(trailer)
}
