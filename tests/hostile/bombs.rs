//! Packs of a few bytes that expand to gigabytes.

use super::{names_at_maximum, scene};
use crate::http::raw;
use crate::http::server::Server;
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::local::Local;
use crate::support::objects::{
    ZERO, blob, deflate, entry, entry_header, hex, offset_distance, pack, varint,
};
use crate::support::request::Request;
use packhouse::model::Limits;
use packhouse::repo::{Disk, FlushPolicy};
use sha1::{Digest, Sha1};
use std::thread;

const FIRST_BYTES: usize = 64 << 10;

/// A blob of zeros, doubled with each delta: a pack of some hundred bytes.
fn bomb(doublings: u32) -> Vec<u8> {
    let mut entries = vec![entry(&blob(vec![0; FIRST_BYTES]))];
    let mut len = FIRST_BYTES;
    for _ in 0..doublings {
        // Copies from the start of the base, of eight MiB at the most.
        let copied = len.min(1 << 23);
        let [l0, l1, l2, ..] = copied.to_le_bytes();
        let mut delta = [varint(len), varint(2 * len)].concat();
        for _ in 0..2 * len / copied {
            delta.extend_from_slice(&[0xf0, l0, l1, l2]);
        }
        len *= 2;
        let distance = entries.last().unwrap().len();
        let mut bytes = entry_header(6, delta.len());
        bytes.extend_from_slice(&offset_distance(distance));
        bytes.extend_from_slice(&deflate(&delta));
        entries.push(bytes);
    }
    pack(&entries)
}

/// The id of the last blob of a bomb.
fn last_id(doublings: u32) -> String {
    let len = FIRST_BYTES << doublings;
    let mut hash = Sha1::new();
    hash.update(format!("blob {len}\0"));
    for _ in 0..1 << doublings {
        hash.update(&[0; FIRST_BYTES][..]);
    }
    hex(&hash.finalize())
}

#[test]
fn a_bomb_of_deltas_is_held_by_default() {
    for unpack_limit in [1, 100] {
        let mut scene = scene(unpack_limit);
        scene.local = Local::new(Disk::new(FlushPolicy::NONE));
        // Sixteen GiB in the end; the limit is four for a pack of any size.
        let bytes = bomb(18);
        assert!(bytes.len() < 1500, "{}", bytes.len());
        let answer = scene.refuse_pack(bytes);
        let told = &answer.report[0];
        assert!(told.contains("'expansion_ratio_max' of 1000 bytes for each byte"), "{told}");
        scene.goes_on();
    }
}

#[test]
fn a_pack_may_expand_as_far_as_the_limit_says_and_no_farther() {
    let doublings = 4;
    let bytes = bomb(doublings);
    let expanded = ((FIRST_BYTES << (doublings + 1)) - FIRST_BYTES) as u64;
    for (free, is_taken) in [(expanded, true), (expanded - 1, false)] {
        let mut scene = scene(1);
        let limits =
            Limits { expansion_free_bytes: free, expansion_ratio_max: 100, ..Limits::default() };
        scene.local = Local::with_limits(Disk::new(FlushPolicy::NONE), limits);
        let request =
            Request::new().command(ZERO, &last_id(doublings), "refs/tags/x").pack(bytes.clone());
        let answer = scene.answer(&request);
        if is_taken {
            answer.assert_all_ok();
        } else {
            let told = format!("have {expanded} bytes, and it has {}: more than", bytes.len());
            assert!(answer.report[0].contains(&told), "{answer:?}");
        }
    }
}

/// A server with every limit but those of memory at its maximum.
fn server() -> Server {
    let limits: Vec<_> =
        names_at_maximum().map(|row| format!("{}={}", row.name, u64::MAX)).collect();
    Server::with(&["--anonymous=write", &format!("--limits={}", limits.join(","))])
}

fn push(server: &Server, name: &str, tip: &str, pack: Vec<u8>) {
    let request = Request::new().command(ZERO, tip, "refs/tags/x").pack(pack).bytes();
    let response = raw::Request::push(name, request).send(server);
    Answer::from_bands(&response.body).assert_all_ok();
}

#[test]
fn bombs_stay_within_the_memory_budget_with_all_other_limits_at_their_maximum() {
    let doublings = 12;
    let (bytes, tip) = (bomb(doublings), last_id(doublings));
    assert!(bytes.len() < 1000, "{}", bytes.len());
    let server = server();
    let names: Vec<_> = (0..3).map(|n| format!("{n}.git")).collect();
    for (name, unpack_limit) in names.iter().zip(["1", "100", "100"]) {
        let repository = server.init(name);
        git::run(&repository, &["config", "transfer.unpackLimit", unpack_limit]);
    }
    thread::scope(|scope| {
        for name in &names {
            let (server, tip, bytes) = (&server, &tip, bytes.clone());
            scope.spawn(move || push(server, &format!("/{name}"), tip, bytes));
        }
    });
    // The last object alone has 256 MiB.
    let peak = server.memory_peak();
    assert!(peak < 128 << 20, "{peak}");
    let refs = git::refs(&server.path(&names[0]));
    assert!(refs.contains(&tip), "{refs}");
}
