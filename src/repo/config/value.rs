//! Booleans and numbers as git reads them from configuration.

use bstr::ByteSlice;

/// Why a number is none; `Display` of [`ConfigError`](super::ConfigError) uses git's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberError {
    /// Not digits with an optional `k`, `m` or `g`.
    InvalidUnit,
    /// More than the type holds.
    OutOfRange,
}

impl NumberError {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::InvalidUnit => "invalid unit",
            Self::OutOfRange => "out of range",
        }
    }
}

/// Reads a boolean; a key without a value is true, an empty value false.
pub(super) fn boolean(value: Option<&[u8]>) -> Option<bool> {
    let Some(value) = value else { return Some(true) };
    let is_any_of = |words: &[&str]| words.iter().any(|w| value.eq_ignore_ascii_case(w.as_bytes()));
    if is_any_of(&["true", "yes", "on"]) {
        Some(true)
    } else if is_any_of(&["", "false", "no", "off"]) {
        Some(false)
    } else {
        // git reads an `int` here, so a number beyond that is no boolean.
        let number = i32::try_from(integer(value).ok()?).ok()?;
        Some(number != 0)
    }
}

/// Reads a number as `strtoimax` with base 0 does, with an optional unit.
pub(super) fn integer(value: &[u8]) -> Result<i64, NumberError> {
    i64::try_from(wide(value)?).map_err(|_| NumberError::OutOfRange)
}

/// Reads a number that must not be negative.
pub(super) fn unsigned(value: &[u8]) -> Result<u64, NumberError> {
    if value.contains(&b'-') {
        return Err(NumberError::InvalidUnit);
    }
    u64::try_from(wide(value)?).map_err(|_| NumberError::OutOfRange)
}

fn wide(value: &[u8]) -> Result<i128, NumberError> {
    let text = value.trim_start().to_str().map_err(|_| NumberError::InvalidUnit)?;
    let (negative, text) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let is_hex = |text: &str| text.starts_with(|c: char| c.is_ascii_hexdigit());
    let (digits, radix) =
        match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).filter(|t| is_hex(t)) {
            Some(digits) => (digits, 16),
            None if text.starts_with('0') => (text, 8),
            None => (text, 10),
        };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, unit) = digits.split_at(end);
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err(NumberError::InvalidUnit),
    };
    if digits.is_empty() {
        return Err(NumberError::InvalidUnit);
    }
    let number = i128::from_str_radix(digits, radix).map_err(|_| NumberError::OutOfRange)?;
    let number = number.checked_mul(factor).ok_or(NumberError::OutOfRange)?;
    Ok(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_words_numbers_nothing_and_emptiness() {
        for word in ["true", "YES", "On", "1", "-1", "2k", "0x10"] {
            assert_eq!(boolean(Some(word.as_bytes())), Some(true), "{word}");
        }
        for word in ["false", "No", "OFF", "0", "", "0k", "00"] {
            assert_eq!(boolean(Some(word.as_bytes())), Some(false), "{word}");
        }
        assert_eq!(boolean(None), Some(true));
        for word in ["maybe", "tru", "1x", "4294967296", "yes "] {
            assert_eq!(boolean(Some(word.as_bytes())), None, "{word}");
        }
    }

    #[test]
    fn numbers_take_units_signs_and_bases() {
        assert_eq!(integer(b"12"), Ok(12));
        assert_eq!(integer(b"-2k"), Ok(-2048));
        assert_eq!(integer(b"+1M"), Ok(1 << 20));
        assert_eq!(integer(b"3g"), Ok(3 << 30));
        assert_eq!(integer(b"0x1fk"), Ok(31 << 10));
        assert_eq!(integer(b"017"), Ok(15));
        assert_eq!(integer(b" 5"), Ok(5));
        assert_eq!(integer(b"9223372036854775807"), Ok(i64::MAX));
        assert_eq!(integer(b"-9223372036854775808"), Ok(i64::MIN));
    }

    #[test]
    fn what_is_no_number_says_why() {
        for text in ["", "k", "1kk", "1 k", "abc", "08", "0x", "-", "1t", "\u{661}"] {
            assert_eq!(integer(text.as_bytes()), Err(NumberError::InvalidUnit), "{text}");
        }
        for text in ["9223372036854775808", "8589934592g", &"9".repeat(60)] {
            assert_eq!(integer(text.as_bytes()), Err(NumberError::OutOfRange), "{text}");
        }
        assert_eq!(unsigned(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(unsigned(b"-1"), Err(NumberError::InvalidUnit));
        assert_eq!(unsigned(b"18446744073709551616"), Err(NumberError::OutOfRange));
    }
}
