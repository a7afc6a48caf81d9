//! The bounds on one push as an operator writes them.

use crate::http::Bounds;
use crate::model::Limits;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
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
            return Err(format!("there is no limit '{name}'; there are {}", NAMES.join(", ")));
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

const NAMES: [&str; 19] = [
    "base_cache_bytes_max",
    "big_file_bytes",
    "command_bytes_max",
    "command_memory_bytes_max",
    "commands_max",
    "commit_parents_max",
    "delta_depth_max",
    "entry_name_bytes_max",
    "fetch_request_bytes_max",
    "index_cache_bytes_max",
    "inflated_bytes_max",
    "metadata_bytes_max",
    "metadata_memory_bytes_max",
    "named_objects_max",
    "object_bytes_max",
    "objects_max",
    "pack_bytes_max",
    "push_option_bytes_max",
    "unpack_bytes_max",
];

fn place<'a>(name: &str, limits: &'a mut Limits, bounds: &'a mut Bounds) -> Option<&'a mut u64> {
    Some(match name {
        "base_cache_bytes_max" => &mut limits.base_cache_bytes_max,
        "big_file_bytes" => &mut limits.big_file_bytes,
        "command_bytes_max" => &mut limits.command_bytes_max,
        "command_memory_bytes_max" => &mut limits.command_memory_bytes_max,
        "commands_max" => &mut limits.commands_max,
        "commit_parents_max" => &mut limits.commit_parents_max,
        "delta_depth_max" => &mut limits.delta_depth_max,
        "entry_name_bytes_max" => &mut limits.entry_name_bytes_max,
        "fetch_request_bytes_max" => &mut bounds.fetch_request_bytes_max,
        "index_cache_bytes_max" => &mut limits.index_cache_bytes_max,
        "inflated_bytes_max" => &mut limits.inflated_bytes_max,
        "metadata_bytes_max" => &mut limits.metadata_bytes_max,
        "metadata_memory_bytes_max" => &mut limits.metadata_memory_bytes_max,
        "named_objects_max" => &mut limits.named_objects_max,
        "object_bytes_max" => &mut limits.object_bytes_max,
        "objects_max" => &mut limits.objects_max,
        "pack_bytes_max" => &mut limits.pack_bytes_max,
        "push_option_bytes_max" => &mut limits.push_option_bytes_max,
        "unpack_bytes_max" => &mut limits.unpack_bytes_max,
        _ => return None,
    })
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
        let text: Vec<String> = NAMES.iter().map(|name| format!("{name}=7")).collect();
        let (mut limits, mut bounds) = (Limits::default(), Bounds::default());
        text.join(",").parse::<LimitSettings>().unwrap().apply(&mut limits, &mut bounds);
        let shown = format!("{limits:?}");
        assert_eq!(shown.matches(": 7").count(), shown.matches(": ").count(), "{shown}");
        assert_eq!(bounds.fetch_request_bytes_max, 7);
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
