//! What an access file says of the refs of one push.

use super::access_file::{AccessFile, Question, Rule, Ruling};
use super::right::Right;
use bstr::{BStr, BString};
use std::fmt;
use std::sync::Arc;

/// The rules that one push goes by: the file as it was when the push began, with who pushes and
/// where to.
#[derive(Clone, Debug)]
pub struct RefRules {
    file: Arc<AccessFile>,
    user: Option<String>,
    repository: BString,
}

/// A right that somebody does not have; `Display` is for the pusher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessDenied {
    /// The right.
    pub right: Right,
    /// The ref; none if it is about the repository.
    pub name: Option<BString>,
    /// The file's name, as users know it.
    pub file: String,
    /// The line of the rule that denies it; none if no rule allows it.
    pub line: Option<usize>,
}

impl RefRules {
    /// The rules for `user` in a repository, whose path has no `.git` at its end.
    pub fn new(
        file: Arc<AccessFile>,
        user: Option<String>,
        repository: impl Into<BString>,
    ) -> Self {
        Self { file, user, repository: repository.into() }
    }

    /// Whether the user has a right to a ref.
    pub fn permit(&self, right: Right, name: &BStr) -> Result<(), AccessDenied> {
        let ruling = self.file.of_ref(self.question(right), name);
        self.settle(right, Some(name), ruling)
    }

    /// Whether the user has a right in the repository, as [`AccessFile::of_repository`] has it.
    pub fn permit_in_repository(&self, right: Right) -> Result<(), AccessDenied> {
        let ruling = self.file.of_repository(self.question(right));
        self.settle(right, None, ruling)
    }

    fn question(&self, right: Right) -> Question<'_> {
        Question { user: self.user.as_deref(), repository: &self.repository, right }
    }

    fn settle(
        &self,
        right: Right,
        name: Option<&BStr>,
        ruling: Ruling<'_>,
    ) -> Result<(), AccessDenied> {
        if ruling.is_allowed {
            return Ok(());
        }
        let (file, line) = (self.file.name().to_owned(), ruling.rule.map(Rule::line));
        Err(AccessDenied { right, name: name.map(ToOwned::to_owned), file, line })
    }
}

impl AccessDenied {
    /// The same without the ref, where that is named already.
    pub fn reason(&self) -> String {
        let Self { right, file, line, .. } = self;
        match line {
            Some(line) => format!("'{right}' is denied by rule {file}:{line}"),
            None => format!("'{right}' is allowed by no rule of {file}"),
        }
    }
}

impl fmt::Display for AccessDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name}: {}", self.reason()),
            None => f.write_str(&self.reason()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_the_right_and_the_rule() {
        let text = "repo x\ndeny force on refs/heads/main to @everyone\nallow push to ann\n";
        let file = Arc::new(AccessFile::parse("access.conf", text.as_bytes()).unwrap());
        let rules =
            |user: Option<&str>| RefRules::new(Arc::clone(&file), user.map(Into::into), "x");
        let main = BStr::new("refs/heads/main");
        assert_eq!(rules(Some("ann")).permit(Right::Write, main), Ok(()));
        let denied = rules(Some("ann")).permit(Right::Force, main).unwrap_err();
        assert_eq!(denied.to_string(), "refs/heads/main: 'force' is denied by rule access.conf:2");
        let denied = rules(None).permit_in_repository(Right::Write).unwrap_err();
        assert_eq!(denied.to_string(), "'write' is allowed by no rule of access.conf");
        assert_eq!(rules(Some("ann")).permit_in_repository(Right::Create), Ok(()));
    }
}
