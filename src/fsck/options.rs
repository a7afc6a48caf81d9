//! What a check is told: how strict it is, which messages matter more or less, which objects are
//! known to be bad.

use super::message::{FsckId, Level};
use crate::model::{HashKind, HexId, ObjectId};
use bstr::{BString, ByteSlice};
use std::collections::{HashMap, HashSet};

/// How objects are to be checked.
#[derive(Clone, Debug)]
pub struct FsckOptions {
    hash: HashKind,
    is_strict: bool,
    overrides: HashMap<FsckId, Level>,
    skip_list: HashSet<ObjectId>,
}

/// Why a level cannot be set, in git's words where it has some for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// The id is none of git's. git warns of it and goes on.
    #[error("skipping unknown msg id '{id}'")]
    UnknownId {
        /// The id as it was given.
        id: String,
    },
    /// The level is none of the three.
    #[error("Unknown fsck message type: '{level}'")]
    UnknownLevel {
        /// The level as it was given.
        level: String,
    },
    /// The rest of an object with this fault cannot be read.
    #[error("Cannot demote {id} to {level}")]
    CannotDemote {
        /// The id as it was given.
        id: String,
        /// The level as it was given.
        level: String,
    },
}

/// A line of a skip list that is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid object name: {line}")]
pub struct SkipListError {
    /// The line without its comment.
    pub line: BString,
}

impl FsckOptions {
    /// A check that is strict, as git's is for what it receives: what is a warning by default is
    /// an error.
    pub fn strict(hash: HashKind) -> Self {
        Self { hash, is_strict: true, overrides: HashMap::new(), skip_list: HashSet::new() }
    }

    /// A check as that of `git fsck` without an option.
    pub fn lenient(hash: HashKind) -> Self {
        Self { is_strict: false, ..Self::strict(hash) }
    }

    /// The hash of the objects.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    pub(super) fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Sets how much a message matters (`receive.fsck.<id>`); the last word on an id counts.
    pub fn set(&mut self, id: &str, level: &str) -> Result<(), OverrideError> {
        let message = FsckId::from_name(id);
        let message = message.ok_or_else(|| OverrideError::UnknownId { id: id.to_owned() })?;
        let wanted = Level::from_word(level);
        let wanted =
            wanted.ok_or_else(|| OverrideError::UnknownLevel { level: level.to_owned() })?;
        if message.level() == Level::Fatal && wanted != Level::Error {
            return Err(OverrideError::CannotDemote { id: id.to_owned(), level: level.to_owned() });
        }
        self.overrides.insert(message, wanted);
        Ok(())
    }

    /// Hears no more of this object.
    pub fn skip(&mut self, id: ObjectId) {
        self.skip_list.insert(id);
    }

    /// Reads a skip list (`receive.fsck.skipList`): one full id a line, in any order; `#` begins a
    /// comment. Nothing is taken over from a list with a bad line.
    pub fn read_skip_list(&mut self, text: &[u8]) -> Result<(), SkipListError> {
        let mut ids = Vec::new();
        for line in text.lines() {
            let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let id = HexId::new(line, self.hash);
            ids.push(id.ok_or_else(|| SkipListError { line: line.into() })?.id());
        }
        self.skip_list.extend(ids);
        Ok(())
    }

    pub(super) fn skips(&self, id: &ObjectId) -> bool {
        !self.skip_list.is_empty() && self.skip_list.contains(id)
    }

    /// How much a message matters in this check.
    pub fn level(&self, message: FsckId) -> Level {
        match (self.overrides.get(&message), message.level()) {
            (Some(level), _) => *level,
            (None, Level::Warn) if self.is_strict => Level::Error,
            (None, level) => level,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strict_check_refuses_what_is_a_warning_otherwise() {
        let strict = FsckOptions::strict(HashKind::Sha1);
        assert_eq!(strict.level(FsckId::HasDotgit), Level::Error);
        assert_eq!(strict.level(FsckId::BadFilemode), Level::Info);
        let lenient = FsckOptions::lenient(HashKind::Sha1);
        assert_eq!(lenient.level(FsckId::HasDotgit), Level::Warn);
    }

    #[test]
    fn the_last_word_on_an_id_counts_whatever_its_case() {
        let mut options = FsckOptions::strict(HashKind::Sha1);
        options.set("hasdotgit", "ignore").unwrap();
        assert_eq!(options.level(FsckId::HasDotgit), Level::Ignore);
        options.set("HASDOTGIT", "warn").unwrap();
        assert_eq!(options.level(FsckId::HasDotgit), Level::Warn);
        options.set("badFileMode", "error").unwrap();
        assert_eq!(options.level(FsckId::BadFilemode), Level::Error);
    }

    #[test]
    fn fatal_ids_cannot_matter_less() {
        let mut options = FsckOptions::strict(HashKind::Sha1);
        for level in ["warn", "ignore"] {
            let error = options.set("unterminatedheader", level).unwrap_err().to_string();
            assert_eq!(error, format!("Cannot demote unterminatedheader to {level}"));
        }
        assert_eq!(options.set("nulInHeader", "error"), Ok(()));
    }

    #[test]
    fn unknown_ids_and_levels_are_told_apart() {
        let mut options = FsckOptions::strict(HashKind::Sha1);
        let error = options.set("whatever", "nonsense").unwrap_err();
        assert_eq!(error.to_string(), "skipping unknown msg id 'whatever'");
        let error = options.set("badtree", "warning").unwrap_err();
        assert_eq!(error.to_string(), "Unknown fsck message type: 'warning'");
    }

    #[test]
    fn a_skip_list_has_ids_comments_and_blanks() {
        let [a, b] = [1, 0xab].map(|byte| ObjectId::from_bytes_or_panic(&[byte; 20]));
        let upper = b.to_string().to_uppercase();
        let text = format!("# list\n\n  {a} # one\r\n\t{upper}");
        let mut options = FsckOptions::strict(HashKind::Sha1);
        options.read_skip_list(text.as_bytes()).unwrap();
        assert!(options.skips(&a) && options.skips(&b));
        assert!(!options.skips(&ObjectId::null(HashKind::Sha1)));
        for bad in ["1234", &format!("{a}0"), &format!("{a} {b}"), "zz # x"] {
            let mut options = FsckOptions::strict(HashKind::Sha1);
            let error = options.read_skip_list(format!("{a}\n{bad}\n").as_bytes()).unwrap_err();
            let line = bad.split('#').next().unwrap().trim();
            assert_eq!(error.to_string(), format!("invalid object name: {line}"));
            assert!(!options.skips(&a));
        }
    }
}
