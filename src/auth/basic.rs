//! The `Authorization` header of the schemes Basic (RFC 7617) and Bearer (RFC 6750).
//!
//! Pure. A header that is of another scheme or malformed counts as wrong credentials, never as
//! none: whoever sends one means to be known.

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::fmt;

/// A user name and the password sent with it.
#[derive(PartialEq, Eq)]
pub(super) struct BasicCredentials {
    pub(super) user: String,
    pub(super) password: Vec<u8>,
}

impl BasicCredentials {
    /// Reads the value of an `Authorization` header; `None` if it names no user that this server
    /// could know. Names are UTF-8 without control characters, since they end in logs and
    /// reflogs; passwords are bytes.
    pub(super) fn parse(value: &HeaderValue) -> Option<Self> {
        let (scheme, encoded) = split_at_space(value.as_bytes())?;
        if !scheme.eq_ignore_ascii_case(b"basic") {
            return None;
        }
        let mut bytes = BASE64.decode(encoded.trim_ascii()).ok()?;
        let colon = bytes.iter().position(|&byte| byte == b':')?;
        let password = bytes.split_off(colon).get(1..)?.to_vec();
        let user = String::from_utf8(bytes).ok()?;
        // SHA-crypt takes a time that grows with the password.
        let sound = !user.is_empty()
            && !user.contains(char::is_control)
            && password.len() <= PASSWORD_BYTES_MAX;
        sound.then_some(Self { user, password })
    }
}

impl fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password stays out of logs and panic messages.
        f.debug_struct("BasicCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The token of an `Authorization` header of the Bearer scheme, if it is one.
pub(super) fn bearer_token(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = split_at_space(value.as_bytes())?;
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

/// LIMIT: bytes of a password.
const PASSWORD_BYTES_MAX: usize = 1024;

/// Some clients leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn split_at_space(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = value.iter().position(|&byte| byte == b' ')?;
    Some((value.get(..space)?, value.get(space + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &[u8]) -> Option<(String, Vec<u8>)> {
        let credentials = BasicCredentials::parse(&HeaderValue::from_bytes(value).unwrap())?;
        Some((credentials.user, credentials.password))
    }

    fn basic(plain: &[u8]) -> Option<(String, Vec<u8>)> {
        parse(format!("Basic {}", BASE64.encode(plain)).as_bytes())
    }

    #[test]
    fn a_user_and_a_password_are_read() {
        assert_eq!(
            parse(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            Some(("Aladdin".into(), b"open sesame".into()))
        );
        assert_eq!(parse(b"bAsIc  QTo"), Some(("A".into(), Vec::new())));
    }

    #[test]
    fn a_password_may_hold_colons_and_any_bytes() {
        assert_eq!(basic(b"a:b:c\xff\0"), Some(("a".into(), b"b:c\xff\0".to_vec())));
        assert_eq!(basic("дом:x".as_bytes()), Some(("дом".into(), b"x".to_vec())));
    }

    #[test]
    fn what_names_no_user_is_no_credential() {
        for plain in [&b"no colon"[..], b":password", b"a\nb:c", b"a\x1b[31m:c", b"\xff:c", b""] {
            assert_eq!(basic(plain), None, "{}", plain.escape_ascii());
        }
        assert_eq!(basic(format!("a:{}", "x".repeat(1025)).as_bytes()), None);
        assert!(basic(format!("a:{}", "x".repeat(1024)).as_bytes()).is_some());
        for value in [&b"Basic"[..], b"Basic !!!", b"Bearer QTpi", b"", b"QTpi", b"Basic\tQTpi"] {
            assert_eq!(parse(value), None, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn a_bearer_is_told_from_the_rest() {
        let token = |text| bearer_token(&HeaderValue::from_static(text)).map(<[u8]>::to_vec);
        assert_eq!(token("Bearer abc"), Some(b"abc".to_vec()));
        assert_eq!(token("bEARER  abc "), Some(b"abc".to_vec()));
        assert_eq!((token("Basic abc"), token("Bearer"), token("")), (None, None, None));
    }

    #[test]
    fn a_password_is_not_shown() {
        let credentials =
            BasicCredentials::parse(&HeaderValue::from_static("Basic YTpzZWNyZXQ=")).unwrap();
        assert_eq!(credentials.password, b"secret");
        assert!(!format!("{credentials:?}").contains("secret"));
    }
}
