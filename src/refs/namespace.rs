//! Namespaces: several repositories' refs in one (gitnamespaces(7)).
//!
//! Nothing here decides what a client may see; [`advertised`](super::advertised) does.

use crate::model::{RefName, RefNameError};
use bstr::{BStr, BString, ByteSlice};

/// A namespace such as `a/b`, whose refs lie below `refs/namespaces/a/refs/namespaces/b/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    prefix: BString,
}

/// A namespace that would make bad ref names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad git namespace path '{path}'")]
pub struct NamespaceError {
    /// The path as it came.
    pub path: BString,
}

impl Namespace {
    /// Reads a path as GIT_NAMESPACE holds it; empty components do not count, and of an empty
    /// path there is no namespace.
    pub fn new(path: &[u8]) -> Result<Option<Self>, NamespaceError> {
        let mut prefix = BString::default();
        for component in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            prefix.extend_from_slice(b"refs/namespaces/");
            prefix.extend_from_slice(component);
            prefix.push(b'/');
        }
        if prefix.is_empty() {
            return Ok(None);
        }
        match RefName::for_deletion(prefix.trim_end_with(|char| char == '/')) {
            Ok(_) => Ok(Some(Self { prefix })),
            Err(_) => Err(NamespaceError { path: path.into() }),
        }
    }

    /// What all full names of this namespace begin with; ends in a slash.
    pub fn prefix(&self) -> &BStr {
        self.prefix.as_bstr()
    }

    /// The full name of the ref that clients of this namespace call `name`.
    pub fn expand(&self, name: &RefName) -> Result<RefName, RefNameError> {
        let mut full = self.prefix.clone();
        full.extend_from_slice(name.as_bstr());
        RefName::for_deletion(full)
    }

    /// What clients of this namespace call the ref `full`; `None` if it is outside.
    pub fn strip<'a>(&self, full: &'a BStr) -> Option<&'a BStr> {
        full.strip_prefix(self.prefix.as_slice()).map(ByteSlice::as_bstr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_namespaces_nest_their_prefixes() {
        let namespace = Namespace::new(b"a//b/").unwrap().unwrap();
        assert_eq!(namespace.prefix(), "refs/namespaces/a/refs/namespaces/b/");
        let name = RefName::new("refs/heads/main").unwrap();
        let full = namespace.expand(&name).unwrap();
        assert_eq!(full.as_bstr(), "refs/namespaces/a/refs/namespaces/b/refs/heads/main");
        assert_eq!(namespace.strip(full.as_bstr()), Some(name.as_bstr()));
        assert_eq!(namespace.strip(name.as_bstr()), None);
    }

    #[test]
    fn no_path_is_no_namespace_and_a_bad_one_is_refused() {
        assert_eq!(Namespace::new(b"").unwrap(), None);
        assert_eq!(Namespace::new(b"//").unwrap(), None);
        for path in [&b".."[..], b"a b", b"a/../b", b".x", b"x.lock", b"a\0b", b"-/~"] {
            assert!(Namespace::new(path).is_err(), "{}", path.as_bstr());
        }
    }
}
