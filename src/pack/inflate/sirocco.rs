//! The default backend: the `sirocco` crate.
//!
//! Half as fast again as zlib-rs on the small streams that packs are made of: it writes into its
//! caller's window instead of one of its own, and a reset costs next to nothing.

use super::backend::{Inflate, InflateError, Status, Step};
use sirocco::Format;
use sirocco::inflate::{Decoder, Error};

/// Inflates with `sirocco`.
#[derive(Debug)]
pub struct Sirocco {
    /// 14 KiB of tables: boxed so that moving an [`Inflater`](super::Inflater) stays cheap.
    decoder: Box<Decoder>,
}

impl Default for Sirocco {
    fn default() -> Self {
        Self { decoder: Box::new(Decoder::new(Format::Zlib)) }
    }
}

impl Inflate for Sirocco {
    fn reset(&mut self) {
        self.decoder.reset();
    }

    fn step(
        &mut self,
        input: &[u8],
        window: &mut [u8],
        end_of_input: bool,
    ) -> Result<Step, InflateError> {
        let mut step = Step { consumed: 0, produced: 0, status: Status::NeedsInput };
        loop {
            let rest = input.get(step.consumed..).unwrap_or_default();
            let progress = match self.decoder.decompress(rest, window, end_of_input) {
                Ok(progress) => progress,
                // Only ever said when nothing moved: the stream really wants more room, where
                // `full` below means no more than that it may.
                Err(Error::BufferFull) => {
                    step.status = Status::NeedsRoom;
                    return Ok(step);
                }
                Err(error) => return Err(error.into()),
            };
            let (consumed, produced) = (progress.consumed, progress.output.len());
            step.consumed += consumed;
            step.produced += produced;
            if progress.done {
                step.status = Status::Done;
                return Ok(step);
            }
            if !progress.full || (consumed == 0 && produced == 0) {
                return Ok(step);
            }
        }
    }

    fn make_room(&mut self, window: &mut [u8]) -> usize {
        self.decoder.make_room(window)
    }
}

impl From<Error> for InflateError {
    fn from(error: Error) -> Self {
        match error {
            Error::ChecksumMismatch => Self::Checksum,
            Error::Truncated => Self::Truncated,
            Error::PresetDictionary => Self::Dictionary,
            _ => Self::Corrupt,
        }
    }
}
