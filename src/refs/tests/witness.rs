//! What a `reference-transaction` hook is told, by stock git and by us: word for word.

use crate::model::ObjectId;
use crate::refs::testing::{
    TestRepository, as_command, commit, create, delete, edit, id_of, update,
};
use crate::refs::{
    Change, Expected, LockTimeout, RefEdit, RefError, RefStore, RefTransaction, ToldUpdate,
    TransactionState, Witness,
};
use std::cell::RefCell;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const MAIN: &str = "refs/heads/main";
const X: &str = "refs/heads/x";
const Y: &str = "refs/heads/y";
const ALIAS: &str = "refs/heads/alias";

/// `main`, which HEAD names, `x` and `y` at the first commit; `x` in packed-refs.
fn repository() -> TestRepository {
    let repository = TestRepository::new();
    repository.set(X, commit(0));
    repository.git(&["pack-refs", "--all"]);
    repository.set(MAIN, commit(0));
    repository.set(Y, commit(0));
    repository.write(ALIAS, format!("ref: {MAIN}\n"));
    repository
}

/// Writes down what it is told, in the form in which the hook of [`by_git`] does; says no when it
/// has been asked so many times.
struct Log {
    text: RefCell<String>,
    no_at: usize,
    calls: RefCell<usize>,
}

impl Witness for Log {
    fn see(&self, state: TransactionState, updates: &[ToldUpdate]) -> bool {
        let mut text = self.text.borrow_mut();
        writeln!(text, "== {state}").unwrap();
        for ToldUpdate { old, new, name } in updates {
            writeln!(text, "{old} {new} {name}").unwrap();
        }
        *self.calls.borrow_mut() += 1;
        *self.calls.borrow() != self.no_at
    }
}

/// What the hook is told when git makes these edits in one transaction.
fn by_git(repository: &TestRepository, edits: &[RefEdit], no_at: usize) -> String {
    let hook = format!(
        "#!/bin/sh\necho \"== $1\" >>hook.log\ncat >>hook.log\necho >>calls\n\
         test $(wc -l <calls) != {no_at}\n"
    );
    repository.write("hooks/reference-transaction", hook);
    let path = repository.path("hooks/reference-transaction");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    let commands: String = edits.iter().map(as_command).collect();
    let _ = repository.try_git(&["update-ref", "--stdin"], commands.as_bytes());
    fs::read_to_string(repository.path("hook.log")).unwrap_or_default()
}

fn by_us(repository: &TestRepository, edits: &[RefEdit], no_at: usize, atomic: bool) -> String {
    let log = Log { text: RefCell::default(), no_at, calls: RefCell::default() };
    let store = repository.store();
    let transaction = RefTransaction::new(&store).packing_from(1).witnessed_by(&log);
    if atomic {
        let _ = transaction.apply_atomic(edits);
    } else {
        transaction.apply_each(edits);
    }
    assert_eq!(repository.leftovers(), [] as [std::path::PathBuf; 0]);
    log.text.into_inner()
}

fn cases() -> Vec<Vec<RefEdit>> {
    let (one, two) = (commit(0), commit(1));
    let any_delete = |name| edit(name, Expected::Any, Change::Delete);
    vec![
        vec![create("refs/heads/new", one)],
        vec![update(Y, one, two)],
        vec![update(X, one, two)],
        vec![update(MAIN, one, two)],
        vec![edit(Y, Expected::Any, Change::Set(two))],
        vec![delete(Y, one)],
        vec![delete(X, one)],
        vec![delete(MAIN, one)],
        vec![any_delete("refs/heads/none")],
        vec![update(ALIAS, one, two)],
        vec![delete(ALIAS, one)],
        // The first that fails ends it, and is told of only if deletions came before it.
        vec![update(Y, two, one)],
        vec![delete(Y, two)],
        vec![delete(Y, one), update(X, two, one)],
        vec![update(X, two, one), delete(Y, one)],
        vec![delete(Y, one), update(MAIN, one, two), delete(X, one), create("refs/tags/t", one)],
        vec![delete(Y, one), any_delete("refs/heads/none")],
        vec![update(ALIAS, one, two), update(Y, one, two)],
    ]
}

#[test]
fn the_hook_is_told_what_git_tells_it() {
    for edits in cases() {
        let expected = by_git(&repository(), &edits, 0);
        assert_eq!(by_us(&repository(), &edits, 0, true), expected, "{edits:?}");
        if edits.len() == 1 {
            assert_eq!(by_us(&repository(), &edits, 0, false), expected, "{edits:?}");
        }
    }
}

#[test]
fn a_transaction_of_nothing_is_told_of_too() {
    assert_eq!(by_us(&repository(), &[], 0, true), "== prepared\n== committed\n");
    assert_eq!(by_us(&repository(), &[], 1, true), "== prepared\n== aborted\n");
    assert_eq!(by_us(&repository(), &[], 0, false), "");
}

#[test]
fn each_no_is_followed_by_the_same_words_and_changes_nothing() {
    for edits in cases() {
        for no_at in 1..=4 {
            let (ours, theirs) = (repository(), repository());
            let before = ours.refs();
            let expected = by_git(&theirs, &edits, no_at);
            let told = by_us(&ours, &edits, no_at, true);
            assert_eq!(told, expected, "{no_at} {edits:?}");
            assert_eq!(ours.refs(), theirs.refs(), "{no_at} {edits:?}");
            let asked = told.split("== ").nth(no_at).unwrap_or_default();
            if asked.starts_with("prepared") {
                assert_eq!(ours.refs(), before, "{no_at} {edits:?}");
            }
        }
    }
}

#[test]
fn a_packed_refs_that_cannot_be_locked_gives_the_deletions_up() {
    let edits = [delete(Y, commit(0))];
    let (ours, theirs) = (repository(), repository());
    for repository in [&ours, &theirs] {
        repository.git(&["config", "core.packedRefsTimeout", "0"]);
        repository.write("packed-refs.lock", "");
    }
    let expected = by_git(&theirs, &edits, 0);
    assert!(expected.starts_with("== aborted\n"), "{expected}");
    let mut context = ours.context();
    context.settings.packed_refs_timeout = LockTimeout::from_milliseconds(0);
    let store = RefStore::new(context);
    let log = Log { text: RefCell::default(), no_at: 0, calls: RefCell::default() };
    let results = RefTransaction::new(&store).witnessed_by(&log).apply_each(&edits);
    assert!(matches!(&results[..], [Err(RefError::PackedRefsLocked { .. })]), "{results:?}");
    assert_eq!(log.text.into_inner(), expected);
}

/// Looks at the ref itself at each word.
struct Eye<'a>(&'a TestRepository, RefCell<Vec<(TransactionState, Option<ObjectId>, bool)>>);

impl Witness for Eye<'_> {
    fn see(&self, state: TransactionState, _: &[ToldUpdate]) -> bool {
        let value = fs::read_to_string(self.0.path(Y)).ok();
        let value = value.map(|text| id_of(&text));
        self.1.borrow_mut().push((state, value, self.0.exists(&format!("{Y}.lock"))));
        true
    }
}

#[test]
fn prepared_comes_under_the_lock_and_committed_after_it() {
    let repository = repository();
    let eye = Eye(&repository, RefCell::default());
    let store = repository.store();
    let edits = [update(Y, commit(0), commit(1))];
    let results = RefTransaction::new(&store).witnessed_by(&eye).apply_each(&edits);
    assert!(results[0].is_ok());
    let expected = [
        (TransactionState::Prepared, Some(commit(0)), true),
        (TransactionState::Committed, Some(commit(1)), false),
    ];
    assert_eq!(*eye.1.borrow(), expected);
}
