//! A server that runs out of something, and what its clients read of it.

use super::raw::{Connection, PUSH_RESULT_TYPE, Request};
use super::server::Server;
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO, blob, entry, noise as noise_of, pack};
use crate::support::request::Request as Push;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

fn push_of(snapshot: &Snapshot, name: &str, noise: usize) -> Vec<u8> {
    let entries =
        [&snapshot.blob, &snapshot.tree, &snapshot.commit, &blob(noise_of(noise))].map(entry);
    Push::new().command(ZERO, &snapshot.id(), name).pack(pack(&entries)).bytes()
}

fn quarantines(repository: &Path) -> usize {
    let entries = fs::read_dir(repository.join("objects")).unwrap();
    entries
        .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("tmp_"))
        .count()
}

#[test]
fn a_file_past_the_limit_fails_its_push_and_not_the_server() {
    let mut server = Server::limited("-f 400", &["--anonymous=write"]);
    let snapshot = Snapshot::new("content", &[]);
    for (name, limit) in [("loose.git", "100"), ("kept.git", "1")] {
        let repository = server.init(name);
        git::run(&repository, &["config", "receive.unpackLimit", limit]);
        let body = push_of(&snapshot, "refs/heads/large", 2 << 20);
        let response = Request::push(&format!("/{name}"), body).send(&server);
        let answer = Answer::from_bands(response.good(PUSH_RESULT_TYPE));
        assert_eq!(answer.report[0], "unpack file too large for the server's limit");
        assert_eq!(quarantines(&repository), 0);
        let body = push_of(&snapshot, "refs/heads/small", 10);
        let response = Request::push(&format!("/{name}"), body).send(&server);
        Answer::from_bands(response.good(PUSH_RESULT_TYPE)).assert_all_ok();
        git::assert_sound(&repository);
    }
    server.assert_alive();
}

#[test]
fn hooks_die_of_the_file_size_limit_as_ever() {
    let server = Server::limited("-f 400", &["--anonymous=write"]);
    let repository = server.init("x.git");
    let hook = repository.join("hooks/post-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let script = "#!/bin/sh\n(dd if=/dev/zero of=large bs=1024 count=2000 2>/dev/null)\necho $?\n";
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let body = push_of(&Snapshot::new("content", &[]), "refs/heads/main", 10);
    let response = Request::push("/x.git", body).send(&server);
    let answer = Answer::from_bands(response.good(PUSH_RESULT_TYPE));
    // 128 and SIGXFSZ.
    assert!(answer.messages.contains("153"), "{answer:?}");
}

#[test]
fn without_descriptors_a_repository_is_not_absent() {
    let mut server = Server::limited("-n 48", &["--anonymous=write"]);
    server.wait_for_log("taking on less at once");
    let repository = server.init("x.git");
    let snapshot = Snapshot::new("content", &[]);
    let mut idle = Vec::new();
    let mut refused = 0;
    for number in 0..23 {
        idle.push(Connection::open(&server));
        std::thread::sleep(Duration::from_millis(5));
        let response = Request::discovery("/x.git").send(&server);
        assert!(matches!(response.status, 200 | 500 | 503), "{number}: {}", response.status);
        let body = push_of(&snapshot, &format!("refs/heads/b{number}"), 10);
        let response = Request::push("/x.git", body).send(&server);
        assert!(matches!(response.status, 200 | 500 | 503), "{number}: {}", response.status);
        refused += usize::from(response.status == 503);
        if response.status == 503 {
            assert!(response.text().contains("try again later"), "{}", response.text());
        }
    }
    drop(idle);
    server.assert_alive();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let body = push_of(&snapshot, "refs/heads/after", 10);
        let response = Request::push("/x.git", body).send(&server);
        if response.status == 200 {
            break;
        }
        assert!(Instant::now() < deadline, "{refused} refused, and still");
        std::thread::sleep(Duration::from_millis(100));
    }
    while quarantines(&repository) > 0 {
        assert!(Instant::now() < deadline, "quarantines stay");
        std::thread::sleep(Duration::from_millis(100));
    }
    git::assert_sound(&repository);
}

#[test]
fn a_damaged_content_coding_is_named() {
    let server = Server::open();
    server.init("x.git");
    let body = push_of(&Snapshot::new("content", &[]), "refs/heads/main", 10);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&body).unwrap();
    let good = encoder.finish().unwrap();
    let mut bad_sum = good.clone();
    let sum = bad_sum.len() - 6;
    bad_sum[sum] ^= 1;
    let damaged =
        [&good[..good.len() - 9], &bad_sum, b"no gzip at all", &[&good[..], b"x"].concat()];
    for damaged in damaged {
        let request = Request::push("/x.git", damaged.to_vec()).header("Content-Encoding", "gzip");
        let response = request.send(&server);
        let words = "the gzip coding of the request is damaged: ";
        let told = if response.status == 200 {
            let answer = Answer::from_bands(response.good(PUSH_RESULT_TYPE));
            answer.report[0].replacen("unpack ", "", 1)
        } else {
            assert_eq!(response.status, 400);
            response.text()
        };
        assert!(told.starts_with(words), "{told}");
    }
    assert_eq!(git::refs(&server.path("x.git")), "");
}

#[test]
fn a_transfer_coding_that_nobody_takes_off_is_refused() {
    let server = Server::open();
    server.init("x.git");
    let body = push_of(&Snapshot::new("content", &[]), "refs/heads/main", 10);
    let mut connection = Connection::open(&server);
    let head = format!(
        "POST /x.git/git-receive-pack HTTP/1.1\r\nHost: {}\r\n\
         Content-Type: application/x-git-receive-pack-request\r\n\
         Transfer-Encoding: gzip, chunked\r\n\r\n{:x}\r\n",
        server.address(),
        body.len()
    );
    connection.write(&[head.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat()).unwrap();
    let response = connection.response(false);
    assert_eq!(response.status, 415);
    assert!(response.text().contains("unsupported transfer coding 'gzip'"), "{}", response.text());
    assert_eq!(git::refs(&server.path("x.git")), "");
}

#[test]
fn where_no_repository_can_be_made_both_requests_say_so_without_a_path() {
    let server = Server::start();
    server.init("tree/.git");
    server.init("team.git/sub.git");
    for (place, words) in [
        ("/tree/new.git", "repository not found\n"),
        ("/team.git", "repositories lie below this path\n"),
        ("/team.git/sub.git/new.git", "repository not found\n"),
    ] {
        let body = push_of(&Snapshot::new("content", &[]), "refs/heads/main", 10);
        for request in [Request::discovery(place), Request::push(place, body)] {
            let response = request.send(&server);
            assert_eq!(response.status, 404, "{place}");
            let text = response.text();
            assert!(text.ends_with(words), "{place}: {text}");
            assert!(!text.contains(&*server.directory().to_string_lossy()), "{text}");
        }
    }
}
