//! What everybody does with a repository.

use super::work::{Work, noise};
use crate::http::raw::Request;
use crate::http::server::Server;
use crate::support::git;
use crate::support::objects::{ZERO, pack};
use crate::support::request::Request as Push;

#[test]
fn a_first_push_makes_the_repository_and_a_clone_has_a_checkout() {
    let server = Server::start();
    for (url, branch) in [("a/b/one.git", "main"), ("two", "trunk")] {
        let work = Work::new(&server.url(url));
        work.git(&["checkout", "-q", "-b", branch]);
        let id = work.commit("file", "content\n");
        work.git(&["push", "-q", "origin", branch]);
        let copy = Work::clone_of(&server.url(url));
        assert_eq!(copy.git(&["rev-parse", "HEAD"]), id);
        assert_eq!(copy.git(&["symbolic-ref", "HEAD"]), format!("refs/heads/{branch}"));
        assert!(copy.path.join("file").exists());
    }
    git::assert_sound(&server.path("a/b/one.git"));
    git::assert_sound(&server.path("two.git"));
}

#[test]
fn two_people_push_and_fetch_in_turn() {
    let server = Server::start();
    let first = Work::with_commit(&server, "x.git");
    first.git(&["push", "-q", "-u", "origin", "main"]);
    let second = Work::clone_of(&server.url("x.git"));
    for round in 0..3 {
        second.commit("second", format!("{round}"));
        second.git(&["push", "-q"]);
        first.git(&["pull", "-q", "--ff-only"]);
        let id = first.commit("first", format!("{round}"));
        first.git(&["push", "-q"]);
        second.git(&["pull", "-q", "--ff-only"]);
        assert_eq!(second.git(&["rev-parse", "HEAD"]), id);
    }
    git::assert_sound(&server.path("x.git"));
}

#[test]
fn many_first_pushes_at_once_share_the_repository_that_one_of_them_makes() {
    let server = Server::start();
    let works: Vec<_> = (0..6).map(|_| Work::with_commit(&server, "a/new.git")).collect();
    std::thread::scope(|scope| {
        for (number, work) in works.iter().enumerate() {
            let refspec = format!("main:refs/heads/b{number}");
            scope.spawn(move || work.git(&["push", "-q", "origin", &refspec]));
        }
    });
    assert_eq!(git::refs(&server.path("a/new.git")).lines().count(), works.len());
    git::assert_sound(&server.path("a/new.git"));
}

#[test]
fn a_push_that_is_refused_leaves_no_repository_behind() {
    let server = Server::start();
    let work = Work::with_commit(&server, "a/b/new.git");
    // A name that git refuses: nothing lands.
    let id = work.git(&["rev-parse", "HEAD"]);
    let request = Push::new().command(ZERO, &id, "refs/heads/..").bytes();
    let empty = pack(&[]);
    let body = [request, empty].concat();
    assert_eq!(Request::push("/a/b/new.git", body).send(&server).status, 200);
    assert!(!server.path("a/b/new.git").exists());
    work.git(&["push", "-q", "origin", "main"]);
    assert!(server.path("a/b/new.git").exists());
}

#[test]
fn tags_branches_and_deletions_go_through() {
    let server = Server::start();
    let work = Work::with_commit(&server, "x.git");
    work.git(&["tag", "light"]);
    work.git(&["tag", "-a", "-m", "annotated", "heavy"]);
    work.git(&["push", "-q", "origin", "main", "main:refs/heads/other", "--tags"]);
    let refs = git::refs(&server.path("x.git"));
    for name in ["refs/heads/main", "refs/heads/other", "refs/tags/light", "refs/tags/heavy"] {
        assert!(refs.contains(name), "{refs}");
    }
    work.git(&["push", "-q", "origin", "--delete", "other", "light"]);
    work.git(&["push", "-q", "origin", ":refs/tags/heavy"]);
    assert_eq!(git::refs(&server.path("x.git")).lines().count(), 1);
}

#[test]
fn a_push_past_the_clients_buffer_is_streamed() {
    let server = Server::start();
    let work = Work::with_commit(&server, "x.git");
    // Smaller than any packet, so that even the commands are chunked.
    work.git(&["-c", "http.postBuffer=4", "push", "-q", "origin", "main"]);
    let id = work.commit("big", noise(3 << 20, 7));
    work.git(&["push", "-q", "origin", "main"]);
    assert_eq!(git::run(&server.path("x.git"), &["rev-parse", "main"]), id);
    git::assert_sound(&server.path("x.git"));
}

#[test]
fn many_refs_go_in_one_push() {
    let server = Server::start();
    let work = Work::with_commit(&server, "x.git");
    let id = work.git(&["rev-parse", "HEAD"]);
    let lines: Vec<String> =
        (0..3000).map(|n| format!("create refs/tags/t{n:04} {id}\n")).collect();
    git::run_with_input(&work.path, &["update-ref", "--stdin"], lines.concat().as_bytes());
    work.git(&["push", "-q", "origin", "--tags"]);
    assert_eq!(git::refs(&server.path("x.git")).lines().count(), 3000);
    // A fetch with so many refs is packed with gzip.
    let copy = Work::clone_of(&server.url("x.git"));
    copy.commit("file", "more\n");
    copy.git(&["fetch", "-q", "origin"]);
}

#[test]
fn a_ref_that_is_refused_is_told_and_the_others_go_in() {
    let server = Server::open();
    let repository = server.init("x.git");
    git::run(&repository, &["config", "receive.denyNonFastForwards", "true"]);
    let work = Work::with_commit(&server, "x.git");
    work.git(&["push", "-q", "origin", "main"]);
    work.git(&["commit", "-q", "--amend", "-m", "rewritten"]);
    let text = work.failing(&["push", "-f", "origin", "main", "main:refs/heads/new"]);
    assert!(text.contains("[remote rejected] main -> main (non-fast-forward)"), "{text}");
    assert!(text.contains("[new branch]"), "{text}");
    assert!(git::refs(&repository).contains("refs/heads/new"));
}

#[test]
fn names_that_are_not_utf_8_survive() {
    let server = Server::start();
    let work = Work::with_commit(&server, "x.git");
    work.git(&["push", "-q", "origin", "main", "main:refs/heads/дом—x"]);
    assert!(git::refs(&server.path("x.git")).contains("refs/heads/дом—x"));
    work.git(&["fetch", "-q", "origin", "дом—x"]);
    work.git(&["push", "-q", "origin", ":дом—x"]);
    assert!(!git::refs(&server.path("x.git")).contains("дом"));
}

#[test]
fn a_shallow_clone_can_push_and_be_deepened() {
    let server = Server::start();
    let work = Work::with_commit(&server, "x.git");
    work.commit("file", "two\n");
    work.commit("file", "three\n");
    work.git(&["push", "-q", "origin", "main"]);
    let directory = tempfile::tempdir().unwrap();
    let url = server.url("x.git");
    git::run(directory.path(), &["clone", "-q", "--depth=1", &url, "shallow"]);
    let shallow = directory.path().join("shallow");
    std::fs::write(shallow.join("file"), "four\n").unwrap();
    git::run(&shallow, &["commit", "-q", "-a", "-m", "four"]);
    git::run(&shallow, &["push", "-q", "origin", "main"]);
    git::run(&shallow, &["fetch", "-q", "--unshallow"]);
    assert_eq!(git::run(&shallow, &["rev-list", "--count", "HEAD"]), "4");
    git::assert_sound(&server.path("x.git"));
}

#[test]
fn a_sha_256_repository_is_told_from_a_sha_1_one() {
    let server = Server::open();
    std::fs::create_dir_all(server.path("")).unwrap();
    let sha256 = git::init_bare_as(&server.path("s.git"), "sha256");
    let work = Work::with_commit(&server, "s.git");
    let text = work.failing(&["push", "origin", "main"]);
    assert!(text.contains("does not support this repository's hash algorithm"), "{text}");
    assert_eq!(git::refs(&sha256), "");
}
