//! Fetching by hand: what is handed to `git upload-pack`, and what is not.

use super::raw::{Connection, FETCH_TYPE, Request};
use super::server::Server;
use crate::push::work::noise;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO};
use crate::support::request::{Request as Push, pkt};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";
const RESULT: &str = "application/x-git-upload-pack-result";

fn server() -> (Server, Snapshot) {
    server_with(&[])
}

fn server_with(flags: &[&str]) -> (Server, Snapshot) {
    let server = Server::with(&[&["--anonymous=write"], flags].concat());
    server.init("x.git");
    let snapshot = Snapshot::new("content", &[]);
    let push = Push::new().command(ZERO, &snapshot.id(), "refs/heads/main").pack(snapshot.pack());
    assert_eq!(Request::push("/x.git", push.bytes()).send(&server).status, 200);
    (server, snapshot)
}

fn discovery() -> Request {
    Request::get("/x.git/info/refs?service=git-upload-pack")
}

fn fetch(body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", "/x.git/git-upload-pack").header("Content-Type", FETCH_TYPE).body(body)
}

/// A whole clone in one request.
fn clone(id: &str) -> Vec<u8> {
    let want = format!("want {id} side-band-64k agent=probe\n");
    [pkt(want.as_bytes()), b"0000".to_vec(), pkt(b"done\n")].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn the_preamble_comes_before_the_old_protocols_and_not_before_version_two() {
    let (server, snapshot) = server();
    let old = discovery().send(&server);
    let text = String::from_utf8_lossy(old.good(ADVERTISEMENT)).into_owned();
    assert!(text.starts_with("001e# service=git-upload-pack\n0000"), "{text}");
    assert!(text.contains(&format!("{} refs/heads/main", snapshot.id())), "{text}");
    let one = discovery().header("Git-Protocol", "version=1").send(&server);
    assert!(one.text().starts_with("001e# service=git-upload-pack\n0000000eversion 1\n"));
    let two = discovery().header("Git-Protocol", "version=2").send(&server);
    assert!(two.good(ADVERTISEMENT).starts_with(b"000eversion 2\n"), "{}", two.text());
}

#[test]
fn a_pack_is_streamed_back_however_the_request_is_coded() {
    let (server, snapshot) = server();
    let body = clone(&snapshot.id());
    for request in [
        fetch(body.clone()),
        fetch("").chunked(&body, &[1, 3, 50]),
        fetch(gzip(&body)).header("Content-Encoding", "gzip"),
        fetch(gzip(&body)).header("Content-Encoding", "x-gzip"),
    ] {
        let response = request.send(&server);
        let bytes = response.good(RESULT);
        assert!(bytes.windows(4).any(|window| window == b"PACK"), "{}", response.text());
    }
}

#[test]
fn a_flush_alone_is_answered_with_nothing() {
    let (server, _) = server();
    assert_eq!(fetch("0000").send(&server).good(RESULT), b"");
}

#[test]
fn other_types_and_codings_are_refused() {
    let (server, _) = server();
    let request = Request::new("POST", "/x.git/git-upload-pack").body("0000");
    let response = request.clone().header("Content-Type", "text/plain").send(&server);
    response.assert_refused(415);
    assert!(response.text().contains(FETCH_TYPE));
    request.send(&server).assert_refused(415);
    fetch("0000").header("Content-Encoding", "br").send(&server).assert_refused(415);
}

#[test]
fn a_broken_request_is_no_success() {
    let (server, snapshot) = server();
    let packed = gzip(&clone(&snapshot.id()));
    let truncated = fetch(&packed[..packed.len() / 2]).header("Content-Encoding", "gzip");
    truncated.send(&server).assert_refused(400);
    fetch("garbage").send(&server).assert_refused(400);
    let unknown = fetch(clone(&"1".repeat(40))).send(&server);
    assert!(unknown.text().contains("not our ref"), "{}", unknown.text());
}

#[test]
fn a_request_that_inflates_past_the_limit_is_cut_off() {
    let (server, snapshot) = server_with(&["--limits=fetch_request_bytes_max=1m"]);
    // Nothing that the process would stop at.
    let bomb = gzip(&pkt(format!("want {}\n", snapshot.id()).as_bytes()).repeat(1 << 20));
    assert!(bomb.len() < 1 << 20);
    let response = fetch(bomb).header("Content-Encoding", "gzip").send(&server);
    response.assert_refused(400);
}

#[test]
fn the_process_ends_when_the_client_goes() {
    let (server, _) = server();
    // A pack that does not fit the buffers in between.
    let noise = noise(64 << 20, 5);
    let blob =
        git::run_with_input(&server.path("x.git"), &["hash-object", "-w", "--stdin"], &noise);
    let blob = String::from_utf8(blob).unwrap();
    git::run(&server.path("x.git"), &["update-ref", "refs/tags/noise", blob.trim()]);
    let request = fetch(clone(blob.trim()));
    let mut connection = Connection::open(&server);
    connection.write(&request.head(server.address())).unwrap();
    connection.write(&request.wire_body().concat()).unwrap();
    assert_eq!(connection.response_head().status, 200);
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_running(&server.path("x.git")));
    drop(connection);
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_running(&server.path("x.git")) {
        assert!(Instant::now() < deadline, "git upload-pack lives on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process was started with the path among its arguments.
fn is_running(path: &Path) -> bool {
    let path = path.canonicalize().unwrap();
    let wanted = path.to_str().unwrap().as_bytes();
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == wanted)
    })
}
