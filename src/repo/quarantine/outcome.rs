//! What became of a migration.

use super::super::keep::KeepGuard;
use super::super::loose::LooseError;
use crate::model::ObjectId;
use std::io;
use std::path::PathBuf;

/// What was migrated. The keep files go when it is dropped, or when they are released.
#[derive(Debug, Default)]
pub struct Migrated {
    /// The loose objects.
    pub loose: Vec<ObjectId>,
    /// The files of those that were in memory, byte for byte, should they have to be stored again.
    pub loose_files: Vec<(ObjectId, Vec<u8>)>,
    /// The packs.
    pub packs: Vec<MigratedPack>,
    /// The hold on each pack's keep file, to be released once refs lead to its objects.
    pub keeps: Vec<KeepGuard>,
    /// What lay in the quarantine and was neither, for the log: it was removed with it.
    pub left: Vec<PathBuf>,
}

/// A pack that was migrated.
#[derive(Debug)]
pub struct MigratedPack {
    /// The `.pack` file, where it is now.
    pub path: PathBuf,
    /// The bytes of its index, if they are at hand.
    pub index: Option<Vec<u8>>,
}

/// Why objects were not migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// What was received is no longer there as it was. Nothing was moved, unless what is missing
    /// was removed during the migration; nothing refers to what was moved before.
    #[error(
        "{} of {received} received files were removed or changed before they were stored, such as '{}'",
        altered.len(),
        altered.first().map(|path| path.display().to_string()).unwrap_or_default()
    )]
    Altered {
        /// The files.
        altered: Vec<PathBuf>,
        /// How many were received.
        received: usize,
    },
    /// The quarantine was moved away, and something else has its path. Nothing was moved.
    #[error("'{}' is not the quarantine it was", path.display())]
    Replaced {
        /// The path.
        path: PathBuf,
    },
    /// A sound object of that id is there, with other content.
    #[error("object {id} is there with other content")]
    LooseCollision {
        /// The id.
        id: ObjectId,
    },
    /// A sound pack of that name is there, with other content.
    #[error("pack '{}' is there with other content", path.display())]
    PackCollision {
        /// The pack.
        path: PathBuf,
    },
    /// An object of the quarantine cannot be compared with the one that is there.
    #[error("cannot compare object {id} with the one that is there")]
    Compare {
        /// The id.
        id: ObjectId,
        /// Why not.
        #[source]
        source: LooseError,
    },
    /// The disk.
    #[error("cannot migrate objects to '{}'", path.display())]
    Disk {
        /// The repository's directory of objects.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}
