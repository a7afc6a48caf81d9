//! What ingest tells when a pack is in.

use crate::links::NewObjects;
use crate::model::{ByteBudget, ObjectId, Share};
use crate::repo::NewFile;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A pack that was taken in.
#[derive(Debug)]
pub struct Ingested {
    /// What the pack became. Nothing of it has been flushed.
    pub stored: Stored,
    /// The files, in memory or open as they were written: what flushes them must be the descriptor
    /// that met their errors. Those on disk have their names.
    pub files: Vec<NewFile>,
    /// The objects with their links.
    pub objects: NewObjects,
    /// Entries of the pack as it came.
    pub object_count: u32,
    /// Bytes of the pack as it came.
    pub received_bytes: u64,
    /// Bytes of its objects, deltas resolved.
    pub inflated_bytes: u64,
    /// The trailer of the pack as it came.
    pub received_pack_checksum: ObjectId,
    /// The most bytes of object contents and deltas that were in memory at once, an upper bound;
    /// kept to `base_cache_bytes_max`.
    pub content_bytes_peak: u64,
    /// The memory that the objects take, of what all pushes share.
    pub memory: Share<Arc<ByteBudget>>,
    /// Where the time went.
    pub timings: Timings,
}

/// In what form a pack was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The pack is empty; nothing was written.
    Nothing,
    /// Loose objects.
    Loose {
        /// How many, each counted once.
        objects: u32,
    },
    /// A pack with its companions.
    Pack(StoredPack),
}

/// The files of a kept pack, by their names below the quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPack {
    /// The trailer of the stored pack, which names its files: another one than was received if
    /// bases were appended.
    pub checksum: ObjectId,
    /// The pack.
    pub pack: PathBuf,
    /// Its index.
    pub index: PathBuf,
    /// Its reverse index, if one was asked for.
    pub rev: Option<PathBuf>,
    /// Its keep file, if one was asked for.
    pub keep: Option<PathBuf>,
    /// Bases that the pack was missing and that were appended to it.
    pub appended_bases: u32,
}

/// Wall-clock time of each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Reading the input, which includes waiting for it.
    pub receive: Duration,
    /// Resolving deltas.
    pub resolve: Duration,
    /// Completing, indexing and naming the pack.
    pub store: Duration,
}
