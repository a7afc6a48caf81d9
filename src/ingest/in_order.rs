//! Work that is done by several threads and put down in order.
//!
//! Whoever is done early leaves what it made and goes on, unless too much lies there already; whoever
//! comes with what is due puts it down, and all that has waited for it.

use super::error::IngestError;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Takes what is due.
pub(super) trait Sink<T> {
    fn put(&mut self, item: T) -> Result<(), IngestError>;
}

/// Something that takes memory while it waits.
pub(super) trait Weighed {
    /// Bytes of memory.
    fn bytes(&self) -> usize;
}

/// Puts items of type `T` down in a sink in the order of their turns, which count from 0.
pub(super) struct InOrder<S, T> {
    state: Mutex<State<S, T>>,
    changed: Condvar,
    waiting_bytes_max: usize,
}

struct State<S, T> {
    /// None until it is open.
    sink: Option<S>,
    /// Whose turn it is.
    turn: usize,
    waiting: BTreeMap<usize, T>,
    bytes: usize,
    has_failed: bool,
}

impl<S: Sink<T>, T: Weighed> InOrder<S, T> {
    /// No sink yet; items that may wait have `waiting_bytes_max` bytes together.
    pub(super) fn new(waiting_bytes_max: usize) -> Self {
        let waiting = BTreeMap::new();
        let state = State { sink: None, turn: 0, waiting, bytes: 0, has_failed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), waiting_bytes_max }
    }

    /// Opens the sink and puts down what is due.
    pub(super) fn open(&self, sink: S) -> Result<(), IngestError> {
        let mut state = self.lock();
        state.sink = Some(sink);
        self.put_down(&mut state)
    }

    /// Leaves the item of a turn. Waits while there is no room, unless it is the one that is due.
    pub(super) fn hand_over(&self, turn: usize, item: T) -> Result<(), IngestError> {
        let bytes = item.bytes();
        let mut state = self.lock();
        while !state.has_failed
            && turn != state.turn
            && state.bytes.saturating_add(bytes) > self.waiting_bytes_max
        {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.has_failed {
            return Err(IngestError::Cancelled);
        }
        state.bytes = state.bytes.saturating_add(bytes);
        state.waiting.insert(turn, item);
        self.put_down(&mut state)
    }

    /// Does work that hands items over or opens the sink. If that fails, be it by a panic, a turn
    /// will not come: whoever waits gets [`IngestError::Cancelled`].
    pub(super) fn attend<R>(
        &self,
        work: impl FnOnce() -> Result<R, IngestError>,
    ) -> Result<R, IngestError> {
        let mut attendance = Attendance { order: self, is_over: false };
        let result = work()?;
        attendance.is_over = true;
        Ok(result)
    }

    /// The sink, if it has been opened.
    pub(super) fn into_sink(self) -> Option<S> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).sink
    }

    fn put_down(&self, state: &mut State<S, T>) -> Result<(), IngestError> {
        let State { sink: Some(sink), turn, waiting, bytes, has_failed } = state else {
            return Ok(());
        };
        let before = *turn;
        while let Some(item) = waiting.remove(turn) {
            *bytes = bytes.saturating_sub(item.bytes());
            if let Err(error) = sink.put(item) {
                *has_failed = true;
                self.changed.notify_all();
                return Err(error);
            }
            *turn += 1;
        }
        if *turn != before {
            self.changed.notify_all();
        }
        Ok(())
    }
}

impl<S, T> InOrder<S, T> {
    fn give_up(&self) {
        self.lock().has_failed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<S, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody at work. A panic, too, must not leave others waiting: it is passed on only when all of
/// them have ended.
struct Attendance<'a, S, T> {
    order: &'a InOrder<S, T>,
    is_over: bool,
}

impl<S, T> Drop for Attendance<'_, S, T> {
    fn drop(&mut self) {
        if !self.is_over {
            self.order.give_up();
        }
    }
}

impl<S, T> fmt::Debug for InOrder<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InOrder").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::{self, ScopedJoinHandle};

    /// A turn, and the bytes it claims to have.
    #[derive(Debug)]
    struct Item(usize, usize);

    impl Weighed for Item {
        fn bytes(&self) -> usize {
            self.1
        }
    }

    /// Fails at one of them.
    #[derive(Debug)]
    struct List {
        turns: Vec<usize>,
        fails_at: Option<usize>,
    }

    impl Sink<Item> for List {
        fn put(&mut self, item: Item) -> Result<(), IngestError> {
            if self.fails_at == Some(item.0) {
                return Err(IngestError::Reread);
            }
            self.turns.push(item.0);
            Ok(())
        }
    }

    /// Lets four threads work at 200 turns; the sink is opened late.
    fn run(
        fails_at: Option<usize>,
        gives_up_at: Option<usize>,
    ) -> (Option<List>, Vec<Result<(), IngestError>>) {
        let order = InOrder::new(100);
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= 200 {
                    return Ok(());
                }
                if gives_up_at == Some(turn) {
                    return Err(IngestError::Reread);
                }
                if turn.is_multiple_of(7) {
                    thread::yield_now();
                }
                // Some alone are more than may wait together.
                order.hand_over(turn, Item(turn, turn * 13 % 120))?;
            }
        };
        let work = || order.attend(work);
        let results = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            let mut results = vec![order.open(List { turns: Vec::new(), fails_at })];
            results.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
            results
        });
        (order.into_sink(), results)
    }

    #[test]
    fn items_come_in_the_order_of_their_turns_whoever_is_done_first() {
        let (list, results) = run(None, None);
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(list.unwrap().turns, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn a_failure_ends_everybody_and_one_of_them_tells_it() {
        for (fails_at, gives_up_at) in [(Some(50), None), (None, Some(50)), (Some(0), None)] {
            let (list, results) = run(fails_at, gives_up_at);
            let told = results.iter().filter(|result| matches!(result, Err(IngestError::Reread)));
            assert_eq!(told.count(), 1);
            let turns = list.unwrap().turns;
            assert!(turns.len() <= 50 && turns.is_sorted());
        }
    }

    #[test]
    fn nobody_waits_for_the_turn_of_a_thread_that_has_panicked() {
        for in_sink in [false, true] {
            let order = InOrder::new(100);
            thread::scope(|scope| {
                // They wait for room, which only the first turn makes.
                let waiting: Vec<_> = (1..4)
                    .map(|turn| {
                        let order = &order;
                        scope.spawn(move || order.attend(|| order.hand_over(turn, Item(turn, 80))))
                    })
                    .collect();
                while order.lock().bytes == 0 {
                    thread::yield_now();
                }
                let panics = scope.spawn(|| {
                    order.attend(|| {
                        order.open(Panicking)?;
                        assert!(in_sink, "before its turn is handed over");
                        order.hand_over(0, Item(0, 1))
                    })
                });
                assert!(panics.join().is_err());
                let ended: Vec<_> = waiting.into_iter().map(ScopedJoinHandle::join).collect();
                let told =
                    ended.iter().filter(|result| matches!(result, Ok(Err(IngestError::Cancelled))));
                assert_eq!(told.count(), 2, "{ended:?}");
            });
        }
    }

    #[derive(Debug)]
    struct Panicking;

    impl Sink<Item> for Panicking {
        fn put(&mut self, item: Item) -> Result<(), IngestError> {
            panic!("{item:?}");
        }
    }
}
