//! The beginning and the end of a server, and the limits in between.

use super::raw::{Connection, FETCH_TYPE, PUSH_RESULT_TYPE, Request};
use super::server::Server;
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO};
use crate::support::request::Request as Push;
use rustix::process::Signal;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

fn push(name: &str) -> Request {
    let snapshot = Snapshot::new("content", &[]);
    let push = Push::new().command(ZERO, &snapshot.id(), name).pack(snapshot.pack());
    Request::push("/x.git", push.bytes())
}

fn begin(server: &Server, request: &Request) -> Connection {
    let mut connection = Connection::open(server);
    connection.write(&request.head(server.address())).unwrap();
    connection.write(&request.wire_body().concat()).unwrap();
    connection
}

/// A hook that tells that it runs by making a file `running` beside the repositories, and waits
/// until there is one called `go`.
fn waiting_hook(server: &Server, name: &str) {
    let path = server.path("x.git").join("hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (running, go) = (server.directory().join("running"), server.directory().join("go"));
    let script = format!(
        "#!/bin/sh\ntouch '{}'\nuntil test -e '{}'; do sleep 0.05; done\n",
        running.display(),
        go.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn wait_for(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !path.exists() {
        assert!(Instant::now() < deadline, "'{}' does not appear", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_idle_server_ends_at_once_with_status_zero() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start();
        let _idle = Connection::open(&server);
        server.signal(signal);
        let started = Instant::now();
        let (status, log) = server.wait();
        assert!(status.success(), "{log}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn a_running_push_ends_well_before_the_server_does() {
    for hook in ["pre-receive", "post-receive"] {
        let server = Server::open();
        server.init("x.git");
        waiting_hook(&server, hook);
        let mut connection = begin(&server, &push("refs/heads/main"));
        wait_for(&server.directory().join("running"));
        server.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(200));
        assert!(TcpStream::connect(server.address()).is_err(), "it still listens");
        fs::write(server.directory().join("go"), "").unwrap();
        Answer::from_bands(connection.response(false).good(PUSH_RESULT_TYPE)).assert_all_ok();
        assert!(git::refs(&server.path("x.git")).contains("refs/heads/main"));
        assert!(server.wait().0.success());
    }
}

#[test]
fn a_push_that_has_not_come_to_its_commit_is_stopped_after_the_grace() {
    let server = Server::with(&["--anonymous=write", "--shutdown-grace=1"]);
    server.init("x.git");
    let request = push("refs/heads/main");
    let body = request.wire_body().concat();
    let mut connection = Connection::open(&server);
    connection.write(&request.head(server.address())).unwrap();
    connection.write(&body[..body.len() - 20]).unwrap();
    // It is being read.
    std::thread::sleep(Duration::from_millis(300));
    server.signal(Signal::TERM);
    let directory = server.path("x.git");
    let started = Instant::now();
    connection.patience(Duration::from_secs(10));
    let head = connection.response_head();
    drop(connection.body(&head));
    assert!(started.elapsed() >= Duration::from_millis(800), "{:?}", started.elapsed());
    assert_eq!(git::refs(&directory), "");
    let left = git::object_files(&directory);
    assert!(!left.iter().any(|name| name.contains("tmp_")), "{left:?}");
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
    assert!(started.elapsed() < Duration::from_secs(8));
}

#[test]
fn a_client_that_goes_away_while_a_hook_runs_leaves_nothing_in_the_way_of_the_next() {
    for hook in ["pre-receive", "update", "post-receive"] {
        let server = Server::open();
        server.init("x.git");
        waiting_hook(&server, hook);
        let gone = begin(&server, &push("refs/heads/main"));
        wait_for(&server.directory().join("running"));
        drop(gone);
        let other = if hook == "post-receive" { "refs/heads/other" } else { "refs/heads/main" };
        fs::write(server.directory().join("go"), "").unwrap();
        server.wait_for_log("packhouse::push");
        let old = git::refs(&server.path("x.git"));
        if hook != "post-receive" && old.contains("refs/heads/main") {
            git::run(&server.path("x.git"), &["update-ref", "-d", "refs/heads/main"]);
        }
        let answer = push(other).send(&server);
        Answer::from_bands(answer.good(PUSH_RESULT_TYPE)).assert_all_ok();
        let left = git::object_files(&server.path("x.git"));
        let in_the_way = |name: &&String| name.contains("tmp_") || name.ends_with(".lock");
        assert!(!left.iter().any(|name| in_the_way(&name)), "{hook} {left:?}");
    }
}

#[test]
fn half_a_header_is_not_waited_for() {
    let server = Server::with(&["--header-timeout=1"]);
    for bytes in [&b""[..], b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "] {
        let mut connection = Connection::open(&server);
        connection.patience(Duration::from_secs(10));
        connection.write(bytes).unwrap();
        let started = Instant::now();
        while !connection.is_closed() {
            // Some answer with a 408 first.
            connection.response_head();
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{}", bytes.escape_ascii());
    }
}

#[test]
fn headers_without_end_are_refused() {
    let mut server = Server::start();
    let mut connection = Connection::open(&server);
    let line = format!("X-Header: {}\r\n", "x".repeat(1000));
    drop(connection.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n"));
    let mut refused = false;
    for _ in 0..10_000 {
        if connection.write(line.as_bytes()).is_err() {
            refused = true;
            break;
        }
    }
    assert!(refused);
    let mut request = Request::get("/");
    for number in 0..200 {
        request = request.header(&format!("X-{number}"), "y");
    }
    assert_eq!(request.send(&server).status, 431);
    server.assert_alive();
}

#[test]
fn connections_past_the_limit_wait_for_their_turn() {
    let server = Server::with(&["--connections-max=2"]);
    let first = Connection::open(&server);
    let _second = Connection::open(&server);
    let mut third = Connection::open(&server);
    third.write(&Request::get("/").head(server.address())).unwrap();
    third.patience(Duration::from_millis(300));
    assert!(!third.is_closed());
    drop(first);
    third.patience(Duration::from_secs(20));
    third.response(false).assert_refused(404);
}

#[test]
fn pushes_past_the_limit_wait_for_their_turn() {
    let server = Server::with(&["--anonymous=write", "--push-concurrency=1"]);
    server.init("x.git");
    waiting_hook(&server, "pre-receive");
    let mut first = begin(&server, &push("refs/heads/first"));
    wait_for(&server.directory().join("running"));
    let mut second = begin(&server, &push("refs/heads/second"));
    // Discovery goes on beside them.
    assert_eq!(Request::discovery("/x.git").send(&server).status, 200);
    second.patience(Duration::from_millis(300));
    assert!(!second.has_answer());
    fs::write(server.directory().join("go"), "").unwrap();
    second.patience(Duration::from_secs(30));
    for connection in [&mut first, &mut second] {
        Answer::from_bands(connection.response(false).good(PUSH_RESULT_TYPE)).assert_all_ok();
    }
}

#[test]
fn clients_that_send_little_and_stop_hold_nobody_up() {
    let flags = ["--anonymous=write", "--push-concurrency=1", "--upload-pack-concurrency=1"];
    let server = Server::with(&flags);
    server.init("x.git");
    let request = push("refs/heads/main");
    let fetch = Request::new("POST", "/x.git/git-upload-pack")
        .header("Content-Type", FETCH_TYPE)
        .body(vec![b'0'; 100]);
    let _stuck: Vec<_> = (0..200)
        .map(|number| {
            let request = if number % 2 == 0 { &request } else { &fetch };
            let mut connection = Connection::open(&server);
            connection.write(&request.head(server.address())).unwrap();
            connection.write(&request.wire_body().concat()[..10]).unwrap();
            connection
        })
        .collect();
    let started = Instant::now();
    Answer::from_bands(request.send(&server).good(PUSH_RESULT_TYPE)).assert_all_ok();
    let url = "/x.git/info/refs?service=git-upload-pack";
    assert!(Request::get(url).send(&server).text().contains("refs/heads/main"));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn a_push_leaves_one_line_in_the_log() {
    let server = Server::with_users(&[("ann", "secret")], &[]);
    server.init("x.git");
    let request = push("refs/heads/main").user("ann", "secret");
    assert_eq!(request.send(&server).status, 200);
    let log = server.wait_for_log("packhouse::push");
    let lines: Vec<_> = log.lines().filter(|line| line.contains("packhouse::push")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    for part in ["repository=\"x.git\"", "user=\"ann\"", "done=1", "rejected=0", "verdict=\"ok\""] {
        assert!(lines[0].contains(part), "{log}");
    }
    assert!(!log.contains("secret"));
}

#[test]
fn a_thousand_repositories_do_not_delay_the_start() {
    let started = Instant::now();
    let server = Server::prepared(
        |directory| {
            let first = directory.join("repos/0.git");
            fs::create_dir_all(first.parent().unwrap()).unwrap();
            git::init_bare(&first);
            for number in 1..300 {
                copy(&first, &directory.join(format!("repos/group/{number}.git")));
            }
        },
        &[],
    );
    assert_eq!(Request::discovery("/group/299").send(&server).status, 200);
    assert!(started.elapsed() < Duration::from_secs(20));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            if entry.file_name() != "hooks" {
                copy(&entry.path(), &target);
            }
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn the_packets_of_all_pushes_are_traced_if_that_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let mut command = Server::command(directory.path());
    command.args(["--root=repos", "--listen=127.0.0.1:0", "--anonymous=write"]);
    command.env("GIT_TRACE_PACKET", &trace).env("GIT_TRACE_BARE", "1");
    let server = Server::begin(command, directory);
    server.init("x.git");
    let advertised = Request::get("/x.git/info/refs?service=git-receive-pack").send(&server);
    assert_eq!(advertised.status, 200);
    assert_eq!(push("refs/heads/main").send(&server).status, 200);
    let text = fs::read_to_string(trace).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("receive-pack> 00000000"), "{text}");
    for line in
        ["receive-pack< 0000", "receive-pack> unpack ok", "receive-pack> ok refs/heads/main"]
    {
        assert!(lines.contains(&format!("packet: {line}").as_str()), "{text}");
    }
}
