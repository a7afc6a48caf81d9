//! What a tree names: an object for each entry.

use super::LinkError;
use crate::model::{HashKind, ObjectKind, oid};
use bstr::{BStr, ByteSlice};

/// One entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeEntry<'a> {
    /// The mode as it is written, octal digits: fsck cares about leading zeros.
    pub mode_digits: &'a [u8],
    /// The mode as a number, such as `0o100644`; bits beyond 32 are lost, as in git.
    pub mode: u32,
    /// The name; never empty, free of NUL, otherwise unchecked.
    pub name: &'a BStr,
    /// What it names.
    pub id: &'a oid,
}

/// Iterates over the entries of a tree, in their order.
///
/// Ends after the first error. Nothing is allocated.
pub fn tree(data: &[u8], hash: HashKind) -> TreeEntries<'_> {
    TreeEntries { rest: data, hash }
}

/// The iterator that [`tree`] makes.
#[derive(Clone, Debug)]
pub struct TreeEntries<'a> {
    rest: &'a [u8],
    hash: HashKind,
}

impl TreeEntry<'_> {
    /// The kind of object that the entry names; `None` for a gitlink.
    ///
    /// Only the type bits of the mode count. What is neither a file nor a symbolic link nor a
    /// directory is a gitlink to git, however odd its mode.
    pub fn kind(&self) -> Option<ObjectKind> {
        match self.mode & TYPE_BITS {
            0o100_000 | 0o120_000 => Some(ObjectKind::Blob),
            0o040_000 => Some(ObjectKind::Tree),
            _ => None,
        }
    }
}

impl<'a> TreeEntries<'a> {
    /// The bytes that have not been read, beginning with the next entry.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn read(&mut self) -> Result<TreeEntry<'a>, LinkError> {
        let hash_len = self.hash.len_in_bytes();
        if self.rest.len() < hash_len + ENTRY_BYTES_MIN {
            return Err(LinkError::TreeTruncated);
        }
        let (mode, digits) = mode(self.rest)?;
        let (mode_digits, rest) = self.rest.split_at(digits);
        let rest = rest.strip_prefix(b" ").ok_or(LinkError::TreeMode)?;
        let name_len = rest.find_byte(0).ok_or(LinkError::TreeTruncated)?;
        if name_len == 0 {
            return Err(LinkError::TreeName);
        }
        let (name, rest) = rest.split_at(name_len);
        let (id, rest) = rest
            .get(1..)
            .and_then(|rest| rest.split_at_checked(hash_len))
            .ok_or(LinkError::TreeTruncated)?;
        let id = oid::try_from_bytes(id).map_err(|_| LinkError::TreeTruncated)?;
        self.rest = rest;
        Ok(TreeEntry { mode_digits, mode, name: name.as_bstr(), id })
    }
}

impl<'a> Iterator for TreeEntries<'a> {
    type Item = Result<TreeEntry<'a>, LinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.read();
        if entry.is_err() {
            self.rest = &[];
        }
        Some(entry)
    }
}

/// A digit of mode, a blank and a NUL are the least that stands before an id.
const ENTRY_BYTES_MIN: usize = 3;

const TYPE_BITS: u32 = 0o170_000;

/// The mode at the start of `bytes` and the number of its digits, of which there is at least one.
fn mode(bytes: &[u8]) -> Result<(u32, usize), LinkError> {
    let mut mode = 0u32;
    for (index, &byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'7' => mode = mode << 3 | u32::from(byte - b'0'),
            b' ' if index > 0 => return Ok((mode, index)),
            _ => break,
        }
    }
    Err(LinkError::TreeMode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::{Link, links};
    use crate::model::ObjectId;

    fn entry(mode: &str, name: &str, id: &oid) -> Vec<u8> {
        [mode.as_bytes(), b" ", name.as_bytes(), b"\0", id.as_bytes()].concat()
    }

    fn read(data: &[u8]) -> Result<Vec<TreeEntry<'_>>, LinkError> {
        tree(data, HashKind::Sha1).collect()
    }

    #[test]
    fn entries_come_in_order_and_gitlinks_are_no_links() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let (file, dir) = (ObjectId::empty_blob(hash), ObjectId::empty_tree(hash));
            let data = [
                entry("100644", "a", &file),
                entry("100755", "b c", &file),
                entry("120000", "l", &file),
                entry("160000", "module", &file),
                entry("40000", "sub", &dir),
                entry("100664", "\u{e9}", &file),
            ]
            .concat();
            let names: Vec<_> = tree(&data, hash).map(|entry| entry.unwrap().name).collect();
            assert_eq!(names, ["a", "b c", "l", "module", "sub", "\u{e9}"]);
            let blob = Link { id: file, kind: ObjectKind::Blob };
            let sub = Link { id: dir, kind: ObjectKind::Tree };
            let all: Vec<_> = links(ObjectKind::Tree, &data, hash).map(Result::unwrap).collect();
            assert_eq!(all, [blob, blob, blob, sub, blob]);
        }
    }

    #[test]
    fn an_empty_tree_names_nothing() {
        assert_eq!(read(b""), Ok(vec![]));
    }

    #[test]
    fn odd_modes_count_by_their_type_bits() {
        let id = ObjectId::empty_blob(HashKind::Sha1);
        for (mode, kind) in [
            ("040000", Some(ObjectKind::Tree)),
            ("0000040755", Some(ObjectKind::Tree)),
            ("100000", Some(ObjectKind::Blob)),
            ("644", None),
            ("0", None),
            ("60000", None),
            ("7000000000000100644", Some(ObjectKind::Blob)),
        ] {
            let data = entry(mode, "x", &id);
            let entries = read(&data).unwrap();
            assert_eq!(entries[0].kind(), kind, "{mode}");
            assert_eq!(entries[0].mode_digits, mode.as_bytes());
        }
    }

    #[test]
    fn every_cut_through_an_entry_is_an_error() {
        let data = entry("100644", "name", &ObjectId::empty_blob(HashKind::Sha1));
        let two = data.repeat(2);
        for end in 1..data.len() {
            assert!(read(&data[..end]).is_err(), "{end}");
            assert!(read(&two[..data.len() + end]).is_err(), "{end}");
        }
        assert_eq!(read(&two).unwrap().len(), 2);
    }

    #[test]
    fn malformed_modes_and_names_are_errors() {
        let id = ObjectId::empty_blob(HashKind::Sha1);
        for mode in ["", "100844", "1006x4", "-100644", "\t100644"] {
            assert_eq!(read(&entry(mode, "x", &id)), Err(LinkError::TreeMode), "{mode}");
        }
        assert_eq!(read(&entry("100644", "", &id)), Err(LinkError::TreeName));
    }

    #[test]
    fn an_id_of_the_other_hash_does_not_fit() {
        let data = entry("100644", "x", &ObjectId::empty_blob(HashKind::Sha1));
        assert_eq!(
            tree(&data, HashKind::Sha256).collect::<Result<Vec<_>, _>>(),
            Err(LinkError::TreeTruncated)
        );
    }
}
