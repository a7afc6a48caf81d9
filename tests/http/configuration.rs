//! Settings from flags, the environment and a file, as the running server understands them.

use super::raw::Request;
use super::server::Server;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a server that must refuse to; gives what it says.
fn refused(
    prepare: impl FnOnce(&Path),
    configure: impl FnOnce(&mut Command) -> &mut Command,
) -> String {
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path());
    let mut command = Server::command(directory.path());
    configure(&mut command);
    let output = command.stdout(Stdio::piped()).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{text}");
    assert!(!text.contains("listening"), "{text}");
    text
}

fn flags(flags: &[&str]) -> String {
    refused(|_| {}, |command| command.args(flags))
}

#[test]
fn an_address_that_others_reach_needs_a_rule_said_aloud() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let text = flags(&["--listen", address]);
        assert!(text.contains("refusing to listen") && text.contains("'anonymous'"), "{text}");
    }
    let directory = tempfile::tempdir().unwrap();
    let mut command = Server::command(directory.path());
    command.args(["--listen=0.0.0.0:0", "--anonymous=read"]);
    let server = Server::begin(command, directory);
    server.wait_for_log("anybody may fetch and nobody may push");
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file() {
    let started = |flag: Option<&str>, variable: Option<&str>, file: &str| {
        let directory = tempfile::tempdir().unwrap();
        let settings = directory.path().join("settings.toml");
        fs::write(&settings, file).unwrap();
        let mut command = Server::command(directory.path());
        command.args(["--config=settings.toml", "--listen=127.0.0.1:0"]);
        if let Some(value) = variable {
            command.env("PACKHOUSE_ANONYMOUS", value);
        }
        if let Some(value) = flag {
            command.arg(format!("--anonymous={value}"));
        }
        let server = Server::begin(command, directory);
        server.init("x.git");
        let push = Request::discovery("/x.git").send(&server).status;
        let fetch = Request::get("/x.git/info/refs?service=git-upload-pack").send(&server).status;
        (push, fetch)
    };
    let file = "root = 'repos'\nanonymous = 'none'\n";
    assert_eq!(started(None, None, file), (403, 403));
    assert_eq!(started(None, Some("read"), file), (403, 200));
    assert_eq!(started(Some("write"), Some("read"), file), (200, 200));
    assert_eq!(started(None, None, "root = 'repos'\n"), (200, 200));
}

#[test]
fn a_mistake_is_named_by_its_key() {
    let file = |text: &str| {
        refused(
            |directory| fs::write(directory.join("settings.toml"), text).unwrap(),
            |command| command.env("PACKHOUSE_CONFIG", "settings.toml"),
        )
    };
    assert!(file("anonymus = 'read'").contains("unknown field `anonymus`"));
    assert!(file("anonymous = 'all'").contains("anonymous = 'all'"));
    assert!(file("limits = { x = 1 }").contains("there is no limit 'x'"));
    assert!(file("htpasswd = 'none'").contains("cannot read password file"));
    let variable = refused(|_| {}, |command| command.env("PACKHOUSE_UNPACK_LIMIT", "many"));
    assert!(variable.contains("--unpack-limit"), "{variable}");
    assert!(flags(&["--durability=some"]).contains("--durability"));
    assert!(flags(&["--tls-cert=x"]).contains("tls_key"));
}

#[test]
fn a_password_of_another_scheme_is_refused_by_name() {
    let text = refused(
        |directory| {
            fs::write(directory.join("users"), "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n").unwrap();
        },
        |command| command.arg("--htpasswd=users"),
    );
    assert!(text.contains("'users', line 1: the password of user 'ann'"), "{text}");
    assert!(text.contains("is of scheme SHA-1; permitted are bcrypt, argon2"), "{text}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let server = Server::start();
    let text = flags(&["--listen", server.address()]);
    assert!(text.contains(&format!("cannot listen on {}", server.address())), "{text}");
}

#[test]
fn the_log_is_json_if_asked_for() {
    let server = Server::with(&["--log-format=json", "--anonymous=none"]);
    server.init("x.git");
    let log = server.log();
    let line = log.lines().next().unwrap();
    assert!(line.starts_with('{') && line.contains("\"url\":\"http://127.0.0.1:"), "{line}");
}
