//! Reading entries of the received pack again.

use super::error::IngestError;
use super::spool::Spool;
use crate::model::ObjectId;
use crate::pack::entry::{Decoded, EntryHeader, EntryKind};
use crate::pack::inflate::{InflateError, Inflater, ObjectBuffer};
use crate::pack::table::EntryTable;

/// Reads entries from the spool; one for each thread.
#[derive(Debug)]
pub(super) struct EntryReader<'a> {
    spool: &'a Spool<'a>,
    table: &'a EntryTable,
    /// Where the trailer begins.
    body_end: u64,
    inflater: Inflater,
    scratch: Vec<u8>,
}

/// Bytes of a pack that are read at once. A stream may be as long as it likes, whatever comes out
/// of it.
const READ_BYTES: u64 = 64 << 10;

impl<'a> EntryReader<'a> {
    pub(super) fn new(spool: &'a Spool<'a>, table: &'a EntryTable, body_end: u64) -> Self {
        Self { spool, table, body_end, inflater: Inflater::default(), scratch: Vec::new() }
    }

    /// The header of the entry at `place`.
    fn header(&mut self, place: u32) -> Result<EntryHeader, IngestError> {
        let (offset, end) = self.bounds(place);
        let end = end.min(offset + EntryHeader::BYTES_MAX as u64);
        let bytes = self.spool.read(offset..end, &mut self.scratch)?;
        decode(bytes, self.table, offset).map(|(header, _)| header)
    }

    /// The id that the delta at `place` names as its base, if it names one.
    pub(super) fn base_id(&mut self, place: u32) -> Result<Option<ObjectId>, IngestError> {
        Ok(match self.header(place)?.kind {
            EntryKind::RefDelta { base } => Some(base),
            _ => None,
        })
    }

    /// Inflates the entry at `place` into `out`; only tells its size if that is more than
    /// `size_max`.
    pub(super) fn whole(
        &mut self,
        place: u32,
        size_max: usize,
        out: &mut ObjectBuffer,
    ) -> Result<u64, IngestError> {
        let (offset, end) = self.bounds(place);
        let first = end.min(offset + READ_BYTES);
        let bytes = self.spool.read(offset..first, &mut self.scratch)?;
        let (header, len) = decode(bytes, self.table, offset)?;
        if header.size > size_max as u64 {
            return Ok(header.size);
        }
        let stream = bytes.get(len..).unwrap_or_default();
        let inflated = if first == end {
            self.inflater.once(stream, header.size, out).map(|_| ())
        } else {
            self.inflater.begin(header.size);
            let mut at = first;
            let mut progress = self.inflater.whole(stream, out);
            while at < end && progress.as_ref().is_ok_and(|progress| !progress.done) {
                let next = end.min(at + READ_BYTES);
                let piece = self.spool.read(at..next, &mut self.scratch)?;
                progress = self.inflater.whole(piece, out);
                at = next;
            }
            progress.map(|_| ())
        };
        // The stream was sound when it came: only a disk makes it another one.
        inflated.map_err(|_| IngestError::Reread)?;
        Ok(header.size)
    }

    /// Inflates the entry at `place` and hands what comes out to `sink`.
    pub(super) fn pieces(
        &mut self,
        place: u32,
        mut sink: impl FnMut(&[u8]) -> Result<(), IngestError>,
    ) -> Result<(), IngestError> {
        self.inflate(place, |piece| sink(piece).map_err(Stop::Sink))
    }

    /// The first `len` bytes of the entry at `place`, or all of them.
    pub(super) fn beginning(&mut self, place: u32, len: usize) -> Result<Vec<u8>, IngestError> {
        let mut bytes = Vec::new();
        self.inflate(place, |piece| {
            let room = len - bytes.len();
            bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
            if bytes.len() == len { Err(Stop::Enough) } else { Ok(()) }
        })?;
        Ok(bytes)
    }

    fn inflate(
        &mut self,
        place: u32,
        mut sink: impl FnMut(&[u8]) -> Result<(), Stop>,
    ) -> Result<(), IngestError> {
        let (offset, end) = self.bounds(place);
        let mut at = end.min(offset + READ_BYTES);
        let bytes = self.spool.read(offset..at, &mut self.scratch)?;
        let (header, len) = decode(bytes, self.table, offset)?;
        self.inflater.begin(header.size);
        let stream = bytes.get(len..).unwrap_or_default();
        let mut progress = self.inflater.chunks(stream, &mut sink);
        while at < end && progress.as_ref().is_ok_and(|progress| !progress.done) {
            let next = end.min(at + READ_BYTES);
            let piece = self.spool.read(at..next, &mut self.scratch)?;
            progress = self.inflater.chunks(piece, &mut sink);
            at = next;
        }
        match progress {
            Ok(_) | Err(Stop::Enough) => Ok(()),
            Err(Stop::Inflate) => Err(IngestError::Reread),
            Err(Stop::Sink(error)) => Err(error),
        }
    }

    fn bounds(&self, place: u32) -> (u64, u64) {
        let next = place as usize + 1;
        let end =
            if next < self.table.len() { self.table.offset(place + 1) } else { self.body_end };
        (self.table.offset(place), end)
    }
}

enum Stop {
    Enough,
    Inflate,
    Sink(IngestError),
}

impl From<InflateError> for Stop {
    fn from(_: InflateError) -> Self {
        Self::Inflate
    }
}

fn decode(
    bytes: &[u8],
    table: &EntryTable,
    offset: u64,
) -> Result<(EntryHeader, usize), IngestError> {
    match EntryHeader::decode(bytes, table.hash(), offset) {
        Ok(Decoded::Complete(header, len)) => Ok((header, len.into())),
        Ok(Decoded::Incomplete) | Err(_) => Err(IngestError::Reread),
    }
}
