//! The fallback backend: `flate2` over zlib-rs.
//!
//! Kept so that a fault in the younger [`Sirocco`](super::Sirocco) can be answered by a change of
//! one type, and so that tests have a second opinion.

use super::backend::{Inflate, InflateError, Status, Step};
use flate2::{Decompress, FlushDecompress};

/// Inflates with zlib-rs.
#[derive(Debug)]
pub struct Zlib {
    decompress: Decompress,
    /// Bytes of output in the caller's window.
    filled: usize,
}

impl Default for Zlib {
    fn default() -> Self {
        Self { decompress: Decompress::new(true), filled: 0 }
    }
}

impl Inflate for Zlib {
    fn reset(&mut self) {
        self.decompress.reset(true);
        self.filled = 0;
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
            let room = window.get_mut(self.filled..).unwrap_or_default();
            let has_room = !room.is_empty();
            let (before_in, before_out) = (self.decompress.total_in(), self.decompress.total_out());
            let status = self
                .decompress
                .decompress(rest, room, FlushDecompress::None)
                .map_err(|error| translate(&error))?;
            let consumed = difference(self.decompress.total_in(), before_in);
            let produced = difference(self.decompress.total_out(), before_out);
            step.consumed += consumed;
            step.produced += produced;
            self.filled += produced;
            if status == flate2::Status::StreamEnd {
                step.status = Status::Done;
                return Ok(step);
            }
            if consumed == 0 && produced == 0 {
                if step.consumed < input.len() && !has_room {
                    step.status = Status::NeedsRoom;
                } else if end_of_input {
                    return Err(InflateError::Truncated);
                }
                return Ok(step);
            }
        }
    }

    fn make_room(&mut self, _window: &mut [u8]) -> usize {
        // zlib keeps its history to itself.
        std::mem::take(&mut self.filled)
    }
}

/// How far a counter moved in one call: by no more than a slice is long.
fn difference(after: u64, before: u64) -> usize {
    usize::try_from(after - before).unwrap_or(usize::MAX)
}

fn translate(error: &flate2::DecompressError) -> InflateError {
    if error.needs_dictionary().is_some() {
        InflateError::Dictionary
    } else if error.message() == Some("incorrect data check") {
        InflateError::Checksum
    } else {
        InflateError::Corrupt
    }
}
