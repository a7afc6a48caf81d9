//! From a request's headers to the user behind it.

use super::basic::{BasicCredentials, bearer_token};
use super::client_address::ForwardedFor;
use super::followed_file::FollowedFile;
use super::htpasswd::Htpasswd;
use super::recent::{Recency, RecentSuccesses};
use super::slowdown::Slowdown;
use super::token::{TokenDigest, looks_like_token};
use super::token_file::{TokenEntry, TokenFile};
use super::trusted_header::{TrustedHeader, Word};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// The ways to be known that an operator has set up.
#[derive(Default)]
pub struct Ways {
    /// Passwords.
    pub htpasswd: Option<FollowedFile<Htpasswd>>,
    /// Tokens.
    pub tokens: Option<FollowedFile<TokenFile>>,
    /// A proxy's word on users.
    pub trusted_header: Option<TrustedHeader>,
    /// A proxy's word on addresses.
    pub forwarded_for: Option<ForwardedFor>,
}

/// Every way to be known to this server.
pub struct Authenticator {
    passwords: Option<Arc<Passwords>>,
    tokens: Option<Arc<FollowedFile<TokenFile>>>,
    trusted_header: Option<TrustedHeader>,
    forwarded_for: Option<ForwardedFor>,
    slowdown: Slowdown,
}

/// Who a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Somebody who named no one, or whom this server cannot ask.
    Unnamed,
    /// A user.
    User {
        /// The name.
        name: String,
        /// The token that the user came with, if it was one: it bounds what may be done.
        token: Option<Arc<TokenEntry>>,
    },
    /// Somebody whose credentials are wrong.
    Wrong,
    /// Somebody from an address that has given too many wrong ones: nothing was looked at, and may
    /// be after this time.
    TooMany(Duration),
}

struct Passwords {
    htpasswd: FollowedFile<Htpasswd>,
    recent: RecentSuccesses,
    /// One verification per processor at a time: more would only take the processors from the
    /// pushes.
    verifying: Arc<Semaphore>,
}

impl Authenticator {
    /// An authenticator that knows users in these ways; none of them, and nobody is known.
    pub fn new(ways: Ways) -> io::Result<Self> {
        let Ways { htpasswd, tokens, trusted_header, forwarded_for } = ways;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let passwords = match htpasswd {
            Some(htpasswd) => Some(Arc::new(Passwords {
                htpasswd,
                recent: RecentSuccesses::new(REMEMBERED_FOR, KNOWN_FOR)?,
                verifying: Arc::new(Semaphore::new(processors)),
            })),
            None => None,
        };
        let (tokens, slowdown) = (tokens.map(Arc::new), Slowdown::default());
        Ok(Self { passwords, tokens, trusted_header, forwarded_for, slowdown })
    }

    /// Whether anybody can be known at all.
    pub fn is_configured(&self) -> bool {
        self.checks_credentials() || self.trusted_header.is_some()
    }

    /// Whether credentials that come by way of `peer` could be believed: then asking for them
    /// makes sense.
    pub fn can_authenticate(&self, peer: IpAddr) -> bool {
        self.checks_credentials()
            || self.trusted_header.as_ref().is_some_and(|header| header.believes(peer))
    }

    /// Whether this server itself checks credentials.
    pub fn checks_credentials(&self) -> bool {
        self.passwords.is_some() || self.tokens.is_some()
    }

    /// The address of the client of a request that comes by way of `peer`.
    pub fn client_address(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        let forwarded = self.forwarded_for.as_ref();
        forwarded.map_or(peer, |forwarded| forwarded.client(headers, peer)).to_canonical()
    }

    /// Reads the files again. Blocks on the file system.
    pub fn reload(&self) {
        if let Some(passwords) = &self.passwords {
            passwords.htpasswd.reload();
        }
        if let Some(tokens) = &self.tokens {
            tokens.reload();
        }
    }

    /// Finds the user. A trusted proxy's word goes before a password; credentials that this
    /// server has no way to check are as good as none.
    pub async fn identify(&self, headers: &HeaderMap, peer: IpAddr) -> Identity {
        if let Some(header) = &self.trusted_header {
            match header.read(headers, peer) {
                Word::User(user) => return Identity::named(user),
                Word::Nonsense => return Identity::Wrong,
                Word::Nothing => {}
            }
        }
        let Some(value) = headers.get(AUTHORIZATION).filter(|_| self.checks_credentials()) else {
            return Identity::Unnamed;
        };
        let address = self.client_address(headers, peer);
        let identity = self.check(value, address).await;
        if identity == Identity::Wrong {
            self.slowdown.note_failure(address, Instant::now());
        }
        identity
    }

    async fn check(&self, value: &HeaderValue, address: IpAddr) -> Identity {
        if let Some(token) = bearer_token(value) {
            return self.bearer_of(token).await;
        }
        match (BasicCredentials::parse(value), &self.passwords) {
            // Whatever name stands in front: the token says whose it is.
            (Some(given), _) if looks_like_token(&given.password) && self.tokens.is_some() => {
                self.bearer_of(&given.password).await
            }
            (Some(given), Some(passwords)) => self.verify(passwords, given, address).await,
            _ => Identity::Wrong,
        }
    }

    /// The user of a token. Nobody waits for a turn here: tokens cannot be guessed.
    async fn bearer_of(&self, token: &[u8]) -> Identity {
        let digest = TokenDigest::of(token);
        let Some(tokens) = self.tokens.clone() else { return Identity::Wrong };
        let current = spawn_blocking(move || tokens.current()).await;
        let Some(entry) = current.ok().and_then(|tokens| tokens.find(&digest).cloned()) else {
            return Identity::Wrong;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if entry.expiry.is_past(now.as_secs()) {
            let (id, user) = (&entry.id, &entry.user);
            tracing::info!(target: "packhouse::auth", id, user, "token has expired");
            return Identity::Wrong;
        }
        Identity::User { name: entry.user.clone(), token: Some(entry) }
    }

    async fn verify(
        &self,
        passwords: &Arc<Passwords>,
        credentials: BasicCredentials,
        address: IpAddr,
    ) -> Identity {
        let this = Arc::clone(passwords);
        let users = spawn_blocking(move || this.htpasswd.current()).await;
        let Some((hash, counts)) = users.ok().and_then(|users| users.hash_for(&credentials.user))
        else {
            return Identity::Wrong;
        };
        let BasicCredentials { user, password } = credentials;
        let fingerprint = passwords.recent.fingerprint(&user, &password, hash.as_str());
        match passwords.recent.recency(fingerprint, Instant::now()) {
            Recency::Fresh if counts => return Identity::named(user),
            Recency::Known if counts => {}
            _ => match self.slowdown.turn(address, Instant::now()) {
                Ok(wait) if wait.is_zero() => {}
                Ok(wait) => sleep(wait).await,
                Err(wait) => return Identity::TooMany(wait),
            },
        }
        let Ok(permit) = Arc::clone(&passwords.verifying).acquire_owned().await else {
            return Identity::Wrong;
        };
        let verified = spawn_blocking(move || {
            let _permit = permit;
            hash.verify(&password)
        });
        if verified.await.unwrap_or(false) && counts {
            passwords.recent.remember(fingerprint, Instant::now());
            return Identity::named(user);
        }
        Identity::Wrong
    }
}

impl Identity {
    /// A user who came without a token.
    pub fn named(name: impl Into<String>) -> Self {
        Self::User { name: name.into(), token: None }
    }
}

/// A push is several requests.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
const KNOWN_FOR: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::super::token::Token;
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
        let htpasswd = Some(FollowedFile::open(&path).unwrap());
        (directory, Authenticator::new(Ways { htpasswd, ..Ways::default() }).unwrap())
    }

    fn with_header() -> TrustedHeader {
        TrustedHeader { name: HeaderName::from_static("x-user"), proxies: Vec::new() }
    }

    fn with_proxy() -> Authenticator {
        let trusted_header = Some(with_header());
        Authenticator::new(Ways { trusted_header, ..Ways::default() }).unwrap()
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
        assert_eq!(identify("ann:secret").await, Identity::named("ann"));
        assert_eq!(identify("ann:secret").await, Identity::named("ann"));
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
        let authenticator = Authenticator::new(Ways::default()).unwrap();
        assert!(!authenticator.is_configured() && !authenticator.can_authenticate(LOOPBACK));
        assert_eq!(authenticator.identify(&basic("ann:x"), LOOPBACK).await, Identity::Unnamed);
    }

    #[tokio::test]
    async fn a_header_is_believed_from_this_machine_only() {
        let authenticator = with_proxy();
        assert!(authenticator.can_authenticate(LOOPBACK) && !authenticator.can_authenticate(PEER));
        let identify = async |peer| authenticator.identify(&named("ann"), peer).await;
        assert_eq!(identify(LOOPBACK).await, Identity::named("ann"));
        assert_eq!(identify(PEER).await, Identity::Unnamed);
    }

    #[tokio::test]
    async fn a_password_that_leaves_the_file_stops_counting() {
        let (directory, authenticator) = with_passwords(&[("ann", "secret")]);
        let path = directory.path().join("users");
        assert_eq!(
            authenticator.identify(&basic("ann:secret"), PEER).await,
            Identity::named("ann")
        );
        let other = bcrypt::hash("changed", 4).unwrap();
        fs::write(&path, format!("ann:{other}\n")).unwrap();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(authenticator.identify(&basic("ann:secret"), PEER).await, Identity::Wrong);
    }

    #[tokio::test]
    async fn wrong_passwords_slow_their_address_and_a_good_one_that_is_known_does_not_wait() {
        let (_directory, authenticator) = with_passwords(&[("ann", "secret"), ("bob", "other")]);
        let identify = async |plain| authenticator.identify(&basic(plain), PEER).await;
        let ann = Identity::named("ann");
        assert_eq!(identify("ann:secret").await, ann);
        for _ in 0..9 {
            authenticator.slowdown.note_failure(PEER, Instant::now());
        }
        let started = Instant::now();
        assert_eq!(identify("ann:secret").await, ann);
        // Another one of the same address has its turn.
        assert_eq!(identify("bob:other").await, Identity::named("bob"));
        assert!(started.elapsed() >= Duration::from_millis(700));
        let turn = authenticator.slowdown.turn(PEER, Instant::now());
        // One of the two took a turn, and no more.
        assert!(turn.unwrap() <= Duration::from_millis(800));
    }

    #[tokio::test]
    async fn attempts_beyond_the_line_are_sent_away_unseen() {
        let (_directory, authenticator) = with_passwords(&[("ann", "secret")]);
        for _ in 0..200 {
            authenticator.slowdown.note_failure(PEER, Instant::now());
        }
        while authenticator.slowdown.turn(PEER, Instant::now()).is_ok() {}
        let identity = authenticator.identify(&basic("ann:wrong"), PEER).await;
        assert!(matches!(identity, Identity::TooMany(_)), "{identity:?}");
        let other = authenticator.identify(&basic("ann:secret"), LOOPBACK).await;
        assert_eq!(other, Identity::named("ann"));
    }

    #[tokio::test]
    async fn a_token_names_its_user_as_bearer_and_as_password_until_it_expires() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let (good, old) = (Token::draw().unwrap(), Token::draw().unwrap());
        let line = |id, expires, token: &Token| {
            format!(
                "{id} ann read {expires} sha256:{} **\n",
                TokenDigest::of(token.reveal().as_bytes())
            )
        };
        let text = line("a", "never", &good) + &line("b", "2001-01-01", &old);
        fs::write(&path, text).unwrap();
        let tokens = Some(FollowedFile::open(&path).unwrap());
        let authenticator = Authenticator::new(Ways { tokens, ..Ways::default() }).unwrap();
        assert!(authenticator.can_authenticate(PEER) && authenticator.is_configured());
        let bearer = |token: &str| {
            let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
            HeaderMap::from_iter([(AUTHORIZATION, value)])
        };
        for headers in [bearer(good.reveal()), basic(&format!("any:{}", good.reveal()))] {
            let identity = authenticator.identify(&headers, PEER).await;
            let Identity::User { name, token: Some(token) } = identity else { panic!() };
            assert!(name == "ann" && token.id == "a");
        }
        let spoiled = good.reveal().replace("pht_", "pht_0");
        for headers in [
            bearer(old.reveal()),
            bearer(&spoiled),
            bearer(""),
            basic(&format!("ann:{}", old.reveal())),
            basic("ann:secret"),
        ] {
            assert_eq!(authenticator.identify(&headers, PEER).await, Identity::Wrong);
        }
    }
}
