//! How fast a pack has to come while other pushes wait for the memory that it takes.
//!
//! One push at a time goes past the limit of memory, and all others that need some wait until it
//! ends: a client that sends a byte now and then would hold them up as long as it likes. As long as
//! nobody waits, a pack may come as slowly as its network is.

use std::time::Duration;

/// What came lately while others waited, and how long the client let them.
#[derive(Debug, Default)]
pub(super) struct Pace {
    waited: Duration,
    bytes: u64,
}

/// LIMIT: bytes that come while they are waited for as long as [`WINDOW`], some 34 kB a second.
const WINDOW_BYTES_MIN: u64 = 1 << 20;

/// Time spent on waiting for the client alone: what the server does with the bytes counts for
/// nothing.
const WINDOW: Duration = Duration::from_secs(30);

impl Pace {
    /// Takes note of bytes that were waited for, and says whether that is fast enough.
    pub(super) fn keeps_up(&mut self, bytes: usize, waited: Duration) -> bool {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.waited = self.waited.saturating_add(waited);
        if self.waited < WINDOW {
            return true;
        }
        std::mem::take(self).bytes >= WINDOW_BYTES_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_few_bytes_at_a_time_are_too_slow_after_a_while() {
        let mut pace = Pace::default();
        assert!((1..30).all(|_| pace.keeps_up(1, SECOND)));
        assert!(!pace.keeps_up(1, SECOND));
        assert!((1..30).all(|_| pace.keeps_up(1, SECOND)));
        assert!(!pace.keeps_up(1, SECOND));
    }

    #[test]
    fn a_steady_stream_is_fast_enough_whatever_is_done_with_it() {
        let mut pace = Pace::default();
        assert!((0..1000).all(|_| pace.keeps_up(35_000, SECOND)));
        assert!((0..1000).all(|_| pace.keeps_up(1, Duration::ZERO)));
        // What came before does not make up for long silence.
        assert!((0..30).map(|_| pace.keeps_up(34_000, SECOND)).any(|keeps_up| !keeps_up));
    }
}
