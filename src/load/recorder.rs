//! What pushes took and how they ended, counted by the thread that sent them.
//!
//! Latencies are those of pushes that began within the measured window, however late they ended;
//! the rate counts those that ended within it. Nothing of the warm-up is in either.

use super::series::{Series, histogram, note};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// From when to when a run is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The end of the warm-up.
    pub(super) from: Instant,
    /// The end; `None` where a number of pushes ends the run.
    pub(super) to: Option<Instant>,
}

/// One push that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pushed {
    /// When it began: at the first byte of its GET, or when it was due.
    pub(super) begun: Instant,
    /// When the last byte of the answer was there.
    pub(super) ended: Instant,
    /// From the first byte of the last GET to the last of its answer.
    pub(super) get: Option<Duration>,
    /// From the first byte of the last POST to the last of its answer.
    pub(super) post: Duration,
    /// Bytes of the request bodies.
    pub(super) bytes: u64,
    /// Commands in it.
    pub(super) commands: u64,
}

/// One thread's count.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    run_begun: Instant,
    pub(super) latency: Histogram<u64>,
    pub(super) get: Histogram<u64>,
    pub(super) post: Histogram<u64>,
    pub(super) fetch: Histogram<u64>,
    /// In the order in which the server tells them.
    pub(super) steps: Vec<(String, Histogram<u64>)>,
    pub(super) series: Series,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) totals: Totals,
    /// Since the last look of the progress line.
    pub(super) recent: Recent,
    /// Since the last round of a comparison began.
    pub(super) round: Histogram<u64>,
    pub(super) last_end: Option<Instant>,
}

/// Sums over the measured window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    /// Pushes that ended in the window.
    pub(super) pushes: u64,
    /// Bytes of their bodies.
    pub(super) bytes: u64,
    /// Their commands.
    pub(super) commands: u64,
    /// Fetches that ended in the window.
    pub(super) fetches: u64,
    /// Bytes that they brought.
    pub(super) fetched_bytes: u64,
    /// Attempts that another push was faster than.
    pub(super) lost_races: u64,
    /// Connections opened, and the time it took.
    pub(super) connections: u64,
    pub(super) connecting: Duration,
    /// Pushes and fetches that failed, warm-up included.
    pub(super) failures: u64,
    /// Pushes acknowledged, warm-up included.
    pub(super) acknowledged: u64,
}

/// What the progress line tells.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    pub(super) latency: Histogram<u32>,
    pub(super) bytes: u64,
}

impl Window {
    /// Whether what begins at this instant is measured.
    pub(super) fn holds(&self, instant: Instant) -> bool {
        instant >= self.from && self.to.is_none_or(|to| instant < to)
    }
}

impl Recorder {
    pub(super) fn new(run_begun: Instant) -> Self {
        Self {
            run_begun,
            latency: histogram(3),
            get: histogram(3),
            post: histogram(3),
            fetch: histogram(3),
            steps: Vec::new(),
            series: Series::new(),
            errors: BTreeMap::new(),
            totals: Totals::default(),
            recent: Recent::new(),
            round: histogram(3),
            last_end: None,
        }
    }

    /// Notes a push that was acknowledged.
    pub(super) fn pushed(&mut self, window: Window, push: &Pushed) {
        let latency = nanoseconds(push.ended.saturating_duration_since(push.begun));
        self.totals.acknowledged += 1;
        note(&mut self.recent.latency, latency);
        self.recent.bytes += push.bytes;
        if window.holds(push.ended) {
            self.totals.pushes += 1;
            self.totals.bytes += push.bytes;
            self.totals.commands += push.commands;
            self.last_end = self.last_end.max(Some(push.ended));
        }
        if window.holds(push.begun) {
            note(&mut self.latency, latency);
            note(&mut self.round, latency);
            if let Some(get) = push.get {
                note(&mut self.get, nanoseconds(get));
            }
            note(&mut self.post, nanoseconds(push.post));
            self.series.note(self.since_begin(push.ended), Some(latency));
        }
    }

    /// Notes the steps that a server told of a push that began at an instant.
    pub(super) fn told(&mut self, window: Window, begun: Instant, steps: Vec<(String, Duration)>) {
        if !window.holds(begun) {
            return;
        }
        for (name, time) in steps {
            if let Some(step) = self.step(name) {
                note(step, nanoseconds(time));
            }
        }
    }

    /// Notes a fetch.
    pub(super) fn fetched(&mut self, window: Window, begun: Instant, ended: Instant, bytes: u64) {
        if window.holds(ended) {
            self.totals.fetches += 1;
            self.totals.fetched_bytes += bytes;
        }
        if window.holds(begun) {
            note(&mut self.fetch, nanoseconds(ended.saturating_duration_since(begun)));
        }
    }

    /// Notes something that failed, by its text.
    pub(super) fn failed(&mut self, text: String) {
        self.totals.failures += 1;
        self.series.note(self.since_begin(Instant::now()), None);
        let known = self.errors.len() < ERRORS_MAX || self.errors.contains_key(&text);
        let text = if known { text } else { OTHER_ERRORS.to_owned() };
        *self.errors.entry(text).or_default() += 1;
    }

    /// Adds what another thread counted.
    pub(super) fn add(&mut self, other: Self) {
        let pairs = [
            (&mut self.latency, other.latency),
            (&mut self.get, other.get),
            (&mut self.post, other.post),
            (&mut self.fetch, other.fetch),
            (&mut self.round, other.round),
        ];
        for (own, others) in pairs {
            // A histogram that resizes itself takes any value of another.
            let _ = own.add(&others);
        }
        for (name, step) in other.steps {
            if let Some(own) = self.step(name) {
                let _ = own.add(&step);
            }
        }
        self.series.add(other.series);
        for (text, count) in other.errors {
            *self.errors.entry(text).or_default() += count;
        }
        self.totals.add(&other.totals);
        self.last_end = self.last_end.max(other.last_end);
    }

    /// The times of the step of this name, unless there are too many steps.
    fn step(&mut self, name: String) -> Option<&mut Histogram<u64>> {
        let known = self.steps.iter().position(|(step, _)| *step == name);
        let place = known.unwrap_or(self.steps.len());
        if known.is_none() && place < STEPS_MAX {
            self.steps.push((name, histogram(3)));
        }
        self.steps.get_mut(place).map(|(_, step)| step)
    }

    fn since_begin(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.run_begun)
    }
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.pushes += other.pushes;
        self.bytes += other.bytes;
        self.commands += other.commands;
        self.fetches += other.fetches;
        self.fetched_bytes += other.fetched_bytes;
        self.lost_races += other.lost_races;
        self.connections += other.connections;
        self.connecting += other.connecting;
        self.failures += other.failures;
        self.acknowledged += other.acknowledged;
    }
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { latency: histogram(2), bytes: 0 }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Different texts that are kept; a server that says something else each time must not fill the
/// memory.
const ERRORS_MAX: usize = 100;
const OTHER_ERRORS: &str = "(other errors)";
const STEPS_MAX: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn second(base: Instant, second: u64) -> Instant {
        base + Duration::from_secs(second)
    }

    fn push(base: Instant, begun: u64, ended: u64) -> Pushed {
        Pushed {
            begun: second(base, begun),
            ended: second(base, ended),
            get: None,
            post: Duration::from_millis(1),
            bytes: 10,
            commands: 1,
        }
    }

    #[test]
    fn the_window_holds_latencies_by_their_start_and_the_rate_by_the_end() {
        let base = Instant::now();
        let mut recorder = Recorder::new(base);
        let window = Window { from: second(base, 10), to: Some(second(base, 20)) };
        for (begun, ended) in [(1, 2), (9, 11), (11, 12), (19, 25), (21, 22)] {
            recorder.pushed(window, &push(base, begun, ended));
        }
        assert_eq!(recorder.totals.pushes, 2, "9 to 11 and 11 to 12");
        assert_eq!(recorder.latency.len(), 2, "11 to 12 and 19 to 25");
        let slowest = Duration::from_nanos(recorder.latency.max());
        assert_eq!(slowest.as_secs(), 6, "a push that outlives the window still counts");
        assert_eq!(recorder.totals.acknowledged, 5);
    }

    #[test]
    fn a_push_that_was_due_earlier_took_longer() {
        let base = Instant::now();
        let mut recorder = Recorder::new(base);
        let window = Window { from: base, to: None };
        // Due at 1, answered at 4: whenever the pusher came to it.
        recorder.pushed(window, &push(base, 1, 4));
        assert_eq!(Duration::from_nanos(recorder.latency.max()).as_secs(), 3);
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let base = Instant::now();
        let mut recorder = Recorder::new(base);
        let window = Window { from: base, to: None };
        for milliseconds in 1..=1000 {
            let ended = base + Duration::from_millis(milliseconds);
            recorder.pushed(window, &Pushed { ended, ..push(base, 0, 0) });
        }
        for (quantile, expected) in [(0.5, 500.0), (0.9, 900.0), (0.99, 990.0), (0.999, 999.0)] {
            let value = Duration::from_nanos(recorder.latency.value_at_quantile(quantile));
            let share = value.as_secs_f64() * 1000.0 / expected;
            assert!((0.999..1.001).contains(&share), "{quantile}: {value:?}");
        }
    }

    #[test]
    fn steps_stay_in_the_order_of_the_server_and_their_number_is_bounded() {
        let base = Instant::now();
        let window = Window { from: base, to: None };
        let told = |names: &[&str]| -> Vec<(String, Duration)> {
            names.iter().map(|name| ((*name).to_owned(), Duration::from_millis(1))).collect()
        };
        let (mut recorder, mut other) = (Recorder::new(base), Recorder::new(base));
        recorder.told(window, base, told(&["unpack", "connectivity", "refs"]));
        other.told(window, base, told(&["refs", "unpack"]));
        recorder.add(other);
        let counts: Vec<(&str, u64)> =
            recorder.steps.iter().map(|(name, step)| (name.as_str(), step.len())).collect();
        assert_eq!(counts, [("unpack", 2), ("connectivity", 1), ("refs", 2)]);
        for number in 0..2 * STEPS_MAX {
            recorder.told(window, base, told(&[&number.to_string()]));
        }
        assert_eq!(recorder.steps.len(), STEPS_MAX);
    }

    #[test]
    fn errors_are_counted_by_text_and_their_number_is_bounded() {
        let base = Instant::now();
        let mut recorder = Recorder::new(base);
        for number in 0..300 {
            recorder.failed(format!("error {number}"));
        }
        recorder.failed("error 1".into());
        let mut other = Recorder::new(base);
        other.failed("error 1".into());
        recorder.add(other);
        assert_eq!(recorder.errors["error 1"], 3);
        assert_eq!(recorder.errors[OTHER_ERRORS], 200);
        assert_eq!(recorder.totals.failures, 302);
    }
}
