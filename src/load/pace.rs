//! When a pusher may push: the gate of a run, its number of pushes, its rate of arrivals.
//!
//! Closed loop: a pusher pushes as soon as its last push is answered. Open loop: pushes are due at
//! fixed instants, whether or not a pusher is free; one that is taken up late began when it was
//! due. A server that stalls is so charged with every push that it held up, not only with those
//! that happened to be on their way (what is called coordinated omission otherwise).

use super::recorder::Window;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};

/// Lets the pushers of one side in.
#[derive(Debug)]
pub(super) struct Gate {
    state: watch::Sender<State>,
    busy: AtomicUsize,
    /// Pushes that may still begin in the window.
    tickets: Option<AtomicI64>,
    arrivals: Option<Arc<Arrivals>>,
}

/// Whether pushes may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not now.
    Shut,
    /// As long as the window lasts.
    Open(Window),
    /// Never again.
    Over,
}

/// Pushes at fixed instants.
#[derive(Debug)]
pub(super) struct Arrivals {
    due: Semaphore,
    rate: f64,
    schedule: OnceLock<Schedule>,
    taken: AtomicU64,
}

/// The instants at which pushes are due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    begin: Instant,
    interval: Duration,
}

/// A push that may begin. The gate knows of it until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    gate: &'a Gate,
    /// When it was due, in open loop.
    pub(super) due: Option<Instant>,
    pub(super) window: Window,
}

impl Gate {
    /// A gate that is shut. `count` bounds the pushes that begin in the window.
    pub(super) fn new(count: Option<u64>, arrivals: Option<Arc<Arrivals>>) -> Self {
        let tickets = count.map(|count| AtomicI64::new(i64::try_from(count).unwrap_or(i64::MAX)));
        Self {
            state: watch::Sender::new(State::Shut),
            busy: AtomicUsize::new(0),
            tickets,
            arrivals,
        }
    }

    pub(super) fn set(&self, state: State) {
        self.state.send_replace(state);
    }

    /// To be notified of changes.
    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Pushes that have begun and not ended.
    pub(super) fn busy(&self) -> usize {
        self.busy.load(Ordering::SeqCst)
    }

    /// Whether all pushes of a run with a number have begun.
    pub(super) fn is_sold_out(&self) -> bool {
        self.tickets.as_ref().is_some_and(|tickets| tickets.load(Ordering::SeqCst) <= 0)
    }

    /// Waits for a turn; `None` when there will be no more.
    pub(super) async fn turn(&self, watch: &mut watch::Receiver<State>) -> Option<Turn<'_>> {
        loop {
            let state = *watch.borrow_and_update();
            match state {
                State::Over => return None,
                State::Open(window) if window.to.is_none_or(|to| Instant::now() < to) => {
                    // Counted before the last look, so that whoever shuts the gate and finds
                    // nobody busy can rely on it.
                    self.busy.fetch_add(1, Ordering::SeqCst);
                    let mut turn = Turn { gate: self, due: None, window };
                    if *self.state.borrow() != state {
                        continue;
                    }
                    if let Some(arrivals) = &self.arrivals {
                        turn.due = Some(arrivals.next().await?);
                    }
                    if !self.take_ticket(window) {
                        // Whoever waits for an arrival need not: none will be served.
                        if let Some(arrivals) = &self.arrivals {
                            arrivals.stop();
                        }
                        return None;
                    }
                    return Some(turn);
                }
                _ => watch.changed().await.ok()?,
            }
        }
    }

    fn take_ticket(&self, window: Window) -> bool {
        match &self.tickets {
            Some(tickets) if window.holds(Instant::now()) => {
                tickets.fetch_sub(1, Ordering::SeqCst) > 0
            }
            _ => true,
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.gate.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Schedule {
    /// `rate` pushes a second from `begin` on.
    pub(super) fn new(begin: Instant, rate: f64) -> Self {
        Self { begin, interval: Duration::from_secs_f64(1.0 / rate) }
    }

    /// When a push is due.
    pub(super) fn due(&self, number: u64) -> Instant {
        let nanoseconds = self.interval.as_nanos().saturating_mul(u128::from(number));
        self.begin + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

impl Arrivals {
    /// Pushes at `rate` a second.
    pub(super) fn new(rate: f64) -> Self {
        let (due, taken) = (Semaphore::new(0), AtomicU64::new(0));
        Self { due, rate, schedule: OnceLock::new(), taken }
    }

    /// Lets pushes arrive when they are due, from `begin` until `end` or until [`Self::stop`].
    /// Meant for a thread of its own: timers of a runtime are a millisecond late.
    pub(super) fn dispatch(&self, begin: Instant, end: Option<Instant>) {
        let schedule = *self.schedule.get_or_init(|| Schedule::new(begin, self.rate));
        for number in 0.. {
            let due = schedule.due(number);
            if end.is_some_and(|end| due >= end) || self.due.is_closed() {
                return;
            }
            let now = Instant::now();
            if due > now {
                // Never for long, so that a stop is soon seen.
                let mut left = due - now;
                while left > NAP && !self.due.is_closed() {
                    std::thread::sleep(NAP);
                    left = due.saturating_duration_since(Instant::now());
                }
                std::thread::sleep(left.min(NAP));
            }
            self.due.add_permits(1);
        }
    }

    /// Ends it; gives the number of pushes that were due and were taken up by nobody.
    pub(super) fn stop(&self) -> u64 {
        let left = self.due.available_permits();
        self.due.close();
        left as u64
    }

    /// Waits for the next push; gives the instant at which it was due.
    async fn next(&self) -> Option<Instant> {
        self.due.acquire().await.ok()?.forget();
        let schedule = self.schedule.get()?;
        Some(schedule.due(self.taken.fetch_add(1, Ordering::Relaxed)))
    }
}

const NAP: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn window(milliseconds: u64) -> Window {
        let from = Instant::now();
        Window { from, to: Some(from + Duration::from_millis(milliseconds)) }
    }

    #[tokio::test]
    async fn turns_end_with_the_window_and_the_run() {
        let gate = Gate::new(None, None);
        let mut watch = gate.watch();
        gate.set(State::Open(window(10_000)));
        let turn = gate.turn(&mut watch).await.unwrap();
        assert_eq!(gate.busy(), 1);
        drop(turn);
        assert_eq!(gate.busy(), 0);
        gate.set(State::Shut);
        let waiting = tokio::time::timeout(Duration::from_millis(20), gate.turn(&mut watch));
        assert!(waiting.await.is_err());
        gate.set(State::Over);
        assert!(gate.turn(&mut watch).await.is_none());
        assert_eq!(gate.busy(), 0);
    }

    #[tokio::test]
    async fn as_many_turns_are_given_as_there_are_tickets() {
        let gate = Gate::new(Some(2), None);
        let mut watch = gate.watch();
        gate.set(State::Open(Window { from: Instant::now(), to: None }));
        assert!(gate.turn(&mut watch).await.is_some());
        assert!(!gate.is_sold_out());
        assert!(gate.turn(&mut watch).await.is_some());
        assert!(gate.is_sold_out());
        assert!(gate.turn(&mut watch).await.is_none());
    }

    #[tokio::test]
    async fn a_late_pusher_is_charged_from_the_instant_the_push_was_due() {
        let begin = Instant::now();
        let arrivals = Arc::new(Arrivals::new(100.0));
        let gate = Gate::new(None, Some(Arc::clone(&arrivals)));
        let mut watch = gate.watch();
        gate.set(State::Open(Window { from: begin, to: None }));
        arrivals.dispatch(begin, Some(begin + Duration::from_millis(45)));
        for number in 0..5 {
            let turn = gate.turn(&mut watch).await.unwrap();
            assert_eq!(turn.due, Some(begin + Duration::from_millis(10 * number)));
        }
        assert_eq!(arrivals.stop(), 0);
        assert!(gate.turn(&mut watch).await.is_none());
    }

    #[tokio::test]
    async fn what_nobody_took_up_is_counted() {
        let begin = Instant::now();
        let arrivals = Arrivals::new(1000.0);
        arrivals.dispatch(begin, Some(begin + Duration::from_millis(20)));
        arrivals.next().await.unwrap();
        assert_eq!(arrivals.stop(), 19);
        assert!(arrivals.next().await.is_none());
    }
}
