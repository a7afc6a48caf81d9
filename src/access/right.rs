//! The rights that an access file gives and denies.

use std::fmt;

/// What may be done to a repository, or to one ref of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Fetch, and know that the repository is there.
    Read,
    /// Change a ref at all. What keeps its history needs no more.
    Write,
    /// Make a ref that is not there; beside `write`.
    Create,
    /// Move a ref so that it loses history, or move a tag; beside `write`.
    Force,
    /// Delete a ref; beside `write`.
    Delete,
    /// Make the repository by pushing to it.
    Init,
}

/// Several rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RightSet(u8);

impl Right {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Create, Self::Force, Self::Delete, Self::Init];

    /// Whether it is of whole repositories, and not of refs.
    pub fn is_of_repository(self) -> bool {
        matches!(self, Self::Read | Self::Init)
    }

    fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::Create => 4,
            Self::Force => 8,
            Self::Delete => 16,
            Self::Init => 32,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Force => "force",
            Self::Delete => "delete",
            Self::Init => "init",
        }
    }
}

impl RightSet {
    /// The rights of a word: one, or all that it is short for. Nothing for any other word.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        let short: &[Right] = match word {
            "push" => &[Right::Write, Right::Create],
            "all" => &Right::ALL,
            _ => &[],
        };
        let named = Right::ALL.into_iter().filter(|right| right.word() == word);
        let set = short.iter().copied().chain(named).fold(0, |set, right| set | right.bit());
        (set != 0).then_some(Self(set))
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn contains(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_rights_or_short_for_several() {
        let rights = |word: &str| {
            let set = RightSet::of_word(word)?;
            Some(Right::ALL.into_iter().filter(|right| set.contains(*right)).collect::<Vec<_>>())
        };
        for right in Right::ALL {
            assert_eq!(rights(&right.to_string()), Some(vec![right]));
        }
        assert_eq!(rights("push"), Some(vec![Right::Write, Right::Create]));
        assert_eq!(rights("all").unwrap().len(), 6);
        for word in ["", "Read", "rw", "admin"] {
            assert_eq!(rights(word), None, "{word}");
        }
    }
}
