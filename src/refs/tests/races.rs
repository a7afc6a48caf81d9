//! Many at once: threads of ours, stock git's processes, and `git pack-refs` in between.

use crate::model::ObjectId;
use crate::refs::testing::{
    TestRepository, as_command, commit, create, delete, edit, git_in, name, update,
};
use crate::refs::{
    Applied, Change, Expected, PackedRefsCache, RefEdit, RefError, RefStore, RefTransaction,
};
use bstr::ByteSlice;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const Q: &str = "refs/heads/q";
const QX: &str = "refs/heads/q/x";
const QY: &str = "refs/heads/q/y/z";

/// Each test goes on for about this long.
const TIME: Duration = Duration::from_millis(900);

fn apply(store: &RefStore, edit: RefEdit) -> Result<Applied, RefError> {
    RefTransaction::new(store).apply_each(&[edit]).remove(0)
}

/// Writes a packed-refs file with this many refs that nobody touches.
fn fill(repository: &TestRepository, refs: usize) {
    let header = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    let line = |number| format!("{} refs/fill/{number:06}\n", commit(0));
    let lines: String = (0..refs).map(line).collect();
    repository.write("packed-refs", header + &lines);
}

/// It does not wait for refs that are locked; the next time will do.
const PACK_REFS: [&str; 4] = ["-c", "core.filesRefLockTimeout=0", "pack-refs", "--all"];

/// Ends the other threads of a test, if it fails too.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `git pack-refs` again and again while `work` is done; tells how often it did.
fn while_packing<T>(repository: &TestRepository, work: impl FnOnce() -> T) -> (T, usize) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let packing = scope.spawn(|| {
            let mut times = 0;
            while !done.load(Ordering::Relaxed) {
                // It fails if a lock is held for long; that is its business.
                times += usize::from(repository.try_git(&PACK_REFS, b"").is_ok());
            }
            times
        });
        let result = {
            let _stop = SetWhenDropped(&done);
            work()
        };
        (result, packing.join().unwrap())
    })
}

/// Commits, each given out once.
///
/// `git pack-refs` writes packed-refs, and then removes the file of each ref that still has the
/// value it packed. A ref that is deleted in between and made again with the same value is lost:
/// git cannot tell, nor can we. So where refs are deleted beside it, no value comes twice.
struct Ids {
    ids: Vec<ObjectId>,
    given: AtomicUsize,
}

impl Ids {
    fn new(repository: &TestRepository) -> Self {
        Self { ids: repository.add_commits(4000), given: AtomicUsize::new(0) }
    }

    /// `None` when there are no more; the test has gone on for long enough then.
    fn next(&self) -> Option<ObjectId> {
        self.ids.get(self.given.fetch_add(1, Ordering::Relaxed)).copied()
    }
}

/// Runs `work` in so many threads at the same moment; the outcomes in order.
fn at_once<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (barrier, work) = (Barrier::new(threads), &work);
    thread::scope(|scope| {
        let start = |number| {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                work(number)
            })
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Repeats `round` for the time of a test.
fn repeat(mut round: impl FnMut(usize)) {
    let started = Instant::now();
    let mut number = 0;
    while number < 3 || started.elapsed() < TIME {
        round(number);
        number += 1;
    }
}

fn clean_up(repository: &TestRepository, names: &[&str]) {
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
    let store = repository.store();
    let edits: Vec<_> =
        names.iter().map(|name| edit(name, Expected::Any, Change::Delete)).collect();
    let results = RefTransaction::new(&store).apply_each(&edits);
    // A name below one that is there cannot be deleted, as with git.
    assert!(results.iter().any(Result::is_ok), "{results:?}");
    assert!(store.list().unwrap().refs.iter().all(|one| !one.name.is_branch()));
}

#[test]
fn of_twenty_who_create_one_ref_one_does() {
    let repository = TestRepository::new();
    let cache = Arc::new(PackedRefsCache::new());
    repeat(|round| {
        // Some share a store, as in a server; some are servers of their own.
        let shared = RefStore::with_cache(repository.context(), Arc::clone(&cache));
        let stores: Vec<RefStore> =
            (0..20).map(|n| if n % 2 == 0 { shared.clone() } else { repository.store() }).collect();
        let results = at_once(20, |number| {
            let edit = create(Q, commit(number % 4));
            let pack_from = if (number + round) % 3 == 0 { 1 } else { 300 };
            let transaction = RefTransaction::new(&stores[number]).packing_from(pack_from);
            transaction.apply_each(&[edit]).remove(0)
        });
        let done: Vec<&Applied> = results.iter().flatten().collect();
        assert_eq!(done.len(), 1, "{results:?}");
        assert_eq!(shared.resolve(&name(Q)).unwrap().id, done[0].after);
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            let known = matches!(error, RefError::AlreadyExists { .. } | RefError::Locked { .. });
            assert!(known || matches!(error, RefError::PackedRefsLocked { .. }), "{error}");
        }
        clean_up(&repository, &[Q]);
    });
}

/// Who creates a ref, and how.
#[derive(Clone, Copy, Debug)]
enum Way {
    Loose,
    Packed,
    Git,
}

fn create_by(
    repository: &TestRepository,
    way: Way,
    text: &str,
    id: ObjectId,
) -> Result<(), String> {
    let edit = create(text, id);
    let store = repository.store();
    let transaction = RefTransaction::new(&store);
    match way {
        Way::Git => {
            git_in(&repository.git_dir, &["update-ref", "--stdin"], as_command(&edit).as_bytes())
                .map(drop)
        }
        Way::Loose | Way::Packed => {
            let pack_from = if matches!(way, Way::Packed) { 1 } else { 300 };
            let result = transaction.packing_from(pack_from).apply_each(&[edit]).remove(0);
            result.map(drop).map_err(|error| error.to_string())
        }
    }
}

/// One round: some create `q`, some refs below it; the refs that are there afterwards are of one
/// kind, and are those that were said to be.
fn one_kind_wins(repository: &TestRepository, ways: &[Way], must_win: bool) {
    let asked: Vec<&str> = (0..ways.len()).map(|number| [Q, QX, Q, QY][number % 4]).collect();
    let results =
        at_once(ways.len(), |number| create_by(repository, ways[number], asked[number], commit(0)));
    let won = |which: &str| {
        let pairs = asked.iter().zip(&results);
        pairs.filter(|(name, result)| **name == which && result.is_ok()).count()
    };
    let list = repository.store().list().unwrap();
    let there: Vec<String> = list.refs.iter().map(|one| one.name.to_string()).collect();
    for name in [Q, QX, QY] {
        let is_there = usize::from(there.iter().any(|one| one == name));
        assert_eq!(won(name), is_there, "{name}: {results:?}");
    }
    assert!(won(Q) == 0 || won(QX) + won(QY) == 0, "{results:?}");
    if must_win {
        assert!(won(Q) + won(QX) + won(QY) > 0, "{results:?}");
    }
    clean_up(repository, &[QX, QY, Q]);
}

#[test]
fn of_a_name_and_names_below_it_one_kind_wins() {
    let repository = TestRepository::new();
    repeat(|round| {
        let ways = match round % 3 {
            0 => [Way::Loose; 20],
            1 => [Way::Packed; 20],
            _ => std::array::from_fn(|n| if n / 2 % 2 == 0 { Way::Loose } else { Way::Packed }),
        };
        one_kind_wins(&repository, &ways, true);
    });
}

#[test]
fn of_a_name_and_names_below_it_one_kind_wins_beside_git() {
    let repository = TestRepository::new();
    repeat(|_| {
        let ways: [Way; 16] = std::array::from_fn(|n| match n / 4 {
            0 => Way::Loose,
            1 => Way::Packed,
            _ => Way::Git,
        });
        one_kind_wins(&repository, &ways, false);
    });
}

#[test]
fn of_a_name_and_names_below_it_one_kind_wins_while_git_packs_refs() {
    let repository = TestRepository::new();
    let ids = Ids::new(&repository);
    let ((), times) = while_packing(&repository, || {
        repeat(|_| {
            let Some(id) = ids.next() else { return };
            let ways: [Way; 12] = std::array::from_fn(|n| match n / 4 {
                0 => Way::Loose,
                1 => Way::Packed,
                _ => Way::Git,
            });
            one_kind_wins_and_goes(&repository, &ways, id);
        });
    });
    assert!(times > 1);
}

/// As above, and everything is deleted again.
fn one_kind_wins_and_goes(repository: &TestRepository, ways: &[Way], id: ObjectId) {
    let name_of = |number: usize| [Q, QX, Q, QY][number % 4];
    let results =
        at_once(ways.len(), |number| create_by(repository, ways[number], name_of(number), id));
    let won = |kind: usize| {
        let of_kind = results.iter().enumerate().filter(|(n, _)| n % 2 == kind);
        of_kind.filter(|(_, result)| result.is_ok()).count()
    };
    assert!(won(0) == 0 || won(1) == 0, "{results:?}");
    let store = repository.store();
    let list = store.list().unwrap();
    let there: Vec<&str> =
        list.refs.iter().map(|one| one.name.as_bstr().to_str().unwrap()).collect();
    assert_eq!(there.len(), won(0) + won(1), "{there:?} {results:?}");
    for one in &list.refs {
        while apply(&store, edit(&one.name.to_string(), Expected::Any, Change::Delete)).is_err() {}
    }
}

/// Applies edits while `meanwhile` happens: the locks are held, and everything has been looked
/// at, but nothing has moved.
fn apply_while(
    repository: &TestRepository,
    edits: &[RefEdit],
    atomic: bool,
    pack_from: usize,
    meanwhile: impl Fn(),
) -> Result<(), RefError> {
    let store = repository.store();
    let admit = |_: &[usize]| {
        meanwhile();
        true
    };
    let transaction = RefTransaction::new(&store).packing_from(pack_from).admitted_by(&admit);
    let result = if atomic {
        transaction.apply_atomic(edits).map(drop).map_err(|(_, error)| error)
    } else {
        transaction.apply_each(edits).pop().unwrap().map(drop)
    };
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
    result
}

#[test]
fn a_ref_that_comes_into_the_way_at_the_last_moment_is_seen() {
    for (pack_from, packs) in [(300, false), (300, true), (1, false)] {
        for atomic in [false, true] {
            let repository = TestRepository::new();
            repository.set("refs/heads/a", commit(0));
            let meanwhile = || {
                repository.git(&["update-ref", QX, &commit(2).to_string()]);
                if packs {
                    // Nothing is left of it but a line in packed-refs.
                    repository.git(&["pack-refs", "--all"]);
                    assert!(!repository.exists(Q));
                }
            };
            let edits = [
                update("refs/heads/a", commit(0), commit(1)),
                create("refs/heads/b", commit(1)),
                create(Q, commit(1)),
            ];
            let edits = if atomic { &edits[..] } else { &edits[2..] };
            let error = apply_while(&repository, edits, atomic, pack_from, meanwhile).unwrap_err();
            let text = format!("cannot lock ref '{Q}': '{QX}' exists; cannot create '{Q}'");
            assert_eq!(error.to_string(), text, "{pack_from} {packs} {atomic}");
            let left = format!("{} refs/heads/a \n{} {QX} \n", commit(0), commit(2));
            assert_eq!(repository.refs(), left, "{pack_from} {packs} {atomic}");
        }
    }
}

#[test]
fn what_an_atomic_push_takes_back_is_not_kept_by_git_packing_refs_meanwhile() {
    let repository = TestRepository::new();
    repository.write("packed-refs", format!("{} refs/heads/a\n", commit(0)));
    let store = repository.store();
    let mut edits: Vec<_> =
        (0..250).map(|n| create(&format!("refs/heads/b{n}"), commit(1))).collect();
    edits.push(update("refs/heads/a", commit(0), commit(1)));
    // The last in the order of names, so that all others have moved when it fails.
    edits.push(create(Q, commit(1)));
    let ((), times) = while_packing(&repository, || {
        repeat(|_| {
            let admit = |_: &[usize]| {
                repository.git(&["update-ref", QX, &commit(2).to_string()]);
                while repository.exists(QX) {
                    thread::yield_now();
                }
                true
            };
            let transaction = RefTransaction::new(&store).admitted_by(&admit);
            let (_, error) = transaction.apply_atomic(&edits).unwrap_err();
            assert!(matches!(error, RefError::NameConflict { .. }), "{error}");
            let list = store.list().unwrap().refs;
            let left: Vec<_> = list.iter().map(|one| (one.name.to_string(), one.id)).collect();
            let expected = [("refs/heads/a", commit(0)), (QX, commit(2))];
            assert_eq!(left, expected.map(|(name, id)| (name.to_owned(), id)));
            until_free(|| apply(&store, delete(QX, commit(2))));
        });
    });
    assert!(times > 1);
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
}

#[test]
fn an_empty_directory_that_comes_into_the_way_at_the_last_moment_goes() {
    for (atomic, pack_from) in [(false, 300), (true, 300), (false, 1), (true, 1)] {
        let repository = TestRepository::new();
        let meanwhile = || std::fs::create_dir_all(repository.path("refs/heads/q/x/y")).unwrap();
        let edits = [create(Q, commit(1))];
        apply_while(&repository, &edits, atomic, pack_from, meanwhile).unwrap();
        assert_eq!(repository.refs(), format!("{} {Q} \n", commit(1)));
    }
}

#[test]
fn who_creates_below_a_name_that_is_being_created_gives_way() {
    let repository = TestRepository::new();
    let store = repository.store();
    let held = Barrier::new(2);
    let admit = |_: &[usize]| {
        held.wait();
        thread::sleep(Duration::from_millis(30));
        true
    };
    thread::scope(|scope| {
        let above = scope.spawn(|| {
            let transaction = RefTransaction::new(&store).admitted_by(&admit);
            transaction.apply_each(&[create(Q, commit(0))]).remove(0)
        });
        held.wait();
        let below =
            RefTransaction::new(&store).packing_from(1).apply_each(&[create(QX, commit(1))]);
        assert!(matches!(below[0], Err(RefError::NameConflict { .. })), "{below:?}");
        above.join().unwrap().unwrap();
    });
}

#[test]
fn races_end_the_same_with_a_hundred_thousand_packed_refs() {
    let repository = TestRepository::new();
    fill(&repository, 100_000);
    let cache = Arc::new(PackedRefsCache::new());
    repeat(|round| {
        let store = RefStore::with_cache(repository.context(), Arc::clone(&cache));
        let names = [Q, if round % 2 == 0 { Q } else { QX }];
        let results =
            at_once(20, |number| apply(&store, create(names[number % 2], commit(number % 4))));
        assert_eq!(results.iter().flatten().count(), 1, "{results:?}");
        for applied in results.iter().flatten() {
            let name = applied.name.to_string();
            apply(&store, delete(&name, applied.after.unwrap())).unwrap();
        }
        assert_eq!(repository.leftovers(), [] as [&Path; 0]);
    });
    assert_eq!(repository.store().list().unwrap().refs.len(), 100_000);
}

/// Moves of one ref, if none was lost, make one path from the first value to the last.
fn check_path(moves: &[(ObjectId, ObjectId)], first: ObjectId, last: ObjectId) {
    for value in (0..4).map(commit) {
        let into =
            moves.iter().filter(|(_, new)| *new == value).count() + usize::from(value == first);
        let from =
            moves.iter().filter(|(old, _)| *old == value).count() + usize::from(value == last);
        assert_eq!(into, from, "{value}: {moves:?}");
    }
}

#[test]
fn no_update_is_lost_beside_git_and_while_git_packs_refs() {
    let repository = TestRepository::new();
    repository.set(Q, commit(0));
    let moves = Mutex::new(Vec::new());
    let ((), times) = while_packing(&repository, || {
        let started = Instant::now();
        thread::scope(|scope| {
            for number in 0..6 {
                let (repository, moves) = (&repository, &moves);
                scope.spawn(move || {
                    let store = repository.store();
                    let mut turn = number;
                    while started.elapsed() < TIME {
                        turn += 1;
                        let old = store.resolve(&name(Q)).unwrap().id.expect("never deleted");
                        let new = commit(turn % 4);
                        if old == new {
                            continue;
                        }
                        let edit = update(Q, old, new);
                        let done = if number == 0 {
                            let input = as_command(&edit);
                            repository.try_git(&["update-ref", "--stdin"], input.as_bytes()).is_ok()
                        } else {
                            let pack_from = if turn % 5 == 0 { 1 } else { 300 };
                            let transaction = RefTransaction::new(&store).packing_from(pack_from);
                            transaction.apply_each(&[edit])[0].is_ok()
                        };
                        if done {
                            moves.lock().unwrap().push((old, new));
                        }
                    }
                });
            }
        });
    });
    let moves = moves.into_inner().unwrap();
    assert!(times > 1 && moves.len() > 10, "{times} {}", moves.len());
    let last = repository.store().resolve(&name(Q)).unwrap().id.unwrap();
    check_path(&moves, commit(0), last);
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
}

#[test]
fn what_is_deleted_stays_deleted_and_what_is_created_stays_while_git_packs_refs() {
    let repository = TestRepository::new();
    let ids = Ids::new(&repository);
    let ((), times) = while_packing(&repository, || {
        let started = Instant::now();
        thread::scope(|scope| {
            for number in 0..4 {
                let (repository, ids) = (&repository, &ids);
                scope.spawn(move || {
                    let store = repository.store();
                    // Neighbours in one directory, which comes and goes.
                    let text = format!("refs/heads/d/e/{number}");
                    let value = || store.resolve(&name(&text)).unwrap().id;
                    while started.elapsed() < TIME {
                        let Some(id) = ids.next() else { return };
                        until_free(|| apply(&store, create(&text, id)));
                        for _ in 0..number {
                            assert_eq!(value(), Some(id), "lost");
                        }
                        until_free(|| apply(&store, delete(&text, id)));
                        assert_eq!(value(), None, "came back");
                    }
                });
            }
        });
    });
    assert!(times > 1);
    assert_eq!(repository.refs(), "");
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
}

/// Tries until no lock is in the way; anything else is a failure.
fn until_free(mut act: impl FnMut() -> Result<Applied, RefError>) {
    loop {
        match act() {
            Ok(_) => return,
            Err(RefError::Locked { .. } | RefError::PackedRefsLocked { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn who_reads_never_misses_a_ref_that_is_there() {
    let repository = TestRepository::new();
    let names = ["refs/heads/a", "refs/heads/d/a", "refs/tags/a"];
    let store = repository.store();
    for text in names {
        apply(&store, create(text, commit(0))).unwrap();
    }
    let lists = AtomicUsize::new(0);
    let ((), times) = while_packing(&repository, || {
        let started = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                let store = repository.store();
                let mut turn = 0;
                while started.elapsed() < TIME {
                    turn += 1;
                    for text in names {
                        let change = Change::Set(commit(turn % 4));
                        let _ = apply(&store, edit(text, Expected::Any, change));
                    }
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    let store = repository.store();
                    while started.elapsed() < TIME {
                        assert_eq!(store.list().unwrap().refs.len(), 3);
                        for text in names {
                            assert!(store.resolve(&name(text)).unwrap().id.is_some(), "{text}");
                        }
                        lists.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
    });
    assert!(times > 1 && lists.load(Ordering::Relaxed) > 10);
}

#[test]
fn atomic_pushes_of_the_same_refs_in_any_order_do_not_block_each_other() {
    let repository = TestRepository::new();
    let names: Vec<String> = (0..5).map(|n| format!("refs/heads/n{n}")).collect();
    for name in &names {
        repository.set(name, commit(0));
    }
    let done = AtomicUsize::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        for number in 0..6 {
            let (repository, names, done) = (&repository, &names, &done);
            scope.spawn(move || {
                let store = repository.store();
                let mut turn = number;
                while started.elapsed() < TIME {
                    turn += 1;
                    let old = store.resolve(&name(&names[0])).unwrap().id.unwrap();
                    let mut edits: Vec<_> =
                        names.iter().map(|name| update(name, old, commit(turn % 4))).collect();
                    edits.rotate_left(turn % 5);
                    match RefTransaction::new(&store).apply_atomic(&edits) {
                        Ok(_) => _ = done.fetch_add(1, Ordering::Relaxed),
                        // Who comes too late, or is never let in.
                        Err((_, RefError::OutOfDate { .. } | RefError::Locked { .. })) => {}
                        Err((_, error)) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert!(done.into_inner() > 10);
    let list = repository.store().list().unwrap();
    assert!(list.refs.iter().all(|one| one.id == list.refs[0].id), "torn: {list:?}");
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
}

#[test]
fn git_gc_beside_us_loses_nothing() {
    let repository = TestRepository::new();
    let ids = Ids::new(&repository);
    let started = Instant::now();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..3_usize {
            let (repository, stop, ids) = (&repository, &stop, &ids);
            scope.spawn(move || {
                let store = repository.store();
                let text = format!("refs/heads/g{number}/x");
                let mut held = None;
                let mut turn = number;
                while !stop.load(Ordering::Relaxed) {
                    turn += 1;
                    let Some(id) = ids.next() else { return };
                    let next = (turn % 4 != 3).then_some(id);
                    let expected = held.map_or(Expected::MustNotExist, Expected::MustBe);
                    let change = next.map_or(Change::Delete, Change::Set);
                    if apply(&store, edit(&text, expected, change)).is_ok() {
                        held = next;
                    }
                    assert_eq!(store.resolve(&name(&text)).unwrap().id, held);
                }
            });
        }
        let _stop = SetWhenDropped(&stop);
        let mut times = 0;
        // Unreachable commits may still be named by what we do next.
        while times < 2 || started.elapsed() < TIME {
            repository.git(&["-c", "gc.auto=0", "gc", "--quiet", "--no-prune"]);
            times += 1;
        }
    });
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
    repository.git(&["fsck", "--strict"]);
}
