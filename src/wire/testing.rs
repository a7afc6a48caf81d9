//! What the tests of several modules here need: splits of bytes, and git to compare with.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The pieces of `bytes` between `cuts`, each taken modulo the length; some may be empty.
pub(super) fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(bytes.len()));
    starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect()
}

/// Runs stock git in `dir`, free of anybody's configuration, with `protocol` as `GIT_PROTOCOL`.
pub(super) fn git(dir: &Path, protocol: &str, arguments: &[&str], input: &[u8]) -> Output {
    let path: OsString = std::env::var_os("PATH").expect("a PATH to find git on");
    let mut child = Command::new("git")
        .args(arguments)
        .current_dir(dir)
        .env_clear()
        .env("PATH", path)
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_PROTOCOL", protocol)
        .env("GIT_USER_AGENT", "git/test")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@example.org")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("git can be started");
    // A git that has seen enough closes its input early; what it says is what counts.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("git can be waited for")
}

/// The output of a git that must succeed.
pub(super) fn git_ok(dir: &Path, protocol: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let output = git(dir, protocol, arguments, input);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}");
    output.stdout
}
