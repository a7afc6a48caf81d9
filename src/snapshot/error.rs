//! What can go wrong when the object store is asked. That an object is missing is not among it.

use crate::model::ObjectId;
use crate::pack::delta::DeltaError;
use crate::pack::entry::EntryError;
use crate::pack::header::HeaderError;
use crate::pack::inflate::InflateError;
use std::io;
use std::path::{Path, PathBuf};

/// Why the object store could not answer.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A file or directory that is there could not be read.
    #[error("cannot read '{}'", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An index breaks its format.
    #[error("pack index '{}' is corrupt", path.display())]
    CorruptIndex {
        /// The index.
        path: PathBuf,
        /// The rule that it breaks.
        source: IndexFault,
    },
    /// All copies of an object that could be opened are damaged; this is the first.
    #[error("object {id} in '{}' is damaged", path.display())]
    DamagedObject {
        /// The object that was asked for.
        id: ObjectId,
        /// The pack or loose file that the damage is in.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<Damage>,
    },
    /// The object, or one of the bases that it is made from, is larger than the caller allows.
    #[error("object {id} needs {size} bytes, more than the {bytes_max} allowed")]
    TooLarge {
        /// The object that was asked for.
        id: ObjectId,
        /// The size that its header declares, or that of its base.
        size: u64,
        /// The bound that was given.
        bytes_max: u64,
    },
}

/// The rule of gitformat-pack that an index breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexFault {
    /// The file is shorter than what every index has.
    #[error("{size} bytes are too few for an index")]
    TooShort {
        /// Its size.
        size: u64,
    },
    /// The file has another size than its object count asks for.
    #[error("{size} bytes do not fit an index of {count} objects")]
    Size {
        /// Its size.
        size: u64,
        /// Objects, as the fan-out table says.
        count: u32,
    },
    /// A multi-pack-index does not begin with its signature.
    #[error("signature mismatch")]
    Signature,
    /// A version that is not read.
    #[error("version {version} is not supported")]
    Version {
        /// The version.
        version: u32,
    },
    /// Made for another hash than the repository's.
    #[error("made for another hash")]
    Hash,
    /// The fan-out table is not ascending.
    #[error("fan-out table out of order")]
    FanOut,
    /// Ids are not ascending, or not where the fan-out table says.
    #[error("object ids out of order")]
    Order,
    /// An offset points into the 64-bit table behind its end, or at no entry.
    #[error("pack offset out of bounds")]
    Offset,
    /// The checksum at the end is not that of the content.
    #[error("checksum mismatch")]
    Checksum,
    /// A multi-pack-index lacks a chunk, or one has the wrong place or size.
    #[error("chunk '{}' is missing or misplaced", String::from_utf8_lossy(name))]
    Chunk {
        /// The chunk's four letters.
        name: [u8; 4],
    },
    /// A multi-pack-index names a pack with a path, or fewer packs than it says.
    #[error("pack names out of order")]
    PackNames,
}

/// What is wrong with one copy of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file ends too early.
    #[error("the file ends too early")]
    Truncated,
    /// The pack does not begin as one.
    #[error(transparent)]
    PackHeader(#[from] HeaderError),
    /// The pack is not the one that its index describes.
    #[error("the pack's checksum {actual} is not the {expected} that its index names")]
    OtherPack {
        /// The pack checksum in the index.
        expected: ObjectId,
        /// The one at the end of the pack.
        actual: ObjectId,
    },
    /// The entry's header is not valid.
    #[error(transparent)]
    EntryHeader(#[from] EntryError),
    /// The data cannot be inflated to the size declared.
    #[error(transparent)]
    Inflate(#[from] InflateError),
    /// The delta is not valid, or not one against its base.
    #[error(transparent)]
    Delta(#[from] DeltaError),
    /// The base of a delta is nowhere.
    #[error("delta base {base} is missing")]
    BaseMissing {
        /// The base.
        base: ObjectId,
    },
    /// The chain of deltas is longer than any that is written, or goes in a circle.
    #[error("delta chain is longer than {depth_max}")]
    ChainTooLong {
        /// The bound.
        depth_max: usize,
    },
    /// A loose file does not begin with kind and size.
    #[error("loose object header is not valid")]
    LooseHeader,
    /// A loose file goes on behind its object.
    #[error("garbage at the end of the loose object")]
    TrailingBytes,
    /// The content is that of another object.
    #[error("its content has the id {actual}")]
    WrongContent {
        /// The id of what is there.
        actual: ObjectId,
    },
    /// The content was made to collide (SHAttered), so that its id means nothing.
    #[error("its content is part of a SHA-1 collision attack")]
    CollisionAttack,
}

impl SnapshotError {
    /// Names the file that `source` is about.
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(super) fn corrupt_index(path: &Path, source: IndexFault) -> Self {
        Self::CorruptIndex { path: path.to_owned(), source }
    }
}
