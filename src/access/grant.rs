//! What a token lets its bearer do, at the most: it takes rights away and gives none.

use super::Glob;
use super::rules::Operation;
use std::fmt;
use std::str::FromStr;

/// How far a token goes, each further than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Fetch.
    Read,
    /// Fetch and push.
    Write,
    /// Fetch, push, and make repositories by pushing to them.
    Create,
}

/// A word that is none of the three of [`Scope`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no scope; permitted are read, write, create")]
pub struct UnknownScope(pub String);

/// The bounds of one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How far it goes.
    pub scope: Scope,
    /// The repositories it goes for.
    pub repositories: Vec<Glob>,
}

impl Grant {
    /// Whether the repository of this name is among those of the token. `name` is a path without
    /// `.git` at its end.
    pub fn reaches(&self, name: &[u8], user: &str) -> bool {
        self.repositories.iter().any(|glob| glob.matches(name, Some(user)))
    }

    /// Whether the token is for this.
    pub fn is_for(&self, operation: Operation) -> bool {
        match operation {
            Operation::Fetch => true,
            Operation::Push => self.scope >= Scope::Write,
        }
    }
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(word: &str) -> Result<Self, UnknownScope> {
        match word {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "create" => Ok(Self::Create),
            _ => Err(UnknownScope(word.to_owned())),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_its_repositories_and_for_what_its_scope_says() {
        let grant = |scope: &str| Grant {
            scope: scope.parse().unwrap(),
            repositories: vec![
                Glob::parse("web/*").unwrap(),
                Glob::parse("home/{user}/**").unwrap(),
            ],
        };
        assert!(grant("read").reaches(b"web/site", "ann"));
        assert!(grant("read").reaches(b"home/ann/x", "ann"));
        assert!(!grant("read").reaches(b"home/bob/x", "ann"));
        assert!(grant("read").is_for(Operation::Fetch) && !grant("read").is_for(Operation::Push));
        assert!(grant("write").is_for(Operation::Push) && grant("create").is_for(Operation::Push));
    }

    #[test]
    fn scopes_are_read_and_written() {
        for word in ["read", "write", "create"] {
            assert_eq!(word.parse::<Scope>().unwrap().to_string(), word);
        }
        let error = "admin".parse::<Scope>().unwrap_err().to_string();
        assert_eq!(error, "'admin' is no scope; permitted are read, write, create");
    }
}
