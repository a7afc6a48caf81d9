//! What a commit names: its tree and its parents.

use super::LinkError;
use super::hex::split_id;
use crate::model::{HashKind, ObjectId};

/// The tree of a commit, and an iterator over its parents.
#[derive(Clone, Debug)]
pub struct CommitLinks<'a> {
    /// The tree.
    pub tree: ObjectId,
    rest: &'a [u8],
    hash: HashKind,
}

/// Reads the beginning of a commit.
///
/// Only `tree` and the `parent` lines right behind it are looked at, as in git; a commit without
/// an author has links too. Something must follow the `tree` line, though: git takes a commit that
/// ends with it for a bogus one.
pub fn commit(data: &[u8], hash: HashKind) -> Result<CommitLinks<'_>, LinkError> {
    let (tree, rest) = data
        .strip_prefix(b"tree ")
        .and_then(|rest| split_id(rest, hash, b'\n'))
        .filter(|(_, rest)| !rest.is_empty())
        .ok_or(LinkError::CommitTree)?;
    Ok(CommitLinks { tree, rest, hash })
}

impl Iterator for CommitLinks<'_> {
    type Item = Result<ObjectId, LinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.rest.strip_prefix(PARENT)?;
        if line.len() < self.hash.len_in_hex() + 1 {
            // git looks for no parent where an id does not fit before the end...
            self.rest = &[];
            return None;
        }
        match split_id(line, self.hash, b'\n') {
            // ...and takes one for bad that ends with the commit.
            Some((id, rest)) if !rest.is_empty() => {
                self.rest = rest;
                Some(Ok(id))
            }
            _ => {
                self.rest = &[];
                Some(Err(LinkError::CommitParent))
            }
        }
    }
}

const PARENT: &[u8] = b"parent ";

#[cfg(test)]
mod tests {
    use super::*;

    fn id(hash: HashKind, byte: u8) -> ObjectId {
        ObjectId::try_from(&vec![byte; hash.len_in_bytes()][..]).unwrap()
    }

    fn read(data: &str, hash: HashKind) -> Result<(ObjectId, Vec<ObjectId>), LinkError> {
        let mut links = commit(data.as_bytes(), hash)?;
        let tree = links.tree;
        Ok((tree, links.by_ref().collect::<Result<_, _>>()?))
    }

    #[test]
    fn the_tree_and_all_parents_are_named() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let [tree, p, q] = [1, 2, 0xab].map(|byte| id(hash, byte));
            let data = format!("tree {tree}\nparent {p}\nparent {q}\nauthor a\n\nparent {p}\n");
            assert_eq!(read(&data, hash), Ok((tree, vec![p, q])));
            let data = format!("tree {tree}\n\n");
            assert_eq!(read(&data, hash), Ok((tree, vec![])));
        }
    }

    #[test]
    fn parents_behind_another_header_are_not_read() {
        let tree = id(HashKind::Sha1, 1);
        let data = format!("tree {tree}\nauthor a\nparent {tree}\n");
        assert_eq!(read(&data, HashKind::Sha1), Ok((tree, vec![])));
    }

    #[test]
    fn a_commit_without_a_whole_tree_line_is_an_error() {
        let tree = id(HashKind::Sha1, 1);
        for data in [
            String::new(),
            format!("author a\ntree {tree}\n"),
            format!("tree {tree}"),
            format!("tree {tree}\n"),
            format!("tree {tree} \n"),
            format!("tree  {tree}\n"),
            "tree 1234\n".to_owned(),
            format!("tree {}g\n", &tree.to_string()[1..]),
        ] {
            assert_eq!(read(&data, HashKind::Sha1), Err(LinkError::CommitTree), "{data}");
        }
        let data = format!("tree {tree}\nauthor a");
        assert_eq!(read(&data, HashKind::Sha256), Err(LinkError::CommitTree));
    }

    #[test]
    fn a_parent_line_without_an_id_is_an_error() {
        let tree = id(HashKind::Sha1, 1);
        let no_id = "x".repeat(60);
        for bad in [format!("{tree}0\n"), format!("{no_id}\n"), format!(" {tree}\n")] {
            let data = format!("tree {tree}\nparent {bad}author a\n");
            assert_eq!(read(&data, HashKind::Sha1), Err(LinkError::CommitParent), "{data}");
        }
    }

    #[test]
    fn the_end_of_a_commit_cuts_a_parent_line_as_in_git() {
        let tree = id(HashKind::Sha1, 1);
        let data = format!("tree {tree}\nparent {tree}");
        assert_eq!(read(&data, HashKind::Sha1), Ok((tree, vec![])));
        let data = format!("tree {tree}\nparent {tree}\n");
        assert_eq!(read(&data, HashKind::Sha1), Err(LinkError::CommitParent));
    }

    #[test]
    fn digits_may_be_upper_case() {
        let tree = id(HashKind::Sha1, 0xab);
        let data = format!("tree {}\n\n", tree.to_string().to_uppercase());
        assert_eq!(read(&data, HashKind::Sha1), Ok((tree, vec![])));
    }
}
