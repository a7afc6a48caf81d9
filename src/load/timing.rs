//! `Server-Timing`: what the server says its time went to.

use std::time::Duration;

/// Reads the metrics of one header that have a duration: `name;dur=1.5;desc="…", …`
/// (W3C Server Timing; durations are milliseconds). What is not understood is skipped.
pub(super) fn parse(header: &[u8]) -> Vec<(String, Duration)> {
    let text = String::from_utf8_lossy(header);
    split_unquoted(&text, ',').into_iter().filter_map(metric).collect()
}

fn metric(text: &str) -> Option<(String, Duration)> {
    let mut parts = split_unquoted(text, ';').into_iter().map(str::trim);
    let name = parts.next().filter(|name| is_token(name) && name.len() <= NAME_BYTES_MAX)?;
    let milliseconds: f64 = parts
        .filter_map(|part| part.split_once('='))
        .find(|(key, _)| key.trim().eq_ignore_ascii_case("dur"))
        .and_then(|(_, value)| value.trim().trim_matches('"').parse().ok())?;
    let duration = Duration::try_from_secs_f64(milliseconds / 1000.0).ok()?;
    Some((name.to_owned(), duration))
}

/// RFC 9110, section 5.6.2. A name is printed, so nothing else may be in it.
fn is_token(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let mut quoted = false;
    text.split(|letter| {
        quoted ^= letter == '"';
        letter == separator && !quoted
    })
    .collect()
}

const NAME_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_milliseconds_and_the_rest_is_skipped() {
        let text = br#"read;dur=1.5, miss, ref; desc="a, b; dur=9" ; DUR=0.25,bad;dur=x,n;dur=-1"#;
        assert_eq!(
            parse(text),
            [
                ("read".to_owned(), Duration::from_micros(1500)),
                ("ref".to_owned(), Duration::from_micros(250)),
            ]
        );
        assert!(parse(b"").is_empty());
        assert!(parse(b"a;dur=1e400").is_empty());
    }

    #[test]
    fn names_are_tokens() {
        for name in ["a b", "a\u{1b}[2J", "\"a\"", "é", "a\tb", "a/b"] {
            assert!(parse(format!("{name};dur=1").as_bytes()).is_empty(), "{name:?}");
        }
        assert_eq!(parse(b"a-b.c_d!;dur=1").len(), 1);
    }
}
