//! Passwords that were right a moment ago.
//!
//! One push is several requests and bcrypt is slow on purpose, so a success counts for a few
//! seconds. What is kept is a keyed hash of user, password and password hash: nothing that could
//! be used to log in, and an entry is of no use once the file holds another hash for the user.
//!
//! For some minutes longer it is known that the password was right: it must be verified again, and
//! need not stand in a line with the wrong ones for that.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The successes of the last few seconds and minutes.
pub(super) struct RecentSuccesses {
    key: [u8; 32],
    lifetime: Duration,
    known_for: Duration,
    seen: Mutex<HashMap<Fingerprint, Instant>>,
}

/// How long ago a password was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recency {
    /// A moment: it counts.
    Fresh,
    /// Some minutes: it is likely to be right again.
    Known,
    /// Longer, or never.
    Unknown,
}

/// The keyed hash of one success.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u8; 32]);

impl RecentSuccesses {
    /// A success counts for `lifetime`, and is known for `known_for`.
    pub(super) fn new(lifetime: Duration, known_for: Duration) -> io::Result<Self> {
        let mut key = [0; 32];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self { key, lifetime, known_for, seen: Mutex::new(HashMap::new()) })
    }

    pub(super) fn fingerprint(&self, user: &str, password: &[u8], hash: &str) -> Fingerprint {
        let mut hasher = Sha256::new();
        hasher.update(self.key);
        for part in [user.as_bytes(), password, hash.as_bytes()] {
            // The length keeps "ab" + "c" and "a" + "bc" apart.
            hasher.update(part.len().to_le_bytes());
            hasher.update(part);
        }
        Fingerprint(hasher.finalize().into())
    }

    pub(super) fn recency(&self, fingerprint: Fingerprint, now: Instant) -> Recency {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get(&fingerprint).map(|since| now.duration_since(*since)) {
            Some(age) if age < self.lifetime => Recency::Fresh,
            Some(age) if age < self.known_for => Recency::Known,
            _ => Recency::Unknown,
        }
    }

    pub(super) fn remember(&self, fingerprint: Fingerprint, now: Instant) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= ENTRIES_MAX {
            seen.retain(|_, since| now.duration_since(*since) < self.known_for);
        }
        // LIMIT: a full table forgets nothing and learns nothing; the hash bounds how fast it fills.
        if seen.len() < ENTRIES_MAX || seen.contains_key(&fingerprint) {
            seen.insert(fingerprint, now);
        }
    }
}

const ENTRIES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(5);
    const KNOWN_FOR: Duration = Duration::from_secs(60);

    fn fresh() -> RecentSuccesses {
        RecentSuccesses::new(LIFETIME, KNOWN_FOR).unwrap()
    }

    #[test]
    fn a_success_is_forgotten_after_its_lifetime() {
        let recent = fresh();
        let fingerprint = recent.fingerprint("ann", b"secret", "$2y$hash");
        let start = Instant::now();
        assert_eq!(recent.recency(fingerprint, start), Recency::Unknown);
        recent.remember(fingerprint, start);
        let after = |time| recent.recency(fingerprint, start + time);
        assert_eq!(after(LIFETIME.mul_f32(0.9)), Recency::Fresh);
        assert_eq!(after(LIFETIME), Recency::Known);
        assert_eq!(after(KNOWN_FOR), Recency::Unknown);
    }

    #[test]
    fn every_part_and_the_key_make_the_fingerprint() {
        let recent = fresh();
        let other = fresh();
        let original = recent.fingerprint("ann", b"secret", "hash");
        for different in [
            recent.fingerprint("anns", b"ecret", "hash"),
            recent.fingerprint("ann", b"secre", "thash"),
            recent.fingerprint("ann", b"secret", "hash2"),
            other.fingerprint("ann", b"secret", "hash"),
        ] {
            assert!(different != original);
        }
    }

    #[test]
    fn the_table_is_bounded_and_makes_room_for_the_living() {
        let recent = fresh();
        let start = Instant::now();
        for number in 0..=ENTRIES_MAX {
            let name = number.to_string();
            recent.remember(recent.fingerprint(&name, b"", ""), start);
        }
        assert_eq!(recent.seen.lock().unwrap().len(), ENTRIES_MAX);
        let late = recent.fingerprint("late", b"", "");
        recent.remember(late, start + KNOWN_FOR);
        assert_eq!(recent.recency(late, start + KNOWN_FOR), Recency::Fresh);
        assert_eq!(recent.seen.lock().unwrap().len(), 1);
    }
}
