//! Objects that are too large to be held in memory: hashed, and read for their links, as they
//! come.

use super::collector::Collector;
use super::error::IngestError;
use super::object_hash::ObjectHasher;
use crate::links;
use crate::model::{HashKind, ObjectId, ObjectKind};

/// One object, coming in pieces.
#[derive(Debug)]
pub(super) struct StreamedObject {
    kind: ObjectKind,
    hash: HashKind,
    hasher: ObjectHasher,
    links: Links,
}

#[derive(Debug)]
enum Links {
    /// A blob has none.
    None,
    /// A tree: the beginning of an entry whose end has not come.
    Entries(Vec<u8>),
    /// A commit or tag: its beginning, where the links are, and whether that is not all of it.
    Beginning { bytes: Vec<u8>, cut: bool },
    /// They cannot be read.
    Malformed,
}

/// A longer entry of a streamed tree, or a longer list of parents of a streamed commit, is taken
/// for malformed. Nothing of the sort was ever written.
const LINK_BYTES_MAX: usize = 1 << 20;

impl StreamedObject {
    /// Starts an object of `size` bytes.
    pub(super) fn new(hash: HashKind, kind: ObjectKind, size: u64) -> Self {
        let links = match kind {
            ObjectKind::Blob => Links::None,
            ObjectKind::Tree => Links::Entries(Vec::new()),
            ObjectKind::Commit | ObjectKind::Tag => {
                Links::Beginning { bytes: Vec::new(), cut: false }
            }
        };
        Self { kind, hash, hasher: ObjectHasher::new(hash, kind, size), links }
    }

    /// Takes the next piece, and notes the links in it.
    pub(super) fn piece(
        &mut self,
        piece: &[u8],
        collector: &mut Collector,
    ) -> Result<(), IngestError> {
        self.hasher.update(piece);
        match &mut self.links {
            Links::None | Links::Malformed => {}
            Links::Beginning { bytes, cut } => {
                let room = LINK_BYTES_MAX - bytes.len();
                bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
                *cut |= piece.len() > room;
            }
            Links::Entries(carry) => {
                for part in piece.chunks(LINK_BYTES_MAX) {
                    carry.extend_from_slice(part);
                    let consumed = note_entries(carry, self.hash, collector)?;
                    carry.drain(..consumed);
                    if carry.len() > LINK_BYTES_MAX {
                        self.links = Links::Malformed;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the object and notes it.
    pub(super) fn finish(self, collector: &mut Collector) -> Result<ObjectId, IngestError> {
        let id = self.hasher.finish()?;
        collector.insert(&id, self.kind);
        match self.links {
            Links::None => {}
            Links::Entries(carry) if carry.is_empty() => {}
            Links::Beginning { bytes, cut } if !cut || is_past_links(&bytes) => {
                collector.note_links(self.kind, &bytes)?;
            }
            Links::Entries(_) | Links::Beginning { .. } | Links::Malformed => {
                collector.note_malformed();
            }
        }
        Ok(id)
    }
}

/// Notes the entries at the start of `bytes` that are complete, and returns their length.
///
/// What stops it may be half an entry or a malformed one; which of them shows in the end.
fn note_entries(
    bytes: &[u8],
    hash: HashKind,
    collector: &mut Collector,
) -> Result<usize, IngestError> {
    let mut consumed = 0;
    let mut entries = links::tree(bytes, hash);
    while let Some(Ok(entry)) = entries.next() {
        let end = bytes.len() - entries.rest().len();
        if end - consumed > LINK_BYTES_MAX {
            break;
        }
        collector.note_entry(&Ok(entry));
        consumed = end;
    }
    collector.check_names()?;
    Ok(consumed)
}

/// Whether the beginning of a commit or tag has a line behind those that hold links.
fn is_past_links(bytes: &[u8]) -> bool {
    let links = [&b"tree "[..], b"parent ", b"object ", b"type ", b"tag "];
    bytes
        .split_inclusive(|&byte| byte == b'\n')
        .any(|line| line.ends_with(b"\n") && !links.iter().any(|word| line.starts_with(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::object_hash::object_id;
    use crate::links::NewObjects;
    use crate::model::Limits;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use std::collections::BTreeSet;

    fn facts(objects: &NewObjects) -> (usize, bool, Vec<String>, BTreeSet<String>) {
        let commits = objects.commits().iter().map(|commit| format!("{commit:?}")).collect();
        let boundary = objects.boundary().map(|link| format!("{link:?}")).collect();
        (objects.len(), objects.has_malformed(), commits, boundary)
    }

    fn whole(kind: ObjectKind, content: &[u8]) -> (ObjectId, NewObjects) {
        let mut collector = Collector::new(HashKind::Sha1, &Limits::default());
        let id = object_id(HashKind::Sha1, kind, content).unwrap();
        collector.note(&id, kind, content).unwrap();
        (id, collector.into_objects())
    }

    fn streamed<'a>(
        kind: ObjectKind,
        size: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> (ObjectId, NewObjects) {
        let mut collector = Collector::new(HashKind::Sha1, &Limits::default());
        let mut object = StreamedObject::new(HashKind::Sha1, kind, size as u64);
        pieces.for_each(|piece| object.piece(piece, &mut collector).unwrap());
        let id = object.finish(&mut collector).unwrap();
        (id, collector.into_objects())
    }

    fn content() -> impl Strategy<Value = (ObjectKind, Vec<u8>)> {
        let id = || "[0-9a-f]{40}";
        let commit = (id(), prop::collection::vec(id(), 0..4), any::<bool>()).prop_map(
            |(tree, parents, bad)| {
                let end = if bad { "x\n" } else { "\n" };
                let parents: String =
                    parents.iter().flat_map(|parent| ["parent ", parent, end]).collect();
                let text = format!("tree {tree}\n{parents}author x\n\nmessage\n");
                (ObjectKind::Commit, text.into_bytes())
            },
        );
        let tag = id().prop_map(|id| {
            let text = format!("object {id}\ntype blob\ntag v1\ntagger x\n\nmessage\n");
            (ObjectKind::Tag, text.into_bytes())
        });
        let entry = ("(100644|40000|160000|9)", "[a-z]{1,9}", any::<[u8; 20]>());
        let tree = (prop::collection::vec(entry, 0..9), 0usize..3).prop_map(|(entries, cut)| {
            let mut bytes = Vec::new();
            for (mode, name, id) in entries {
                bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
                bytes.extend_from_slice(&id);
            }
            bytes.truncate(bytes.len().saturating_sub(cut.saturating_sub(1)));
            (ObjectKind::Tree, bytes)
        });
        prop_oneof![commit, tag, tree, Just((ObjectKind::Blob, b"tree x".to_vec()))]
    }

    proptest! {
        #[test]
        fn any_split_notes_what_the_whole_object_does(
            (kind, content) in content(),
            cuts in prop::collection::vec(any::<Index>(), 0..6),
        ) {
            let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(content.len() + 1)).collect();
            places.extend([0, content.len()]);
            places.sort_unstable();
            let pieces = places.windows(2).map(|pair| &content[pair[0]..pair[1]]);
            let (id, objects) = streamed(kind, content.len(), pieces);
            let (whole_id, whole_objects) = whole(kind, &content);
            prop_assert_eq!(id, whole_id);
            let (facts, mut whole_facts) = (facts(&objects), facts(&whole_objects));
            if facts.1 {
                // Links before the fault may or may not be noted.
                whole_facts.3.clone_from(&facts.3);
            }
            prop_assert_eq!(facts, whole_facts);
        }
    }

    #[test]
    fn a_commit_with_a_long_message_has_its_links_and_one_that_is_all_parents_has_none() {
        let id = "1".repeat(40);
        let head = format!("tree {id}\nparent {id}\nauthor x\n\n");
        let text = [head.as_bytes(), &vec![b'm'; 2 << 20]].concat();
        let (_, objects) = streamed(ObjectKind::Commit, text.len(), text.chunks(100_000));
        assert_eq!((objects.commits().len(), objects.has_malformed()), (1, false));

        let text = format!("tree {id}\n{}", format!("parent {id}\n").repeat(30_000));
        let (_, objects) = streamed(ObjectKind::Commit, text.len(), text.as_bytes().chunks(999));
        assert_eq!((objects.commits().len(), objects.has_malformed()), (0, true));
    }

    #[test]
    fn a_tree_entry_without_an_end_is_malformed_and_bounded() {
        let text = [b"100644 ".as_slice(), &vec![b'n'; 3 << 20]].concat();
        let (_, objects) = streamed(ObjectKind::Tree, text.len(), text.chunks(256 << 10));
        assert!(objects.has_malformed());
    }
}
