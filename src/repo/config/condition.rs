//! The conditions of `includeIf.<condition>.path` (git-config(1), "Conditional includes").

use super::error::ConfigError;
use super::git_config::ConfigOrigin;
use bstr::{BStr, BString, ByteSlice, ByteVec};
use gix_glob::wildmatch::Mode;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A condition taken apart, with its pattern still as written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    /// The git directory matches.
    GitDirectory { pattern: &'a BStr, ignore_case: bool },
    /// The branch that HEAD names matches.
    OnBranch { pattern: &'a BStr },
    /// A remote has a URL that matches.
    HasRemoteUrl { pattern: &'a BStr },
    /// A condition of a later git: never true.
    Unknown,
}

impl<'a> Condition<'a> {
    pub(super) fn parse(condition: &'a BStr) -> Self {
        let after = |prefix: &str| condition.strip_prefix(prefix.as_bytes()).map(BStr::new);
        if let Some(pattern) = after("gitdir:") {
            Self::GitDirectory { pattern, ignore_case: false }
        } else if let Some(pattern) = after("gitdir/i:") {
            Self::GitDirectory { pattern, ignore_case: true }
        } else if let Some(pattern) = after("onbranch:") {
            Self::OnBranch { pattern }
        } else if let Some(pattern) = after("hasconfig:remote.*.url:") {
            Self::HasRemoteUrl { pattern }
        } else {
            Self::Unknown
        }
    }
}

/// Whether `git_dir`, free of symbolic links, matches; `pattern` has its `~` expanded.
///
/// A leading `./` means the directory of the including file, whose own bytes are not a pattern.
pub(super) fn git_directory_matches(
    pattern: &BStr,
    ignore_case: bool,
    git_dir: &Path,
    origin: &ConfigOrigin,
) -> Result<bool, ConfigError> {
    let text = git_dir.as_os_str().as_bytes();
    let mut literal = BString::default();
    let mut glob = pattern.to_owned();
    if let Some(relative) = pattern.strip_prefix(b"./") {
        let directory = origin
            .file()
            .and_then(Path::parent)
            .ok_or_else(|| ConfigError::RelativeInclude { value: pattern.to_owned() })?;
        literal.push_str(directory.as_os_str().as_bytes());
        literal.push(b'/');
        glob = relative.into();
    } else if !pattern.starts_with(b"/") {
        glob.insert_str(0, "**/");
    }
    if glob.ends_with(b"/") {
        glob.push_str("**");
    }
    let mut mode = Mode::NO_MATCH_SLASH_LITERAL;
    mode.set(Mode::IGNORE_CASE, ignore_case);
    let Some((head, tail)) = text.split_at_checked(literal.len()) else { return Ok(false) };
    let head_matches =
        if ignore_case { head.eq_ignore_ascii_case(&literal) } else { head == literal };
    Ok(head_matches && gix_glob::wildmatch(glob.as_ref(), tail.as_bstr(), mode))
}

/// Whether the branch, named without `refs/heads/`, matches.
pub(super) fn branch_matches(pattern: &BStr, branch: &BStr) -> bool {
    let mut glob = pattern.to_owned();
    if glob.ends_with(b"/") {
        glob.push_str("**");
    }
    gix_glob::wildmatch(glob.as_ref(), branch, Mode::NO_MATCH_SLASH_LITERAL)
}

/// Whether a URL matches.
pub(super) fn url_matches(pattern: &BStr, url: &BStr) -> bool {
    gix_glob::wildmatch(pattern, url, Mode::NO_MATCH_SLASH_LITERAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, git_dir: &str, file: &str) -> bool {
        let origin = ConfigOrigin::file_at(Path::new(file), 1);
        git_directory_matches(pattern.into(), false, Path::new(git_dir), &origin).unwrap()
    }

    #[test]
    fn git_directories_match_as_the_manual_says() {
        assert!(matches("/srv/git/", "/srv/git/a/b.git", "/c"));
        assert!(matches("b.git", "/srv/git/a/b.git", "/c"));
        assert!(matches("git/**/b.git", "/srv/git/a/b.git", "/c"));
        assert!(!matches("/srv/*", "/srv/git/a", "/c"));
        assert!(!matches("git", "/srv/git/a", "/c"));
    }

    #[test]
    fn a_dot_means_the_directory_of_the_file_taken_literally() {
        assert!(matches("./a/", "/s[r]v/a/b.git", "/s[r]v/config"));
        assert!(!matches("./a/", "/sv/a/b.git", "/s[r]v/config"));
        let relative = git_directory_matches(
            "./a".into(),
            false,
            Path::new("/x"),
            &ConfigOrigin::command_line(),
        );
        assert!(matches!(relative, Err(ConfigError::RelativeInclude { .. })));
    }

    #[test]
    fn a_condition_that_nobody_knows_is_unknown() {
        assert_eq!(Condition::parse("moon:full".into()), Condition::Unknown);
        assert_eq!(
            Condition::parse("gitdir/i:X".into()),
            Condition::GitDirectory { pattern: "X".into(), ignore_case: true }
        );
    }

    #[test]
    fn branches_match_below_a_slash() {
        assert!(branch_matches("topic/".into(), "topic/a/b".into()));
        assert!(!branch_matches("topic/*".into(), "topic/a/b".into()));
    }
}
