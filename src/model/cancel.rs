//! A flag that asks a push to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Asks a running push to stop before its commit.
///
/// Set by the edge when the client has gone, a deadline passed or the server shuts down; polled
/// by the engine between entries. Past the commit it changes nothing. The first reason stands.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicU8>);

const NOT_CANCELLED: u8 = 0;
const CLIENT_GONE: u8 = 1;
const SERVER_STOPS: u8 = 2;

impl CancelToken {
    /// A token that nobody has cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks whoever holds a clone to stop, because nobody waits for the answer.
    pub fn cancel(&self) {
        self.set(CLIENT_GONE);
    }

    /// Asks whoever holds a clone to stop, because the server does.
    pub fn stop(&self) {
        self.set(SERVER_STOPS);
    }

    /// Whether somebody asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire) != NOT_CANCELLED
    }

    /// Whether it is the server that stops.
    pub fn is_server_stopping(&self) -> bool {
        self.0.load(Ordering::Acquire) == SERVER_STOPS
    }

    fn set(&self, reason: u8) {
        let _ = self.0.compare_exchange(NOT_CANCELLED, reason, Ordering::AcqRel, Ordering::Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stands_for_all_clones() {
        let token = CancelToken::new();
        assert!(!token.is_cancelled());
        token.clone().stop();
        token.cancel();
        assert!(token.is_cancelled() && token.is_server_stopping());
        let token = CancelToken::new();
        token.cancel();
        assert!(token.is_cancelled() && !token.is_server_stopping());
    }
}
