//! What a request's headers say.
//!
//! Pure: header maps in, values out.

use super::service::Service;
use crate::access::{Origin, is_loopback_host, tells_of_proxy};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HOST, TE, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

/// How a request body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As it is.
    Identity,
    /// gzip, also known as x-gzip.
    Gzip,
}

/// A body that cannot be read: what was sent instead of what is understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    /// The wrong media type.
    #[error("unsupported media type: expected '{expected}', received '{received}'")]
    Type {
        /// What this endpoint takes.
        expected: &'static str,
        /// What came.
        received: String,
    },
    /// An unknown content coding.
    #[error("unsupported content encoding '{received}': only gzip and identity are understood")]
    Encoding {
        /// What came.
        received: String,
    },
    /// A transfer coding other than chunked (RFC 9112, section 6.1).
    #[error("unsupported transfer coding '{received}': only chunked is understood")]
    Transfer {
        /// What came.
        received: String,
    },
}

/// Whether the client reads trailers (RFC 9110, section 10.1.4).
pub(super) fn takes_trailers(headers: &HeaderMap) -> bool {
    let values =
        headers.get_all(TE).iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
    values.map(<[u8]>::trim_ascii).any(|value| value.eq_ignore_ascii_case(b"trailers"))
}

/// Whether the body is a request to `service`, and how it is coded.
///
/// The media type must be exactly the service's, without parameters, as git http-backend has it.
/// git passes an unknown coding on to the parser, which then complains of line lengths; here it
/// is named.
pub(super) fn readable(headers: &HeaderMap, service: Service) -> Result<Encoding, Unreadable> {
    let expected = service.request_type();
    let sent = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if sent != Some(expected.as_bytes()) {
        let received = shown(sent.unwrap_or_default());
        return Err(Unreadable::Type { expected, received });
    }
    // Only the outermost one has been taken off by now.
    let transfer = items(headers, TRANSFER_ENCODING);
    if let Some(coding) = transfer.into_iter().find(|item| !item.eq_ignore_ascii_case(b"chunked")) {
        return Err(Unreadable::Transfer { received: shown(coding) });
    }
    let mut codings = items(headers, CONTENT_ENCODING)
        .into_iter()
        .filter(|coding| !coding.eq_ignore_ascii_case(b"identity"));
    let first = codings.next();
    match (first, codings.next()) {
        (None, _) => Ok(Encoding::Identity),
        (Some(coding), None)
            if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") =>
        {
            Ok(Encoding::Gzip)
        }
        (Some(coding), None) => Err(Unreadable::Encoding { received: shown(coding) }),
        (Some(first), Some(second)) => {
            let received = format!("{}, {}", shown(first), shown(second));
            Err(Unreadable::Encoding { received })
        }
    }
}

/// The items of a header that is a list.
fn items(headers: &HeaderMap, name: HeaderName) -> Vec<&[u8]> {
    let values = headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
    let items = values.flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    items.filter(|item| !item.is_empty()).collect()
}

/// The value of `Git-Protocol` for the `GIT_PROTOCOL` variable, if it is a list as
/// gitprotocol-http(5) has it. Anything else is dropped: it is a hint, and it ends in the
/// environment of hooks.
pub(super) fn git_protocol(headers: &HeaderMap) -> Option<OsString> {
    let value = headers.get(GIT_PROTOCOL)?.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"=:._-".contains(byte);
    let sound = (1..=GIT_PROTOCOL_BYTES_MAX).contains(&value.len()) && value.iter().all(plain);
    sound.then(|| OsString::from_vec(value.to_vec()))
}

/// Whether a `GIT_PROTOCOL` value asks for version 2, the highest that git knows.
pub(super) fn wants_version_two(git_protocol: Option<&OsString>) -> bool {
    let value = git_protocol.map(|value| value.as_encoded_bytes()).unwrap_or_default();
    value.split(|byte| *byte == b':').any(|item| item == b"version=2")
}

/// Whether the client waits to be told that it may send the body.
pub(super) fn expects_continue(headers: &HeaderMap) -> bool {
    let expected = headers.get(EXPECT).map(HeaderValue::as_bytes);
    expected.is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"))
}

/// Where the request seems to come from.
///
/// Besides the headers that proxies add, HTTP/1.0 counts as a sign of one: no git client speaks
/// it, while older releases of nginx do by default. Newer ones show no sign at all: their user
/// gives them away, which is not looked at here.
pub(super) fn origin(parts: &Parts) -> Origin {
    let mut hosts = parts.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
    // In HTTP/2, and where a proxy is addressed, the authority stands in the request line.
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let host = hosts.next();
    let named = authority.or(host);
    let local = matches!(parts.version, Version::HTTP_11 | Version::HTTP_2)
        && named.is_some_and(is_loopback_host)
        && host.is_none_or(is_loopback_host)
        && hosts.next().is_none()
        && !parts.headers.keys().any(|name| tells_of_proxy(name.as_str()));
    if local { Origin::Local } else { Origin::Elsewhere }
}

const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");
const GIT_PROTOCOL_BYTES_MAX: usize = 256;
const SHOWN_BYTES_MAX: usize = 128;

/// A client's own words in a message to it: plain ASCII, not too long.
fn shown(bytes: &[u8]) -> String {
    let head = bytes.get(..SHOWN_BYTES_MAX).unwrap_or(bytes);
    head.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    const PUSH: (&str, &str) = ("content-type", "application/x-git-receive-pack-request");

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn read(pairs: &[(&'static str, &str)]) -> Result<Encoding, Unreadable> {
        readable(&headers(pairs), Service::ReceivePack)
    }

    fn parts(version: Version, target: &str, pairs: &[(&'static str, &str)]) -> Parts {
        let request = Request::builder().version(version).uri(target).body(()).unwrap();
        let mut parts = request.into_parts().0;
        parts.headers = headers(pairs);
        parts
    }

    #[test]
    fn only_the_exact_media_type_is_taken() {
        assert_eq!(read(&[PUSH]), Ok(Encoding::Identity));
        for other in [
            "text/plain",
            "application/x-git-upload-pack-request",
            "application/x-git-receive-pack-request; charset=utf-8",
            "Application/x-git-receive-pack-request",
        ] {
            let error = read(&[("content-type", other)]).unwrap_err().to_string();
            assert!(error.contains("'application/x-git-receive-pack-request'"), "{error}");
            assert!(error.contains(&format!("'{other}'")), "{error}");
        }
        assert!(read(&[]).is_err());
    }

    #[test]
    fn no_transfer_coding_but_chunked_is_taken() {
        for coding in ["chunked", "Chunked", ""] {
            let encoding = read(&[PUSH, ("transfer-encoding", coding)]);
            assert_eq!(encoding, Ok(Encoding::Identity), "{coding}");
        }
        for coding in ["gzip, chunked", "gzip", "deflate , chunked", "identity"] {
            let error = read(&[PUSH, ("transfer-encoding", coding)]).unwrap_err();
            assert!(matches!(error, Unreadable::Transfer { .. }), "{coding}: {error}");
        }
        let two = [PUSH, ("transfer-encoding", "gzip"), ("transfer-encoding", "chunked")];
        assert!(read(&two).unwrap_err().to_string().contains("'gzip'"));
    }

    #[test]
    fn gzip_goes_by_two_names_and_nothing_else_is_understood() {
        for coding in ["gzip", "x-gzip", "GZIP", "identity, gzip", " gzip "] {
            let encoding = read(&[PUSH, ("content-encoding", coding)]);
            assert_eq!(encoding, Ok(Encoding::Gzip), "{coding}");
        }
        for coding in ["identity", ""] {
            let encoding = read(&[PUSH, ("content-encoding", coding)]);
            assert_eq!(encoding, Ok(Encoding::Identity), "{coding}");
        }
        for coding in ["br", "deflate", "zstd", "gzip, gzip", "gzip;q=1"] {
            assert!(read(&[PUSH, ("content-encoding", coding)]).is_err(), "{coding}");
        }
        assert!(read(&[PUSH, ("content-encoding", "gzip"), ("content-encoding", "br")]).is_err());
    }

    #[test]
    fn a_message_shows_no_raw_bytes_of_the_client() {
        let error = read(&[PUSH, ("content-encoding", "é\t")]).unwrap_err().to_string();
        assert!(error.contains(r"'\xc3\xa9'"), "{error}");
        let error = read(&[("content-type", &"x".repeat(1000))]).unwrap_err().to_string();
        assert!(error.len() < 300);
    }

    #[test]
    fn the_protocol_hint_is_passed_on_if_it_is_one() {
        let read = |value| git_protocol(&headers(&[("git-protocol", value)]));
        for value in ["version=1", "version=2", "a=b:version=1:c", "object-format=sha256"] {
            assert_eq!(read(value), Some(value.into()));
        }
        for value in ["", "version=2; rm", "a b", "é", "a\tb", "$(id)", &"x".repeat(257)] {
            assert_eq!(read(value), None, "{value}");
        }
        assert!(wants_version_two(Some(&"version=1:version=2".into())));
        assert!(!wants_version_two(Some(&"version=20".into())) && !wants_version_two(None));
    }

    #[test]
    fn a_client_that_waits_for_a_hundred_is_seen() {
        assert!(expects_continue(&headers(&[("expect", "100-Continue")])));
        assert!(
            !expects_continue(&headers(&[("expect", "x")])) && !expects_continue(&headers(&[]))
        );
    }

    #[test]
    fn a_request_is_local_by_its_host_and_the_absence_of_proxies() {
        let local = |version, target, pairs: &[(&'static str, &str)]| {
            origin(&parts(version, target, pairs)) == Origin::Local
        };
        let host = ("host", "localhost:8417");
        assert!(local(Version::HTTP_11, "/x", &[host]));
        assert!(local(Version::HTTP_2, "http://127.0.0.1:1/x", &[]));
        assert!(!local(Version::HTTP_11, "/x", &[]));
        assert!(!local(Version::HTTP_11, "/x", &[("host", "example.com")]));
        assert!(!local(Version::HTTP_11, "/x", &[host, ("host", "example.com")]));
        assert!(!local(Version::HTTP_11, "http://example.com/x", &[host]));
        assert!(!local(Version::HTTP_11, "http://localhost/x", &[("host", "example.com")]));
        assert!(!local(Version::HTTP_10, "/x", &[host]));
        for header in ["forwarded", "x-forwarded-for", "x-forwarded-host", "via", "x-real-ip"] {
            assert!(!local(Version::HTTP_11, "/x", &[host, (header, "y")]), "{header}");
        }
    }
}
