//! How long anything waits for a client to read.
//!
//! The guard of the connection sees that a client takes nothing at all from it. In HTTP/2 a client
//! can keep its connection busy and leave one answer where it is; so each answer has a bound of
//! its own.

use super::stop::StopSignal;
use std::time::Duration;
use tokio::time::timeout;

/// The bound on one wait: a time, or the stop of the server.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    idle: Duration,
    stop: StopSignal,
}

impl Patience {
    /// Waits for `idle` at the most, and not at all once running work is asked to stop.
    pub(super) fn new(idle: Duration, stop: StopSignal) -> Self {
        Self { idle, stop }
    }

    /// The signal that ends all waiting.
    pub(super) fn stop(&self) -> &StopSignal {
        &self.stop
    }

    /// What the future gives, if it does in time.
    pub(super) async fn wait<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            value = timeout(self.idle, future) => value.ok(),
            () = self.stop.cancelling() => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::stop::{Stage, StopControl};
    use super::*;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn a_wait_ends_with_the_time_or_with_the_server() {
        let control = StopControl::new();
        let mut short = Patience::new(Duration::from_millis(10), control.signal());
        assert_eq!(short.wait(ready(1)).await, Some(1));
        assert_eq!(short.wait(pending::<()>()).await, None);
        let mut long = Patience::new(Duration::from_secs(3600), control.signal());
        control.enter(Stage::Cancelling);
        assert_eq!(long.wait(pending::<()>()).await, None);
        assert_eq!(long.wait(ready(2)).await, Some(2));
    }
}
