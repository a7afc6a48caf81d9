//! Prunes and repacks that come between the objects of a push and its refs.

use super::quarantine::{hook, two_refs, unhook};
use super::{Scene, scene};
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO};
use crate::support::request::Request;
use std::fs;
use std::time::{Duration, SystemTime};

/// What stands in the way of memory: with `pre-receive` there, objects are on disk alone.
fn put_on_disk(scene: &Scene) {
    hook(scene, "pre-receive", "exit 0");
}

/// Files in the directory of packs.
fn pack_files(scene: &Scene) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(scene.repository.join("objects/pack"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn assert_one_pack(scene: &Scene) {
    let names = pack_files(scene);
    let extensions: Vec<&str> = names.iter().filter_map(|name| name.rsplit('.').next()).collect();
    assert_eq!(extensions, ["idx", "pack"], "no keep file either: {names:?}");
}

#[test]
fn loose_objects_that_were_pruned_before_their_ref_moves_are_stored_again() {
    for atomic in [false, true] {
        let scene = scene(100);
        hook(&scene, "update", "git prune --expire=now");
        scene.answer(&two_refs(&scene, atomic)).assert_all_ok();
        git::assert_sound(&scene.repository);
        assert_one_pack(&scene);
    }
}

#[test]
fn loose_objects_that_were_pruned_while_their_ref_moved_are_stored_again() {
    for atomic in [false, true] {
        let scene = scene(100);
        // The last look has been by then, and no ref leads to them yet.
        let body = "[ $1 = prepared ] && git prune --expire=now; exit 0";
        hook(&scene, "reference-transaction", body);
        scene.answer(&two_refs(&scene, atomic)).assert_all_ok();
        git::assert_sound(&scene.repository);
        assert_one_pack(&scene);
    }
}

/// Neither a client that goes away nor a server that is to stop may cost a ref its objects.
#[test]
fn objects_are_stored_again_although_the_push_is_called_off_meanwhile() {
    let scene = scene(100);
    let body = "[ $1 = prepared ] || exit 0; git prune --expire=now; touch pruned; \
                while [ ! -e cancelled ]; do sleep 0.01; done";
    hook(&scene, "reference-transaction", body);
    let answer = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !scene.repository.join("pruned").exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            scene.local.cancel.cancel();
            fs::write(scene.repository.join("cancelled"), "").unwrap();
        });
        scene.answer(&two_refs(&scene, true))
    });
    answer.assert_all_ok();
    git::assert_sound(&scene.repository);
}

#[test]
fn what_was_pruned_while_its_ref_moved_and_is_in_no_memory_is_told() {
    let scene = scene(100);
    put_on_disk(&scene);
    let body = "[ $1 = prepared ] && git prune --expire=now; exit 0";
    hook(&scene, "reference-transaction", body);
    let answer = scene.answer(&two_refs(&scene, false));
    let why = "ng refs/heads/main the ref has moved, but its objects were taken away";
    assert!(answer.of("refs/heads/main").starts_with(why), "{answer:?}");
    unhook(&scene, "reference-transaction");
    // The pusher still has them.
    let again = Request::new()
        .command(ZERO, &scene.second.id(), "refs/heads/again")
        .pack(scene.second.pack());
    scene.answer(&again).assert_all_ok();
    git::assert_sound(&scene.repository);
}

/// What `git gc` and `git repack -ad` do to each other: one makes a pack of what no ref leads to,
/// the other removes it.
#[test]
fn loose_objects_that_became_a_cruft_pack_while_their_ref_moved_are_stored_again() {
    for on_disk in [false, true] {
        let scene = scene(100);
        if on_disk {
            put_on_disk(&scene);
        }
        let body = "[ $1 = prepared ] && git repack -q -d --cruft; exit 0";
        hook(&scene, "reference-transaction", body);
        scene.answer(&two_refs(&scene, false)).assert_all_ok();
        for name in pack_files(&scene) {
            let Some(stem) = name.strip_suffix(".mtimes") else { continue };
            for extension in ["mtimes", "idx", "rev", "pack"] {
                let path =
                    scene.repository.join("objects/pack").join(format!("{stem}.{extension}"));
                let _ = fs::remove_file(path);
            }
        }
        git::assert_sound(&scene.repository);
        let value = git::run(&scene.repository, &["rev-parse", "refs/heads/main"]);
        assert_eq!(value.trim(), scene.second.id());
    }
}

#[test]
fn loose_objects_are_stored_as_a_pack_too_if_a_gc_began_before_their_ref_moved() {
    for on_disk in [false, true] {
        let scene = scene(100);
        if on_disk {
            put_on_disk(&scene);
        }
        let body = "[ $1 = prepared ] && echo 1 elsewhere > gc.pid; exit 0";
        hook(&scene, "reference-transaction", body);
        scene.answer(&two_refs(&scene, false)).assert_all_ok();
        assert_one_pack(&scene);
        // What that gc may do yet.
        git::run(&scene.repository, &["prune-packed"]);
        git::assert_sound(&scene.repository);
    }
}

#[test]
fn a_new_value_that_was_repacked_before_its_ref_moves_is_found() {
    let scene = scene(100);
    git::run(&scene.repository, &["config", "receive.unpackLimit", "100"]);
    // The value is packed and its loose file goes, as when a gc meets another's ref to it.
    let body = "[ $1 = refs/heads/main ] || exit 0; git update-ref refs/heads/x $3; git repack -adq; git update-ref -d refs/heads/x";
    hook(&scene, "update", body);
    let answer = scene.answer(&two_refs(&scene, false));
    answer.assert_all_ok();
    git::assert_sound(&scene.repository);
}

#[test]
fn while_a_gc_runs_small_pushes_are_kept_as_packs() {
    let scene = scene(100);
    let packs = || pack_files(&scene).len();
    let pid = scene.repository.join("gc.pid");
    fs::write(&pid, "1 elsewhere").unwrap();
    scene.goes_on();
    assert_eq!(packs(), 2, "a pack and its index");
    // The gc died long ago.
    let old = SystemTime::now() - Duration::from_secs(13 * 3600);
    let times = fs::FileTimes::new().set_modified(old);
    fs::File::open(&pid).unwrap().set_times(times).unwrap();
    let third = Snapshot::new("third\n", &[&scene.second.id()]);
    let request = Request::new().command(ZERO, &third.id(), "refs/heads/third").pack(third.pack());
    scene.answer(&request).assert_all_ok();
    assert_eq!(packs(), 2);
    git::assert_sound(&scene.repository);
}
