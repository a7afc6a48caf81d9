//! The password file: lines of `user:hash`, as htpasswd(1) writes them.
//!
//! Pure. A line that cannot be used is an error, instead of being skipped: its user would be locked
//! out without anybody knowing why.

use super::followed_file::Content;
use super::password_hash::{HashFault, PasswordHash};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;

/// The users of one reading of the file, each with the hash of a password.
#[derive(Debug, Default)]
pub struct Htpasswd {
    users: HashMap<String, usize>,
    hashes: Vec<Arc<PasswordHash>>,
    /// Which hash an unknown user is verified against.
    stand_in: RandomState,
}

/// What can be wrong with one line of a password file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// It is not `user:hash` in UTF-8.
    #[error("not of the form user:hash")]
    Form,
    /// The same user stands above.
    #[error("user '{0}' is there twice")]
    Twice(String),
    /// The hash cannot be used.
    #[error("the password of user '{user}' {fault}")]
    Hash {
        /// The user.
        user: String,
        /// What is wrong with it.
        fault: HashFault,
    },
}

impl Content for Htpasswd {
    type Fault = LineFault;
    const WHAT: &'static str = "password file";

    /// Reads the lines; empty ones and those that begin with `#` are skipped.
    fn parse(_: &Path, bytes: &[u8]) -> Result<Self, (usize, LineFault)> {
        let mut read = Self::default();
        for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let number = index.saturating_add(1);
            let (user, hash) = parse_line(line).map_err(|fault| (number, fault))?;
            if read.users.insert(user.to_owned(), read.hashes.len()).is_some() {
                return Err((number, LineFault::Twice(user.to_owned())));
            }
            read.hashes.push(Arc::new(hash));
        }
        Ok(read)
    }

    fn entries(&self) -> usize {
        self.hashes.len()
    }
}

impl Htpasswd {
    /// The hash to verify a password of `user` against, and whether a match counts. For a user
    /// who is not there it is somebody else's, always the same one, and does not count, so that
    /// the time an answer takes tells nobody which users there are. `None` if there are no users at
    /// all.
    pub(super) fn hash_for(&self, user: &str) -> Option<(Arc<PasswordHash>, bool)> {
        let known = self.users.get(user).copied();
        let at = known.or_else(|| {
            let count = u64::try_from(self.hashes.len()).ok()?;
            usize::try_from(self.stand_in.hash_one(user).checked_rem(count)?).ok()
        })?;
        self.hashes.get(at).map(|hash| (Arc::clone(hash), known.is_some()))
    }

    /// How many passwords are of a scheme that is fast to search.
    pub fn weak(&self) -> usize {
        self.hashes.iter().filter(|hash| hash.is_weak()).count()
    }
}

fn parse_line(line: &[u8]) -> Result<(&str, PasswordHash), LineFault> {
    let line = std::str::from_utf8(line).map_err(|_| LineFault::Form)?;
    let (user, rest) = line.split_once(':').ok_or(LineFault::Form)?;
    // Some programs put a comment behind a second colon.
    let hash = rest.split_once(':').map_or(rest, |(hash, _comment)| hash);
    if user.is_empty() || user.contains(char::is_control) {
        return Err(LineFault::Form);
    }
    match PasswordHash::parse(hash) {
        Ok(hash) => Ok((user, hash)),
        Err(fault) => Err(LineFault::Hash { user: user.to_owned(), fault }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `htpasswd -nbB -C 4 ann secret`.
    const ANN: &str = "ann:$2y$04$Xjars77x0BiPYHQ7wu1W8uED/vSQUcbHWBWgO6NtBf0uri5IunYHq";

    fn parse(bytes: &[u8]) -> Result<Htpasswd, (usize, LineFault)> {
        Htpasswd::parse(Path::new(""), bytes)
    }

    fn fault(text: &str) -> (usize, LineFault) {
        parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn lines_comments_and_blank_lines_are_read() {
        let text = format!("# users\n\n{ANN}\r\n  \nбоб{}\n", &ANN[3..]);
        let users = parse(text.as_bytes()).unwrap();
        assert_eq!(users.entries(), 2);
        let (hash, counts) = users.hash_for("ann").unwrap();
        assert!(counts && hash.as_str() == &ANN[4..]);
        assert!(users.hash_for("боб").unwrap().1);
    }

    #[test]
    fn a_comment_behind_the_hash_is_no_part_of_it() {
        let users = parse(format!("{ANN}:Ann, the first").as_bytes()).unwrap();
        assert_eq!(users.hash_for("ann").unwrap().0.as_str(), &ANN[4..]);
    }

    #[test]
    fn schemes_may_stand_side_by_side_and_the_weak_are_counted() {
        let text = format!("{ANN}\nbob:$apr1$r31abcde$SZEN.U5sWGGNcv9YsUrqI.\n");
        let users = parse(text.as_bytes()).unwrap();
        assert_eq!((users.entries(), users.weak()), (2, 1));
        assert!(users.hash_for("bob").unwrap().0.verify(b"secret"));
    }

    #[test]
    fn an_unknown_user_costs_as_much_as_a_known_one_and_never_matches() {
        let users = parse(ANN.as_bytes()).unwrap();
        let (hash, counts) = users.hash_for("eve").unwrap();
        assert!(!counts && hash.as_str() == &ANN[4..]);
        assert!(parse(b"").unwrap().hash_for("eve").is_none());
        let text = format!("{ANN}\nbob:$apr1$r31abcde$SZEN.U5sWGGNcv9YsUrqI.\n");
        let users = parse(text.as_bytes()).unwrap();
        let first = users.hash_for("eve").unwrap().0;
        assert!((0..9).all(|_| users.hash_for("eve").unwrap().0 == first));
    }

    #[test]
    fn damaged_lines_are_named() {
        assert_eq!(fault("ann"), (1, LineFault::Form));
        assert_eq!(fault(&ANN[3..]), (1, LineFault::Form));
        assert_eq!(fault(&format!("{ANN}\n{ANN}")), (2, LineFault::Twice("ann".into())));
        let (line, plain) = fault("\nann:secret\n");
        assert!(
            line == 2 && plain.to_string().starts_with("the password of user 'ann' is of scheme")
        );
        let (_, damaged) = fault("ann:$2y$04$");
        assert_eq!(damaged.to_string(), "the password of user 'ann' is a damaged bcrypt hash");
        assert!(matches!(parse(b"a\xff:x"), Err((1, LineFault::Form))));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(parse(&bytes));
        }
    }
}
