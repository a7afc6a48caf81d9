//! How far a pack has got, told by whoever resolves it to whoever shows it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a pack has got. Nothing waits for these numbers, and none is exact before the end.
#[derive(Debug, Default)]
pub struct UnpackProgress {
    has_come: AtomicBool,
    deltas: AtomicU64,
    resolved: AtomicU64,
}

impl UnpackProgress {
    /// Notes that the whole pack has been read, and how many of its objects are deltas.
    pub fn note_arrival(&self, deltas: u64) {
        self.deltas.store(deltas, Ordering::Relaxed);
        self.has_come.store(true, Ordering::Release);
    }

    /// Notes that so many deltas more have become objects.
    pub fn add_resolved(&self, deltas: u64) {
        self.resolved.fetch_add(deltas, Ordering::Relaxed);
    }

    /// How many deltas have become objects, and of how many; `None` while the pack comes in.
    pub fn resolved(&self) -> Option<(u64, u64)> {
        let deltas = || self.deltas.load(Ordering::Relaxed);
        let resolved = || self.resolved.load(Ordering::Relaxed);
        self.has_come.load(Ordering::Acquire).then(|| (resolved().min(deltas()), deltas()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_before_the_pack_is_there() {
        let progress = UnpackProgress::default();
        assert_eq!(progress.resolved(), None);
        progress.note_arrival(7);
        progress.add_resolved(3);
        assert_eq!(progress.resolved(), Some((3, 7)));
    }
}
