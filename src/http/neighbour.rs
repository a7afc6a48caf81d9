//! Whether the process at the other end of a loopback connection runs as the user that this one
//! runs as.
//!
//! Of a proxy that adds no header nothing else shows that it passes on what comes from elsewhere:
//! the usual ones run as a user of their own. Linux tells the owner of a socket in
//! `/proc/net/tcp` and `/proc/net/tcp6` (proc_net_tcp in the kernel's documentation).

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

/// A connection, seen from here.
#[derive(Debug)]
pub(super) struct Neighbour {
    peer: SocketAddr,
    here: SocketAddr,
    is_ours: OnceLock<bool>,
}

impl Neighbour {
    /// The connection from `peer` to `here`.
    pub(super) fn new(peer: SocketAddr, here: SocketAddr) -> Self {
        Self { peer, here, is_ours: OnceLock::new() }
    }

    /// Whether its other end belongs to this process's user. Looked up once; where the kernel does
    /// not tell, nobody's does.
    pub(super) fn is_ours(&self) -> bool {
        *self.is_ours.get_or_init(|| {
            let own = rustix::process::geteuid().as_raw();
            ["/proc/net/tcp", "/proc/net/tcp6"]
                .iter()
                .filter_map(|table| fs::read_to_string(table).ok())
                .any(|table| owner(&table, self.peer, self.here) == Some(own))
        })
    }
}

/// The user that the socket from `local` to `remote` belongs to.
fn owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let ends = (address(fields.next()?)?, address(fields.next()?)?);
        let is_it = same(ends.0, local) && same(ends.1, remote);
        is_it.then(|| fields.nth(4)?.parse().ok()).flatten()
    })
}

/// An address as the tables have it: each four bytes as a number in the machine's own order.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let words: Vec<[u8; 4]> = host
        .as_bytes()
        .chunks(8)
        .map(|word| {
            let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
            Some(word.to_ne_bytes())
        })
        .collect::<Option<_>>()?;
    let ip: IpAddr = match words[..] {
        [v4] => v4.into(),
        [a, b, c, d] => <[u8; 16]>::try_from([a, b, c, d].concat()).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

fn same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    #[cfg(target_endian = "little")]
    fn the_owner_is_found_by_both_ends() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
            0: 0100007F:20E1 0100007F:C3A6 01 00000000:00000000 00:00000000 00000000     0        0 1\n\
            1: 0100007F:C3A6 0100007F:20E1 01 00000000:00000000 00:00000000 00000000    33        0 2\n";
        let (server, client) = ("127.0.0.1:8417", "127.0.0.1:50086");
        let of = |local: &str, remote: &str| {
            owner(table, local.parse().unwrap(), remote.parse().unwrap())
        };
        assert_eq!(of(client, server), Some(33));
        assert_eq!(of(server, client), Some(0));
        assert_eq!(of(client, "127.0.0.1:1"), None);
        let mapped = "0: 0000000000000000FFFF00000100007F:20E1 \
                      0000000000000000FFFF00000100007F:C3A6 01 0:0 0:0 0 7 0 1";
        let mapped = format!("header\n{mapped}\n");
        let found = owner(&mapped, server.parse().unwrap(), client.parse().unwrap());
        assert_eq!(found, Some(7));
    }

    #[test]
    fn nonsense_is_nobodys() {
        let end = "127.0.0.1:1".parse().unwrap();
        for line in ["", "0:", "0: x y", "0: 0100007F:1 0100007F:1", "0: 01:1 02:2 0 0 0 0 0"] {
            assert_eq!(owner(&format!("header\n{line}\n"), end, end), None, "{line}");
        }
    }

    #[test]
    fn a_connection_of_this_process_is_ours() {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            // Not every machine has IPv6.
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let here = accepted.local_addr().unwrap();
            assert!(Neighbour::new(peer, here).is_ours(), "{listen}");
            let other = SocketAddr::new(peer.ip(), peer.port() ^ 1);
            assert!(!Neighbour::new(other, here).is_ours(), "{listen}");
        }
    }
}
