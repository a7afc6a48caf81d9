//! `packhouse receive-pack` on standard input and output.

mod alternates;
mod dialect;
mod hooks;
mod packet_trace;
mod reftables;
mod shallow;
mod signed;
mod update_instead;

use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO, blob, entry, pack, two_commits};
use crate::support::request::Request;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longer than any of these takes, shorter than anybody's patience.
const PATIENCE: Duration = Duration::from_secs(30);

fn packhouse() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhouse"));
    git::isolate(&mut command);
    command.arg("receive-pack");
    command
}

fn seeded(directory: &Path) -> PathBuf {
    let repository = git::init_bare(&directory.join("r.git"));
    let (first, _) = two_commits();
    git::run_with_input(&repository, &["unpack-objects", "-q"], &first.pack());
    git::run(&repository, &["update-ref", "refs/heads/main", &first.id()]);
    repository
}

/// Runs a stateful exchange: reads the advertisement, writes, and keeps standard input open until
/// the answer has ended.
fn stateful(repository: &Path, request: &[u8]) -> (Vec<u8>, Option<i32>) {
    let mut child =
        packhouse().arg(repository).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    read_advertisement(&mut stdout);
    let request = request.to_vec();
    let writer = std::thread::spawn(move || {
        drop(stdin.write_all(&request));
        stdin
    });
    let (done, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        drop(stdout.read_to_end(&mut bytes));
        drop(done.send(bytes));
    });
    let answer = answer.recv_timeout(PATIENCE);
    let kept_open = writer.join().unwrap();
    let answer = answer.unwrap_or_else(|_| {
        child.kill().unwrap();
        panic!("no answer while standard input is open")
    });
    let status = child.wait().unwrap().code();
    drop(kept_open);
    (answer, status)
}

fn read_advertisement(stdout: &mut impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut digits = [0; 4];
        stdout.read_exact(&mut digits).unwrap();
        all.extend_from_slice(&digits);
        let length = usize::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap();
        if length == 0 {
            return all;
        }
        let mut payload = vec![0; length - 4];
        stdout.read_exact(&mut payload).unwrap();
        all.extend_from_slice(&payload);
    }
}

fn run(command: &mut Command, input: &[u8]) -> Output {
    let mut child: Child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    drop(stdin.write_all(input));
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn a_large_push_is_answered_while_standard_input_stays_open() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let (first, second) = two_commits();
    // 300 KB that no deflate makes smaller.
    let noise: Vec<u8> =
        (0..300_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
    for limit in ["1", "100"] {
        git::run(&repository, &["config", "transfer.unpackLimit", limit]);
        let name = format!("refs/heads/l{limit}");
        let entries = [&second.blob, &second.tree, &second.commit, &blob(noise.clone())].map(entry);
        let request =
            Request::new().command(ZERO, &second.id(), &name).pack(pack(&entries)).bytes();
        let (answer, status) = stateful(&repository, &request);
        Answer::from_bands(&answer).assert_all_ok();
        assert_eq!(status, Some(0));
    }
    let request = Request::new().command(&second.id(), ZERO, "refs/heads/l1").bytes();
    let (answer, _) = stateful(&repository, &request);
    Answer::from_bands(&answer).assert_all_ok();
    assert_eq!(git::refs(&repository).lines().count(), 2, "{}", first.id());
    git::assert_sound(&repository);
}

#[test]
fn the_advertisement_is_git_s_but_for_the_agent() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    git::run(&repository, &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/main"]);
    git::run(&repository, &["update-ref", "refs/onelevel", "refs/heads/main"]);
    git::run(&repository, &["symbolic-ref", "refs/heads/dangling", "refs/heads/none"]);
    std::fs::write(repository.join("refs/heads/lost"), format!("{}\n", "1".repeat(40))).unwrap();
    for protocol in ["", "version=1", "version=2", "version=1:version=9"] {
        for format in ["sha1", "sha256"] {
            let empty = git::init_bare_as(
                &scratch.path().join(format!("e-{format}-{}.git", protocol.len())),
                format,
            );
            for repository in [&repository, &empty] {
                let mut git = Command::new("git");
                git::isolate(&mut git);
                git.arg("receive-pack");
                let [git, ours] = [git, packhouse()].map(|mut command| {
                    if !protocol.is_empty() {
                        command.env("GIT_PROTOCOL", protocol);
                    }
                    command.arg("--http-backend-info-refs").arg(repository);
                    let output = run(&mut command, b"");
                    assert_eq!(output.status.code(), Some(0));
                    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
                    without_agent(&output.stdout)
                });
                assert_eq!(git, ours, "{protocol:?}");
            }
        }
    }
}

/// The text without the agent, and without the length of the line that holds it.
fn without_agent(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let at = text.find(" agent=").unwrap();
    let end = at + text[at..].find('\n').unwrap();
    let line = text[..at].rfind('\n').map_or(0, |before| before + 1);
    format!("{}{}{}", &text[..line], &text[line + 4..at], &text[end..])
}

#[test]
fn both_names_of_the_advertising_flag_give_the_same_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let [one, two] = ["--http-backend-info-refs", "--advertise-refs"]
        .map(|flag| run(packhouse().arg(&repository).arg(flag), b"").stdout);
    assert_eq!(one, two);
}

#[test]
fn exit_statuses_are_git_s() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let status = |command: &mut Command, input: &[u8]| run(command, input).status.code();
    assert_eq!(status(&mut packhouse(), b""), Some(129));
    assert_eq!(status(packhouse().args(["a", "b"]), b""), Some(129));
    assert_eq!(status(packhouse().arg("--no-such-flag").arg(&repository), b""), Some(129));
    assert_eq!(status(packhouse().arg(scratch.path().join("none")), b""), Some(128));
    assert_eq!(status(packhouse().arg("--stateless-rpc").arg(&repository), b""), Some(128));
    assert_eq!(status(packhouse().arg("--stateless-rpc").arg(&repository), b"0000"), Some(0));
    let refused = Request::new()
        .command(&"1".repeat(40), ZERO, "refs/heads/main")
        .capabilities("report-status")
        .bytes();
    assert_eq!(status(packhouse().arg(&repository).arg("--stateless-rpc"), &refused), Some(0));
}

#[test]
fn a_missing_repository_is_named_as_git_names_it() {
    let output = run(packhouse().arg("/no/such/repository"), b"");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text, "fatal: '/no/such/repository' does not appear to be a git repository\n");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_flush_alone_is_answered_with_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let output = run(packhouse().arg("--stateless-rpc").arg(&repository), b"0000");
    assert!(output.stdout.is_empty());
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_stock_client_pushes_through_the_drop_in() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let work = scratch.path().join("work");
    git::run(scratch.path(), &["clone", "-q", "r.git", "work"]);
    std::fs::write(work.join("g"), "more\n").unwrap();
    git::run(&work, &["add", "g"]);
    git::run(&work, &["commit", "-q", "-m", "more"]);
    git::run(&work, &["tag", "-a", "-m", "t", "v1"]);
    let receiver = format!("--receive-pack={} receive-pack", env!("CARGO_BIN_EXE_packhouse"));
    git::run(&work, &["push", "-q", "--follow-tags", &receiver, "origin", "HEAD"]);
    let head = git::run(&work, &["rev-parse", "HEAD"]);
    assert!(git::refs(&repository).contains(&format!("{head} refs/heads/main")));
    git::run(&work, &["push", "-q", "--delete", &receiver, "origin", "v1"]);
    git::assert_sound(&repository);
}

#[test]
fn the_binary_serves_under_git_s_name() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let link = scratch.path().join("git-receive-pack");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_packhouse"), &link).unwrap();
    let mut command = Command::new(link);
    git::isolate(&mut command);
    let output = run(command.arg("--advertise-refs").arg(&repository), b"");
    assert_eq!(output.status.code(), Some(0));
    let first = Snapshot::new(&"hello\n".repeat(50), &[]);
    assert!(String::from_utf8_lossy(&output.stdout).contains(&first.id()));
}

#[test]
fn flags_are_taken_as_git_takes_them() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let flags: &[&[&str]] = &[
        &["-q", "-q"],
        &["--quiet", "--no-quiet"],
        &["--no-quiet", "-q"],
        &["--stateless-rpc", "--stateless-rpc"],
        &["--stateless"],
        &["--http-back"],
        &["--advertise"],
        &["--stateless-rpc", "--no-stateless-rpc", "--advertise-refs"],
        &["--advertise-refs", "--no-advertise-refs", "--stateless-rpc"],
        &["--http-backend-info-refs", "--no-http-backend-info-refs", "--stateless-rpc"],
        &["--no"],
        &["--q"],
        &["--st"],
        &["--no-st", "--adv"],
        &["-h"],
        &["--stateless-rpc", "-h"],
        &["--quiet=1"],
    ];
    for flags in flags {
        let mut git = Command::new("git");
        git::isolate(&mut git);
        git.arg("receive-pack");
        let [git, ours] = [git, packhouse()].map(|mut command| {
            let output = run(command.args(*flags).arg(&repository), b"0000");
            // A usage error may be told on either stream; a wish for the usage is answered.
            let is_error = output.status.code() == Some(129) && !flags.contains(&"-h");
            (output.status.code(), is_error || !output.stdout.is_empty())
        });
        assert_eq!(git, ours, "{flags:?}");
    }
    let mut git = Command::new("git");
    git::isolate(&mut git);
    git.arg("receive-pack");
    let [git, ours] = [git, packhouse()].map(|mut command| {
        let output = run(command.current_dir(scratch.path()).arg(""), b"");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    });
    assert_eq!(git, ours, "an empty directory");
}

#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let (_, second) = two_commits();
    let push = |name: &str| {
        Request::new()
            .command(ZERO, &second.id(), name)
            .capabilities("report-status")
            .pack(second.pack())
            .bytes()
    };
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (reader, gone) = std::io::pipe().unwrap();
    drop(reader);
    for (name, stdout) in [("full", Stdio::from(full)), ("gone", Stdio::from(gone))] {
        let name = format!("refs/heads/{name}");
        let mut child = packhouse()
            .arg("--stateless-rpc")
            .arg(&repository)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&push(&name)).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128), "{name}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.starts_with("fatal: cannot write the answer: "), "{text}");
        // What was done stands, as with git.
        assert!(git::refs(&repository).contains(&name));
    }
}

#[test]
fn a_file_past_the_limit_is_told_and_kills_nobody() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let noise = crate::support::objects::noise(2_000_000);
    let (_, second) = two_commits();
    let entries = [&second.blob, &second.tree, &second.commit, &blob(noise)].map(entry);
    let request = Request::new()
        .command(ZERO, &second.id(), "refs/heads/large")
        .capabilities("report-status")
        .pack(pack(&entries))
        .bytes();
    let mut command = Command::new("sh");
    git::isolate(&mut command);
    command.args(["-c", "ulimit -f 400 && exec \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_packhouse")).args(["receive-pack", "--stateless-rpc"]);
    let output = run(command.arg(&repository), &request);
    assert_eq!(output.status.code(), Some(0));
    let answer = Answer::from_plain(&output.stdout);
    assert_eq!(answer.report[0], "unpack file too large for the server's limit");
}
