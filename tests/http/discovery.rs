//! Discovery: what a client learns before it pushes or fetches.

use super::raw::Request;
use super::server::Server;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO};
use crate::support::request::Request as Push;

const PREAMBLE: &str = "001f# service=git-receive-pack\n0000";
const ADVERTISEMENT: &str = "application/x-git-receive-pack-advertisement";

fn info_refs(query: &str) -> Request {
    Request::get(format!("/x.git/info/refs{query}"))
}

fn server() -> Server {
    let server = Server::open();
    server.init("x.git");
    server
}

#[test]
fn an_empty_repository_has_a_line_that_carries_the_capabilities() {
    let response = Request::discovery("/x.git").send(&server());
    let body = String::from_utf8(response.good(ADVERTISEMENT).to_vec()).unwrap();
    let rest = body.strip_prefix(PREAMBLE).unwrap();
    assert!(rest[4..].starts_with(&format!("{ZERO} capabilities^{{}}\0")), "{rest}");
    assert!(rest.contains("report-status") && rest.contains("object-format=sha1"), "{rest}");
    assert!(rest.ends_with("\n0000"), "{rest}");
}

#[test]
fn refs_are_advertised_as_git_does() {
    let server = server();
    let snapshot = Snapshot::new("content", &[]);
    let push = Push::new().command(ZERO, &snapshot.id(), "refs/heads/main").pack(snapshot.pack());
    assert_eq!(Request::push("/x.git", push.bytes()).send(&server).status, 200);
    let response = Request::discovery("/x.git").send(&server);
    let body = String::from_utf8(response.good(ADVERTISEMENT).to_vec()).unwrap();
    assert!(body.contains(&format!("{} refs/heads/main\0", snapshot.id())), "{body}");
}

#[test]
fn the_service_parameter_is_read_as_a_query_is() {
    let server = server();
    for query in [
        "?service=git-receive-pack",
        "?service=git%2dreceive%2Dpack",
        "?x=1&service=git-receive-pack",
        "?service=git-receive-pack&x=1",
    ] {
        let response = info_refs(query).send(&server);
        assert!(response.good(ADVERTISEMENT).starts_with(PREAMBLE.as_bytes()), "{query}");
    }
    for query in ["?service=git-evil", "?service=", "?service", "?service=git-receive-pack%00"] {
        info_refs(query).send(&server).assert_refused(403);
    }
}

#[test]
fn the_dumb_protocol_is_refused_in_words() {
    let server = server();
    for query in ["", "?", "?x=1"] {
        let response = info_refs(query).send(&server);
        response.assert_refused(403);
        assert_eq!(response.text(), "the dumb protocol is not served\n");
    }
    for path in ["/x.git/HEAD", "/x.git/objects/info/packs", "/x.git", "/x.git/", "/"] {
        Request::get(path).send(&server).assert_refused(404);
    }
}

#[test]
fn head_is_answered_with_the_headers_of_get() {
    let server = server();
    let target = "/x.git/info/refs?service=git-receive-pack";
    let response = Request::new("HEAD", target).send(&server);
    assert_eq!(response.good(ADVERTISEMENT), b"");
    assert_eq!(
        Request::new("HEAD", "/y.git/info/refs?service=git-receive-pack").send(&server).status,
        404
    );
}

#[test]
fn other_methods_are_refused_with_those_that_are_not() {
    let server = server();
    for method in ["POST", "PUT", "DELETE", "PROPFIND", "OPTIONS"] {
        let response =
            Request::new(method, "/x.git/info/refs?service=git-receive-pack").send(&server);
        response.assert_refused(405);
        assert_eq!(response.header("allow"), "GET, HEAD");
    }
    for service in ["git-receive-pack", "git-upload-pack"] {
        for method in ["GET", "PUT"] {
            let response = Request::new(method, format!("/x.git/{service}")).send(&server);
            response.assert_refused(405);
            assert_eq!(response.header("allow"), "POST");
        }
        let response = Request::new("HEAD", format!("/x.git/{service}")).send(&server);
        assert_eq!((response.status, response.header("allow")), (405, "POST"));
    }
}

#[test]
fn version_one_is_spoken_if_asked_for_and_the_preamble_always_comes_first() {
    let server = server();
    let ask = |version: &str| {
        let request = Request::discovery("/x.git").header("Git-Protocol", version);
        String::from_utf8(request.send(&server).good(ADVERTISEMENT).to_vec()).unwrap()
    };
    assert!(ask("version=1").starts_with(&format!("{PREAMBLE}000eversion 1\n00")));
    let plain = ask("version=0");
    assert!(!plain.contains("version 1"));
    for version in ["version=2", "version=3", "nonsense", "version=1\u{fc}"] {
        assert_eq!(ask(version), plain, "{version}");
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let server = Server::open();
    Request::discovery("/x.git").send(&server).assert_refused(404);
    Request::get("/x.git/info/refs?service=git-upload-pack").send(&server).assert_refused(404);
    Request::push("/x.git", "0000").send(&server).assert_refused(404);
}

#[test]
fn lfs_is_absent_in_json_even_to_those_who_are_known() {
    let server = Server::with_users(&[("ann", "secret")], &[]);
    server.init("x.git");
    for path in ["/x.git/info/lfs/locks/verify", "/x.git/info/lfs/objects/batch"] {
        for request in [
            Request::new("POST", path).body("{}"),
            Request::new("POST", path).body("{}").user("ann", "secret"),
        ] {
            let response = request.send(&server);
            assert_eq!(response.status, 404);
            assert_eq!(response.header("content-type"), "application/vnd.git-lfs+json");
            assert!(response.text().starts_with('{'), "{response:?}");
            response.assert_not_cached();
        }
    }
}

#[test]
fn a_repository_of_another_hash_says_so() {
    let server = Server::open();
    std::fs::create_dir_all(server.path("")).unwrap();
    git::init_bare_as(&server.path("s.git"), "sha256");
    let response = Request::discovery("/s.git").send(&server);
    let body = String::from_utf8(response.good(ADVERTISEMENT).to_vec()).unwrap();
    assert!(body.contains("object-format=sha256"), "{body}");
    assert!(body.contains(&"0".repeat(64)), "{body}");
}

#[test]
fn a_repository_of_an_unknown_form_is_refused_in_words() {
    let server = server();
    for (key, value) in [("core.repositoryformatversion", "1"), ("extensions.fromthefuture", "1")] {
        git::run(&server.path("x.git"), &["config", key, value]);
    }
    let response = Request::discovery("/x.git").send(&server);
    assert!((400..600).contains(&response.status));
    assert!(response.text().contains("fromthefuture"), "{response:?}");
}

#[test]
fn both_names_are_answered_without_a_redirect() {
    let server = server();
    server.init("plain");
    for repository in ["/x", "/x.git", "/plain", "/plain.git"] {
        Request::discovery(repository).send(&server).good(ADVERTISEMENT);
        let response = Request::push(repository, "0000").send(&server);
        assert_eq!(response.status, 200, "{repository}");
    }
}
