//! That a server which loses what it acknowledged is found out, and one that does not is not.

use super::generator::{Ended, NullServer, command, load, load_json};
use crate::http::server::Server;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A `git` that does this instead of fetching; gives the PATH that it is first in.
fn fetching_otherwise(directory: &Path, script: &str) -> String {
    let path = std::env::var("PATH").unwrap();
    let otherwise = directory.join("bin");
    fs::create_dir(&otherwise).unwrap();
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = fetch ]; then\n{script}\nfi\nPATH='{path}' exec git \"$@\"\n"
    );
    fs::write(otherwise.join("git"), script).unwrap();
    fs::set_permissions(otherwise.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{path}", otherwise.display())
}

#[test]
fn a_sound_server_passes() {
    let server = NullServer::with(&[]);
    let (status, run) = load_json(&[&server.repositories(), "-n4", "--count=400", "--verify"]);
    assert_eq!(status, 0, "{run}");
    let side = &run["sides"][0];
    assert_eq!(side["pushes"], 400);
    assert_eq!(side["verification"]["commits"], 400);
    assert_eq!(side["verification"]["lost"].as_array().unwrap().len(), 0);
}

#[test]
fn one_lost_push_in_a_hundred_is_found() {
    let server = NullServer::with(&["--lose-every=100"]);
    let (status, run) = load_json(&[&server.repositories(), "-n4", "--count=400", "--verify"]);
    assert_eq!(status, 1);
    let lost = run["sides"][0]["verification"]["lost"].as_array().unwrap();
    // Each of the four by its commit; the last of a pusher by its ref, too.
    let commits = lost.iter().filter(|line| line.as_str().unwrap().contains("behind no ref"));
    assert_eq!(commits.count(), 4, "{lost:?}");
}

#[test]
fn a_loss_is_noticed_without_verify_by_the_next_push() {
    let server = NullServer::with(&["--lose-every=50"]);
    let ended = load(&[&server.repositories(), "-n1", "--count=120"]);
    assert_eq!(ended.status, 1);
    assert!(ended.out.contains("2 × an acknowledged push was not shown"), "{}", ended.out);
    assert!(ended.out.contains("ACKNOWLEDGED TOO EARLY, or lost: 2"), "{}", ended.out);
}

#[test]
fn a_server_that_says_ok_before_it_is_true_is_found() {
    let server = NullServer::with(&["--late=30"]);
    let (status, run) = load_json(&[&server.repositories(), "-n2", "--count=40", "--verify"]);
    assert_eq!(status, 1);
    assert!(!run["sides"][0]["verification"]["early"].as_array().unwrap().is_empty(), "{run}");

    let never = NullServer::with(&["--late=1000000"]);
    let (status, run) = load_json(&[&never.repositories(), "-n2", "--count=40", "--verify"]);
    assert_eq!(status, 1);
    let lost = run["sides"][0]["verification"]["lost"].as_array().unwrap();
    assert!(lost.len() >= 40, "{}", lost.len());
}

#[test]
fn a_loss_on_a_branch_of_all_is_found() {
    let server = NullServer::with(&["--lose-every=100"]);
    let url = server.repository("one.git");
    let arguments = [&*url, "-n4", "--layout=one-branch", "--count=300", "--verify"];
    let (status, run) = load_json(&arguments);
    assert_eq!(status, 1);
    assert!(!run["sides"][0]["verification"]["lost"].as_array().unwrap().is_empty(), "{run}");
}

#[test]
fn a_loss_without_discovery_is_found_afterwards() {
    let server = NullServer::with(&["--lose-every=100"]);
    let url = server.repositories();
    let (status, run) = load_json(&[&url, "-n2", "--count=100", "--no-discovery", "--verify"]);
    assert_eq!(status, 1, "{run}");
}

#[test]
fn a_push_without_an_answer_is_no_loss() {
    let server = NullServer::with(&["--hang-up-every=20"]);
    let (status, run) = load_json(&[&server.repositories(), "-n2", "--count=100", "--verify"]);
    assert_eq!(status, 1, "it has failed all the same");
    let side = &run["sides"][0];
    assert_eq!(side["failures"], 5, "{run}");
    assert_eq!(side["verification"]["lost"].as_array().unwrap().len(), 0, "{run}");
    assert_eq!(side["verification"]["early"].as_array().unwrap().len(), 0, "{run}");
}

#[test]
fn a_fetch_that_breaks_off_is_no_loss_and_no_proof() {
    let server = Server::start();
    let script = "echo \"fatal: unable to access 'x': Connection reset by peer\" >&2; exit 128";
    let path = fetching_otherwise(server.directory(), script);
    let ended: Ended = command(&[&server.url("x-{repo}.git"), "-n2", "--count=6", "--verify"])
        .env("PATH", path)
        .output()
        .unwrap()
        .into();
    assert_eq!(ended.status, 2, "{}{}", ended.out, ended.complaint);
    assert!(ended.out.contains("pushes/s"), "{}", ended.out);
    assert!(!ended.out.contains("LOST"), "{}", ended.out);
    let words = "cannot be fetched: fatal: unable to access 'x': Connection reset by peer";
    assert_eq!(ended.out.matches(words).count(), 2, "{}", ended.out);
    assert!(ended.out.contains("not verified: http://"), "{}", ended.out);
    assert!(ended.complaint.contains("not everything that was acknowledged"));
}

#[test]
fn a_fetch_that_finds_objects_missing_is_a_loss() {
    let server = Server::start();
    let script = "echo 'error: x did not send all necessary objects' >&2; exit 1";
    let path = fetching_otherwise(server.directory(), script);
    let ended: Ended = command(&[&server.url("x.git"), "-n1", "--count=2", "--verify"])
        .env("PATH", path)
        .output()
        .unwrap()
        .into();
    assert_eq!(ended.status, 1, "{}{}", ended.out, ended.complaint);
    assert!(ended.out.contains("LOST"), "{}", ended.out);
}

#[test]
fn an_interrupt_ends_a_verification_that_hangs() {
    let server = Server::start();
    let marker = server.directory().join("fetching");
    let path =
        fetching_otherwise(server.directory(), &format!("> '{}'; sleep 60", marker.display()));
    let child = command(&[&server.url("x.git"), "-n1", "--count=2", "--verify"])
        .env("PATH", path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !marker.exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never fetched");
        std::thread::sleep(Duration::from_millis(10));
    }
    let begun = Instant::now();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(ended.status, 130, "{}{}", ended.out, ended.complaint);
    assert!(ended.out.contains("not verified: interrupted"), "{}", ended.out);
    assert!(ended.out.contains("pushes/s"), "{}", ended.out);
}

#[test]
fn no_proxy_stands_between_git_and_the_server() {
    let server = Server::start();
    let mut command = command(&[&server.url("x.git"), "-n1", "--count=2", "--verify"]);
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, "http://127.0.0.1:1");
    }
    let ended: Ended = command.output().unwrap().into();
    assert_eq!(ended.status, 0, "{}{}", ended.out, ended.complaint);
    assert!(ended.out.contains("fetched with git: 1"), "{}", ended.out);
}

#[test]
fn without_git_nothing_is_pushed() {
    let server = NullServer::with(&[]);
    let ended: Ended = command(&[&server.repositories(), "--count=4", "--verify"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap()
        .into();
    assert_eq!(ended.status, 2, "{}", ended.complaint);
    assert!(ended.complaint.contains("--verify: there is no git"), "{}", ended.complaint);
    assert_eq!(ended.out, "");
}

#[test]
fn a_repository_that_is_not_below_the_root_was_not_looked_at() {
    let server = Server::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let root = elsewhere.path().display().to_string();
    let arguments = [&*server.url("x.git"), "-n1", "--count=2", "--verify", "--root", &root];
    let (status, run) = load_json(&arguments);
    assert_eq!(status, 2, "{run}");
    let verification = &run["sides"][0]["verification"];
    assert_eq!(verification["lost"].as_array().unwrap().len(), 0, "{run}");
    assert!(verification["skipped"][0].as_str().unwrap().contains("it lies neither"), "{run}");
}
