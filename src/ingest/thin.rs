//! Completing a thin pack: the bases that it misses are appended, so that it can stand alone.
//!
//! The received bytes stay where they are. Then the count in the header and the trailer are put
//! right; that takes reading the received part back once, which also shows whether the disk has
//! kept what it was given. Bases are made on all threads that the push has, and written in the
//! order in which they were asked for: the same push gives the same pack.

use super::context::Context;
use super::error::IngestError;
use super::existing::ExistingObject;
use super::existing_reader::Piece;
use super::in_order::{InOrder, Sink};
use super::object_hash::ObjectHasher;
use super::pack_body::PackBody;
use super::resolve::join;
use super::thin_base::{BaseMaker, Made, verify};
use super::visitor::Arrived;
use crate::model::{Limit, ObjectId};
use crate::pack::checksum::Checksum;
use crate::pack::entry::{EntryHeader, EntryKind};
use crate::pack::header::PackHeader;
use crate::pack::parser::PackEnd;
use crate::pack::table::EntryTable;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Appends `missing` to the pack in `file`, names them in its table, and returns its new trailer.
pub(super) fn complete(
    file: &mut PackBody<'_>,
    arrived: &mut Arrived,
    end: &PackEnd,
    body_end: u64,
    missing: &[ObjectId],
    context: Context<'_>,
) -> Result<ObjectId, IngestError> {
    let count = u64::from(end.entries) + missing.len() as u64;
    let count = u32::try_from(count).map_err(|_| IngestError::Reread)?;
    let header = PackHeader { version: arrived.version, count }.encode();
    let (plan, table) = (arrived.plan, &mut arrived.table);
    let appended = InOrder::new(WAITING_BYTES_MAX);
    let next = AtomicUsize::new(0);
    let make_all = || -> Result<(), IngestError> {
        let mut maker = BaseMaker::new(context, plan.object_bytes_max);
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let Some(id) = missing.get(turn) else { return Ok(()) };
            context.check_on()?;
            appended.hand_over(turn, maker.make(id)?)?;
        }
    };
    let work = || appended.attend(make_all);
    let threads = plan.threads.min(missing.len() / BASES_PER_THREAD_MIN);
    let results = thread::scope(|scope| {
        // Where there is no other thread to be had, this one does it all.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work);
        let others: Vec<_> = (1..threads).map(start).filter_map(Result::ok).collect();
        let mut results = vec![appended.attend(|| {
            // The others make the first bases meanwhile.
            let checksum = read_back(file, header, end, body_end, context)?;
            appended.open(Tail::new(file, table, body_end, checksum, context))?;
            make_all()
        })];
        for other in others {
            match other.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    join(results)?;
    let tail = appended.into_sink().ok_or(IngestError::Reread)?;
    tail.finish(header)
}

/// Bases for which a thread is worth its start.
const BASES_PER_THREAD_MIN: usize = 16;

/// Bytes of bases that are made and wait for their turn. The one whose turn it is waits for none,
/// so that each thread may have one more.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// The part of a pack that is written behind the received one.
struct Tail<'a, 'd> {
    context: Context<'a>,
    file: &'a mut PackBody<'d>,
    table: &'a mut EntryTable,
    /// Where the buffer is to be written.
    offset: u64,
    /// Bytes that are collected to large writes.
    buffer: Vec<u8>,
    /// Of the entry at hand.
    crc32: crc32fast::Hasher,
    /// Of the pack up to `offset`.
    checksum: Checksum,
}

const BUFFER_BYTES: usize = 256 << 10;

impl Sink<Made> for Tail<'_, '_> {
    /// Appends the entry of a base.
    fn put(&mut self, made: Made) -> Result<(), IngestError> {
        let Made { id, info, stream } = made;
        let offset = self.place();
        self.header(info)?;
        match stream {
            Some(stream) => self.bytes(&stream)?,
            None => self.deflate(&id, info)?,
        }
        self.check_length()?;
        let crc32 = std::mem::take(&mut self.crc32).finalize();
        let place = self.table.push(offset, crc32)?;
        self.table.set_object(place, info.kind, &id);
        Ok(())
    }
}

impl<'a, 'd> Tail<'a, 'd> {
    /// A tail that begins at `offset`, behind bytes of this checksum.
    fn new(
        file: &'a mut PackBody<'d>,
        table: &'a mut EntryTable,
        offset: u64,
        checksum: Checksum,
        context: Context<'a>,
    ) -> Self {
        let (buffer, crc32) = (Vec::new(), crc32fast::Hasher::new());
        Self { context, file, table, offset, buffer, crc32, checksum }
    }

    fn place(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// An error if the pack may not have so many bytes.
    fn check_length(&self) -> Result<(), IngestError> {
        let value = self.context.options.limits.pack_bytes_max;
        if self.place() > value {
            let limit = Limit { name: "pack_bytes_max", value, unit: "bytes" };
            return Err(IngestError::PackTooLarge { limit });
        }
        Ok(())
    }

    fn header(&mut self, info: ExistingObject) -> Result<(), IngestError> {
        let mut bytes = Vec::with_capacity(EntryHeader::BYTES_MAX);
        let kind = EntryKind::Whole(info.kind);
        EntryHeader { kind, size: info.size }.encode(self.place(), &mut bytes);
        self.bytes(&bytes)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), IngestError> {
        self.write_all(bytes).map_err(|error| IngestError::disk(WRITING, error))
    }

    /// Appends the zlib stream of an object that is too large for memory.
    fn deflate(&mut self, id: &ObjectId, info: ExistingObject) -> Result<(), IngestError> {
        let context = self.context;
        let level = Compression::new(context.destination.compression.min(9));
        let mut hasher = ObjectHasher::new(context.options.hash, info.kind, info.size);
        let disk = |error| IngestError::disk(WRITING, error);
        let mut written = Ok(());
        let (existing, has_begun) = (context.existing(), &mut false);
        let mut encoder = ZlibEncoder::new(self, level);
        let streamed = existing.stream(id, |piece| {
            match piece {
                // What was written before cannot be taken back.
                Piece::Start if *has_begun => return ControlFlow::Break(()),
                Piece::Start => {}
                Piece::Bytes(bytes) => {
                    *has_begun = true;
                    hasher.update(bytes);
                    written = bytes.chunks(BUFFER_BYTES).try_for_each(|piece| {
                        context.check_on()?;
                        encoder.write_all(piece).map_err(disk)?;
                        // All of it could be more than the disk has.
                        encoder.get_ref().check_length()
                    });
                }
            }
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let failed = |source| IngestError::Existing { id: *id, source };
        let streamed = streamed.map_err(failed)?;
        written.and_then(|()| encoder.finish().map(drop).map_err(disk))?;
        if streamed != Some(info) {
            return Err(failed("it has changed since the push began".into()));
        }
        verify(id, hasher.finish())
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.offset)?;
        self.checksum.update(&self.buffer);
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Puts the header and the trailer right. Returns the trailer.
    fn finish(mut self, header: [u8; PackHeader::BYTES]) -> Result<ObjectId, IngestError> {
        let mut write = || {
            self.write_out()?;
            let trailer = self.checksum.clone().finish();
            self.file.write_all_at(&header, 0)?;
            self.file.write_all_at(trailer.as_slice(), self.offset)?;
            Ok(trailer)
        };
        write().map_err(|error| IngestError::disk(WRITING, error))
    }
}

const WRITING: &str = "append a base to the pack";

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

/// Reads the received part back, up to its trailer. Returns its checksum with the new header.
fn read_back(
    file: &PackBody<'_>,
    header: [u8; PackHeader::BYTES],
    received: &PackEnd,
    body_end: u64,
    context: Context<'_>,
) -> Result<Checksum, IngestError> {
    let hash = received.checksum.kind();
    let (mut as_received, mut as_stored) = (Checksum::new(hash), Checksum::new(hash));
    let mut buffer = vec![0u8; BUFFER_BYTES];
    let mut at = 0;
    while at < body_end {
        context.check_on()?;
        let len = usize::try_from(body_end - at).unwrap_or(usize::MAX).min(BUFFER_BYTES);
        let piece = buffer.get_mut(..len).unwrap_or_default();
        let read = file.read_exact_at(piece, at);
        read.map_err(|error| IngestError::disk("read the pack back", error))?;
        as_received.update(piece);
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
    Ok(as_stored)
}
