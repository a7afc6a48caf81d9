//! Where to: the URLs, the number in them, and who asks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HeaderValue;
use hyper::http::Uri;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

/// The URLs of one server's repositories: one URL, or many by a number that stands for `{repo}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The URL as it was given.
    shown: String,
    secure: bool,
    /// Without brackets.
    host: String,
    port: u16,
    /// As the Host header has it.
    authority: String,
    /// Without a slash at the end.
    path: String,
}

/// Who asks. `Debug` does not tell the secret.
#[derive(Clone)]
pub enum Credentials {
    /// A name and a password.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// A token.
    Bearer(String),
}

/// Why a URL is of no use.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It cannot be read.
    #[error("'{url}' is no URL of a repository: {reason}")]
    Malformed {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The credentials cannot be put into a header.
    #[error("user, password or token holds a byte that no header can carry")]
    Credentials,
}

impl Target {
    /// Reads a URL such as `http://127.0.0.1:8417/load-{repo}.git`.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        let malformed = |reason| TargetError::Malformed { url: hide_password(url), reason };
        let uri: Uri = url
            .replace(PLACEHOLDER, "0")
            .parse()
            .map_err(|_| malformed("it holds what no URL may hold"))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(malformed("it begins neither with http:// nor with https://")),
        };
        let authority = uri.authority().ok_or_else(|| malformed("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(malformed("give the user with --user, not in the URL"));
        }
        if uri.query().is_some() || url.contains('#') {
            return Err(malformed("a repository has neither a query nor a fragment"));
        }
        let (_, rest) = url.split_once("://").unwrap_or_default();
        let (place, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        if place.contains(PLACEHOLDER) {
            return Err(malformed("{repo} can only stand in its path"));
        }
        Ok(Self {
            shown: url.to_owned(),
            secure,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// The URL as it was given.
    pub fn url(&self) -> &str {
        &self.shown
    }

    /// The URL of one repository.
    pub fn repository_url(&self, number: usize) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path(number))
    }

    /// Whether the URL leads to more than one repository.
    pub fn is_template(&self) -> bool {
        self.path.contains(PLACEHOLDER)
    }

    /// Whether TLS is spoken.
    pub(super) fn is_secure(&self) -> bool {
        self.secure
    }

    /// The path of a repository.
    pub(super) fn path(&self, number: usize) -> String {
        self.path.replace(PLACEHOLDER, &number.to_string())
    }

    /// The last part of a repository's path: its directory's name where all of them lie together.
    pub(super) fn directory(&self, number: usize) -> String {
        let path = self.path(number);
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// The addresses of the host.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }
}

impl Credentials {
    /// The header that carries them.
    pub(super) fn header(&self) -> Result<HeaderValue, TargetError> {
        let text = match self {
            Self::Basic { user, password } => {
                format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
            }
            Self::Bearer(token) => format!("Bearer {token}"),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| TargetError::Credentials)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Basic { .. } => "Basic",
            Self::Bearer(_) => "Bearer",
        })
    }
}

/// Whether all of them are this machine.
pub fn is_loopback(addresses: &[SocketAddr]) -> bool {
    let loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    !addresses.is_empty() && addresses.iter().all(|address| loopback(address.ip()))
}

/// Stands for the number of a repository.
const PLACEHOLDER: &str = "{repo}";

fn hide_password(url: &str) -> String {
    match (url.split_once("://"), url.rfind('@')) {
        (Some((scheme, _)), Some(at)) => format!("{scheme}://…{}", &url[at..]),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_the_placeholder() {
        let target = Target::parse("https://[::1]:8443/git/load-{repo}.git/").unwrap();
        assert!(target.is_template() && target.is_secure());
        assert_eq!((target.host(), target.port), ("::1", 8443));
        assert_eq!(target.path(12), "/git/load-12.git");
        assert_eq!(target.directory(12), "load-12.git");
        assert_eq!(target.repository_url(3), "https://[::1]:8443/git/load-3.git");
        assert_eq!(Target::parse("http://h/x.git").unwrap().port, 80);
    }

    #[test]
    fn what_is_no_url_of_a_repository_is_refused_with_the_reason() {
        for (url, words) in [
            ("load.git", "neither"),
            ("ftp://h/x", "neither"),
            ("ssh://git@h/x", "neither"),
            ("http://a:secret@h/x", "--user"),
            ("http://h/x?y=1", "query"),
            ("http://h{repo}/x", "its path"),
            ("http://h/a b", "holds what"),
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.contains(words), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn credentials_are_a_header_and_are_not_shown() {
        let basic = Credentials::Basic { user: "a".into(), password: "b".into() };
        assert_eq!(basic.header().unwrap(), "Basic YTpi");
        let bearer = Credentials::Bearer("t0k3n".into());
        assert_eq!(bearer.header().unwrap(), "Bearer t0k3n");
        assert!(!format!("{basic:?}{bearer:?}").contains("t0k3n"));
        assert!(Credentials::Bearer("a\nb".into()).header().is_err());
    }

    #[test]
    fn loopback_is_this_machine_and_nothing_else() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(is_loopback(&[address("127.0.0.1:1"), address("[::1]:1")]));
        assert!(is_loopback(&[address("[::ffff:127.0.0.1]:1")]));
        assert!(!is_loopback(&[address("127.0.0.1:1"), address("10.0.0.1:1")]));
        assert!(!is_loopback(&[]));
    }
}
