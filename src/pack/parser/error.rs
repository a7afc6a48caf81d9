//! What can be wrong with a pack.

use crate::model::{Limit, ObjectId};
use crate::pack::entry::EntryError;
use crate::pack::header::HeaderError;
use crate::pack::inflate::InflateError;

/// A pack that is not one, is damaged, or is more than the limits allow.
///
/// The same for every way of cutting the pack into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pack is bad at offset {offset}: {fault}")]
pub struct PackError {
    /// Where: the first byte of the entry, header or trailer that the fault is in; for a pack that
    /// ends early or is too long, the first byte that is missing or too many.
    pub offset: u64,
    /// What.
    pub fault: PackFault,
}

/// The fault of a [`PackError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackFault {
    /// The beginning of the pack is no pack header.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// An entry has a bad header.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The content of an entry is damaged or of another size than declared.
    #[error(transparent)]
    Inflate(#[from] InflateError),
    /// The trailer does not match the bytes before it.
    #[error("checksum mismatch: the trailer says {expected}, the content has {actual}")]
    Checksum {
        /// The checksum at the end of the pack.
        expected: ObjectId,
        /// The checksum of what came before it.
        actual: ObjectId,
    },
    /// The pack announces more objects than allowed.
    #[error("{count} objects are more than the {limit}")]
    TooManyObjects {
        /// What the header announces.
        count: u32,
        /// The limit.
        limit: Limit,
    },
    /// An entry declares more content than allowed.
    #[error("an object of {declared} bytes is larger than the {limit}")]
    ObjectTooLarge {
        /// What its header declares.
        declared: u64,
        /// The limit.
        limit: Limit,
    },
    /// All entries up to this one declare more content than allowed.
    #[error("the objects inflate to more than the {limit}")]
    InflatedTooLarge {
        /// The limit.
        limit: Limit,
    },
    /// The pack has more bytes than allowed.
    #[error("the pack is larger than the {limit}")]
    PackTooLarge {
        /// The limit.
        limit: Limit,
    },
    /// The input ended before the pack.
    #[error("early end of input with {entries_left} objects to come")]
    Truncated {
        /// Entries of which the end has not been seen; 0 if only the trailer is missing.
        entries_left: u32,
    },
    /// The visitor refused something earlier.
    #[error("the parser was fed after its visitor had stopped it")]
    Stopped,
}
