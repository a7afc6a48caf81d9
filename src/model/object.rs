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

/// An id in hexadecimal digits, as files and the wire have it. It stays text until somebody needs
/// the id: most ids of a large advertisement are only copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HexId<'a>(&'a [u8]);

impl<'a> HexId<'a> {
    /// `None` unless these are the digits of one id of the hash, in either case.
    pub fn new(digits: &'a [u8], hash: HashKind) -> Option<Self> {
        let is_id = digits.len() == hash.len_in_hex() && ObjectId::from_hex(digits).is_ok();
        is_id.then_some(Self(digits))
    }

    /// Digits that were looked at before: those of a file that has not changed since.
    pub(crate) fn known(digits: &'a [u8]) -> Self {
        debug_assert!(ObjectId::from_hex(digits).is_ok());
        Self(digits)
    }

    /// The id.
    pub fn id(self) -> ObjectId {
        // The digits were looked at. If they were not, this is the id of no object.
        ObjectId::from_hex(self.0).unwrap_or(ObjectId::null(HashKind::Sha1))
    }

    /// Whether it is the id of no object: zeroes alone.
    pub fn is_null(self) -> bool {
        self.0.iter().all(|digit| *digit == b'0')
    }

    /// The digits, if they are as git writes them: in lower case.
    pub fn canonical(self) -> Option<&'a [u8]> {
        self.0.iter().all(|digit| !digit.is_ascii_uppercase()).then_some(self.0)
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_ids_are_looked_at_once() {
        let (lower, upper) = ("ab".repeat(20), "AB".repeat(20));
        let hex = HexId::new(lower.as_bytes(), HashKind::Sha1).unwrap();
        assert_eq!(hex.canonical(), Some(lower.as_bytes()));
        assert_eq!(hex.id().to_string(), lower);
        assert!(!hex.is_null());
        let hex = HexId::new(upper.as_bytes(), HashKind::Sha1).unwrap();
        assert_eq!((hex.canonical(), hex.id().to_string()), (None, lower.clone()));
        assert!(HexId::new(&[b'0'; 40], HashKind::Sha1).unwrap().is_null());
        for bad in [&lower[1..], &"xy".repeat(20), &"ab".repeat(32), ""] {
            assert_eq!(HexId::new(bad.as_bytes(), HashKind::Sha1), None, "{bad}");
        }
        assert!(HexId::new("ab".repeat(32).as_bytes(), HashKind::Sha256).is_some());
    }
}
