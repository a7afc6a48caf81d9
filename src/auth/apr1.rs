//! The apr1 scheme of htpasswd(1): a thousand rounds of MD5 over a salt and the password.
//!
//! It is what `htpasswd` writes unless it is told otherwise, so that files of it are everywhere.
//! Pure. The scheme is fast to search: whoever has the file soon has the weak passwords.

use md5::{Digest, Md5};

/// The hash of `password` with `salt`, in the characters that stand in the file.
pub(super) fn hash(password: &[u8], salt: &[u8]) -> [u8; HASH_CHARACTERS] {
    let mut state: [u8; 16] = first_state(password, salt);
    for round in 0..ROUNDS {
        let mut hasher = Md5::new();
        let is_odd = round % 2 == 1;
        hasher.update(if is_odd { password } else { &state });
        if round % 3 != 0 {
            hasher.update(salt);
        }
        if round % 7 != 0 {
            hasher.update(password);
        }
        hasher.update(if is_odd { &state } else { password });
        state = hasher.finalize().into();
    }
    encode(&state)
}

fn first_state(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let both = Md5::new().chain_update(password).chain_update(salt).chain_update(password);
    let both: [u8; 16] = both.finalize().into();
    let mut hasher = Md5::new().chain_update(password).chain_update(MAGIC).chain_update(salt);
    // As many bytes of it as the password has, over and over.
    for chunk in password.chunks(both.len()) {
        hasher.update(both.get(..chunk.len()).unwrap_or(&both));
    }
    let mut bits = password.len();
    while bits > 0 {
        let first = password.get(..1).unwrap_or_default();
        hasher.update(if bits & 1 == 1 { &[0] } else { first });
        bits >>= 1;
    }
    hasher.finalize().into()
}

/// Sixteen bytes as 22 characters of six bits, in an order of the scheme's own.
fn encode(state: &[u8; 16]) -> [u8; HASH_CHARACTERS] {
    let [s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15] =
        state.map(u32::from);
    let groups = [
        (s0 << 16 | s6 << 8 | s12, 4),
        (s1 << 16 | s7 << 8 | s13, 4),
        (s2 << 16 | s8 << 8 | s14, 4),
        (s3 << 16 | s9 << 8 | s15, 4),
        (s4 << 16 | s10 << 8 | s5, 4),
        (s11, 2),
    ];
    let digits =
        groups.iter().flat_map(|(bits, count)| (0..*count).map(move |at| bits >> (6 * at)));
    let mut text = [0; HASH_CHARACTERS];
    for (place, digit) in text.iter_mut().zip(digits) {
        *place = usize::try_from(digit & 63).ok().and_then(|at| ALPHABET.get(at)).map_or(0, |c| *c);
    }
    text
}

/// What stands in front of a hash of this scheme.
pub(super) const MAGIC: &str = "$apr1$";
/// The most characters of a salt.
pub(super) const SALT_CHARACTERS_MAX: usize = 8;
/// The characters of a hash.
pub(super) const HASH_CHARACTERS: usize = 22;
/// The characters that hashes of crypt(3) are written in, by value.
pub(super) const ALPHABET: &[u8; 64] =
    b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ROUNDS: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_openssl() {
        let long = "a-long-password-of-more-than-sixteen-bytes-äöü";
        for (password, salt, expected) in [
            ("secret", "r31abcde", "SZEN.U5sWGGNcv9YsUrqI."),
            ("", "x", "tMwYqBfQwi3FYAr0aJc8M/"),
            (long, "saltsalt", "tFzwUW9aSH/Fnp8XYUqse1"),
        ] {
            assert_eq!(hash(password.as_bytes(), salt.as_bytes()), expected.as_bytes());
        }
    }
}
