//! The lines of an access file.
//!
//! ```text
//! group @NAME = MEMBER...
//! repo GLOB...
//!   allow|deny RIGHT... [on REF...] to WHO...
//! ```

use super::access_file::{Rule, Subject};
use super::right::{Right, RightSet};
use super::words::{Word, WordFault, words};
use super::{Glob, GlobFault};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What can be wrong with a line of an access file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessFault {
    /// It has no words.
    #[error(transparent)]
    Words(#[from] WordFault),
    /// It begins with a word that begins none.
    #[error("a line cannot begin with '{0}'; permitted are group, repo, allow, deny")]
    Keyword(String),
    /// A group of no form.
    #[error("a group is: group @name = member...")]
    GroupForm,
    /// A group with a name of this file's own.
    #[error("'{0}' is built in and cannot be defined")]
    BuiltIn(String),
    /// The same group stands above.
    #[error("group '{0}' is defined twice; a group has one definition")]
    GroupTwice(String),
    /// A group that does not stand above.
    #[error("group '{name}' is not defined above; permitted here are {permitted}")]
    UnknownGroup {
        /// The name.
        name: String,
        /// Those that are.
        permitted: String,
    },
    /// A `repo` without patterns.
    #[error("a repo line is: repo glob...")]
    RepoForm,
    /// A rule before any `repo`.
    #[error("a rule needs a 'repo' line above it")]
    NoRepository,
    /// A word where rights should be.
    #[error(
        "'{0}' is no right; permitted are read, write, create, force, delete, init, push (write \
         create), all, and then 'on' or 'to'"
    )]
    UnknownRight(String),
    /// A part of a rule is missing.
    #[error("a rule is: allow|deny right... [on ref...] to who...; {0} missing")]
    Missing(&'static str),
    /// Rights of whole repositories, bound to refs.
    #[error("'{0}' is of whole repositories and takes no 'on': give it a rule of its own")]
    NotOfRefs(Right),
    /// A pattern for refs that can match none.
    #[error("'{0}' is no full name of refs; write it from 'refs/' on, as in refs/heads/main")]
    NotFullName(String),
    /// A name that can be nobody's.
    #[error("an empty name is nobody's")]
    EmptyName,
    /// No pattern.
    #[error(transparent)]
    Glob(#[from] GlobFault),
}

/// Reads all rules; an error comes with its line, from 1.
pub(super) fn rules(bytes: &[u8]) -> Result<Vec<Rule>, (usize, AccessFault)> {
    let mut parser = Parser::default();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let number = index.saturating_add(1);
        parser.read_line(number, line).map_err(|fault| (number, fault))?;
    }
    Ok(parser.rules)
}

#[derive(Default)]
struct Parser {
    groups: HashMap<String, Arc<HashSet<String>>>,
    repositories: Option<Arc<[Glob]>>,
    rules: Vec<Rule>,
}

impl Parser {
    fn read_line(&mut self, number: usize, line: &[u8]) -> Result<(), AccessFault> {
        let found = words(line)?;
        let Some((first, rest)) = found.split_first() else { return Ok(()) };
        if first.is("group") {
            self.read_group(rest)
        } else if first.is("repo") {
            self.read_repositories(rest)
        } else if first.is("allow") || first.is("deny") {
            let text = String::from_utf8_lossy(line).trim().to_owned();
            let rule = self.read_rule(number, text, first.is("allow"), rest)?;
            self.rules.push(rule);
            Ok(())
        } else {
            Err(AccessFault::Keyword(first.text.clone()))
        }
    }

    fn read_group(&mut self, rest: &[Word]) -> Result<(), AccessFault> {
        let [name, equals, members @ ..] = rest else { return Err(AccessFault::GroupForm) };
        let is_group = !name.is_quoted && name.text.len() > 1 && name.text.starts_with('@');
        if !is_group || !equals.is("=") {
            return Err(AccessFault::GroupForm);
        }
        if BUILT_IN.contains(&name.text.as_str()) {
            return Err(AccessFault::BuiltIn(name.text.clone()));
        }
        if self.groups.contains_key(&name.text) {
            return Err(AccessFault::GroupTwice(name.text.clone()));
        }
        let mut all = HashSet::new();
        for member in members {
            if is_group_name(member) {
                let known = self.groups.get(&member.text);
                let known = known.ok_or_else(|| self.unknown_group(&member.text, &[]))?;
                all.extend(known.iter().cloned());
            } else if member.text.is_empty() {
                return Err(AccessFault::EmptyName);
            } else {
                all.insert(member.text.clone());
            }
        }
        self.groups.insert(name.text.clone(), Arc::new(all));
        Ok(())
    }

    fn read_repositories(&mut self, rest: &[Word]) -> Result<(), AccessFault> {
        if rest.is_empty() {
            return Err(AccessFault::RepoForm);
        }
        let globs = rest.iter().map(|word| {
            // Repositories go by their names without it.
            let text = word.text.strip_suffix(".git").filter(|stem| !stem.ends_with('/'));
            Ok(Glob::parse(text.unwrap_or(&word.text))?)
        });
        self.repositories = Some(globs.collect::<Result<_, AccessFault>>()?);
        Ok(())
    }

    fn read_rule(
        &self,
        line: usize,
        text: String,
        allows: bool,
        rest: &[Word],
    ) -> Result<Rule, AccessFault> {
        let repositories = self.repositories.clone().ok_or(AccessFault::NoRepository)?;
        let to = rest.iter().position(|word| word.is("to"));
        let (what, who) = match to {
            Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at..).unwrap_or_default()),
            None => (rest, Default::default()),
        };
        let on = what.iter().position(|word| word.is("on")).unwrap_or(what.len());
        let (rights, on) = (what.get(..on).unwrap_or_default(), what.get(on..).unwrap_or_default());
        let rights = read_rights(rights)?;
        let refs = match on.split_first() {
            None => Vec::new(),
            Some((_, [])) => return Err(AccessFault::Missing("refs are")),
            Some((_, patterns)) => read_refs(patterns, rights)?,
        };
        let who = match who.split_first() {
            None => return Err(AccessFault::Missing("'to' is")),
            Some((_, [])) => return Err(AccessFault::Missing("who is meant is")),
            Some((_, names)) => names,
        };
        let subjects = who.iter().map(|word| self.subject(word)).collect::<Result<_, _>>()?;
        Ok(Rule { line, text, repositories, allows, rights, refs, subjects })
    }

    fn subject(&self, word: &Word) -> Result<Subject, AccessFault> {
        if !is_group_name(word) {
            let name = word.text.clone();
            return if name.is_empty() {
                Err(AccessFault::EmptyName)
            } else {
                Ok(Subject::User(name))
            };
        }
        Ok(match word.text.as_str() {
            EVERYONE => Subject::Everyone,
            USERS => Subject::Known,
            ANONYMOUS => Subject::Unnamed,
            name => {
                let known = self.groups.get(name).cloned();
                Subject::Group(known.ok_or_else(|| self.unknown_group(name, &BUILT_IN))?)
            }
        })
    }

    fn unknown_group(&self, name: &str, built_in: &[&str]) -> AccessFault {
        let mut permitted: Vec<&str> = self.groups.keys().map(String::as_str).collect();
        permitted.sort_unstable();
        permitted.extend_from_slice(built_in);
        let permitted =
            if permitted.is_empty() { "users alone".to_owned() } else { permitted.join(", ") };
        AccessFault::UnknownGroup { name: name.to_owned(), permitted }
    }
}

const EVERYONE: &str = "@everyone";
const USERS: &str = "@users";
const ANONYMOUS: &str = "@anonymous";
const BUILT_IN: [&str; 3] = [EVERYONE, USERS, ANONYMOUS];

fn is_group_name(word: &Word) -> bool {
    !word.is_quoted && word.text.starts_with('@')
}

fn read_rights(found: &[Word]) -> Result<RightSet, AccessFault> {
    let mut rights = RightSet::default();
    for word in found {
        let set = RightSet::of_word(&word.text).filter(|_| !word.is_quoted);
        rights = rights.with(set.ok_or_else(|| AccessFault::UnknownRight(word.text.clone()))?);
    }
    if rights.is_empty() { Err(AccessFault::Missing("rights are")) } else { Ok(rights) }
}

fn read_refs(patterns: &[Word], rights: RightSet) -> Result<Vec<Glob>, AccessFault> {
    let of_repository =
        Right::ALL.into_iter().find(|right| right.is_of_repository() && rights.contains(*right));
    if let Some(right) = of_repository {
        return Err(AccessFault::NotOfRefs(right));
    }
    let read = |word: &Word| {
        if !word.text.starts_with("refs/") {
            return Err(AccessFault::NotFullName(word.text.clone()));
        }
        Ok(Glob::parse(&word.text)?)
    };
    patterns.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{AccessFile, Question};
    use super::*;
    use proptest::prelude::*;

    fn fault(text: &str) -> (usize, String) {
        let (line, fault) = rules(text.as_bytes()).unwrap_err();
        (line, fault.to_string())
    }

    fn allows(text: &str, user: Option<&str>, repository: &str) -> bool {
        let file = AccessFile::parse("a", text.as_bytes()).unwrap();
        let question = Question { user, repository: repository.as_bytes(), right: Right::Read };
        file.of_repository(question).is_allowed
    }

    #[test]
    fn groups_hold_users_and_groups_from_above() {
        let text = "group @a = ann \"Bo B\"\ngroup @b = cleo @a\ngroup @none =\nrepo x.git\nallow read \
                    to @b\n allow read to @none";
        for user in ["ann", "Bo B", "cleo"] {
            assert!(allows(text, Some(user), "x"), "{user}");
        }
        assert!(!allows(text, Some("eve"), "x") && !allows(text, None, "x"));
        assert!(!allows(text, Some("ann"), "x.git"));
    }

    #[test]
    fn the_built_in_groups_tell_the_known_from_the_unknown() {
        let table =
            [("@everyone", true, true), ("@users", true, false), ("@anonymous", false, true)];
        for (group, known, unknown) in table {
            let text = format!("repo **\nallow read to {group}\n");
            assert_eq!(allows(&text, Some("ann"), "a/b"), known, "{group}");
            assert_eq!(allows(&text, None, "a/b"), unknown, "{group}");
        }
        // A user of that name is another.
        assert!(allows("repo *\nallow read to \"@anonymous\"", Some("@anonymous"), "x"));
        assert!(!allows("repo *\nallow read to \"@anonymous\"", None, "x"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_what_is_permitted() {
        for (text, line, words) in [
            ("\nrepos x", 2, "cannot begin with 'repos'; permitted are group, repo, allow, deny"),
            ("\"repo\" x", 1, "cannot begin with 'repo'"),
            ("group a = b", 1, "a group is: group @name = member..."),
            ("group @a b", 1, "a group is:"),
            ("group @ = b", 1, "a group is:"),
            ("group @users = b", 1, "'@users' is built in"),
            ("group @a = b\ngroup @a = c", 2, "group '@a' is defined twice"),
            ("group @a = @b", 1, "group '@b' is not defined above; permitted here are users alone"),
            ("group @a = @users", 1, "group '@users' is not defined above"),
            (
                "group @a = b\nrepo *\nallow read to @b",
                3,
                "permitted here are @a, @everyone, @users",
            ),
            ("repo", 1, "a repo line is"),
            ("repo /x", 1, "'/x' has a segment that is empty"),
            ("allow read to ann", 1, "needs a 'repo' line above it"),
            ("repo *\nallow wirte to ann", 2, "'wirte' is no right; permitted are read, write,"),
            ("repo *\nallow to ann", 2, "rights are missing"),
            ("repo *\nallow read ann", 2, "'ann' is no right"),
            ("repo *\nallow read", 2, "'to' is missing"),
            ("repo *\nallow read to", 2, "who is meant is missing"),
            ("repo *\nallow write on to ann", 2, "refs are missing"),
            ("repo *\nallow read on refs/heads/x to ann", 2, "'read' is of whole repositories"),
            ("repo *\ndeny all on refs/heads/x to ann", 2, "'read' is of whole repositories"),
            ("repo *\nallow write on main to ann", 2, "write it from 'refs/' on"),
            ("repo *\nallow write on refs/heads/a** to ann", 2, "must stand alone"),
            ("repo *\nallow write to \"\"", 2, "an empty name"),
            ("repo \"x", 1, "a quote is not closed"),
        ] {
            let (at, said) = fault(text);
            assert!(at == line && said.contains(words), "{text}: line {at}: {said}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(rules(&bytes));
        }

        #[test]
        fn no_words_make_the_parser_or_a_decision_panic(
            text in "((group|repo|allow|deny|on|to|=|@a|\\*\\*|x|read|write|refs/\\*|\"|#)[ \n]){0,30}",
        ) {
            if let Ok(file) = AccessFile::parse("a", text.as_bytes()) {
                for right in Right::ALL {
                    let question = Question { user: Some("x"), repository: b"x", right };
                    let repository = file.of_repository(question);
                    // Who may nothing at all may nothing to a ref.
                    let of_ref = file.of_ref(question, b"refs/x");
                    prop_assert!(repository.is_allowed || !of_ref.is_allowed);
                }
            }
        }

        #[test]
        fn a_rule_above_decides_whatever_stands_below(
            below in "((allow|deny) (read|all) to (ann|@everyone|@users)\n){0,6}",
            allows_first in any::<bool>(),
        ) {
            let verb = if allows_first { "allow" } else { "deny" };
            let text = format!("repo *\n{verb} read to ann\n{below}");
            prop_assert_eq!(allows(&text, Some("ann"), "x"), allows_first);
        }
    }
}
