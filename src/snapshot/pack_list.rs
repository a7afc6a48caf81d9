//! The packs of one objects directory, as a snapshot sees them.
//!
//! A list never changes while a snapshot holds it: the cache goes on with another. The tables are
//! shared, so that another costs a handful of pointers, however many packs there are.

use super::SnapshotError;
use super::descriptors::Descriptors;
use super::index_file::{IndexFile, Unreadable};
use super::run::{self, PackFile, Run};
use crate::model::oid;
use crate::repo::Disk;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;

/// All packs that have an index, as of one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct PackList {
    /// The indexes in memory, from the longest table to the shortest.
    runs: Vec<Arc<Run>>,
    /// The indexes that are too large for it, or large and not searched often so far.
    on_disk: Vec<Arc<IndexFile>>,
}

/// An object in a pack.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    pub(super) pack: Arc<PackFile>,
    pub(super) offset: u64,
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        (self.pack.number, self.offset) == (other.pack.number, other.offset)
    }
}

impl PackList {
    /// All places of an object; with `first_only` one of them. An index that has gone is left
    /// out, and the last word says that there was one.
    pub(super) fn find(
        &self,
        id: &oid,
        disk: &Disk,
        open: &Descriptors<File>,
        first_only: bool,
    ) -> Result<(Vec<Packed>, bool), SnapshotError> {
        let mut found = Vec::new();
        let mut is_stale = false;
        for run in &self.runs {
            found.extend(run.find(id).map(|(pack, offset)| Packed { pack: pack.clone(), offset }));
            if first_only && !found.is_empty() {
                found.truncate(1);
                return Ok((found, false));
            }
        }
        for file in &self.on_disk {
            match file.find(id, disk, open, id.kind()) {
                Ok(Some((pack, offset))) => found.push(Packed { pack: pack.clone(), offset }),
                Ok(None) => {}
                Err(Unreadable::Gone(_)) => is_stale = true,
                Err(Unreadable::Error(error)) => return Err(error),
            }
            if first_only && !found.is_empty() {
                return Ok((found, false));
            }
        }
        Ok((found, is_stale))
    }

    /// The same list without the packs of these numbers, with new tables, and with these for the
    /// indexes that are searched where they lie.
    pub(super) fn changed(
        &self,
        gone: &HashSet<u64>,
        new: Vec<Run>,
        on_disk: Vec<Arc<IndexFile>>,
    ) -> Self {
        let mut runs = without(&self.runs, gone);
        run::add(&mut runs, new);
        Self { runs, on_disk }
    }

    /// The indexes that are searched where they lie.
    pub(super) fn on_disk(&self) -> &[Arc<IndexFile>] {
        &self.on_disk
    }

    /// Bytes of memory that the tables take, and those that large indexes may have.
    pub(super) fn table_bytes(&self) -> u64 {
        let may_grow = self.on_disk.iter().filter(|file| file.may_load());
        let may_grow: u64 = may_grow.map(|file| file.identity().memory_estimate()).sum();
        self.runs.iter().map(|run| run.bytes()).sum::<u64>().saturating_add(may_grow)
    }
}

fn without(runs: &[Arc<Run>], gone: &HashSet<u64>) -> Vec<Arc<Run>> {
    if gone.is_empty() {
        return runs.to_vec();
    }
    let mut runs: Vec<_> = runs
        .iter()
        .map(|run| run.without(gone).map_or_else(|| Arc::clone(run), Arc::new))
        .filter(|run| run.len() > 0)
        .collect();
    runs.sort_by_key(|run| Reverse(run.len()));
    runs
}
