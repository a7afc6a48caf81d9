//! A pack from a pusher becomes a pack, or loose objects, for the quarantine.
//!
//! [`ingest`] reads the pack while it arrives, stores its bytes as they are, names every object,
//! resolves every delta, and collects what the objects name. What is guaranteed:
//!
//! - Memory for contents stays within `base_cache_bytes_max`, whatever the pack declares or
//!   inflates to: what is too large for its share is made piece by piece, with its base in a
//!   temporary file. Beyond that, memory is less than a hundred bytes per entry, and what
//!   [`NewObjects`] takes, of which `objects_max` and `named_objects_max` are the bounds.
//! - All of it comes out of `push_memory_bytes_max`, which all pushes of the server share, but for
//!   a few MiB each and for the tables of one push at a time.
//! - Every split of the input gives the same result or the same error.
//! - Chains of deltas are followed without recursion, and work that is done again because memory
//!   was short is bounded as the size of all objects is, for each thread.
//! - An error of the disk is never taken for a fault of the pack.
//!
//! With an [`Inspection`], fsck looks at every object, and what the objects name must be there.
//!
//! What it does not do: judge whether what refs lead to is complete (connectivity), flush anything,
//! or remove what it wrote before an error.
//!
//! | file | holds |
//! |---|---|
//! | `run` | the order of the parts |
//! | `options`, `outcome`, `error` | what goes in and what comes out |
//! | `existing`, `existing_reader`, `from_snapshot` | what is asked of the objects that are there already |
//! | `receive`, `pace`, `visitor`, `spool`, `kept_deltas` | pass one |
//! | `early`, `naming` | what is made of deltas in pass one already |
//! | `resolve`, `worker`, `bases`, `spare`, `maker`, `entry_reader` | pass two |
//! | `memory`, `memory_plan`, `content`, `streamed`, `delta_stream` | how memory is kept within bounds |
//! | `namer`, `object_hash`, `collision`, `collector`, `tree_starts` | what is done with each object |
//! | `inspection`, `inspect_rest`, `refusal` | what fsck is asked, and what it says |
//! | `skim` | a pack of which nothing is wanted |
//! | `loose`, `thin`, `thin_base`, `in_order`, `pack_body`, `store` | what is left for the quarantine |
//!
//! [`NewObjects`]: crate::links::NewObjects

mod bases;
mod collector;
mod collision;
mod content;
mod context;
mod delta_stream;
mod early;
mod entry_reader;
mod error;
mod existing;
mod existing_reader;
mod from_snapshot;
mod in_order;
mod inspect_rest;
mod inspection;
mod kept_deltas;
mod loose;
mod maker;
mod memory;
mod memory_plan;
mod namer;
mod naming;
mod object_hash;
mod options;
mod outcome;
mod pace;
mod pack_body;
mod receive;
mod refusal;
mod resolve;
mod run;
mod skim;
mod spare;
mod spool;
mod store;
mod streamed;
mod thin;
mod thin_base;
mod tree_starts;
mod visitor;
mod worker;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use error::{Blame, IngestError, StoreError};
pub use existing::{ExistingObject, ExistingObjects};
pub use inspection::Inspection;
pub use object_hash::object_id;
pub use options::{Destination, HELD_BYTES_MAX, IngestOptions, Surplus};
pub use outcome::{Ingested, Stored, StoredPack, Timings};
pub use refusal::Refusal;
pub use run::ingest;
pub use skim::skim;
