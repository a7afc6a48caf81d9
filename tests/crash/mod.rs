//! What survives a crash at any moment of a push.
//!
//! A push is recorded change by change. Then every prefix of the record is replayed onto a copy of
//! the repository as it was, once as it is, once without any change that no flush had made durable,
//! once without each of those alone, and once with each of those alone. Stock git looks at every
//! result: refs that had been acknowledged must be there and complete, and `git fsck` must be
//! clean whatever happened.
//!
//! The model of a disk: bytes written to a file survive once that file has been flushed; an entry
//! of a directory (a creation, a name given, moved or taken away) once that directory has been. All
//! else may survive or not, in any combination.

mod killed;
mod replay;
mod shallow;
mod signed;

use crate::support::git;
use crate::support::local::Local;
use crate::support::objects::{
    Object, ZERO, blob, commit, entry, pack, thin_pack, tree, two_commits,
};
use crate::support::request::Request;
use packhouse::repo::sweep::Sweep;
use packhouse::repo::{Disk, FlushPolicy, Operation};
use packhouse::report::Fault;
use replay::Replay;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The mark in the record behind which the push was acknowledged.
const REPORTED: &str = "reported";

#[test]
fn a_small_push_survives_once_acknowledged() {
    let (first, second) = two_commits();
    let request = Request::new()
        .command(&first.id(), &second.id(), "refs/heads/main")
        .command(ZERO, &second.id(), "refs/heads/a/b")
        .pack(second.pack());
    survive(&request.bytes(), |_| ());
}

#[test]
fn a_kept_push_survives_once_acknowledged() {
    let (first, second) = two_commits();
    let request =
        Request::new().command(&first.id(), &second.id(), "refs/heads/main").pack(second.pack());
    survive(&request.bytes(), keep_packs);
}

/// With a hook the objects come by way of a quarantine on disk.
#[test]
fn pushes_that_a_hook_looks_at_survive_once_acknowledged() {
    let (first, second) = two_commits();
    let request = Request::new()
        .command(&first.id(), &second.id(), "refs/heads/main")
        .pack(thin_pack(&first, &second));
    survive(&request.bytes(), with_hook);
    survive(&request.bytes(), |repository| {
        with_hook(repository);
        keep_packs(repository);
    });
}

#[test]
fn a_thin_push_survives_once_acknowledged() {
    let (first, second) = two_commits();
    let request = Request::new()
        .command(&first.id(), &second.id(), "refs/heads/main")
        .pack(thin_pack(&first, &second));
    survive(&request.bytes(), keep_packs);
}

#[test]
fn a_deletion_survives_once_acknowledged() {
    let (first, _) = two_commits();
    let request = Request::new().command(&first.id(), ZERO, "refs/heads/gone");
    survive(&request.bytes(), |repository| {
        git::run(repository, &["update-ref", "refs/heads/gone", "refs/heads/main"]);
        git::run(repository, &["pack-refs", "--all", "--no-prune"]);
    });
}

#[test]
fn a_push_with_reflogs_survives_once_acknowledged() {
    let (first, second) = two_commits();
    let request =
        Request::new().command(&first.id(), &second.id(), "refs/heads/main").pack(second.pack());
    survive(&request.bytes(), |repository| {
        keep_packs(repository);
        git::run(repository, &["config", "core.logAllRefUpdates", "true"]);
    });
}

#[test]
fn an_atomic_push_survives_once_acknowledged() {
    let (first, second) = two_commits();
    let request = Request::new()
        .capabilities("report-status side-band-64k atomic agent=probe")
        .command(&first.id(), &second.id(), "refs/heads/main")
        .command(ZERO, &second.id(), "refs/heads/new/ref")
        .command(&first.id(), ZERO, "refs/heads/gone")
        .pack(second.pack());
    survive(&request.bytes(), |repository| {
        git::run(repository, &["update-ref", "refs/heads/gone", "refs/heads/main"]);
        git::run(repository, &["pack-refs", "--all", "--no-prune"]);
    });
}

#[test]
fn every_fault_of_the_disk_leaves_the_repository_whole() {
    let (first, second) = two_commits();
    let request = Request::new()
        .command(&first.id(), &second.id(), "refs/heads/main")
        .pack(second.pack())
        .bytes();
    let kept_with_hook = |repository: &Path| {
        with_hook(repository);
        keep_packs(repository);
    };
    for prepare in [|_: &Path| (), keep_packs, with_hook, kept_with_hook] {
        for persistent in [false, true] {
            let mut at = 0;
            while fail_at(&request, prepare, at, persistent) {
                at += 1;
            }
            assert!(at > 10, "{at} changes");
        }
    }
}

#[test]
fn after_a_failed_flush_nothing_more_is_promised() {
    let (first, second) = two_commits();
    let request = Request::new()
        .command(&first.id(), &second.id(), "refs/heads/main")
        .pack(second.pack())
        .bytes();
    let next = Request::new().command(ZERO, &first.id(), "refs/heads/next").pack(pack(&[])).bytes();
    let mut failed = 0;
    for at in 0.. {
        let scratch = tempfile::tempdir().unwrap();
        let repository = seeded(scratch.path(), keep_packs);
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        let local = Local::new(disk);
        recorder.fail_at(at, std::io::ErrorKind::Other, false);
        let _ = local.push(&repository, &request);
        let happened = recorder.attempts() > at;
        recorder.fail_at(usize::MAX, std::io::ErrorKind::Other, false);
        if !happened {
            break;
        }
        let (outcome, _) = local.push(&repository, &next);
        assert_eq!(git::refs(&repository).contains("next"), local.receiver.disk().is_healthy());
        if let Err(error) = outcome.result {
            assert_eq!(error.fault(), Fault::DiskFailed);
            failed += 1;
        }
    }
    // The pack, its index, their directory, the ref, its directory.
    assert!(failed >= 5, "{failed}");
}

#[test]
fn an_atomic_push_that_failed_is_gone_for_good() {
    let (first, second) = two_commits();
    let request = Request::new()
        .capabilities("report-status side-band-64k atomic agent=probe")
        .command(&first.id(), ZERO, "refs/heads/gone")
        .command(&first.id(), ZERO, "refs/heads/last")
        .command(&first.id(), &second.id(), "refs/heads/main")
        .command(ZERO, &second.id(), "refs/heads/new/ref")
        .pack(second.pack())
        .bytes();
    // What is packed is older than what the files hold.
    let prepare = |repository: &Path| {
        let older = git::run(repository, &["commit-tree", "-m", "older", "main^{tree}"]);
        for name in ["refs/heads/gone", "refs/heads/last", "refs/heads/main"] {
            git::run(repository, &["update-ref", name, older.trim()]);
        }
        git::run(repository, &["pack-refs", "--all"]);
        for name in ["refs/heads/gone", "refs/heads/last", "refs/heads/main"] {
            git::run(repository, &["update-ref", name, &first.id()]);
        }
    };
    // Every change has one number, and the first of refs comes after all of objects.
    let first = {
        let scratch = tempfile::tempdir().unwrap();
        let repository = seeded(scratch.path(), prepare);
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        Local::new(disk).push_ok(&repository, &request);
        let record = recorder.operations();
        record.iter().position(|change| moves_a_ref(&repository, change)).unwrap()
    };
    let mut failed = 0;
    for at in first.. {
        match gone_for_good(&request, prepare, at) {
            Failed::NotAtAll => break,
            Failed::NotHalfWay => {}
            Failed::HalfWay => failed += 1,
        }
    }
    assert!(failed > 3, "{failed}");
}

fn moves_a_ref(repository: &Path, change: &Operation) -> bool {
    match change {
        Operation::Rename { to, .. } => {
            to.starts_with(repository.join("refs")) || to.ends_with("packed-refs")
        }
        _ => false,
    }
}

/// How far a push got before it failed.
enum Failed {
    /// By a change that is no reason to fail, before anything moved, or so that it says so.
    NotHalfWay,
    HalfWay,
    /// The push made fewer changes.
    NotAtAll,
}

/// Fails change number `at` of a push, and looks at what a crash leaves of what was taken back.
fn gone_for_good(request: &[u8], prepare: impl Fn(&Path), at: usize) -> Failed {
    let scratch = in_memory();
    let repository = seeded(scratch.path(), prepare);
    let before = refs(&repository);
    let start = Replay::load(&repository);
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    let local = Local::new(disk);
    recorder.fail_at(at, std::io::ErrorKind::StorageFull, false);
    let (_, heard) = local.push(&repository, request);
    recorder.mark(REPORTED);
    let answer = crate::support::answer::Answer::from_bands(&heard.bytes);
    if answer.report.iter().any(|line| line.starts_with("ok ")) {
        let tried = recorder.attempts() > at;
        return if tried { Failed::NotHalfWay } else { Failed::NotAtAll };
    }
    let record = recorder.operations();
    let said = format!("{} {}", answer.messages, answer.report.join(" "));
    let Some(moved) = record.iter().position(|change| moves_a_ref(&repository, change)) else {
        return Failed::NotHalfWay;
    };
    if said.contains("may have moved") {
        return Failed::NotHalfWay;
    }
    let after: BTreeMap<String, String> = {
        let id = two_commits().1.id();
        ["refs/heads/main", "refs/heads/new/ref"].map(|name| (name.to_owned(), id.clone())).into()
    };
    let mut seen = HashSet::new();
    start.every_crash_after(moved + 1, &record, |end, description, state| {
        let refs_alone = state.fingerprint_of(&["refs", "packed-refs"]);
        if !seen.insert((end == record.len(), refs_alone)) {
            return;
        }
        let copy = in_memory();
        let copy = copy.path().join("r.git");
        state.materialize(&copy);
        let now = refs(&copy);
        if end == record.len() {
            assert_eq!(now, before, "change {at} failed, {description}");
        } else {
            assert_old_or_new(&now, &before, &after, description);
        }
    });
    Failed::HalfWay
}

/// A directory in memory where there is one: what is asked is whether and when something is
/// flushed, not how long a disk takes.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

#[test]
fn many_objects_and_directories_survive_once_acknowledged() {
    let blobs: Vec<Object> = (0..3).map(|n| blob(format!("file {n}\n"))).collect();
    let names: Vec<(String, String)> =
        blobs.iter().enumerate().map(|(n, blob)| (format!("f{n}"), blob.id())).collect();
    let files: Vec<_> =
        names.iter().map(|(name, id)| ("100644", name.as_str(), id.as_str())).collect();
    let tree = tree(&files);
    let commit = commit(&tree.id(), &[], "files");
    let mut entries: Vec<_> = blobs.iter().map(entry).collect();
    entries.extend([entry(&tree), entry(&commit)]);
    let request =
        Request::new().command(ZERO, &commit.id(), "refs/tags/x/y/z").pack(pack(&entries));
    survive(&request.bytes(), |_| ());
}

fn with_hook(repository: &Path) {
    git::hook(repository, "pre-receive", "exit 0");
}

fn keep_packs(repository: &Path) {
    git::run(repository, &["config", "transfer.unpackLimit", "1"]);
}

fn seeded(directory: &Path, prepare: impl Fn(&Path)) -> PathBuf {
    let repository = git::init_bare(&directory.join("r.git"));
    let (first, _) = two_commits();
    for object in [&first.blob, &first.tree, &first.commit] {
        let arguments = ["hash-object", "-w", "-t", object.kind, "--stdin"];
        git::run_with_input(&repository, &arguments, &object.data);
    }
    git::run(&repository, &["update-ref", "refs/heads/main", &first.id()]);
    prepare(&repository);
    repository.canonicalize().unwrap()
}

fn survive(request: &[u8], prepare: impl Fn(&Path)) {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path(), prepare);
    let before = refs(&repository);
    let start = Replay::load(&repository);
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    Local::new(disk).push_ok(&repository, request);
    recorder.mark(REPORTED);
    let (after, objects) = (refs(&repository), git::object_ids(&repository));
    let record = recorder.operations();
    let acknowledged_from =
        record.iter().position(|operation| *operation == Operation::Mark(REPORTED)).unwrap() + 1;
    let mut seen = 0;
    start.every_crash(&record, |end, description, state| {
        seen += 1;
        let copy = tempfile::tempdir().unwrap();
        let copy = copy.path().join("r.git");
        state.materialize(&copy);
        let now = refs(&copy);
        if end >= acknowledged_from {
            assert_eq!(now, after, "acknowledged, then lost: {description}");
            let there = git::object_ids(&copy);
            assert_eq!(there, objects, "acknowledged, then lost: {description}");
        } else {
            assert_old_or_new(&now, &before, &after, description);
        }
        git::assert_sound(&copy);
    });
    assert!(seen > 10, "{seen} states");
}

fn assert_old_or_new(
    now: &BTreeMap<String, String>,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    description: &str,
) {
    let names = now.keys().chain(before.keys()).chain(after.keys());
    for name in names {
        let value = now.get(name);
        assert!(
            value == before.get(name) || value == after.get(name),
            "{name} is {value:?}: {description}"
        );
    }
}

fn refs(repository: &Path) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (id, name) = line.split_once(' ').unwrap();
        (name.to_owned(), id.to_owned())
    };
    git::refs(repository).lines().map(pair).collect()
}

/// Makes change number `at` fail; false if the push made fewer.
fn fail_at(request: &[u8], prepare: fn(&Path), at: usize, persistent: bool) -> bool {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path(), prepare);
    let before = refs(&repository);
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    let local = Local::new(disk);
    recorder.fail_at(at, std::io::ErrorKind::StorageFull, persistent);
    let (outcome, heard) = local.push(&repository, request);
    let happened = recorder.attempts() > at;
    recorder.fail_at(usize::MAX, std::io::ErrorKind::Other, false);
    git::assert_sound(&repository);
    let now = refs(&repository);
    let answer = crate::support::answer::Answer::from_bands(&heard.bytes);
    let accepted = answer.report.iter().any(|line| line.starts_with("ok "));
    if accepted {
        assert_ne!(now, before, "change {at}: reported and not done");
    } else if now != before {
        let text = format!("{} {}", answer.messages, answer.report.join(" "));
        assert!(text.contains("may have moved"), "change {at}: moved in silence: {text}");
    }
    // A removal that failed leaves what the sweep takes away, and nothing else.
    let day = std::time::Duration::from_secs(24 * 3600);
    let now = std::time::SystemTime::now();
    Sweep::new(local.receiver.disk(), now, day).repository(&repository);
    let left: Vec<String> =
        git::object_files(&repository).into_iter().filter(|name| name.contains("tmp_")).collect();
    assert!(left.is_empty(), "change {at}: {left:?} ({outcome:?})");
    let lock = repository.join("refs/heads/main.lock");
    assert!(!lock.exists(), "change {at}: a lock is left");
    // The next push works, whether this one did or not.
    let local = Local::new(Disk::new(FlushPolicy::FULL));
    let (_, second) = two_commits();
    let next =
        Request::new().command(ZERO, &second.id(), "refs/heads/next").pack(second.pack()).bytes();
    local.push_ok(&repository, &next);
    git::assert_sound(&repository);
    happened
}
