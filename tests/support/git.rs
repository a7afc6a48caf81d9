//! Stock git, shut off from the configuration of the machine.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A `git` command that sees no configuration but the repository's, no terminal, and fixed names
/// and dates.
pub fn command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    isolate(&mut command);
    command.current_dir(directory);
    command
}

/// Gives any command the environment of [`command`].
pub fn isolate(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let git = name.to_str().is_some_and(|name| {
            name.starts_with("GIT_") || name.starts_with("PACKHOUSE_") || name.starts_with("XDG_")
        });
        if git {
            command.env_remove(name);
        }
    }
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", "A U Thor")
        .env("GIT_AUTHOR_EMAIL", "author@example.com")
        .env("GIT_AUTHOR_DATE", "1700000000 +0000")
        .env("GIT_COMMITTER_NAME", "C O Mitter")
        .env("GIT_COMMITTER_EMAIL", "committer@example.com")
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C");
}

/// Runs git and gives its output, whatever its status.
pub fn try_run<S: AsRef<OsStr>>(directory: &Path, arguments: &[S]) -> Output {
    command(directory).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs git, which must succeed, and gives its standard output without the last line feed.
pub fn run<S: AsRef<OsStr>>(directory: &Path, arguments: &[S]) -> String {
    let output = try_run(directory, arguments);
    let shown: Vec<_> = arguments.iter().map(|argument| argument.as_ref().to_owned()).collect();
    assert!(
        output.status.success(),
        "git {shown:?} in {}: {}{}",
        directory.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
}

/// Runs git with `input` on its standard input; it must succeed.
pub fn run_with_input(directory: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = command(directory)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Creates an empty bare repository with HEAD at `refs/heads/main`.
pub fn init_bare(path: &Path) -> PathBuf {
    init_bare_as(path, "sha1")
}

/// Creates an empty bare repository of an object format.
pub fn init_bare_as(path: &Path, format: &str) -> PathBuf {
    let format = format!("--object-format={format}");
    let arguments = ["init", "-q", "--bare", "-b", "main", &format].map(OsStr::new);
    run(path.parent().unwrap(), &[&arguments[..], &[path.as_os_str()]].concat());
    path.to_owned()
}

/// All refs with their values, as `git for-each-ref` shows them.
pub fn refs(repository: &Path) -> String {
    run(repository, &["for-each-ref", "--format=%(objectname) %(refname)"])
}

/// Installs a hook that is a shell script.
pub fn hook(repository: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = repository.join("hooks").join(name);
    std::fs::create_dir_all(repository.join("hooks")).unwrap();
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The ids of all objects, sorted.
pub fn object_ids(repository: &Path) -> String {
    let format = "--batch-check=%(objectname) %(objecttype)";
    let text = run(repository, &["cat-file", format, "--batch-all-objects", "--unordered"]);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    lines.join("\n")
}

/// Asserts that `git fsck --full` finds nothing wrong.
pub fn assert_sound(repository: &Path) {
    let found = faults(repository);
    assert!(found.is_empty(), "git fsck in {}: {found}", repository.display());
}

/// What `git fsck --full` finds wrong, line by line in the order of the alphabet, and its status
/// unless that is 0. What nothing leads to is not wrong.
pub fn faults(repository: &Path) -> String {
    let arguments = ["fsck", "--full", "--no-dangling", "--no-progress"];
    let output = try_run(repository, &arguments);
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !line.starts_with("notice: ") && !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    lines.sort();
    if !output.status.success() {
        lines.push(format!("status {:?}\n", output.status.code()));
    }
    lines.concat()
}

/// Names of everything below `objects/`, sorted, for telling whether anything was left behind.
pub fn object_files(repository: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(&repository.join("objects"), "", &mut found);
    found.sort();
    found
}

fn walk(directory: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            let before = found.len();
            walk(&entry.path(), &format!("{name}/"), found);
            // An empty directory that is not part of the layout is a leftover too.
            if found.len() == before && name.starts_with("tmp_") {
                found.push(name);
            }
        } else {
            found.push(name);
        }
    }
}
