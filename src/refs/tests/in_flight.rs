//! The locks of a killed process are named in its record, at every moment at which they are there.

use crate::refs::testing::{TestRepository, commit, create, delete, git_command, name, update};
use crate::refs::{Change, Expected, RefContext, RefEdit, RefStore, RefTransaction};
use crate::repo::{Disk, FlushPolicy, InFlight, Operation, Recorder};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

const X: &str = "refs/heads/x";

struct World {
    repository: TestRepository,
    state: tempfile::TempDir,
    store: RefStore,
    recorder: Arc<Recorder>,
}

impl World {
    fn new() -> Self {
        let (repository, state) = (TestRepository::new(), tempfile::tempdir().unwrap());
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        let in_flight = InFlight::open(&disk, state.path()).unwrap();
        let store = RefStore::new(RefContext { disk, in_flight, ..repository.context() });
        Self { repository, state, store, recorder }
    }

    fn record(&self) -> PathBuf {
        let mut records = fs::read_dir(self.state.path()).unwrap();
        records.next().unwrap().unwrap().path()
    }

    /// What the next start removes if the process is killed now.
    fn recovered(&self) -> Vec<PathBuf> {
        let state = tempfile::tempdir().unwrap();
        fs::copy(self.record(), state.path().join("in-flight-killed")).unwrap();
        let recovered = InFlight::recover(&Disk::default(), state.path()).unwrap();
        assert_eq!(recovered.failed, []);
        let mut removed = recovered.removed;
        removed.sort();
        removed
    }

    fn locks(&self) -> Vec<PathBuf> {
        let mut locks = self.repository.leftovers();
        locks.retain(|path| path.extension().is_some_and(|extension| extension == "lock"));
        locks.sort();
        locks
    }

    /// Whether a process that is killed after any number of the changes would leave a lock that
    /// its record does not name. Told from the record of changes alone.
    fn assert_noted_before(&self) {
        let operations = self.recorder.operations();
        let is_lock = |path: &Path| path.extension().is_some_and(|extension| extension == "lock");
        let mut noted: Vec<u8> = Vec::new();
        let mut taken = 0;
        for operation in &operations {
            match operation {
                Operation::Write { bytes, .. } => noted.extend(bytes),
                Operation::Link { to, .. } if is_lock(to) => {
                    let text = String::from_utf8_lossy(&noted);
                    assert!(text.contains(to.to_str().unwrap()), "{to:?} in {text}");
                    taken += 1;
                }
                Operation::CreateFile { path, .. } => assert!(!is_lock(path), "{path:?}"),
                _ => {}
            }
        }
        assert!(taken > 0);
    }
}

fn edits() -> Vec<RefEdit> {
    vec![
        update(X, commit(0), commit(1)),
        create("refs/heads/new/deep", commit(1)),
        delete("refs/tags/packed", commit(0)),
        delete("refs/heads/both", commit(1)),
        RefEdit {
            name: name("refs/heads/symbolic"),
            expected: Expected::Any,
            change: Change::Set(commit(2)),
            message: "".into(),
        },
    ]
}

fn filled() -> World {
    let world = World::new();
    world.repository.set(X, commit(0));
    world.repository.set("refs/heads/both", commit(1));
    world.repository.write("refs/heads/symbolic", "ref: refs/heads/led/to\n");
    let packed = ["refs/heads/both", "refs/tags/packed"];
    world
        .repository
        .write("packed-refs", packed.map(|name| format!("{} {name}\n", commit(0))).concat());
    world
}

#[test]
fn every_lock_is_named_while_it_is_there_and_none_after() {
    for pack_from in [300, 1] {
        for atomic in [true, false] {
            let world = filled();
            let held = std::cell::Cell::new(0);
            let admit = |_: &[usize]| {
                let locks = world.locks();
                held.set(held.get() + locks.len());
                // With the locks away the transaction goes on: nobody else is here.
                assert_eq!(world.recovered(), locks);
                assert_eq!(world.locks(), [] as [&Path; 0]);
                true
            };
            let transaction =
                RefTransaction::new(&world.store).packing_from(pack_from).admitted_by(&admit);
            if atomic {
                transaction.apply_atomic(&edits()).unwrap();
            } else {
                let results = transaction.apply_each(&edits());
                assert!(results.iter().all(Result::is_ok), "{results:?}");
            }
            // Five refs, and packed-refs at least once.
            assert!(held.get() >= 6, "{}", held.get());
            world.assert_noted_before();
            assert_eq!(world.repository.leftovers(), [] as [&Path; 0]);
            let after = fs::read(world.record()).unwrap();
            assert!(!after.is_empty());
            for path in ["refs/heads/x.lock", "packed-refs.lock", "refs/heads/led/to.lock"] {
                world.repository.write(path, "another\'s");
            }
            assert_eq!(world.recovered(), [] as [&Path; 0]);
            assert_eq!(world.locks().len(), 3);
        }
    }
}

#[test]
fn a_lock_that_git_took_since_is_left_to_git() {
    let world = filled();
    let lock = world.repository.path("refs/heads/x.lock");
    let admit = |_: &[usize]| {
        // An operator removes what looks left behind, and git comes before the next start.
        fs::remove_file(&lock).unwrap();
        let mut git = git_command(&world.repository.git_dir, &["update-ref", "--stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = git.stdin.take().unwrap();
        write!(stdin, "start\nupdate {X} {}\nprepare\n", commit(2)).unwrap();
        let mut answers = BufReader::new(git.stdout.take().unwrap()).lines();
        assert_eq!(answers.next().unwrap().unwrap(), "start: ok");
        assert_eq!(answers.next().unwrap().unwrap(), "prepare: ok");
        assert_eq!(world.recovered(), [] as [&Path; 0]);
        assert!(lock.exists());
        drop(stdin);
        git.wait().unwrap();
        true
    };
    let edits = [update(X, commit(0), commit(1))];
    let transaction = RefTransaction::new(&world.store).admitted_by(&admit);
    transaction.apply_each(&edits)[0].as_ref().unwrap();
}

#[test]
fn the_lock_of_head_is_noted_before_it_is_there() {
    let world = World::new();
    world.store.set_head(&name("refs/heads/other")).unwrap();
    world.assert_noted_before();
    assert_eq!(world.recovered(), [] as [&Path; 0]);
    assert_eq!(world.repository.read("HEAD"), "ref: refs/heads/other\n");
}

#[test]
fn a_note_costs_two_writes_and_nothing_else() {
    let repository = TestRepository::new();
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    let store = RefStore::new(RefContext { disk, ..repository.context() });
    RefTransaction::new(&store).apply_each(&[create(X, commit(0))])[0].as_ref().unwrap();
    let without = recorder.operations().len();
    let world = World::new();
    let begun = world.recorder.operations().len();
    RefTransaction::new(&world.store).apply_each(&[create(X, commit(0))])[0].as_ref().unwrap();
    let operations = world.recorder.operations().split_off(begun);
    assert_eq!(operations.len(), without + 2, "{operations:?}");
    let writes = |one: &&Operation| matches!(one, Operation::Write { .. });
    assert_eq!(operations.iter().filter(writes).count(), 3);
}

#[test]
fn the_locks_of_a_batch_are_noted_in_one_write() {
    let world = World::new();
    let names: Vec<String> = (0..500).map(|number| format!("refs/tags/t{number}")).collect();
    let edits: Vec<RefEdit> = names.iter().map(|name| create(name, commit(0))).collect();
    let begun = world.recorder.operations().len();
    let results = RefTransaction::new(&world.store).packing_from(1).apply_each(&edits);
    assert!(results.iter().all(Result::is_ok));
    let operations = world.recorder.operations().split_off(begun);
    let is_note = |one: &&Operation| match one {
        Operation::Write { bytes, .. } => bytes.windows(3).any(|part| part == b" + "),
        _ => false,
    };
    // One for all refs, and one for packed-refs.
    assert_eq!(operations.iter().filter(is_note).count(), 2);
    world.assert_noted_before();
}

#[test]
fn a_lock_that_cannot_be_removed_stays_noted() {
    // The number of the change that removes the lock.
    let world = World::new();
    world.recorder.fail_at(usize::MAX, ErrorKind::Other, false);
    let create = [create(X, commit(0))];
    RefTransaction::new(&world.store).apply_each(&create)[0].as_ref().unwrap();
    let tried = world.recorder.attempts();
    let mut stayed = 0;
    for at in 0..tried {
        let world = World::new();
        let removal = Operation::Unlink { path: world.repository.path("refs/heads/x.lock") };
        world.recorder.fail_twice_at(at, ErrorKind::Other);
        let _ = RefTransaction::new(&world.store).apply_each(&create);
        if world.recorder.operations().contains(&removal) {
            continue;
        }
        let locks = world.locks();
        stayed += locks.len();
        assert_eq!(world.recovered(), locks);
    }
    assert_eq!(stayed, 1);
}

#[test]
fn a_record_that_cannot_be_written_refuses_no_push() {
    let world = World::new();
    let create = [create(X, commit(0))];
    let before = world.recorder.operations();
    let note = || {
        let world = World::new();
        let begun = world.recorder.operations().len();
        RefTransaction::new(&world.store).apply_each(&create)[0].as_ref().unwrap();
        let operations = world.recorder.operations().split_off(begun);
        let is_note = |one: &Operation| match one {
            Operation::Write { bytes, .. } => bytes.windows(3).any(|part| part == b" + "),
            _ => false,
        };
        operations.iter().position(is_note).unwrap()
    };
    world.recorder.fail_at(note(), ErrorKind::StorageFull, false);
    RefTransaction::new(&world.store).apply_each(&create)[0].as_ref().unwrap();
    assert!(world.recorder.operations().len() > before.len());
    assert_eq!(world.repository.leftovers(), [] as [&Path; 0]);
}
