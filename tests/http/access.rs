//! Who may do what: the rules as a client meets them.

use super::raw::{PUSH_RESULT_TYPE, Request, Response};
use super::server::Server;
use crate::support::git;
use std::fs;

const PUSH: &str = "?service=git-receive-pack";
const FETCH: &str = "?service=git-upload-pack";

fn info_refs(query: &str) -> Request {
    Request::get(format!("/x.git/info/refs{query}"))
}

fn probe() -> Request {
    Request::push("/x.git", "0000")
}

fn assert_challenged(response: &Response) {
    response.assert_refused(401);
    assert_eq!(response.header("www-authenticate"), "Basic realm=\"packhouse\"");
}

fn configure(server: &Server, key: &str, value: &str) {
    git::run(&server.path("x.git"), &["config", key, value]);
}

#[test]
fn the_challenge_comes_at_the_discovery_even_where_reading_is_open() {
    let server = Server::with_users(&[("ann", "secret")], &["--anonymous=read"]);
    server.init("x.git");
    assert_eq!(info_refs(FETCH).send(&server).status, 200);
    assert_challenged(&info_refs(PUSH).send(&server));
    assert_challenged(&probe().send(&server));
    assert_eq!(info_refs(PUSH).user("ann", "secret").send(&server).status, 200);
    assert_eq!(probe().user("ann", "secret").send(&server).good(PUSH_RESULT_TYPE), b"");
}

#[test]
fn where_repositories_decide_and_only_a_proxy_knows_users_a_push_is_forbidden_without_one() {
    let server = Server::with(&["--anonymous=repository", "--trust-user-header=X-User"]);
    server.init("x.git");
    info_refs(PUSH).send(&server).assert_refused(403);
    probe().send(&server).assert_refused(403);
    assert_eq!(info_refs(PUSH).header("X-User", "ann").send(&server).status, 200);
    configure(&server, "http.receivepack", "true");
    assert_eq!(info_refs(PUSH).send(&server).status, 200);
}

#[test]
fn wrong_credentials_are_challenged_whatever_they_are_for() {
    let server = Server::with_users(&[("ann", "secret")], &["--anonymous=write"]);
    server.init("x.git");
    for query in [PUSH, FETCH] {
        assert_eq!(info_refs(query).send(&server).status, 200);
        assert_challenged(&info_refs(query).user("ann", "wrong").send(&server));
        assert_challenged(&info_refs(query).user("eve", "secret").send(&server));
        let bearer = info_refs(query).header("Authorization", "Bearer abc");
        assert_challenged(&bearer.send(&server));
    }
    let log = server.wait_for_log("wrong credentials");
    assert!(log.contains("address=\"127.0.0.1\"") && !log.contains("wrong\""), "{log}");
}

#[test]
fn once_there_are_users_nobody_else_may_do_anything_or_learn_what_is_there() {
    let server = Server::with_users(&[("ann", "secret")], &[]);
    server.init("x.git");
    for query in [PUSH, FETCH] {
        for repository in ["x.git", "none.git"] {
            let request = Request::get(format!("/{repository}/info/refs{query}"));
            assert_challenged(&request.send(&server));
        }
        let request = Request::get(format!("/none.git/info/refs{query}"));
        request.user("ann", "secret").send(&server).assert_refused(404);
    }
}

#[test]
fn a_repositorys_no_closes_it_to_everybody() {
    let server = Server::with_users(&[("ann", "secret")], &["--anonymous=write"]);
    server.init("x.git");
    configure(&server, "http.receivepack", "false");
    for request in [info_refs(PUSH), probe()] {
        request.send(&server).assert_refused(403);
        request.user("ann", "secret").send(&server).assert_refused(403);
    }
    assert_eq!(info_refs(FETCH).send(&server).status, 200);
    configure(&server, "http.uploadpack", "false");
    info_refs(FETCH).user("ann", "secret").send(&server).assert_refused(403);
}

#[test]
fn a_repositorys_yes_lifts_no_rule_of_the_server() {
    let server = Server::with_users(&[("ann", "secret")], &["--anonymous=read"]);
    server.init("x.git");
    configure(&server, "http.receivepack", "true");
    assert_challenged(&info_refs(PUSH).send(&server));
    assert_challenged(&probe().send(&server));
}

#[test]
fn under_repository_its_own_word_counts_as_with_git_http_backend() {
    let server = Server::with(&["--anonymous=repository"]);
    server.init("x.git");
    assert_eq!(info_refs(FETCH).send(&server).status, 200);
    info_refs(PUSH).send(&server).assert_refused(403);
    configure(&server, "http.receivepack", "true");
    assert_eq!(info_refs(PUSH).send(&server).status, 200);
    configure(&server, "http.receivepack", "false");
    info_refs(PUSH).send(&server).assert_refused(403);
    configure(&server, "http.uploadpack", "false");
    info_refs(FETCH).send(&server).assert_refused(403);
}

#[test]
fn under_repository_a_server_with_users_asks_who_it_is() {
    let server = Server::with_users(&[("ann", "secret")], &["--anonymous=repository"]);
    server.init("x.git");
    assert_challenged(&info_refs(PUSH).send(&server));
    assert_eq!(info_refs(PUSH).user("ann", "secret").send(&server).status, 200);
}

#[test]
fn a_server_that_cannot_authenticate_does_not_ask() {
    for rule in ["none", "read"] {
        let server = Server::with(&[&format!("--anonymous={rule}")]);
        server.init("x.git");
        let response = info_refs(PUSH).user("ann", "secret").send(&server);
        response.assert_refused(403);
        assert_eq!(response.header("www-authenticate"), "");
        let reads = info_refs(FETCH).send(&server).status;
        assert_eq!(reads, if rule == "read" { 200 } else { 403 });
    }
}

#[test]
fn with_nothing_configured_only_this_machine_is_served() {
    let server = Server::start();
    server.init("x.git");
    for request in [info_refs(PUSH), info_refs(FETCH), probe()] {
        assert_eq!(request.send(&server).status, 200);
        for host in ["localhost", "localhost:1", "127.0.0.9:99", "[::1]:80"] {
            assert_eq!(request.clone().header("Host", host).send(&server).status, 200, "{host}");
        }
        for host in ["example.com", "evil.localhost", "10.0.0.1", ""] {
            request.clone().header("Host", host).send(&server).assert_refused(403);
        }
        for header in ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "x-forwarded-x", "Via"] {
            request.clone().header(header, "1").send(&server).assert_refused(403);
        }
        request.clone().version("HTTP/1.0").send(&server).assert_refused(403);
    }
    let creation = Request::push("/new.git", "0000").header("Via", "1.1 proxy");
    creation.send(&server).assert_refused(403);
}

#[test]
fn an_anonymous_rule_said_aloud_counts_for_every_host_and_creates_nothing() {
    let server = Server::open();
    server.init("x.git");
    let request = info_refs(PUSH).header("Host", "example.com").header("Via", "1.1 proxy");
    assert_eq!(request.send(&server).status, 200);
    Request::discovery("/new.git").send(&server).assert_refused(404);
    let server = Server::with(&["--anonymous=write", "--create-on-push=yes"]);
    assert_eq!(Request::discovery("/new.git").send(&server).status, 200);
    let fetch = Request::get("/new.git/info/refs?service=git-upload-pack");
    fetch.send(&server).assert_refused(404);
}

#[test]
fn a_header_names_the_user_if_it_comes_from_this_machine() {
    let server = Server::with(&["--trust-user-header=X-Remote-User"]);
    server.init("x.git");
    assert_challenged(&info_refs(PUSH).send(&server));
    assert_challenged(&info_refs(PUSH).header("X-Remote-User", "").send(&server));
    assert_eq!(info_refs(PUSH).header("X-Remote-User", "ann").send(&server).status, 200);
    let doubled = info_refs(PUSH).header("X-Remote-User", "ann").header("x-remote-user", "root");
    assert_challenged(&doubled.send(&server));
}

#[test]
fn a_password_file_is_followed_through_its_changes() {
    let server = Server::with_users(&[("ann", "secret")], &[]);
    server.init("x.git");
    assert_eq!(probe().user("ann", "secret").send(&server).status, 200);
    let hash = bcrypt::hash("other", 4).unwrap();
    fs::write(server.directory().join("users"), format!("bob:{hash}\n")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert_challenged(&probe().user("ann", "secret").send(&server));
    assert_eq!(probe().user("bob", "other").send(&server).status, 200);
}
