//! Inflating one object of a declared size after the other.

use super::backend::{Inflate, InflateError, Status, WINDOW_BYTES_MIN};
use super::{ObjectBuffer, Sirocco};

/// Inflates objects, each to exactly the size that was declared for it.
///
/// [`begin`](Self::begin) an object, then push input to [`whole`](Self::whole) or to
/// [`chunks`](Self::chunks) until it is done; or hand a complete stream to
/// [`once`](Self::once). Any split of the input gives the same output and the same error.
///
/// One inflater is reused for a whole pack: a new one costs more than a median object.
#[derive(Debug, Default)]
pub struct Inflater<I = Sirocco> {
    backend: I,
    declared: u64,
    produced: u64,
    /// Whether nothing of this object has been given to the backend yet.
    fresh: bool,
    /// The window of [`chunks`](Self::chunks), allocated on first use.
    window: Vec<u8>,
    filled: usize,
}

/// How far an object has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that belong to the object's stream. All of them, unless it is done.
    pub consumed: usize,
    /// Whether the object is complete: its size is right and its checksum too.
    pub done: bool,
}

/// Room for output when a stream is inflated in chunks: with less, moving the history to the front
/// costs time that shows.
const WINDOW_BYTES: usize = 256 << 10;
const _: () = assert!(WINDOW_BYTES >= WINDOW_BYTES_MIN);

/// How much longer than its output a stream may be for the whole of it to be expected in an input:
/// zlib's header and checksum, and a stored block's header per 16 KiB.
const OVERHEAD_BYTES: usize = 64;

impl<I: Inflate> Inflater<I> {
    /// Starts an object of `declared` bytes, whatever became of the one before.
    pub fn begin(&mut self, declared: u64) {
        self.backend.reset();
        self.declared = declared;
        self.produced = 0;
        self.fresh = true;
        self.filled = 0;
    }

    /// Bytes of the object that have come out.
    pub fn produced(&self) -> u64 {
        self.produced
    }

    /// Inflates the complete stream at the start of `input` into `out`, replacing its content.
    /// Returns the length of the stream.
    ///
    /// `out` grows as bytes really come. A stream that reaches beyond `input` is
    /// [`InflateError::Truncated`].
    pub fn once(
        &mut self,
        input: &[u8],
        declared: u64,
        out: &mut ObjectBuffer,
    ) -> Result<usize, InflateError> {
        self.begin(declared);
        out.clear();
        self.advance_whole(input, out, true).map(|progress| progress.consumed)
    }

    /// Pushes `input` of the current object, collecting it in `out`; the first push replaces what
    /// `out` held before.
    pub fn whole(
        &mut self,
        input: &[u8],
        out: &mut ObjectBuffer,
    ) -> Result<Progress, InflateError> {
        let size = usize::try_from(self.declared).unwrap_or(usize::MAX);
        let fresh = std::mem::take(&mut self.fresh);
        if fresh {
            out.clear();
        }
        if fresh && input.len() >= size.saturating_add(OVERHEAD_BYTES) {
            // The stream most probably ends in this input: the backend's loop for that case is
            // the fastest. If it does not, or if anything is wrong, the stepwise way decides, so
            // that the verdict does not depend on how the input was split.
            if let Ok(progress) = self.advance_whole(input, out, true) {
                return Ok(progress);
            }
            out.clear();
            self.backend.reset();
            self.produced = 0;
        }
        self.advance_whole(input, out, false)
    }

    /// Pushes `input` of the current object, handing what comes out to `sink` in chunks of up to
    /// 256 KiB. Memory is bounded by that.
    pub fn chunks<E: From<InflateError>>(
        &mut self,
        input: &[u8],
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Progress, E> {
        if self.window.is_empty() {
            self.window = vec![0; WINDOW_BYTES];
        }
        let mut consumed = 0;
        loop {
            let missing = usize::try_from(self.declared - self.produced).unwrap_or(usize::MAX);
            let end = self.filled.saturating_add(missing).min(self.window.len());
            let window = self.window.get_mut(..end).unwrap_or_default();
            let rest = input.get(consumed..).unwrap_or_default();
            let step = self.backend.step(rest, window, false)?;
            consumed += step.consumed;
            self.produced += step.produced as u64;
            if step.produced > 0 {
                let chunk = window.get(self.filled..self.filled + step.produced);
                self.filled += step.produced;
                sink(chunk.unwrap_or_default())?;
            }
            match step.status {
                Status::Done => return self.finish(consumed).map_err(E::from),
                Status::NeedsInput => return Ok(Progress { consumed, done: false }),
                Status::NeedsRoom if self.produced == self.declared => {
                    return Err(InflateError::TooLong { declared: self.declared }.into());
                }
                Status::NeedsRoom => self.filled -= self.backend.make_room(&mut self.window),
            }
        }
    }

    fn advance_whole(
        &mut self,
        input: &[u8],
        out: &mut ObjectBuffer,
        end_of_input: bool,
    ) -> Result<Progress, InflateError> {
        let size = usize::try_from(self.declared).unwrap_or(usize::MAX);
        let mut consumed = 0;
        loop {
            let rest = input.get(consumed..).unwrap_or_default();
            let step = self.backend.step(rest, out.window(size), end_of_input)?;
            consumed += step.consumed;
            out.advance(step.produced);
            self.produced += step.produced as u64;
            match step.status {
                Status::Done => return self.finish(consumed),
                Status::NeedsInput => return Ok(Progress { consumed, done: false }),
                Status::NeedsRoom if self.produced == self.declared => {
                    return Err(InflateError::TooLong { declared: self.declared });
                }
                Status::NeedsRoom => {}
            }
        }
    }

    fn finish(&self, consumed: usize) -> Result<Progress, InflateError> {
        let (declared, produced) = (self.declared, self.produced);
        if produced < declared {
            return Err(InflateError::TooShort { declared, produced });
        }
        Ok(Progress { consumed, done: true })
    }
}
