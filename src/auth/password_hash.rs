//! One password hash of a password file, of any scheme that is read.
//!
//! Guarantees that a text that was parsed can be verified against, within bounds of time and
//! memory, and that the comparison takes the same time whatever it finds.

use super::apr1;
use argon2::Argon2;
use argon2::password_hash::PasswordVerifier as _;
use argon2::password_hash::phc::PasswordHash as PhcHash;
use sha_crypt::{PasswordHashRef, ShaCrypt};
use subtle::ConstantTimeEq as _;

/// A hash that passwords can be verified against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PasswordHash {
    scheme: Scheme,
    text: String,
}

/// What can be wrong with a hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashFault {
    /// The scheme is none of those that are read.
    #[error(
        "is of scheme {0}; permitted are bcrypt, argon2, sha256-crypt, sha512-crypt and apr1: \
         htpasswd -B makes bcrypt"
    )]
    Scheme(&'static str),
    /// The hash is none of its scheme.
    #[error("is a damaged {0} hash")]
    Damaged(&'static str),
    /// To verify it would take too much time or memory.
    #[error("is a {scheme} hash with a {parameter} of {value}; at most {limit} is permitted")]
    Costly {
        /// The scheme.
        scheme: &'static str,
        /// What makes it costly.
        parameter: &'static str,
        /// How much of it there is.
        value: u32,
        /// The most that is permitted.
        limit: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Bcrypt,
    Argon2,
    Sha256Crypt,
    Sha512Crypt,
    Apr1,
}

impl PasswordHash {
    /// Reads what stands behind the user's name.
    pub(super) fn parse(text: &str) -> Result<Self, HashFault> {
        let scheme = Scheme::of(text)?;
        let sound = match scheme {
            Scheme::Bcrypt => {
                bound(scheme, "cost", bcrypt_cost(text), BCRYPT_COST_MAX)?;
                text.parse::<bcrypt::HashParts>().is_ok()
            }
            Scheme::Argon2 => is_sound_argon2(text)?,
            Scheme::Sha256Crypt => is_sound_sha_crypt(scheme, text, 43)?,
            Scheme::Sha512Crypt => is_sound_sha_crypt(scheme, text, 86)?,
            Scheme::Apr1 => apr1_parts(text).is_some(),
        };
        if !sound {
            return Err(HashFault::Damaged(scheme.name()));
        }
        Ok(Self { scheme, text: text.to_owned() })
    }

    /// Whether `password` is the one that was hashed. Takes long on purpose.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let text = self.text.as_str();
        match self.scheme {
            Scheme::Bcrypt => bcrypt::verify(password, text).unwrap_or(false),
            Scheme::Argon2 => PhcHash::new(text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
            Scheme::Sha256Crypt | Scheme::Sha512Crypt => PasswordHashRef::new(text)
                .is_ok_and(|hash| ShaCrypt::default().verify_password(password, hash).is_ok()),
            Scheme::Apr1 => apr1_parts(text).is_some_and(|(salt, expected)| {
                bool::from(apr1::hash(password, salt).as_slice().ct_eq(expected))
            }),
        }
    }

    /// As it stands in the file.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether whoever gets hold of the file can search it fast.
    pub(super) fn is_weak(&self) -> bool {
        self.scheme == Scheme::Apr1
    }
}

impl Scheme {
    fn of(text: &str) -> Result<Self, HashFault> {
        const READ: [(&str, Scheme); 7] = [
            ("$2a$", Scheme::Bcrypt),
            ("$2b$", Scheme::Bcrypt),
            ("$2y$", Scheme::Bcrypt),
            ("$argon2", Scheme::Argon2),
            ("$5$", Scheme::Sha256Crypt),
            ("$6$", Scheme::Sha512Crypt),
            (apr1::MAGIC, Scheme::Apr1),
        ];
        const FOREIGN: [(&str, &str); 4] = [
            ("$1$", "md5-crypt"),
            ("$y$", "yescrypt"),
            ("{SHA}", "SHA-1"),
            ("{SSHA}", "salted SHA-1"),
        ];
        let read = READ.iter().find(|(prefix, _)| text.starts_with(prefix));
        let foreign = FOREIGN.iter().find(|(prefix, _)| text.starts_with(prefix));
        match (read, foreign) {
            (Some((_, scheme)), _) => Ok(*scheme),
            (None, Some((_, name))) => Err(HashFault::Scheme(name)),
            (None, None) => Err(HashFault::Scheme("crypt or plain text")),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bcrypt => "bcrypt",
            Self::Argon2 => "argon2",
            Self::Sha256Crypt => "sha256-crypt",
            Self::Sha512Crypt => "sha512-crypt",
            Self::Apr1 => "apr1",
        }
    }
}

/// LIMIT: a cost of 16 is some seconds of a processor.
const BCRYPT_COST_MAX: u32 = 16;
/// LIMIT: kibibytes that one verification may take; as many run as there are processors.
const ARGON2_KIBIBYTES_MAX: u32 = 256 << 10;
/// LIMIT: passes over that memory.
const ARGON2_PASSES_MAX: u32 = 64;
/// LIMIT: some seconds of a processor.
const SHA_CRYPT_ROUNDS_MAX: u32 = 2_000_000;

fn bound(
    scheme: Scheme,
    parameter: &'static str,
    value: Option<u32>,
    limit: u32,
) -> Result<(), HashFault> {
    match value {
        None => Err(HashFault::Damaged(scheme.name())),
        Some(value) if value > limit => {
            Err(HashFault::Costly { scheme: scheme.name(), parameter, value, limit })
        }
        Some(_) => Ok(()),
    }
}

fn bcrypt_cost(text: &str) -> Option<u32> {
    text.split('$').nth(2)?.parse().ok()
}

fn is_sound_argon2(text: &str) -> Result<bool, HashFault> {
    let Ok(hash) = PhcHash::new(text) else { return Ok(false) };
    let Ok(params) = argon2::Params::try_from(&hash) else { return Ok(false) };
    let scheme = Scheme::Argon2;
    bound(scheme, "memory in kibibytes", Some(params.m_cost()), ARGON2_KIBIBYTES_MAX)?;
    bound(scheme, "number of passes", Some(params.t_cost()), ARGON2_PASSES_MAX)?;
    let is_known = ["argon2d", "argon2i", "argon2id"].contains(&hash.algorithm.as_str());
    Ok(is_known && hash.salt.is_some() && hash.hash.is_some())
}

/// `$5$[rounds=N$]SALT$HASH`.
fn is_sound_sha_crypt(scheme: Scheme, text: &str, characters: usize) -> Result<bool, HashFault> {
    let mut fields = text.split('$').skip(2).peekable();
    if let Some(rounds) = fields.next_if(|field| field.starts_with("rounds=")) {
        let rounds = rounds.trim_start_matches("rounds=").parse().ok();
        bound(scheme, "number of rounds", rounds, SHA_CRYPT_ROUNDS_MAX)?;
    }
    let (salt, hash, rest) = (fields.next(), fields.next(), fields.next());
    let is_whole = salt.is_some() && rest.is_none();
    let is_hash = hash.is_some_and(|hash| hash.len() == characters && is_crypt_text(hash));
    Ok(is_whole && is_hash && PasswordHashRef::new(text).is_ok())
}

fn apr1_parts(text: &str) -> Option<(&[u8], &[u8])> {
    let (salt, hash) = text.strip_prefix(apr1::MAGIC)?.split_once('$')?;
    let sound = salt.len() <= apr1::SALT_CHARACTERS_MAX
        && hash.len() == apr1::HASH_CHARACTERS
        && is_crypt_text(hash);
    sound.then_some((salt.as_bytes(), hash.as_bytes()))
}

fn is_crypt_text(text: &str) -> bool {
    text.bytes().all(|byte| apr1::ALPHABET.contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Hashes of "secret", made by htpasswd, openssl and the reference program of argon2.
    fn of_secret() -> Vec<String> {
        let argon2 = argon2::Argon2::new(
            argon2::Algorithm::Argon2id,
            argon2::Version::V0x13,
            argon2::Params::new(64, 1, 1, None).unwrap(),
        );
        let argon2 =
            argon2::PasswordHasher::hash_password_with_salt(&argon2, b"secret", b"saltsalt");
        vec![
            "$2y$04$Xjars77x0BiPYHQ7wu1W8uED/vSQUcbHWBWgO6NtBf0uri5IunYHq".into(),
            "$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.".into(),
            "$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/\
             1GM/O6IND4WQhG."
                .into(),
            "$apr1$r31abcde$SZEN.U5sWGGNcv9YsUrqI.".into(),
            argon2.unwrap().to_string(),
        ]
    }

    #[test]
    fn every_scheme_knows_its_password_and_no_other() {
        for text in of_secret() {
            let hash = PasswordHash::parse(&text).unwrap();
            assert_eq!(hash.as_str(), text);
            assert!(hash.verify(b"secret"), "{text}");
            for wrong in [&b""[..], b"Secret", b"secret ", b"secre", b"secret\0", b"\xff"] {
                assert!(!hash.verify(wrong), "{text} {}", wrong.escape_ascii());
            }
        }
    }

    #[test]
    fn an_argon2_hash_of_another_program_is_known() {
        let text =
            "$argon2d$v=16$m=32,t=2,p=3$AAAAAAAAAAA$KnH4gniiaFnDvlA1xev3yovC4cnrrI6tnHOYtmja90o";
        assert!(!PasswordHash::parse(text).unwrap().verify(b"secret"));
    }

    #[test]
    fn other_schemes_are_refused_by_name() {
        for (text, scheme) in [
            ("$1$salt$x", "md5-crypt"),
            ("$y$j9T$x", "yescrypt"),
            ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "SHA-1"),
            ("$2x$04$abc", "crypt or plain text"),
            ("rl.3StKT.4T8M", "crypt or plain text"),
            ("", "crypt or plain text"),
        ] {
            assert_eq!(PasswordHash::parse(text), Err(HashFault::Scheme(scheme)), "{text}");
        }
    }

    #[test]
    fn a_hash_that_would_take_too_much_is_refused_with_its_limit() {
        let text = "$6$rounds=999999999$abcdefgh$x";
        let error = PasswordHash::parse(text).unwrap_err().to_string();
        assert_eq!(
            error,
            "is a sha512-crypt hash with a number of rounds of 999999999; at most 2000000 is \
             permitted"
        );
        for text in [
            "$2y$31$abcdefghijklmnopqrstuuRgeGTuXBXVWJZTOOxwsWkS/uC.HjWY2",
            "$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$eP4eyR+zqlZX1y5xCFTkw9m5GYx0L5YWwvCFvtlbLow",
            "$argon2id$v=19$m=64,t=4000000,p=1$c29tZXNhbHQ$eP4eyR+zqlZX1y5xCFTkw9m5GYx0L5YWwvCFvtlbLow",
        ] {
            let fault = PasswordHash::parse(text).unwrap_err();
            assert!(matches!(fault, HashFault::Costly { .. }), "{text}: {fault}");
        }
    }

    #[test]
    fn damaged_hashes_are_refused() {
        for text in [
            "$2y$",
            "$2y$04$",
            "$2y$xx$abc",
            "$2y$04$é",
            "$apr1$",
            "$apr1$salt",
            "$apr1$saltsaltsalt$SZEN.U5sWGGNcv9YsUrqI.",
            "$apr1$salt$SZEN",
            "$5$",
            "$5$salt",
            "$5$salt$short",
            "$6$rounds=x$salt$y",
            "$argon2",
            "$argon2id$v=19$m=64,t=1,p=1",
            "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ",
            "$argon2x$v=19$m=64,t=1,p=1$c29tZXNhbHQ$eP4eyR",
        ] {
            let fault = PasswordHash::parse(text).unwrap_err();
            assert!(matches!(fault, HashFault::Damaged(_)), "{text}: {fault}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_or_the_verifier_panic(
            prefix in prop::sample::select(vec!["$apr1$", "$5$", "$6$", "$5$rounds=1000$", "$argon2id$v=19$", "$2y$04$"]),
            rest in ".{0,60}",
        ) {
            if let Ok(hash) = PasswordHash::parse(&format!("{prefix}{rest}")) {
                hash.verify(b"secret");
            }
        }
    }
}
