//! A token: a secret of random letters, and the digest by which a server knows it.
//!
//! A token is 256 random bits, so that a plain SHA-256 of it can lie in a file: there is nothing to
//! guess, and no slow hash would make that harder.

use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io;
use subtle::ConstantTimeEq as _;

/// The secret. It is shown once and stored nowhere.
pub struct Token(String);

/// What is stored of a token.
#[derive(Clone, Copy, Eq)]
pub struct TokenDigest([u8; 32]);

impl Token {
    /// Draws a new one.
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0; 32];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        // The digits are those of a digest, and mean nothing.
        Ok(Self(format!("{PREFIX}{}", TokenDigest(bytes))))
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl TokenDigest {
    /// The digest of a token.
    pub fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Reads 64 hexadecimal digits.
    pub(super) fn from_hex(digits: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// The first bytes, which tell digests apart well enough to find one among many.
    pub(super) fn bucket(&self) -> u64 {
        self.0.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
    }
}

/// Takes the same time wherever they differ.
impl PartialEq for TokenDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenDigest({self})")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Whether a password may be a token.
pub(super) fn looks_like_token(password: &[u8]) -> bool {
    password.starts_with(PREFIX.as_bytes()) && password.len() == TOKEN_BYTES
}

/// The prefix, and two digits for each of 32 bytes.
const TOKEN_BYTES: usize = PREFIX.len() + 64;

/// What tokens begin with, so that they are known where they turn up.
const PREFIX: &str = "pht_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_not_shown_by_accident() {
        let (one, two) = (Token::draw().unwrap(), Token::draw().unwrap());
        assert_ne!(one.reveal(), two.reveal());
        assert!(looks_like_token(one.reveal().as_bytes()) && one.reveal().len() == 68);
        assert!(!format!("{one:?}").contains(one.reveal()));
    }

    #[test]
    fn a_digest_is_sha_256_in_hexadecimal() {
        let digest = TokenDigest::of(b"abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), hex);
        assert_eq!(TokenDigest::from_hex(hex), Some(digest));
        assert_eq!(TokenDigest::from_hex(&hex.to_uppercase()), Some(digest));
        let spoiled = format!("+{}", &hex[1..]);
        for wrong in ["", &hex[1..], &spoiled, &"é".repeat(32), &format!("{hex}0")] {
            assert_eq!(TokenDigest::from_hex(wrong), None);
        }
        assert_ne!(digest, TokenDigest::of(b"abd"));
    }
}
