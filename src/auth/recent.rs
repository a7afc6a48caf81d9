//! Passwords that were right a moment ago.
//!
//! One push is several requests and bcrypt is slow on purpose, so a success counts for a few
//! seconds. What is kept is a keyed hash of user, password and password hash: nothing that could
//! be used to log in, and an entry is of no use once the file holds another hash for the user.

use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The successes of the last few seconds.
pub(super) struct RecentSuccesses {
    key: [u8; 32],
    lifetime: Duration,
    seen: Mutex<HashMap<Fingerprint, Instant>>,
}

/// The keyed hash of one success.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u8; 32]);

impl RecentSuccesses {
    pub(super) fn new(lifetime: Duration) -> io::Result<Self> {
        let mut key = [0; 32];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self { key, lifetime, seen: Mutex::new(HashMap::new()) })
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

    pub(super) fn contains(&self, fingerprint: Fingerprint, now: Instant) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&fingerprint).is_some_and(|since| now.duration_since(*since) < self.lifetime)
    }

    pub(super) fn remember(&self, fingerprint: Fingerprint, now: Instant) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= ENTRIES_MAX {
            seen.retain(|_, since| now.duration_since(*since) < self.lifetime);
        }
        // LIMIT: a full table forgets nothing and learns nothing; bcrypt bounds how fast it fills.
        if seen.len() < ENTRIES_MAX {
            seen.insert(fingerprint, now);
        }
    }
}

const ENTRIES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(5);

    #[test]
    fn a_success_is_forgotten_after_its_lifetime() {
        let recent = RecentSuccesses::new(LIFETIME).unwrap();
        let fingerprint = recent.fingerprint("ann", b"secret", "$2y$hash");
        let start = Instant::now();
        assert!(!recent.contains(fingerprint, start));
        recent.remember(fingerprint, start);
        assert!(recent.contains(fingerprint, start + LIFETIME.mul_f32(0.9)));
        assert!(!recent.contains(fingerprint, start + LIFETIME));
    }

    #[test]
    fn every_part_and_the_key_make_the_fingerprint() {
        let recent = RecentSuccesses::new(LIFETIME).unwrap();
        let other = RecentSuccesses::new(LIFETIME).unwrap();
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
        let recent = RecentSuccesses::new(LIFETIME).unwrap();
        let start = Instant::now();
        for number in 0..=ENTRIES_MAX {
            let name = number.to_string();
            recent.remember(recent.fingerprint(&name, b"", ""), start);
        }
        assert_eq!(recent.seen.lock().unwrap().len(), ENTRIES_MAX);
        let late = recent.fingerprint("late", b"", "");
        recent.remember(late, start + LIFETIME);
        assert!(recent.contains(late, start + LIFETIME));
        assert_eq!(recent.seen.lock().unwrap().len(), 1);
    }
}
