//! URLs that git hands to curl: whether it could be led to ask for somebody else's credentials.
//!
//! A URL is not made canonical here; only what that would show is looked at: whether it has a
//! scheme and a host, sound escapes and port, no more `..` than components, and whether a line feed
//! is left in it (RFC 3986, as git's urlmatch reads it).

use bstr::ByteSlice;

/// What curl is asked for, if git asks curl for this URL at all.
pub(super) fn for_curl(url: &[u8]) -> Option<&[u8]> {
    // Other letter case, or other helpers, are not fetched from without being asked for.
    SCHEMES.iter().find_map(|scheme| {
        let rest = url.strip_prefix(scheme.as_bytes())?;
        match rest.strip_prefix(b"::") {
            Some(rest) => Some(rest),
            None => rest.starts_with(b"://").then_some(url),
        }
    })
}

const SCHEMES: [&str; 4] = ["http", "https", "ftp", "ftps"];

/// Whether a URL is well-formed and free of line feeds, encoded ones too.
pub(super) fn is_safe(url: &[u8]) -> bool {
    let Some((scheme, rest)) = split_scheme(url) else { return false };
    let end = rest.find_byteset(b"/?#").unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let (user, host) = match authority.split_once_str(b"@") {
        Some((user, host)) => (user, host),
        None => (&b""[..], authority),
    };
    is_sound(user) && is_host_sound(scheme, host) && is_path_sound(rest)
}

/// The bytes of a URL with its escapes resolved; `None` for a percent sign that begins none.
pub(super) fn decoded(url: &[u8]) -> impl Iterator<Item = Option<u8>> {
    let mut rest = url;
    std::iter::from_fn(move || {
        let (byte, after) = rest.split_first()?;
        rest = after;
        if *byte != b'%' {
            return Some(Some(*byte));
        }
        let escaped = after.split_at_checked(2).and_then(|(digits, after)| {
            let digits = digits.to_str().ok().filter(|digits| !digits.starts_with('+'))?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        let Some((byte, after)) = escaped else { return Some(None) };
        rest = after;
        Some(Some(byte))
    })
}

fn split_scheme(url: &[u8]) -> Option<(&[u8], &[u8])> {
    let (scheme, rest) = url.split_once_str(b"://")?;
    let is_scheme_byte =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-');
    let is_sound =
        scheme.first().is_some_and(u8::is_ascii_alphabetic) && scheme.iter().all(is_scheme_byte);
    is_sound.then_some((scheme, rest))
}

/// Whether every percent sign begins an escape, and nothing is a line feed.
fn is_sound(part: &[u8]) -> bool {
    decoded(part).all(|byte| byte.is_some_and(|byte| byte != b'\n'))
}

fn is_host_sound(scheme: &[u8], authority: &[u8]) -> bool {
    let is_file = scheme.eq_ignore_ascii_case(b"file");
    let has_host = authority.first().is_some_and(|byte| *byte != b':');
    if !has_host && !is_file {
        return false;
    }
    // The colons of an address in brackets divide nothing off, nor does one that begins all.
    let divider = authority.iter().rposition(|byte| matches!(byte, b':' | b']')).unwrap_or(0);
    let (host, port) = match authority.split_at_checked(divider) {
        Some((host, [b':', port @ ..])) => (host, port),
        _ => (authority, &b""[..]),
    };
    let is_host_byte = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'[' | b':' | b']')
    };
    let has_port = !port.is_empty();
    host.iter().all(is_host_byte) && is_port_sound(port) && (has_host || !has_port)
}

/// Whether a port is a number from 1 to 65535, or left out. Zeros may stand before it.
fn is_port_sound(port: &[u8]) -> bool {
    let digits = port.trim_start_with(|digit| digit == '0');
    if digits.is_empty() {
        return port.is_empty();
    }
    let number = digits.to_str().ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
    number.is_some_and(|number| number.parse::<u16>().is_ok())
}

/// Whether a path with its query is sound once its dots are resolved: a component that `..` takes
/// away may have a line feed.
fn is_path_sound(rest: &[u8]) -> bool {
    let end = rest.find_byteset(b"?#").unwrap_or(rest.len());
    let (path, query) = rest.split_at(end);
    let mut has_line_feed = Vec::new();
    for component in path.strip_prefix(b"/").unwrap_or(path).split_str(b"/") {
        let mut dots = 0;
        let (mut is_dots, mut is_broken) = (true, false);
        for byte in decoded(component) {
            let Some(byte) = byte else { return false };
            is_dots &= byte == b'.' && dots < 3;
            dots += usize::from(is_dots);
            is_broken |= byte == b'\n';
        }
        match dots {
            1 if is_dots => {}
            2 if is_dots => {
                if has_line_feed.pop().is_none() {
                    return false;
                }
            }
            _ => has_line_feed.push(is_broken),
        }
    }
    !has_line_feed.contains(&true) && is_sound(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_urls_are_safe() {
        for url in [
            "https://example.com",
            "https://example.com/",
            "https://u:p%40@h:8080/a/b?c=%20d#e",
            "HTTPS://h",
            "http://[::1]:80/x",
            "http://[::1]/x",
            "http://h:/x",
            "http://h:0080/x",
            "http://h/a/../b",
            "http://h/a%0a/../b",
            "http://h//..",
            "file:///x",
            "file://:/x",
            "http://h/%250a",
            "http://h/...",
            "http://h/./x",
            "ftp://h?x",
            "x+y.z-1://h",
        ] {
            assert!(is_safe(url.as_bytes()), "{url}");
        }
    }

    #[test]
    fn unsound_urls_are_not() {
        for url in [
            "",
            "https",
            "https:/h",
            "://h",
            "1x://h",
            "h x://h",
            "https:///h",
            "https://:80/x",
            "https://u@/x",
            "https://@/x",
            "http://h:0/x",
            "http://h:00",
            "http://h:65536",
            "http://h:8x",
            "http://h x/",
            "http://h%41/",
            "http://h\n/",
            "http://h/%",
            "http://h/%4",
            "http://h/%zz",
            "http://h/..",
            "http://h/a/../..",
            "http://h/%2e%2E",
            "http://h/\n",
            "http://h/%0a",
            "http://h/a?%0A",
            "http://h#\n",
            "http://%0a@h/",
            "file://:80/x",
            "http://h?%",
            "http://h/a/b/%0a/x",
        ] {
            assert!(!is_safe(url.as_bytes()), "{url:?}");
        }
    }
}
