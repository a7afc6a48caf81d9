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
    let record = in_short(&repository, &recorder);
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
        let before = match edit.expected {
            Expected::MustBe(id) => Some(id),
            Expected::Any => Some(commit(3)),
            Expected::MustNotExist => None,
        };
        if reported {
            assert_eq!(value, after, "{}", edit.name);
        } else {
            assert!(value == after || value == before, "{} is {value:?}", edit.name);
        }
    }
    assert_eq!(store.resolve(&name("refs/heads/other")).unwrap().id, None);
}
