//! Requests that are none.

use super::scene;
use crate::support::git;
use crate::support::local::Local;
use crate::support::objects::ZERO;
use crate::support::request::{Request, pkt};
use crate::support::signing;
use packhouse::model::Limits;
use packhouse::repo::{Disk, FlushPolicy};

#[test]
fn command_lines_that_are_none_move_nothing() {
    let scene = scene(100);
    let refs = git::refs(&scene.repository);
    let (old, new) = (scene.first.id(), ZERO);
    let lines = [
        "hello".to_owned(),
        format!("{old} {new}"),
        format!("{old}  {new} refs/heads/main"),
        format!("{old}\t{new}\trefs/heads/main"),
        format!("{} {new} refs/heads/main", &old[1..]),
        format!("{} {} refs/heads/main", "0".repeat(64), "1".repeat(64)),
        format!("{old} {new} refs/heads/a\nb"),
        "push-cert\0report-status".to_owned(),
    ];
    for line in lines {
        let request = [pkt(line.as_bytes()), b"0000".to_vec()].concat();
        let (outcome, heard) = scene.push(&request);
        assert!(outcome.result.is_err(), "{line:?}");
        assert!(heard.bytes.is_empty() && !heard.begun, "{line:?}");
    }
    let framings: [&[u8]; 7] =
        [b"zzzz", b"0003", b"+005a", b"00 5a", b"fff5", b"0001", b"\xff\xff\xff\xff"];
    for framing in framings {
        assert!(scene.push(framing).0.result.is_err(), "{framing:?}");
    }
    assert_eq!(git::refs(&scene.repository), refs);
}

#[test]
fn one_command_more_than_the_limit_is_refused_with_its_name() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = git::init_bare(&scratch.path().join("r.git"));
    let limits = Limits { commands_max: 3, ..Limits::default() };
    let local = Local::with_limits(Disk::new(FlushPolicy::NONE), limits);
    let request = |count: usize| {
        let numbers = 0..count;
        numbers
            .fold(Request::new(), |request, number| {
                request.command(ZERO, ZERO, format!("refs/heads/{number}"))
            })
            .bytes()
    };
    local.push_ok(&repository, &request(3));
    let (outcome, _) = local.push(&repository, &request(4));
    let text = outcome.result.unwrap_err().client_text(outcome.id);
    assert!(text.contains("commands_max") && text.contains('3'), "{text}");
}

#[test]
fn a_pack_larger_than_the_limit_is_refused_with_its_name() {
    let scene = scene(100);
    git::run(&scene.repository, &["config", "receive.maxInputSize", "100"]);
    let answer = scene.refuse_pack(scene.second.pack());
    assert!(answer.report[0].contains("exceeds maximum allowed size (100 bytes)"), "{answer:?}");
    git::run(&scene.repository, &["config", "receive.maxInputSize", "4k"]);
    scene.goes_on();
}

#[test]
fn a_certificate_that_breaks_off_moves_nothing_and_checks_nothing() {
    let scene = scene(100);
    let program = signing::program(&scene.repository, "fake", "touch ran");
    git::run(&scene.repository, &["config", "gpg.program", &program]);
    git::hook(&scene.repository, "pre-receive", "touch ran");
    let refs = git::refs(&scene.repository);
    let push = Request::new()
        .command(&scene.first.id(), ZERO, "refs/heads/main")
        .signed("nonce x\n", signing::OPENPGP)
        .bytes();
    for end in 0..push.len() {
        let (outcome, heard) = scene.push(&push[..end]);
        assert!(outcome.result.is_err() && !heard.begun, "{end}");
    }
    assert_eq!(git::refs(&scene.repository), refs);
    assert!(!scene.repository.join("ran").exists());
    let left = git::object_files(&scene.repository);
    assert!(left.iter().all(|name| !name.contains("tmp_")), "{left:?}");
}

#[test]
fn a_certificate_is_held_to_the_limit_of_the_command_list() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = git::init_bare(&scratch.path().join("r.git"));
    let limits = Limits { command_bytes_max: 100_000, ..Limits::default() };
    let local = Local::with_limits(Disk::new(FlushPolicy::NONE), limits);
    let endless = [pkt(b"push-cert"), pkt(&[b'x'; 1000]).repeat(1000)].concat();
    let (outcome, heard) = local.push(&repository, &endless);
    let text = outcome.result.unwrap_err().client_text(outcome.id);
    assert!(text.contains("command_bytes_max") && !heard.begun, "{text}");
}
