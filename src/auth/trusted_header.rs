//! A user name on the word of a proxy.

use axum::http::{HeaderMap, HeaderName};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The header in which a proxy names the user it has authenticated.
///
/// Believed from loopback peers and from those of `proxies` only; anybody else could write it
/// too. The proxy must remove the header from what its own clients send.
#[derive(Clone, Debug)]
pub struct TrustedHeader {
    /// The header's name.
    pub name: HeaderName,
    /// Whose word counts beside that of loopback peers.
    pub proxies: Vec<AddressRange>,
}

/// A network address, or all those that begin with the same bits: `10.0.0.7`, `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    prefix_bits: u32,
}

/// A text that is no [`AddressRange`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither an address nor a range such as 10.0.0.0/8")]
pub struct AddressRangeError(pub String);

/// What a trusted header says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Nothing: it is not there, or empty, or its sender is not believed.
    Nothing,
    /// This user.
    User(String),
    /// Nothing that can be believed: several values, or one that is no name.
    Nonsense,
}

impl TrustedHeader {
    /// Whether the header counts when it comes from `peer`.
    pub fn believes(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        peer.is_loopback() || self.proxies.iter().any(|range| range.contains(peer))
    }

    pub(super) fn read(&self, headers: &HeaderMap, peer: IpAddr) -> Word {
        if !self.believes(peer) {
            return Word::Nothing;
        }
        let mut values = headers.get_all(&self.name).iter();
        let Some(value) = values.next() else { return Word::Nothing };
        // A proxy that adds its header to one of its client's lets the client choose.
        if values.next().is_some() {
            return Word::Nonsense;
        }
        match std::str::from_utf8(value.as_bytes()).map(str::trim) {
            Ok("") => Word::Nothing,
            Ok(user) if !user.contains(char::is_control) => Word::User(user.to_owned()),
            _ => Word::Nonsense,
        }
    }
}

impl AddressRange {
    /// Whether `address` lies in the range. An IPv4 address in IPv6 clothes is taken as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= self.prefix_bits
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= self.prefix_bits
            }
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        let error = || AddressRangeError(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            Some(digits) => digits.parse().ok().filter(|bits| *bits <= width).ok_or_else(error)?,
            None => width,
        };
        Ok(Self { address, prefix_bits })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const LOOPBACK: &str = "127.0.0.1";

    fn header() -> TrustedHeader {
        TrustedHeader {
            name: HeaderName::from_static("x-remote-user"),
            proxies: vec!["10.1.0.0/16".parse().unwrap(), "2001:db8::7".parse().unwrap()],
        }
    }

    fn read(values: &[&[u8]], peer: &str) -> Word {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("X-Remote-User", HeaderValue::from_bytes(value).unwrap());
        }
        header().read(&headers, peer.parse().unwrap())
    }

    #[test]
    fn loopback_peers_and_named_proxies_are_believed() {
        for peer in [LOOPBACK, "127.9.9.9", "::1", "::ffff:127.0.0.1", "10.1.2.3", "2001:db8::7"] {
            assert_eq!(read(&[b"ann"], peer), Word::User("ann".into()), "{peer}");
        }
    }

    #[test]
    fn nobody_else_is() {
        for peer in ["10.2.0.1", "192.0.2.1", "2001:db8::8", "::ffff:10.2.0.1"] {
            assert_eq!(read(&[b"ann"], peer), Word::Nothing, "{peer}");
            assert!(!header().believes(peer.parse().unwrap()));
        }
    }

    #[test]
    fn an_empty_header_names_nobody() {
        assert_eq!(read(&[], LOOPBACK), Word::Nothing);
        assert_eq!(read(&[b""], LOOPBACK), Word::Nothing);
        assert_eq!(read(&[b"  "], LOOPBACK), Word::Nothing);
    }

    #[test]
    fn two_headers_are_worse_than_none() {
        assert_eq!(read(&[b"ann", b"root"], LOOPBACK), Word::Nonsense);
        assert_eq!(read(&[b"\xff"], LOOPBACK), Word::Nonsense);
        assert_eq!(read(&[b"a\tb"], LOOPBACK), Word::Nonsense);
    }

    #[test]
    fn ranges_are_read() {
        let contains = |range: &str, address: &str| {
            range.parse::<AddressRange>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.7", "10.0.0.7") && !contains("10.0.0.7", "10.0.0.6"));
        assert!(contains("0.0.0.0/0", "203.0.113.1") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("10.0.0.0/31", "10.0.0.1") && !contains("10.0.0.0/31", "10.0.0.2"));
        assert!(contains("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(contains("::/0", "2001:db8::1"));
        for wrong in ["", "localhost", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "1/2/3"]
        {
            assert!(wrong.parse::<AddressRange>().is_err(), "{wrong}");
        }
    }
}
