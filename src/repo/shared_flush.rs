//! Flushes of directories that pushes share.
//!
//! Many pushes to one repository change the same few directories, and each has to see them flushed
//! before it is acknowledged. One flush serves all who had changed the directory before it began:
//! whoever asks while one is under way waits for the next, which one of those who wait then does
//! for all of them. Nobody waits for company: alone, a push flushes at once.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The directories that are being flushed.
#[derive(Debug, Default)]
pub(super) struct SharedFlushes(Mutex<HashMap<PathBuf, Arc<Directory>>>);

#[derive(Debug, Default)]
struct Directory {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many ask for it now; the last to leave forgets it.
    users: usize,
    /// Flushes that have begun, one at a time.
    begun: u64,
    is_running: bool,
    /// The flushes that failed, by their numbers.
    failed: Vec<(u64, Failure)>,
}

impl State {
    /// Flushes that have ended.
    fn ended(&self) -> u64 {
        self.begun.saturating_sub(self.is_running.into())
    }
}

/// An error that several are told.
#[derive(Clone, Debug)]
struct Failure {
    kind: io::ErrorKind,
    errno: Option<i32>,
    text: String,
}

impl SharedFlushes {
    /// Sees to it that the directory at `path` is flushed by a flush that begins from now on:
    /// `flush` does it, or somebody else's.
    pub(super) fn flush(
        &self,
        path: &Path,
        flush: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let user = self.join(path);
        user.directory.flush(flush)
    }

    fn join<'a>(&'a self, path: &'a Path) -> User<'a> {
        let mut all = lock(&self.0);
        let directory = match all.get(path) {
            Some(directory) => Arc::clone(directory),
            None => Arc::clone(all.entry(path.to_owned()).or_default()),
        };
        lock(&directory.state).users += 1;
        User { all: self, path, directory }
    }
}

/// One who asks for a flush.
struct User<'a> {
    all: &'a SharedFlushes,
    path: &'a Path,
    directory: Arc<Directory>,
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        let mut all = lock(&self.all.0);
        let mut state = lock(&self.directory.state);
        state.users = state.users.saturating_sub(1);
        if state.users == 0 {
            all.remove(self.path);
        }
    }
}

impl Directory {
    fn flush(&self, flush: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = lock(&self.state);
        // What is under way may have begun before the change that is to be flushed.
        let wanted = state.begun + 1;
        while state.ended() < wanted && state.is_running {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended() >= wanted {
            let failed = state.failed.iter().find(|(number, _)| *number == wanted);
            return failed.map_or(Ok(()), |(_, failure)| Err(failure.to_error()));
        }
        state.begun = wanted;
        state.is_running = true;
        drop(state);
        let running = Running { directory: self, number: wanted, result: None };
        running.end(flush())
    }
}

/// A flush under way. Dropped on a panic, it counts as failed, so that nobody waits for ever.
struct Running<'a> {
    directory: &'a Directory,
    number: u64,
    result: Option<Result<(), Failure>>,
}

impl Running<'_> {
    fn end(mut self, result: io::Result<()>) -> io::Result<()> {
        self.result = Some(result.as_ref().map_err(Failure::of).copied());
        result
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let panicked = || Err(Failure::of(&io::Error::other("the flush was not finished")));
        let mut state = lock(&self.directory.state);
        if let Err(failure) = self.result.take().unwrap_or_else(panicked) {
            state.failed.push((self.number, failure));
        }
        state.is_running = false;
        self.directory.ended.notify_all();
    }
}

impl Failure {
    fn of(error: &io::Error) -> Self {
        Self { kind: error.kind(), errno: error.raw_os_error(), text: error.to_string() }
    }

    fn to_error(&self) -> io::Error {
        match self.errno {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(self.kind, self.text.clone()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    fn path() -> &'static Path {
        Path::new("/objects/pack")
    }

    fn is_idle(flushes: &SharedFlushes) -> bool {
        lock(&flushes.0).is_empty()
    }

    /// Waits until so many ask for the directory.
    fn wait_for_users(flushes: &SharedFlushes, users: usize) {
        while lock(&flushes.0).get(path()).map_or(0, |d| lock(&d.state).users) < users {
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn alone_one_flushes_at_once_and_leaves_nothing() {
        let flushes = SharedFlushes::default();
        let mut done = 0;
        for _ in 0..3 {
            flushes
                .flush(path(), || {
                    done += 1;
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(done, 3);
        assert!(is_idle(&flushes));
    }

    #[test]
    fn those_who_come_during_a_flush_share_the_next_and_its_failure() {
        for fails in [false, true] {
            let flushes = SharedFlushes::default();
            let done = AtomicU64::new(0);
            let (begun, has_begun) = mpsc::channel();
            let (end, may_end) = mpsc::channel::<()>();
            thread::scope(|scope| {
                let first = scope.spawn(|| {
                    flushes.flush(path(), move || {
                        begun.send(()).unwrap();
                        may_end.recv().unwrap();
                        Ok(())
                    })
                });
                has_begun.recv().unwrap();
                let others: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| {
                            flushes.flush(path(), || {
                                done.fetch_add(1, Ordering::Relaxed);
                                if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
                            })
                        })
                    })
                    .collect();
                wait_for_users(&flushes, 9);
                // All of them are about to wait or wait already.
                thread::sleep(Duration::from_millis(20));
                assert_eq!(done.load(Ordering::Relaxed), 0, "what runs began too early for them");
                end.send(()).unwrap();
                first.join().unwrap().unwrap();
                for other in others {
                    let told = other.join().unwrap();
                    assert_eq!(told.is_err(), fails, "{told:?}");
                }
            });
            assert_eq!(done.load(Ordering::Relaxed), 1);
            assert!(is_idle(&flushes));
        }
    }

    #[test]
    fn every_change_is_followed_by_a_flush_that_began_after_it() {
        let flushes = SharedFlushes::default();
        let (changes, durable) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let mine = changes.fetch_add(1, Ordering::SeqCst) + 1;
                        flushes
                            .flush(path(), || {
                                let seen = changes.load(Ordering::SeqCst);
                                thread::yield_now();
                                durable.fetch_max(seen, Ordering::SeqCst);
                                Ok(())
                            })
                            .unwrap();
                        assert!(durable.load(Ordering::SeqCst) >= mine);
                    }
                });
            }
        });
        assert!(is_idle(&flushes));
    }

    #[test]
    fn a_flush_that_panics_keeps_nobody_waiting() {
        let flushes = SharedFlushes::default();
        thread::scope(|scope| {
            let panics = scope.spawn(|| flushes.flush(path(), || panic!("on purpose")));
            assert!(panics.join().is_err());
        });
        assert!(is_idle(&flushes));
        flushes.flush(path(), || Ok(())).unwrap();
    }
}
