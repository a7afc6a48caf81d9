//! A repository found and opened: where it is, how it is set up, how it wants its files.
//!
//! Guarantees that what it hands out passed git's checks: it looks like a repository, its owner is
//! trusted, and its format is one that this version understands to the last extension. Refs and
//! objects are read elsewhere.

mod cache;
mod discover;
mod error;
mod format;
mod fsync;
mod opened;
mod ownership;
mod permissions;

pub use cache::RepositoryCache;
pub use error::RepositoryError;
pub use format::RefStorage;
pub use opened::Repository;
pub use permissions::SharedPermissions;
