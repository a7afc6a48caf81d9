//! Where a request comes from, if proxies stand in between.
//!
//! Guarantees that `X-Forwarded-For` is believed only as far as the proxies that the operator
//! trusts have written it: from its right end to the first address that is none of theirs. What a
//! client wrote itself stands further left and is never reached.

use super::trusted_header::AddressRange;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use std::net::{IpAddr, SocketAddr};

/// The proxies whose word on the address of their clients counts: those on this machine, and
/// these.
#[derive(Clone, Debug, Default)]
pub struct ForwardedFor {
    /// Whose word counts beside that of loopback peers.
    pub proxies: Vec<AddressRange>,
}

impl ForwardedFor {
    /// The address of the client behind `peer`; the peer's own if it is no trusted proxy, or if it
    /// says nothing.
    pub fn client(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        let mut nearest = peer.to_canonical();
        let values = headers.get_all(FORWARDED_FOR).iter().rev().map(HeaderValue::as_bytes);
        for hop in values.flat_map(|value| value.rsplit(|byte| *byte == b',')) {
            if !self.trusts(nearest) {
                break;
            }
            // Beyond something that is no address nothing can be believed.
            let Some(address) = address(hop) else { break };
            nearest = address;
        }
        nearest
    }

    fn trusts(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.proxies.iter().any(|range| range.contains(address))
    }
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// An address, with or without a port.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok();
    address.or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip())).map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(values: &[&str], peer: &str) -> String {
        let forwarded = ForwardedFor { proxies: vec!["10.0.0.0/8".parse().unwrap()] };
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(FORWARDED_FOR, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        forwarded.client(&headers, peer.parse().unwrap()).to_string()
    }

    #[test]
    fn a_trusted_proxy_names_its_client() {
        assert_eq!(client(&["192.0.2.7"], "127.0.0.1"), "192.0.2.7");
        assert_eq!(client(&["192.0.2.7, 10.0.0.1"], "10.9.9.9"), "192.0.2.7");
        assert_eq!(client(&["192.0.2.7", "10.0.0.1"], "::1"), "192.0.2.7");
        for written in ["192.0.2.7:5000", "::ffff:192.0.2.7", "[::ffff:192.0.2.7]:80"] {
            assert_eq!(client(&[written], "127.0.0.1"), "192.0.2.7");
        }
        assert_eq!(client(&["[2001:db8::1]"], "127.0.0.1"), "2001:db8::1");
    }

    #[test]
    fn what_a_client_wrote_itself_is_not_reached() {
        assert_eq!(client(&["198.51.100.1, 192.0.2.7"], "127.0.0.1"), "192.0.2.7");
        assert_eq!(client(&["10.0.0.5, 192.0.2.7"], "127.0.0.1"), "192.0.2.7");
        assert_eq!(client(&["198.51.100.1"], "192.0.2.7"), "192.0.2.7");
    }

    #[test]
    fn nonsense_ends_what_is_believed() {
        assert_eq!(client(&[], "127.0.0.1"), "127.0.0.1");
        for nonsense in ["", "unknown", "192.0.2", "é", "192.0.2.7 x"] {
            assert_eq!(client(&[nonsense], "127.0.0.1"), "127.0.0.1", "{nonsense}");
            assert_eq!(client(&["192.0.2.7", nonsense, "10.0.0.1"], "127.0.0.1"), "10.0.0.1");
        }
    }
}
