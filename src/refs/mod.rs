//! What ref files mean: reading, listing, hiding, and changing them (git's "files" backend;
//! gitrepository-layout(5), git-pack-refs(1), git-update-ref(1)). Where a repository keeps its refs as
//! a reftable, the same is done through git's commands.
//!
//! Written beside stock git at work on the same repository: the same files, the same locks, the
//! same order of steps. Names are checked before they come here; whether an object exists, is a
//! commit, or may be moved is decided elsewhere.

mod advertised;
mod context;
mod error;
mod hidden;
mod listing;
mod lock;
mod name_conflict;
mod namespace;
mod packed;
mod packed_cache;
mod reflog;
mod reftable;
mod store;
mod transaction;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use advertised::{Advertised, AdvertisedRef, advertised};
pub use context::{Committer, LockTimeout, RefContext, RefSettings, ReflogCreation};
pub use error::{LockFailure, RefError};
pub use hidden::HiddenRefs;
pub use listing::{Ref, RefEntry, RefList, RefView};
pub use namespace::{Namespace, NamespaceError};
pub use packed::{Peel, Peeled};
pub use packed_cache::PackedRefsCache;
pub use reftable::{Reftable, ReftableCache};
pub use store::{RefStore, RefValue, Resolved};
pub use transaction::{
    Applied, Change, Expected, Glance, RefEdit, RefTransaction, ToldUpdate, TransactionState,
    Witness, shallow_lines,
};

/// LIMIT: symbolic refs in a row, with the ref at their end; git's number (`SYMREF_MAXDEPTH`).
pub const SYMREF_DEPTH_MAX: usize = 5;

/// What the names of files begin with that lie in the git directory, or in its `refs`, only while
/// refs change. One that stays behind after a crash means nothing and may be removed.
pub const TEMPORARY_PREFIXES: [&str; 4] =
    ["tmp_ref_", ".tmp_ref_", "tmp_packed_refs_", "tmp_shallow_"];
