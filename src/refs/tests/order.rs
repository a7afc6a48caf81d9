//! In which order changes are made and made durable, and what a crash leaves of them.

use super::replay::crash;
use crate::model::ObjectId;
use crate::refs::testing::{TestRepository, commit, create, delete, edit, name, update};
use crate::refs::{
    Applied, Change, Expected, RefContext, RefEdit, RefError, RefSettings, RefStore,
    RefTransaction, ReflogCreation,
};
use crate::repo::{Disk, FlushPolicy, Operation, Recorder};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const X: &str = "refs/heads/x";

fn recording(repository: &TestRepository, reflog: ReflogCreation) -> (RefStore, Arc<Recorder>) {
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    let settings = RefSettings { reflog, ..repository.context().settings };
    let context = RefContext { disk, settings, ..repository.context() };
    (RefStore::new(context), recorder)
}

/// The record in short, such as `flush refs/heads`.
fn in_short(repository: &TestRepository, recorder: &Recorder) -> Vec<String> {
    let mut names = std::collections::BTreeMap::new();
    let short = |path: &Path| {
        let path = path.strip_prefix(&repository.git_dir).unwrap().display().to_string();
        let temporary =
            ["tmp_ref_", "tmp_packed_refs_"].into_iter().find(|tmp| path.starts_with(tmp));
        temporary.map_or(path.clone(), |tmp| tmp.trim_end_matches('_').to_owned())
    };
    let line = |operation| match operation {
        Operation::CreateDirectory { path } => format!("mkdir {}", short(&path)),
        Operation::RemoveDirectory { path } => format!("rmdir {}", short(&path)),
        Operation::CreateFile { file, path } | Operation::OpenFile { file, path } => {
            names.insert(file, short(&path));
            format!("open {}", short(&path))
        }
        Operation::Write { file, .. } => format!("write {}", names[&file]),
        Operation::Truncate { file, .. } => format!("cut {}", names[&file]),
        Operation::FlushFile { file } => format!("flush {}", names[&file]),
        Operation::Link { from, to } => format!("link {} {}", short(&from), short(&to)),
        Operation::Rename { from, to } => format!("rename {} {}", short(&from), short(&to)),
        Operation::Unlink { path } => format!("unlink {}", short(&path)),
        Operation::FlushDirectory { path } => format!("flush {}", short(&path)),
        Operation::Freshen { path } => format!("freshen {}", short(&path)),
        Operation::Mark(word) => word.to_owned(),
    };
    recorder.operations().into_iter().map(line).collect()
}

fn record_of(
    repository: &TestRepository,
    reflog: ReflogCreation,
    edits: &[RefEdit],
) -> Vec<String> {
    let (store, recorder) = recording(repository, reflog);
    let results = RefTransaction::new(&store).apply_each(edits);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    in_short(repository, &recorder)
}

#[test]
fn the_value_is_durable_before_it_is_locked_and_moved_and_its_directory_after() {
    let repository = TestRepository::new();
    let expected = [
        "open tmp_ref",
        "write tmp_ref",
        "flush tmp_ref",
        "link tmp_ref refs/heads/x.lock",
        "rename tmp_ref refs/heads/x",
        "unlink refs/heads/x.lock",
        "flush refs/heads",
    ];
    let created = record_of(&repository, ReflogCreation::Never, &[create(X, commit(0))]);
    assert_eq!(created, expected);
    let updated = record_of(&repository, ReflogCreation::Never, &[update(X, commit(0), commit(1))]);
    assert_eq!(updated, expected);
}

#[test]
fn every_new_directory_is_durable() {
    let repository = TestRepository::new();
    let record =
        record_of(&repository, ReflogCreation::Never, &[create("refs/new/a/b", commit(0))]);
    assert_eq!(
        record,
        [
            "open tmp_ref",
            "write tmp_ref",
            "flush tmp_ref",
            "mkdir refs/new",
            "mkdir refs/new/a",
            "link tmp_ref refs/new/a/b.lock",
            "rename tmp_ref refs/new/a/b",
            "unlink refs/new/a/b.lock",
            "flush refs",
            "flush refs/new",
            "flush refs/new/a",
        ]
    );
}

#[test]
fn directories_are_flushed_once_for_all_refs_of_a_push() {
    let repository = TestRepository::new();
    let edits: Vec<_> = (0..5).map(|n| create(&format!("refs/heads/{n}"), commit(0))).collect();
    let record = record_of(&repository, ReflogCreation::Never, &edits);
    assert_eq!(record.iter().filter(|line| *line == "flush refs/heads").count(), 1);
    assert_eq!(record.last().unwrap(), "flush refs/heads");
}

#[test]
fn the_packed_value_is_gone_for_good_before_the_file_goes() {
    let repository = TestRepository::new();
    repository.set("refs/heads/a/b", commit(0));
    repository.git(&["pack-refs", "--all"]);
    repository.set("refs/heads/a/b", commit(1));
    let record =
        record_of(&repository, ReflogCreation::Never, &[delete("refs/heads/a/b", commit(1))]);
    assert_eq!(
        record,
        [
            "open refs/heads/a/b.lock",
            "open packed-refs.lock",
            "open tmp_packed_refs",
            "write tmp_packed_refs",
            "flush tmp_packed_refs",
            "rename tmp_packed_refs packed-refs",
            "flush ",
            "unlink refs/heads/a/b",
            "unlink packed-refs.lock",
            "unlink refs/heads/a/b.lock",
            "rmdir refs/heads/a",
            "flush ",
            "flush refs/heads",
        ]
    );
}

#[test]
fn a_loose_ref_is_deleted_with_git_pack_refs_kept_away() {
    let repository = TestRepository::new();
    repository.set(X, commit(0));
    let record = record_of(&repository, ReflogCreation::Never, &[delete(X, commit(0))]);
    assert_eq!(
        record,
        [
            "open refs/heads/x.lock",
            "open packed-refs.lock",
            "unlink refs/heads/x",
            "unlink packed-refs.lock",
            "unlink refs/heads/x.lock",
            "flush refs/heads",
        ]
    );
}

#[test]
fn many_creations_are_moved_under_their_locks_at_once() {
    let repository = TestRepository::new();
    let (store, recorder) = recording(&repository, ReflogCreation::Never);
    let edits = [create("refs/heads/b/c", commit(0)), create("refs/heads/a", commit(1))];
    RefTransaction::new(&store).packing_from(2).apply_each(&edits);
    assert_eq!(
        in_short(&repository, &recorder),
        [
            "open refs/heads/a.lock",
            "mkdir refs/heads/b",
            "open refs/heads/b/c.lock",
            "open packed-refs.lock",
            "open tmp_packed_refs",
            "write tmp_packed_refs",
            "flush tmp_packed_refs",
            "rename tmp_packed_refs packed-refs",
            "flush ",
            "unlink packed-refs.lock",
            "unlink refs/heads/a.lock",
            "unlink refs/heads/b/c.lock",
            "rmdir refs/heads/b",
            "flush ",
        ]
    );
}

#[test]
fn reflogs_are_written_under_the_lock_and_durable_with_the_refs() {
    let repository = TestRepository::new();
    let main = "refs/heads/main";
    let record = record_of(&repository, ReflogCreation::Normal, &[create(main, commit(0))]);
    assert_eq!(
        record,
        [
            "open tmp_ref",
            "write tmp_ref",
            "flush tmp_ref",
            "link tmp_ref refs/heads/main.lock",
            "mkdir logs",
            "mkdir logs/refs",
            "mkdir logs/refs/heads",
            "open logs/refs/heads/main",
            "write logs/refs/heads/main",
            "open logs/HEAD",
            "write logs/HEAD",
            "rename tmp_ref refs/heads/main",
            "unlink refs/heads/main.lock",
            "flush logs/refs/heads/main",
            "flush logs/HEAD",
            "flush ",
            "flush logs",
            "flush logs/refs",
            "flush logs/refs/heads",
            "flush refs/heads",
        ]
    );
    let record = record_of(&repository, ReflogCreation::Normal, &[delete(main, commit(0))]);
    let logs: Vec<&String> = record.iter().filter(|line| line.contains("logs")).collect();
    assert_eq!(
        logs,
        [
            "open logs/HEAD",
            "write logs/HEAD",
            "unlink logs/refs/heads/main",
            "flush logs/HEAD",
            "flush logs/refs/heads",
        ]
    );
}

#[test]
fn an_atomic_push_has_everything_ready_before_the_first_ref_moves() {
    let repository = TestRepository::new();
    repository.set(X, commit(0));
    repository.write("packed-refs", format!("{} refs/tags/t\n", commit(0)));
    let (store, recorder) = recording(&repository, ReflogCreation::Never);
    let edits = [
        delete("refs/tags/t", commit(0)),
        update(X, commit(0), commit(1)),
        create("refs/heads/y", commit(1)),
    ];
    RefTransaction::new(&store).apply_atomic(&edits).unwrap();
    let record = in_short(&repository, &recorder);
    let first_move = record.iter().position(|line| line.starts_with("rename")).unwrap();
    let ready = [
        "flush tmp_ref",
        "flush tmp_packed_refs",
        "link tmp_ref refs/heads/x.lock",
        "link tmp_ref refs/heads/y.lock",
        "open refs/tags/t.lock",
        "open packed-refs.lock",
    ];
    for (at, line) in record.iter().enumerate().filter(|(_, line)| ready.contains(&line.as_str())) {
        assert!(at < first_move, "{line}");
    }
    let first_unlock =
        record.iter().position(|line| line.contains(".lock") && line.starts_with("unlink"));
    let last_move = record.iter().rposition(|line| line.starts_with("rename")).unwrap();
    assert!(last_move < first_unlock.unwrap());
}

#[test]
fn a_weaker_policy_flushes_nothing() {
    let repository = TestRepository::new();
    let (disk, recorder) = Disk::recording(FlushPolicy::GIT);
    let store = RefStore::new(RefContext { disk, ..repository.context() });
    RefTransaction::new(&store).apply_each(&[create(X, commit(0))])[0].as_ref().unwrap();
    RefTransaction::new(&store).apply_each(&[delete(X, commit(0))])[0].as_ref().unwrap();
    // One that is taken back, too.
    let admit = |_: &[usize]| {
        repository.write("packed-refs", format!("{} refs/heads/y/z\n", commit(2)));
        true
    };
    repository.set(X, commit(0));
    let edits = [update(X, commit(0), commit(1)), create("refs/heads/y", commit(1))];
    let transaction = RefTransaction::new(&store).admitted_by(&admit);
    let (_, error) = transaction.apply_atomic(&edits).unwrap_err();
    assert!(matches!(error, RefError::NameConflict { .. }), "{error}");
    let record = in_short(&repository, &recorder);
    assert!(record.contains(&"rename tmp_ref refs/heads/x".to_owned()), "{record:?}");
    assert!(record.iter().all(|line| !line.starts_with("flush")), "{record:?}");
}

/// Numbers that look like chance and are the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self, of: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % of
    }
}

fn crash_edits() -> Vec<RefEdit> {
    vec![
        update("refs/heads/loose", commit(0), commit(1)),
        create("refs/heads/new/deep/ref", commit(1)),
        delete("refs/heads/both", commit(0)),
        delete("refs/heads/gone/packed", commit(3)),
        edit("refs/heads/packed", Expected::Any, Change::Set(commit(1))),
        delete("refs/heads/gone/loose", commit(0)),
    ]
}

fn crash_repository() -> TestRepository {
    let repository = TestRepository::new();
    // Nothing but refs is copied a thousand times.
    fs::remove_dir_all(repository.path("objects")).unwrap();
    let packed = ["refs/heads/both", "refs/heads/gone/packed", "refs/heads/packed"];
    let lines = packed.map(|name| format!("{} {name}\n", commit(3)));
    repository.write(
        "packed-refs",
        "# pack-refs with: peeled fully-peeled sorted \n".to_owned() + &lines.concat(),
    );
    for name in ["refs/heads/loose", "refs/heads/both", "refs/heads/gone/loose"] {
        repository.set(name, commit(0));
    }
    repository
}

type Applying = fn(&RefTransaction<'_>, &[RefEdit]) -> Vec<Result<Applied, RefError>>;

#[test]
fn a_crash_at_any_point_leaves_old_or_new_values_and_after_the_report_the_new() {
    let each: Applying = |transaction, edits| transaction.apply_each(edits);
    let atomic: Applying =
        |transaction, edits| transaction.apply_atomic(edits).unwrap().into_iter().map(Ok).collect();
    let mut chance = Chance(7);
    for (applying, pack_from) in [(each, 300), (each, 1), (atomic, 300), (atomic, 1)] {
        let before = crash_repository();
        let repository = crash_repository();
        let (store, recorder) = recording(&repository, ReflogCreation::Normal);
        let edits = crash_edits();
        let results = applying(&RefTransaction::new(&store).packing_from(pack_from), &edits);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        let operations = recorder.operations();
        for at in 0..=operations.len() {
            for round in 0..6 {
                // All that is not flushed is lost, or all is kept, or chance decides.
                let mut survives = || match round {
                    0 => false,
                    1 => true,
                    _ => chance.next(2) == 0,
                };
                let target = tempfile::tempdir_in(repository.git_dir.parent().unwrap()).unwrap();
                let operations = &operations[..at];
                let root = &repository.git_dir;
                crash(&before.git_dir, root, operations, target.path(), &mut survives);
                check_crash(&repository, target.path(), &edits, at == recorder.operations().len());
            }
        }
    }
}

#[test]
fn a_crash_after_an_atomic_push_was_refused_shows_nothing_of_it() {
    let mut chance = Chance(11);
    let mut refused = 0;
    for (pack_from, persistent) in [(300, false), (1, false), (300, true), (1, true)] {
        for at in 0.. {
            let before = crash_repository();
            let repository = crash_repository();
            let (store, recorder) = recording(&repository, ReflogCreation::Never);
            let edits = crash_edits();
            recorder.fail_at(at, std::io::ErrorKind::StorageFull, persistent);
            let transaction = RefTransaction::new(&store).packing_from(pack_from);
            let Err((_, error)) = transaction.apply_atomic(&edits) else { break };
            let operations = recorder.operations();
            let moves = |one: &Operation| matches!(one, Operation::Rename { .. });
            let Some(first) = operations.iter().position(moves) else { continue };
            if error.may_have_moved() {
                continue;
            }
            refused += 1;
            for length in first..=operations.len() {
                for round in 0..3 {
                    let mut survives = || round == 1 || round == 2 && chance.next(2) == 0;
                    let parent = repository.git_dir.parent().unwrap();
                    let target = tempfile::tempdir_in(parent).unwrap();
                    let (root, part) = (&repository.git_dir, &operations[..length]);
                    crash(&before.git_dir, root, part, target.path(), &mut survives);
                    if length < operations.len() {
                        check_crash(&repository, target.path(), &edits, false);
                    } else {
                        check_refused(&repository, target.path(), &edits, round < 2);
                    }
                }
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

/// Looks whether every ref is as it was before and, if asked, whether every lock is gone.
fn check_refused(repository: &TestRepository, left: &Path, edits: &[RefEdit], unlocked: bool) {
    let context = RefContext {
        git_dir: left.to_owned(),
        common_dir: left.to_owned(),
        ..repository.context()
    };
    let store = RefStore::new(context);
    assert_eq!(store.list().unwrap().broken, [] as [&str; 0]);
    for edit in edits {
        let value = store.resolve(&edit.name).unwrap().id;
        assert_eq!(value, value_before(edit), "{}", edit.name);
    }
    let mut locks = Vec::new();
    crate::refs::testing::walk(left, &mut |path| {
        let is_lock = path.extension().is_some_and(|extension| extension == "lock");
        locks.extend((is_lock && unlocked).then(|| path.to_owned()));
    });
    assert_eq!(locks, [] as [&Path; 0]);
}

fn value_before(edit: &RefEdit) -> Option<ObjectId> {
    match edit.expected {
        Expected::MustBe(id) => Some(id),
        Expected::Any => Some(commit(3)),
        Expected::MustNotExist => None,
    }
}

#[test]
fn what_is_taken_back_is_durable_in_the_order_that_keeps_old_packed_values_hidden() {
    let repository = TestRepository::new();
    for name in ["refs/heads/b/both", "refs/heads/c/loose", X] {
        repository.set(name, commit(0));
    }
    repository.write("packed-refs", format!("{} refs/heads/b/both\n", commit(3)));
    let edits = [
        update(X, commit(0), commit(1)),
        delete("refs/heads/b/both", commit(0)),
        delete("refs/heads/c/loose", commit(0)),
    ];
    let mut at = 0;
    let record = loop {
        let (store, recorder) = recording(&repository, ReflogCreation::Never);
        recorder.fail_at(at, std::io::ErrorKind::Other, false);
        RefTransaction::new(&store).apply_atomic(&edits).unwrap_err();
        let record = in_short(&repository, &recorder);
        if record.contains(&"unlink refs/heads/b/both".to_owned()) {
            break record;
        }
        at += 1;
    };
    let from = record.iter().position(|line| line == "unlink refs/heads/b/both").unwrap();
    assert_eq!(
        record[from + 1..],
        [
            "rename tmp_ref refs/heads/b/both",
            "open refs/heads/b/both",
            "flush refs/heads/b/both",
            "flush refs/heads/b",
            "rename tmp_packed_refs packed-refs",
            "open packed-refs",
            "flush packed-refs",
            "flush ",
            "rename tmp_ref refs/heads/x",
            "open refs/heads/x",
            "flush refs/heads/x",
            "flush refs/heads",
            "unlink refs/heads/b/both.lock",
            "unlink refs/heads/c/loose.lock",
            "unlink refs/heads/x.lock",
            "unlink packed-refs.lock",
            "flush ",
            "flush refs/heads",
            "flush refs/heads/b",
        ]
    );
}

#[test]
fn a_failed_flush_of_what_was_taken_back_is_told_as_a_ref_that_may_have_moved() {
    let atomic: Applying = |transaction, edits| {
        vec![transaction.apply_atomic(edits).map(|_| unreachable!()).map_err(|(_, error)| error)]
    };
    let each: Applying = |transaction, edits| transaction.apply_each(edits);
    for applying in [atomic, each] {
        let mut told = 0;
        for at in 0..20 {
            let repository = TestRepository::new();
            let (store, recorder) = recording(&repository, ReflogCreation::Never);
            let admit = |_: &[usize]| {
                repository.write("packed-refs", format!("{} refs/heads/x/y\n", commit(2)));
                true
            };
            recorder.fail_at(at, std::io::ErrorKind::Other, false);
            let transaction = RefTransaction::new(&store).admitted_by(&admit);
            let error = applying(&transaction, &[create(X, commit(1))]).remove(0).unwrap_err();
            let operations = recorder.operations();
            let removal = |path: &str| {
                let removal = Operation::Unlink { path: repository.path(path) };
                operations.iter().position(|one| *one == removal)
            };
            let Some(removed) = removal(X) else { continue };
            let unlocked = removal("refs/heads/x.lock").unwrap();
            let flush = Operation::FlushDirectory { path: repository.path("refs/heads") };
            if !operations[removed..unlocked].contains(&flush) {
                assert!(error.may_have_moved(), "{at}: {error}");
                told += 1;
            }
        }
        assert!(told > 0);
    }
}

#[test]
fn a_ref_that_was_in_the_way_of_another_does_not_come_back_after_a_crash() {
    let before = crash_repository();
    let repository = crash_repository();
    let (store, recorder) = recording(&repository, ReflogCreation::Never);
    // Comes into the way between the look and the move, in packed-refs alone.
    let admit = |_: &[usize]| {
        let packed = repository.read("packed-refs");
        repository.write("packed-refs", packed + &format!("{} refs/heads/x/y\n", commit(2)));
        true
    };
    let transaction = RefTransaction::new(&store).admitted_by(&admit);
    let error = transaction.apply_each(&[create(X, commit(1))]).remove(0).unwrap_err();
    assert!(matches!(error, RefError::NameConflict { .. }), "{error}");
    let operations = recorder.operations();
    assert!(operations.iter().any(|one| matches!(one, Operation::Rename { .. })));
    let mut chance = Chance(3);
    for _ in 0..64 {
        let target = tempfile::tempdir_in(repository.git_dir.parent().unwrap()).unwrap();
        let mut survives = || chance.next(2) == 0;
        crash(&before.git_dir, &repository.git_dir, &operations, target.path(), &mut survives);
        for left in [X, "refs/heads/x.lock"] {
            assert!(!target.path().join(left).exists(), "{left}");
        }
    }
}

fn check_crash(repository: &TestRepository, left: &Path, edits: &[RefEdit], reported: bool) {
    let context = RefContext {
        git_dir: left.to_owned(),
        common_dir: left.to_owned(),
        ..repository.context()
    };
    let store = RefStore::new(context);
    assert_eq!(store.list().unwrap().broken, [] as [&str; 0]);
    for edit in edits {
        let value: Option<ObjectId> = store.resolve(&edit.name).unwrap().id;
        let after = match edit.change {
            Change::Set(id) => Some(id),
            Change::Delete => None,
        };
        let before = value_before(edit);
        if reported {
            assert_eq!(value, after, "{}", edit.name);
        } else {
            assert!(value == after || value == before, "{} is {value:?}", edit.name);
        }
    }
    assert_eq!(store.resolve(&name("refs/heads/other")).unwrap().id, None);
}
