//! The pack format: reading it from a stream, resolving its deltas, indexing and writing it.
//!
//! Everything here takes bytes and gives values: no files, sockets, threads or clocks. The format
//! is git's `Documentation/gitformat-pack.adoc`; where git's own readers are stricter or more
//! lenient than that text, they are followed and the place says so.
//!
//! | module | holds |
//! |---|---|
//! | [`header`] | the twelve bytes a pack begins with |
//! | [`entry`] | what stands before an object's data |
//! | [`inflate`] | zlib streams of unknown length, one after the other |
//! | [`delta`] | delta instructions and their application |
//! | [`parser`] | a pack parsed while it arrives |
//! | [`table`] | what is known of each entry |
//! | [`delta_tree`] | which entry is made from which |
//! | [`index`] | the idx and rev files |
//! | [`writer`] | entries and packs to be sent or stored |
//! | [`stream`] | a pack made while it is read |
//! | [`checksum`] | the checksums that files end with |

pub mod checksum;
pub mod delta;
pub mod delta_tree;
pub mod entry;
pub mod header;
pub mod index;
pub mod inflate;
pub mod parser;
pub mod stream;
pub mod table;
pub mod writer;

#[cfg(test)]
mod sample;
