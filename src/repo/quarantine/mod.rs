//! The quarantine: where the objects of a push lie until the push is accepted.
//!
//! Guarantees that nothing of a refused push is ever found among the repository's objects, and
//! that what is migrated was flushed before it got its name, packs before their indexes. A live
//! quarantine holds a lock on its directory, by which the sweep tells it from a dead one.
//!
//! Does not decide whether a push is accepted, and checks no object that is new here.

mod area;
mod contents;
mod migrate;
mod packs;
mod received;

pub(in crate::repo) use area::OWN_PREFIX;
pub use area::Quarantine;
pub use migrate::{MigrateError, Migrated};
