//! The `shallow` file at any moment of a push that makes a repository shallow, or more so.

use super::killed::{begin_push, wait_for};
use super::{fail_at, keep_packs, seeded, survive, with_hook};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::local::Local;
use crate::support::objects::{Snapshot, ZERO, entry, pack};
use crate::support::request::Request;
use packhouse::repo::sweep::Sweep;
use packhouse::repo::{Disk, FlushPolicy, Operation};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A line of two commits whose first has a parent that the client does not have.
fn grafted(name: &str) -> (String, Request) {
    let root = Snapshot::new(&format!("{name} root\n"), &[]);
    let border = Snapshot::new(&format!("{name} border\n"), &[&root.id()]);
    let tip = Snapshot::new(&format!("{name} tip\n"), &[&border.id()]);
    let objects =
        [&border.blob, &border.tree, &border.commit, &tip.blob, &tip.tree, &tip.commit].map(entry);
    let request = Request::new()
        .shallow(&border.id())
        .command(ZERO, &tip.id(), format!("refs/heads/{name}"))
        .pack(pack(&objects));
    (border.id(), request)
}

fn takes_borders(repository: &Path) {
    git::run(repository, &["config", "receive.shallowUpdate", "true"]);
}

/// A repository that is shallow already.
fn is_shallow(repository: &Path) {
    takes_borders(repository);
    let (_, request) = grafted("other");
    Local::new(Disk::new(FlushPolicy::FULL)).push_ok(repository, &request.bytes());
}

#[test]
fn a_push_with_a_border_survives_once_acknowledged() {
    let (_, request) = grafted("x");
    survive(&request.bytes(), takes_borders);
    survive(&request.bytes(), |repository| {
        is_shallow(repository);
        keep_packs(repository);
        with_hook(repository);
    });
}

#[test]
fn an_atomic_push_with_a_border_survives_once_acknowledged() {
    let (_, request) = grafted("x");
    let request = request.capabilities("report-status side-band-64k atomic agent=probe");
    survive(&request.bytes(), takes_borders);
}

#[test]
fn every_fault_of_the_disk_leaves_a_shallow_repository_whole() {
    let (_, request) = grafted("x");
    for (prepare, persistent) in
        [(takes_borders as fn(&Path), true), (takes_borders, false), (is_shallow, false)]
    {
        let mut at = 0;
        while fail_at(&request.bytes(), prepare, at, persistent) {
            at += 1;
        }
        assert!(at > 12, "{at} changes");
    }
}

#[test]
fn a_border_that_others_wrote_is_flushed_before_a_ref_relies_on_it() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path(), takes_borders);
    let (border, request) = grafted("x");
    // As git writes it.
    std::fs::write(repository.join("shallow"), format!("{border}\n")).unwrap();
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    Local::new(disk).push_ok(&repository, &request.bytes());
    let record = recorder.operations();
    let shallow = record
        .iter()
        .find_map(|operation| match operation {
            Operation::OpenFile { file, path } if path.ends_with("shallow") => Some(*file),
            _ => None,
        })
        .unwrap();
    let place = |wanted: &dyn Fn(&Operation) -> bool| record.iter().position(wanted).unwrap();
    let flushed =
        place(&|operation| matches!(operation, Operation::FlushFile { file } if *file == shallow));
    let moved = place(
        &|operation| matches!(operation, Operation::Rename { to, .. } if to.ends_with("refs/heads/x")),
    );
    assert!(flushed < moved, "{flushed} {moved}");
}

#[test]
fn a_push_that_needs_no_border_does_not_touch_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path(), is_shallow);
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    let snapshot = Snapshot::new("more\n", &[]);
    let request =
        Request::new().command(ZERO, &snapshot.id(), "refs/heads/more").pack(snapshot.pack());
    Local::new(disk).push_ok(&repository, &request.bytes());
    assert!(!format!("{:?}", recorder.operations()).contains("shallow"));
}

#[test]
fn many_refs_on_one_border_write_it_once() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path(), takes_borders);
    let (border, request) = grafted("x");
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    let all = (0..300).fold(request, |request, number| {
        request.command(ZERO, &border, format!("refs/tags/t{number}"))
    });
    let (_, heard) = Local::new(disk).push(&repository, &all.bytes());
    Answer::from_bands(&heard.bytes).assert_all_ok();
    let writes = recorder.operations();
    let writes = writes.iter().filter(
        |operation| matches!(operation, Operation::Rename { to, .. } if to.ends_with("shallow")),
    );
    assert_eq!(writes.count(), 1);
    git::assert_sound(&repository);
}

#[test]
fn a_push_that_is_killed_before_its_ref_moves_leaves_lines_too_many_and_nothing_broken() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path(), is_shallow);
    git::hook(&repository, "reference-transaction", "touch reached\nexec sleep 20");
    let (border, request) = grafted("x");
    let mut push = begin_push(&repository, &request.bytes());
    wait_for(&repository.join("reached"));
    push.kill().unwrap();
    push.wait().unwrap();
    let lines = || std::fs::read_to_string(repository.join("shallow")).unwrap();
    assert!(lines().contains(&border) && lines().lines().count() == 2);
    assert!(!git::refs(&repository).contains("refs/heads/x"));
    assert!(!repository.join("shallow.lock").exists());
    git::assert_sound(&repository);

    // What hooks were shown goes with the next sweep that finds it old enough.
    let shown = || {
        let entries = std::fs::read_dir(&repository).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("shallow_")).count()
    };
    assert_eq!(shown(), 1);
    let day = Duration::from_secs(24 * 3600);
    let sweep = |now| Sweep::new(&Disk::new(FlushPolicy::FULL), now, day).repository(&repository);
    sweep(SystemTime::now());
    assert_eq!(shown(), 1);
    sweep(SystemTime::now() + 2 * day);
    assert_eq!(shown(), 0);

    // The next push of the same finds its border in place; git takes it out when nobody wants it.
    std::fs::remove_file(repository.join("hooks/reference-transaction")).unwrap();
    std::fs::remove_file(repository.join("refs/heads/x.lock")).unwrap();
    Local::new(Disk::new(FlushPolicy::FULL)).push_ok(&repository, &request.bytes());
    git::assert_sound(&repository);
    git::run(&repository, &["update-ref", "-d", "refs/heads/x"]);
    git::run(&repository, &["prune", "--expire=now"]);
    assert_eq!(lines().lines().count(), 1);
    git::assert_sound(&repository);
}
