//! The first look at indexes that nobody has read yet.
//!
//! A process that is started for one push meets every index of a repository for the first time.
//! Each is opened once; a small one is read while it is open, since what costs is the way to the
//! file. Many are shared among threads, each of which puts what it reads into one table.

use super::index_file::{Identity, IndexFile, Unreadable};
use super::known_indexes::{Surroundings, new_index, unreadable, with_ending};
use super::run::Run;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// What became of opening indexes.
#[derive(Debug, Default)]
pub(super) struct FirstLook {
    /// By the place of the index among those asked for, in no order.
    pub(super) looked: Vec<(usize, Result<Looked, Unreadable>)>,
    /// What was read.
    pub(super) runs: Vec<Run>,
}

/// An index that was opened.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) file: Arc<IndexFile>,
    /// Whether a table has it, because it is a small one.
    pub(super) is_read: bool,
}

/// Bytes of an index that is read at once.
const SMALL_BYTES: u64 = 64 << 10;

/// Indexes for which another thread is worth its start.
const SHARE_OF_A_THREAD: usize = 128;
/// Indexes that a thread takes at a time: neighbours may keep a processor from one of them.
const TAKEN_AT_ONCE: usize = 32;
/// More do not make one directory any faster.
const THREADS_MAX: usize = 4;

/// Opens the indexes of these names.
pub(super) fn first_look(around: &Surroundings<'_>, stems: &[&OsStr]) -> FirstLook {
    let shared = Shared { read: AtomicU64::new(0), next: AtomicUsize::new(0) };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let threads = threads.min(stems.len() / SHARE_OF_A_THREAD);
    let mut all = thread::scope(|scope| {
        // Where there is no other thread to be had, this one does it all.
        let start = |_| thread::Builder::new().spawn_scoped(scope, || look(around, stems, &shared));
        let others: Vec<_> = (1..threads).map(start).filter_map(Result::ok).collect();
        let mut all = look(around, stems, &shared);
        for other in others {
            let FirstLook { looked, runs } = other.join().unwrap_or_default();
            all.looked.extend(looked);
            all.runs.extend(runs);
        }
        all
    });
    // A thread that could not end is no reason to leave its share out.
    if all.looked.len() < stems.len() {
        shared.next.store(0, Ordering::Relaxed);
        all = look(around, stems, &shared);
    }
    all
}

/// What the threads share.
struct Shared {
    /// Bytes of memory that will be taken by what was read.
    read: AtomicU64,
    /// The first index that nobody has taken.
    next: AtomicUsize,
}

fn look(around: &Surroundings<'_>, stems: &[&OsStr], shared: &Shared) -> FirstLook {
    let mut looked = Vec::new();
    let mut run = Run::new(around.hash.len_in_bytes());
    let mut buffer = Vec::new();
    loop {
        let start = shared.next.fetch_add(TAKEN_AT_ONCE, Ordering::Relaxed);
        let Some(rest) = stems.get(start..).filter(|rest| !rest.is_empty()) else { break };
        for (place, stem) in rest.iter().take(TAKEN_AT_ONCE).enumerate() {
            let result = look_at(around, stem, shared, &mut run, &mut buffer);
            looked.push((start + place, result));
        }
    }
    run.sort();
    FirstLook { looked, runs: vec![run] }
}

fn look_at(
    around: &Surroundings<'_>,
    stem: &OsStr,
    shared: &Shared,
    run: &mut Run,
    buffer: &mut Vec<u8>,
) -> Result<Looked, Unreadable> {
    let path = with_ending(around.directory, stem, ".idx");
    let opened = around.disk.open(&path).map_err(|error| unreadable(&path, error))?;
    let identity = Identity::of_file(&opened).map_err(|error| unreadable(&path, error))?;
    let file = Arc::new(new_index(around, stem, identity));
    let estimate = identity.memory_estimate();
    let read = &shared.read;
    // What would not fit the memory anyway is not read to be thrown away.
    let is_read = identity.size <= SMALL_BYTES
        && read.fetch_add(estimate, Ordering::Relaxed).saturating_add(estimate) <= around.bytes_max;
    if is_read {
        file.load_into(run, &opened, around.hash, buffer)?;
    } else {
        // It stays open for what comes next: being read whole, or being searched.
        around.open.file(file.number(), || Ok::<_, Unreadable>(opened))?;
    }
    Ok(Looked { file, is_read })
}
