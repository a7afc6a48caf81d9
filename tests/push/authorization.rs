//! The access file, as git's user meets it: what is refused, with which words, and what goes in
//! beside it.

use super::work::Work;
use crate::http::raw::{Request, Response};
use crate::http::server::Server;
use crate::support::git;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const ACCESS: &str = "\
group @staff = ann bob

repo private/**
  allow read push to ann
  deny  all to @everyone

repo **
  deny  force delete on refs/heads/main to @everyone
  deny  create on refs/heads/release/* to bob
  allow read to @everyone
  allow push to @staff
  allow force delete on refs/heads/{user}/** refs/tags/tmp/* to @staff
  allow init to ann
";

const USERS: [(&str, &str); 3] = [("ann", "secret"), ("bob", "secret"), ("eve", "secret")];

fn server_with(access: &str, flags: &[&str]) -> Server {
    let access = access.to_owned();
    let write = move |directory: &Path| {
        let line = |(user, password): (&str, &str)| {
            format!("{user}:{}\n", bcrypt::hash(password, 4).unwrap())
        };
        fs::write(directory.join("users"), USERS.map(line).concat()).unwrap();
        fs::write(directory.join("access.conf"), access).unwrap();
    };
    let all = [&["--htpasswd=users", "--access=access.conf"], flags].concat();
    let server = Server::prepared(write, &all);
    server.init("x.git");
    server.init("private/p.git");
    server
}

fn server() -> Server {
    server_with(ACCESS, &[])
}

fn url(server: &Server, user: &str) -> String {
    server.url_as(user, "secret", "x.git")
}

/// A work tree whose `main` was pushed by ann.
fn pushed(server: &Server) -> Work {
    let work = Work::with_commit(server, "x.git");
    work.git(&["push", "-q", &url(server, "ann"), "main"]);
    work
}

fn discover(server: &Server, user: Option<&str>, repository: &str, service: &str) -> Response {
    let request = Request::get(format!("/{repository}/info/refs?service={service}"));
    match user {
        Some(user) => request.user(user, "secret").send(server),
        None => request.send(server),
    }
}

fn reload(server: &Server, text: &str, expected: &str) -> String {
    fs::write(server.directory().join("access.conf"), text).unwrap();
    server.hang_up(expected)
}

#[test]
fn who_may_not_read_is_told_the_same_whether_a_repository_is_there_or_not() {
    let server = server();
    for service in ["git-receive-pack", "git-upload-pack"] {
        let ask = |user, repository| discover(&server, user, repository, service);
        for repository in ["private/p.git", "private/none.git"] {
            ask(Some("bob"), repository).assert_refused(404);
            ask(Some("eve"), repository).assert_refused(404);
            let unnamed = ask(None, repository);
            unnamed.assert_refused(401);
            assert_eq!(unnamed.header("www-authenticate"), "Basic realm=\"packhouse\"");
        }
        assert_eq!(ask(Some("bob"), "private/p").text(), ask(Some("bob"), "private/none").text());
        assert_eq!(ask(Some("ann"), "private/p.git").status, 200);
        assert_eq!(ask(Some("ann"), "private/p").status, 200);
    }
}

#[test]
fn who_may_read_and_not_push_is_told_at_the_discovery_and_by_which_rule() {
    let server = server();
    assert_eq!(discover(&server, None, "x.git", "git-upload-pack").status, 200);
    assert_eq!(discover(&server, Some("eve"), "x.git", "git-upload-pack").status, 200);
    discover(&server, None, "x.git", "git-receive-pack").assert_refused(401);
    let refused = discover(&server, Some("eve"), "x.git", "git-receive-pack");
    refused.assert_refused(403);
    let expected =
        "user 'eve' may push nothing here: 'write' is allowed by no rule of access.conf\n";
    assert_eq!(refused.text(), expected);
    Request::push("/x.git", "0000").user("eve", "secret").send(&server).assert_refused(403);
    let work = Work::with_commit(&server, "x.git");
    let text = work.failing(&["push", &url(&server, "eve"), "main"]);
    assert!(text.contains("remote: user 'eve' may push nothing here"), "{text}");
}

#[test]
fn a_protected_branch_is_refused_alone_with_the_rule_named() {
    let server = server();
    let work = pushed(&server);
    let before = git::run(&server.path("x.git"), &["rev-parse", "main"]);
    work.git(&["commit", "-q", "--amend", "-m", "other"]);
    let other = work.git(&["rev-parse", "HEAD"]);
    let refspecs = ["+main", "main:refs/heads/topic"];
    let text = work.failing(&[&["push", &url(&server, "ann")], &refspecs[..]].concat());
    assert!(
        text.contains("remote: error: refs/heads/main: 'force' is denied by rule access.conf:8")
            && text.contains("main -> main ('force' is denied by rule access.conf:8)"),
        "{text}"
    );
    let refs = git::refs(&server.path("x.git"));
    assert_eq!(refs, format!("{before} refs/heads/main\n{other} refs/heads/topic"));

    let text = work.failing(&["push", &url(&server, "ann"), ":main", ":topic"]);
    assert!(text.contains("('delete' is denied by rule access.conf:8)"), "{text}");
    assert!(text.contains("('delete' is allowed by no rule of access.conf)"), "{text}");
    assert_eq!(git::refs(&server.path("x.git")), refs);
    // What keeps the history goes on.
    work.git(&["reset", "-q", "--hard", &before]);
    let next = work.commit("next", "x");
    work.git(&["push", "-q", &url(&server, "bob"), "main"]);
    assert_eq!(git::run(&server.path("x.git"), &["rev-parse", "main"]), next);
}

#[test]
fn with_atomic_all_are_refused() {
    let server = server();
    let work = pushed(&server);
    let before = git::refs(&server.path("x.git"));
    work.git(&["commit", "-q", "--amend", "-m", "other"]);
    for refspecs in [["+main", "main:refs/heads/topic"], ["main:refs/heads/topic", ":main"]] {
        let push = ["push", "--atomic", &url(&server, "ann"), refspecs[0], refspecs[1]];
        let text = work.failing(&push);
        assert!(text.contains("is denied by rule access.conf:8"), "{text}");
        assert!(text.contains("atomic push failure"), "{text}");
        assert_eq!(git::refs(&server.path("x.git")), before);
    }
}

#[test]
fn rights_may_end_at_a_users_own_name() {
    let server = server();
    let work = pushed(&server);
    work.git(&["push", "-q", &url(&server, "bob"), "main:refs/heads/bob/x"]);
    work.git(&["commit", "-q", "--amend", "-m", "other"]);
    let text = work.failing(&["push", &url(&server, "ann"), "+main:refs/heads/bob/x"]);
    assert!(text.contains("'force' is allowed by no rule of access.conf"), "{text}");
    work.git(&["push", "-q", &url(&server, "bob"), "+main:refs/heads/bob/x"]);
    work.git(&["push", "-q", &url(&server, "bob"), ":refs/heads/bob/x"]);
}

#[test]
fn a_tag_that_moves_is_forced_even_if_it_moves_forward() {
    let server = server();
    let work = pushed(&server);
    for tag in ["main:refs/tags/v1", "main:refs/tags/tmp/a"] {
        work.git(&["push", "-q", &url(&server, "ann"), tag]);
    }
    work.commit("next", "x");
    let text = work.failing(&["push", &url(&server, "ann"), "+main:refs/tags/v1"]);
    assert!(text.contains("('force' is allowed by no rule of access.conf)"), "{text}");
    work.git(&["push", "-q", &url(&server, "ann"), "+main:refs/tags/tmp/a"]);
}

#[test]
fn a_push_that_is_refused_whole_leaves_nothing_behind() {
    let server = server();
    let work = pushed(&server);
    let before = git::object_files(&server.path("x.git"));
    git::hook(&server.path("x.git"), "pre-receive", "echo ran >> ../../ran");
    work.commit("next", "x");
    let text = work.failing(&["push", &url(&server, "bob"), "main:refs/heads/release/1"]);
    assert!(text.contains("('create' is denied by rule access.conf:9)"), "{text}");
    assert_eq!(git::object_files(&server.path("x.git")), before);
    assert!(!server.directory().join("ran").exists());
    let log = server.wait_for_log("verdict=\"rejected\"");
    assert!(log.contains("user=\"bob\""), "{log}");
    work.git(&["push", "-q", &url(&server, "ann"), "main:refs/heads/release/1"]);
}

#[test]
fn a_symbolic_ref_is_no_way_around_the_rules_of_its_target() {
    let server = server();
    let work = pushed(&server);
    let before = git::refs(&server.path("x.git"));
    let alias = ["symbolic-ref", "refs/heads/ann/alias", "refs/heads/main"];
    git::run(&server.path("x.git"), &alias);
    work.git(&["commit", "-q", "--amend", "-m", "other"]);
    let text = work.failing(&["push", &url(&server, "ann"), "+main:refs/heads/ann/alias"]);
    assert!(text.contains("refs/heads/main: 'force' is denied by rule access.conf:8"), "{text}");
    let text = work.failing(&["push", &url(&server, "ann"), ":refs/heads/ann/alias"]);
    assert!(text.contains("'delete' is denied by rule access.conf:8"), "{text}");
    git::run(&server.path("x.git"), &["symbolic-ref", "-d", "refs/heads/ann/alias"]);
    assert_eq!(git::refs(&server.path("x.git")), before);
}

#[test]
fn a_repository_is_made_by_those_who_may_and_where_it_was_not_forbidden() {
    let server = server();
    let work = Work::with_commit(&server, "new.git");
    let push = |user| {
        ["push".to_owned(), "-q".into(), server.url_as(user, "secret", "new.git"), "main".into()]
    };
    let as_bob = push("bob");
    let text = work.failing(&as_bob.each_ref().map(String::as_str));
    assert!(text.contains("not found"), "{text}");
    assert!(!server.path("new.git").exists());
    let as_ann = push("ann");
    work.git(&as_ann.each_ref().map(String::as_str));
    assert!(server.path("new.git").is_dir());

    let server = server_with(ACCESS, &["--create-on-push=no"]);
    discover(&server, Some("ann"), "new.git", "git-receive-pack").assert_refused(404);
}

#[test]
fn a_change_counts_after_a_hangup_and_a_broken_file_keeps_the_old_rules() {
    let server = server();
    let ask = || discover(&server, Some("eve"), "x.git", "git-receive-pack").status;
    assert_eq!(ask(), 403);
    let log =
        reload(&server, "repo **\n  alow push to eve\n", "going on with what was read before");
    assert!(
        log.contains("line 2: a line cannot begin with 'alow'; permitted are group, repo,"),
        "{log}"
    );
    assert_eq!(ask(), 403);
    assert_eq!(discover(&server, Some("bob"), "x.git", "git-receive-pack").status, 200);
    reload(&server, "repo **\n  allow read push to eve\n", "read anew");
    assert_eq!(ask(), 200);
    discover(&server, Some("bob"), "x.git", "git-receive-pack").assert_refused(404);
}

#[test]
fn a_change_is_seen_without_a_signal_too() {
    let server = server();
    fs::write(server.directory().join("access.conf"), "repo **\nallow read to eve\n").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while discover(&server, Some("bob"), "x.git", "git-upload-pack").status != 404 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_token_bounds_what_the_rules_allow() {
    let server = server_with(ACCESS, &["--tokens=/dev/null"]);
    // No token is known, and a password still is.
    let bearer = Request::discovery("/x.git").header("Authorization", "Bearer pht_1");
    bearer.send(&server).assert_refused(401);
    assert_eq!(discover(&server, Some("ann"), "x.git", "git-receive-pack").status, 200);
}

fn check(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhouse"));
    git::isolate(&mut command);
    command.args(["access", "check", "--access=access.conf"]).args(words).current_dir(directory);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_command_that_checks_names_the_rule_that_the_server_goes_by() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("access.conf"), ACCESS).unwrap();
    let output = check(directory.path(), &["ann", "x.git", "refs/heads/main"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let force = text.lines().find(|line| line.starts_with("force")).unwrap();
    let expected =
        "force   no   access.conf:8    deny  force delete on refs/heads/main to @everyone";
    assert_eq!(force, expected);
    let write = text.lines().find(|line| line.starts_with("write")).unwrap();
    assert_eq!(write, "write   yes  access.conf:11   allow push to @staff");
    let denied = check(directory.path(), &["--right=delete", "ann", "x", "refs/heads/main"]);
    assert_eq!(denied.status.code(), Some(1));
    fs::write(directory.path().join("access.conf"), "repo\n").unwrap();
    let broken = check(directory.path(), &["ann", "x"]);
    assert_eq!(broken.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&broken.stderr).contains("line 1: a repo line is: repo glob"));
}
