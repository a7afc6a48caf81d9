//! What a tag names: one object, with its kind.

use super::LinkError;
use super::hex::split_id;
use crate::model::{HashKind, ObjectId, ObjectKind};
use bstr::ByteSlice;

/// The object that a tag points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagTarget {
    /// Its id.
    pub id: ObjectId,
    /// The kind that the tag says it has.
    pub kind: ObjectKind,
}

/// Reads the beginning of a tag: `object`, `type` and `tag` must be there; a tagger need not.
pub fn tag(data: &[u8], hash: HashKind) -> Result<TagTarget, LinkError> {
    let (id, rest) = data
        .strip_prefix(b"object ")
        .filter(|_| data.len() >= hash.len_in_hex() + FIXED_BYTES)
        .and_then(|rest| split_id(rest, hash, b'\n'))
        .ok_or(LinkError::TagObject)?;
    let (kind, rest) = rest
        .strip_prefix(b"type ")
        .and_then(|rest| rest.split_once_str("\n"))
        .and_then(|(word, rest)| Some((ObjectKind::from_bytes(word)?, rest)))
        .ok_or(LinkError::TagType)?;
    match rest.strip_prefix(b"tag ") {
        Some(rest) if rest.contains(&b'\n') => Ok(TagTarget { id, kind }),
        _ => Err(LinkError::TagName),
    }
}

/// git takes nothing for a tag that is shorter than its id's digits and this.
const FIXED_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &str) -> Result<TagTarget, LinkError> {
        tag(data.as_bytes(), HashKind::Sha1)
    }

    #[test]
    fn the_object_and_its_kind_are_named() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let id = ObjectId::empty_tree(hash);
            for kind in [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag] {
                let data = format!("object {id}\ntype {kind}\ntag v1\ntagger t\n\ntext\n");
                assert_eq!(tag(data.as_bytes(), hash), Ok(TagTarget { id, kind }));
                let data = format!("object {id}\ntype {kind}\ntag v1\n");
                assert_eq!(tag(data.as_bytes(), hash), Ok(TagTarget { id, kind }));
            }
        }
    }

    #[test]
    fn a_tag_without_an_object_is_an_error() {
        let id = ObjectId::empty_tree(HashKind::Sha1);
        for data in [
            String::new(),
            format!("type tree\nobject {id}\ntag v1\n"),
            format!("object {id}0\ntype tree\ntag v1\n"),
            "object 1234\ntype tree\ntag v1, with more behind it to be long enough\n".to_owned(),
        ] {
            assert_eq!(read(&data), Err(LinkError::TagObject), "{data}");
        }
    }

    #[test]
    fn a_tag_without_a_known_type_is_an_error() {
        let id = ObjectId::empty_tree(HashKind::Sha1);
        for data in [
            format!("object {id}\ntag v1\ntype tree\n"),
            format!("object {id}\ntype thing\ntag v1\n"),
            format!("object {id}\ntype \ntag v1......\n"),
            format!("object {id}\ntype commit tag v1"),
        ] {
            assert_eq!(read(&data), Err(LinkError::TagType), "{data}");
        }
    }

    #[test]
    fn a_tag_without_a_name_is_an_error() {
        let id = ObjectId::empty_tree(HashKind::Sha1);
        for data in [
            format!("object {id}\ntype commit\n"),
            format!("object {id}\ntype commit\ntag v1"),
            format!("object {id}\ntype commit\ntagger t\n"),
        ] {
            assert!(read(&data).is_err(), "{data}");
        }
    }
}
