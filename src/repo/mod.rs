//! A repository on disk: the only module that opens its paths, and with [`durable`] the only one
//! that changes them.

mod alternates;
mod change_set;
pub mod config;
pub mod create;
mod directory_watch;
mod disk;
pub mod durable;
mod durable_file;
mod environment;
mod flush_policy;
mod flush_together;
mod held_directory;
mod in_flight;
mod keep;
mod leftovers;
mod loose;
mod name_list;
mod path_lock;
mod quarantine;
mod quoted_path;
mod recorder;
mod repository;
mod shared_flush;
mod stamp;
pub mod sweep;
#[cfg(test)]
mod testing;

pub use alternates::{ObjectDirectories, object_directories};
pub use change_set::ChangeSet;
pub use config::{ConfigError, GitConfig};
pub use directory_watch::{Changes, DirectoryWatch, DirectoryWatches, NameChange};
pub use disk::{Counts, DirectoryEntries, DirectoryEntry, Disk, EntryKind, Stat, lacks_resources};
pub use durable_file::DurableFile;
pub use environment::{Environment, LOCAL_VARIABLES};
pub use flush_policy::{Component, FlushPolicy};
pub use in_flight::{InFlight, InFlightGuard, Recovered};
pub use keep::{KeepGuard, KeepRegistry};
pub use loose::{
    LooseComparison, LooseError, LooseReader, LooseStream, LooseWriter, compare_loose, loose_path,
    read_loose,
};
pub use name_list::NameList;
pub use path_lock::{LockAttempt, PathLock};
pub use quarantine::{
    Arriving, MigrateError, Migrated, MigratedPack, NewContent, NewFile, Quarantine,
    QuarantineDirectory,
};
pub use recorder::{FileId, Operation, Recorder};
pub use repository::{RefStorage, Repository, RepositoryCache, RepositoryError, SharedPermissions};
pub use stamp::Stamp;
