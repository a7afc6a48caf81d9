//! The process environment as plain data.
//!
//! git takes much of its behaviour from environment variables, and a server must decide for each
//! push which of its own a repository and its hooks may see. So the environment is a value that
//! is handed down; nothing below the edge reads the process's own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variables that are about one repository (`git rev-parse --local-env-vars`), without those
/// that hand down configuration, which an operator may have set on purpose.
pub const LOCAL_VARIABLES: [&str; 12] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Environment variables by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The environment of this process, as it is now.
    pub fn from_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// No variables at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The value of a variable; `None` if it is not set. A variable set to nothing is `Some("")`.
    pub fn var(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Sets a variable, in place of the value it had.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.0.insert(name.into(), value.into());
    }

    /// Takes a variable away.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) {
        self.0.remove(name.as_ref());
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unset_variable_differs_from_an_empty_one() {
        let mut environment = Environment::empty();
        environment.set("EMPTY", "");
        assert_eq!(environment.var("EMPTY"), Some(OsStr::new("")));
        assert_eq!(environment.var("UNSET"), None);
        environment.remove("EMPTY");
        assert_eq!(environment.var("EMPTY"), None);
    }

    #[test]
    fn the_process_environment_is_a_copy() {
        let mut environment = Environment::from_process();
        assert!(environment.var("PATH").is_some());
        environment.remove("PATH");
        assert!(std::env::var_os("PATH").is_some());
    }

    #[test]
    fn the_last_setting_of_a_variable_counts() {
        let environment: Environment = [("A", "1"), ("B", "2"), ("A", "3")].into_iter().collect();
        let all: Vec<_> = environment.iter().collect();
        assert_eq!(all, [(OsStr::new("A"), OsStr::new("3")), (OsStr::new("B"), OsStr::new("2"))]);
    }
}
