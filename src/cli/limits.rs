//! The bounds on one push as an operator writes them.

use crate::http::Bounds;
use crate::model::{LimitRow, Limits};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::str::FromStr;

/// Limits by the name under which messages to clients name them, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LimitSettings(BTreeMap<String, u64>);

impl LimitSettings {
    /// These limits, and those of `lower` that are not among them.
    pub(super) fn or(mut self, lower: Self) -> Self {
        for (name, value) in lower.0 {
            self.0.entry(name).or_insert(value);
        }
        self
    }

    /// Sets what was named.
    pub(super) fn apply(&self, limits: &mut Limits, bounds: &mut Bounds) {
        for (name, value) in &self.0 {
            if let Some(place) = place(name, limits, bounds) {
                *place = *value;
            }
        }
    }

    fn insert(&mut self, name: &str, value: u64) -> Result<(), String> {
        let known = place(name, &mut Limits::default(), &mut Bounds::default()).is_some();
        if !known {
            return Err(format!("there is no limit '{name}'; there are {}", names().join(", ")));
        }
        self.0.insert(name.to_owned(), value);
        Ok(())
    }
}

impl FromStr for LimitSettings {
    type Err = String;

    /// Reads `name=value,name=value`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut limits = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| format!("'{pair}' is not NAME=VALUE"))?;
            limits.insert(name, number(value)?)?;
        }
        Ok(limits)
    }
}

impl<'de> Deserialize<'de> for LimitSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a number, or one with a suffix such as '2g'")]
        enum Value {
            Number(u64),
            Text(String),
        }
        let mut limits = Self::default();
        for (name, value) in BTreeMap::<String, Value>::deserialize(deserializer)? {
            let value = match value {
                Value::Number(value) => Ok(value),
                Value::Text(text) => number(&text),
            };
            let inserted = value.and_then(|value| limits.insert(&name, value));
            inserted.map_err(serde::de::Error::custom)?;
        }
        Ok(limits)
    }
}

/// The limit of the edge that is set in the same way.
const FETCH_REQUEST: LimitRow = LimitRow {
    name: "fetch_request_bytes_max",
    unit: "bytes",
    bounds: " Bytes of one fetch request, inflated.",
    told: "",
    // It is none of those of a push.
    place: |limits| &mut limits.pack_bytes_max,
};

fn rows() -> impl Iterator<Item = &'static LimitRow> {
    Limits::TABLE.iter().chain([&FETCH_REQUEST])
}

fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = rows().map(|row| row.name).collect();
    names.sort_unstable();
    names
}

fn place<'a>(name: &str, limits: &'a mut Limits, bounds: &'a mut Bounds) -> Option<&'a mut u64> {
    if name == FETCH_REQUEST.name {
        return Some(&mut bounds.fetch_request_bytes_max);
    }
    let row = Limits::TABLE.iter().find(|row| row.name == name)?;
    Some((row.place)(limits))
}

/// Prints the limits with their defaults, as docs/LIMITS.md has them.
pub(super) fn print() -> ExitCode {
    let printed = io::stdout().lock().write_all(document().as_bytes());
    if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All limits in Markdown.
fn document() -> String {
    let (mut limits, mut bounds) = (Limits::default(), Bounds::default());
    let mut text = HEAD.to_owned();
    for row in rows() {
        let LimitRow { name, unit, bounds: what, told, .. } = row;
        let default = place(name, &mut limits, &mut bounds).map_or(0, |value| *value);
        let _ = write!(text, "\n## {name}\n\n{}\n\n", wrap(what, ""));
        let _ = writeln!(text, "- Default: {}", shown(default, unit));
        let _ = writeln!(text, "- Flag: `--limits {name}={}`", shown_short(default));
        let _ = writeln!(text, "- Key: `{name}` in `[limits]`");
        match *told {
            "" => text.push_str("- The client is told nothing of it.\n"),
            told => {
                let _ = writeln!(text, "- The client is told:\n\n{}", wrap(told, "  > "));
            }
        }
    }
    text
}

const HEAD: &str = "\
# Limits

Made from the table of the limits by `packhouse limits`; a test holds it to that. To make it anew:
`cargo run -- limits > docs/LIMITS.md`.

`packhouse serve` takes them as `--limits NAME=VALUE,NAME=VALUE`, in the environment as
`PACKHOUSE_LIMITS`, and in the configuration file below `[limits]`. A value may have a suffix k, m or
g. `packhouse receive-pack` has the defaults. In what the client is told, `N` stands for a number
and `ID` for an object.
";

/// A value with its unit, bytes in the largest unit that they are a multiple of.
fn shown(value: u64, unit: &str) -> String {
    if value == u64::MAX {
        return "none".to_owned();
    }
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let larger = |&(shift, _): &(u32, &str)| value > 0 && value.is_multiple_of(1 << shift);
    match units.into_iter().find(larger).filter(|_| unit == "bytes") {
        Some((shift, larger)) => format!("{} {larger}", value >> shift),
        None => format!("{value} {unit}"),
    }
}

/// A value as a flag takes it.
fn shown_short(value: u64) -> String {
    let units = [(30, "g"), (20, "m"), (10, "k")];
    let larger = |&(shift, _): &(u32, &str)| value > 0 && value.is_multiple_of(1 << shift);
    match units.into_iter().find(larger) {
        Some((shift, suffix)) => format!("{}{suffix}", value >> shift),
        None => value.to_string(),
    }
}

/// Lines of at most a hundred letters, each behind `head`.
fn wrap(text: &str, head: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= 100 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{head}{word}")),
        }
    }
    lines.join("\n")
}

/// A number with git's suffixes: k, m or g, each 1024 times the one before.
fn number(text: &str) -> Result<u64, String> {
    let error = || format!("'{text}' is no number, nor one with a suffix k, m or g");
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (text.get(..at), 10),
        Some((at, 'm' | 'M')) => (text.get(..at), 20),
        Some((at, 'g' | 'G')) => (text.get(..at), 30),
        _ => (Some(text), 0),
    };
    let value: u64 = digits.and_then(|digits| digits.parse().ok()).ok_or_else(error)?;
    value.checked_mul(1 << shift).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_of_a_push_can_be_set() {
        let text: Vec<String> = names().iter().map(|name| format!("{name}=7")).collect();
        let (mut limits, mut bounds) = (Limits::default(), Bounds::default());
        text.join(",").parse::<LimitSettings>().unwrap().apply(&mut limits, &mut bounds);
        let shown = format!("{limits:?}");
        assert_eq!(shown.matches(": 7").count(), shown.matches(": ").count(), "{shown}");
        assert_eq!(bounds.fetch_request_bytes_max, 7);
    }

    #[test]
    fn the_document_is_made_from_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/LIMITS.md");
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            stored == document(),
            "docs/LIMITS.md is not what the table says; run: cargo run -- limits > docs/LIMITS.md"
        );
    }

    #[test]
    fn values_are_shown_as_one_would_write_them() {
        assert_eq!(shown(64 << 20, "bytes"), "64 MiB");
        assert_eq!(shown(1 << 40, "bytes"), "1 TiB");
        assert_eq!(shown(1025, "bytes"), "1025 bytes");
        assert_eq!(shown(4096, "objects"), "4096 objects");
        assert_eq!(shown(u64::MAX, "bytes"), "none");
        assert_eq!(shown_short(1 << 40), "1024g");
        for value in [0, 1, 1000, 1 << 20, 3 << 29, u64::MAX] {
            assert_eq!(number(&shown_short(value)), Ok(value));
        }
    }

    #[test]
    fn numbers_have_gits_suffixes() {
        assert_eq!(number("0"), Ok(0));
        assert_eq!(number("10k"), Ok(10 << 10));
        assert_eq!(number("2M"), Ok(2 << 20));
        assert_eq!(number("3g"), Ok(3 << 30));
        for wrong in ["", "k", "1kb", "-1", "1.5g", "0x10", "18446744073709551615k", "1é"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_limit_is_answered_with_those_there_are() {
        let error = "pack_size=1".parse::<LimitSettings>().unwrap_err();
        assert!(
            error.starts_with("there is no limit 'pack_size'; there are base_cache"),
            "{error}"
        );
        assert!("pack_bytes_max".parse::<LimitSettings>().is_err());
    }

    #[test]
    fn limits_of_two_sources_are_merged_by_name() {
        let upper: LimitSettings = "commands_max=1".parse().unwrap();
        let lower = "commands_max=2,objects_max=3".parse().unwrap();
        assert_eq!(upper.or(lower), "commands_max=1,objects_max=3".parse().unwrap());
    }
}
