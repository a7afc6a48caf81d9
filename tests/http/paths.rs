//! Repository paths: names that must survive, and ways out of the root that must not exist.

use super::raw::{PUSH_RESULT_TYPE, Request};
use super::server::Server;
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO};
use crate::support::request::Request as Push;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

fn push(repository: &str) -> Request {
    let snapshot = Snapshot::new("content", &[]);
    let push = Push::new().command(ZERO, &snapshot.id(), "refs/heads/main").pack(snapshot.pack());
    Request::push(repository, push.bytes())
}

#[test]
fn names_survive_byte_for_byte() {
    let server = Server::start();
    for (url, name) in [
        ("/sp%20ace.git", &b"sp ace.git"[..]),
        ("/%D0%B4%D0%BE%D0%BC.git", "дом.git".as_bytes()),
        ("/a+b.git", b"a+b.git"),
        ("/%2541.git", b"%41.git"),
        ("/%ff%FE.git", b"\xff\xfe.git"),
        ("/-x/--y.git", b"-x/--y.git"),
        ("/$(id)'%22.git", b"$(id)'\".git"),
        ("/deep/er/still/x", b"deep/er/still/x.git"),
    ] {
        let response = push(url).send(&server);
        Answer::from_bands(response.good(PUSH_RESULT_TYPE)).assert_all_ok();
        let path = server.path(Path::new(OsStr::from_bytes(name)));
        assert!(git::refs(&path).contains("refs/heads/main"), "{url}");
        assert_eq!(Request::discovery(url).send(&server).status, 200, "{url}");
        let fetch = Request::get(format!("{url}/info/refs?service=git-upload-pack"));
        assert!(fetch.send(&server).text().contains("refs/heads/main"), "{url}");
    }
}

#[test]
fn no_path_leads_out_of_the_root() {
    let server = Server::start();
    git::init_bare(&server.directory().join("outside.git"));
    server.init("in.git");
    for path in [
        "/../outside.git",
        "/..%2foutside.git",
        "/%2e%2e/outside.git",
        "/%2e%2e%2foutside.git",
        "/in.git/../../outside.git",
        "/./in.git",
        "//in.git",
        "/in.git//",
        "/in%2egit/%2e",
        "/in.git%00",
        "/in.git%00.git",
        "/.packhouse",
        "/.hidden.git",
        "/a/.git",
        "/a%0ab.git",
        "/%zz.git",
        "/%2",
    ] {
        Request::discovery(path).send(&server).assert_refused(404);
        push(path).send(&server).assert_refused(404);
    }
    let names: Vec<_> =
        fs::read_dir(server.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name == "in.git" || name == ".packhouse"), "{names:?}");
    assert_eq!(git::refs(&server.directory().join("outside.git")), "");
}

#[test]
fn links_are_followed_inside_the_root_and_never_out_of_it() {
    let server = Server::start();
    let outside = git::init_bare(&server.directory().join("outside.git"));
    server.init("group/in.git");
    symlink("group", server.path("alias")).unwrap();
    symlink(&outside, server.path("absolute.git")).unwrap();
    symlink("../outside.git", server.path("relative.git")).unwrap();
    symlink("/proc/self/cwd", server.path("magic")).unwrap();
    assert_eq!(Request::discovery("/alias/in.git").send(&server).status, 200);
    for path in ["/absolute.git", "/relative.git", "/relative", "/magic/outside.git"] {
        Request::discovery(path).send(&server).assert_refused(404);
        push(path).send(&server).assert_refused(404);
    }
    assert_eq!(git::refs(&outside), "");
}

#[test]
fn nothing_is_created_inside_a_repository_or_over_something() {
    let server = Server::start();
    server.init("x.git");
    fs::create_dir(server.path("taken.git")).unwrap();
    fs::write(server.path("file.git"), "").unwrap();
    for path in ["/x.git/y.git", "/x/y.git", "/x.git/refs/y", "/taken.git", "/file.git/y"] {
        if path == "/x/y.git" {
            // No repository lies at 'x', so it may become a directory of them.
            continue;
        }
        Request::discovery(path).send(&server).assert_refused(404);
        push(path).send(&server).assert_refused(404);
    }
    assert!(!server.path("x.git/y.git").exists());
    assert_eq!(fs::read_dir(server.path("taken.git")).unwrap().count(), 0);
}

#[test]
fn what_a_client_names_cannot_forge_a_line_of_the_log() {
    let server = Server::start();
    let url = "/x%22%20user=%22root%22%E2%80%AE%ff.git";
    assert_eq!(push(url).send(&server).status, 200);
    let log = server.wait_for_log("packhouse::push: push ");
    let line = log.lines().find(|line| line.contains("packhouse::push: push ")).unwrap();
    assert!(!line.contains(" user=\"root\"") && !line.contains('\u{202e}'), "{line}");
    assert!(line.contains("xff"), "{line}");
}
