//! The links of an object of any kind.

use super::commit::{CommitLinks, commit};
use super::tag::{TagTarget, tag};
use super::tree::{TreeEntries, tree};
use crate::model::{HashKind, ObjectId, ObjectKind};

/// An id that an object names and the kind the named object must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link {
    /// The named object.
    pub id: ObjectId,
    /// What it has to be.
    pub kind: ObjectKind,
}

/// What stops git from walking an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The commit does not begin with a `tree` line.
    #[error("commit does not begin with a tree")]
    CommitTree,
    /// A `parent` line has no id, or something behind it.
    #[error("commit has a bad parent line")]
    CommitParent,
    /// The tree ends within an entry.
    #[error("tree ends within an entry")]
    TreeTruncated,
    /// The mode of an entry is not a number.
    #[error("tree entry has a malformed mode")]
    TreeMode,
    /// An entry has no name.
    #[error("tree entry has an empty name")]
    TreeName,
    /// The tag does not begin with an `object` line.
    #[error("tag does not begin with an object")]
    TagObject,
    /// The `type` line is missing, or names no kind of object.
    #[error("tag has no type, or an unknown one")]
    TagType,
    /// The `tag` line is missing.
    #[error("tag has no name")]
    TagName,
}

/// The links of an object, in the order in which it names them; none for a blob.
///
/// Gitlinks name commits of other repositories and are left out. Ends after the first error.
/// Nothing is allocated.
pub fn links(kind: ObjectKind, data: &[u8], hash: HashKind) -> Links<'_> {
    Links(match kind {
        ObjectKind::Commit => match commit(data, hash) {
            Ok(commit) => State::Commit(Some(commit.tree), commit),
            Err(error) => State::Failed(error),
        },
        ObjectKind::Tree => State::Tree(tree(data, hash)),
        ObjectKind::Blob => State::Over,
        ObjectKind::Tag => match tag(data, hash) {
            Ok(TagTarget { id, kind }) => State::Tag(Link { id, kind }),
            Err(error) => State::Failed(error),
        },
    })
}

/// Whether the beginning of a commit or tag has all its links: a line stands in it behind those
/// that hold them. A whole object that ends with its links does not say so of itself.
pub fn holds_all_links(beginning: &[u8]) -> bool {
    let links = [&b"tree "[..], b"parent ", b"object ", b"type ", b"tag "];
    beginning
        .split_inclusive(|&byte| byte == b'\n')
        .any(|line| line.ends_with(b"\n") && !links.iter().any(|word| line.starts_with(word)))
}

/// The iterator that [`links`] makes.
#[derive(Clone, Debug)]
pub struct Links<'a>(State<'a>);

#[derive(Clone, Debug)]
enum State<'a> {
    Commit(Option<ObjectId>, CommitLinks<'a>),
    Tree(TreeEntries<'a>),
    Tag(Link),
    Failed(LinkError),
    Over,
}

impl Iterator for Links<'_> {
    type Item = Result<Link, LinkError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            State::Commit(tree, commit) => {
                if let Some(id) = tree.take() {
                    return Some(Ok(Link { id, kind: ObjectKind::Tree }));
                }
                let parent = commit.next()?;
                Some(parent.map(|id| Link { id, kind: ObjectKind::Commit }))
            }
            State::Tree(entries) => loop {
                match entries.next()? {
                    Ok(entry) => {
                        if let Some(kind) = entry.kind() {
                            return Some(Ok(Link { id: entry.id.to_owned(), kind }));
                        }
                    }
                    Err(error) => return Some(Err(error)),
                }
            },
            &mut State::Tag(link) => {
                self.0 = State::Over;
                Some(Ok(link))
            }
            &mut State::Failed(error) => {
                self.0 = State::Over;
                Some(Err(error))
            }
            State::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_panic_and_an_error_is_the_last_word(
            kind in prop_oneof![
                Just(ObjectKind::Commit), Just(ObjectKind::Tree),
                Just(ObjectKind::Blob), Just(ObjectKind::Tag),
            ],
            hash in prop_oneof![Just(HashKind::Sha1), Just(HashKind::Sha256)],
            start in prop_oneof![
                Just(&b""[..]), Just(&b"tree "[..]), Just(&b"object "[..]),
                Just(&b"100644 a\0"[..]), Just(&b"40000 "[..]),
            ],
            noise in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let data = [start, &noise].concat();
            let all: Vec<_> = links(kind, &data, hash).collect();
            prop_assert!(all.iter().rev().skip(1).all(Result::is_ok));
        }
    }

    #[test]
    fn a_blob_names_nothing() {
        assert_eq!(links(ObjectKind::Blob, b"tree 1234", HashKind::Sha1).count(), 0);
    }
}
