//! Configuration that comes in the environment: what `git -c` hands down and what scripts set.
//!
//! `GIT_CONFIG_COUNT` with its `KEY_n` and `VALUE_n` comes first, so that `git -c`, which becomes
//! `GIT_CONFIG_PARAMETERS`, wins (git(1), git-config(1)).

use super::super::environment::Environment;
use super::error::ConfigError;
use super::key;
use bstr::{BString, ByteSlice};
use std::os::unix::ffi::OsStrExt;

/// One key with its value; `None` for a key alone, which is a true boolean.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) key: BString,
    pub(super) value: Option<BString>,
}

/// All settings of the environment in the order in which they count.
pub(super) fn settings(environment: &Environment) -> Result<Vec<Setting>, ConfigError> {
    let mut settings = Vec::new();
    counted(environment, &mut settings)?;
    if let Some(parameters) = environment.var(PARAMETERS) {
        parse_parameters(parameters.as_bytes(), &mut settings)?;
    }
    Ok(settings)
}

fn counted(environment: &Environment, settings: &mut Vec<Setting>) -> Result<(), ConfigError> {
    let Some(count) = environment.var(COUNT) else { return Ok(()) };
    let bogus = || ConfigError::BogusVariable { what: "count", variable: COUNT.to_owned() };
    let count: u64 = match count.to_str().ok_or_else(bogus)? {
        "" => 0,
        digits => digits.parse().map_err(|_| bogus())?,
    };
    // git's limit.
    if i32::try_from(count).is_err() {
        return Err(ConfigError::TooManyVariables { variable: COUNT.to_owned() });
    }
    for n in 0..count {
        let fetch = |what, name: &str| {
            let variable = format!("{name}{n}");
            let value = environment.var(&variable).map(|value| BString::from(value.as_bytes()));
            value.ok_or(ConfigError::MissingVariable { what, variable })
        };
        let name = fetch("key", "GIT_CONFIG_KEY_")?;
        let value = fetch("value", "GIT_CONFIG_VALUE_")?;
        settings.push(setting(&name, Some(value))?);
    }
    Ok(())
}

/// Reads `'key'='value'` (value or quotes may be missing after the `=`: a key alone) and the older
/// `'key=value'`, separated by blanks.
fn parse_parameters(mut text: &[u8], settings: &mut Vec<Setting>) -> Result<(), ConfigError> {
    let bogus = || ConfigError::BogusVariable { what: "format", variable: PARAMETERS.to_owned() };
    while !text.is_empty() {
        let (first, rest) = unquote(text).ok_or_else(bogus)?;
        text = rest;
        if let Some(rest) = text.strip_prefix(b"=") {
            let mut value = None;
            text = rest;
            if text.starts_with(b"'") {
                let (quoted, rest) = unquote(text).ok_or_else(bogus)?;
                value = Some(quoted);
                text = rest;
            }
            settings.push(setting(&first, value)?);
        } else {
            let (name, value) = match first.split_once_str("=") {
                Some((name, value)) => (name, Some(BString::from(value))),
                None => (first.as_slice(), None),
            };
            settings.push(setting(name.trim(), value)?);
        }
        let after = text.trim_start();
        if after.len() == text.len() && !text.is_empty() {
            return Err(bogus());
        }
        text = after;
    }
    Ok(())
}

fn setting(name: &[u8], value: Option<BString>) -> Result<Setting, ConfigError> {
    let invalid = || ConfigError::InvalidKey { key: name.into() };
    Ok(Setting { key: key::canonical(name).ok_or_else(invalid)?, value })
}

/// Takes one single-quoted word as a shell writes it, in which `'\''` and `'\!'` stand for a quote
/// and an exclamation mark, off the front.
fn unquote(text: &[u8]) -> Option<(BString, &[u8])> {
    let mut word = BString::default();
    let mut rest = text.strip_prefix(b"'")?;
    loop {
        let (literal, after) = rest.split_once_str(b"'")?;
        word.extend_from_slice(literal);
        match after {
            [b'\\', escaped @ (b'\'' | b'!'), b'\'', tail @ ..] => {
                word.push(*escaped);
                rest = tail;
            }
            _ => return Some((word, after)),
        }
    }
}

const COUNT: &str = "GIT_CONFIG_COUNT";
const PARAMETERS: &str = "GIT_CONFIG_PARAMETERS";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(parameters: &str) -> Result<Vec<(String, Option<String>)>, String> {
        let environment = [(PARAMETERS, parameters)].into_iter().collect();
        settings(&environment)
            .map(|all| {
                all.into_iter()
                    .map(|s| (s.key.to_string(), s.value.map(|v| v.to_string())))
                    .collect()
            })
            .map_err(|error| error.to_string())
    }

    fn pair(key: &str, value: &str) -> (String, Option<String>) {
        (key.to_owned(), Some(value.to_owned()))
    }

    #[test]
    fn both_quoting_forms_are_read() {
        let all = parsed("'receive.denyDeletes'='false' 'a.b=c d=e'  'x.Sub.y'=''").unwrap();
        let expected =
            [pair("receive.denydeletes", "false"), pair("a.b", "c d=e"), pair("x.Sub.y", "")];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_key_alone_has_no_value_in_both_forms() {
        let all = parsed("'core.bare' 'core.bare'= 'core.bare='").unwrap();
        let alone = ("core.bare".to_owned(), None);
        assert_eq!(all, [alone.clone(), alone, pair("core.bare", "")]);
    }

    #[test]
    fn quotes_and_exclamation_marks_are_unescaped() {
        let all = parsed(r"'a.b'='it'\''s'\!''").unwrap();
        assert_eq!(all, [pair("a.b", "it's!")]);
    }

    #[test]
    fn what_is_not_quoted_so_is_refused() {
        for text in ["a.b=c", "'a.b", "'a.b'=c", "'a.b'='c'd", "'a.b'x", "'a.b'='c"] {
            assert_eq!(parsed(text), Err("bogus format in GIT_CONFIG_PARAMETERS".to_owned()));
        }
        assert_eq!(parsed("'nodot'='x'"), Err("invalid key: nodot".to_owned()));
        assert_eq!(parsed(""), Ok(vec![]));
    }

    #[test]
    fn the_command_line_comes_after_the_counted_settings() {
        let environment: Environment = [
            (PARAMETERS, "'a.b'='late'"),
            (COUNT, "2"),
            ("GIT_CONFIG_KEY_0", "A.B"),
            ("GIT_CONFIG_VALUE_0", "early"),
            ("GIT_CONFIG_KEY_1", "c.d"),
            ("GIT_CONFIG_VALUE_1", ""),
        ]
        .into_iter()
        .collect();
        let values: Vec<_> = settings(&environment)
            .unwrap()
            .into_iter()
            .map(|setting| setting.value.unwrap().to_string())
            .collect();
        assert_eq!(values, ["early", "", "late"]);
    }

    #[test]
    fn a_count_that_promises_too_much_is_refused() {
        let of = |pairs: &[(&str, &str)]| {
            settings(&pairs.iter().copied().collect()).unwrap_err().to_string()
        };
        assert_eq!(of(&[(COUNT, "1")]), "missing config key GIT_CONFIG_KEY_0");
        assert_eq!(
            of(&[(COUNT, "1"), ("GIT_CONFIG_KEY_0", "a.b")]),
            "missing config value GIT_CONFIG_VALUE_0"
        );
        assert_eq!(of(&[(COUNT, "1x")]), "bogus count in GIT_CONFIG_COUNT");
        assert_eq!(of(&[(COUNT, "99999999999")]), "too many entries in GIT_CONFIG_COUNT");
    }
}
