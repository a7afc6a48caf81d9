//! Who of a process may move which ref next.
//!
//! Of several pushes that build on one value of a ref, one can move it. The others would have
//! checked and flushed what they brought for nothing, and kept the disk from the one that counts. So
//! they take turns; whose turn it is looks whether the ref is still as it was, and mostly has
//! nothing more to do.
//!
//! It is a matter of thrift alone: what guards a ref is its lock file, and who has waited long
//! enough goes on without a turn.

use bstr::BString;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A ref of one of the repositories: the directory that the refs lie in, and the name on disk.
pub(super) type RefPlace = (PathBuf, BString);

/// The refs on which somebody is at work.
#[derive(Debug, Default)]
pub(super) struct RefQueue {
    taken: Mutex<HashMap<RefPlace, Arc<Condvar>>>,
}

/// A turn at some refs, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'q> {
    queue: &'q RefQueue,
    refs: Vec<RefPlace>,
}

impl RefQueue {
    /// Waits until nobody is at work on any of these refs, or for as long as `patience`; whether
    /// there was anything to wait for.
    pub(super) fn wait(&self, refs: &[RefPlace], patience: Duration) -> bool {
        let mut waited = false;
        drop(self.free(refs, patience, &mut waited));
        waited
    }

    /// Waits for the turn at all of these refs; `None` if it did not come in time. Whoever holds
    /// a turn must not ask for another.
    pub(super) fn take(&self, refs: &[RefPlace], patience: Duration) -> Option<Turn<'_>> {
        let mut taken = self.free(refs, patience, &mut false)?;
        for place in refs {
            taken.insert(place.clone(), Arc::default());
        }
        Some(Turn { queue: self, refs: refs.to_vec() })
    }

    /// The table at a moment when none of the refs is in it. All are taken at once, so that no two
    /// wait for each other.
    fn free(
        &self,
        refs: &[RefPlace],
        patience: Duration,
        waited: &mut bool,
    ) -> Option<MutexGuard<'_, HashMap<RefPlace, Arc<Condvar>>>> {
        let deadline = Instant::now() + patience;
        let mut taken = self.lock();
        while let Some(end) = refs.iter().find_map(|place| taken.get(place)).cloned() {
            *waited = true;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let result = end.wait_timeout(taken, left);
            taken = result.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(taken)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RefPlace, Arc<Condvar>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut taken = self.queue.lock();
        for place in &self.refs {
            if let Some(end) = taken.remove(place) {
                end.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(5);

    fn place(name: &str) -> RefPlace {
        ("r.git".into(), name.into())
    }

    #[test]
    fn nobody_else_has_a_turn_at_a_ref_while_one_lasts() {
        let queue = RefQueue::default();
        let turn = queue.take(&[place("a"), place("b")], SHORT).unwrap();
        assert!(queue.take(&[place("b"), place("c")], SHORT).is_none());
        assert!(queue.wait(&[place("a")], SHORT));
        let other = queue.take(&[place("c")], SHORT).unwrap();
        assert!(queue.take(&[("other.git".into(), "a".into())], SHORT).is_some());
        drop(turn);
        assert!(!queue.wait(&[place("a")], SHORT));
        assert!(queue.take(&[place("b")], SHORT).is_some());
        drop(other);
        assert!(queue.lock().is_empty());
    }

    #[test]
    fn turns_at_many_refs_follow_each_other_and_none_waits_for_ever() {
        let queue = RefQueue::default();
        let at_work = [AtomicUsize::new(0), AtomicUsize::new(0)];
        thread::scope(|scope| {
            for number in 0..8 {
                let (queue, at_work) = (&queue, &at_work);
                scope.spawn(move || {
                    let names = if number % 2 == 0 { ["a", "b"] } else { ["b", "a"] }.map(place);
                    for _ in 0..200 {
                        let _turn = queue.take(&names, LONG).unwrap();
                        for count in at_work {
                            assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0);
                        }
                        for count in at_work {
                            count.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(queue.lock().is_empty());
    }

    #[test]
    fn a_turn_ends_with_a_panic() {
        let queue = RefQueue::default();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = queue.take(&[place("a")], SHORT).unwrap();
            panic!("on purpose");
        }));
        assert!(result.is_err());
        assert!(queue.take(&[place("a")], SHORT).is_some());
    }
}
