//! The quarantine: where the objects of a push are until the push is accepted.
//!
//! Guarantees that nothing of a refused push is ever found among the repository's objects, and
//! that what is migrated was flushed before it got its name, packs before their indexes. A push
//! that fits in memory is not on disk at all before that, unless a hook or somebody else has to
//! see it there. A live quarantine on disk holds a lock on its directory, by which the sweep tells
//! it from a dead one.
//!
//! Does not decide whether a push is accepted, and checks no object that is new here.

mod area;
mod contents;
mod directory;
mod migrate;
mod new_file;
mod outcome;
mod packs;
mod received;
mod staged;

pub use area::Quarantine;
pub(in crate::repo) use directory::OWN_PREFIX;
pub use directory::QuarantineDirectory;
pub use new_file::{Arriving, NewContent, NewFile};
pub use outcome::{MigrateError, Migrated, MigratedPack};
