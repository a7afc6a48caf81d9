//! Objects that are too large to be held in memory: hashed, and read for their links, as they
//! come.

use super::collector::{Collector, Noted};
use super::error::IngestError;
use super::object_hash::ObjectHasher;
use crate::links::{self, LinkError};
use crate::model::{HashKind, ObjectId, ObjectKind};

/// One object, coming in pieces.
#[derive(Debug)]
pub(super) struct StreamedObject {
    kind: ObjectKind,
    hash: HashKind,
    hasher: ObjectHasher,
    links: Links,
    /// Entries of a tree so far.
    entries: u64,
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
    /// A name in a tree is longer than allowed.
    NameTooLong,
    /// A tree has more entries than allowed.
    TooManyEntries(u64),
}

/// A longer entry of a streamed tree is taken for malformed, and so is a tag with longer links:
/// connectivity then reads the object by itself. That many parents of a commit are read at least.
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
        Self { kind, hash, hasher: ObjectHasher::new(hash, kind, size), links, entries: 0 }
    }

    /// Takes the next piece, and notes the links in it.
    pub(super) fn piece(
        &mut self,
        piece: &[u8],
        collector: &mut Collector,
    ) -> Result<(), IngestError> {
        self.hasher.update(piece);
        match &mut self.links {
            Links::None | Links::Malformed | Links::NameTooLong | Links::TooManyEntries(_) => {}
            Links::Beginning { bytes, cut } => {
                let room = LINK_BYTES_MAX.max(collector.parents_bytes_max()) - bytes.len();
                bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
                *cut |= piece.len() > room;
            }
            Links::Entries(carry) => {
                for part in piece.chunks(LINK_BYTES_MAX) {
                    carry.extend_from_slice(part);
                    let (consumed, noted) =
                        note_entries(carry, self.hash, &mut self.entries, collector)?;
                    carry.drain(..consumed);
                    if collector.has_too_many(self.entries) {
                        self.links = Links::TooManyEntries(self.entries);
                        break;
                    }
                    if noted != Noted::Named {
                        self.links = match noted {
                            Noted::NameTooLong => Links::NameTooLong,
                            _ => Links::Malformed,
                        };
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
            Links::TooManyEntries(entries) => collector.check_entries(&id, entries)?,
            Links::NameTooLong => return Err(collector.name_too_long(&id)),
            Links::Beginning { bytes, cut } if !cut || links::holds_all_links(&bytes) => {
                collector.note_links(&id, self.kind, &bytes)?;
            }
            Links::Beginning { bytes, .. } => {
                collector.check_parents(&id, &bytes)?;
                collector.note_malformed();
            }
            Links::Entries(_) | Links::Malformed => collector.note_malformed(),
        }
        Ok(id)
    }
}

/// Notes the entries at the start of `bytes` that are complete, and returns their length. Whether
/// what follows them is the beginning of an entry shows in the end, unless it is too long for one.
fn note_entries(
    bytes: &[u8],
    hash: HashKind,
    count: &mut u64,
    collector: &mut Collector,
) -> Result<(usize, Noted), IngestError> {
    let mut consumed = 0;
    let mut noted = Noted::Named;
    let mut entries = links::tree(bytes, hash);
    while let Some(Ok(entry)) = entries.next() {
        let end = bytes.len() - entries.rest().len();
        noted = collector.note_entry(&Ok(entry));
        if noted != Noted::Named {
            break;
        }
        consumed = end;
        *count += 1;
    }
    collector.check_names()?;
    let rest = bytes.get(consumed..).unwrap_or_default();
    if noted == Noted::Named && rest.len() > LINK_BYTES_MAX {
        noted = Noted::Malformed;
        if links::tree(rest, hash).next() == Some(Err(LinkError::TreeTruncated)) {
            let name = rest.splitn(2, |&byte| byte == b' ').nth(1).unwrap_or_default();
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            if collector.is_too_long(name.len()) {
                noted = Noted::NameTooLong;
            }
        }
    }
    Ok((consumed, noted))
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

    fn facts(objects: &NewObjects) -> (usize, bool, BTreeSet<String>) {
        let boundary = objects.boundary().map(|link| format!("{link:?}")).collect();
        (objects.len(), objects.has_malformed(), boundary)
    }

    fn whole(kind: ObjectKind, content: &[u8]) -> (ObjectId, NewObjects) {
        let mut collector = Collector::new(HashKind::Sha1, &Limits::default());
        let id = object_id(HashKind::Sha1, kind, content).unwrap();
        collector.note(&id, kind, content).unwrap();
        (id, collector.into_objects())
    }

    fn try_streamed<'a>(
        limits: &Limits,
        kind: ObjectKind,
        size: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(ObjectId, NewObjects), IngestError> {
        let mut collector = Collector::new(HashKind::Sha1, limits);
        let mut object = StreamedObject::new(HashKind::Sha1, kind, size as u64);
        for piece in pieces {
            object.piece(piece, &mut collector)?;
        }
        let id = object.finish(&mut collector)?;
        Ok((id, collector.into_objects()))
    }

    fn streamed<'a>(
        kind: ObjectKind,
        size: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> (ObjectId, NewObjects) {
        try_streamed(&Limits::default(), kind, size, pieces).unwrap()
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
                whole_facts.2.clone_from(&facts.2);
            }
            prop_assert_eq!(facts, whole_facts);
        }
    }

    #[test]
    fn a_commit_with_a_long_message_has_its_links() {
        let id = "1".repeat(40);
        let head = format!("tree {id}\nparent {id}\nauthor x\n\n");
        let text = [head.as_bytes(), &vec![b'm'; 2 << 20]].concat();
        let (_, objects) = streamed(ObjectKind::Commit, text.len(), text.chunks(100_000));
        assert_eq!((objects.boundary().count(), objects.has_malformed()), (2, false));
    }

    /// What becomes of an object with these limits, in one piece and in many.
    fn both(limits: &Limits, kind: ObjectKind, content: &[u8]) -> Result<usize, String> {
        let told = |result: Result<NewObjects, IngestError>| match result {
            Ok(objects) => Ok(objects.boundary().count()),
            Err(error) => Err(error.to_string()),
        };
        let mut collector = Collector::new(HashKind::Sha1, limits);
        let id = object_id(HashKind::Sha1, kind, content).unwrap();
        let noted = collector.note(&id, kind, content);
        let whole = told(noted.map(|()| collector.into_objects()));
        for size in [content.len(), 997] {
            let pieces = content.chunks(size);
            let objects = try_streamed(limits, kind, content.len(), pieces).map(|pair| pair.1);
            assert_eq!(told(objects), whole);
        }
        whole
    }

    #[test]
    fn a_commit_may_have_as_many_parents_as_the_limit_says_and_no_more() {
        for max in [0usize, 1, 3, 30_000] {
            let limits = Limits { commit_parents_max: max as u64, ..Limits::default() };
            let commit = |parents: usize, end: &str| {
                let ids: Vec<_> = (0..parents).map(|n| format!("parent {n:040x}\n")).collect();
                format!("tree {}\n{}{end}", "1".repeat(40), ids.concat()).into_bytes()
            };
            for end in ["author x\n\nmessage\n", "\n"] {
                let told = both(&limits, ObjectKind::Commit, &commit(max, end));
                assert_eq!(told, Ok(max + 1));
                let told = both(&limits, ObjectKind::Commit, &commit(max + 1, end)).unwrap_err();
                let limit = format!("'commit_parents_max' of {max} parents");
                assert!(told.starts_with("commit ") && told.contains(&limit), "{told}");
            }
            // Nothing but parents, to the end of a large commit.
            let told = both(&limits, ObjectKind::Commit, &commit(60_000, "")).unwrap_err();
            assert!(told.contains("commit_parents_max"), "{told}");
        }
    }

    #[test]
    fn a_name_may_be_as_long_as_the_limit_says_and_no_longer() {
        let limits = Limits { entry_name_bytes_max: 5000, ..Limits::default() };
        let tree = |len: usize| {
            [b"100644 ", "a b".repeat(len).get(..len).unwrap().as_bytes(), b"\0", &[7; 20]].concat()
        };
        assert_eq!(both(&limits, ObjectKind::Tree, &tree(5000)), Ok(1));
        for len in [5001, 3 << 20] {
            let told = both(&limits, ObjectKind::Tree, &tree(len)).unwrap_err();
            assert!(told.contains("'entry_name_bytes_max' of 5000 bytes"), "{told}");
        }
    }

    #[test]
    fn a_tree_entry_without_an_end_is_malformed_and_bounded() {
        for text in [vec![b'1'; 3 << 20], vec![b'x'; 3 << 20]] {
            let (_, objects) = streamed(ObjectKind::Tree, text.len(), text.chunks(256 << 10));
            assert!(objects.has_malformed());
        }
        let short = b"100644 and no end";
        let (_, objects) = streamed(ObjectKind::Tree, short.len(), short.chunks(3));
        assert!(objects.has_malformed());
    }
}
