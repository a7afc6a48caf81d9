//! Edits in one transaction that goes on without those that their refs refuse. The expectations are
//! fixed: what git 2.55 was seen to do, but where ours is meant to be otherwise.

use crate::model::{Dialect, ObjectId, RefRefusal};
use crate::refs::testing::{TestRepository, commit, create, delete, edit, name, update};
use crate::refs::{
    Applied, Change, Expected, RefEdit, RefError, RefTransaction, ToldUpdate, TransactionState,
    Witness,
};
use bstr::ByteSlice;
use std::cell::RefCell;
use std::fmt::Write;
use std::path::PathBuf;

const MAIN: &str = "refs/heads/main";
const X: &str = "refs/heads/x";
const Y: &str = "refs/heads/y";
const ALIAS: &str = "refs/heads/alias";
const NONE: &str = "refs/heads/none";

/// `main`, which HEAD names, `x` and `y` at the first commit; `x` in packed-refs.
fn repository() -> TestRepository {
    let repository = TestRepository::new();
    repository.write("packed-refs", format!("{} {X}\n", commit(0)));
    repository.set(MAIN, commit(0));
    repository.set(Y, commit(0));
    repository.write(ALIAS, format!("ref: {MAIN}\n"));
    repository
}

type Results = Result<Vec<Result<Applied, RefError>>, RefError>;

fn apply(repository: &TestRepository, edits: &[RefEdit]) -> Results {
    let store = repository.store();
    let results = RefTransaction::new(&store).in_dialect(Dialect::Git2_55).apply_batch(edits);
    assert_eq!(repository.leftovers(), [] as [PathBuf; 0]);
    results
}

/// What became of each edit: nothing wrong, or why it was refused.
fn refusals(results: Results) -> Vec<Option<RefRefusal>> {
    let refusal = |result: Result<Applied, RefError>| result.err().map(|error| error.refusal());
    results.unwrap().into_iter().map(refusal).collect()
}

fn value(repository: &TestRepository, text: &str) -> Option<ObjectId> {
    repository.store().resolve(&name(text)).unwrap().id
}

#[test]
fn a_ref_that_is_not_as_expected_is_told_why_and_keeps_nobody_from_moving() {
    let repository = repository();
    let (one, two) = (commit(0), commit(1));
    let edits = [
        update(X, two, one),
        create(Y, two),
        update(NONE, one, two),
        create("refs/heads/y/below", two),
        update(MAIN, one, two),
        create("refs/heads/new", two),
    ];
    let refused = refusals(apply(&repository, &edits));
    let expected = [
        Some(RefRefusal::OutOfDate),
        Some(RefRefusal::AlreadyExists),
        Some(RefRefusal::Missing),
        Some(RefRefusal::NameConflict),
        None,
        None,
    ];
    assert_eq!(refused, expected);
    let values = [X, Y, NONE, MAIN, "refs/heads/new"].map(|name| value(&repository, name));
    assert_eq!(values, [Some(one), Some(one), None, Some(two), Some(two)]);
}

#[test]
fn of_names_that_cannot_be_beside_each_other_the_one_below_all_others_is_created() {
    let names = ["refs/heads/n", "refs/heads/n/m", "refs/heads/n/m/o"];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let repository = repository();
        let edits = order.map(|at| create(names[at], commit(1)));
        let results = apply(&repository, &edits).unwrap();
        for (at, result) in order.into_iter().zip(results) {
            match result {
                Ok(_) => assert_eq!(at, 2),
                Err(error) => assert_eq!(
                    error.text(Dialect::Git2_55),
                    format!(
                        "cannot process '{}' and '{}' at the same time",
                        names[at],
                        names[at + 1]
                    )
                ),
            }
        }
        assert_eq!(value(&repository, names[2]), Some(commit(1)));
    }
}

#[test]
fn a_name_that_is_refused_is_in_nobodys_way() {
    let repository = repository();
    // Nothing is there to be updated, so that the name above is free.
    let edits = [create("refs/heads/n", commit(1)), update("refs/heads/n/m", commit(0), commit(1))];
    assert_eq!(refusals(apply(&repository, &edits)), [None, Some(RefRefusal::Missing)]);
    assert_eq!(value(&repository, "refs/heads/n"), Some(commit(1)));
}

#[test]
fn a_conflict_with_a_packed_name_is_told_without_a_lock() {
    let packed = repository();
    let loose = repository();
    let below = create("refs/heads/x/below", commit(1));
    let told = |results: Results, dialect| results.unwrap().remove(0).unwrap_err().text(dialect);
    let words = "'refs/heads/x' exists; cannot create 'refs/heads/x/below'";
    let locked = format!("cannot lock ref 'refs/heads/x/below': {words}");
    let text = told(apply(&packed, std::slice::from_ref(&below)), Dialect::Git2_55);
    assert_eq!(text, words);
    let text = told(apply(&packed, std::slice::from_ref(&below)), Dialect::Git2_47);
    assert_eq!(text, locked);
    loose.set(X, commit(0));
    assert_eq!(told(apply(&loose, &[below]), Dialect::Git2_55), locked);
}

#[test]
fn a_list_that_makes_no_sense_and_a_broken_ref_are_the_end_of_all() {
    let (one, two) = (commit(0), commit(1));
    let ours = repository();
    let twice = [update(Y, one, two), update(X, one, two), update(X, one, two)];
    let error = apply(&ours, &twice).unwrap_err();
    assert_eq!(error.to_string(), format!("multiple updates for ref '{X}' not allowed"));
    ours.write(NONE, "no id\n");
    let broken = [update(Y, one, two), update(NONE, one, two), delete(X, one)];
    let error = apply(&ours, &broken).unwrap_err();
    assert!(matches!(error, RefError::Broken { .. }), "{error}");
    assert_eq!([X, Y].map(|name| value(&ours, name)), [Some(one); 2]);
    // Nor does a symbolic ref make sense beside what it leads to; but that is its own fault.
    let alias = [update(ALIAS, one, two), update(MAIN, one, two)];
    let refused = refusals(apply(&ours, &alias));
    assert_eq!(refused.iter().filter(|refused| refused.is_none()).count(), 1, "{refused:?}");
}

/// Writes down what it is told; says no to one state of one transaction.
struct Log {
    text: RefCell<String>,
    no_to: Option<TransactionState>,
}

impl Witness for Log {
    fn see(&self, state: TransactionState, updates: &[ToldUpdate]) -> bool {
        let mut text = self.text.borrow_mut();
        write!(text, "{state}:").unwrap();
        for ToldUpdate { old, new, name } in updates {
            let digit = |id: &ObjectId| match *id {
                id if id.is_null() => '0',
                id if id == commit(0) => '1',
                _ => '2',
            };
            write!(text, " {}{}{}", digit(old), digit(new), name[b"refs/heads".len()..].as_bstr())
                .unwrap();
        }
        text.push('\n');
        self.no_to != Some(state)
    }
}

fn told(edits: &[RefEdit], atomic: bool, no_to: Option<TransactionState>) -> String {
    let repository = repository();
    let before = repository.refs();
    let log = Log { text: RefCell::default(), no_to };
    let store = repository.store();
    let transaction =
        RefTransaction::new(&store).in_dialect(Dialect::Git2_55).packing_from(1).witnessed_by(&log);
    let result = if atomic {
        transaction.apply_atomic(edits).map(drop).map_err(|(_, error)| error)
    } else {
        transaction.apply_batch(edits).map(drop)
    };
    assert_eq!(repository.leftovers(), [] as [PathBuf; 0]);
    if no_to.is_some() {
        assert!(matches!(result, Err(RefError::Vetoed)), "{result:?}");
        assert_eq!(repository.refs(), before);
    }
    log.text.into_inner()
}

#[test]
fn the_hook_is_told_once_of_all_edits_and_first_before_they_are_locked() {
    let (one, two) = (commit(0), commit(1));
    for atomic in [false, true] {
        // HEAD names `main`, and is not told of, nor is a symbolic ref once it is followed.
        let edits = [update(Y, one, two), update(ALIAS, one, two), create("refs/heads/n", two)];
        let expected = "preparing: 12/y 12/alias 02/n\n\
                        prepared: 12/y 02/n 12/main\n\
                        committed: 12/y 02/n 12/main\n";
        assert_eq!(told(&edits, atomic, None), expected);
        // What is in packed-refs goes in a transaction within this one.
        let edits = [delete(X, one), delete(Y, one)];
        let expected = "preparing: 10/x 10/y\n\
                        preparing: 00/x 00/y\nprepared: 00/x 00/y\n\
                        prepared: 10/x 10/y\n\
                        committed: 00/x 00/y\n\
                        committed: 10/x 10/y\n";
        assert_eq!(told(&edits, atomic, None), expected);
        let expected = "preparing: 10/y\naborted: 00/y\nprepared: 10/y\ncommitted: 10/y\n";
        assert_eq!(told(&[delete(Y, one)], atomic, None), expected);
        assert_eq!(told(&[], atomic, None), "preparing:\nprepared:\ncommitted:\n");
    }
}

#[test]
fn refused_edits_are_told_of_as_long_as_they_are_not_refused() {
    let (one, two) = (commit(0), commit(1));
    let edits = [update(X, two, one), update(Y, one, two), create(MAIN, one)];
    let expected = "preparing: 21/x 12/y 01/main\nprepared: 12/y\ncommitted: 12/y\n";
    assert_eq!(told(&edits, false, None), expected);
    let expected = "preparing: 21/x\nprepared:\ncommitted:\n";
    assert_eq!(told(&edits[..1], false, None), expected);
    let edits = [delete(Y, one), update(X, two, one)];
    // All or none: git gives up what it was about to take out of packed-refs.
    assert_eq!(told(&edits, true, None), "preparing: 10/y 21/x\naborted: 00/y\n");
}

#[test]
fn a_no_before_or_after_the_locks_is_the_end_of_all_edits() {
    let one = commit(0);
    let loose = [delete(Y, one)];
    let packed = [delete(X, one)];
    for atomic in [false, true] {
        let preparing = Some(TransactionState::Preparing);
        assert_eq!(told(&loose, atomic, preparing), "preparing: 10/y\naborted: 10/y\n");
        let prepared = Some(TransactionState::Prepared);
        let expected = "preparing: 10/y\naborted: 00/y\nprepared: 10/y\naborted: 10/y\n";
        assert_eq!(told(&loose, atomic, prepared), expected);
        let expected = "preparing: 10/x\npreparing: 00/x\nprepared: 00/x\naborted: 00/x\n";
        assert_eq!(told(&packed, atomic, prepared), expected);
        assert_eq!(told(&[], atomic, prepared), "preparing:\nprepared:\naborted:\n");
    }
}

#[test]
fn the_older_dialect_is_told_as_before() {
    let repository = repository();
    let log = Log { text: RefCell::default(), no_to: None };
    let store = repository.store();
    let edits = [edit(Y, Expected::Any, Change::Delete)];
    RefTransaction::new(&store).witnessed_by(&log).apply_atomic(&edits).unwrap();
    assert_eq!(log.text.into_inner(), "aborted: 00/y\nprepared: 00/y\ncommitted: 00/y\n");
}
