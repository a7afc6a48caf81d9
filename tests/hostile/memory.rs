//! Pushes of a few bytes that ask for much memory.

use super::{Scene, at_maximum, scene};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::local::Local;
use crate::support::objects::{
    Object, Snapshot, ZERO, commit, entry, ofs_delta, pack, tag, tree, unhex,
};
use crate::support::request::{Request, pkt};
use packhouse::model::Limits;
use packhouse::repo::{Disk, FlushPolicy};
use std::io::{self, Read};
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn limited(scene: &mut Scene, change: impl FnOnce(&mut Limits)) {
    let mut limits = at_maximum();
    change(&mut limits);
    scene.local = Local::with_limits(Disk::new(FlushPolicy::NONE), limits);
}

/// Objects of every kind that has links, with the objects that hold them, and what comes last.
fn large_ones(scene: &Scene, len: usize) -> Vec<(Object, Vec<Object>)> {
    let first = &scene.first;
    let blob = unhex(&first.blob.id());
    let file = |name: String| [format!("100644 {name}\0").as_bytes(), &blob].concat();
    let mut data = Vec::new();
    while data.len() + 40 + 300 < len {
        data.extend_from_slice(&file("f".to_owned()));
    }
    data.extend_from_slice(&file("n".repeat(len - data.len() - 28)));
    let tree = Object { kind: "tree", data };
    let holder = commit(&tree.id(), &[&first.id()], "m");
    let pad = |mut object: Object| {
        object.data.resize(len, b'm');
        object
    };
    let commit = pad(commit(&first.tree.id(), &[&first.id()], ""));
    let tag = pad(tag(&first.id(), "commit", "v1"));
    vec![(tree, vec![holder]), (commit, vec![]), (tag, vec![])]
}

fn push_of(scene: &Scene, tip: &str, entries: &[Vec<u8>]) -> Answer {
    let request = Request::new().command(ZERO, tip, "refs/tags/x").pack(pack(entries));
    scene.answer(&request)
}

#[test]
fn what_is_read_for_its_links_may_be_as_large_as_the_limit_and_no_larger() {
    const LEN: usize = 100_000;
    for (max, is_taken) in [(LEN as u64, true), (LEN as u64 - 1, false)] {
        for by_delta in [false, true] {
            let mut scene = scene(1);
            limited(&mut scene, |limits| limits.metadata_bytes_max = max);
            for (large, others) in large_ones(&scene, LEN) {
                assert_eq!(large.data.len(), LEN);
                let mut entries = vec![entry(&large)];
                if by_delta {
                    let base = Object { data: large.data[..LEN / 3].to_vec(), ..large.clone() };
                    entries = vec![entry(&base)];
                    entries.push(ofs_delta(entries[0].len(), &base.data, &large.data));
                }
                entries.extend(others.iter().map(entry));
                let tip = others.last().unwrap_or(&large).id();
                let answer = push_of(&scene, &tip, &entries);
                if is_taken {
                    assert_eq!(answer.of("refs/tags/x"), "ok refs/tags/x", "{answer:?}");
                    git::run(&scene.repository, &["update-ref", "-d", "refs/tags/x"]);
                } else {
                    let told = &answer.report[0];
                    let what = format!("{} of {LEN} bytes", large.kind);
                    assert!(told.contains(&what), "{told}");
                    assert!(told.contains("'metadata_bytes_max' of 99999 bytes"), "{told}");
                }
            }
        }
    }
}

#[test]
fn a_large_tree_whose_entries_name_nothing_is_refused_by_default() {
    let scene = scene(100);
    let entry_of_nothing = [b"100644 f\0", &[1; 20][..]].concat();
    let garbage = [b"100644 f", &[1; 21][..]].concat();
    let name = [b"100644 ", &[b'x'; 65 << 20][..], b"\0", &[1; 20]].concat();
    for data in [entry_of_nothing.repeat(2_400_000), garbage.repeat(2_400_000), name] {
        let tree = Object { kind: "tree", data };
        let above = commit(&tree.id(), &[], "m");
        let answer = push_of(&scene, &above.id(), &[entry(&tree), entry(&above)]);
        assert!(answer.report[0].contains("metadata_bytes_max"), "{answer:?}");
    }
}

#[test]
fn a_commit_of_parents_and_a_long_name_are_refused_with_their_limits() {
    let scene = scene(100);
    let first = &scene.first;
    for (parents, is_taken) in [(10_000, true), (10_001, false), (300_000, false)] {
        let wide = commit(&first.tree.id(), &vec![&first.id()[..]; parents], "m");
        let answer = push_of(&scene, &wide.id(), &[entry(&wide)]);
        if is_taken {
            assert_eq!(answer.of("refs/tags/x"), "ok refs/tags/x");
            git::run(&scene.repository, &["update-ref", "-d", "refs/tags/x"]);
            continue;
        }
        let told = &answer.report[0];
        assert!(told.contains(&format!("commit {}", wide.id())), "{told}");
        assert!(told.contains("'commit_parents_max' of 10000 parents"), "{told}");
    }
    for (len, is_taken) in [(4096, true), (4097, false), (20 << 20, false)] {
        let tree = tree(&[("100644", &"n".repeat(len), &first.blob.id())]);
        let above = commit(&tree.id(), &[&first.id()], "m");
        let answer = push_of(&scene, &above.id(), &[entry(&tree), entry(&above)]);
        if is_taken {
            assert_eq!(answer.of("refs/tags/x"), "ok refs/tags/x");
            git::run(&scene.repository, &["update-ref", "-d", "refs/tags/x"]);
            continue;
        }
        let told = &answer.report[0];
        assert!(told.contains(&format!("tree {}", tree.id())), "{told}");
        assert!(told.contains("'entry_name_bytes_max' of 4096 bytes"), "{told}");
    }
}

#[test]
fn a_larger_object_that_is_here_already_is_built_upon_or_named_with_the_limit() {
    let mut scene = scene(1);
    let (first, large) = (scene.first.clone(), large_ones(&scene, 3 << 20));
    let [tree, commit, tag] = [0, 1, 2].map(|at| large[at].0.clone());
    scene.store(&[&tree, &commit, &tag]);
    git::run(&scene.repository, &["update-ref", "refs/heads/long", &commit.id()]);
    limited(&mut scene, |limits| limits.metadata_bytes_max = 2 << 20);
    let child = Snapshot::new("child\n", &[&commit.id()]);
    // On the commit with its long message; beside it; on the tag that nothing refers to.
    for (tip, entries) in [
        (child.id(), vec![&child.blob, &child.tree, &child.commit]),
        (tag.id(), vec![]),
        (first.id(), vec![]),
    ] {
        let entries: Vec<_> = entries.into_iter().map(entry).collect();
        let answer = push_of(&scene, &tip, &entries);
        assert_eq!(answer.of("refs/tags/x"), "ok refs/tags/x", "{answer:?}");
        git::run(&scene.repository, &["update-ref", "-d", "refs/tags/x"]);
    }
    let above = crate::support::objects::commit(&tree.id(), &[&first.id()], "m");
    let told = push_of(&scene, &above.id(), &[entry(&above)]).of("refs/tags/x").to_owned();
    assert!(told.contains(&format!("tree {} is larger than", tree.id())), "{told}");
    assert!(told.contains("'metadata_bytes_max' of 2097152 bytes"), "{told}");
}

/// A request that comes in pieces: those given, and then what the channel brings.
struct Slow(io::Cursor<Vec<u8>>, mpsc::Sender<()>, mpsc::Receiver<()>);

impl Read for Slow {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let length = self.0.read(room)?;
        if length == 0 {
            // All was taken in; the end comes when the test says so.
            let _ = self.1.send(());
            let _ = self.2.recv();
        }
        Ok(length)
    }
}

#[test]
fn large_command_lists_wait_for_each_other_and_small_ones_do_not() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = git::init_bare(&scratch.path().join("r.git"));
    let limits = Limits { command_memory_bytes_max: 4 << 20, ..Limits::default() };
    let local = Local::with_limits(Disk::new(FlushPolicy::NONE), limits);
    let line = |number: u32| pkt(format!("{ZERO} {ZERO} refs/heads/{number}").as_bytes());
    let list: Vec<u8> = (0..15_000).flat_map(line).collect();
    let whole = [&list[..], b"0000"].concat();
    let refused = |request: &[u8]| {
        let (outcome, _) = local.push(&repository, request);
        outcome.result.err().map(|error| error.client_text(outcome.id))
    };
    assert_eq!(refused(&whole), None);
    // Three of them never fit.
    let told = refused(&list.repeat(3)).unwrap();
    assert!(told.contains("limit 'command_memory_bytes_max' of 4194304 bytes"), "{told}");
    std::thread::scope(|scope| {
        let (taken, is_taken) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let (local, path, input) = (&local, &repository, io::Cursor::new(list.clone()));
        let slow = scope.spawn(move || {
            let mut input = Slow(input, taken, ended);
            local.push_from(path, &mut input).0.result.is_err()
        });
        is_taken.recv_timeout(Duration::from_secs(30)).unwrap();
        let start = Instant::now();
        let told = refused(&whole).unwrap();
        assert!(told.contains("command_memory_bytes_max"), "{told}");
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(refused(&[&line(1)[..], b"0000"].concat()), None);
        end.send(()).unwrap();
        assert!(slow.join().unwrap(), "it was cut off");
    });
    assert_eq!(refused(&whole), None);
}
