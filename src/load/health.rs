//! Whether a server still takes pushes, so that a run against one that does not ends early.

use super::pusher::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The last successes and failures of all pushers of one side.
#[derive(Debug)]
pub(super) struct Health {
    begun: Mutex<Instant>,
    pushers: u64,
    successes: AtomicU64,
    /// Since the last success.
    failures: AtomicU64,
    /// Milliseconds after the begin.
    last_success: AtomicU64,
    last_error: Mutex<String>,
}

impl Health {
    pub(super) fn new(pushers: usize) -> Self {
        Self {
            begun: Mutex::new(Instant::now()),
            pushers: pushers as u64,
            successes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_success: AtomicU64::new(0),
            last_error: Mutex::default(),
        }
    }

    /// Begins anew: nothing that took its time before was the server's doing. If nothing has
    /// succeeded since something failed, it was, and the time goes on.
    pub(super) fn restart(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            return;
        }
        *lock(&self.begun) = Instant::now();
        self.last_success.store(0, Ordering::Relaxed);
    }

    pub(super) fn succeeded(&self) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
        let now = u64::try_from(lock(&self.begun).elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_success.store(now, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, text: &str) {
        text.clone_into(&mut lock(&self.last_error));
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Why it makes no sense to go on: nothing has ever succeeded and each pusher has failed, or
    /// nothing has for a while.
    pub(super) fn hopeless(&self, patience: Duration) -> Option<String> {
        let failures = self.failures.load(Ordering::Relaxed);
        let never = self.successes.load(Ordering::Relaxed) == 0;
        let last = Duration::from_millis(self.last_success.load(Ordering::Relaxed));
        let quiet = lock(&self.begun).elapsed().saturating_sub(last);
        let enough = failures >= (2 * self.pushers).max(FAILURES_MIN);
        if never && (enough || (failures >= self.pushers && quiet > patience)) {
            return Some(format!("every push failed from the start: {}", lock(&self.last_error)));
        }
        if failures >= self.pushers && quiet > patience {
            let seconds = patience.as_secs_f64();
            let error = lock(&self.last_error);
            return Some(format!("no push has succeeded for {seconds} s: {error}"));
        }
        None
    }
}

const FAILURES_MIN: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn failures_from_the_start_end_a_run() {
        let health = Health::new(1);
        for _ in 0..9 {
            health.failed("no");
        }
        assert_eq!(health.hopeless(LONG), None);
        health.failed("no");
        assert_eq!(health.hopeless(LONG).unwrap(), "every push failed from the start: no");
    }

    #[test]
    fn failures_among_successes_do_not_and_a_dead_server_does() {
        let health = Health::new(2);
        health.succeeded();
        for _ in 0..100 {
            health.failed("gone");
        }
        assert_eq!(health.hopeless(LONG), None);
        std::thread::sleep(Duration::from_millis(5));
        assert!(health.hopeless(Duration::from_millis(2)).unwrap().contains("gone"));
        health.succeeded();
        assert_eq!(health.hopeless(Duration::ZERO), None);
    }
}
