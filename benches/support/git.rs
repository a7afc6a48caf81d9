//! Stock git, with no configuration but the repository's own.

use super::Outcome;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// `git` in this directory.
pub(crate) fn git(directory: &Path) -> Command {
    let mut command = Command::new("git");
    // What a benchmark is told to read may belong to somebody else.
    command.args(["-c", "safe.directory=*"]).current_dir(directory);
    without_configuration(&mut command);
    command
}

/// Keeps the machine's configuration and the user's away from a command.
pub(crate) fn without_configuration(command: &mut Command) {
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
}

/// Runs a command that says nothing unless it fails.
pub(crate) fn run(command: &mut Command) -> Outcome<()> {
    said(command).map(drop)
}

/// What a command says, as text.
pub(crate) fn said(command: &mut Command) -> Outcome<String> {
    let output = command.output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}", text.trim()).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What a command says that is told `input`.
pub(crate) fn told(command: &mut Command, input: &[u8]) -> Outcome<Vec<u8>> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut pipe = child.stdin.take().ok_or("no pipe to the command")?;
    let output = std::thread::scope(|scope| {
        let writer = scope.spawn(move || pipe.write_all(input));
        let output = child.wait_with_output();
        writer.join().expect("the writer does not panic").and(output)
    })?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("{command:?} failed: {}", output.status).into())
    }
}

/// Makes a bare repository. Neither side tidies up after a push: that would be measured with it.
pub(crate) fn init_bare(path: &Path) -> Outcome<()> {
    fs::create_dir_all(path)?;
    run(git(path).args(["init", "-q", "--bare", "."]))?;
    run(git(path).args(["config", "receive.autogc", "false"]))?;
    run(git(path).args(["config", "gc.auto", "0"]))
}

/// Copies a repository. Files of objects are linked: nobody writes into one that is there.
pub(crate) fn copy(from: &Path, to: &Path) -> Outcome<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if from.components().any(|part| part.as_os_str() == "objects")
            && entry.file_name() != "alternates"
        {
            fs::hard_link(entry.path(), target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The names and values of all refs, as `git show-ref` lists them.
pub(crate) fn refs(repository: &Path) -> Outcome<String> {
    let format = "--format=%(objectname) %(refname)";
    said(git(repository).args(["for-each-ref", format]))
}
