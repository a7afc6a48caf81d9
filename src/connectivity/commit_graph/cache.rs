//! Commit-graphs kept between pushes.

use super::graph::{CHAIN, CommitGraph, SINGLE};
use crate::model::HashKind;
use crate::repo::{Disk, Stat};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The commit-graphs of many repositories, within a budget of bytes; those that were not asked
/// for the longest go first.
///
/// A graph is read again when `stat` tells its file, or the file of its chain, from the one that
/// was read. That is enough without a look at the clock: git replaces these files by renames, and
/// what they say about an id never changes.
#[derive(Debug)]
pub struct CommitGraphCache {
    entries: Mutex<Vec<Entry>>,
    bytes_max: u64,
}

#[derive(Debug)]
struct Entry {
    directories: Vec<PathBuf>,
    stamp: Vec<Stamp>,
    /// `None` for files that are of no use: they need not be read again either.
    graph: Option<Arc<CommitGraph>>,
}

/// The two files from which a graph can begin.
type Stamp = [Option<Stat>; 2];

impl CommitGraphCache {
    /// A cache that holds at most `bytes_max` of graphs, and reads none that is larger.
    pub fn new(bytes_max: u64) -> Self {
        Self { entries: Mutex::new(Vec::new()), bytes_max }
    }

    /// The commit-graph of a repository with these objects directories, its own first and then
    /// those of its alternates. `None` if there is none that can be used; see
    /// [`commit_graph`](super).
    pub fn load(
        &self,
        disk: &Disk,
        objects_directories: &[PathBuf],
        hash: HashKind,
    ) -> Option<Arc<CommitGraph>> {
        let stamp: Vec<_> = objects_directories
            .iter()
            .map(|directory| {
                [SINGLE, CHAIN].map(|file| disk.stat(&directory.join(file)).ok().flatten())
            })
            .collect();
        if stamp.iter().flatten().all(Option::is_none) {
            return None;
        }
        if let Some(entry) = self.take(objects_directories).filter(|entry| entry.stamp == stamp) {
            let graph = entry.graph.clone();
            self.put(entry);
            return graph;
        }
        // Not under the lock: other repositories must not wait for this disk.
        let graph = CommitGraph::load(disk, objects_directories, hash, self.bytes_max);
        let graph = graph.map(Arc::new);
        let directories = objects_directories.to_vec();
        self.put(Entry { directories, stamp, graph: graph.clone() });
        graph
    }

    fn take(&self, directories: &[PathBuf]) -> Option<Entry> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let place = entries.iter().position(|entry| entry.directories == directories)?;
        Some(entries.remove(place))
    }

    /// Adds an entry as the last to go, and lets others go until all fit.
    fn put(&self, entry: Entry) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|other| other.directories != entry.directories);
        entries.push(entry);
        let mut bytes: u64 = entries.iter().map(Entry::bytes_len).sum();
        let mut gone = 0;
        while bytes > self.bytes_max || entries.len() - gone > ENTRIES_MAX {
            let Some(entry) = entries.get(gone) else { break };
            bytes -= entry.bytes_len();
            gone += 1;
        }
        entries.drain(..gone);
    }
}

impl Entry {
    fn bytes_len(&self) -> u64 {
        self.graph.as_ref().map_or(0, |graph| graph.bytes_len())
    }
}

/// The search is linear.
const ENTRIES_MAX: usize = 256;
