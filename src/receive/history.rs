//! The one question about history that a ref's check asks: is this a fast-forward.

use crate::links::commit;
use crate::model::{ObjectId, ObjectKind};
use crate::snapshot::{ObjectSnapshot, SnapshotError};
use std::collections::HashSet;

/// LIMIT: bytes of a commit that is read for its parents.
const COMMIT_BYTES_MAX: u64 = 64 << 20;

/// Whether `old` is `new` or one of its ancestors; `None` if either is no commit. Walks from `new`
/// until it meets `old` or has seen all.
pub(super) fn is_fast_forward(
    snapshot: &ObjectSnapshot,
    old: &ObjectId,
    new: &ObjectId,
) -> Result<Option<bool>, SnapshotError> {
    let is_commit = |id| -> Result<bool, SnapshotError> {
        Ok(snapshot.kind_and_size(id)?.is_some_and(|(kind, _)| kind == ObjectKind::Commit))
    };
    if !is_commit(old)? || !is_commit(new)? {
        return Ok(None);
    }
    let mut seen: HashSet<ObjectId> = HashSet::from([*new]);
    let mut open = vec![*new];
    while let Some(id) = open.pop() {
        if id == *old {
            return Ok(Some(true));
        }
        let Some(object) = snapshot.read(&id, COMMIT_BYTES_MAX)? else { continue };
        let Ok(links) = commit(&object.data, snapshot.hash()) else { continue };
        open.extend(links.map_while(Result::ok).filter(|id| seen.insert(*id)));
    }
    Ok(Some(false))
}
