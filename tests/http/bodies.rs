//! Bodies of pushes: coded, split, broken, withheld.

use super::raw::{Connection, PUSH_RESULT_TYPE, PUSH_TYPE, Request};
use super::server::Server;
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO};
use crate::support::request::Request as Push;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

fn server() -> Server {
    let server = Server::open();
    server.init("x.git");
    server
}

/// A push that creates `name`.
fn push(name: &str) -> Vec<u8> {
    let snapshot = Snapshot::new("content", &[]);
    Push::new().command(ZERO, &snapshot.id(), name).pack(snapshot.pack()).bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn assert_pushed(server: &Server, request: &Request, name: &str) {
    let response = request.send(server);
    Answer::from_bands(response.good(PUSH_RESULT_TYPE)).assert_all_ok();
    assert!(git::refs(&server.path("x.git")).contains(name), "{name}");
}

fn hook(repository: &Path, name: &str, script: &str) {
    let path = repository.join("hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_push_may_be_chunked_at_every_split() {
    let server = server();
    let body = push("refs/heads/chunked");
    for first in (1..body.len()).step_by(7) {
        let name = format!("refs/heads/at-{first}");
        let body = push(&name);
        let request = Request::push("/x.git", "").chunked(&body, &[first, body.len()]);
        assert_pushed(&server, &request, &name);
    }
    let request = Request::push("/x.git", "").chunked(&body, &[1, 3, 5, 1000]);
    assert_pushed(&server, &request, "refs/heads/chunked");
    let name = "refs/heads/bytes";
    let request = Request::push("/x.git", "").chunked(&push(name), &[1]);
    assert_pushed(&server, &request, name);
}

#[test]
fn a_push_may_be_packed_with_gzip_by_either_name_and_in_chunks() {
    let server = server();
    for coding in ["gzip", "x-gzip"] {
        for chunked in [false, true] {
            let name = format!("refs/heads/{coding}-{chunked}");
            let body = gzip(&push(&name));
            let request = Request::push("/x.git", body.clone()).header("Content-Encoding", coding);
            let request = if chunked { request.chunked(&body, &[1, 10, 7]) } else { request };
            assert_pushed(&server, &request, &name);
        }
    }
}

#[test]
fn a_gzip_body_that_is_not_whole_moves_nothing() {
    let server = server();
    let body = gzip(&push("refs/heads/main"));
    let mut behind = body.clone();
    behind.extend_from_slice(b"0000");
    let mut damaged = body.clone();
    let crc = damaged.len() - 6;
    damaged[crc] ^= 1;
    let mut broken = vec![behind, damaged];
    broken.extend((0..body.len()).step_by(11).map(|length| body[..length].to_vec()));
    for body in broken {
        let request = Request::push("/x.git", body).header("Content-Encoding", "gzip");
        let response = request.send(&server);
        if response.status == 200 {
            let answer = Answer::from_bands(&response.body);
            assert!(answer.of("refs/heads/main").starts_with("ng "), "{answer:?}");
        } else {
            response.assert_refused(400);
        }
        assert_eq!(git::refs(&server.path("x.git")), "");
    }
}

#[test]
fn other_codings_and_types_are_refused_and_named() {
    let server = server();
    for coding in ["br", "deflate", "gzip, gzip"] {
        let request = Request::push("/x.git", "0000").header("Content-Encoding", coding);
        let response = request.send(&server);
        response.assert_refused(415);
        assert!(response.text().contains(coding), "{response:?}");
    }
    let untyped = Request::new("POST", "/x.git/git-receive-pack").body("0000");
    let typed = |media_type: &str| untyped.clone().header("Content-Type", media_type);
    let with_parameter = format!("{PUSH_TYPE}; charset=utf-8");
    for request in [untyped.clone(), typed("text/plain"), typed(&with_parameter)] {
        let response = request.send(&server);
        response.assert_refused(415);
        assert!(response.text().contains(PUSH_TYPE), "{response:?}");
    }
}

#[test]
fn the_probe_of_four_bytes_is_answered_and_leaves_no_trace() {
    let server = Server::start();
    for request in
        [Request::push("/new.git", "0000"), Request::push("/new.git", "").chunked(b"0000", &[1])]
    {
        assert_eq!(request.send(&server).good(PUSH_RESULT_TYPE), b"");
    }
    assert!(!server.path("new.git").exists());
    Request::discovery("/new.git")
        .send(&server)
        .good("application/x-git-receive-pack-advertisement");
    assert!(!server.path("new.git").exists());
}

#[test]
fn a_deletion_is_answered_without_a_pack() {
    let server = server();
    let id = Snapshot::new("content", &[]).id();
    let request = Request::push("/x.git", push("refs/heads/old"));
    assert_pushed(&server, &request, "refs/heads/old");
    let body = Push::new().command(&id, ZERO, "refs/heads/old").bytes();
    let response = Request::push("/x.git", body).send(&server);
    let answer = Answer::from_bands(response.good(PUSH_RESULT_TYPE));
    assert_eq!(answer.report, ["unpack ok", "ok refs/heads/old"]);
    assert_eq!(git::refs(&server.path("x.git")), "");
}

#[test]
fn what_is_no_push_is_a_bad_request_in_words() {
    let server = server();
    let snapshot = Snapshot::new("content", &[]);
    let sha256 = Push::new()
        .capabilities("report-status object-format=sha256")
        .command(ZERO, &snapshot.id(), "refs/heads/main")
        .bytes();
    for body in [&b""[..], b"garbage", b"zzzz", b"0005", b"0009hello0000", b"000", &sha256] {
        let response = Request::push("/x.git", body).send(&server);
        response.assert_refused(400);
    }
    assert_eq!(git::refs(&server.path("x.git")), "");
}

#[test]
fn a_client_that_waits_for_leave_to_send_gets_it_only_if_it_may_push() {
    let server = Server::with_users(&[("ann", "secret")], &[]);
    server.init("x.git");
    let body = push("refs/heads/main");
    let expecting = Request::push("/x.git", body.clone()).header("Expect", "100-continue");

    let good = expecting.clone().user("ann", "secret");
    let mut connection = Connection::open(&server);
    connection.write(&good.head(server.address())).unwrap();
    assert_eq!(connection.response_head().status, 100);
    connection.write(&body).unwrap();
    let answer = Answer::from_bands(connection.response(false).good(PUSH_RESULT_TYPE));
    answer.assert_all_ok();

    for bad in [expecting.clone(), expecting.user("ann", "wrong")] {
        let mut connection = Connection::open(&server);
        connection.write(&bad.head(server.address())).unwrap();
        let response = connection.response(false);
        response.assert_refused(401);
    }
}

#[test]
fn a_client_of_http_1_0_is_served_without_a_hundred_or_chunks() {
    let server = server();
    let request = Request::push("/x.git", push("refs/heads/main"))
        .version("HTTP/1.0")
        .header("Expect", "100-continue");
    let response = request.send(&server);
    assert_eq!(response.header("transfer-encoding"), "");
    Answer::from_bands(response.good(PUSH_RESULT_TYPE)).assert_all_ok();
}

#[test]
fn a_refused_push_gets_its_answer_however_much_it_still_wants_to_send() {
    let server = server();
    git::run(&server.path("x.git"), &["config", "http.receivepack", "false"]);
    // One that sends everything before it reads.
    let response = Request::push("/x.git", vec![b'x'; 12 << 20]).send(&server);
    response.assert_refused(403);
    let response = Request::push("/x.git", "").chunked(&vec![b'x'; 12 << 20], &[1 << 16]);
    response.send(&server).assert_refused(403);
}

#[test]
fn a_connection_lives_on_after_a_refusal() {
    let server = server();
    let mut connection = Connection::open(&server);
    for status in [403, 404, 415] {
        let request = match status {
            403 => Request::get("/x.git/info/refs?service=evil"),
            404 => Request::push("/none.git", "0000"),
            _ => Request::new("POST", "/x.git/git-receive-pack").body("0000"),
        };
        connection.write(&request.head(server.address())).unwrap();
        connection.write(&request.wire_body().concat()).unwrap();
        connection.response(false).assert_refused(status);
    }
    let request = Request::push("/x.git", push("refs/heads/main"));
    connection.write(&request.head(server.address())).unwrap();
    connection.write(&request.wire_body().concat()).unwrap();
    Answer::from_bands(connection.response(false).good(PUSH_RESULT_TYPE)).assert_all_ok();
}

#[test]
fn a_client_that_goes_away_moves_nothing_and_leaves_nothing() {
    let server = server();
    let before = git::object_files(&server.path("x.git"));
    let body = push("refs/heads/main");
    for length in [0, 4, 60, 150, body.len() - 30, body.len() - 1] {
        let request = Request::push("/x.git", body.clone());
        let mut connection = Connection::open(&server);
        connection.write(&request.head(server.address())).unwrap();
        connection.write(&body[..length]).unwrap();
        connection.finish_writing();
        drop(connection);
    }
    let text = server.wait_for_log("disconnected");
    assert!(!text.contains("ERROR"), "{text}");
    // Something later on the same repository goes well.
    assert_pushed(&server, &Request::push("/x.git", push("refs/heads/b")), "refs/heads/b");
    assert!(!git::refs(&server.path("x.git")).contains("refs/heads/main"));
    let left = git::object_files(&server.path("x.git"));
    let temporary = left.iter().filter(|name| name.contains("tmp_")).count();
    assert_eq!(temporary, 0, "{before:?} {left:?}");
}

#[test]
fn a_body_that_pauses_is_waited_for_and_one_that_stops_is_given_up() {
    let server = Server::with(&["--anonymous=write", "--idle-timeout=3"]);
    server.init("x.git");
    let body = push("refs/heads/main");
    let request = Request::push("/x.git", "").chunked(&body, &[100, 100, 100, 100, 1000]);
    let mut connection = Connection::open(&server);
    connection.write(&request.head(server.address())).unwrap();
    for piece in request.wire_body() {
        std::thread::sleep(Duration::from_millis(900));
        connection.write(&piece).unwrap();
    }
    Answer::from_bands(connection.response(false).good(PUSH_RESULT_TYPE)).assert_all_ok();

    let mut stuck: Vec<_> = (0..20)
        .map(|_| {
            let mut connection = Connection::open(&server);
            connection.write(&request.head(server.address())).unwrap();
            connection.write(&request.wire_body()[0][..10]).unwrap();
            connection
        })
        .collect();
    let started = Instant::now();
    assert_pushed(&server, &Request::push("/x.git", push("refs/heads/b")), "refs/heads/b");
    assert!(started.elapsed() < Duration::from_secs(3));
    for connection in &mut stuck {
        let response = connection.response(false);
        response.assert_refused(400);
    }
}

#[test]
fn the_answer_begins_while_a_hook_runs() {
    let server = server();
    let go = server.directory().join("go");
    let wait = format!("until test -e '{}'; do sleep 0.05; done", go.display());
    hook(&server.path("x.git"), "pre-receive", &wait);
    let request = Request::push("/x.git", push("refs/heads/main"));
    let mut connection = Connection::open(&server);
    connection.write(&request.head(server.address())).unwrap();
    connection.write(&request.wire_body().concat()).unwrap();
    let head = connection.response_head();
    assert_eq!(head.status, 200);
    fs::write(go, "").unwrap();
    Answer::from_bands(&connection.body(&head).unwrap()).assert_all_ok();
}

#[test]
fn pushes_over_the_limit_are_told_it_by_name() {
    let server = Server::with(&["--anonymous=write", "--limits=command_bytes_max=200"]);
    server.init("x.git");
    let mut body = Push::new();
    for number in 0..10 {
        let id = Snapshot::new("content", &[]).id();
        body = body.command(ZERO, &id, format!("refs/heads/{number}"));
    }
    let response = Request::push("/x.git", body.bytes()).send(&server);
    response.assert_refused(413);
    assert!(response.text().contains("'command_bytes_max' of 200 bytes"), "{response:?}");
}
