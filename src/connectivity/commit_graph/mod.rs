//! A reader of commit-graph files: parents, trees and generation numbers without reading commits.
//!
//! The format is that of git's `gitformat-commit-graph`, version 1, as a single file or as a
//! chain. What it says is trusted as git trusts it, but only after its checksum was verified: a
//! flipped bit must not prove that an incomplete commit is complete. That a commit is named does
//! not mean that its object is still there.
//!
//! A graph that cannot be read, breaks its format, belongs to another hash or is larger than the
//! cache is ignored, whole: it only saves time. Files are read to the heap, since somebody may
//! truncate them while they are in use. Corrected commit dates and Bloom filters are not read;
//! the caller does not load a graph for a repository that is shallow or that has `core.commitGraph`
//! set to false.

mod cache;
mod graph;
mod layer;

#[cfg(test)]
mod tests;

pub use cache::CommitGraphCache;
pub use graph::{CommitGraph, GraphCommit};
