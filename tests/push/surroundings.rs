//! What hooks and reflogs get to know of a push over HTTP.

use super::work::{Work, noise};
use crate::http::server::Server;
use crate::support::git;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn hook(repository: &Path, name: &str, script: &str) {
    let path = repository.join("hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The variables that a hook of this push saw.
fn seen(server: &Server, url: &str) -> Vec<String> {
    let repository = server.path("x.git");
    let file = server.directory().join("seen");
    hook(&repository, "pre-receive", &format!("env > '{}'", file.display()));
    let work = Work::new(url);
    work.commit("file", "content\n");
    work.git(&["push", "-q", "origin", "main"]);
    fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn hooks_see_the_user_and_the_address() {
    let server = Server::with_users(&[("ann", "secret")], &[]);
    server.init("x.git");
    let seen = seen(&server, &server.url_as("ann", "secret", "x.git"));
    for line in [
        "REMOTE_USER=ann",
        "REMOTE_ADDR=127.0.0.1",
        "GIT_COMMITTER_NAME=ann",
        "GIT_COMMITTER_EMAIL=ann@http.127.0.0.1",
    ] {
        assert!(seen.iter().any(|seen| seen == line), "{line} in {seen:?}");
    }
    assert!(!seen.iter().any(|line| line.starts_with("PACKHOUSE_")), "{seen:?}");
}

#[test]
fn hooks_see_that_nobody_was_known() {
    let server = Server::open();
    server.init("x.git");
    let seen = seen(&server, &server.url("x.git"));
    assert!(!seen.iter().any(|line| line.starts_with("REMOTE_USER=")), "{seen:?}");
    assert!(seen.iter().any(|line| line == "GIT_COMMITTER_NAME=anonymous"), "{seen:?}");
}

#[test]
fn reflogs_name_who_pushed() {
    let server = Server::open();
    let repository = server.init("x.git");
    git::run(&repository, &["config", "core.logAllRefUpdates", "true"]);
    let work = Work::with_commit(&server, "x.git");
    work.git(&["push", "-q", "origin", "main"]);
    let log = fs::read_to_string(repository.join("logs/refs/heads/main")).unwrap();
    assert!(log.contains(" anonymous <anonymous@http.127.0.0.1> "), "{log}");
    assert!(log.ends_with("\tpush\n"), "{log}");
}

#[test]
fn hooks_talk_to_the_pusher_and_may_refuse() {
    let server = Server::open();
    let repository = server.init("x.git");
    hook(&repository, "pre-receive", "echo 'not on a Monday'; exit 1");
    let work = Work::with_commit(&server, "x.git");
    let text = work.failing(&["push", "origin", "main"]);
    assert!(text.contains("remote: not on a Monday"), "{text}");
    assert!(text.contains("(pre-receive hook declined)"), "{text}");
    assert_eq!(git::refs(&repository), "");
}

#[test]
fn push_options_reach_the_hooks() {
    let server = Server::open();
    let repository = server.init("x.git");
    git::run(&repository, &["config", "receive.advertisePushOptions", "true"]);
    hook(&repository, "pre-receive", "echo \"$GIT_PUSH_OPTION_COUNT:$GIT_PUSH_OPTION_0\"");
    let work = Work::with_commit(&server, "x.git");
    let output = work.try_git(&["push", "-o", "a=b c", "origin", "main"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("remote: 1:a=b c"), "{text}");
    // A repository that does not offer them says so.
    git::run(&repository, &["config", "receive.advertisePushOptions", "false"]);
    work.commit("file", "more\n");
    let text = work.failing(&["push", "-o", "a=b", "origin", "main"]);
    assert!(text.contains("does not support push options"), "{text}");
}

#[test]
fn a_push_past_the_limit_is_told_so_however_large_it_is() {
    let server = Server::open();
    let repository = server.init("x.git");
    git::run(&repository, &["config", "receive.maxInputSize", "1m"]);
    let work = Work::with_commit(&server, "x.git");
    work.git(&["config", "core.compression", "0"]);
    work.commit("big", noise(40 << 20, 3));
    for buffer in ["http.postBuffer=1m", "http.postBuffer=100m"] {
        let text = work.failing(&["-c", buffer, "push", "origin", "main"]);
        assert!(text.contains("pack exceeds maximum allowed size"), "{text}");
        assert!(text.contains("[remote rejected] main -> main (unpacker error)"), "{text}");
        assert!(!text.contains("RPC failed"), "{text}");
    }
    assert_eq!(git::refs(&repository), "");
}

#[test]
fn fsck_tells_the_pusher_what_is_wrong_however_much_still_comes() {
    let server = Server::open();
    let repository = server.init("x.git");
    git::run(&repository, &["config", "transfer.fsckObjects", "true"]);
    let work = Work::with_commit(&server, "x.git");
    work.git(&["push", "-q", "origin", "main"]);
    let before = git::refs(&repository);
    work.git(&["config", "core.compression", "0"]);
    for (content, abnormal) in
        [(noise(10, 3), "unpack-objects"), (noise(40 << 20, 3), "index-pack")]
    {
        work.commit("big", content);
        let text = String::from_utf8(git::run_with_input(
            &work.path,
            &["cat-file", "commit", "HEAD"],
            b"",
        ));
        let bad = text.unwrap().replace("author A U Thor <author@example.com>", "author A U Thor");
        let arguments = ["hash-object", "-w", "--literally", "-t", "commit", "--stdin"];
        let id = git::run_with_input(&work.path, &arguments, bad.as_bytes());
        let id = String::from_utf8(id).unwrap().trim().to_owned();
        git::run(
            &repository,
            &["config", "receive.unpackLimit", if abnormal == "index-pack" { "1" } else { "100" }],
        );
        for buffer in ["http.postBuffer=1m", "http.postBuffer=100m"] {
            let text =
                work.failing(&["-c", buffer, "push", "origin", &format!("{id}:refs/heads/main")]);
            let line =
                format!("remote: error: object {id}: missingEmail: invalid author/committer line");
            assert!(text.contains(&line), "{text}");
            assert!(text.contains("remote: fatal: fsck error in packed object"), "{text}");
            assert!(
                text.contains(&format!("remote unpack failed: {abnormal} abnormal exit")),
                "{text}"
            );
            assert!(text.contains("(unpacker error)") && !text.contains("RPC failed"), "{text}");
        }
        assert_eq!(git::refs(&repository), before);
    }
    git::run(&repository, &["config", "receive.fsck.missingEmail", "warn"]);
    let head = work.git(&["rev-parse", "HEAD"]);
    let output = work.try_git(&["push", "origin", &format!("{head}:refs/heads/main")]);
    assert!(output.status.success());
    git::assert_sound(&repository);
}
