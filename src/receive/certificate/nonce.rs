//! The nonce of a signed push: made from the clock and a secret, and known again by the secret.
//!
//! The same string as git's for the same seed, directory, second and hash (git-config(1),
//! `receive.certNonceSeed`; the HMAC of RFC 2104), so that servers that share the seed know each
//! other's. Nothing is remembered: a server that answers without a state makes the nonce anew and
//! says how old it is.

use crate::model::HashKind;
use hmac::{Hmac, KeyInit, Mac};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

/// What the nonce of a signed push is made of, besides the repository's seed and hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonceTerms {
    /// The directory as it was given to `receive-pack`, whatever it leads to.
    pub directory: OsString,
    /// When the process began to serve, in seconds since 1970.
    pub stamp: u64,
    /// Whether the refs were advertised by another process, so that the nonce may be that one's.
    pub is_stateless: bool,
}

/// Who makes nonces for a repository, and knows them again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issuer<'a> {
    pub(super) hash: HashKind,
    /// `receive.certNonceSeed`.
    pub(super) seed: &'a [u8],
    pub(super) terms: &'a NonceTerms,
    /// `receive.certNonceSlop`: seconds by which a nonce may be older or newer than ours; with
    /// none, nobody else's is as good.
    pub(super) slop_seconds_max: u64,
}

/// What can be said of the nonce in a certificate. `Display` gives git's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonceStatus {
    /// There is one, and none was asked for.
    Unsolicited,
    /// It is none of ours.
    Bad,
    /// There is none.
    Missing,
    /// It is ours, or as good.
    Ok,
    /// It is ours, of another time: by so many seconds older than the one we would give now.
    Slop(i64),
}

/// What is to be thought of a certificate's nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NonceJudgement {
    pub(super) status: NonceStatus,
    /// The nonce that hooks are told of, if the repository has a seed: ours, or one that is as
    /// good.
    pub(super) told: Option<String>,
}

impl NonceTerms {
    /// The terms of a push that begins now.
    pub fn now(directory: impl Into<OsString>, is_stateless: bool) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { directory: directory.into(), stamp: now.as_secs(), is_stateless }
    }
}

impl Issuer<'_> {
    /// The nonce for this push.
    pub(super) fn issue(&self) -> String {
        self.nonce_of(self.terms.stamp)
    }

    fn nonce_of(&self, stamp: u64) -> String {
        // git has the seed for the message and what is known to all for the key, the other way
        // round than one would: nonces are worth something only if all servers make the same.
        let mut key = self.terms.directory.as_bytes().to_vec();
        key.extend_from_slice(format!(":{stamp}").as_bytes());
        let digits = match self.hash {
            HashKind::Sha256 => in_hex(&authenticate::<Hmac<sha2::Sha256>>(&key, self.seed)),
            _ => in_hex(&authenticate::<Hmac<sha1::Sha1>>(&key, self.seed)),
        };
        format!("{stamp}-{digits}")
    }

    /// The second in which we made this nonce; `None` if we did not.
    fn stamp_of(&self, nonce: &[u8]) -> Option<u64> {
        let end = nonce.iter().position(|byte| *byte == b'-')?;
        // A stamp that is written otherwise makes another nonce.
        let stamp = std::str::from_utf8(nonce.get(..end)?).ok()?.parse().ok()?;
        is_equal(self.nonce_of(stamp).as_bytes(), nonce).then_some(stamp)
    }

    fn judge(&self, nonce: Option<&[u8]>) -> NonceJudgement {
        let ours = self.issue();
        let (status, nonce) = match nonce {
            None => (NonceStatus::Missing, &b""[..]),
            Some(nonce) => (self.status_of(&ours, nonce), nonce),
        };
        let told = match (status, std::str::from_utf8(nonce)) {
            (NonceStatus::Ok, Ok(nonce)) => nonce.to_owned(),
            _ => ours,
        };
        NonceJudgement { status, told: Some(told) }
    }

    fn status_of(&self, ours: &str, nonce: &[u8]) -> NonceStatus {
        if is_equal(ours.as_bytes(), nonce) {
            return NonceStatus::Ok;
        }
        if !self.terms.is_stateless {
            return NonceStatus::Bad;
        }
        let Some(stamp) = self.stamp_of(nonce) else { return NonceStatus::Bad };
        if self.slop_seconds_max > 0 && self.terms.stamp.abs_diff(stamp) <= self.slop_seconds_max {
            return NonceStatus::Ok;
        }
        let seconds = |stamp| i64::try_from(stamp).unwrap_or(i64::MAX);
        NonceStatus::Slop(seconds(self.terms.stamp).saturating_sub(seconds(stamp)))
    }
}

/// Judges the nonce of a certificate; `issuer` if the repository has a seed.
pub(super) fn judge(nonce: Option<&[u8]>, issuer: Option<Issuer<'_>>) -> NonceJudgement {
    match (issuer, nonce) {
        (Some(issuer), nonce) => issuer.judge(nonce),
        (None, Some(_)) => NonceJudgement { status: NonceStatus::Unsolicited, told: None },
        (None, None) => NonceJudgement { status: NonceStatus::Missing, told: None },
    }
}

impl fmt::Display for NonceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsolicited => "UNSOLICITED",
            Self::Bad => "BAD",
            Self::Missing => "MISSING",
            Self::Ok => "OK",
            Self::Slop(_) => "SLOP",
        })
    }
}

fn authenticate<M: Mac + KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
    // An HMAC takes keys of any length.
    let Ok(mut code) = <M as KeyInit>::new_from_slice(key) else { return Vec::new() };
    code.update(text);
    code.finalize().into_bytes().to_vec()
}

fn in_hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // A string takes whatever is written to it.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Compares in a time that does not tell how much of a forged nonce is right.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differing, (one, other)| differing | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;
    use std::process::Command;

    fn terms(directory: &str, stamp: u64, is_stateless: bool) -> NonceTerms {
        NonceTerms { directory: directory.into(), stamp, is_stateless }
    }

    fn issuer<'a>(seed: &'a str, terms: &'a NonceTerms, slop_seconds_max: u64) -> Issuer<'a> {
        Issuer { hash: HashKind::Sha1, seed: seed.as_bytes(), terms, slop_seconds_max }
    }

    fn status(nonce: &str, issuer: Issuer<'_>) -> NonceStatus {
        judge(Some(nonce.as_bytes()), Some(issuer)).status
    }

    /// The nonce that stock git advertises for a repository of this format.
    fn nonce_of_git(parent: &Path, directory: &str) -> String {
        let output = Command::new("git")
            .current_dir(parent)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env_remove("GIT_DIR")
            .args(["receive-pack", "--advertise-refs", directory])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, rest) = text.split_once(" push-cert=").unwrap();
        rest.split(' ').next().unwrap().to_owned()
    }

    #[test]
    fn nonces_are_those_of_git() {
        let scratch = tempfile::tempdir().unwrap();
        let absolute = scratch.path().join("sha1.git").display().to_string();
        let long_seed = "a seed that is longer than the block of either hash ".repeat(3);
        for (hash, name) in [(HashKind::Sha1, "sha1"), (HashKind::Sha256, "sha256")] {
            let git = |arguments: &[&str]| {
                let mut git = Command::new("git");
                git.current_dir(scratch.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
                assert!(git.args(arguments).status().unwrap().success());
            };
            let directory = format!("{name}.git");
            git(&["init", "-q", "--bare", &format!("--object-format={name}"), &directory]);
            let without = directory.trim_end_matches(".git").to_owned();
            let slashed = format!("./{directory}//");
            let paths = [&directory, &without, &slashed, &absolute];
            for seed in ["sekrit", "", "s p a c e", &long_seed, "\u{e9}"] {
                git(&["-C", &directory, "config", "receive.certNonceSeed", seed]);
                for path in paths {
                    if *path == absolute && hash != HashKind::Sha1 {
                        continue;
                    }
                    let theirs = nonce_of_git(scratch.path(), path);
                    let stamp = theirs.split('-').next().unwrap().parse().unwrap();
                    let terms = terms(path, stamp, true);
                    let issuer = Issuer { hash, ..issuer(seed, &terms, 0) };
                    assert_eq!(issuer.issue(), theirs, "{path} {seed}");
                    assert_eq!(issuer.stamp_of(theirs.as_bytes()), Some(stamp));
                }
            }
        }
    }

    #[test]
    fn nonces_stay_what_they_are() {
        let terms = terms(".", 1_700_000_000, true);
        let nonce = issuer("sekrit", &terms, 0);
        assert_eq!(nonce.issue(), "1700000000-45fb390e7b1448dbd9db0257ac6f00ac03b8ed7f");
    }

    #[test]
    fn each_status_has_its_case() {
        let now = terms(".", 1000, true);
        let nonce = |stamp| issuer("s", &terms(".", stamp, true), 0).issue();
        let with = |slop| issuer("s", &now, slop);
        assert_eq!(status(&nonce(1000), with(0)), NonceStatus::Ok);
        assert_eq!(status(&nonce(990), with(0)), NonceStatus::Slop(10));
        assert_eq!(status(&nonce(1007), with(0)), NonceStatus::Slop(-7));
        assert_eq!(status(&nonce(990), with(9)), NonceStatus::Slop(10));
        assert_eq!(status(&nonce(990), with(10)), NonceStatus::Ok);
        assert_eq!(status(&nonce(1010), with(10)), NonceStatus::Ok);
        assert_eq!(judge(None, Some(with(10))).status, NonceStatus::Missing);
        assert_eq!(judge(Some(b"x"), None).status, NonceStatus::Unsolicited);
        assert_eq!(judge(None, None).status, NonceStatus::Missing);
        let code = "0".repeat(40);
        for bad in ["", "x", "-", "1000", "1000-", &format!("990-{code}"), &format!("0-{code}")] {
            assert_eq!(status(bad, with(10)), NonceStatus::Bad, "{bad}");
        }
        let other_place = issuer("s", &terms("..", 1000, true), 0).issue();
        let other_seed = issuer("t", &now, 0).issue();
        for bad in [other_place, other_seed] {
            assert_eq!(status(&bad, with(10)), NonceStatus::Bad, "{bad}");
        }
    }

    #[test]
    fn within_one_process_no_other_nonce_will_do() {
        let now = terms(".", 1000, false);
        let before = issuer("s", &terms(".", 999, false), 0).issue();
        assert_eq!(status(&before, issuer("s", &now, 10)), NonceStatus::Bad);
        let same = issuer("s", &now, 10);
        assert_eq!(status(&same.issue(), same), NonceStatus::Ok);
    }

    #[test]
    fn hooks_are_told_of_the_nonce_that_counts() {
        let now = terms(".", 1000, true);
        let before = issuer("s", &terms(".", 990, true), 0).issue();
        let told = |slop| judge(Some(before.as_bytes()), Some(issuer("s", &now, slop))).told;
        assert_eq!(told(0), Some(issuer("s", &now, 0).issue()));
        assert_eq!(told(10), Some(before.clone()));
        let missing = judge(None, Some(issuer("s", &now, 0)));
        assert_eq!(missing.told, Some(issuer("s", &now, 0).issue()));
        assert_eq!(judge(Some(b"x"), None).told, None);
    }

    proptest! {
        #[test]
        fn a_nonce_is_known_with_its_age_and_nothing_else_is(
            seed in "[ -~]{0,80}",
            directory in "[ -~]{1,40}",
            made in 1..i64::MAX,
            judged in 1..i64::MAX,
            slop in any::<u64>(),
            is_stateless in any::<bool>(),
            change in (any::<prop::sample::Index>(), any::<u8>()),
        ) {
            let then = terms(&directory, made.unsigned_abs(), true);
            let now = terms(&directory, judged.unsigned_abs(), is_stateless);
            let nonce = issuer(&seed, &then, 0).issue();
            let judge_it = |nonce: &[u8]| judge(Some(nonce), Some(issuer(&seed, &now, slop)));
            let expected = if made == judged {
                NonceStatus::Ok
            } else if !is_stateless {
                NonceStatus::Bad
            } else if slop > 0 && made.abs_diff(judged) <= slop {
                NonceStatus::Ok
            } else {
                NonceStatus::Slop(judged - made)
            };
            prop_assert_eq!(judge_it(nonce.as_bytes()).status, expected);
            let mut forged = nonce.clone().into_bytes();
            let at = change.0.index(forged.len());
            if forged[at] != change.1 {
                forged[at] = change.1;
                prop_assert_eq!(judge_it(&forged).status, NonceStatus::Bad);
            }
        }

        #[test]
        fn no_bytes_are_a_nonce(nonce in prop::collection::vec(any::<u8>(), 0..80)) {
            let now = terms(".", 1000, true);
            let issuer = issuer("s", &now, u64::MAX);
            prop_assert_eq!(judge(Some(&nonce), Some(issuer)).status, NonceStatus::Bad);
        }
    }
}
