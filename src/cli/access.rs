//! `packhouse access check`: what an access file says, and by which rule.

use crate::access::{AccessFile, Question, Right, Ruling};
use crate::repo::{Disk, FlushPolicy};
use clap::{Args, Subcommand};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Tells what an access file says.
#[derive(Args, Clone, Debug)]
pub(super) struct AccessCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Names the rule that decides on each right of a user
    ///
    /// Without a ref, rights to refs are told as those to any ref there might be. The exit status is
    /// 2 if the file cannot be used, and 1 if `--right` is given and denied.
    Check(Check),
}

#[derive(Args, Clone, Debug)]
struct Check {
    /// The access file, as given to `packhouse serve --access`
    #[arg(long, env = "PACKHOUSE_ACCESS", value_name = "FILE")]
    access: PathBuf,
    /// Only this right: read, write, create, force, delete, init
    #[arg(long, value_name = "RIGHT", value_parser = right)]
    right: Option<Right>,
    /// The user, or @anonymous for those who are not known
    user: String,
    /// The repository's path below the root, with or without .git
    repository: String,
    /// The full name of a ref, such as refs/heads/main
    #[arg(value_name = "REF", value_parser = ref_name)]
    name: Option<String>,
}

impl AccessCommand {
    pub(super) fn run(self) -> ExitCode {
        let Action::Check(check) = self.action;
        let file = match read(&check.access) {
            Ok(file) => file,
            Err(text) => {
                let text = format!("packhouse: error: {text}\n");
                drop(io::stderr().lock().write_all(text.as_bytes()));
                return ExitCode::from(BROKEN);
            }
        };
        let (text, allowed) = check.answer(&file);
        match io::stdout().lock().write_all(text.as_bytes()) {
            Ok(()) if allowed => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    }
}

impl Check {
    /// The answer, and whether the right that was asked for is given.
    fn answer(&self, file: &AccessFile) -> (String, bool) {
        let repository = self.repository.strip_suffix(".git").unwrap_or(&self.repository);
        let user = Some(self.user.as_str()).filter(|user| *user != "@anonymous");
        let asked =
            Right::ALL.into_iter().filter(|right| self.right.is_none_or(|one| one == *right));
        let mut text = String::new();
        let mut allowed = true;
        for right in asked {
            let question = Question { user, repository: repository.as_bytes(), right };
            let ruling = match self.name.as_ref().filter(|_| !right.is_of_repository()) {
                Some(name) => file.of_ref(question, name.as_bytes()),
                None => file.of_repository(question),
            };
            allowed &= ruling.is_allowed || self.right.is_none();
            describe(&mut text, file, right, ruling);
        }
        (text, allowed)
    }
}

/// The exit status for a file that cannot be used.
const BROKEN: u8 = 2;
/// LIMIT: bytes of an access file, as a server reads them.
const BYTES_MAX: u64 = 16 << 20;

fn describe(text: &mut String, file: &AccessFile, right: Right, ruling: Ruling<'_>) {
    let (answer, name) = (if ruling.is_allowed { "yes" } else { "no" }, file.name());
    // Writing to a string does not fail.
    let _ = match ruling.rule {
        Some(rule) => writeln!(text, "{right:<7} {answer:<4} {name}:{:<4} {rule}", rule.line()),
        None => writeln!(text, "{right:<7} {answer:<4} no rule of {name} is about it"),
    };
}

fn read(path: &Path) -> Result<AccessFile, String> {
    let shown = path.display();
    let bytes = Disk::new(FlushPolicy::NONE).read(path, BYTES_MAX);
    let bytes = bytes.map_err(|error| format!("cannot read access file '{shown}': {error}"))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = AccessFile::parse(&name, &bytes);
    file.map_err(|(line, fault)| format!("access file '{shown}', line {line}: {fault}"))
}

fn right(word: &str) -> Result<Right, String> {
    let found = Right::ALL.into_iter().find(|right| right.to_string() == word);
    found.ok_or_else(|| "permitted are read, write, create, force, delete, init".to_owned())
}

fn ref_name(name: &str) -> Result<String, String> {
    if name.starts_with("refs/") {
        return Ok(name.to_owned());
    }
    Err("write the full name, such as refs/heads/main".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        check: Check,
    }

    const FILE: &str = "repo web/**\n  deny force on refs/heads/main to @everyone\n  allow read push \
                        force to ann\n";

    fn answer(arguments: &[&str]) -> (String, bool) {
        let line = [&["check", "--access=x"], arguments].concat();
        let file = AccessFile::parse("access", FILE.as_bytes()).unwrap();
        CommandLine::try_parse_from(line)
            .map_err(|error| error.to_string())
            .unwrap()
            .check
            .answer(&file)
    }

    #[test]
    fn each_right_is_told_with_the_rule_that_decides() {
        let (text, allowed) = answer(&["ann", "web/site.git", "refs/heads/main"]);
        assert_eq!(
            text,
            "read    yes  access:3    allow read push force to ann\n\
             write   yes  access:3    allow read push force to ann\n\
             create  yes  access:3    allow read push force to ann\n\
             force   no   access:2    deny force on refs/heads/main to @everyone\n\
             delete  no   no rule of access is about it\n\
             init    no   no rule of access is about it\n"
        );
        assert!(allowed);
    }

    #[test]
    fn one_right_decides_on_the_status() {
        assert!(!answer(&["--right=force", "ann", "web/site", "refs/heads/main"]).1);
        assert!(answer(&["--right=force", "ann", "web/site", "refs/heads/x"]).1);
        assert!(answer(&["--right=force", "ann", "web/site"]).1);
        assert!(!answer(&["--right=read", "@anonymous", "web/site"]).1);
    }

    #[test]
    fn a_ref_is_written_in_full_and_a_right_is_one_of_six() {
        for wrong in [&["ann", "x", "main"][..], &["--right=push", "ann", "x"], &["ann"]] {
            let line = [&["check", "--access=x"], wrong].concat();
            assert!(CommandLine::try_parse_from(line).is_err(), "{wrong:?}");
        }
    }
}
