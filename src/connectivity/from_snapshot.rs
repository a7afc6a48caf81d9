//! The object snapshot of a push as a source.

use super::source::{ObjectSource, SMALL_BYTES, SourceError};
use crate::links::holds_all_links;
use crate::model::{ObjectId, ObjectKind};
use crate::snapshot::{ObjectSnapshot, SnapshotError};
use std::ops::ControlFlow;

/// A miss looks again at the directories before it is final, whatever clone this is: a repack
/// may have moved what the push builds on, and a verdict of "missing" must not come from that.
impl ObjectSource for ObjectSnapshot {
    fn kind(&self, id: &ObjectId) -> Result<Option<ObjectKind>, SourceError> {
        let found = self.refreshing().kind_and_size(id)?;
        Ok(found.map(|(kind, _)| kind))
    }

    fn read(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ObjectKind, Vec<u8>)>, SourceError> {
        let snapshot = self.refreshing();
        match ObjectSnapshot::read(&snapshot, id, bytes_max.min(SMALL_BYTES as u64)) {
            Ok(found) => Ok(found.map(|object| (object.kind, object.data))),
            Err(SnapshotError::TooLarge { .. }) => read_large(&snapshot, id, bytes_max),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads a large object. A commit may have a message of any length: it is inflated, and not kept.
fn read_large(
    snapshot: &ObjectSnapshot,
    id: &ObjectId,
    bytes_max: u64,
) -> Result<Option<(ObjectKind, Vec<u8>)>, SourceError> {
    let kind = snapshot.kind_and_size(id)?.map(|(kind, _)| kind);
    if matches!(kind, Some(ObjectKind::Commit | ObjectKind::Tag)) {
        let mut beginning = Vec::new();
        let streamed = snapshot.stream(id, bytes_max, &mut |piece| {
            let room = SMALL_BYTES.saturating_sub(beginning.len());
            beginning.extend_from_slice(piece.get(..room).unwrap_or(piece));
            // To its end, which shows whether it is damaged.
            ControlFlow::Continue(())
        })?;
        match streamed {
            Some((kind, size)) if size <= SMALL_BYTES as u64 || holds_all_links(&beginning) => {
                return Ok(Some((kind, beginning)));
            }
            Some(_) => {}
            None => return Ok(None),
        }
    }
    let found = ObjectSnapshot::read(snapshot, id, bytes_max)?;
    Ok(found.map(|object| (object.kind, object.data)))
}

impl From<SnapshotError> for SourceError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::DamagedObject { .. } => Self::Damaged(error.into()),
            SnapshotError::TooLarge { .. } => Self::TooLarge,
            SnapshotError::Io { .. } | SnapshotError::CorruptIndex { .. } => {
                Self::Unavailable(error.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectivity::corpus::{Push, Refs, Store};
    use crate::model::HashKind;
    use crate::repo::Disk;
    use crate::snapshot::{SnapshotCache, Sources};
    use std::fs;
    use std::path::Path;

    fn snapshot(objects: &Path) -> ObjectSnapshot {
        let sources = Sources { own: objects.to_owned(), alternates: Vec::new() };
        let cache = SnapshotCache::new(Disk::default(), 1 << 20);
        cache.snapshot(&sources, HashKind::Sha1).unwrap()
    }

    fn write_loose(store: &Store, objects: &Path) {
        for (id, (kind, data)) in &store.objects {
            let object = [format!("{kind} {}\0", data.len()).as_bytes(), data].concat();
            let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut zlib, &object).unwrap();
            let hex = id.to_string();
            fs::create_dir_all(objects.join(&hex[..2])).unwrap();
            fs::write(objects.join(&hex[..2]).join(&hex[2..]), zlib.finish().unwrap()).unwrap();
        }
    }

    fn base_and_tip() -> (Store, Store, ObjectId, ObjectId) {
        let mut old = Store::default();
        let tree = old.tree(&[]);
        let base = old.commit(tree, &[], 1);
        let mut all = old.clone();
        let tip = all.commit(tree, &[base], 2);
        (all.without(&old), old, base, tip)
    }

    #[test]
    fn what_came_after_the_snapshot_is_found_by_its_one_refresh() {
        let objects = tempfile::tempdir().unwrap();
        let before = snapshot(objects.path());
        let (brought, old, base, tip) = base_and_tip();
        // As if a repack had moved it: not there when the push began, and there now.
        write_loose(&old, objects.path());
        let push = Push::new(&before, &brought);
        assert_eq!(push.judge(tip, &mut Refs::of(&[base], &[])).0, Ok(()));
    }

    #[test]
    fn a_damaged_object_is_told_from_a_missing_one() {
        let objects = tempfile::tempdir().unwrap();
        let (_, old, base, _) = base_and_tip();
        write_loose(&old, objects.path());
        let hex = base.to_string();
        fs::write(objects.path().join(&hex[..2]).join(&hex[2..]), b"x\x9cdamaged").unwrap();
        let snapshot = snapshot(objects.path());
        assert!(matches!(snapshot.kind(&base), Err(SourceError::Damaged(_))));
        let absent = ObjectId::null(HashKind::Sha1);
        assert!(matches!(snapshot.kind(&absent), Ok(None)));
        let error = ObjectSource::read(&snapshot, old.objects.keys().next().unwrap(), 0);
        assert!(!matches!(error, Err(SourceError::Damaged(_))));
    }

    #[test]
    fn of_a_commit_or_tag_with_a_long_message_only_the_beginning_is_held() {
        let objects = tempfile::tempdir().unwrap();
        let mut store = Store::default();
        let tree = store.tree(&[]);
        let text = |head: String| [head.as_bytes(), &vec![b'm'; 3 << 20]].concat();
        let commit = text(format!("tree {tree}\nauthor x\n\n"));
        let commit = store.put(HashKind::Sha1, ObjectKind::Commit, commit);
        let tag = text(format!("object {commit}\ntype commit\ntag v1\ntagger x\n\n"));
        let tag = store.put(HashKind::Sha1, ObjectKind::Tag, tag);
        // Its links go on behind what is held.
        let wide =
            format!("tree {tree}\n{}author x\n\n", format!("parent {commit}\n").repeat(30_000));
        let wide = store.put(HashKind::Sha1, ObjectKind::Commit, wide.into_bytes());
        let flat = store.put(HashKind::Sha1, ObjectKind::Tree, vec![b'x'; 3 << 20]);
        write_loose(&store, objects.path());
        let snapshot = snapshot(objects.path());
        for (id, bytes_max, expected) in [
            (commit, 2 << 20, Some(1 << 20)),
            (tag, 2 << 20, Some(1 << 20)),
            (wide, 2 << 20, Some(store.objects[&wide].1.len())),
            (wide, 5 << 18, None),
            (flat, 3 << 20, Some(3 << 20)),
            (flat, (3 << 20) - 1, None),
        ] {
            let read = ObjectSource::read(&snapshot, &id, bytes_max);
            match expected {
                Some(len) => assert_eq!(read.unwrap().unwrap().1.len(), len),
                None => assert!(matches!(read, Err(SourceError::TooLarge))),
            }
        }
    }
}
