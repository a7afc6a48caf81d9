//! The token file: one token a line, with what it is good for.
//!
//! ```text
//! # id  user  scope  expires  sha256  repositories...
//! ci-1  ann   write  2027-01-31T00:00:00Z  sha256:ba78…  web/*  docs
//! ```
//!
//! Pure. Words are those of an access file: `#` begins a comment, and a word with blanks stands in
//! quotes. Tokens themselves are not in it.

use super::expiry::{Expiry, ExpiryFault};
use super::followed_file::Content;
use super::token::TokenDigest;
use crate::access::{Glob, GlobFault, Grant, UnknownScope, Word, WordFault, words};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The tokens of one reading of the file.
#[derive(Debug, Default)]
pub struct TokenFile {
    entries: Vec<Arc<TokenEntry>>,
    by_bucket: HashMap<u64, Vec<usize>>,
}

/// What a line says of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    /// By what it is named to revoke it.
    pub id: String,
    /// Whose it is.
    pub user: String,
    /// How far it goes.
    pub grant: Grant,
    /// When it ends.
    pub expiry: Expiry,
    /// By what it is known.
    pub digest: TokenDigest,
}

/// What can be wrong with a line of a token file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// It has no words.
    #[error(transparent)]
    Words(#[from] WordFault),
    /// Words are missing.
    #[error("{0} words; a token is: id user scope expires sha256:digest repositories...")]
    TooFew(usize),
    /// A name that is none.
    #[error("'{0}' is no {1}: it must be letters, and may not be empty or hold control characters")]
    Name(String, &'static str),
    /// The same id stands above.
    #[error("token '{0}' is there twice")]
    Twice(String),
    /// The same digest stands above.
    #[error("the digest of token '{0}' is that of another")]
    SameDigest(String),
    /// An unknown scope.
    #[error(transparent)]
    Scope(#[from] UnknownScope),
    /// No date.
    #[error(transparent)]
    Expiry(#[from] ExpiryFault),
    /// No digest.
    #[error("the digest of token '{0}' is not of the form sha256: and 64 hexadecimal digits")]
    Digest(String),
    /// No pattern.
    #[error(transparent)]
    Glob(#[from] GlobFault),
}

impl Content for TokenFile {
    type Fault = TokenFault;
    const WHAT: &'static str = "token file";

    fn parse(_: &Path, bytes: &[u8]) -> Result<Self, (usize, TokenFault)> {
        let mut read = Self::default();
        let mut ids = HashSet::new();
        for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let number = index.saturating_add(1);
            let entry = TokenEntry::parse(line).map_err(|fault| (number, fault))?;
            let Some(entry) = entry else { continue };
            if !ids.insert(entry.id.clone()) {
                return Err((number, TokenFault::Twice(entry.id)));
            }
            if read.find(&entry.digest).is_some() {
                return Err((number, TokenFault::SameDigest(entry.id)));
            }
            let bucket = read.by_bucket.entry(entry.digest.bucket()).or_default();
            bucket.push(read.entries.len());
            read.entries.push(Arc::new(entry));
        }
        Ok(read)
    }

    fn entries(&self) -> usize {
        self.entries.len()
    }
}

impl TokenFile {
    /// The token of this digest, in force or not.
    pub(super) fn find(&self, digest: &TokenDigest) -> Option<&Arc<TokenEntry>> {
        let places = self.by_bucket.get(&digest.bucket())?;
        places.iter().filter_map(|at| self.entries.get(*at)).find(|entry| entry.digest == *digest)
    }

    /// All tokens, in the order of the file.
    pub fn all(&self) -> impl Iterator<Item = &TokenEntry> {
        self.entries.iter().map(AsRef::as_ref)
    }
}

impl TokenEntry {
    /// Reads a line; nothing if it holds no token.
    pub fn parse(line: &[u8]) -> Result<Option<Self>, TokenFault> {
        let found = words(line)?;
        if found.is_empty() {
            return Ok(None);
        }
        let [id, user, scope, expires, digest, repositories @ ..] = found.as_slice() else {
            return Err(TokenFault::TooFew(found.len()));
        };
        if repositories.is_empty() {
            return Err(TokenFault::TooFew(found.len()));
        }
        let id = name(id, "id of a token")?;
        let hex = digest.text.strip_prefix("sha256:").and_then(TokenDigest::from_hex);
        Ok(Some(Self {
            user: name(user, "user")?,
            grant: Grant {
                scope: scope.text.parse()?,
                repositories: repositories
                    .iter()
                    .map(|word| Glob::parse(&word.text))
                    .collect::<Result<_, _>>()?,
            },
            expiry: Expiry::parse(&expires.text)?,
            digest: hex.ok_or_else(|| TokenFault::Digest(id.clone()))?,
            id,
        }))
    }
}

/// The line of the file, without a line feed.
impl fmt::Display for TokenEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, user, grant, expiry, digest } = self;
        let (id, user) = (Word::quoted(id), Word::quoted(user));
        write!(f, "{id} {user} {} {expiry} sha256:{digest}", grant.scope)?;
        grant.repositories.iter().try_for_each(|glob| write!(f, " {}", Word::quoted(glob.as_str())))
    }
}

fn name(word: &Word, what: &'static str) -> Result<String, TokenFault> {
    if word.text.is_empty() || word.text.contains(char::is_control) {
        return Err(TokenFault::Name(word.text.clone(), what));
    }
    Ok(word.text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Scope;
    use proptest::prelude::*;

    const HEX: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn line(start: &str) -> String {
        format!("{start} sha256:{HEX} **")
    }

    fn parse(text: &str) -> Result<TokenFile, (usize, TokenFault)> {
        TokenFile::parse(Path::new(""), text.as_bytes())
    }

    #[test]
    fn tokens_comments_and_blank_lines_are_read() {
        let text = format!("# tokens\n\n{} # of ann\r\n", line("ci ann write 2027-01-31"));
        let file = parse(&text).unwrap();
        let entry = file.find(&TokenDigest::of(b"abc")).unwrap();
        assert_eq!((entry.id.as_str(), entry.user.as_str()), ("ci", "ann"));
        assert_eq!(entry.grant.scope, Scope::Write);
        assert_eq!(entry.expiry.to_string(), "2027-02-01T00:00:00Z");
        assert!(file.find(&TokenDigest::of(b"abd")).is_none() && file.entries() == 1);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let twice = format!("{}\n{}", line("a ann read never"), line("a bob read never"));
        let same = format!("{}\n{}", line("a ann read never"), line("b bob read never"));
        for (text, at, words) in [
            ("\na ann read".to_owned(), 2, "3 words; a token is: id user scope"),
            (format!("a ann read never sha256:{HEX}"), 1, "5 words"),
            (
                line("a ann admin never"),
                1,
                "'admin' is no scope; permitted are read, write, create",
            ),
            (line("a ann read soon"), 1, "'soon' is no date; permitted are"),
            (line("a \"\" read never"), 1, "'' is no user"),
            (
                "a ann read never sha256:12 **".to_owned(),
                1,
                "digest of token 'a' is not of the form",
            ),
            (format!("a ann read never {HEX} **"), 1, "digest of token 'a' is not of the form"),
            (format!("a ann read never sha256:{HEX} a//b"), 1, "'a//b' has a segment"),
            (twice, 2, "token 'a' is there twice"),
            (same, 2, "the digest of token 'b' is that of another"),
            ("\"a".to_owned(), 1, "a quote is not closed"),
        ] {
            let (line, fault) = parse(&text).unwrap_err();
            assert!(line == at && fault.to_string().contains(words), "{text}: {line}: {fault}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(TokenFile::parse(Path::new(""), &bytes));
        }

        #[test]
        fn what_is_written_is_read_back(id in "[!-~]{1,9}", user in "[ -~ä]{1,9}", glob in "[a-z*? ]{1,5}") {
            let Ok(glob) = Glob::parse(&glob) else { return Ok(()) };
            let grant = Grant { scope: Scope::Read, repositories: vec![glob] };
            let digest = TokenDigest::of(id.as_bytes());
            let entry = TokenEntry { id, user, grant, expiry: Expiry::At(1), digest };
            prop_assert_eq!(TokenEntry::parse(entry.to_string().as_bytes()), Ok(Some(entry)));
        }
    }
}
