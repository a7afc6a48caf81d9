//! Repositories that keep their refs as a reftable, with stock clients and beside stock git. The
//! oracle has the single pushes.

use super::{packhouse, run};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{ZERO, two_commits};
use crate::support::request::Request;
use std::path::{Path, PathBuf};

fn init(directory: &Path, format: &str) -> PathBuf {
    let format = format!("--object-format={format}");
    let arguments =
        ["init", "-q", "--bare", "-b", "main", "--ref-format=reftable", &format, "r.git"];
    git::run(directory, &arguments);
    directory.join("r.git")
}

fn push(repository: &Path, request: &Request) -> Answer {
    let output = run(packhouse().arg("--stateless-rpc").arg(repository), &request.bytes());
    assert_eq!(output.status.code(), Some(0));
    Answer::from_bands(&output.stdout)
}

#[test]
fn a_stock_client_pushes_fetches_and_deletes() {
    for format in ["sha1", "sha256"] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = init(scratch.path(), format);
        let work = scratch.path().join("work");
        git::run(scratch.path(), &["clone", "-q", "r.git", "work"]);
        let receiver = format!("--receive-pack={} receive-pack", env!("CARGO_BIN_EXE_packhouse"));
        let push = |refspecs: &[&str]| {
            git::run(&work, &[&["push", "-q", "--atomic", &receiver, "origin"], refspecs].concat());
        };
        for round in ["1", "2", "3"] {
            std::fs::write(work.join("f"), round).unwrap();
            git::run(&work, &["add", "f"]);
            git::run(&work, &["commit", "-q", "-m", round]);
            push(&["HEAD:refs/heads/main", &format!("HEAD:refs/tags/{round}")]);
        }
        push(&[":refs/tags/1", "HEAD:refs/heads/a/b"]);
        let head = git::run(&work, &["rev-parse", "HEAD"]);
        let refs = git::refs(&repository);
        let names: Vec<&str> = refs.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(names, ["refs/heads/a/b", "refs/heads/main", "refs/tags/2", "refs/tags/3"]);
        assert!(refs.contains(&format!("{head} refs/heads/main")));
        git::run(&work, &["fetch", "-q"]);
        assert_eq!(git::run(&work, &["rev-parse", "origin/a/b"]), head);
        git::assert_sound(&repository);
    }
}

#[test]
fn the_advertisement_is_git_s() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = init(scratch.path(), "sha1");
    let (first, _) = two_commits();
    git::run_with_input(&repository, &["unpack-objects", "-q"], &first.pack());
    for name in ["refs/heads/main", "refs/heads/a/b", "refs/tags/t", "refs/onelevel", "refs/дом/x"]
    {
        git::run(&repository, &["update-ref", name, &first.id()]);
    }
    git::run(&repository, &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/main"]);
    git::run(&repository, &["symbolic-ref", "refs/heads/dangling", "refs/heads/none"]);
    git::run(&repository, &["config", "transfer.hideRefs", "refs/tags"]);
    let mut git = std::process::Command::new("git");
    git::isolate(&mut git);
    git.arg("receive-pack");
    let [git, ours] = [git, packhouse()].map(|mut command| {
        let output = run(command.arg("--advertise-refs").arg(&repository), b"");
        assert!(output.status.success(), "{output:?}");
        super::without_agent(&output.stdout)
    });
    assert_eq!(git, ours);
}

#[test]
fn pushes_at_the_same_time_all_land() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = init(scratch.path(), "sha1");
    let (first, _) = two_commits();
    let names: Vec<String> = (0..8).map(|number| format!("refs/heads/b{number}")).collect();
    std::thread::scope(|scope| {
        for name in &names {
            let request = Request::new().command(ZERO, &first.id(), name).pack(first.pack());
            let repository = &repository;
            scope.spawn(move || push(repository, &request).assert_all_ok());
        }
    });
    assert_eq!(git::refs(&repository).lines().count(), names.len());
    git::assert_sound(&repository);
}

#[test]
fn of_two_pushes_that_build_on_one_value_one_lands() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = init(scratch.path(), "sha1");
    let (first, second) = two_commits();
    let create = Request::new().command(ZERO, &first.id(), "refs/heads/main").pack(first.pack());
    push(&repository, &create).assert_all_ok();
    let update =
        Request::new().command(&first.id(), &second.id(), "refs/heads/main").pack(second.pack());
    push(&repository, &update).assert_all_ok();
    let late = push(&repository, &update);
    assert_eq!(late.of("refs/heads/main"), "ng refs/heads/main failed to update ref");
    let text = format!(
        "error: cannot lock ref 'refs/heads/main': is at {} but expected {}\n",
        second.id(),
        first.id()
    );
    assert_eq!(late.messages, text);
}

#[test]
fn tables_that_are_damaged_are_not_taken_for_no_refs() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = init(scratch.path(), "sha1");
    std::fs::write(repository.join("reftable/tables.list"), "no-such-table.ref\n").unwrap();
    let output = run(packhouse().arg("--advertise-refs").arg(&repository), b"");
    assert_eq!(output.status.code(), Some(128));
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn refs_somewhere_else_are_refused_by_name() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = init(scratch.path(), "sha1");
    for (value, text) in [
        ("reftable:///srv/refs", "repository extension 'refstorage = reftable:///srv/refs' is not"),
        ("tables", "invalid value for 'extensions.refstorage': 'tables'"),
    ] {
        let config = "[core]\nrepositoryFormatVersion = 1\nbare = true\n[extensions]\n";
        let config = format!("{config}refStorage = {value}\n");
        std::fs::write(repository.join("config"), config).unwrap();
        let output = run(packhouse().arg("--advertise-refs").arg(&repository), b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(128));
        assert!(said.contains(text), "{said}");
    }
}
