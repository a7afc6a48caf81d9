//! What is remembered between pushes: the packs of each objects directory.

use super::descriptors::Descriptors;
use super::directory_state::State;
use super::error::SnapshotError;
use super::known_indexes::Surroundings;
use super::object_snapshot::ObjectSnapshot;
use crate::model::HashKind;
use crate::repo::{DirectoryWatches, Disk};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Remembers the pack indexes of objects directories, for all pushes of a process. Clones share
/// what they remember.
///
/// Each directory is remembered for itself: a thousand forks that borrow from one directory share
/// its table. Everything is kept within a number of bytes, the directory that was least recently
/// asked for being forgotten first; what a running push uses stays until the push has ended, and
/// is not counted after it was forgotten.
#[derive(Clone)]
pub struct SnapshotCache {
    shared: Arc<Shared>,
}

/// The objects directories of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Its own `objects`.
    pub own: PathBuf,
    /// The `objects` of its alternates, theirs included, the nearest first. One that does not
    /// exist has no objects.
    pub alternates: Vec<PathBuf>,
}

/// Finds out again which objects directories a repository has.
pub(super) type ResolveSources = dyn Fn() -> io::Result<Sources> + Send + Sync;

struct Shared {
    disk: Disk,
    directory_bytes_max: u64,
    total_bytes_max: u64,
    open: Descriptors<File>,
    watches: DirectoryWatches,
    directories: Mutex<Directories>,
}

#[derive(Default)]
struct Directories {
    by_path: HashMap<PathBuf, Remembered>,
    /// Counts the uses, to tell which directory was used last.
    uses: u64,
}

struct Remembered {
    /// Locked while the directory is looked at: the pushes that come meanwhile wait for one
    /// listing instead of making one each.
    state: Arc<Mutex<State>>,
    bytes: u64,
    last_use: u64,
}

/// Indexes that are open at once because they are searched where they lie.
const INDEXES_OPEN_MAX: usize = 256;

/// LIMIT: directories whose changes the kernel tells. Each keeps a kilobyte in the kernel, and a
/// user may have 8,192 at the least, other programs' included.
const DIRECTORIES_WATCHED_MAX: usize = 1024;

/// By default, all directories together may take this many times what one may.
const DIRECTORIES_AT_FULL_SIZE: u64 = 8;

/// Bytes that a directory without packs counts for.
const BYTES_OF_A_DIRECTORY: u64 = 1 << 10;

impl SnapshotCache {
    /// A cache that knows nothing yet. The tables of one objects directory take at most
    /// `index_cache_bytes_max` (see [`Limits`](crate::model::Limits)), the lists of its loose
    /// objects as much again, and those of all directories eight times as much.
    pub fn new(disk: Disk, index_cache_bytes_max: u64) -> Self {
        let total = index_cache_bytes_max.saturating_mul(DIRECTORIES_AT_FULL_SIZE);
        Self::with_total(disk, index_cache_bytes_max, total)
    }

    /// As [`new`](Self::new), for a process of many pushes: it has the kernel tell what changes in
    /// the directories of packs, where that can be relied on, so that they need not be listed again.
    pub fn following(disk: Disk, index_cache_bytes_max: u64) -> Self {
        let total = index_cache_bytes_max.saturating_mul(DIRECTORIES_AT_FULL_SIZE);
        let watches = DirectoryWatches::new(DIRECTORIES_WATCHED_MAX);
        Self::with(disk, index_cache_bytes_max, total, watches)
    }

    /// A cache that is bounded to this many bytes for all directories together.
    pub fn with_total(disk: Disk, index_cache_bytes_max: u64, total_bytes_max: u64) -> Self {
        Self::with(disk, index_cache_bytes_max, total_bytes_max, DirectoryWatches::new(0))
    }

    fn with(
        disk: Disk,
        directory_bytes_max: u64,
        total_bytes_max: u64,
        watches: DirectoryWatches,
    ) -> Self {
        let shared = Shared {
            disk,
            directory_bytes_max,
            total_bytes_max,
            open: Descriptors::new(INDEXES_OPEN_MAX),
            watches,
            directories: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// What the repository has now. The snapshot should be taken after the refs were advertised,
    /// so that it is at least as new as what the client was told.
    pub fn snapshot(
        &self,
        sources: &Sources,
        hash: HashKind,
    ) -> Result<ObjectSnapshot, SnapshotError> {
        ObjectSnapshot::take(self, sources.clone(), None, hash)
    }

    /// As [`snapshot`](Self::snapshot); the one refresh of the push asks `resolve` which objects
    /// directories there are by then. A repository can be made to borrow from another while a push
    /// runs, and a repack then drops what the other has.
    pub fn snapshot_resolving(
        &self,
        sources: &Sources,
        hash: HashKind,
        resolve: impl Fn() -> io::Result<Sources> + Send + Sync + 'static,
    ) -> Result<ObjectSnapshot, SnapshotError> {
        ObjectSnapshot::take(self, sources.clone(), Some(Arc::new(resolve)), hash)
    }

    /// Adds a pack that this process has put into `objects/pack`, by its index, so that the next
    /// snapshot need not open it.
    ///
    /// This never makes the next snapshot skip a listing: another writer's pack may have come
    /// just before ours. Running snapshots do not see the pack. `index` is the path of the index
    /// and `bytes` its content; an index that is not what it should be is left to the listing.
    pub fn note_pack(&self, objects: &Path, index: &Path, bytes: &[u8]) {
        let Some(state) = self.remembered(objects) else {
            return;
        };
        let mut state = lock(&state);
        let Some(hash) = state.hash else {
            return;
        };
        let directory = objects.join("pack");
        if state.known.add_own(&self.around(&directory, hash), index, bytes) {
            self.count(&mut state, objects);
        }
    }

    /// Bytes of memory that the cache takes.
    pub fn bytes(&self) -> u64 {
        let directories = lock(&self.shared.directories);
        directories.by_path.values().map(|remembered| remembered.bytes).sum()
    }

    pub(super) fn disk(&self) -> &Disk {
        &self.shared.disk
    }

    pub(super) fn directory_bytes_max(&self) -> u64 {
        self.shared.directory_bytes_max
    }

    pub(super) fn watches(&self) -> &DirectoryWatches {
        &self.shared.watches
    }

    pub(super) fn open_indexes(&self) -> &Descriptors<File> {
        &self.shared.open
    }

    pub(super) fn around<'a>(&'a self, directory: &'a Path, hash: HashKind) -> Surroundings<'a> {
        Surroundings {
            disk: &self.shared.disk,
            hash,
            directory,
            bytes_max: self.shared.directory_bytes_max,
            open: &self.shared.open,
        }
    }

    fn remembered(&self, objects: &Path) -> Option<Arc<Mutex<State>>> {
        let directories = lock(&self.shared.directories);
        directories.by_path.get(objects).map(|remembered| Arc::clone(&remembered.state))
    }

    pub(super) fn remember(&self, objects: &Path) -> Arc<Mutex<State>> {
        let mut directories = lock(&self.shared.directories);
        directories.uses += 1;
        let last_use = directories.uses;
        if let Some(remembered) = directories.by_path.get_mut(objects) {
            remembered.last_use = last_use;
            return Arc::clone(&remembered.state);
        }
        let state = Arc::new(Mutex::default());
        let remembered =
            Remembered { state: Arc::clone(&state), bytes: BYTES_OF_A_DIRECTORY, last_use };
        directories.by_path.insert(objects.to_owned(), remembered);
        state
    }

    /// Notes what a directory takes, and forgets others until all fit.
    pub(super) fn account(&self, objects: &Path, bytes: u64) {
        let mut directories = lock(&self.shared.directories);
        if let Some(remembered) = directories.by_path.get_mut(objects) {
            remembered.bytes = bytes.saturating_add(BYTES_OF_A_DIRECTORY);
        }
        let mut total: u64 = directories.by_path.values().map(|remembered| remembered.bytes).sum();
        while total > self.shared.total_bytes_max {
            let oldest = directories
                .by_path
                .iter()
                .filter(|(path, _)| path.as_path() != objects)
                .min_by_key(|(_, remembered)| remembered.last_use)
                .map(|(path, _)| path.clone());
            let Some(forgotten) = oldest.and_then(|path| directories.by_path.remove(&path)) else {
                return;
            };
            total = total.saturating_sub(forgotten.bytes);
        }
    }
}

impl fmt::Debug for SnapshotCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotCache").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
