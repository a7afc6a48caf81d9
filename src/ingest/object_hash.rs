//! The ids of objects.
//!
//! SHA-1 with the detection of collision attacks (`sha1dc`), or SHA-256. The hashers are called
//! directly rather than through gix-hash: for a median object that is a fifth of the time.

use super::error::IngestError;
use crate::model::{HashKind, ObjectId, ObjectKind};

/// Hashes one object whose content comes in pieces.
#[derive(Debug)]
pub(super) struct ObjectHasher(State);

#[derive(Debug)]
enum State {
    Sha1(sha1dc::Hasher),
    Sha256(sha2::Sha256),
}

impl ObjectHasher {
    /// Starts with the header of an object of `size` bytes.
    pub(super) fn new(hash: HashKind, kind: ObjectKind, size: u64) -> Self {
        let mut hasher = Self(match hash {
            HashKind::Sha256 => State::Sha256(sha2::Digest::new()),
            _ => State::Sha1(sha1dc::Hasher::new()),
        });
        let mut header = [0u8; HEADER_BYTES_MAX];
        hasher.update(object_header(kind, size, &mut header));
        hasher
    }

    pub(super) fn update(&mut self, piece: &[u8]) {
        match &mut self.0 {
            State::Sha1(state) => state.update(piece),
            State::Sha256(state) => sha2::Digest::update(state, piece),
        }
    }

    /// The id; an error if the content was made to collide.
    pub(super) fn finish(self) -> Result<ObjectId, IngestError> {
        match self.0 {
            State::Sha1(state) => match state.finalize() {
                Ok(digest) => Ok(ObjectId::Sha1(digest.into())),
                Err(collision) => Err(IngestError::CollisionAttack {
                    id: ObjectId::Sha1(collision.digest().into()),
                }),
            },
            State::Sha256(state) => Ok(ObjectId::Sha256(sha2::Digest::finalize(state).into())),
        }
    }
}

/// The id of an object that is in memory; an error if it was made to collide with another.
pub fn object_id(
    hash: HashKind,
    kind: ObjectKind,
    content: &[u8],
) -> Result<ObjectId, IngestError> {
    let mut hasher = ObjectHasher::new(hash, kind, content.len() as u64);
    hasher.update(content);
    hasher.finish()
}

/// Room for the longest header: a kind, a blank, twenty digits, a NUL.
pub(super) const HEADER_BYTES_MAX: usize = 32;

/// What stands before the content wherever an object is hashed, such as `blob 12` and a NUL.
pub(super) fn object_header(
    kind: ObjectKind,
    size: u64,
    buffer: &mut [u8; HEADER_BYTES_MAX],
) -> &[u8] {
    let mut at = buffer.len();
    let mut put = |byte: u8| {
        at -= 1;
        buffer[at] = byte;
    };
    put(0);
    let mut rest = size;
    loop {
        put(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    put(b' ');
    for &letter in kind.as_str().as_bytes().iter().rev() {
        put(letter);
    }
    &buffer[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_kind_blank_size_nul() {
        let mut buffer = [0; HEADER_BYTES_MAX];
        assert_eq!(object_header(ObjectKind::Blob, 0, &mut buffer), b"blob 0\0");
        let longest = format!("commit {}\0", u64::MAX);
        assert_eq!(object_header(ObjectKind::Commit, u64::MAX, &mut buffer), longest.as_bytes());
    }

    #[test]
    fn known_objects_get_their_known_ids() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let id = object_id(hash, ObjectKind::Tree, b"").unwrap();
            assert_eq!(id, ObjectId::empty_tree(hash));
            let id = object_id(hash, ObjectKind::Blob, b"").unwrap();
            assert_eq!(id, ObjectId::empty_blob(hash));
        }
    }

    #[test]
    fn content_that_comes_in_pieces_gets_the_same_id() {
        let content = vec![7u8; 100_000];
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let mut hasher = ObjectHasher::new(hash, ObjectKind::Blob, 100_000);
            content.chunks(777).for_each(|piece| hasher.update(piece));
            let whole = object_id(hash, ObjectKind::Blob, &content).unwrap();
            assert_eq!(hasher.finish().unwrap(), whole);
        }
    }

    /// The first 320 bytes of both files that <https://shattered.io> published, as far as they are
    /// equal with the first of the two.
    const SHATTERED: &str = "\
        255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f\
        4865696768742033203020522f547970652034203020522f537562747970652035203020522f4669\
        6c7465722036203020522f436f6c6f7253706163652037203020522f4c656e677468203820302052\
        2f42697473506572436f6d706f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d31\
        20697320646561642121212121852fec092339759c39b1a1c63c4c97e1fffe017346dc9166b67e11\
        8f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5df45c14f26fedfb3\
        dc38e96ac22fe7bd728f0e45bce046d23c570feb141398bb552ef5a0a82be331fea48037b8b5d71f\
        0e332edf93ac3500eb4ddc0decc1a864790c782c76215660dd309791d06bd0af3f98cda4bc4629b1";

    #[test]
    fn a_collision_attack_is_detected() {
        let bytes: Vec<u8> = (0..SHATTERED.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&SHATTERED[at..at + 2], 16).unwrap())
            .collect();
        let mut hasher = ObjectHasher(State::Sha1(sha1dc::Hasher::new()));
        bytes.chunks(77).for_each(|piece| hasher.update(piece));
        let error = hasher.finish().unwrap_err();
        assert!(matches!(error, IngestError::CollisionAttack { .. }));
        // As the content of an object they are harmless: the header changes the state.
        assert!(object_id(HashKind::Sha1, ObjectKind::Blob, &bytes).is_ok());
    }
}
