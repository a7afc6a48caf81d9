//! The backend for repositories that keep their refs as a reftable
//! (`extensions.refStorage=reftable`; gitformat-reftable(5)).
//!
//! Refs are read by `git for-each-ref`, once for as long as the stack of tables stays as it is, and
//! changed by `git update-ref --stdin`: the format is git's alone so far. Who uses a
//! [`RefStore`](super::RefStore) need not know. What git's commands do not tell is not known here
//! either: a symbolic ref that leads to nothing passes for none, and of a chain of symbolic refs
//! only the first and the last are named.

mod listing;
mod process;
mod transaction;

#[cfg(test)]
mod tests;

pub use listing::{Reftable, ReftableCache};
pub(super) use transaction::ReftableWriter;
