//! Several flushes of one push at the same time, where that wins.
//!
//! A disk serves flushes that wait together with one of its own, so that five at a time take little
//! longer than one. A push that has the disk to itself therefore lets some threads flush beside it.
//! Where many pushes flush at once the disk is busy already, and threads would only cost.

use super::disk::Disk;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// LIMIT: threads that flush for one push, its own included.
const THREADS_MAX: usize = 4;

impl Disk {
    /// Flushes all of `items`, in any order if nobody else is at it, else one after the other.
    /// After an error the rest may not have been flushed; the first that is met is told.
    pub(super) fn flush_together<T: Sync>(
        &self,
        items: &[T],
        flush: impl Fn(&T) -> io::Result<()> + Sync,
    ) -> io::Result<()> {
        let turn = Turn::take(&self.shared.flushing);
        // A record is of one order.
        let helpers = if turn.is_alone && self.shared.recorder.is_none() {
            items.len().min(THREADS_MAX).saturating_sub(1)
        } else {
            0
        };
        if helpers == 0 {
            return items.iter().try_for_each(flush);
        }
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                flush(item)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            // A thread that cannot be had is not needed.
            let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (0..helpers).filter_map(start).collect();
            let own = work();
            others.into_iter().fold(own, |result, other| {
                let ended = other.join();
                result.and(ended.unwrap_or_else(|_| Err(io::Error::other("a flush panicked"))))
            })
        })
    }
}

/// One who flushes; counted, so that others see that the disk is busy.
struct Turn<'a> {
    flushing: &'a AtomicUsize,
    is_alone: bool,
}

impl<'a> Turn<'a> {
    fn take(flushing: &'a AtomicUsize) -> Self {
        let before = flushing.fetch_add(1, Ordering::Relaxed);
        Self { flushing, is_alone: before == 0 }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.flushing.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn alone_one_flushes_on_several_threads_and_each_item_once() {
        let disk = Disk::default();
        let (done, threads) = (Mutex::new(Vec::new()), Mutex::new(HashSet::new()));
        // The first of them wait for each other: that takes as many threads.
        let barrier = Barrier::new(THREADS_MAX);
        let items: Vec<usize> = (0..20).collect();
        disk.flush_together(&items, |item| {
            if *item < THREADS_MAX {
                barrier.wait();
            }
            done.lock().unwrap().push(*item);
            threads.lock().unwrap().insert(thread::current().id());
            Ok(())
        })
        .unwrap();
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert_eq!(done, items);
        assert_eq!(threads.into_inner().unwrap().len(), THREADS_MAX);
    }

    #[test]
    fn beside_others_one_flushes_in_order_on_its_own_thread() {
        let disk = Disk::default();
        let own = thread::current().id();
        disk.flush_together(&[()], |()| {
            let done = Mutex::new(Vec::new());
            disk.flush_together(&[1, 2, 3], |item| {
                assert_eq!(thread::current().id(), own);
                done.lock().unwrap().push(*item);
                Ok(())
            })?;
            assert_eq!(done.into_inner().unwrap(), [1, 2, 3]);
            Ok(())
        })
        .unwrap();
        assert_eq!(disk.shared.flushing.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_failure_fails_all() {
        let disk = Disk::default();
        for at in 0..6 {
            let flushed = disk.flush_together(&[0, 1, 2, 3, 4, 5], |item| {
                if *item == at { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
            });
            assert_eq!(flushed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
    }
}
