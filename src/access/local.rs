//! Whether a request was made on this machine, as far as its own words can tell.
//!
//! A server that listens on a loopback address alone is still reached from elsewhere by way of a
//! proxy, or by a web page whose host name was made to resolve to this machine. Both give
//! themselves away: the page by the Host it names, the proxy by the headers it adds.

use core::net::{Ipv4Addr, Ipv6Addr};

/// Whether the value of a `Host` header names this machine's loopback: `localhost`, an address of
/// 127.0.0.0/8, or `[::1]`, with any port or none (RFC 9110, 7.2).
pub fn is_loopback_host(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => {
                let loopback = address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback());
                return loopback
                    && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
            }
            None => return false,
        },
        None => host.split_once(':').map_or((host, ""), |(name, port)| (name, port)),
    };
    let loopback = name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback());
    loopback && is_port(port)
}

/// Whether a header of this name is one that proxies add: `Forwarded` (RFC 7239), any
/// `X-Forwarded-…`, `X-Real-IP`, `Via` (RFC 9110, 7.6.3).
pub fn tells_of_proxy(header: &str) -> bool {
    const PREFIX: &str = "x-forwarded-";
    let named = ["forwarded", "via", "x-real-ip"];
    named.iter().any(|name| header.eq_ignore_ascii_case(name))
        || header.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

fn is_port(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_are_known_with_any_port_and_without() {
        for host in [
            "localhost",
            "LocalHost:80",
            "localhost:",
            "127.0.0.1",
            "127.0.0.1:8417",
            "127.255.1.2:1",
            "[::1]",
            "[::1]:8417",
            "[0:0:0:0:0:0:0:1]:1",
        ] {
            assert!(is_loopback_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn anything_else_is_not_this_machine() {
        for host in [
            "",
            "example.com",
            "localhost.example.com",
            "example.com:localhost",
            "127.0.0.1.example.com",
            "127.0.0.1:80:80",
            "127.1",
            "128.0.0.1",
            "10.0.0.1",
            "0.0.0.0",
            "::1",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "[::2]",
            "[::ffff:127.0.0.1]",
            "localhost:evil",
            "user@localhost",
            "localhost/",
            " localhost",
        ] {
            assert!(!is_loopback_host(host.as_bytes()), "{host}");
        }
        assert!(!is_loopback_host(b"localhost\xff"));
    }

    #[test]
    fn the_headers_of_proxies_are_known_in_any_case() {
        for header in [
            "Forwarded",
            "via",
            "X-Forwarded-For",
            "x-forwarded-proto",
            "X-FORWARDED-",
            "X-Real-IP",
        ] {
            assert!(tells_of_proxy(header), "{header}");
        }
        for header in
            ["host", "x-forwarded", "forwarded-for", "viaduct", "user-agent", "x-forwardeé"]
        {
            assert!(!tells_of_proxy(header), "{header}");
        }
    }
}
