//! Making the contents of entries: whole ones from their stream, deltas from their base.

use super::content::{Content, ContentWriter};
use super::context::Context;
use super::delta_stream::{DeltaStream, Step};
use super::entry_reader::EntryReader;
use super::error::IngestError;
use super::kept_deltas::KeptDeltas;
use super::memory_plan::MemoryPlan;
use crate::pack::delta::{self, DeltaError};
use crate::pack::inflate::ObjectBuffer;
use crate::pack::table::EntryTable;

/// Makes contents; one for each thread.
pub(super) struct Maker<'a> {
    reader: EntryReader<'a>,
    table: &'a EntryTable,
    kept: &'a KeptDeltas,
    plan: MemoryPlan,
    context: Context<'a>,
    /// Instructions that were not kept.
    instructions: ObjectBuffer,
    instruction_bytes: usize,
}

/// How a delta is to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delta {
    /// Its instructions are in memory, and the object has so many bytes.
    InMemory {
        /// The size that the instructions declare.
        result_size: u64,
    },
    /// Its instructions are read as they are needed.
    Streamed {
        /// The size that the instructions declare.
        result_size: u64,
    },
}

impl<'a> Maker<'a> {
    pub(super) fn new(
        reader: EntryReader<'a>,
        table: &'a EntryTable,
        kept: &'a KeptDeltas,
        plan: MemoryPlan,
        context: Context<'a>,
    ) -> Self {
        let instructions = ObjectBuffer::default();
        Self { reader, table, kept, plan, context, instructions, instruction_bytes: 0 }
    }

    /// Memory that the instructions at hand take, beyond those that were kept.
    pub(super) fn bytes(&self) -> usize {
        self.instruction_bytes
    }

    /// The content of the whole entry at `place`.
    pub(super) fn whole(&mut self, place: u32) -> Result<Content, IngestError> {
        let mut buffer = ObjectBuffer::default();
        let size = self.reader.whole(place, self.plan.object_bytes_max, &mut buffer)?;
        if self.plan.fits(size) {
            return Ok(Content::Memory(buffer.take()));
        }
        let mut writer = self.writer(size)?;
        self.reader.pieces(place, |piece| writer.write(piece))?;
        writer.finish()
    }

    /// Gets the instructions of the delta at `place` ready.
    pub(super) fn prepare(&mut self, place: u32) -> Result<Delta, IngestError> {
        self.instruction_bytes = 0;
        let fault = |fault| IngestError::BadDelta { offset: self.table.offset(place), fault };
        if let Some(kept) = self.kept.of(place) {
            let result_size = delta::header(kept).map_err(fault)?.result_size;
            return Ok(Delta::InMemory { result_size });
        }
        let size_max = self.plan.object_bytes_max;
        let size = self.reader.whole(place, size_max, &mut self.instructions)?;
        if self.plan.fits(size) {
            self.instruction_bytes = self.instructions.len();
            let result_size = delta::header(&self.instructions).map_err(fault)?.result_size;
            return Ok(Delta::InMemory { result_size });
        }
        let beginning = self.reader.beginning(place, DELTA_HEADER_BYTES_MAX)?;
        let result_size = delta::header(&beginning).map_err(fault)?.result_size;
        Ok(Delta::Streamed { result_size })
    }

    /// The instructions of the delta at `place`, which [`prepare`](Self::prepare) found to be in
    /// memory.
    pub(super) fn instructions(&self, place: u32) -> &[u8] {
        self.kept.of(place).unwrap_or(&self.instructions)
    }

    /// Applies the delta at `place`, whose instructions are in memory, into `out`.
    pub(super) fn apply(
        &self,
        place: u32,
        base: &[u8],
        result_size: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), IngestError> {
        if (out.capacity() as u64) < result_size {
            // What grows from nothing gets the size it needs, and not twice that.
            *out = Vec::new();
        }
        let applied = delta::apply(base, self.instructions(place), result_size, out);
        let offset = self.table.offset(place);
        applied.map_err(|fault| IngestError::BadDelta { offset, fault })
    }

    /// Applies the delta at `place`, handing the object to `sink` piece by piece.
    pub(super) fn stream(
        &mut self,
        place: u32,
        delta: Delta,
        base: &Content,
        mut sink: impl FnMut(&[u8]) -> Result<(), IngestError>,
    ) -> Result<(), IngestError> {
        let offset = self.table.offset(place);
        let mut stream = DeltaStream::new(base.len());
        let context = self.context;
        let mut take = |instructions: &[u8]| {
            let fed = stream.feed(instructions, |step| {
                // A few bytes of instructions may copy gigabytes.
                context.check_on()?;
                match step {
                    Step::Copy { offset, len } => {
                        base.read(offset, len, |piece| sink(piece).map_err(Stop::Sink))
                    }
                    Step::Insert(bytes) => sink(bytes).map_err(Stop::Sink),
                }
            });
            fed.map_err(|stop| match stop {
                Stop::Delta(fault) => IngestError::BadDelta { offset, fault },
                Stop::Sink(error) => error,
            })
        };
        match delta {
            Delta::InMemory { .. } => {
                take(self.kept.of(place).unwrap_or(&self.instructions))?;
            }
            Delta::Streamed { .. } => self.reader.pieces(place, take)?,
        }
        stream.finish().map_err(|fault| IngestError::BadDelta { offset, fault })
    }

    /// The content that the delta at `place` makes of `base`.
    pub(super) fn content(&mut self, place: u32, base: &Content) -> Result<Content, IngestError> {
        let delta = self.prepare(place)?;
        let result_size = delta.result_size();
        if let (Delta::InMemory { .. }, Some(base)) = (delta, base.in_memory())
            && self.plan.fits(result_size)
        {
            let mut out = Vec::new();
            self.apply(place, base, result_size, &mut out)?;
            return Ok(Content::Memory(out));
        }
        let mut writer = self.writer(result_size)?;
        self.stream(place, delta, base, |piece| writer.write(piece))?;
        writer.finish()
    }

    fn writer(&self, size: u64) -> Result<ContentWriter, IngestError> {
        ContentWriter::new(size, self.plan.object_bytes_max, self.context.destination)
    }
}

impl Delta {
    /// The size that the instructions declare.
    pub(super) fn result_size(self) -> u64 {
        match self {
            Self::InMemory { result_size } | Self::Streamed { result_size } => result_size,
        }
    }
}

/// Two sizes of ten bytes each.
pub(super) const DELTA_HEADER_BYTES_MAX: usize = 20;

enum Stop {
    Delta(DeltaError),
    Sink(IngestError),
}

impl From<DeltaError> for Stop {
    fn from(fault: DeltaError) -> Self {
        Self::Delta(fault)
    }
}

impl From<IngestError> for Stop {
    fn from(error: IngestError) -> Self {
        Self::Sink(error)
    }
}
