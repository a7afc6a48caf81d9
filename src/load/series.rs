//! Latency over time, in a bounded number of slots: when they run out, each gets twice as long.

use hdrhistogram::Histogram;
use std::time::Duration;

/// What happened in the slots of a run, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Series {
    width: Duration,
    slots: Vec<Slot>,
}

/// What happened within one slot.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Latencies of the pushes that ended in it, in nanoseconds.
    pub(super) latency: Histogram<u32>,
    /// Pushes that failed in it.
    pub(super) failed: u64,
}

impl Series {
    pub(super) fn new() -> Self {
        Self { width: FIRST_WIDTH, slots: Vec::new() }
    }

    /// Notes a push that ended `at` after the start of the run, with its latency unless it failed.
    pub(super) fn note(&mut self, at: Duration, latency: Option<u64>) {
        while self.place(at) >= SLOTS_MAX {
            self.double();
        }
        let place = self.place(at);
        while self.slots.len() <= place {
            self.slots.push(Slot::new());
        }
        let Some(slot) = self.slots.get_mut(place) else { return };
        match latency {
            Some(latency) => note(&mut slot.latency, latency),
            None => slot.failed += 1,
        }
    }

    /// Adds what another series of the same run saw.
    pub(super) fn add(&mut self, mut other: Self) {
        while self.width < other.width {
            self.double();
        }
        while other.width < self.width {
            other.double();
        }
        for (place, slot) in other.slots.into_iter().enumerate() {
            match self.slots.get_mut(place) {
                Some(own) => own.add(&slot),
                None => self.slots.push(slot),
            }
        }
    }

    /// The slots with the time at which each begins.
    pub(super) fn slots(&self) -> impl Iterator<Item = (Duration, &Slot)> {
        (0..).zip(&self.slots).map(|(place, slot)| (self.width * place, slot))
    }

    /// How long a slot is.
    pub(super) fn width(&self) -> Duration {
        self.width
    }

    fn place(&self, at: Duration) -> usize {
        usize::try_from(at.as_nanos() / self.width.as_nanos()).unwrap_or(usize::MAX)
    }

    fn double(&mut self) {
        self.width *= 2;
        let mut slots = std::mem::take(&mut self.slots).into_iter();
        while let Some(mut slot) = slots.next() {
            if let Some(next) = slots.next() {
                slot.add(&next);
            }
            self.slots.push(slot);
        }
    }
}

impl Slot {
    fn new() -> Self {
        Self { latency: histogram(2), failed: 0 }
    }

    fn add(&mut self, other: &Self) {
        // A histogram that resizes itself takes any value of another.
        let _ = self.latency.add(&other.latency);
        self.failed += other.failed;
    }
}

/// A histogram of nanoseconds that keeps some decimal digits of each value, and grows as it must.
pub(super) fn histogram<C: hdrhistogram::Counter>(digits: u8) -> Histogram<C> {
    let mut histogram = Histogram::new(digits).expect("0 to 5 digits are allowed");
    histogram.auto(true);
    histogram
}

/// Notes a number of nanoseconds.
pub(super) fn note<C: hdrhistogram::Counter>(histogram: &mut Histogram<C>, nanoseconds: u64) {
    // It resizes itself, so that it takes any value; zero it would not tell from nothing.
    let _ = histogram.record(nanoseconds.max(1));
}

const FIRST_WIDTH: Duration = Duration::from_millis(250);
const SLOTS_MAX: usize = 240;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(series: &Series) -> Vec<(u64, u64, u64)> {
        series
            .slots()
            .filter(|(_, slot)| !slot.latency.is_empty() || slot.failed > 0)
            .map(|(at, slot)| (at.as_secs(), slot.latency.len(), slot.failed))
            .collect()
    }

    #[test]
    fn a_long_run_gets_long_slots_and_loses_nothing() {
        let mut series = Series::new();
        for second in 0..1000 {
            series.note(Duration::from_secs(second), Some(second + 1));
        }
        series.note(Duration::from_secs(999), None);
        assert!(series.slots.len() <= SLOTS_MAX);
        assert_eq!(series.width(), Duration::from_secs(8));
        assert_eq!(counts(&series).iter().map(|(_, count, _)| count).sum::<u64>(), 1000);
        assert_eq!(counts(&series).last(), Some(&(992, 8, 1)));
    }

    #[test]
    fn two_series_of_different_lengths_add_up() {
        let (mut short, mut long) = (Series::new(), Series::new());
        short.note(Duration::from_secs(1), Some(5));
        long.note(Duration::from_secs(100), Some(7));
        long.add(short.clone());
        short.note(Duration::from_secs(100), Some(7));
        assert_eq!(counts(&long), counts(&short));
        let mut other = Series::new();
        other.note(Duration::from_secs(1), Some(5));
        other.add(short);
        assert_eq!(counts(&other), [(1, 2, 0), (100, 1, 0)]);
    }
}
