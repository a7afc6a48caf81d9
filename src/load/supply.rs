//! The work ahead: parcels made by threads of their own, before the clock starts and while it runs.
//!
//! Memory is bounded: the makers rest while the packs that wait take more than they may. A pusher
//! that finds nothing waits, and the waits are counted: a run with many of them has measured the
//! generator and not the server.

use super::content::Dice;
use super::mix::{FetchKind, Kind, Mix, PushKind};
use super::parcel::{Parcel, ParcelMaker};
use crate::model::HashKind;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// One thing for a pusher to do.
#[derive(Debug)]
pub(super) enum Step {
    /// Push this.
    Push(Box<Parcel>, Arc<PushKind>),
    /// Delete the refs that earlier pushes added; push this if there are none.
    Delete(Box<Parcel>, Arc<PushKind>),
    /// Fetch.
    Fetch(FetchKind),
}

/// The steps ahead, shared by all pushers.
#[derive(Debug)]
pub(super) struct Supply {
    shared: Arc<Shared>,
    makers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    work: Work,
    queue: Mutex<Queue>,
    /// Wakes makers when there is room.
    room: Condvar,
    /// Wakes pushers when there is a step.
    filled: Notify,
    waits: AtomicU64,
}

#[derive(Debug)]
struct Work {
    mix: Mix,
    kinds: Vec<(Arc<PushKind>, ParcelMaker)>,
    /// For each kind of the mix its place in `kinds`.
    places: Vec<usize>,
    run: u64,
}

#[derive(Debug)]
struct Queue {
    steps: VecDeque<Step>,
    bytes: usize,
    bytes_max: usize,
    next: u64,
    end: u64,
    making: usize,
}

/// How much is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    /// Steps at the most, if their number is known.
    pub(super) steps: Option<u64>,
    /// Bytes that may wait.
    pub(super) bytes_max: usize,
    /// Threads that make them.
    pub(super) threads: usize,
}

impl Supply {
    /// Starts the makers.
    pub(super) fn start(mix: &Mix, hash: HashKind, run: u64, amount: Amount) -> Self {
        let shared = Arc::new(Shared {
            work: Work::new(mix, hash, run),
            queue: Mutex::new(Queue {
                steps: VecDeque::new(),
                bytes: 0,
                bytes_max: amount.bytes_max,
                next: FIRST,
                end: amount.steps.map_or(u64::MAX, |steps| FIRST.saturating_add(steps)),
                making: 0,
            }),
            room: Condvar::new(),
            filled: Notify::new(),
            waits: AtomicU64::new(0),
        });
        let makers = (0..amount.threads.max(1))
            .map(|_| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.make_until_stopped())
            })
            .collect();
        Self { shared, makers }
    }

    /// Waits until no more fits, all is made, or it is told to stop; `patience` at the most.
    pub(super) fn fill(&self, patience: Duration, stop: &dyn Fn() -> bool) {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline && !stop() {
            let queue = self.shared.lock();
            if queue.is_full() || (queue.next >= queue.end && queue.making == 0) {
                return;
            }
            drop(queue);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The seeds that must be there before any thin pack is pushed.
    pub(super) fn seeds(&self) -> Vec<Parcel> {
        let kinds = self.shared.work.kinds.iter();
        kinds.zip(0..).filter_map(|((_, maker), number)| maker.seed(number)).collect()
    }

    /// A handle for pushers.
    pub(super) fn tap(&self) -> Tap {
        Tap(Arc::clone(&self.shared))
    }

    /// How often a pusher had to wait for its next step.
    pub(super) fn waits(&self) -> u64 {
        self.shared.waits.load(Ordering::Relaxed)
    }

    /// Forgets the waits so far.
    pub(super) fn reset_waits(&self) {
        self.shared.waits.store(0, Ordering::Relaxed);
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.end = 0;
        queue.steps = VecDeque::new();
        drop(queue);
        self.shared.room.notify_all();
        for maker in self.makers.drain(..) {
            // A maker that panicked has said so.
            drop(maker.join());
        }
    }
}

/// Where pushers take their steps from.
#[derive(Clone, Debug)]
pub(super) struct Tap(Arc<Shared>);

impl Tap {
    /// The next step; `None` once all that was to be made is taken.
    pub(super) async fn next(&self) -> Option<Step> {
        let mut waited = false;
        loop {
            let filled = self.0.filled.notified();
            {
                let mut queue = self.0.lock();
                if let Some(step) = queue.pop() {
                    let roomy = queue.bytes < queue.bytes_max / 4 * 3;
                    drop(queue);
                    if roomy {
                        self.0.room.notify_one();
                    }
                    return Some(step);
                }
                if queue.next >= queue.end && queue.making == 0 {
                    return None;
                }
            }
            if !waited {
                waited = true;
                self.0.waits.fetch_add(1, Ordering::Relaxed);
            }
            self.0.room.notify_all();
            // A step may come between the look and the wait.
            drop(tokio::time::timeout(Duration::from_millis(20), filled).await);
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_until_stopped(&self) {
        loop {
            let numbers = {
                let mut queue = self.lock();
                while queue.is_full() && queue.next < queue.end {
                    queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
                let from = queue.next;
                let to = queue.end.min(from.saturating_add(queue.batch()));
                if from >= to {
                    return;
                }
                queue.next = to;
                queue.making += 1;
                from..to
            };
            let steps: Vec<Step> = numbers.map(|number| self.work.step(number)).collect();
            let mut queue = self.lock();
            queue.making -= 1;
            queue.bytes += steps.iter().map(Step::footprint).sum::<usize>();
            queue.steps.extend(steps);
            drop(queue);
            self.filled.notify_waiters();
        }
    }
}

impl Queue {
    fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// Few at a time where they are large.
    fn batch(&self) -> u64 {
        let mean = self.bytes / self.steps.len().max(1);
        if self.steps.is_empty() || mean > 64 << 10 { 1 } else { 32 }
    }

    fn pop(&mut self) -> Option<Step> {
        let step = self.steps.pop_front()?;
        self.bytes -= step.footprint();
        Some(step)
    }
}

impl Work {
    fn new(mix: &Mix, hash: HashKind, run: u64) -> Self {
        let (mut kinds, mut places) = (Vec::new(), Vec::new());
        for kind in mix.kinds() {
            places.push(kinds.len());
            if let Kind::Push(push) = kind {
                let maker = ParcelMaker::new(push.clone(), hash, run);
                kinds.push((Arc::new(push.clone()), maker));
            }
        }
        Self { mix: mix.clone(), kinds, places, run }
    }

    /// The step of a number: the same each time.
    fn step(&self, number: u64) -> Step {
        let mut dice = Dice::new(super::content::mix(self.run ^ number));
        let drawn = self.mix.draw(&mut dice);
        if let Some(Kind::Fetch(kind)) = self.mix.kinds().get(drawn) {
            return Step::Fetch(*kind);
        }
        let (kind, maker) = &self.kinds[self.places[drawn]];
        let parcel = Box::new(maker.make(number));
        let kind = Arc::clone(kind);
        if kind.delete { Step::Delete(parcel, kind) } else { Step::Push(parcel, kind) }
    }
}

impl Step {
    fn footprint(&self) -> usize {
        match self {
            Self::Push(parcel, _) | Self::Delete(parcel, _) => parcel.footprint(),
            Self::Fetch(_) => size_of::<Self>(),
        }
    }
}

/// The numbers below are the seeds'.
const FIRST: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn supply(steps: Option<u64>, bytes_max: usize) -> Supply {
        let mix = Mix::of(PushKind::plain(1, 2000)).unwrap();
        Supply::start(&mix, HashKind::Sha1, 7, Amount { steps, bytes_max, threads: 2 })
    }

    #[tokio::test]
    async fn as_many_steps_are_made_as_were_asked_for() {
        let supply = supply(Some(100), 20_000);
        let tap = supply.tap();
        let mut taken = 0;
        while tap.next().await.is_some() {
            taken += 1;
        }
        assert_eq!(taken, 100);
        assert!(tap.next().await.is_none());
    }

    #[test]
    fn what_waits_is_bounded() {
        let supply = supply(None, 50_000);
        supply.fill(Duration::from_secs(20), &|| false);
        std::thread::sleep(Duration::from_millis(20));
        let bytes = supply.shared.lock().bytes;
        // Each of two makers may be one batch over.
        assert!((50_000..50_000 + 2 * 32 * 2500).contains(&bytes), "{bytes}");
    }

    #[tokio::test]
    async fn a_pusher_that_finds_nothing_is_counted() {
        let supply = supply(None, 0);
        let tap = supply.tap();
        // Nothing may wait, so nothing is made before somebody asks.
        let asked = tokio::time::timeout(Duration::from_millis(60), tap.next()).await;
        assert!(asked.is_err());
        assert_eq!(supply.waits(), 1);
    }
}
