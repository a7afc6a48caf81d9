//! Object ids and kinds.
//!
//! Ids are gix-hash's: SHA-1 or SHA-256 in one type, tagged, so that ids of two hashes are never
//! equal.

pub use gix_hash::{Kind as HashKind, ObjectId, oid};

use std::fmt;

/// The four kinds of git objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A commit.
    Commit,
    /// A tree.
    Tree,
    /// A blob.
    Blob,
    /// An annotated tag.
    Tag,
}

impl ObjectKind {
    /// The word that object headers and tags use, such as `commit`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
            Self::Tag => "tag",
        }
    }

    /// Reads the word that object headers and tags use.
    pub fn from_bytes(word: &[u8]) -> Option<Self> {
        match word {
            b"commit" => Some(Self::Commit),
            b"tree" => Some(Self::Tree),
            b"blob" => Some(Self::Blob),
            b"tag" => Some(Self::Tag),
            _ => None,
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
