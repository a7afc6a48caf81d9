//! A pack of which nothing is wanted: read to its end, so that the client reads the answer, and
//! checked as far as that can be done without the repository.
//!
//! Checked are the header, each entry's header and zlib stream, the number of entries, the limits
//! and the checksum, with the words of a pack that is taken in. Nothing is named, resolved or
//! stored: whether deltas fit their bases, and whether there are any, is not found out.

use super::error::IngestError;
use super::options::Surplus;
use super::receive::{check_end, read};
use crate::model::CancelToken;
use crate::pack::header::PackHeader;
use crate::pack::inflate::Sirocco;
use crate::pack::parser::{Delivery, EntryEnd, EntryStart, PackParser, PackVisitor};
use std::io::Read;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Reads a pack from `input` with a new `parser`, and keeps nothing of it.
pub fn skim(
    input: &mut dyn Read,
    mut parser: PackParser<Sirocco>,
    surplus: Surplus,
    cancel: &CancelToken,
) -> Result<(), IngestError> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        if cancel.is_cancelled() {
            return Err(IngestError::Cancelled);
        }
        let len = read(input, &mut buffer)?;
        if len == 0 {
            break;
        }
        let fed = parser.feed(buffer.get(..len).unwrap_or_default(), &mut Unheard)?;
        if fed.done {
            check_end(input, fed.consumed == len, surplus, parser.offset())?;
            break;
        }
    }
    parser.finish()?;
    Ok(())
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
