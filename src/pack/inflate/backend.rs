//! What an inflating backend must do, and how inflating fails.

/// A resumable decoder of zlib streams (RFC 1950) that writes into its caller's window.
///
/// The window holds what was inflated last: new output goes behind the old, and back references
/// read from there, so that between the steps of one stream the caller must leave its bytes alone.
/// It may grow, or be handed over in another allocation with the same content.
///
/// An implementation is reused for many streams; it allocates at most once.
pub trait Inflate {
    /// Forgets the stream at hand; the next step begins a new one with an empty window.
    fn reset(&mut self);

    /// Inflates from `input` to the free end of `window`.
    ///
    /// `end_of_input` says that nothing will follow `input`: a stream that is not over by then is
    /// [`InflateError::Truncated`]. An error ends the stream.
    fn step(
        &mut self,
        input: &[u8],
        window: &mut [u8],
        end_of_input: bool,
    ) -> Result<Step, InflateError>;

    /// Moves the history that later data may refer to to the front of `window` and drops what
    /// lies before. Returns how many bytes were dropped; output goes on that much nearer to the
    /// front.
    ///
    /// Frees at least one byte of a full window of 33 KiB or more.
    fn make_room(&mut self, window: &mut [u8]) -> usize;
}

/// The smallest window in which a stream of any length can be inflated: DEFLATE refers back by up
/// to 32 KiB.
pub(super) const WINDOW_BYTES_MIN: usize = (32 << 10) + 1;

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that were used. Exact at the end of a stream: the next byte is not
    /// part of it.
    pub consumed: usize,
    /// Bytes that were appended to the window.
    pub produced: usize,
    /// Why the step stopped.
    pub status: Status,
}

/// Why a step stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The stream is over and its checksum is right.
    Done,
    /// All input is used.
    NeedsInput,
    /// The window is full and the stream has more to say.
    NeedsRoom,
}

/// Why a stream could not be inflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// Not a zlib stream, or a damaged one.
    #[error("corrupt zlib stream")]
    Corrupt,
    /// The Adler-32 at the end does not match.
    #[error("wrong checksum in zlib stream")]
    Checksum,
    /// The stream needs a preset dictionary, which git has none of.
    #[error("zlib stream asks for a preset dictionary")]
    Dictionary,
    /// The input ended before the stream.
    #[error("truncated zlib stream")]
    Truncated,
    /// More came out than was declared.
    #[error("object is larger than the {declared} bytes that its header declares")]
    TooLong {
        /// The size in the entry's header.
        declared: u64,
    },
    /// The stream ended before all that was declared had come out.
    #[error("object has {produced} bytes where its header declares {declared}")]
    TooShort {
        /// The size in the entry's header.
        declared: u64,
        /// Bytes that came out.
        produced: u64,
    },
}
