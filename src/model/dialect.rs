//! Whose words and steps a push is answered with, where versions of git differ in them.
//!
//! git 2.51 began to move the refs of a push that is not atomic in two transactions, deletions first,
//! and to say of each refused ref what is wrong with it, in a fixed set of texts. Since 2.54 the
//! `reference-transaction` hook is told of one more state, and a work tree that is to follow its
//! branch may be where `core.worktree` says. The names of the dialects are those of the releases
//! that were measured. What is stored, and which refs move when nothing is wrong with any, is the
//! same in all of them.

use super::RejectReason;
use std::fmt;
use std::str::FromStr;

/// The version of git that is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Each ref for itself, and one text for whatever a ref transaction refuses.
    #[default]
    Git2_47,
    /// Deletions together, then all else together, and a text for each reason.
    Git2_55,
}

/// What a ref transaction has against one ref. `Display` gives git's text since 2.51
/// (`refs.c`, `ref_transaction_error_msg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefRefusal {
    /// A ref with this name and another one cannot both exist.
    NameConflict,
    /// It was to be created and is there, or somebody is at work on it.
    AlreadyExists,
    /// It was to have a value and is not there.
    Missing,
    /// It has another value than the pusher saw.
    OutOfDate,
    /// What it was to point to is not there, or nothing that a branch may point to.
    BadValue,
    /// It has to do with the repository rather than with this ref: all refs of its transaction are
    /// refused with it.
    Unclassified,
}

/// The texts by reason. Before 2.51 there was one for all of them.
const TEXTS: [(RefRefusal, &str); 6] = [
    (RefRefusal::NameConflict, "refname conflict"),
    (RefRefusal::AlreadyExists, "reference already exists"),
    (RefRefusal::Missing, "reference does not exist"),
    (RefRefusal::OutOfDate, "incorrect old value provided"),
    (RefRefusal::BadValue, "invalid new value provided"),
    (RefRefusal::Unclassified, "failed to update refs"),
];

/// The dialects by the name under which they are set.
const NAMES: [(&str, Dialect); 2] = [("2.47", Dialect::Git2_47), ("2.55", Dialect::Git2_55)];

impl Dialect {
    /// The reason for the report of a ref that its transaction refused for this.
    pub fn reason(self, refusal: RefRefusal) -> RejectReason {
        match self {
            Self::Git2_47 => RejectReason::FailedToUpdateRef,
            Self::Git2_55 => RejectReason::RefRefused(refusal),
        }
    }

    /// Whether the refs of a push that is not atomic move in two transactions, rather than each in
    /// its own.
    pub fn batches_refs(self) -> bool {
        self == Self::Git2_55
    }

    /// Whether the main work tree that is to follow its branch is the one that `core.worktree` names,
    /// as in git since 2.54.
    pub fn heeds_core_worktree(self) -> bool {
        self == Self::Git2_55
    }

    /// Whether the `reference-transaction` hook is told before refs are locked, and nothing of refs
    /// of which only the log is written: HEAD, and symbolic ones.
    pub fn tells_preparing(self) -> bool {
        self == Self::Git2_55
    }
}

impl fmt::Display for RefRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = TEXTS.iter().find(|(refusal, _)| refusal == self);
        f.write_str(row.map_or("failed to update refs", |(_, text)| text))
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = NAMES.iter().find(|(_, dialect)| dialect == self);
        f.write_str(row.map_or("", |(name, _)| name))
    }
}

/// A dialect that does not exist.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("there is no dialect '{name}'; there are {}", names())]
pub struct UnknownDialect {
    name: String,
}

fn names() -> String {
    NAMES.map(|(name, _)| name).join(" and ")
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        let row = NAMES.iter().find(|(known, _)| *known == name);
        row.map(|(_, dialect)| *dialect).ok_or_else(|| UnknownDialect { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_is_read_back_from_its_name() {
        for (name, dialect) in NAMES {
            assert_eq!(dialect.to_string(), name);
            assert_eq!(name.parse(), Ok(dialect));
        }
        assert_eq!(Dialect::default().to_string(), "2.47");
    }

    #[test]
    fn an_unknown_dialect_is_answered_with_those_there_are() {
        for name in ["", "2", "2.48", "2.47.3", "git-2.55", "2.55 "] {
            let error = name.parse::<Dialect>().unwrap_err().to_string();
            assert_eq!(error, format!("there is no dialect '{name}'; there are 2.47 and 2.55"));
        }
    }

    #[test]
    fn the_older_dialect_has_one_text_and_the_newer_one_for_each_reason() {
        let mut told = Vec::new();
        for (refusal, text) in TEXTS {
            assert_eq!(Dialect::Git2_47.reason(refusal).to_string(), "failed to update ref");
            assert_eq!(Dialect::Git2_55.reason(refusal).to_string(), text);
            assert!(!told.contains(&text), "{text}");
            told.push(text);
        }
    }
}
