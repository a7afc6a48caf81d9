//! Parsing a pack while it arrives.
//!
//! [`PackParser`] is fed the bytes as they come, cut anywhere, and tells a [`PackVisitor`] what it
//! finds. Each entry is inflated once; memory is bounded; nothing is allocated from a number that
//! the pack declares. Any split of the bytes gives the same events and the same error at the same
//! offset.
//!
//! What it does not do: name objects, resolve deltas, write the bytes anywhere. The caller keeps
//! the input and stores the consumed part of it as it is.

mod error;
mod feed;
mod machine;
mod visitor;

#[cfg(test)]
mod tests;

pub use error::{PackError, PackFault};
pub use feed::{Fed, PackEnd, PackParser};
pub use visitor::{Delivery, EntryEnd, EntryStart, PackVisitor};
