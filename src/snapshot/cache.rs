//! What is remembered between pushes: the packs of each objects directory.

use super::descriptors::Descriptors;
use super::error::SnapshotError;
use super::index_file::is_gone;
use super::object_snapshot::ObjectSnapshot;
use super::pack_list::{PackList, Surroundings};
use crate::model::HashKind;
use crate::repo::{Disk, Stamp};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

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

#[derive(Default)]
struct State {
    hash: Option<HashKind>,
    /// The stamp of `objects/pack` before the listing, if it proves that nothing has changed.
    stamp: Option<Stamp>,
    listed_at: Option<Instant>,
    packs: Arc<PackList>,
}

/// How new the answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// An unchanged stamp proves it.
    Stamp,
    /// Listed since this instant, whatever the stamp says.
    ListedSince(Instant),
}

/// Indexes that are open at once because they are searched where they lie.
const INDEXES_OPEN_MAX: usize = 256;

/// By default, all directories together may take this many times what one may.
const DIRECTORIES_AT_FULL_SIZE: u64 = 8;

/// LIMIT: how long a directory is listed again because packs vanish. A repack removes a thousand
/// packs in less on a disk at rest.
const LISTING_TIME_MAX: Duration = Duration::from_secs(5);
/// Listings of a directory at rest that may name an index which is not there.
const ABSENT_TIMES_MAX: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// Bytes that a directory without packs counts for.
const BYTES_OF_A_DIRECTORY: u64 = 1 << 10;

impl SnapshotCache {
    /// A cache that knows nothing yet. The tables of one objects directory take at most
    /// `index_cache_bytes_max` (see [`Limits`](crate::model::Limits)), those of all directories
    /// eight times as much.
    pub fn new(disk: Disk, index_cache_bytes_max: u64) -> Self {
        let total = index_cache_bytes_max.saturating_mul(DIRECTORIES_AT_FULL_SIZE);
        Self::with_total(disk, index_cache_bytes_max, total)
    }

    /// A cache that is bounded to this many bytes for all directories together.
    pub fn with_total(disk: Disk, index_cache_bytes_max: u64, total_bytes_max: u64) -> Self {
        let shared = Shared {
            disk,
            directory_bytes_max: index_cache_bytes_max,
            total_bytes_max,
            open: Descriptors::new(INDEXES_OPEN_MAX),
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
        if let Some(packs) = state.packs.with_pack(&self.around(&directory, hash), index, bytes) {
            self.account(objects, packs.bytes());
            state.packs = Arc::new(packs);
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

    pub(super) fn open_indexes(&self) -> &Descriptors<File> {
        &self.shared.open
    }

    /// The packs of an objects directory.
    pub(super) fn packs(
        &self,
        objects: &Path,
        hash: HashKind,
        freshness: Freshness,
    ) -> Result<Arc<PackList>, SnapshotError> {
        let state = self.remember(objects);
        let mut state = lock(&state);
        if state.hash != Some(hash) {
            *state = State { hash: Some(hash), ..State::default() };
        }
        if let Freshness::ListedSince(asked) = freshness
            && state.listed_at.is_some_and(|listed| listed >= asked)
        {
            return Ok(Arc::clone(&state.packs));
        }
        let directory = objects.join("pack");
        let stamp = self.stamp(&directory)?;
        if stamp.is_none() || (freshness == Freshness::Stamp && stamp == state.stamp) {
            if stamp.is_none() {
                // A directory that was moved away can come back with the stamp it had.
                (state.stamp, state.packs) = (None, Arc::default());
            }
            return Ok(Arc::clone(&state.packs));
        }
        self.list(&mut state, &directory, stamp, hash, freshness)?;
        self.account(objects, state.packs.bytes());
        Ok(Arc::clone(&state.packs))
    }

    /// The packs of a directory that is not worth remembering.
    pub(super) fn packs_once(
        &self,
        objects: &Path,
        hash: HashKind,
    ) -> Result<Arc<PackList>, SnapshotError> {
        let mut state = State::default();
        let directory = objects.join("pack");
        let stamp = self.stamp(&directory)?;
        if stamp.is_some() {
            self.list(&mut state, &directory, stamp, hash, Freshness::Stamp)?;
        }
        Ok(state.packs)
    }

    /// Lists `objects/pack` and reads what is new in it.
    ///
    /// Again, as long as packs go meanwhile: a listing that overlaps a repack may have neither the
    /// old packs nor the new one. A repack puts the new pack there before it removes the first old
    /// one, so a listing that began after one had gone has the new one. Packs that only come are no
    /// reason. What was read stays read.
    ///
    /// What is in one listing after the other and never there, such as a link that leads nowhere,
    /// has not vanished: that is an error.
    ///
    /// It ends after [`LISTING_TIME_MAX`] with what is there then: an object that is found nowhere
    /// is a miss, for which the push may look again, and no reason to fail all pushes.
    fn list(
        &self,
        state: &mut State,
        directory: &Path,
        mut stamp: Option<Stamp>,
        hash: HashKind,
        freshness: Freshness,
    ) -> Result<(), SnapshotError> {
        let around = self.around(directory, hash);
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        // What was there before, to tell whether anything has gone since.
        let mut is_known = state.listed_at.is_some();
        let (mut absent, mut times_absent) = (None, 0);
        loop {
            let (now, listed_at) = (SystemTime::now(), Instant::now());
            let listing = match around.disk.list(directory) {
                Ok(listing) => listing,
                Err(error) if is_gone(&error) => Vec::new(),
                Err(error) => return Err(SnapshotError::io(directory, error)),
            };
            let stamp_after = self.stamp(directory)?;
            let is_quiet = stamp_after == stamp;
            let (mut vanished, mut has_lost) = (None, false);
            // A directory that has changed by what we have put there ourselves is known already.
            if freshness != Freshness::Stamp || !state.packs.is_as_listed(&listing) {
                let updated = state.packs.update(&around, &listing)?;
                self.close_unlisted(&state.packs, &updated.list);
                state.packs = Arc::new(updated.list);
                (vanished, has_lost) = (updated.vanished, updated.has_lost);
            }
            state.listed_at = Some(listed_at);
            let is_whole = vanished.is_none() && (is_quiet || is_known && !has_lost);
            if is_whole || began.elapsed() >= LISTING_TIME_MAX {
                if let Some(path) = vanished.filter(|_| !is_whole) {
                    let path = path.display().to_string();
                    tracing::warn!(path, "packs still vanish; going on with those that are there");
                }
                let is_proof = is_whole && is_quiet;
                state.stamp = stamp.filter(|stamp| is_proof && stamp.is_settled(now));
                return Ok(());
            }
            times_absent = if is_quiet && absent == vanished { times_absent + 1 } else { 0 };
            absent = vanished;
            if let (Some(path), ABSENT_TIMES_MAX..) = (&absent, times_absent) {
                return Err(SnapshotError::io(path, io::ErrorKind::NotFound.into()));
            }
            is_known = true;
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            stamp = self.stamp(directory)?;
        }
    }

    fn stamp(&self, directory: &Path) -> Result<Option<Stamp>, SnapshotError> {
        let stat = self.shared.disk.stat(directory);
        let stat = stat.map_err(|error| SnapshotError::io(directory, error))?;
        Ok(stat.as_ref().map(Stamp::of_entries))
    }

    fn around<'a>(&'a self, directory: &'a Path, hash: HashKind) -> Surroundings<'a> {
        Surroundings {
            disk: &self.shared.disk,
            hash,
            directory,
            bytes_max: self.shared.directory_bytes_max,
            open: &self.shared.open,
        }
    }

    /// An open file that nobody asks for any more would keep the space of a removed index taken.
    fn close_unlisted(&self, before: &PackList, after: &PackList) {
        let after: Vec<u64> = after.on_disk().collect();
        for number in before.on_disk().filter(|number| !after.contains(number)) {
            self.shared.open.close(number);
        }
    }

    fn remembered(&self, objects: &Path) -> Option<Arc<Mutex<State>>> {
        let directories = lock(&self.shared.directories);
        directories.by_path.get(objects).map(|remembered| Arc::clone(&remembered.state))
    }

    fn remember(&self, objects: &Path) -> Arc<Mutex<State>> {
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
    fn account(&self, objects: &Path, bytes: u64) {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
