//! How the null server misbehaves.

use hyper::StatusCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What goes wrong on purpose; nothing by default.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Every so many of the pushes that are acknowledged are forgotten.
    pub lose_every: Option<u64>,
    /// What is acknowledged is shown only so much later.
    pub late: Option<Duration>,
    /// Every so many pushes are refused.
    pub reject_every: Option<u64>,
    /// Every so many pushes are carried out and never answered: the connection is closed.
    pub hang_up_every: Option<u64>,
    /// Every answer comes so much later.
    pub delay: Option<Duration>,
    /// Every request is answered with this status and nothing else.
    pub status: Option<StatusCode>,
    /// Whether answers to pushes tell a time by step with `Server-Timing`.
    pub server_timing: bool,
}

/// What is to become of one push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Carried,
    Lost,
    Rejected,
    HungUp,
}

/// Draws the fate of each push by its number.
#[derive(Debug, Default)]
pub(super) struct Fates {
    pushes: AtomicU64,
    acknowledged: AtomicU64,
}

impl Fates {
    /// The fate of the next push, as far as it does not depend on what is pushed.
    pub(super) fn next(&self, faults: &Faults) -> Fate {
        let number = self.pushes.fetch_add(1, Ordering::Relaxed) + 1;
        if is_due(faults.reject_every, number) {
            Fate::Rejected
        } else if is_due(faults.hang_up_every, number) {
            Fate::HungUp
        } else {
            Fate::Carried
        }
    }

    /// The fate of a push that is about to be acknowledged.
    pub(super) fn acknowledge(&self, faults: &Faults) -> Fate {
        let number = self.acknowledged.fetch_add(1, Ordering::Relaxed) + 1;
        if is_due(faults.lose_every, number) { Fate::Lost } else { Fate::Carried }
    }
}

fn is_due(every: Option<u64>, number: u64) -> bool {
    every.is_some_and(|every| number.is_multiple_of(every.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_push_in_so_many_meets_its_fate() {
        let fates = Fates::default();
        let faults = Faults { lose_every: Some(3), ..Faults::default() };
        let drawn: Vec<Fate> = (0..6).map(|_| fates.acknowledge(&faults)).collect();
        assert_eq!(drawn[2], Fate::Lost);
        assert_eq!(drawn.iter().filter(|fate| **fate == Fate::Lost).count(), 2);
        let faults = Faults { reject_every: Some(2), ..Faults::default() };
        let drawn: Vec<Fate> = (0..3).map(|_| fates.next(&faults)).collect();
        assert_eq!(drawn, [Fate::Carried, Fate::Rejected, Fate::Carried]);
    }
}
