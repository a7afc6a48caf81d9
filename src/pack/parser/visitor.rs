//! What the parser tells, and to whom.

use super::PackError;
use crate::pack::entry::EntryHeader;
use crate::pack::header::PackHeader;

/// Hears what a pack holds, in the order of its bytes.
///
/// For each entry: [`entry`](Self::entry), then its content as one call of
/// [`whole`](Self::whole) or any number of [`chunk`](Self::chunk), then [`end`](Self::end). An
/// error of the visitor stops the parser for good and is handed to whoever feeds it.
pub trait PackVisitor {
    /// How the visitor fails, with room for how the pack does.
    type Error: From<PackError>;

    /// The pack begins. The count is an announcement within the limits, no more.
    fn header(&mut self, header: PackHeader) -> Result<(), Self::Error>;

    /// An entry begins; the answer says how its content is to come.
    fn entry(&mut self, start: &EntryStart) -> Result<Delivery, Self::Error>;

    /// The content of the entry, complete: an object or the instructions of a delta.
    fn whole(&mut self, content: &[u8]) -> Result<(), Self::Error>;

    /// A further piece of the content of the entry, never empty. Where pieces are cut depends on
    /// how the pack arrived.
    fn chunk(&mut self, piece: &[u8]) -> Result<(), Self::Error>;

    /// The entry ended and had exactly the content it declared.
    fn end(&mut self, end: &EntryEnd) -> Result<(), Self::Error>;
}

/// How the content of an entry shall come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// In one piece. Memory grows with what has come, up to twice the size of the object: for the
    /// visitor to weigh.
    Whole,
    /// In chunks of up to 256 KiB, as they come.
    Chunks,
}

/// Where an entry begins and what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryStart {
    /// The offset of its first byte in the pack.
    pub offset: u64,
    /// Its header; the size is within the limits.
    pub header: EntryHeader,
    /// The length of its header, behind which its zlib stream begins.
    pub header_len: u8,
}

/// Where an entry ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryEnd {
    /// The offset of its first byte.
    pub offset: u64,
    /// The offset behind its last byte: that of the next entry, or of the trailer.
    pub end: u64,
    /// The CRC-32 over its bytes as they are in the pack, header included, for the idx.
    pub crc32: u32,
}
