//! Users, passwords and refusals, as git's user meets them.

use super::work::{Work, noise};
use crate::http::server::Server;
use crate::support::git;

fn server() -> Server {
    let server = Server::with_users(&[("ann", "secret")], &["--anonymous=read"]);
    server.init("x.git");
    server
}

#[test]
fn a_known_user_pushes_and_nobody_else() {
    let server = server();
    let work = Work::with_commit(&server, "x.git");
    let text = work.failing(&["push", "origin", "main"]);
    assert!(text.contains("could not read Username"), "{text}");
    let wrong = server.url_as("ann", "wrong", "x.git");
    let text = work.failing(&["push", &wrong, "main"]);
    assert!(text.contains("Authentication failed"), "{text}");
    assert_eq!(git::refs(&server.path("x.git")), "");
    work.git(&["push", "-q", &server.url_as("ann", "secret", "x.git"), "main"]);
    work.git(&["fetch", "-q", "origin"]);
    let log = server.wait_for_log("verdict=\"ok\"");
    assert!(log.contains("user=\"ann\""), "{log}");
}

#[test]
fn a_large_push_with_credentials_is_not_packed_in_vain() {
    let server = server();
    let work = Work::with_commit(&server, "x.git");
    let id = work.commit("big", noise(3 << 20, 9));
    work.git(&["push", "-q", &server.url_as("ann", "secret", "x.git"), "main"]);
    assert_eq!(git::run(&server.path("x.git"), &["rev-parse", "main"]), id);
}

#[test]
fn a_credential_helper_is_asked_once_and_told_that_it_was_right() {
    let server = server();
    let work = Work::with_commit(&server, "x.git");
    work.commit("big", noise(3 << 20, 11));
    let told = work.path.join("../told");
    let helper = format!(
        "!f() {{ echo \"$1\" >> '{}'; test \"$1\" = get && printf 'username=ann\\npassword=secret\\n'; \
         cat > /dev/null; }}; f",
        told.display()
    );
    work.git(&["config", "credential.helper", &helper]);
    work.git(&["push", "-q", "origin", "main"]);
    let told = std::fs::read_to_string(told).unwrap();
    assert_eq!(told.matches("get").count(), 1, "{told}");
    assert!(!told.contains("erase"), "{told}");
}

#[test]
fn a_refusal_says_why() {
    let server = server();
    git::run(&server.path("x.git"), &["config", "http.receivepack", "false"]);
    let work = Work::with_commit(&server, "x.git");
    let text = work.failing(&["push", &server.url_as("ann", "secret", "x.git"), "main"]);
    assert!(text.contains("remote: this repository takes no pushes over HTTP"), "{text}");
    let text = work.failing(&["push", &server.url_as("ann", "secret", "none.git"), "main"]);
    assert!(text.contains("remote: repository not found"), "{text}");
}
