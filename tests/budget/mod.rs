//! Counted work: what a push costs must depend on the push, not on the repository.
//!
//! The counts are those of the repository's own [`Disk`]: every open, listing, look, rename and
//! flush below a repository goes through it.

use crate::support::answer::Answer;
use crate::support::git;
use crate::support::local::Local;
use crate::support::objects::{Snapshot, ZERO, blob, entry, pack};
use crate::support::request::Request;
use packhouse::repo::{Counts, Disk, FlushPolicy};
use std::path::{Path, PathBuf};

/// A repository with this many packs of one blob each, and one commit on `refs/heads/main`.
fn with_packs(directory: &Path, packs: usize) -> (PathBuf, Snapshot) {
    let repository = git::init_bare(&directory.join(format!("r{packs}.git")));
    git::run(&repository, &["config", "transfer.unpackLimit", "1"]);
    // Else git would tidy up: that many packs are too many.
    git::run(&repository, &["config", "receive.autogc", "false"]);
    let first = Snapshot::new("first\n", &[]);
    for number in 1..packs {
        let pack = pack(&[entry(&blob(format!("blob {number}\n")))]);
        git::run_with_input(&repository, &["index-pack", "--stdin"], &pack);
    }
    git::run_with_input(&repository, &["index-pack", "--stdin"], &first.pack());
    git::run(&repository, &["update-ref", "refs/heads/main", &first.id()]);
    // A repository that was just created is held against removal; this one is old.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let head = std::fs::File::open(repository.join("HEAD")).unwrap();
    head.set_times(std::fs::FileTimes::new().set_modified(old)).unwrap();
    (repository, first)
}

fn next(number: usize, on: &Snapshot) -> Snapshot {
    Snapshot::new(&format!("content {number}\n"), &[&on.id()])
}

fn update(old: &Snapshot, new: &Snapshot) -> Vec<u8> {
    Request::new().command(&old.id(), &new.id(), "refs/heads/main").pack(new.pack()).bytes()
}

fn serving(scratch: &Path) -> Local {
    let state_dir = scratch.join("state");
    std::fs::create_dir(&state_dir).unwrap();
    Local::serving(Disk::new(FlushPolicy::FULL), &state_dir)
}

fn cost(local: &Local, push: impl FnOnce()) -> Counts {
    let before = local.receiver.disk().counts();
    push();
    difference(local.receiver.disk().counts(), before)
}

fn difference(after: Counts, before: Counts) -> Counts {
    Counts {
        file_flushes: after.file_flushes - before.file_flushes,
        directory_flushes: after.directory_flushes - before.directory_flushes,
        creates: after.creates - before.creates,
        renames: after.renames - before.renames,
        links: after.links - before.links,
        removes: after.removes - before.removes,
        listings: after.listings - before.listings,
        opens: after.opens - before.opens,
        // A listing looks at each pack once: microseconds each, and not held to the budget.
        stats: 0,
    }
}

/// Lets the clock pass the grain within which a directory's stamp is not trusted.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(1200));
}

/// The costs of a warm kept push into a repository with this many packs.
fn warm_cost(packs: usize) -> Counts {
    let scratch = tempfile::tempdir().unwrap();
    let (repository, first) = with_packs(scratch.path(), packs);
    let local = serving(scratch.path());
    settle();
    let second = next(2, &first);
    local.push_ok(&repository, &update(&first, &second));
    let third = next(3, &second);
    let counts = cost(&local, || local.push_ok(&repository, &update(&second, &third)));
    git::assert_sound(&repository);
    counts
}

#[test]
fn a_warm_push_costs_the_same_with_one_pack_and_with_a_thousand() {
    let (few, many) = (warm_cost(1), warm_cost(1000));
    assert_eq!(few, many);
    // The pack, its index and the ref; their two directories. What changes in the directory of the
    // packs is told by the kernel.
    let expected = Counts {
        file_flushes: 3,
        directory_flushes: 2,
        creates: 3,
        renames: 3,
        links: 2,
        removes: 2,
        listings: 0,
        ..few
    };
    assert_eq!(few, expected);
    // Three of them look whether the push has lost its ref to another already.
    assert!(few.opens <= 17, "{few:?}");
    println!("a warm kept push: {few:?}");
}

/// A push that is unpacked makes a file for each object and, while it is judged, none.
#[test]
fn a_loose_push_makes_its_objects_and_its_ref_and_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let (repository, first) = with_packs(scratch.path(), 1);
    git::run(&repository, &["config", "transfer.unpackLimit", "100"]);
    let local = Local::new(Disk::new(FlushPolicy::FULL));
    let second = next(2, &first);
    local.push_ok(&repository, &update(&first, &second));
    let third = next(3, &second);
    let made = |id: String| usize::from(!repository.join("objects").join(&id[..2]).exists());
    let ids = [third.blob.id(), third.tree.id(), third.commit.id()];
    let fan_outs: std::collections::BTreeSet<_> = ids.iter().map(|id| id[..2].to_owned()).collect();
    let new: usize = fan_outs.iter().map(|two| made(format!("{two}00"))).sum();
    let counts = cost(&local, || local.push_ok(&repository, &update(&second, &third)));
    assert_eq!(counts.file_flushes, 4);
    assert_eq!(counts.directory_flushes, fan_outs.len() as u64 + 2);
    assert_eq!(counts.creates, 4 + new as u64);
    assert_eq!((counts.renames, counts.links, counts.removes), (4, 1, 1), "{counts:?}");
}

/// What is refused before the commit has left no trace, and made none on the way.
#[test]
fn a_refused_push_touches_no_disk_unless_a_hook_shall_see_it() {
    for hook in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let (repository, first) = with_packs(scratch.path(), 1);
        git::run(&repository, &["config", "receive.hideRefs", "refs/heads/hidden"]);
        if hook {
            git::hook(&repository, "pre-receive", "exit 1");
        }
        let second = next(2, &first);
        let name = if hook { "refs/heads/main" } else { "refs/heads/hidden" };
        let request = Request::new().command(ZERO, &second.id(), name).pack(second.pack()).bytes();
        let local = Local::new(Disk::new(FlushPolicy::FULL));
        let counts = cost(&local, || _ = local.push(&repository, &request));
        assert_eq!(counts.creates > 0, hook, "{counts:?}");
        assert_eq!(counts.creates, counts.removes);
        assert_eq!(counts.file_flushes, 0);
    }
}

/// Its pack is read to the end, however long it is, and the client is told `unpack ok`.
#[test]
fn a_push_that_has_lost_its_race_touches_no_disk() {
    for blobs in [0, 3000] {
        let scratch = tempfile::tempdir().unwrap();
        let (repository, first) = with_packs(scratch.path(), 1);
        let local = serving(scratch.path());
        local.push_ok(&repository, &update(&first, &next(2, &first)));
        let late = next(3, &first);
        let bytes = |n: usize| format!("{n} {}\n", "stuff ".repeat(n % 900));
        let mut entries: Vec<_> = (0..blobs).map(|n| entry(&blob(bytes(n)))).collect();
        entries.extend([entry(&late.blob), entry(&late.tree), entry(&late.commit)]);
        let request = Request::new()
            .command(&first.id(), &late.id(), "refs/heads/main")
            .pack(pack(&entries))
            .bytes();
        let mut heard = None;
        let counts = cost(&local, || heard = Some(local.push(&repository, &request).1));
        let answer = Answer::from_bands(&heard.unwrap().bytes);
        let report = ["unpack ok", "ng refs/heads/main failed to update ref"];
        assert_eq!(answer.report, report, "{answer:?}");
        let made = (counts.creates, counts.links, counts.renames, counts.removes);
        assert_eq!(made, (0, 0, 0, 0), "{counts:?}");
        assert_eq!((counts.file_flushes, counts.directory_flushes), (0, 0), "{counts:?}");
        assert_eq!(git::object_ids(&repository).matches(&late.id()).count(), 0);
    }
}

#[test]
fn a_cold_push_opens_each_index_at_most_once() {
    let scratch = tempfile::tempdir().unwrap();
    let cold = |packs: usize| {
        let (repository, first) = with_packs(scratch.path(), packs);
        settle();
        let local = Local::new(Disk::new(FlushPolicy::FULL));
        let second = next(2, &first);
        cost(&local, || local.push_ok(&repository, &update(&first, &second)))
    };
    let (few, many) = (cold(1), cold(300));
    assert!(many.opens <= few.opens + 299, "{few:?} {many:?}");
    assert_eq!(many.listings, few.listings);
}

#[test]
fn twice_the_objects_cost_no_more_listings_flushes_or_opens() {
    let scratch = tempfile::tempdir().unwrap();
    let counts = |blobs: usize| {
        let (repository, first) = with_packs(&scratch.path().join(blobs.to_string()), 1);
        let local = Local::new(Disk::new(FlushPolicy::FULL));
        settle();
        let second = next(2, &first);
        local.push_ok(&repository, &update(&first, &second));
        settle();
        let more: Vec<_> = (0..blobs).map(|n| entry(&blob(format!("more {n}\n")))).collect();
        let third = next(3, &second);
        let mut entries = more;
        entries.extend([entry(&third.blob), entry(&third.tree), entry(&third.commit)]);
        let request = Request::new()
            .command(&second.id(), &third.id(), "refs/heads/main")
            .pack(pack(&entries))
            .bytes();
        cost(&local, || local.push_ok(&repository, &request))
    };
    for blobs in ["300", "600"] {
        std::fs::create_dir(scratch.path().join(blobs)).unwrap();
    }
    assert_eq!(counts(300), counts(600));
}

/// So many blobs that every fan-out directory is asked more often than costs a list of it: more
/// objects, or more loose ones, change nothing.
#[test]
fn thousands_of_objects_list_each_directory_once_and_then_none() {
    let scratch = tempfile::tempdir().unwrap();
    let (repository, first) = with_packs(scratch.path(), 70);
    for fan_out in 0..256 {
        let directory = repository.join(format!("objects/{fan_out:02x}"));
        std::fs::create_dir_all(&directory).unwrap();
        for number in 0..20 {
            std::fs::write(directory.join(format!("{number:038x}")), b"").unwrap();
        }
    }
    let local = serving(scratch.path());
    let mut tip = first;
    let mut push = |number: usize| {
        settle();
        let new = next(number, &tip);
        let mut entries: Vec<_> =
            (0..6000).map(|n| entry(&blob(format!("{n} of push {number}\n")))).collect();
        entries.extend([entry(&new.blob), entry(&new.tree), entry(&new.commit)]);
        let request = Request::new()
            .command(&tip.id(), &new.id(), "refs/heads/main")
            .pack(pack(&entries))
            .bytes();
        tip = new;
        cost(&local, || local.push_ok(&repository, &request)).listings
    };
    // `objects`, what is in it, and `objects/pack`.
    assert_eq!(push(1), 1 + 256 + 1);
    assert_eq!([push(2), push(3)], [0, 0]);
}

#[test]
fn what_a_foreign_git_brings_is_seen_at_the_next_push() {
    let scratch = tempfile::tempdir().unwrap();
    let (repository, first) = with_packs(scratch.path(), 20);
    let local = Local::new(Disk::new(FlushPolicy::FULL));
    let second = next(2, &first);
    local.push_ok(&repository, &update(&first, &second));
    // A repack takes all the packs that the server knows away.
    git::run(&repository, &["repack", "-adq"]);
    let third = next(3, &second);
    local.push_ok(&repository, &update(&second, &third));
    // An object that only stock git brought is found without a thin base or a collision missing.
    let foreign = next(4, &third);
    git::run_with_input(&repository, &["index-pack", "--stdin"], &foreign.pack());
    let request = Request::new()
        .command(&third.id(), &foreign.id(), "refs/heads/main")
        .command(ZERO, &foreign.id(), "refs/heads/other")
        .pack(pack(&[]))
        .bytes();
    local.push_ok(&repository, &request);
    git::assert_sound(&repository);
}
