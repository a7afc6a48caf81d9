//! The access file: who may do what to which repository and which ref.
//!
//! Pure. The first rule that is of the repository, the right, the ref and the user decides, in the
//! order of the file; if there is none, the answer is no. Nothing else has a say: no rule is
//! inherited, added up, or sorted by how exact it is.

use super::Glob;
use super::parse_access::{self, AccessFault};
use super::right::{Right, RightSet};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// The rules of one reading of a file.
#[derive(Clone, Debug, Default)]
pub struct AccessFile {
    /// By what the file is named to users.
    pub(super) name: String,
    pub(super) rules: Vec<Rule>,
}

/// One rule, with the repositories that stand above it.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The line it stands on, from 1.
    pub(super) line: usize,
    /// What it says there.
    pub(super) text: String,
    pub(super) repositories: Arc<[Glob]>,
    pub(super) allows: bool,
    pub(super) rights: RightSet,
    /// None for all refs.
    pub(super) refs: Vec<Glob>,
    pub(super) subjects: Vec<Subject>,
}

/// Whom a rule is about.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// `@everyone`.
    Everyone,
    /// `@users`: whoever is known.
    Known,
    /// `@anonymous`: whoever is not.
    Unnamed,
    /// This user.
    User(String),
    /// The members of a group.
    Group(Arc<HashSet<String>>),
}

/// What a question is about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The user; nobody if not known.
    pub user: Option<&'a str>,
    /// The repository's path below the root, without `.git` at its end.
    pub repository: &'a [u8],
    /// What is to be done.
    pub right: Right,
}

/// How a question was decided.
#[derive(Clone, Copy, Debug)]
pub struct Ruling<'a> {
    /// Whether it may be done.
    pub is_allowed: bool,
    /// The rule that said so; none if no rule is about it.
    pub rule: Option<&'a Rule>,
}

impl AccessFile {
    /// Reads a file, which users know by `name`; an error comes with its line, from 1.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, (usize, AccessFault)> {
        let rules = parse_access::rules(bytes)?;
        Ok(Self { name: name.to_owned(), rules })
    }

    /// By what the file is named to users.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Decides about a whole repository: whether it may be read, or made. Of a right to refs it
    /// decides whether there may be a ref that it is given for, so that those who have none are
    /// told early; the refs of a push are judged one by one all the same.
    pub fn of_repository(&self, question: Question<'_>) -> Ruling<'_> {
        let mut denied = None;
        for rule in self.rules.iter().filter(|rule| rule.is_about(question)) {
            if rule.allows || rule.is_of_all_refs() {
                return if rule.allows { rule.ruling() } else { denied.unwrap_or(rule.ruling()) };
            }
            denied.get_or_insert(rule.ruling());
        }
        denied.unwrap_or(NO_RULE)
    }

    /// Decides about one ref, by its full name.
    pub fn of_ref(&self, question: Question<'_>, name: &[u8]) -> Ruling<'_> {
        let is_of = |rule: &&Rule| {
            let covers = |glob: &Glob| glob.matches(name, question.user);
            rule.is_about(question) && (rule.refs.is_empty() || rule.refs.iter().any(covers))
        };
        self.rules.iter().find(is_of).map_or(NO_RULE, Rule::ruling)
    }
}

const NO_RULE: Ruling<'static> = Ruling { is_allowed: false, rule: None };

impl Rule {
    /// The line it stands on, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    fn ruling(&self) -> Ruling<'_> {
        Ruling { is_allowed: self.allows, rule: Some(self) }
    }

    /// Whether the rule is about these, whatever the ref.
    fn is_about(&self, question: Question<'_>) -> bool {
        let Question { user, repository, right } = question;
        self.rights.contains(right)
            && self.subjects.iter().any(|subject| subject.is(user))
            && self.repositories.iter().any(|glob| glob.matches(repository, user))
    }

    fn is_of_all_refs(&self) -> bool {
        self.refs.is_empty() || self.refs.iter().any(|glob| glob.covers_all_below("refs/"))
    }
}

/// What stands on its line.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Subject {
    fn is(&self, user: Option<&str>) -> bool {
        match (self, user) {
            (Self::Everyone, _) => true,
            (Self::Known, user) => user.is_some(),
            (Self::Unnamed, user) => user.is_none(),
            (Self::User(name), user) => user == Some(name),
            (Self::Group(members), user) => user.is_some_and(|user| members.contains(user)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
group @staff = ann bob
group @release = cleo @staff

repo private/**
  allow read push to ann
  deny all to @everyone

repo **
  deny write on refs/heads/main refs/tags/** to bob
  allow write create force delete on refs/heads/{user}/** to @users
  allow read to @everyone
  allow push to @release
  allow force on refs/heads/wip/* to @staff
  allow init to ann
";

    fn file() -> AccessFile {
        AccessFile::parse("access", FILE.as_bytes()).unwrap()
    }

    fn of_repository(user: &str, repository: &str, right: Right) -> (bool, Option<usize>) {
        let file = file();
        let user = Some(user).filter(|user| !user.is_empty());
        let question = Question { user, repository: repository.as_bytes(), right };
        let ruling = file.of_repository(question);
        (ruling.is_allowed, ruling.rule.map(Rule::line))
    }

    fn of_ref(user: &str, right: Right, name: &str) -> (bool, Option<usize>) {
        let file = file();
        let question = Question { user: Some(user), repository: b"x", right };
        let ruling = file.of_ref(question, name.as_bytes());
        (ruling.is_allowed, ruling.rule.map(Rule::line))
    }

    #[test]
    fn the_first_rule_decides_and_without_one_the_answer_is_no() {
        use Right::{Create, Delete, Force, Init, Read, Write};
        assert_eq!(of_repository("ann", "private/x", Read), (true, Some(5)));
        assert_eq!(of_repository("bob", "private/x", Read), (false, Some(6)));
        assert_eq!(of_repository("", "private/x", Read), (false, Some(6)));
        assert_eq!(of_repository("", "x", Read), (true, Some(11)));
        assert_eq!(of_repository("ann", "x", Init), (true, Some(14)));
        assert_eq!(of_repository("bob", "x", Init), (false, None));
        assert_eq!(of_ref("bob", Write, "refs/heads/main"), (false, Some(9)));
        assert_eq!(of_ref("bob", Create, "refs/tags/v1"), (true, Some(12)));
        assert_eq!(of_ref("ann", Write, "refs/heads/main"), (true, Some(12)));
        assert_eq!(of_ref("ann", Force, "refs/heads/main"), (false, None));
        assert_eq!(of_ref("ann", Force, "refs/heads/wip/x"), (true, Some(13)));
        assert_eq!(of_ref("cleo", Force, "refs/heads/wip/x"), (false, None));
        assert_eq!(of_ref("eve", Delete, "refs/heads/eve/x"), (true, Some(10)));
        assert_eq!(of_ref("eve", Delete, "refs/heads/ann/x"), (false, None));
    }

    #[test]
    fn whether_any_ref_may_be_written_is_known_beforehand() {
        // A denial of some refs does not close the repository.
        assert!(of_repository("bob", "x", Right::Write).0);
        // Somewhere of their own.
        assert_eq!(of_repository("eve", "x", Right::Write), (true, Some(10)));
        assert_eq!(of_repository("", "x", Right::Write), (false, None));
        assert_eq!(of_repository("eve", "private/x", Right::Write), (false, Some(6)));
        let text = "repo *\n deny write on refs/** to ann\n allow write to ann\n";
        let file = AccessFile::parse("a", text.as_bytes()).unwrap();
        let question = Question { user: Some("ann"), repository: b"x", right: Right::Write };
        assert!(!file.of_repository(question).is_allowed);
    }
}
