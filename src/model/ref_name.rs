//! Names of refs that are valid by construction.

use bstr::{BStr, BString, ByteSlice};
use std::fmt;

/// The full name of a ref: begins with `refs/` and passes `git check-ref-format`.
///
/// Bytes, not text: git refuses no encoding. The rules are those of git's refs.c
/// (`check_refname_format`), asked for here of [gix-validate](gix_validate::reference::name()).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefName(BString);

/// A name that git would call a "funny refname".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refusing to update funny ref '{name}' remotely")]
pub struct RefNameError {
    /// The name as it came.
    pub name: BString,
}

impl RefName {
    /// Accepts `name` for a creation or an update: `refs/`, at least two components after the
    /// split at `/` (so `refs/x` alone is refused), and git's format rules.
    pub fn new(name: impl Into<BString>) -> Result<Self, RefNameError> {
        let name = name.into();
        match name.strip_prefix(b"refs/") {
            Some(rest) if rest.contains(&b'/') && is_well_formed(name.as_bstr()) => Ok(Self(name)),
            _ => Err(RefNameError { name }),
        }
    }

    /// Accepts `name` for a deletion, where git allows one level below `refs/` too, so that odd
    /// refs can be removed.
    pub fn for_deletion(name: impl Into<BString>) -> Result<Self, RefNameError> {
        let name = name.into();
        if Self::is_deletable(name.as_bstr()) { Ok(Self(name)) } else { Err(RefNameError { name }) }
    }

    /// Whether [`for_deletion`](Self::for_deletion) accepts `name`.
    pub fn is_deletable(name: &BStr) -> bool {
        name.starts_with(b"refs/") && is_well_formed(name)
    }

    /// The name as bytes.
    pub fn as_bstr(&self) -> &BStr {
        self.0.as_bstr()
    }

    /// Whether this is a branch, `refs/heads/…`.
    pub fn is_branch(&self) -> bool {
        self.0.starts_with(b"refs/heads/")
    }
}

fn is_well_formed(name: &BStr) -> bool {
    is_plain(name) || gix_validate::reference::name(name).is_ok()
}

/// Whether a name has nothing in it that could break a rule: letters, digits, `-` and `_` in
/// components that are not empty, at least two of them, with dots between digits. Most names are
/// so, and this is the work of a large advertisement.
fn is_plain(name: &[u8]) -> bool {
    let mut before = b'/';
    let mut has_slash = false;
    for (at, &byte) in name.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => {}
            b'/' if before != b'/' => has_slash = true,
            b'.' if before.is_ascii_digit() && name.get(at + 1).is_some_and(u8::is_ascii_digit) => {
            }
            _ => return false,
        }
        before = byte;
    }
    has_slash && before != b'/'
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_accepted_byte_for_byte() {
        for name in [
            &b"refs/heads/main"[..],
            b"refs/tags/v1.0",
            b"refs/heads/\xff\xfe",
            "refs/heads/дом—x".as_bytes(),
            b"refs/heads/-h",
            b"refs/heads/HEAD",
            b"refs/heads/$(touch${IFS}x)",
            b"refs/heads/;id",
            b"refs/heads/--output=x",
            b"refs/for/main",
        ] {
            let parsed = RefName::new(name).unwrap();
            assert_eq!(parsed.as_bstr(), name);
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_plain_is_well_formed(name in "(refs/)?[a-c0-1./_-]{0,12}(\\.lock)?") {
            let by_rule = gix_validate::reference::name(name.as_str().into()).is_ok();
            proptest::prop_assert!(by_rule || !is_plain(name.as_bytes()), "{}", name);
        }
    }

    #[test]
    fn most_names_are_plain() {
        for name in ["refs/heads/main", "refs/tags/v1.0.2-rc_1", "refs/pull/17/head"] {
            assert!(is_plain(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn funny_names_are_refused() {
        for name in [
            &b"HEAD"[..],
            b"refs/",
            b"refs/foo",
            b"refs/heads/",
            b"refs/heads/a..b",
            b"refs/heads/a.lock",
            b"refs/heads/a.lock/b",
            b"refs/heads/@{",
            b"refs/heads/a b",
            b"refs/heads/../x",
            b"refs/heads/.x",
            b"refs/heads/x.",
            b"refs//heads/x",
            b"refs/heads/x/",
            b"/refs/heads/x",
            b"refs/heads/a\x7f",
            b"refs/heads/a~",
            b"refs/heads/a\\b",
            b"refs/heads/a*",
            b"../x",
            b"",
        ] {
            assert!(RefName::new(name).is_err(), "{}", name.as_bstr());
        }
    }

    #[test]
    fn deletion_allows_one_level() {
        assert!(RefName::for_deletion("refs/onelevel").is_ok());
        assert!(RefName::for_deletion("refs/one..level").is_err());
        assert!(RefName::for_deletion("HEAD").is_err());
    }
}
