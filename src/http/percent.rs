//! Percent-encoding, taken off once (RFC 3986, 2.1).

/// Decodes `%XX`; a `+` is a plus, and bytes need not be UTF-8. `None` if a `%` is not followed by
/// two hex digits: what such a text means is anybody's guess.
pub(super) fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let high = hex_digit(*bytes.next()?)?;
        let low = hex_digit(*bytes.next()?)?;
        decoded.push(high << 4 | low);
    }
    Some(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_escape_is_decoded_once() {
        assert_eq!(decode(b"sp%20ace").unwrap(), b"sp ace");
        assert_eq!(decode(b"%2541").unwrap(), b"%41");
        assert_eq!(decode(b"a+b").unwrap(), b"a+b");
        assert_eq!(decode(b"%fF%00").unwrap(), b"\xff\0");
        assert_eq!(decode("дом".as_bytes()).unwrap(), "дом".as_bytes());
        assert_eq!(decode(b"").unwrap(), b"");
    }

    #[test]
    fn a_broken_escape_is_refused() {
        for encoded in [&b"%"[..], b"%4", b"%4g", b"%g4", b"a%", b"%%41", b"%+1", b"%-1"] {
            assert_eq!(decode(encoded), None, "{}", encoded.escape_ascii());
        }
    }
}
