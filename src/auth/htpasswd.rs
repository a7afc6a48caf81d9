//! The password file: lines of `user:hash`, as htpasswd(1) writes them.
//!
//! Only bcrypt (`htpasswd -B`) is read. The other schemes of that program are either broken or
//! fast enough to be searched, so a line that uses one is refused by name instead of being
//! skipped: its user would be locked out without anybody knowing why.
//!
//! The file is read anew when it has changed; if that fails, what was read before stays in force.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A password file, followed through its changes.
pub struct Htpasswd {
    path: PathBuf,
    state: Mutex<State>,
}

/// Why a password file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum HtpasswdError {
    /// It could not be read.
    #[error("cannot read password file '{}'", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is larger than any password file.
    #[error("password file '{}' is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// A line is wrong; `path` and `line` (counted from 1) tell where.
    #[error("password file '{}', line {line}: {fault}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is wrong with it.
        fault: LineFault,
    },
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
    /// The hash is of a scheme that is not supported.
    #[error("user '{user}' has a password of scheme {scheme}; only bcrypt is read: htpasswd -B")]
    Scheme {
        /// The user.
        user: String,
        /// The scheme's name.
        scheme: &'static str,
    },
    /// A bcrypt hash that is none.
    #[error("user '{0}' has a damaged bcrypt hash")]
    Damaged(String),
}

/// The users of one reading of the file, each with a bcrypt hash.
#[derive(Debug, Default)]
pub(super) struct Users(HashMap<String, Arc<str>>);

struct State {
    users: Arc<Users>,
    stamp: Stamp,
    looked: Instant,
}

/// What tells one content of the file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Htpasswd {
    /// Reads the file.
    pub fn open(path: &Path) -> Result<Self, HtpasswdError> {
        let (users, stamp) = load(path)?;
        let state = State { users: Arc::new(users), stamp, looked: Instant::now() };
        Ok(Self { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// The users as the file has them now, give or take a second. Blocks on the file system.
    pub(super) fn users(&self) -> Arc<Users> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK_EVERY {
            state.looked = Instant::now();
            self.refresh(&mut state);
        }
        Arc::clone(&state.users)
    }

    fn refresh(&self, state: &mut State) {
        let Ok(stamp) = stamp(&self.path) else {
            tracing::warn!(path = ?self.path, "password file is not there, going on with the old");
            return;
        };
        if stamp == state.stamp {
            return;
        }
        match load(&self.path) {
            Ok((users, stamp)) => {
                tracing::info!(path = ?self.path, users = users.0.len(), "password file read anew");
                state.users = Arc::new(users);
                state.stamp = stamp;
            }
            // The stamp stays old, so that the next look tries again: the file may be half written.
            Err(error) => tracing::error!(%error, "going on with the passwords read before"),
        }
    }
}

impl Users {
    /// Reads the lines of a password file; empty ones and those that begin with `#` are skipped.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, (usize, LineFault)> {
        let mut users = HashMap::new();
        for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let (user, hash) = parse_line(line).map_err(|fault| (index + 1, fault))?;
            if users.insert(user.to_owned(), Arc::from(hash)).is_some() {
                return Err((index + 1, LineFault::Twice(user.to_owned())));
            }
        }
        Ok(Self(users))
    }

    /// The hash to verify a password of `user` against, and whether a match counts. For a user
    /// who is not there it is somebody else's and does not count, so that the time an answer
    /// takes tells nobody which users there are. `None` if there are no users at all.
    pub(super) fn hash_for(&self, user: &str) -> Option<(Arc<str>, bool)> {
        match self.0.get(user) {
            Some(hash) => Some((Arc::clone(hash), true)),
            None => self.0.values().next().map(|hash| (Arc::clone(hash), false)),
        }
    }
}

const BYTES_MAX: u64 = 16 << 20;
const LOOK_EVERY: Duration = Duration::from_secs(1);

fn load(path: &Path) -> Result<(Users, Stamp), HtpasswdError> {
    let read_error = |source| HtpasswdError::Read { path: path.to_owned(), source };
    // The stamp is taken first: a change in between shows as a difference at the next look.
    let stamp = stamp(path).map_err(read_error)?;
    if stamp.bytes > BYTES_MAX {
        return Err(HtpasswdError::TooLarge { path: path.to_owned(), limit: BYTES_MAX });
    }
    let bytes = fs::read(path).map_err(read_error)?;
    let users = Users::parse(&bytes).map_err(|(line, fault)| HtpasswdError::Line {
        path: path.to_owned(),
        line,
        fault,
    })?;
    Ok((users, stamp))
}

fn stamp(path: &Path) -> io::Result<Stamp> {
    let metadata = fs::metadata(path)?;
    Ok(Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

fn parse_line(line: &[u8]) -> Result<(&str, &str), LineFault> {
    let line = std::str::from_utf8(line).map_err(|_| LineFault::Form)?;
    let (user, rest) = line.split_once(':').ok_or(LineFault::Form)?;
    // Some programs put a comment behind a second colon.
    let hash = rest.split_once(':').map_or(rest, |(hash, _comment)| hash);
    if user.is_empty() || user.contains(char::is_control) {
        return Err(LineFault::Form);
    }
    if let Some(scheme) = foreign_scheme(hash) {
        return Err(LineFault::Scheme { user: user.to_owned(), scheme });
    }
    // Only parsing, no hashing.
    match hash.parse::<bcrypt::HashParts>() {
        Ok(_) => Ok((user, hash)),
        Err(_) => Err(LineFault::Damaged(user.to_owned())),
    }
}

/// The name of a hash's scheme, if it is not bcrypt.
fn foreign_scheme(hash: &str) -> Option<&'static str> {
    const PREFIXES: [(&str, &str); 7] = [
        ("$apr1$", "apr1 (MD5)"),
        ("$1$", "md5-crypt"),
        ("$5$", "sha256-crypt"),
        ("$6$", "sha512-crypt"),
        ("$argon2", "argon2"),
        ("{SHA}", "SHA-1"),
        ("{SSHA}", "salted SHA-1"),
    ];
    if ["$2a$", "$2b$", "$2y$"].iter().any(|prefix| hash.starts_with(prefix)) {
        return None;
    }
    let known = PREFIXES.iter().find(|(prefix, _)| hash.starts_with(prefix));
    Some(known.map_or("crypt or plain text", |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `htpasswd -nbB -C 4 ann secret`.
    const ANN: &str = "ann:$2y$04$abcdefghijklmnopqrstuuRgeGTuXBXVWJZTOOxwsWkS/uC.HjWY2";

    fn fault(text: &str) -> (usize, LineFault) {
        Users::parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn lines_comments_and_blank_lines_are_read() {
        let text = format!("# users\n\n{ANN}\r\n  \nбоб{}\n", &ANN[3..]);
        let users = Users::parse(text.as_bytes()).unwrap();
        assert_eq!(users.0.len(), 2);
        assert_eq!(users.hash_for("ann").unwrap(), (Arc::from(&ANN[4..]), true));
        assert!(users.hash_for("боб").unwrap().1);
    }

    #[test]
    fn a_comment_behind_the_hash_is_no_part_of_it() {
        let users = Users::parse(format!("{ANN}:Ann, the first").as_bytes()).unwrap();
        assert_eq!(&*users.hash_for("ann").unwrap().0, &ANN[4..]);
    }

    #[test]
    fn an_unknown_user_costs_as_much_as_a_known_one_and_never_matches() {
        let users = Users::parse(ANN.as_bytes()).unwrap();
        assert_eq!(users.hash_for("eve").unwrap(), (Arc::from(&ANN[4..]), false));
        assert!(Users::parse(b"").unwrap().hash_for("eve").is_none());
    }

    #[test]
    fn other_schemes_are_refused_by_name() {
        for (hash, scheme) in [
            ("$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/", "apr1 (MD5)"),
            ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "SHA-1"),
            ("$5$salt$x", "sha256-crypt"),
            ("$6$salt$x", "sha512-crypt"),
            ("$2x$04$abc", "crypt or plain text"),
            ("rl.3StKT.4T8M", "crypt or plain text"),
            ("", "crypt or plain text"),
        ] {
            let expected = LineFault::Scheme { user: "ann".into(), scheme };
            assert_eq!(fault(&format!("\nann:{hash}\n")), (2, expected));
        }
    }

    #[test]
    fn damaged_lines_are_named() {
        assert_eq!(fault("ann"), (1, LineFault::Form));
        assert_eq!(fault(&ANN[3..]), (1, LineFault::Form));
        assert_eq!(fault(&format!("{ANN}\n{ANN}")), (2, LineFault::Twice("ann".into())));
        for hash in ["$2y$", "$2y$04$", "$2y$99$abc", &ANN[4..40], "$2y$04$é"] {
            assert_eq!(fault(&format!("ann:{hash}")), (1, LineFault::Damaged("ann".into())));
        }
        assert!(matches!(Users::parse(b"a\xff:x"), Err((1, LineFault::Form))));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Htpasswd::open(Path::new("/nonexistent/users")).err().unwrap();
        assert_eq!(error.to_string(), "cannot read password file '/nonexistent/users'");
    }

    #[test]
    fn a_change_is_seen_and_a_broken_file_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        fs::write(&path, ANN).unwrap();
        let htpasswd = Htpasswd::open(&path).unwrap();
        let look = || {
            htpasswd.state.lock().unwrap().looked = Instant::now().checked_sub(LOOK_EVERY).unwrap();
            htpasswd.users()
        };
        fs::write(&path, format!("{ANN}\nbob{}", &ANN[3..])).unwrap();
        assert_eq!(look().0.len(), 2);
        fs::write(&path, "ann:plain").unwrap();
        assert_eq!(look().0.len(), 2);
        fs::remove_file(&path).unwrap();
        assert_eq!(look().0.len(), 2);
        fs::write(&path, "").unwrap();
        assert_eq!(look().0.len(), 0);
    }
}
