//! Lists of loose objects that outlive a push.
//!
//! A push of thousands of objects asks for nearly every fan-out directory. What was listed for one
//! push serves the next at the cost of one `stat` each, as long as the directory's stamp is that of
//! the listing, and old enough to prove that nothing has changed; or as long as there still is no
//! such directory.

use super::error::SnapshotError;
use crate::model::ObjectId;
use crate::repo::{Disk, Stamp};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The lists of one objects directory.
#[derive(Debug, Default)]
pub(super) struct LooseLists {
    lists: Mutex<Lists>,
    bytes_max: u64,
}

#[derive(Debug, Default)]
struct Lists {
    /// By first byte; no stamp is that of a directory that is not there.
    by_first: HashMap<u8, (Option<Stamp>, Arc<[ObjectId]>)>,
    bytes: u64,
}

impl LooseLists {
    /// Keeps lists of at most so many bytes.
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { lists: Mutex::default(), bytes_max }
    }

    /// Bytes that the lists take.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Whether anything is kept: then a `stat` for each fan-out directory that is asked tells more
    /// than a list of them.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().by_first.is_empty()
    }

    /// The list of a fan-out directory, if it is kept and still right.
    pub(super) fn kept(
        &self,
        disk: &Disk,
        first: u8,
        fan_out: &Path,
    ) -> Result<Option<Arc<[ObjectId]>>, SnapshotError> {
        let Some((known, objects)) = self.lock().by_first.get(&first).cloned() else {
            return Ok(None);
        };
        Ok((stamp(disk, fan_out)? == known).then_some(objects))
    }

    /// Notes that there is no such fan-out directory.
    pub(super) fn keep_absent(&self, first: u8) {
        self.lock().keep(first, None, Arc::default());
    }

    /// What `list` gives, which is kept if that is safe; `None` if it gives none.
    pub(super) fn list(
        &self,
        disk: &Disk,
        first: u8,
        fan_out: &Path,
        list: impl FnOnce() -> Result<Option<Vec<ObjectId>>, SnapshotError>,
    ) -> Result<Option<Arc<[ObjectId]>>, SnapshotError> {
        let now = SystemTime::now();
        let stamp = stamp(disk, fan_out)?;
        let objects: Option<Arc<[ObjectId]>> = list()?.map(Arc::from);
        let mut lists = self.lock();
        lists.forget(first);
        if let (Some(stamp), Some(objects)) = (stamp, &objects)
            && stamp.is_settled(now)
            && lists.bytes.saturating_add(bytes_of(objects)) <= self.bytes_max
        {
            lists.keep(first, Some(stamp), Arc::clone(objects));
        }
        Ok(objects)
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lists {
    fn keep(&mut self, first: u8, stamp: Option<Stamp>, objects: Arc<[ObjectId]>) {
        self.forget(first);
        self.bytes = self.bytes.saturating_add(bytes_of(&objects));
        self.by_first.insert(first, (stamp, objects));
    }

    fn forget(&mut self, first: u8) {
        if let Some((_, forgotten)) = self.by_first.remove(&first) {
            self.bytes = self.bytes.saturating_sub(bytes_of(&forgotten));
        }
    }
}

fn stamp(disk: &Disk, directory: &Path) -> Result<Option<Stamp>, SnapshotError> {
    let stat = disk.stat(directory).map_err(|error| SnapshotError::io(directory, error))?;
    Ok(stat.as_ref().map(Stamp::of_entries))
}

fn bytes_of(objects: &[ObjectId]) -> u64 {
    size_of_val(objects) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HashKind;
    use crate::snapshot::testing::settle;

    #[test]
    fn bytes_are_those_of_the_lists_that_are_kept_whatever_they_were_before() {
        let root = tempfile::tempdir().unwrap();
        settle(root.path());
        let disk = Disk::default();
        let lists = LooseLists::new(1 << 20);
        let list = |count: usize| {
            let ids = vec![ObjectId::null(HashKind::Sha1); count];
            lists.list(&disk, 7, root.path(), || Ok(Some(ids))).unwrap();
            lists.bytes()
        };
        let one = list(1);
        assert!(one > 0);
        assert_eq!((list(3), list(2)), (3 * one, 2 * one));
        lists.keep_absent(7);
        assert_eq!(lists.bytes(), 0);
    }
}
