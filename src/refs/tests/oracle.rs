//! The same edits through stock git and through packhouse: same outcomes, same texts, same refs.

use crate::model::ObjectId;
use crate::refs::testing::{TestRepository, as_command, commit, edit};
use crate::refs::{Applied, Change, Expected, RefEdit, RefError, RefTransaction};
use proptest::prelude::*;

const NAMES: [&str; 5] =
    ["refs/heads/a", "refs/heads/a/b", "refs/heads/a/b/c", "refs/heads/a-b", "refs/heads/b"];

/// How a ref begins: not, in a file, in packed-refs, or in both with another value.
#[derive(Clone, Copy, Debug)]
enum Start {
    Absent,
    Loose,
    Packed,
    Both,
}

fn starts() -> impl Strategy<Value = [Start; 5]> {
    let start = prop_oneof![
        2 => Just(Start::Absent),
        1 => Just(Start::Loose),
        1 => Just(Start::Packed),
        1 => Just(Start::Both),
    ];
    // `a`, `a/b` and `a/b/c` cannot be together: one of them at most.
    (0..3_usize, prop::array::uniform5(start)).prop_map(|(which, mut starts)| {
        for (index, start) in starts.iter_mut().enumerate().take(3) {
            if index != which {
                *start = Start::Absent;
            }
        }
        starts
    })
}

fn edits() -> impl Strategy<Value = Vec<RefEdit>> {
    let id = (0..3_usize).prop_map(commit);
    let one = (prop::sample::select(&NAMES[..]), 0..5_u8, id.clone(), id);
    let one = one.prop_map(|(name, kind, old, new)| match kind {
        0 => edit(name, Expected::MustNotExist, Change::Set(new)),
        1 => edit(name, Expected::MustBe(old), Change::Set(new)),
        2 => edit(name, Expected::Any, Change::Set(new)),
        3 => edit(name, Expected::MustBe(old), Change::Delete),
        _ => edit(name, Expected::Any, Change::Delete),
    });
    prop::collection::vec(one, 1..6)
}

fn repository(starts: [Start; 5]) -> TestRepository {
    let repository = TestRepository::new();
    let mut packed = Vec::new();
    for (name, start) in NAMES.iter().zip(starts) {
        if matches!(start, Start::Loose | Start::Both) {
            repository.set(name, commit(0));
        }
        if matches!(start, Start::Packed) {
            packed.push(format!("{} {name}\n", commit(0)));
        }
        if matches!(start, Start::Both) {
            packed.push(format!("{} {name}\n", commit(1)));
        }
    }
    packed.sort_by_key(|line| line[41..].to_owned());
    if !packed.is_empty() {
        let header = "# pack-refs with: peeled fully-peeled sorted \n";
        repository.write("packed-refs", header.to_owned() + &packed.concat());
    }
    repository
}

/// What git says without the path of the repository in it, which differs.
fn first_line(complaint: &str) -> String {
    let line = complaint.lines().next().unwrap_or_default();
    line.strip_prefix("fatal: ").unwrap_or(line).to_owned()
}

fn by_git(repository: &TestRepository, edits: &[RefEdit]) -> Vec<Result<(), String>> {
    let one = |edit| repository.try_git(&["update-ref", "--stdin"], as_command(edit).as_bytes());
    edits.iter().map(|edit| one(edit).map(drop).map_err(|text| first_line(&text))).collect()
}

fn texts(results: Vec<Result<Applied, RefError>>) -> Vec<Result<(), String>> {
    let text = |error: RefError| error.to_string();
    results.into_iter().map(|result| result.map(drop).map_err(text)).collect()
}

/// Refs as our own listing has them, in git's words.
fn listed(repository: &TestRepository) -> String {
    let list = repository.store().list().unwrap();
    assert_eq!(list.broken.len(), 0);
    let lines: Vec<String> =
        list.refs.iter().map(|one| format!("{} {} \n", one.id, one.name)).collect();
    lines.concat()
}

fn check_same(ours: &TestRepository, theirs: &TestRepository) -> Result<(), TestCaseError> {
    let (ours_by_git, theirs_by_git) = (ours.refs(), theirs.refs());
    prop_assert_eq!(listed(ours), &*ours_by_git);
    prop_assert_eq!(ours_by_git, theirs_by_git);
    prop_assert_eq!(ours.leftovers(), Vec::<std::path::PathBuf>::new());
    Ok(())
}

/// Each case starts dozens of processes; `PROPTEST_CASES` asks for more cases.
fn config() -> ProptestConfig {
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { 8 };
    ProptestConfig { cases, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn edits_applied_each_for_itself_come_out_as_with_git(starts in starts(), edits in edits()) {
        let theirs = repository(starts);
        let expected = by_git(&theirs, &edits);
        for way in 0..4 {
            let ours = repository(starts);
            let store = ours.store();
            let transaction = RefTransaction::new(&store);
            let results = match way {
                0 => transaction.apply_each(&edits),
                1 => transaction.packing_from(1).apply_each(&edits),
                2 => transaction.packing_from(1).in_batches_of(1).apply_each(&edits),
                _ => transaction.one_by_one().apply_each(&edits),
            };
            prop_assert_eq!(texts(results), expected.clone());
            check_same(&ours, &theirs)?;
        }
    }

    #[test]
    fn atomic_edits_come_out_as_with_git(starts in starts(), edits in edits()) {
        let theirs = repository(starts);
        let commands: String = edits.iter().map(as_command).collect();
        let expected = theirs.try_git(&["update-ref", "--stdin"], commands.as_bytes());
        for pack_from in [1, 300] {
            let ours = repository(starts);
            let before = ours.refs();
            let store = ours.store();
            let transaction = RefTransaction::new(&store).packing_from(pack_from);
            let result = transaction.apply_atomic(&edits);
            prop_assert_eq!(result.is_ok(), expected.is_ok(), "{:?} {:?}", result, &expected);
            if result.is_err() {
                prop_assert_eq!(ours.refs(), before);
            }
            check_same(&ours, &theirs)?;
        }
    }
}

/// Each pair of edits on names that have to do with each other, from each start: not by chance.
#[test]
fn pairs_of_edits_that_get_in_each_others_way_come_out_as_with_git() {
    let pairs = [
        ("refs/heads/a", "refs/heads/a/b"),
        ("refs/heads/a/b", "refs/heads/a"),
        ("refs/heads/a", "refs/heads/a"),
    ];
    let kinds: [fn(&str, ObjectId) -> RefEdit; 3] = [
        |name, id| edit(name, Expected::MustNotExist, Change::Set(id)),
        |name, id| edit(name, Expected::MustBe(id), Change::Delete),
        |name, _| edit(name, Expected::Any, Change::Delete),
    ];
    for (first, second) in pairs {
        for start in [Start::Loose, Start::Packed] {
            for (one, two) in (0..3).flat_map(|one| (0..3).map(move |two| (one, two))) {
                let mut starts = [Start::Absent; 5];
                starts[NAMES.iter().position(|name| *name == first).unwrap()] = start;
                let edits = [kinds[one](first, commit(0)), kinds[two](second, commit(0))];
                let theirs = repository(starts);
                let expected = by_git(&theirs, &edits);
                for pack_from in [1, 300] {
                    let ours = repository(starts);
                    let store = ours.store();
                    let transaction = RefTransaction::new(&store).packing_from(pack_from);
                    assert_eq!(texts(transaction.apply_each(&edits)), expected, "{edits:?}");
                    assert_eq!(ours.refs(), theirs.refs(), "{edits:?}");
                }
            }
        }
    }
}
