//! Which refs a client neither sees nor changes: `transfer.hideRefs`, `receive.hideRefs`
//! (git-config(1); git's `refs.c`, `ref_is_hidden`).

use bstr::{BStr, BString, ByteSlice};

/// The patterns of both settings, in the order in which the configuration has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HiddenRefs {
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    hides: bool,
    /// Compares with the full name rather than with what is left of it inside the namespace.
    full: bool,
    /// Whole components, without a slash at the end.
    prefix: BString,
}

impl HiddenRefs {
    /// Takes the patterns as they are written: `!` un-hides, then `^` matches full names;
    /// slashes at the end do not count.
    pub fn new<P: AsRef<[u8]>>(patterns: impl IntoIterator<Item = P>) -> Self {
        Self { patterns: patterns.into_iter().map(|text| Pattern::new(text.as_ref())).collect() }
    }

    /// Whether the ref is hidden: the last pattern that matches decides.
    ///
    /// `shown` is the name inside the namespace, `None` for a ref outside; `full` is the name on
    /// disk. Without a namespace they are the same.
    pub fn hides(&self, shown: Option<&BStr>, full: &BStr) -> bool {
        self.patterns
            .iter()
            .rev()
            .find(|pattern| {
                let subject = if pattern.full { Some(full) } else { shown };
                subject.is_some_and(|name| pattern.matches(name))
            })
            .is_some_and(|pattern| pattern.hides)
    }

    /// Whether there is no pattern at all.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

impl Pattern {
    fn new(text: &[u8]) -> Self {
        let (hides, text) = text.strip_prefix(b"!").map_or((true, text), |rest| (false, rest));
        let (full, text) = text.strip_prefix(b"^").map_or((false, text), |rest| (true, rest));
        let prefix = text.trim_end_with(|char| char == '/').into();
        Self { hides, full, prefix }
    }

    fn matches(&self, name: &BStr) -> bool {
        match name.strip_prefix(self.prefix.as_slice()) {
            Some(rest) => rest.is_empty() || rest.starts_with(b"/"),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hides(patterns: &[&str], name: &str) -> bool {
        HiddenRefs::new(patterns).hides(Some(name.into()), name.into())
    }

    #[test]
    fn whole_components_match() {
        assert!(hides(&["refs/pull"], "refs/pull"));
        assert!(hides(&["refs/pull"], "refs/pull/1/head"));
        assert!(!hides(&["refs/pull"], "refs/pulls/1"));
        assert!(hides(&["refs/pull///"], "refs/pull/1"));
        assert!(!hides(&["refs/heads/m"], "refs/heads/main"));
    }

    #[test]
    fn the_last_match_decides() {
        assert!(!hides(&["refs/a", "!refs/a/b"], "refs/a/b/c"));
        assert!(hides(&["!refs/a/b", "refs/a"], "refs/a/b/c"));
        assert!(hides(&["refs/a", "!refs/a/b"], "refs/a/c"));
        assert!(!hides(&[], "refs/a"));
    }

    #[test]
    fn an_empty_pattern_matches_nothing() {
        assert!(!hides(&["", "!", "^", "/"], "refs/heads/main"));
    }

    #[test]
    fn only_a_caret_looks_outside_the_namespace() {
        let full = BStr::new("refs/namespaces/n/refs/heads/x");
        let shown = Some(BStr::new("refs/heads/x"));
        let hides = |pattern: &str| HiddenRefs::new([pattern]).hides(shown, full);
        assert!(hides("refs/heads"));
        assert!(!hides("refs/namespaces/n/refs/heads"));
        assert!(hides("^refs/namespaces/n/refs/heads"));
        assert!(!hides("^refs/heads"));
        let outside = BStr::new("refs/heads/x");
        assert!(!HiddenRefs::new(["refs/heads"]).hides(None, outside));
        assert!(HiddenRefs::new(["^refs/heads"]).hides(None, outside));
    }

    #[test]
    fn the_exclamation_mark_comes_before_the_caret() {
        let patterns = HiddenRefs::new(["refs", "!^refs/heads"]);
        assert!(!patterns.hides(Some("refs/heads/x".into()), "refs/heads/x".into()));
        let patterns = HiddenRefs::new(["refs", "^!refs/heads"]);
        assert!(patterns.hides(Some("refs/heads/x".into()), "refs/heads/x".into()));
    }
}
