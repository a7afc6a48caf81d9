//! Everybody on one branch: one push for each value of it is taken, and the others are told at once
//! and leave nothing.

use super::{Receiver, Scene, receiver, scene, taken};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::Snapshot;
use crate::support::request::Request;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const PUSHERS: usize = 16;
const PUSHES: usize = 4;
const MAIN: &str = "refs/heads/main";

fn tip(scene: &Scene) -> String {
    fs::read_to_string(scene.repository.join(MAIN)).unwrap().trim().to_owned()
}

fn update(old: &str, new: &Snapshot) -> Vec<u8> {
    Request::new().command(old, &new.id(), MAIN).pack(new.pack()).bytes()
}

/// Sixteen pushers of four commits each, who push again on top of whoever was taken before them;
/// the ids that were taken.
fn everybody_lands(scene: &Scene, mixed: bool) -> BTreeSet<String> {
    let barrier = Barrier::new(PUSHERS);
    let ids = thread::scope(|scope| {
        let running: Vec<_> = (0..PUSHERS)
            .map(|pusher| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let push = |push| lands(scene, receiver(pusher, mixed), pusher, push);
                    (0..PUSHES).map(push).collect::<Vec<_>>()
                })
            })
            .collect();
        running.into_iter().flat_map(|pusher| pusher.join().unwrap()).collect::<BTreeSet<_>>()
    });
    assert_eq!(ids.len(), PUSHERS * PUSHES);
    ids
}

/// Pushes until the push is taken.
fn lands(scene: &Scene, receiver: Receiver, pusher: usize, push: usize) -> String {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        assert!(Instant::now() < deadline, "pusher {pusher} never came to push {push}");
        let old = tip(scene);
        let new = Snapshot::new(&format!("{pusher} {push}\n"), &[&old]);
        let answer = scene.push(receiver, &update(&old, &new));
        if taken(std::slice::from_ref(&answer)) == 1 {
            return new.id();
        }
        assert_eq!(answer.report, ["unpack ok", "ng refs/heads/main failed to update ref"]);
        assert!(answer.messages.contains("cannot lock ref 'refs/heads/main': "), "{answer:?}");
        assert!(answer.complete, "{answer:?}");
        if receiver == Receiver::Packhouse {
            let lost = format!("but expected {old}\n");
            assert!(mixed_or_lost(&answer, &lost), "{answer:?}");
        }
    }
}

/// Another process may hold the lock itself for too long.
fn mixed_or_lost(answer: &Answer, lost: &str) -> bool {
    answer.messages.ends_with(lost) || answer.messages.contains("Unable to create")
}

fn history(scene: &Scene) -> BTreeSet<String> {
    let lines = git::run(&scene.repository, &["rev-list", MAIN]);
    lines.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn sixteen_pushers_of_one_branch_all_land_and_those_who_lose_leave_nothing() {
    let scene = scene();
    let mut ids = everybody_lands(&scene, false);
    ids.insert(scene.first.id());
    assert_eq!(history(&scene), ids);
    let reachable = git::run(&scene.repository, &["rev-list", "--objects", MAIN]);
    let reachable: BTreeSet<&str> =
        reachable.lines().filter_map(|line| line.split(' ').next()).collect();
    let stored = git::object_ids(&scene.repository);
    let stray: Vec<&str> = stored
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|id| !reachable.contains(id))
        .collect();
    assert!(stray.is_empty(), "{stray:?}");
    scene.end("sixteen pushers of one branch");
}

#[test]
fn sixteen_pushers_of_one_branch_half_through_stock_git_all_land() {
    let scene = scene();
    git::run(&scene.repository, &["config", "core.filesRefLockTimeout", "2000"]);
    let mut ids = everybody_lands(&scene, true);
    ids.insert(scene.first.id());
    assert_eq!(history(&scene), ids);
    scene.end("sixteen pushers of one branch, half through stock git");
}

#[test]
fn what_is_wrong_with_a_pack_is_told_although_its_push_has_lost() {
    let scene = scene();
    let second = Snapshot::new("second\n", &[&scene.first.id()]);
    scene.local.push_ok(&scene.repository, &update(&scene.first.id(), &second));
    let late = update(&scene.first.id(), &Snapshot::new("late\n", &[&scene.first.id()]));
    let mut flipped = late.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let cut = late[..late.len() - 25].to_vec();
    let longer = [late.as_slice(), b"more"].concat();
    for request in [flipped, cut, longer] {
        let answer = scene.push(Receiver::Packhouse, &request);
        assert!(answer.report[0] != "unpack ok", "{answer:?}");
        assert_eq!(answer.report[1], "ng refs/heads/main unpacker error");
    }
    git::run(&scene.repository, &["config", "receive.maxInputSize", "100"]);
    let answer = scene.push(Receiver::Packhouse, &late);
    assert_eq!(answer.report[0], "unpack pack exceeds maximum allowed size (100 bytes)");
    scene.end("damaged packs of pushes that have lost");
}

/// A push whose body does not come takes no turn: it holds nobody up.
#[test]
fn a_slow_body_does_not_keep_others_from_its_branch() {
    let scene = scene();
    let first = scene.first.id();
    let slow = update(&first, &Snapshot::new("slow\n", &[&first]));
    let (mut body, mut feed) = std::io::pipe().unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| scene.local.push_from(&scene.repository, &mut body).1);
        std::io::Write::write_all(&mut feed, &slow[..slow.len() / 2]).unwrap();
        let quick = update(&first, &Snapshot::new("quick\n", &[&first]));
        scene.local.push_ok(&scene.repository, &quick);
        assert!(!running.is_finished());
        std::io::Write::write_all(&mut feed, &slow[slow.len() / 2..]).unwrap();
        drop(feed);
        let answer = Answer::from_bands(&running.join().unwrap().bytes);
        assert_eq!(answer.of(MAIN), "ng refs/heads/main failed to update ref");
    });
    git::assert_sound(&scene.repository);
}
