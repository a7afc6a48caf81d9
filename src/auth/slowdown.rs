//! Those who give wrong passwords wait, and longer each time.
//!
//! Guarantees that an address from which wrong passwords came may try one at a time, in turns that
//! are further and further apart; that the table of addresses is bounded; and that nobody is locked
//! out: a turn comes within [`WAIT_MAX`] or not at all, turns go to right passwords as to wrong ones,
//! and an address is forgiven when it has been quiet for [`FORGIVEN_AFTER`]. Nothing waits here: how
//! long to wait is told, and an asynchronous caller holds no thread for it.
//!
//! IPv6 addresses count by their first 64 bits, which belong to one network.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The addresses that wrong passwords came from.
#[derive(Debug, Default)]
pub(super) struct Slowdown(Mutex<HashMap<IpAddr, Record>>);

#[derive(Clone, Copy, Debug)]
struct Record {
    failures: u32,
    last_failure: Instant,
    /// When the next attempt may be made.
    next_turn: Instant,
}

impl Slowdown {
    /// How long an attempt from `address` has to wait for its turn. An error is how long to stay
    /// away: too many are waiting already.
    pub(super) fn turn(&self, address: IpAddr, now: Instant) -> Result<Duration, Duration> {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(record) = records.get_mut(&network(address)) else { return Ok(Duration::ZERO) };
        if record.is_forgiven(now) {
            return Ok(Duration::ZERO);
        }
        let wait = record.next_turn.saturating_duration_since(now);
        if wait > WAIT_MAX {
            return Err(wait);
        }
        let pause = record.pause();
        record.next_turn = record.next_turn.max(now).checked_add(pause).unwrap_or(now);
        Ok(wait)
    }

    /// Notes that wrong credentials came from `address`.
    pub(super) fn note_failure(&self, address: IpAddr, now: Instant) {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let network = network(address);
        if records.len() >= ADDRESSES_MAX && !records.contains_key(&network) {
            records.retain(|_, record| !record.is_forgiven(now));
            if records.len() >= ADDRESSES_MAX {
                // LIMIT: whoever has so many addresses is not held up by any of them.
                let oldest = records.iter().min_by_key(|(_, record)| record.last_failure);
                if let Some(oldest) = oldest.map(|(address, _)| *address) {
                    records.remove(&oldest);
                }
            }
        }
        let fresh = Record { failures: 0, last_failure: now, next_turn: now };
        let record = records.entry(network).or_insert(fresh);
        if record.is_forgiven(now) {
            *record = fresh;
        }
        record.failures = record.failures.saturating_add(1);
        record.last_failure = now;
        record.next_turn = record.next_turn.max(now.checked_add(record.pause()).unwrap_or(now));
    }
}

impl Record {
    fn is_forgiven(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last_failure) >= FORGIVEN_AFTER
    }

    /// How far turns are apart: nothing for the first few failures, then twice as far with each.
    fn pause(&self) -> Duration {
        match self.failures.checked_sub(FREE_FAILURES) {
            None | Some(0) => Duration::ZERO,
            Some(over) => {
                FIRST_PAUSE.saturating_mul(1 << over.min(8).saturating_sub(1)).min(PAUSE_MAX)
            }
        }
    }
}

/// Failures that cost nothing: anybody mistypes, and a helper may hold an old password.
const FREE_FAILURES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// LIMIT: how long an attempt waits for its turn.
const WAIT_MAX: Duration = Duration::from_secs(8);
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);
/// LIMIT: addresses that are remembered.
const ADDRESSES_MAX: usize = 16384;

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn after_failures(count: u32, now: Instant) -> Slowdown {
        let slowdown = Slowdown::default();
        for _ in 0..count {
            slowdown.note_failure(ADDRESS, now);
        }
        slowdown
    }

    #[test]
    fn the_first_failures_cost_nothing_and_later_ones_ever_more() {
        let now = Instant::now();
        assert_eq!(after_failures(5, now).turn(ADDRESS, now), Ok(Duration::ZERO));
        let milliseconds =
            |count| after_failures(count, now).turn(ADDRESS, now).unwrap().as_millis();
        assert_eq!([6, 7, 8, 20, 1000].map(milliseconds), [100, 200, 400, 2000, 2000]);
    }

    #[test]
    fn attempts_at_once_take_turns_and_too_many_are_sent_away() {
        let now = Instant::now();
        let slowdown = after_failures(1000, now);
        let waits: Vec<_> = (0..5).map(|_| slowdown.turn(ADDRESS, now)).collect();
        let seconds = |s| Ok(Duration::from_secs(s));
        assert_eq!(
            waits,
            [seconds(2), seconds(4), seconds(6), seconds(8), Err(Duration::from_secs(10))]
        );
        // A turn comes free with time, for whoever asks next.
        assert_eq!(slowdown.turn(ADDRESS, now + Duration::from_secs(2)), seconds(8));
    }

    #[test]
    fn another_address_is_not_concerned_and_a_network_is_one() {
        let now = Instant::now();
        let slowdown = after_failures(100, now);
        assert_eq!(slowdown.turn("192.0.2.2".parse().unwrap(), now), Ok(Duration::ZERO));
        assert!(slowdown.turn("::ffff:192.0.2.1".parse().unwrap(), now).unwrap() > Duration::ZERO);
        for _ in 0..10 {
            slowdown.note_failure("2001:db8::1".parse().unwrap(), now);
        }
        assert!(slowdown.turn("2001:db8::2".parse().unwrap(), now).unwrap() > Duration::ZERO);
        assert_eq!(slowdown.turn("2001:db8:0:1::1".parse().unwrap(), now), Ok(Duration::ZERO));
    }

    #[test]
    fn an_address_that_was_quiet_is_forgiven() {
        let now = Instant::now();
        let slowdown = after_failures(100, now);
        let later = now + FORGIVEN_AFTER;
        assert_eq!(slowdown.turn(ADDRESS, later), Ok(Duration::ZERO));
        slowdown.note_failure(ADDRESS, later);
        assert_eq!(slowdown.turn(ADDRESS, later), Ok(Duration::ZERO));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_oldest_first() {
        let slowdown = Slowdown::default();
        let now = Instant::now();
        for number in 0..=u32::try_from(ADDRESSES_MAX).unwrap() {
            let address = IpAddr::from(std::net::Ipv4Addr::from_bits(number));
            slowdown.note_failure(address, now + Duration::from_millis(number.into()));
        }
        let records = slowdown.0.lock().unwrap();
        assert_eq!(records.len(), ADDRESSES_MAX);
        assert!(!records.contains_key(&IpAddr::from([0, 0, 0, 0])));
    }
}
