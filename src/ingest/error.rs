//! How taking a pack in fails, and whose fault that is.

use super::refusal::Refusal;
use crate::model::{Limit, ObjectId, ObjectKind};
use crate::pack::delta::DeltaError;
use crate::pack::delta_tree::NoSuchBase;
use crate::pack::header::PackHeader;
use crate::pack::parser::{PackError, PackFault};
use crate::pack::table::TableFull;
use std::fmt;
use std::io;

/// An error of the store that holds the existing objects.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// Why a pack was not taken in. Nothing of it is kept: what lies in the quarantine goes with it.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The bytes are no pack, or a damaged one.
    #[error(transparent)]
    BadPack(PackError),
    /// A delta cannot be applied.
    #[error("delta at offset {offset} is bad: {fault}")]
    BadDelta {
        /// Where its entry begins.
        offset: u64,
        /// What is wrong with it.
        fault: DeltaError,
    },
    /// A delta names its base by an offset at which nothing begins.
    #[error(transparent)]
    NoSuchBase(NoSuchBase),
    /// Deltas are left whose bases are neither in the pack nor in the repository.
    #[error("pack has {count} unresolved delta{}, the first against {base}", plural(*count))]
    UnresolvedDeltas {
        /// How many.
        count: u64,
        /// The base of the first one in the pack that names its base by id.
        base: ObjectId,
    },
    /// The pack has more entries than any pack can.
    #[error(transparent)]
    TooManyEntries(#[from] TableFull),
    /// Bytes follow the pack.
    #[error("garbage at the end of the pack, after {offset} bytes")]
    Surplus {
        /// The length of the pack.
        offset: u64,
    },
    /// A new object has the id of an existing one, and other content.
    #[error("refusing object {id}: another object of that id is in the repository (collision)")]
    Collision {
        /// Their id.
        id: ObjectId,
    },
    /// An object was made to collide with another one.
    #[error("refusing object {id}: its content is part of a SHA-1 collision attack")]
    CollisionAttack {
        /// Its id.
        id: ObjectId,
    },

    /// fsck refuses an object, or misses one.
    #[error(transparent)]
    Refused(Box<Refusal>),

    /// The input ended before the pack.
    #[error("{}", early_end(*offset, *entries_left))]
    EndedEarly {
        /// Bytes that came.
        offset: u64,
        /// Objects that did not, or not wholly.
        entries_left: u32,
    },
    /// The input could not be read.
    #[error("the pack could not be read to its end")]
    Input(#[source] io::Error),

    /// The pack has more bytes than allowed.
    #[error("pack exceeds maximum allowed size ({})", Humanised(limit.value))]
    PackTooLarge {
        /// `pack_bytes_max` or `receive.maxInputSize`.
        limit: Limit,
    },
    /// The pack announces more objects than allowed.
    #[error("pack announces {count} objects, more than the {limit}: push the history in parts")]
    TooManyObjects {
        /// What it announces.
        count: u32,
        /// The limit.
        limit: Limit,
    },
    /// An object, or a delta, is larger than allowed.
    #[error(
        "pack has an object of {size} bytes, more than the {limit}: keep large files outside of \
         the repository"
    )]
    ObjectTooLarge {
        /// Its size.
        size: u64,
        /// The limit.
        limit: Limit,
    },
    /// A commit, tree or tag is larger than can be read for its links.
    #[error("pack has a {kind} of {size} bytes, more than the {limit}: {}", advice(*kind))]
    MetadataTooLarge {
        /// What it is.
        kind: ObjectKind,
        /// Its size.
        size: u64,
        /// The limit.
        limit: Limit,
    },
    /// A commit has more parents than allowed.
    #[error("commit {id} has more parents than the {limit}: merge in several steps")]
    TooManyParents {
        /// The commit.
        id: ObjectId,
        /// The limit.
        limit: Limit,
    },
    /// A tree has an entry with a longer name than allowed.
    #[error("tree {id} has an entry whose name is longer than the {limit}: give it a shorter one")]
    NameTooLong {
        /// The tree.
        id: ObjectId,
        /// The limit.
        limit: Limit,
    },
    /// A tree has more entries than allowed.
    #[error("tree {id} has more entries than the {limit}: split the directory into smaller ones")]
    TooManyTreeEntries {
        /// The tree.
        id: ObjectId,
        /// The limit.
        limit: Limit,
    },
    /// All objects together are larger than a pack of this size may make them, or making them
    /// takes more work than that.
    #[error(
        "the objects of the pack have {expanded_bytes} bytes, and it has {pack_bytes}: more than \
         the {limit}: push in smaller steps, or ask for a larger one"
    )]
    ExpandsTooFar {
        /// Bytes of the objects, or of those that had to be made again.
        expanded_bytes: u64,
        /// Bytes of the pack.
        pack_bytes: u64,
        /// `expansion_ratio_max`.
        limit: Limit,
    },
    /// All objects together are larger than allowed, or making them takes more work than that.
    #[error("the objects of the pack inflate to more than the {limit}: push the history in parts")]
    InflatedTooLarge {
        /// The limit.
        limit: Limit,
    },
    /// A delta is too far from its whole base.
    #[error("pack has a delta chain longer than the {limit}: repack with a smaller --depth")]
    DeltaTooDeep {
        /// The limit.
        limit: Limit,
    },
    /// The objects name more ids than allowed.
    #[error("the objects of the pack name more ids than the {limit}: push the history in parts")]
    TooManyNames {
        /// The limit.
        limit: Limit,
    },

    /// Others wait for the memory of this push, whose bytes hardly come.
    #[error(
        "other pushes wait for memory that this one takes of the {limit}, and its pack comes too \
         slowly: push again later, or the history in parts"
    )]
    TooSlow {
        /// `push_memory_bytes_max`.
        limit: Limit,
    },
    /// Other pushes have had all memory for too long.
    #[error("other pushes have taken all of the {limit} for too long: push again later")]
    NoMemory {
        /// `push_memory_bytes_max`.
        limit: Limit,
    },
    /// Somebody asked the push to stop.
    #[error("the push was cancelled")]
    Cancelled,
    /// The disk is full, or the quota used up.
    #[error("no space left to store the pack")]
    NoSpace(#[source] io::Error),
    /// The quarantine could not be written or read.
    #[error("could not {doing}")]
    Disk {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What was written to the quarantine is not what is read back.
    #[error("the stored pack has changed on disk")]
    Reread,
    /// An existing object could not be read although it was needed.
    #[error("existing object {id} could not be read")]
    Existing {
        /// The object.
        id: ObjectId,
        /// What the store said.
        #[source]
        source: StoreError,
    },
}

/// Who has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The client sent a pack that is no good.
    BadPack,
    /// The client has gone, or the connection broke.
    Disconnected,
    /// A limit of the server or the repository was passed.
    Limit,
    /// The push was told to stop.
    Cancelled,
    /// The disk has no room.
    NoSpace,
    /// Anything else on the server's side.
    Server,
}

impl IngestError {
    /// Who has to change something.
    pub fn blame(&self) -> Blame {
        match self {
            Self::BadPack(_)
            | Self::BadDelta { .. }
            | Self::NoSuchBase(_)
            | Self::UnresolvedDeltas { .. }
            | Self::Surplus { .. }
            | Self::TooManyEntries(_)
            | Self::Collision { .. }
            | Self::CollisionAttack { .. }
            | Self::Refused(_) => Blame::BadPack,
            Self::EndedEarly { .. } | Self::Input(_) => Blame::Disconnected,
            Self::PackTooLarge { .. }
            | Self::TooManyObjects { .. }
            | Self::ObjectTooLarge { .. }
            | Self::MetadataTooLarge { .. }
            | Self::TooManyParents { .. }
            | Self::NameTooLong { .. }
            | Self::TooManyTreeEntries { .. }
            | Self::ExpandsTooFar { .. }
            | Self::NoMemory { .. }
            | Self::TooSlow { .. }
            | Self::InflatedTooLarge { .. }
            | Self::DeltaTooDeep { .. }
            | Self::TooManyNames { .. } => Blame::Limit,
            Self::Cancelled => Blame::Cancelled,
            Self::NoSpace(_) => Blame::NoSpace,
            Self::Disk { .. } | Self::Reread | Self::Existing { .. } => Blame::Server,
        }
    }

    /// The limit that was passed, if one was.
    pub fn limit(&self) -> Option<Limit> {
        match self {
            Self::PackTooLarge { limit }
            | Self::TooManyObjects { limit, .. }
            | Self::ObjectTooLarge { limit, .. }
            | Self::MetadataTooLarge { limit, .. }
            | Self::TooManyParents { limit, .. }
            | Self::NameTooLong { limit, .. }
            | Self::TooManyTreeEntries { limit, .. }
            | Self::ExpandsTooFar { limit, .. }
            | Self::NoMemory { limit }
            | Self::TooSlow { limit }
            | Self::InflatedTooLarge { limit }
            | Self::DeltaTooDeep { limit }
            | Self::TooManyNames { limit } => Some(*limit),
            _ => None,
        }
    }

    /// An error of the quarantine's disk, told apart from a full one.
    pub(super) fn disk(doing: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace(source),
            _ => Self::Disk { doing, source },
        }
    }
}

impl From<PackError> for IngestError {
    fn from(error: PackError) -> Self {
        match error.fault {
            PackFault::Truncated { entries_left } => {
                Self::EndedEarly { offset: error.offset, entries_left }
            }
            PackFault::PackTooLarge { limit } => Self::PackTooLarge { limit },
            PackFault::TooManyObjects { count, limit } => Self::TooManyObjects { count, limit },
            PackFault::ObjectTooLarge { declared, limit } => {
                Self::ObjectTooLarge { size: declared, limit }
            }
            PackFault::InflatedTooLarge { limit } => Self::InflatedTooLarge { limit },
            _ => Self::BadPack(error),
        }
    }
}

/// What to do about an object that is too large to be read for its links.
fn advice(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Tree => "split the directory into smaller ones",
        _ => "keep large texts in a file",
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The words that git has for an input that ends within the pack header, or behind it.
fn early_end(offset: u64, entries_left: u32) -> String {
    if offset < PackHeader::BYTES as u64 {
        "eof before pack header was fully read".to_owned()
    } else {
        format!("early EOF after {offset} bytes of the pack, with {entries_left} objects to come")
    }
}

/// A number of bytes as git shows it (`strbuf_humanise_bytes`): in the largest unit that it is
/// more than one of, rounded to two digits, but a GiB or more cut off.
struct Humanised(u64);

impl fmt::Display for Humanised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, shift, half) = match self.0 {
            1 => return f.write_str("1 byte"),
            bytes if bytes > GIB => ("GiB", 30, 0),
            bytes if bytes > MIB => ("MiB", 20, MIB / 200),
            bytes if bytes > KIB => ("KiB", 10, KIB / 200),
            bytes => return write!(f, "{bytes} bytes"),
        };
        let value = self.0 + half;
        let hundredths = (u128::from(value & ((1 << shift) - 1)) * 100) >> shift;
        write!(f, "{}.{hundredths:02} {unit}", value >> shift)
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HashKind;

    #[test]
    fn sizes_are_shown_as_git_shows_them() {
        for (bytes, shown) in [
            (1, "1 byte"),
            (100, "100 bytes"),
            (1024, "1024 bytes"),
            (1025, "1.00 KiB"),
            (4096, "4.00 KiB"),
            (1536, "1.50 KiB"),
            (1 << 20, "1024.00 KiB"),
            (10 << 20, "10.00 MiB"),
            ((10 << 20) + 524_288, "10.50 MiB"),
            (1 << 30, "1024.00 MiB"),
            ((1 << 30) + 1, "1.00 GiB"),
            (u64::MAX, "17179869183.99 GiB"),
        ] {
            assert_eq!(Humanised(bytes).to_string(), shown);
        }
    }

    #[test]
    fn a_limit_is_told_by_name_and_value() {
        let limit = Limit { name: "receive.maxInputSize", value: 100, unit: "bytes" };
        let error =
            IngestError::from(PackError { offset: 100, fault: PackFault::PackTooLarge { limit } });
        assert_eq!(error.to_string(), "pack exceeds maximum allowed size (100 bytes)");
        assert_eq!((error.blame(), error.limit()), (Blame::Limit, Some(limit)));
    }

    #[test]
    fn an_input_that_ends_is_a_client_that_has_gone() {
        let early = |offset| {
            IngestError::from(PackError { offset, fault: PackFault::Truncated { entries_left: 3 } })
        };
        assert_eq!(early(11).to_string(), "eof before pack header was fully read");
        assert!(early(12).to_string().starts_with("early EOF"));
        assert_eq!(early(12).blame(), Blame::Disconnected);
    }

    #[test]
    fn one_delta_is_no_plural() {
        let base = ObjectId::null(HashKind::Sha1);
        let message = |count| IngestError::UnresolvedDeltas { count, base }.to_string();
        assert!(message(1).starts_with("pack has 1 unresolved delta, "));
        assert!(message(2).starts_with("pack has 2 unresolved deltas, "));
    }

    #[test]
    fn a_full_disk_is_told_apart() {
        let error = IngestError::disk("write", io::ErrorKind::StorageFull.into());
        assert_eq!(error.blame(), Blame::NoSpace);
        let error = IngestError::disk("write", io::ErrorKind::PermissionDenied.into());
        assert_eq!(error.blame(), Blame::Server);
    }
}
