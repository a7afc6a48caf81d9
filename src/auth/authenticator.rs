//! From a request's headers to the user behind it.

use super::basic::BasicCredentials;
use super::htpasswd::Htpasswd;
use super::recent::RecentSuccesses;
use super::trusted_header::{TrustedHeader, Word};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Every way to be known to this server.
pub struct Authenticator {
    passwords: Option<Arc<Passwords>>,
    trusted_header: Option<TrustedHeader>,
}

/// Who a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Somebody who named no one, or whom this server cannot ask.
    Unnamed,
    /// This user.
    User(String),
    /// Somebody whose credentials are wrong.
    Wrong,
}

struct Passwords {
    htpasswd: Htpasswd,
    recent: RecentSuccesses,
    /// One bcrypt per processor at a time: more would only take the processors from the pushes.
    verifying: Arc<Semaphore>,
}

impl Authenticator {
    /// An authenticator of passwords, of a proxy's word, of both, or of none.
    pub fn new(
        htpasswd: Option<Htpasswd>,
        trusted_header: Option<TrustedHeader>,
    ) -> io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let passwords = match htpasswd {
            Some(htpasswd) => Some(Arc::new(Passwords {
                htpasswd,
                recent: RecentSuccesses::new(REMEMBERED_FOR)?,
                verifying: Arc::new(Semaphore::new(processors)),
            })),
            None => None,
        };
        Ok(Self { passwords, trusted_header })
    }

    /// Whether anybody can be known at all.
    pub fn is_configured(&self) -> bool {
        self.passwords.is_some() || self.trusted_header.is_some()
    }

    /// Whether credentials that come by way of `peer` could be believed: then asking for them
    /// makes sense.
    pub fn can_authenticate(&self, peer: IpAddr) -> bool {
        self.passwords.is_some()
            || self.trusted_header.as_ref().is_some_and(|header| header.believes(peer))
    }

    /// Whether this server itself checks passwords.
    pub fn checks_passwords(&self) -> bool {
        self.passwords.is_some()
    }

    /// Finds the user. A trusted proxy's word goes before a password; credentials that this
    /// server has no way to check are as good as none.
    pub async fn identify(&self, headers: &HeaderMap, peer: IpAddr) -> Identity {
        if let Some(header) = &self.trusted_header {
            match header.read(headers, peer) {
                Word::User(user) => return Identity::User(user),
                Word::Nonsense => return Identity::Wrong,
                Word::Nothing => {}
            }
        }
        let (Some(passwords), Some(value)) = (&self.passwords, headers.get(AUTHORIZATION)) else {
            return Identity::Unnamed;
        };
        match BasicCredentials::parse(value) {
            Some(credentials) => passwords.identify(credentials).await,
            None => Identity::Wrong,
        }
    }
}

impl Passwords {
    async fn identify(self: &Arc<Self>, credentials: BasicCredentials) -> Identity {
        let this = Arc::clone(self);
        let users = spawn_blocking(move || this.htpasswd.users()).await;
        let Some((hash, counts)) = users.ok().and_then(|users| users.hash_for(&credentials.user))
        else {
            return Identity::Wrong;
        };
        let BasicCredentials { user, password } = credentials;
        let fingerprint = self.recent.fingerprint(&user, &password, &hash);
        if counts && self.recent.contains(fingerprint, Instant::now()) {
            return Identity::User(user);
        }
        let Ok(permit) = Arc::clone(&self.verifying).acquire_owned().await else {
            return Identity::Wrong;
        };
        let verified = spawn_blocking(move || {
            let _permit = permit;
            bcrypt::verify(&password, &hash).unwrap_or(false)
        });
        if verified.await.unwrap_or(false) && counts {
            self.recent.remember(fingerprint, Instant::now());
            return Identity::User(user);
        }
        Identity::Wrong
    }
}

const REMEMBERED_FOR: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use std::fs;
    use tempfile::TempDir;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn with_passwords(users: &[(&str, &str)]) -> (TempDir, Authenticator) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("users");
        let mut lines = String::new();
        for (user, password) in users {
            let parts = bcrypt::hash_with_result(password, 4).unwrap();
            let hash = parts.format_for_version(bcrypt::Version::TwoY);
            lines.extend([user, ":", &hash, "\n"]);
        }
        fs::write(&path, lines).unwrap();
        let htpasswd = Htpasswd::open(&path).unwrap();
        (directory, Authenticator::new(Some(htpasswd), None).unwrap())
    }

    fn with_header() -> TrustedHeader {
        TrustedHeader { name: HeaderName::from_static("x-user"), proxies: Vec::new() }
    }

    fn basic(plain: &str) -> HeaderMap {
        let value = format!("Basic {}", BASE64_STANDARD.encode(plain));
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(&value).unwrap())])
    }

    fn named(user: &'static str) -> HeaderMap {
        let name = HeaderName::from_static("x-user");
        HeaderMap::from_iter([(name, HeaderValue::from_static(user))])
    }

    #[tokio::test]
    async fn a_right_password_names_its_user_and_a_wrong_one_nobody() {
        let (_directory, authenticator) = with_passwords(&[("ann", "secret"), ("bob", "other")]);
        let identify = async |plain| authenticator.identify(&basic(plain), PEER).await;
        // Twice: the second time it is remembered.
        assert_eq!(identify("ann:secret").await, Identity::User("ann".into()));
        assert_eq!(identify("ann:secret").await, Identity::User("ann".into()));
        for wrong in ["ann:", "ann:other", "ann:secret ", "Ann:secret", "eve:secret", "eve:other"] {
            assert_eq!(identify(wrong).await, Identity::Wrong, "{wrong}");
        }
    }

    #[tokio::test]
    async fn no_credentials_are_nobody_and_another_scheme_is_wrong() {
        let (_directory, authenticator) = with_passwords(&[("ann", "secret")]);
        assert_eq!(authenticator.identify(&HeaderMap::new(), PEER).await, Identity::Unnamed);
        let bearer = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer x"))]);
        assert_eq!(authenticator.identify(&bearer, PEER).await, Identity::Wrong);
    }

    #[tokio::test]
    async fn a_server_without_passwords_takes_credentials_as_none() {
        let authenticator = Authenticator::new(None, None).unwrap();
        assert!(!authenticator.is_configured() && !authenticator.can_authenticate(LOOPBACK));
        assert_eq!(authenticator.identify(&basic("ann:x"), LOOPBACK).await, Identity::Unnamed);
    }

    #[tokio::test]
    async fn a_header_is_believed_from_this_machine_only() {
        let authenticator = Authenticator::new(None, Some(with_header())).unwrap();
        assert!(authenticator.can_authenticate(LOOPBACK) && !authenticator.can_authenticate(PEER));
        let identify = async |peer| authenticator.identify(&named("ann"), peer).await;
        assert_eq!(identify(LOOPBACK).await, Identity::User("ann".into()));
        assert_eq!(identify(PEER).await, Identity::Unnamed);
    }

    #[tokio::test]
    async fn a_password_that_leaves_the_file_stops_counting() {
        let (directory, authenticator) = with_passwords(&[("ann", "secret")]);
        let path = directory.path().join("users");
        assert_eq!(
            authenticator.identify(&basic("ann:secret"), PEER).await,
            Identity::User("ann".into())
        );
        let other = bcrypt::hash("changed", 4).unwrap();
        fs::write(&path, format!("ann:{other}\n")).unwrap();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(authenticator.identify(&basic("ann:secret"), PEER).await, Identity::Wrong);
    }
}
