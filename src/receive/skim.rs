//! The pack of a push that has lost: read to its end, so that the client reads the report, and
//! checked as far as that can be done without the repository.
//!
//! Checked are the header, each entry's header and zlib stream, the number of entries, the limits
//! and the checksum, with the words of a pack that is taken in. Nothing is named, resolved or
//! stored: whether deltas fit their bases, and whether there are any, is not found out.

use super::session::Session;
use super::unpack::unpack_failed;
use super::{ReceiveError, Surplus};
use crate::ingest::IngestError;
use crate::pack::header::PackHeader;
use crate::pack::inflate::Sirocco;
use crate::pack::parser::{Delivery, EntryEnd, EntryStart, PackParser, PackVisitor};
use std::io::{self, Read};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 * 1024;

impl Session<'_> {
    /// Reads the pack and keeps nothing of it.
    pub(super) fn skim(&self, input: &mut dyn Read) -> Result<(), ReceiveError> {
        self.skim_pack(input).map_err(|error| unpack_failed(error, &self.cancel))
    }

    fn skim_pack(&self, input: &mut dyn Read) -> Result<(), IngestError> {
        let mut parser = PackParser::<Sirocco>::new(self.repository.hash(), self.receiver.limits());
        if let Some(limit) = self.settings.pack_bytes_max {
            parser = parser.with_pack_limit(limit);
        }
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            if self.cancel.is_cancelled() {
                return Err(IngestError::Cancelled);
            }
            let length = read(input, &mut buffer)?;
            if length == 0 {
                break;
            }
            let bytes = buffer.get(..length).unwrap_or_default();
            let fed = parser.feed(bytes, &mut Unheard)?;
            if fed.done {
                let is_over = fed.consumed == length
                    && (self.surplus == Surplus::Leave || read(input, &mut [0])? == 0);
                if !is_over {
                    return Err(IngestError::Surplus { offset: parser.offset() });
                }
                break;
            }
        }
        parser.finish()?;
        Ok(())
    }
}

/// Hears what is in the pack and remembers nothing.
struct Unheard;

impl PackVisitor for Unheard {
    type Error = IngestError;

    fn header(&mut self, _: PackHeader) -> Result<(), IngestError> {
        Ok(())
    }

    fn entry(&mut self, _: &EntryStart) -> Result<Delivery, IngestError> {
        Ok(Delivery::Chunks)
    }

    fn whole(&mut self, _: &[u8]) -> Result<(), IngestError> {
        Ok(())
    }

    fn chunk(&mut self, _: &[u8]) -> Result<(), IngestError> {
        Ok(())
    }

    fn end(&mut self, _: &EntryEnd) -> Result<(), IngestError> {
        Ok(())
    }
}

/// What one read brings; 0 at the end of the input.
fn read(input: &mut dyn Read, buffer: &mut [u8]) -> Result<usize, IngestError> {
    loop {
        match input.read(buffer) {
            Ok(length) => return Ok(length),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(IngestError::Input(error)),
        }
    }
}
