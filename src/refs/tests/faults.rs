//! Each change on disk fails once, and from then on: no lock stays, and every ref has its old or
//! its new value.

use crate::model::ObjectId;
use crate::refs::testing::{TestRepository, commit, create, delete, name, update};
use crate::refs::{
    RefContext, RefEdit, RefError, RefSettings, RefStore, RefTransaction, ReflogCreation,
};
use crate::repo::{Disk, FlushPolicy, Operation, Recorder};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

const LOOSE: &str = "refs/heads/loose";
const PACKED: &str = "refs/heads/packed";
const GONE_LOOSE: &str = "refs/heads/gone/loose";
const GONE_PACKED: &str = "refs/tags/gone";
const GONE_BOTH: &str = "refs/heads/gone/both";
const NEW: &str = "refs/heads/new/deep/ref";

fn repository() -> TestRepository {
    let repository = TestRepository::new();
    let packed = [GONE_BOTH, PACKED, GONE_PACKED].map(|name| format!("{} {name}\n", commit(3)));
    let header = "# pack-refs with: peeled fully-peeled sorted \n";
    repository.write("packed-refs", header.to_owned() + &packed.concat());
    for name in [LOOSE, GONE_LOOSE, GONE_BOTH] {
        repository.set(name, commit(0));
    }
    for name in [LOOSE, GONE_LOOSE, GONE_PACKED] {
        repository.write(&format!("logs/{name}"), "before\n");
    }
    repository
}

fn edits() -> Vec<RefEdit> {
    vec![
        update(LOOSE, commit(0), commit(1)),
        create(NEW, commit(1)),
        delete(GONE_BOTH, commit(0)),
        delete(GONE_LOOSE, commit(0)),
        delete(GONE_PACKED, commit(3)),
        update(PACKED, commit(3), commit(1)),
    ]
}

type Values = Vec<Option<ObjectId>>;

fn values(repository: &TestRepository) -> Values {
    let store = repository.store();
    let names = edits().into_iter().map(|edit| edit.name);
    names.map(|name| store.resolve(&name).unwrap().id).collect()
}

fn recording(repository: &TestRepository) -> (RefStore, Arc<Recorder>) {
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    let settings = RefSettings { reflog: ReflogCreation::Normal, ..repository.context().settings };
    let context = RefContext { disk, settings, ..repository.context() };
    (RefStore::new(context), recorder)
}

/// Runs `act` on fresh repositories with a fault at every change it makes, and checks each.
fn with_each_fault<T>(
    persistent: bool,
    act: impl Fn(&RefStore) -> T,
    check: impl Fn(&TestRepository, T, usize),
) {
    let mut at = 0;
    loop {
        let repository = repository();
        let (store, recorder) = recording(&repository);
        recorder.fail_at(at, ErrorKind::StorageFull, persistent);
        let result = act(&store);
        let done = recorder.attempts() <= at;
        assert_eq!(repository.leftovers(), [] as [&Path; 0], "at {at}");
        assert_eq!(repository.store().list().unwrap().broken, [] as [&str; 0], "at {at}");
        check(&repository, result, at);
        if done {
            assert!(at > 30, "only {at} changes");
            return;
        }
        at += 1;
    }
}

fn check_each(result: &Result<(), RefError>, value: Option<ObjectId>, edit: usize, at: usize) {
    let (old, new) = (values_before()[edit], values_after()[edit]);
    match result {
        Ok(()) => assert_eq!(value, new, "{edit} at {at}"),
        Err(error) if error.may_have_moved() => assert!(value == old || value == new),
        Err(error) => assert_eq!(value, old, "{edit} at {at}: {error}"),
    }
}

fn values_before() -> Values {
    edits()
        .iter()
        .map(|edit| match edit.expected {
            crate::refs::Expected::MustBe(id) => Some(id),
            _ => None,
        })
        .collect()
}

fn values_after() -> Values {
    edits()
        .iter()
        .map(|edit| match edit.change {
            crate::refs::Change::Set(id) => Some(id),
            crate::refs::Change::Delete => None,
        })
        .collect()
}

#[test]
fn of_edits_applied_each_for_itself_every_one_is_done_or_undone() {
    for pack_from in [1, 300] {
        for persistent in [false, true] {
            let act = |store: &RefStore| {
                RefTransaction::new(store).packing_from(pack_from).apply_each(&edits())
            };
            with_each_fault(persistent, act, |repository, results, at| {
                for (edit, (result, value)) in
                    results.into_iter().zip(values(repository)).enumerate()
                {
                    check_each(&result.map(drop), value, edit, at);
                }
            });
        }
    }
}

#[test]
fn of_edits_in_a_batch_every_one_is_done_or_undone_and_of_a_failed_batch_none_is_done() {
    for pack_from in [1, 300] {
        for persistent in [false, true] {
            let act = |store: &RefStore| {
                RefTransaction::new(store).packing_from(pack_from).apply_batch(&edits())
            };
            with_each_fault(persistent, act, |repository, results, at| {
                let values = values(repository);
                let Ok(results) = results else {
                    assert_eq!(values, values_before(), "at {at}");
                    return;
                };
                for (edit, (result, value)) in results.into_iter().zip(values).enumerate() {
                    check_each(&result.map(drop), value, edit, at);
                }
            });
        }
    }
}

#[test]
fn of_atomic_edits_all_or_none_are_done() {
    for pack_from in [1, 300] {
        let act = |store: &RefStore| {
            RefTransaction::new(store).packing_from(pack_from).apply_atomic(&edits())
        };
        with_each_fault(false, act, |repository, result, at| {
            let values = values(repository);
            match result {
                Ok(applied) => {
                    assert_eq!(values, values_after(), "at {at}");
                    assert_eq!(applied.len(), values.len());
                }
                Err((_, error)) if error.may_have_moved() => {
                    assert!(values == values_before() || values == values_after(), "at {at}");
                }
                Err(_) => assert_eq!(values, values_before(), "at {at}"),
            }
        });
        // A disk that goes on failing can keep us from taking back; that is told.
        with_each_fault(true, act, |repository, result, at| {
            let values = values(repository);
            match result {
                Ok(_) => assert_eq!(values, values_after(), "at {at}"),
                Err((_, error)) if error.may_have_moved() => {
                    for (edit, value) in values.into_iter().enumerate() {
                        let known = [values_before()[edit], values_after()[edit]];
                        assert!(known.contains(&value), "at {at}");
                    }
                }
                Err(_) => assert_eq!(values, values_before(), "at {at}"),
            }
        });
    }
}

#[test]
fn head_is_old_or_new_after_any_fault() {
    for persistent in [false, true] {
        for at in 0..12 {
            let repository = repository();
            let (store, recorder) = recording(&repository);
            recorder.fail_at(at, ErrorKind::StorageFull, persistent);
            let result = store.set_head(&name("refs/heads/other"));
            assert_eq!(repository.leftovers(), [] as [&Path; 0], "at {at}");
            let head = repository.read("HEAD");
            let expected = match result {
                Err(ref error) if !error.may_have_moved() => "ref: refs/heads/main\n",
                _ => "ref: refs/heads/other\n",
            };
            assert_eq!(head, expected, "at {at}: {result:?}");
        }
    }
}

#[test]
fn a_failed_flush_of_a_directory_is_told_as_a_ref_that_may_have_moved() {
    let repository = repository();
    let (store, recorder) = recording(&repository);
    let transaction = RefTransaction::new(&store);
    let edits = [update(LOOSE, commit(0), commit(1))];
    transaction.apply_each(&edits)[0].as_ref().unwrap();
    let flushes = recorder.operations().len();
    // The same once more, failing at its last change, which is the flush of refs/heads.
    recorder.fail_at(flushes - 1, ErrorKind::Other, false);
    let edits = [update(LOOSE, commit(1), commit(2))];
    let error = transaction.apply_each(&edits).remove(0).unwrap_err();
    assert!(error.may_have_moved() && error.is_server_fault(), "{error}");
    assert!(!error.to_string().contains("injected"), "the cause is told by source()");
    assert_eq!(repository.read(LOOSE), format!("{}\n", commit(2)));
}

#[test]
fn one_edit_that_fails_leaves_the_others() {
    let repository = repository();
    let mut edits = edits();
    edits.insert(2, create(LOOSE, commit(2)));
    edits.insert(4, delete(GONE_PACKED, commit(2)));
    let store = repository.store();
    let results = RefTransaction::new(&store).apply_each(&edits);
    let failed: Vec<usize> = (0..results.len()).filter(|at| results[*at].is_err()).collect();
    assert_eq!(failed, [2, 4]);
    assert_eq!(values(&repository), values_after());
}

#[test]
fn a_file_system_without_second_names_will_do() {
    let links_of = |recorder: &Recorder| {
        let operations = recorder.operations();
        operations.iter().filter(|one| matches!(one, Operation::Link { .. })).count()
    };
    let unharmed = repository();
    let (store, recorder) = recording(&unharmed);
    RefTransaction::new(&store).apply_atomic(&edits()).unwrap();
    let links = links_of(&recorder);
    // Three locks of values, and four files that are replaced or removed.
    assert_eq!(links, 7);
    let mut done_without = 0;
    for at in 0..recorder.operations().len() {
        let repository = repository();
        let (store, recorder) = recording(&repository);
        recorder.fail_at(at, ErrorKind::Unsupported, false);
        if RefTransaction::new(&store).apply_atomic(&edits()).is_ok() {
            done_without += links - links_of(&recorder);
            assert_eq!(values(&repository), values_after());
        }
        assert_eq!(repository.leftovers(), [] as [&Path; 0], "at {at}");
    }
    assert_eq!(done_without, links, "each link is done without, once");
}
