//! The first look at indexes that nobody has read yet.
//!
//! A process that is started for one push meets every index of a repository for the first time.
//! Each is opened once; a small one is read while it is open, since what costs is the way to the
//! file. Many are shared among threads.

use super::index_file::{Identity, IndexFile, Unreadable};
use super::pack_list::{Surroundings, new_index, unreadable, with_ending};
use super::run::Run;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// An index that was opened.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) file: Arc<IndexFile>,
    /// Its table, if it is a small one.
    pub(super) run: Option<Run>,
}

/// Bytes of an index that is read at once.
const SMALL_BYTES: u64 = 64 << 10;

/// Indexes for which another thread is worth its start.
const SHARE_OF_A_THREAD: usize = 128;
/// More do not make one directory any faster.
const THREADS_MAX: usize = 4;

/// Opens the indexes of these names, in their order.
pub(super) fn first_look(
    around: &Surroundings<'_>,
    stems: &[&OsString],
) -> Vec<Result<Looked, Unreadable>> {
    let read = AtomicU64::new(0);
    let look = |stems: &[&OsString]| -> Vec<Result<Looked, Unreadable>> {
        stems.iter().map(|stem| look_at(around, stem, &read)).collect()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let threads = threads.min(stems.len() / SHARE_OF_A_THREAD);
    if threads < 2 {
        return look(stems);
    }
    let mut shares = stems.chunks(stems.len().div_ceil(threads));
    let own = shares.next().unwrap_or_default();
    thread::scope(|scope| {
        let others: Vec<_> = shares.map(|share| (share, scope.spawn(|| look(share)))).collect();
        let mut looked = look(own);
        for (share, other) in others {
            // A thread that could not end is no reason to leave its share out.
            looked.extend(other.join().unwrap_or_else(|_| look(share)));
        }
        looked
    })
}

fn look_at(
    around: &Surroundings<'_>,
    stem: &OsStr,
    read: &AtomicU64,
) -> Result<Looked, Unreadable> {
    let path = with_ending(around.directory, stem, ".idx");
    let opened = around.disk.open(&path).map_err(|error| unreadable(&path, error))?;
    let identity = Identity::of_file(&opened).map_err(|error| unreadable(&path, error))?;
    let file = new_index(around, stem, identity);
    let estimate = identity.memory_estimate();
    // What would not fit the memory anyway is not read to be thrown away.
    let run = if identity.size <= SMALL_BYTES
        && read.fetch_add(estimate, Ordering::Relaxed).saturating_add(estimate) <= around.bytes_max
    {
        Some(file.load(&opened, around.hash)?)
    } else {
        // It stays open for what comes next: being read whole, or being searched.
        around.open.file(file.number(), || Ok::<_, Unreadable>(opened))?;
        None
    };
    Ok(Looked { file: Arc::new(file), run })
}
