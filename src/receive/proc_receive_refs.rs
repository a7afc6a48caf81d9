//! Which commands `receive.procReceiveRefs` hands to the `proc-receive` hook (git-config(1)).

use crate::model::{Command, CommandKind};
use bstr::{BString, ByteSlice};

/// The values of the key, in order; one that matches is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcReceiveRefs(Vec<Pattern>);

/// One value: letters, a colon, and the first components of names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a letter of git's")]
struct Pattern {
    creations: bool,
    deletions: bool,
    updates: bool,
    /// Matches the names that do not begin so.
    negated: bool,
    prefix: BString,
}

impl ProcReceiveRefs {
    pub(super) fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self(values.into_iter().map(Pattern::new).collect())
    }

    /// Whether nothing is the hook's.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the hook is to carry the command out.
    pub(super) fn hand_over(&self, command: &Command) -> bool {
        self.0.iter().any(|pattern| pattern.matches(command))
    }
}

impl Pattern {
    fn new(value: &[u8]) -> Self {
        let (letters, prefix) = match value.split_once_str(b":") {
            Some((letters, prefix)) => (Some(letters), prefix),
            None => (None, value),
        };
        let asks = |letter| letters.is_none_or(|letters| letters.contains(&letter));
        Self {
            creations: asks(b'a'),
            deletions: asks(b'd'),
            updates: asks(b'm'),
            negated: letters.is_some_and(|letters| letters.contains(&b'!')),
            prefix: prefix.trim_end_with(|letter| letter == '/').into(),
        }
    }

    fn matches(&self, command: &Command) -> bool {
        // git asks by the null ids, so that a deletion from nothing is a creation, too.
        let wanted = match command.kind() {
            CommandKind::Delete => self.deletions && (self.creations || !command.old.is_null()),
            CommandKind::Create => self.creations,
            CommandKind::Update => self.updates,
        };
        let rest = command.name.strip_prefix(self.prefix.as_slice());
        let begins_so = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        wanted && begins_so != self.negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{HashKind, ObjectId};

    fn command(from: bool, to: bool, name: &str) -> Command {
        let (some, null) = (ObjectId::empty_tree(HashKind::Sha1), ObjectId::null(HashKind::Sha1));
        let id = |there| if there { some } else { null };
        Command::new(id(from), id(to), name)
    }

    fn matches(values: &[&str], command: &Command) -> bool {
        ProcReceiveRefs::new(values.iter().map(|value| value.as_bytes())).hand_over(command)
    }

    #[test]
    fn prefixes_are_whole_components_with_slashes_at_the_end_or_without() {
        for prefix in ["refs/for", "refs/for/", "refs/for//"] {
            assert!(matches(&[prefix], &command(false, true, "refs/for/main")));
            assert!(matches(&[prefix], &command(false, true, "refs/for")));
            assert!(!matches(&[prefix], &command(false, true, "refs/forge")));
        }
        assert!(matches(&["refs"], &command(true, true, "refs/heads/main")));
        assert!(!matches(&[], &command(true, true, "refs/heads/main")));
    }

    #[test]
    fn letters_choose_the_kind_of_change() {
        let kinds = [(false, true), (true, false), (true, true)];
        for (letters, expected) in [
            ("a:refs", [true, false, false]),
            ("d:refs", [false, true, false]),
            ("m:refs", [false, false, true]),
            ("dm:refs", [false, true, true]),
            (":refs", [false, false, false]),
            ("refs", [true, true, true]),
        ] {
            let found = kinds.map(|(from, to)| matches(&[letters], &command(from, to, "refs/x/y")));
            assert_eq!(found, expected, "{letters}");
        }
        // The deletion of a ref that is not there counts as both.
        assert!(!matches(&["d:refs"], &command(false, false, "refs/x/y")));
        assert!(matches(&["ad:refs"], &command(false, false, "refs/x/y")));
    }

    #[test]
    fn an_exclamation_mark_takes_all_others() {
        let values = ["adm!:refs/heads"];
        assert!(!matches(&values, &command(false, true, "refs/heads/main")));
        assert!(matches(&values, &command(false, true, "refs/tags/v1")));
        // Without a letter for a kind of change there is nothing that it could take.
        assert!(!matches(&["!:refs/heads"], &command(false, true, "refs/tags/v1")));
    }
}
