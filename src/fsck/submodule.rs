//! What may be said of a submodule: each rule closes a hole that was used against clients.

use super::http_url;
use bstr::ByteSlice;

/// Whether a name may be a directory below `.git/modules`: not empty, and no component leads up.
/// The backslash divides as well, since it does so for some who clone.
pub(super) fn is_name_safe(name: &[u8]) -> bool {
    !name.is_empty() && name.split(|byte| is_divider(*byte)).all(|component| component != b"..")
}

/// Whether a URL or path would be taken for an option by the program that it is handed to.
pub(super) fn looks_like_option(value: &[u8]) -> bool {
    value.starts_with(b"-")
}

/// Whether an update mode is a command that is to be run.
pub(super) fn is_command(mode: &[u8]) -> bool {
    mode.starts_with(b"!")
}

/// Whether a URL can be handed to a transport: no option, no line feed smuggled into what asks for
/// credentials, no missing host that another's credentials would be sent for.
pub(super) fn is_url_safe(url: &[u8]) -> bool {
    if looks_like_option(url) {
        return false;
    }
    if is_relative(url) || url.starts_with(b"git://") {
        // A relative one is appended to that of the superproject, which may be of HTTP.
        !has_encoded_line_feed(url) && !escapes_into_host(url)
    } else if let Some(url) = http_url::for_curl(url) {
        http_url::is_safe(url)
    } else {
        true
    }
}

fn is_relative(url: &[u8]) -> bool {
    after_dot(url).or_else(|| after_dot_dot(url)).is_some()
}

/// Whether a URL with more `..` than the superproject's has components would set the host.
fn escapes_into_host(url: &[u8]) -> bool {
    let (mut rest, mut climbs) = (url, false);
    loop {
        if let Some(above) = after_dot_dot(rest) {
            (rest, climbs) = (above, true);
        } else if let Some(same) = after_dot(rest) {
            rest = same;
        } else {
            return climbs && matches!(rest.first(), Some(b':' | b'/'));
        }
    }
}

fn after_dot(path: &[u8]) -> Option<&[u8]> {
    path.strip_prefix(b".").and_then(after_divider)
}

fn after_dot_dot(path: &[u8]) -> Option<&[u8]> {
    path.strip_prefix(b"..").and_then(after_divider)
}

fn after_divider(path: &[u8]) -> Option<&[u8]> {
    path.split_first().filter(|(byte, _)| is_divider(**byte)).map(|(_, rest)| rest)
}

fn is_divider(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

/// Whether a line feed is in a URL once it is decoded. A scheme is not decoded.
fn has_encoded_line_feed(url: &[u8]) -> bool {
    let encoded = match url.split_once_str(b":") {
        Some((scheme, rest)) if !scheme.is_empty() => rest,
        _ => url,
    };
    url.contains(&b'\n') || http_url::decoded(encoded).any(|byte| byte == Some(b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_up_are_not_safe() {
        for name in ["foo", "..a", "a..", "foo..bar", "a/b", ".", "...", "/", "a/."] {
            assert!(is_name_safe(name.as_bytes()), "{name}");
        }
        for name in ["", "..", "../foo", "..\\foo", "foo/..", "foo\\..", "a/../b", "a\\..\\b"] {
            assert!(!is_name_safe(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn urls_that_were_used_against_clients_are_not_safe() {
        for url in [
            "./foo",
            "../../..//x:y",
            "https://example.com/x.git",
            "user@host:path",
            "/abs/path",
            "git://host/path",
            "ssh://host/x\ny",
            "./%250a",
            "./a%0",
            "a%0ab",
            "file:///x",
        ] {
            let escapes = url.starts_with("../../..//");
            assert_eq!(is_url_safe(url.as_bytes()), !escapes, "{url}");
        }
        for url in [
            "-u./payload",
            "./%0ahost=two.example.com/foo.git",
            "../\nhost=two.example.com",
            "..\\../.\\../:host=example.com",
            "../../../../:localhost:8080/foo",
            ".././:x",
            "git://host%0a/x",
            "./%%0a",
            "https:///example.com/foo.git",
            "https:://example.com/x",
            "https::example.com/foo.git",
            "http::ftp:://example.com/foo.git",
            "https://one.example.com?%0ahost=two.example.com/foo.git",
        ] {
            assert!(!is_url_safe(url.as_bytes()), "{url}");
        }
    }
}
