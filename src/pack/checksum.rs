//! The checksums that packs, idx and rev files end with.

use crate::model::{HashKind, ObjectId};
use sha1::Digest;

/// A running checksum over a file, of the repository's hash.
///
/// Guards against damage, not against malice: plain SHA-1, without the collision detection that
/// object ids are made with. Nothing is named by it that a client could choose to collide.
#[derive(Clone, Debug)]
pub struct Checksum(State);

#[derive(Clone, Debug)]
enum State {
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
}

impl Checksum {
    /// Starts with no bytes.
    pub fn new(hash: HashKind) -> Self {
        Self(match hash {
            HashKind::Sha256 => State::Sha256(sha2::Sha256::new()),
            _ => State::Sha1(sha1::Sha1::new()),
        })
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha1(state) => state.update(bytes),
            State::Sha256(state) => state.update(bytes),
        }
    }

    /// The checksum over all bytes so far.
    pub fn finish(self) -> ObjectId {
        match self.0 {
            State::Sha1(state) => ObjectId::Sha1(state.finalize().into()),
            State::Sha256(state) => ObjectId::Sha256(state.finalize().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_hashes_give_their_known_values() {
        let of = |hash| {
            let mut checksum = Checksum::new(hash);
            checksum.update(b"blob ");
            checksum.update(b"0\0");
            checksum.finish()
        };
        assert_eq!(of(HashKind::Sha1), ObjectId::empty_blob(HashKind::Sha1));
        assert_eq!(of(HashKind::Sha256), ObjectId::empty_blob(HashKind::Sha256));
    }
}
