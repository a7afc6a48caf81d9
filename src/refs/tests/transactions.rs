//! What a transaction does to refs, reflogs and directories, and what it says.

use crate::model::ObjectId;
use crate::refs::testing::{
    TestRepository, as_command, commit, create, delete, edit, git_command, name, objects, run,
    update, walk,
};
use crate::refs::{
    Change, Expected, LockTimeout, Peeled, RefContext, RefEdit, RefError, RefSettings, RefStore,
    RefTransaction, ReflogCreation,
};
use crate::repo::{Disk, FlushPolicy};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const X: &str = "refs/heads/x";
const XY: &str = "refs/heads/x/y";

fn apply(repository: &TestRepository, edit: RefEdit) -> Result<crate::refs::Applied, RefError> {
    RefTransaction::new(&repository.store()).apply_each(&[edit]).remove(0)
}

fn value(repository: &TestRepository, text: &str) -> Option<ObjectId> {
    repository.store().resolve(&name(text)).unwrap().id
}

/// What git and we say when the same edit fails in the same place.
fn complaints(prepare: impl Fn(&TestRepository), edit: &RefEdit) -> [String; 2] {
    let said = |ours: bool| {
        let repository = TestRepository::new();
        prepare(&repository);
        let before = repository.refs();
        let text = if ours {
            let store = store_with_timeouts(&repository, LockTimeout::AtMost(Duration::ZERO));
            let result = RefTransaction::new(&store).apply_each(std::slice::from_ref(edit));
            result[0].as_ref().unwrap_err().to_string()
        } else {
            let at_once = ["core.filesRefLockTimeout=0", "core.packedRefsTimeout=0"];
            let args = ["-c", at_once[0], "-c", at_once[1], "update-ref", "--stdin"];
            let text = repository.try_git(&args, as_command(edit).as_bytes()).unwrap_err();
            text.lines().next().unwrap().strip_prefix("fatal: ").unwrap().to_owned()
        };
        assert_eq!(repository.refs(), before);
        // The same, but for where the repository is, and how git names that.
        let root = repository.git_dir.to_str().unwrap().to_owned();
        text.replace(&root, "").replace("'/./", "'/").replace("'./", "'/").replace(" ./", " /")
    };
    [said(true), said(false)]
}

type Preparation = dyn Fn(&TestRepository);

#[test]
fn refusals_are_in_gits_words() {
    let loose = |r: &TestRepository| r.set(X, commit(0));
    let packed = |r: &TestRepository| r.write("packed-refs", format!("{} {X}\n", commit(0)));
    let loose_below = |r: &TestRepository| r.set(XY, commit(0));
    let packed_below = |r: &TestRepository| r.write("packed-refs", format!("{} {XY}\n", commit(0)));
    let none = |_: &TestRepository| {};
    let empty = |r: &TestRepository| r.write(X, "");
    let locked = |r: &TestRepository| r.write("refs/heads/x.lock", "");
    let packed_locked = |r: &TestRepository| {
        r.set(X, commit(0));
        r.write("packed-refs.lock", "");
    };
    let junk_file = |r: &TestRepository| r.write(X, "junk");
    let junk_below = |r: &TestRepository| r.write("refs/heads/x/.junk", "");
    let to_x = |r: &TestRepository| {
        r.write("refs/heads/s", format!("ref: {X}\n"));
        r.set(XY, commit(0));
    };
    let any = |text, change| edit(text, Expected::Any, change);
    let set = Change::Set(commit(1));
    let too_long = format!("refs/heads/{}", "x".repeat(254));
    let much_too_long = format!("refs/heads/{}/x", "x".repeat(300));
    let cases: [(&Preparation, RefEdit); 23] = [
        (&loose, create(X, commit(1))),
        (&packed, create(X, commit(0))),
        (&loose, update(X, commit(2), commit(1))),
        (&packed, delete(X, commit(2))),
        (&none, update(X, commit(2), commit(1))),
        (&none, delete(X, commit(2))),
        (&loose, create(XY, commit(1))),
        (&packed, create(XY, commit(1))),
        (&loose, update(XY, commit(2), commit(1))),
        (&packed, any(XY, Change::Delete)),
        (&loose_below, create(X, commit(1))),
        (&packed_below, any(X, set)),
        (&packed_below, any(X, Change::Delete)),
        (&empty, any(X, set)),
        (&empty, any(X, Change::Delete)),
        (&locked, create(X, commit(1))),
        (&packed_locked, any(X, Change::Delete)),
        (&junk_file, create(XY, commit(1))),
        (&junk_below, create(X, commit(1))),
        (&to_x, any("refs/heads/s", set)),
        (&none, create(&too_long, commit(1))),
        (&none, any(&too_long, Change::Delete)),
        (&none, create(&much_too_long, commit(1))),
    ];
    for (prepare, edit) in cases {
        let [ours, theirs] = complaints(prepare, &edit);
        assert_eq!(ours, theirs);
    }
}

#[test]
fn names_in_each_others_way_in_one_atomic_push_are_refused_in_gits_words() {
    for names in [[X, XY], [XY, X]] {
        let repository = TestRepository::new();
        let edits = names.map(|name| create(name, commit(0)));
        let store = repository.store();
        let (index, error) = RefTransaction::new(&store).apply_atomic(&edits).unwrap_err();
        // git reports the first in the order of the commands, we the first in the order of names.
        let theirs =
            format!("cannot lock ref '{X}': cannot process '{X}' and '{XY}' at the same time");
        assert_eq!((names[index], error.to_string()), (X, theirs.clone()));
        let input: String = [&edits[index], &edits[1 - index]].map(as_command).concat();
        let by_git = repository.try_git(&["update-ref", "--stdin"], input.as_bytes());
        assert_eq!(by_git.unwrap_err(), format!("fatal: {theirs}\n"));
        assert_eq!(repository.refs(), "");
    }
}

#[test]
fn an_atomic_push_that_names_a_ref_twice_is_refused() {
    let repository = TestRepository::new();
    repository.write("refs/heads/s", format!("ref: {X}\n"));
    repository.write("refs/heads/t", format!("ref: {X}\n"));
    let store = repository.store();
    let transaction = RefTransaction::new(&store);
    for names in
        [[X, X], [X, "refs/heads/s"], ["refs/heads/s", X], ["refs/heads/t", "refs/heads/s"]]
    {
        let edits = names.map(|name| create(name, commit(0)));
        // A lock that it waited for in vain would be another error.
        let (_, error) = transaction.apply_atomic(&edits).unwrap_err();
        assert!(matches!(error, RefError::Duplicate { .. }), "{error}");
        assert_eq!(repository.refs(), "");
    }
    let edits = [create(X, commit(0)), create(X, commit(0))];
    let (index, error) = transaction.apply_atomic(&edits).unwrap_err();
    assert_eq!(
        (index, error.to_string().as_str()),
        (1, "multiple updates for ref 'refs/heads/x' not allowed")
    );
}

#[test]
fn of_two_commands_for_one_ref_the_first_wins() {
    for pack_from in [1, 300] {
        let repository = TestRepository::new();
        let store = repository.store();
        let edits = [create(X, commit(0)), create(X, commit(1)), create("refs/heads/z", commit(1))];
        let results = RefTransaction::new(&store).packing_from(pack_from).apply_each(&edits);
        assert!(results[0].is_ok() && results[2].is_ok());
        let text = results[1].as_ref().unwrap_err().to_string();
        assert_eq!(text, "cannot lock ref 'refs/heads/x': reference already exists");
        assert_eq!(value(&repository, X), Some(commit(0)));
    }
}

#[test]
fn a_directory_of_refs_can_become_a_ref_in_one_push_if_the_order_is_right() {
    for loose in [true, false] {
        let repository = TestRepository::new();
        repository.set(XY, commit(0));
        if !loose {
            repository.git(&["pack-refs", "--all"]);
        }
        let store = repository.store();
        let right = [delete(XY, commit(0)), create(X, commit(1))];
        let results = RefTransaction::new(&store).apply_each(&right);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        let wrong = [create(XY, commit(0)), delete(X, commit(1))];
        let results = RefTransaction::new(&store).apply_each(&wrong);
        assert!(matches!(results[0], Err(RefError::NameConflict { .. })), "{results:?}");
        assert!(results[1].is_ok());
        assert_eq!(repository.refs(), "");
    }
}

#[test]
fn deleting_what_does_not_exist_is_done_and_told() {
    let repository = TestRepository::new();
    let applied = apply(&repository, edit(XY, Expected::Any, Change::Delete)).unwrap();
    assert!(applied.did_not_exist());
    repository.set(XY, commit(0));
    let applied = apply(&repository, edit(XY, Expected::Any, Change::Delete)).unwrap();
    assert!(!applied.did_not_exist());
    assert_eq!((applied.before, applied.after), (Some(commit(0)), None));
    let must_not = edit(XY, Expected::MustNotExist, Change::Delete);
    assert!(apply(&repository, must_not).unwrap().did_not_exist());
    assert!(!repository.exists("refs/heads/x"));
    assert!(repository.exists("refs/heads"));
}

#[test]
fn empty_directories_give_way_to_a_ref_and_go_after_one() {
    let repository = TestRepository::new();
    fs::create_dir_all(repository.path("refs/heads/x/a/b")).unwrap();
    fs::create_dir_all(repository.path("refs/heads/x/c")).unwrap();
    apply(&repository, create(X, commit(0))).unwrap();
    assert_eq!(value(&repository, X), Some(commit(0)));
    let deep = "refs/heads/a/b/c/d";
    apply(&repository, create(deep, commit(0))).unwrap();
    apply(&repository, create("refs/heads/a/e", commit(0))).unwrap();
    apply(&repository, delete(deep, commit(0))).unwrap();
    assert!(!repository.exists("refs/heads/a/b") && repository.exists("refs/heads/a/e"));
    apply(&repository, create("refs/pull/1/head", commit(0))).unwrap();
    apply(&repository, delete("refs/pull/1/head", commit(0))).unwrap();
    assert!(!repository.exists("refs/pull/1") && repository.exists("refs/pull"));
}

#[test]
fn a_failed_creation_leaves_no_directories() {
    let repository = TestRepository::new();
    repository.write("packed-refs", format!("{} refs/heads/a/b\n", commit(0)));
    apply(&repository, create("refs/heads/a/b/c/d", commit(0))).unwrap_err();
    assert!(!repository.exists("refs/heads/a"));
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
}

#[test]
fn names_as_long_as_the_file_system_takes_them_are_fine() {
    let repository = TestRepository::new();
    let long = format!("refs/heads/{}", "x".repeat(250));
    let deep = format!("refs/heads/{}end", "directory/".repeat(150));
    for text in [&long, &deep] {
        apply(&repository, create(text, commit(0))).unwrap();
        assert_eq!(value(&repository, text), Some(commit(0)));
    }
    assert_eq!(repository.refs().lines().count(), 2);
    for text in [&long, &deep] {
        apply(&repository, delete(text, commit(0))).unwrap();
    }
    assert!(!repository.exists("refs/heads/directory"));
}

#[test]
fn among_many_creations_those_of_refs_that_exist_go_into_files_at_once() {
    let repository = TestRepository::new();
    repository.write("packed-refs", format!("{} {X}\n", commit(0)));
    let store = repository.store();
    let edits = [
        create("refs/heads/a", commit(0)),
        update(X, commit(0), commit(1)),
        create("refs/heads/z", commit(0)),
    ];
    let admit = |indexes: &[usize]| {
        // The lock of a new ref is not held while the value of another is written.
        assert!(indexes == [1] && !repository.exists("refs/heads/a.lock") || indexes == [0, 2]);
        true
    };
    let transaction = RefTransaction::new(&store).packing_from(3).admitted_by(&admit);
    assert!(transaction.apply_each(&edits).iter().all(Result::is_ok));
    assert_eq!(repository.read(X), format!("{}\n", commit(1)));
    assert!(repository.read("packed-refs").contains(&format!("{} {X}\n", commit(0))));
    assert!(!repository.exists("refs/heads/a") && repository.refs().lines().count() == 3);
}

#[test]
fn an_update_of_a_packed_ref_goes_into_a_file() {
    let repository = TestRepository::new();
    repository.write("packed-refs", format!("{} {X}\n", commit(0)));
    fs::create_dir_all(repository.path("refs/heads/x/empty")).unwrap();
    apply(&repository, update(X, commit(0), commit(1))).unwrap();
    assert_eq!(repository.read(X), format!("{}\n", commit(1)));
    assert_eq!(value(&repository, X), Some(commit(1)));
}

#[test]
fn a_deletion_leaves_the_rest_of_packed_refs_as_it_is() {
    let repository = TestRepository::new();
    repository.set(X, commit(0));
    repository.set("refs/tags/t", objects().tag);
    repository.set("refs/tags/u", objects().tag_of_tag);
    repository.git(&["pack-refs", "--all"]);
    let before = repository.read("packed-refs");
    repository.set(X, commit(1));
    apply(&repository, delete(X, commit(1))).unwrap();
    let line = format!("{} {X}\n", commit(0));
    assert!(before.contains(&line));
    assert_eq!(repository.read("packed-refs"), before.replace(&line, ""));
    assert_eq!(value(&repository, X), None);
    assert!(!repository.exists(X));
}

#[test]
fn packed_refs_is_not_rewritten_for_a_ref_that_is_not_in_it() {
    let repository = TestRepository::new();
    repository.set("refs/heads/other", commit(0));
    repository.git(&["pack-refs", "--all"]);
    repository.set(X, commit(0));
    let inode = || fs::metadata(repository.path("packed-refs")).unwrap().ino();
    let before = inode();
    apply(&repository, delete(X, commit(0))).unwrap();
    assert_eq!(inode(), before);
}

#[test]
fn the_deletions_of_a_push_share_one_rewrite_unless_asked_otherwise() {
    for (one_by_one, renames) in [(false, 1), (true, 20)] {
        let repository = TestRepository::new();
        let names: Vec<String> = (0..20).map(|n| format!("refs/heads/n{n}")).collect();
        for name in &names {
            repository.set(name, commit(0));
        }
        repository.git(&["pack-refs", "--all"]);
        let disk = Disk::new(FlushPolicy::FULL);
        let store = repository.store_on(&disk);
        let edits: Vec<_> = names.iter().map(|name| delete(name, commit(0))).collect();
        let mut transaction = RefTransaction::new(&store);
        if one_by_one {
            transaction = transaction.one_by_one();
        }
        assert!(transaction.apply_each(&edits).iter().all(Result::is_ok));
        assert_eq!(disk.counts().renames, renames);
        assert_eq!(disk.counts().file_flushes, renames);
        assert_eq!(repository.refs(), "");
    }
}

#[test]
fn as_many_refs_as_gits_history_has_cost_a_handful_of_flushes() {
    let repository = TestRepository::new();
    repository.set("refs/heads/before", commit(0));
    repository.git(&["pack-refs", "--all"]);
    repository.set("refs/tags/loose", commit(0));
    let disk = Disk::new(FlushPolicy::FULL);
    let store = repository.store_on(&disk);
    let mut edits: Vec<_> =
        (0..4294).map(|n| create(&format!("refs/tags/d{}/v{n}", n % 9), commit(0))).collect();
    edits.push(create("refs/tags/annotated", objects().tag));
    edits.push(update("refs/tags/loose", commit(0), commit(1)));
    edits.push(create("refs/tags/d1/v1/conflict", commit(0)));
    let peel = |id: &crate::model::oid| {
        if id == objects().tag { Peeled::To(commit(0)) } else { Peeled::NotATag }
    };
    let results = RefTransaction::new(&store).peeling(&peel).apply_each(&edits);
    let failed: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    let counts = disk.counts();
    assert_eq!((counts.file_flushes, counts.directory_flushes, counts.renames), (2, 3, 2));
    assert_eq!(repository.refs().lines().count(), 4294 + 3);
    let peeled = format!("{} refs/tags/annotated^{{}}\n", commit(0));
    assert!(repository.git(&["show-ref", "-d"]).contains(&peeled));
    assert_eq!(repository.read("refs/tags/loose"), format!("{}\n", commit(1)));
    assert!(
        repository
            .read("packed-refs")
            .starts_with("# pack-refs with: peeled fully-peeled sorted \n")
    );
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
    assert!(!repository.exists("refs/tags/d1"));
    repository.git(&["fsck", "--strict"]);
}

#[test]
fn a_push_of_more_refs_than_a_batch_holds_goes_on_in_the_next() {
    let repository = TestRepository::new();
    let disk = Disk::new(FlushPolicy::FULL);
    let store = repository.store_on(&disk);
    let edits: Vec<_> = (0..25).map(|n| create(&format!("refs/tags/{n}"), commit(0))).collect();
    let transaction = RefTransaction::new(&store).packing_from(1).in_batches_of(10);
    assert!(transaction.apply_each(&edits).iter().all(Result::is_ok));
    assert_eq!((repository.refs().lines().count(), disk.counts().renames), (25, 3));
}

#[test]
fn a_symbolic_ref_stays_and_its_target_changes() {
    let repository = TestRepository::new();
    let [s, t] = ["refs/heads/s", "refs/heads/t"];
    repository.write(s, format!("ref: {t}\n"));
    repository.write(t, format!("ref: {X}\n"));
    let applied = apply(&repository, create(s, commit(0))).unwrap();
    assert_eq!((applied.name, applied.before, applied.after), (name(X), None, Some(commit(0))));
    assert_eq!(value(&repository, X), Some(commit(0)));
    let stale = apply(&repository, update(s, commit(1), commit(2))).unwrap_err();
    let text = format!("cannot lock ref '{s}': is at {} but expected {}", commit(0), commit(1));
    assert_eq!(stale.to_string(), text);
    apply(&repository, update(t, commit(0), commit(1))).unwrap();
    apply(&repository, delete(s, commit(1))).unwrap();
    assert!(!repository.exists(X));
    assert_eq!(repository.read(s), format!("ref: {t}\n"));
    let missing = apply(&repository, update(s, commit(1), commit(2))).unwrap_err();
    let text = format!("cannot lock ref '{s}': unable to resolve reference '{X}'");
    assert_eq!(missing.to_string(), text);
}

#[test]
fn a_symbolic_ref_never_leads_a_transaction_out_of_refs() {
    let repository = TestRepository::new();
    repository.set("HEAD", commit(0));
    repository.write(X, "ref: HEAD\n");
    let error = apply(&repository, edit(X, Expected::Any, Change::Set(commit(1)))).unwrap_err();
    assert!(matches!(error, RefError::Broken { .. }), "{error}");
    assert_eq!(repository.read("HEAD"), format!("{}\n", commit(0)));
}

/// All reflogs.
fn logs(repository: &TestRepository) -> BTreeMap<String, String> {
    let mut logs = BTreeMap::new();
    let root = repository.path("logs");
    walk(&root, &mut |path| {
        if path.is_file() {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            logs.insert(name, fs::read_to_string(path).unwrap());
        }
    });
    logs
}

#[test]
fn reflogs_are_those_that_git_writes() {
    let [main, s] = ["refs/heads/main", "refs/heads/s"];
    let edits = [
        create(main, commit(0)),
        update(main, commit(0), commit(1)),
        update(main, commit(1), commit(1)),
        create("refs/tags/t", commit(0)),
        create("refs/notes/a/b", commit(0)),
        delete("refs/notes/a/b", commit(0)),
        create("refs/notes/a", commit(0)),
        create(s, commit(2)),
        update(s, commit(2), commit(3)),
        delete(s, commit(3)),
        delete(main, commit(1)),
        create(main, commit(0)),
    ];
    for setting in [None, Some("true"), Some("always"), Some("false")] {
        for begun in [false, true] {
            let repository = || {
                let repository = TestRepository::new();
                repository.write(s, "ref: refs/heads/target\n");
                if begun {
                    repository.write("logs/refs/heads/main", "before\n");
                    repository.write("logs/HEAD", "");
                }
                repository
            };
            let [ours, theirs] = [repository(), repository()];
            let reflog = ReflogCreation::choose(
                match setting {
                    Some("true") => Some(ReflogCreation::Normal),
                    Some("always") => Some(ReflogCreation::Always),
                    Some(_) => Some(ReflogCreation::Never),
                    None => None,
                },
                true,
            );
            let settings = RefSettings { reflog, ..ours.context().settings };
            let store = RefStore::new(RefContext { settings, ..ours.context() });
            let value = format!("core.logAllRefUpdates={}", setting.unwrap_or_default());
            for (number, edit) in edits.iter().enumerate() {
                let result = RefTransaction::new(&store).apply_each(std::slice::from_ref(edit));
                assert!(result[0].is_ok(), "{result:?}");
                let args = ["-c", &value, "update-ref", "-m", "push", "--stdin"];
                let args = if setting.is_some() { &args[..] } else { &args[2..] };
                theirs.try_git(args, as_command(edit).as_bytes()).unwrap();
                assert_eq!(logs(&ours), logs(&theirs), "{setting:?} {begun} {number}");
            }
            assert_eq!(logs(&ours).is_empty(), !begun && reflog == ReflogCreation::Never);
        }
    }
}

#[test]
fn the_reflogs_of_many_creations_in_one_go_are_written_too() {
    let repository = TestRepository::new();
    let settings = RefSettings { reflog: ReflogCreation::Always, ..repository.context().settings };
    let store = RefStore::new(RefContext { settings, ..repository.context() });
    let edits: Vec<_> = (0..100).map(|n| create(&format!("refs/tags/{n}"), commit(0))).collect();
    let results = RefTransaction::new(&store).packing_from(10).apply_each(&edits);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(logs(&repository).len(), 100);
    let line = format!("{} {} a <a@b> 1000000000 +0000\tpush\n", "0".repeat(40), commit(0));
    assert!(logs(&repository).values().all(|log| *log == line));
    assert!(!repository.exists("refs/tags/7"));
}

#[test]
fn nothing_in_a_message_or_name_begins_a_second_entry() {
    let repository = TestRepository::new();
    repository.write("logs/refs/heads/x", "");
    let settings =
        RefSettings { committer: "a\nb <c>\n 1 +0000".into(), ..repository.context().settings };
    let store = RefStore::new(RefContext { settings, ..repository.context() });
    let edit = RefEdit { message: " one\n two\r\n".into(), ..create(X, commit(0)) };
    RefTransaction::new(&store).apply_each(&[edit])[0].as_ref().unwrap();
    let line = format!("{} {} a b <c> 1 +0000\tone two\n", "0".repeat(40), commit(0));
    assert_eq!(repository.read("logs/refs/heads/x"), line);
}

#[test]
fn a_log_that_cannot_be_written_keeps_the_ref_where_it_was() {
    let repository = TestRepository::new();
    repository.set(X, commit(0));
    repository.write("logs/refs/heads", "a file where a directory should be");
    let settings = RefSettings { reflog: ReflogCreation::Always, ..repository.context().settings };
    let store = RefStore::new(RefContext { settings, ..repository.context() });
    let result = RefTransaction::new(&store).apply_each(&[update(X, commit(0), commit(1))]);
    assert!(result[0].as_ref().unwrap_err().is_server_fault());
    assert_eq!(value(&repository, X), Some(commit(0)));
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
}

#[test]
fn head_is_pointed_at_a_branch_durably() {
    let repository = TestRepository::new();
    let disk = Disk::new(FlushPolicy::FULL);
    let store = repository.store_on(&disk);
    store.set_head(&name("refs/heads/trunk")).unwrap();
    assert_eq!(repository.git(&["symbolic-ref", "HEAD"]), "refs/heads/trunk\n");
    let counts = disk.counts();
    assert_eq!((counts.file_flushes, counts.directory_flushes), (1, 1));
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
    repository.write("HEAD.lock", "");
    assert!(matches!(store.set_head(&name(X)), Err(RefError::Locked { .. })));
}

fn store_with_timeouts(repository: &TestRepository, timeout: LockTimeout) -> RefStore {
    let settings = RefSettings {
        ref_lock_timeout: timeout,
        packed_refs_timeout: timeout,
        ..repository.context().settings
    };
    RefStore::new(RefContext { settings, ..repository.context() })
}

#[test]
fn locks_of_others_are_waited_for_as_long_as_configured() {
    let repository = TestRepository::new();
    repository.set(X, commit(0));
    for lock in ["refs/heads/x.lock", "packed-refs.lock"] {
        repository.write(lock, "");
        let edits = [delete(X, commit(0))];
        let timed = |timeout| {
            let store = store_with_timeouts(&repository, timeout);
            let started = Instant::now();
            let result = RefTransaction::new(&store).apply_each(&edits).remove(0);
            (started.elapsed(), result.unwrap_err().to_string())
        };
        let (at_once, text) = timed(LockTimeout::AtMost(Duration::ZERO));
        assert!(at_once < Duration::from_millis(60), "{at_once:?}");
        assert!(text.ends_with(&format!("/{lock}': File exists.")), "{text}");
        let (later, _) = timed(LockTimeout::AtMost(Duration::from_millis(120)));
        assert!(later >= Duration::from_millis(120), "{later:?}");
        assert!(repository.exists(lock), "a lock of another was removed");
        fs::remove_file(repository.path(lock)).unwrap();
    }
}

#[test]
fn a_lock_that_is_let_go_of_in_time_is_no_failure() {
    let repository = TestRepository::new();
    let lock = repository.path("refs/heads/x.lock");
    fs::write(&lock, b"").unwrap();
    let store = store_with_timeouts(&repository, LockTimeout::Forever);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            fs::remove_file(&lock).unwrap();
        });
        RefTransaction::new(&store).apply_each(&[create(X, commit(0))])[0].as_ref().unwrap();
    });
}

#[test]
fn a_lock_left_at_a_name_above_delays_but_does_not_block_those_below() {
    let repository = TestRepository::new();
    repository.write("refs/heads/x.lock", "");
    apply(&repository, create(XY, commit(0))).unwrap();
}

#[test]
fn who_watches_is_asked_under_the_locks_and_can_say_no() {
    let repository = TestRepository::new();
    repository.set("refs/heads/b", commit(0));
    let store = repository.store();
    let edits = [create(X, commit(0)), delete("refs/heads/b", commit(0))];
    let before = repository.refs();
    for agrees in [false, true] {
        let admit = |indexes: &[usize]| {
            for index in indexes {
                assert!(repository.exists(&format!("{}.lock", edits[*index].name)));
            }
            assert_eq!(repository.refs(), before);
            agrees
        };
        let asked = RefTransaction::new(&store).admitted_by(&admit);
        if agrees {
            assert_eq!(asked.apply_atomic(&edits).unwrap().len(), 2);
        } else {
            let (_, error) = asked.apply_atomic(&edits).unwrap_err();
            assert_eq!(error.to_string(), "ref updates aborted by hook");
            let results = asked.one_by_one().apply_each(&edits);
            assert!(results.iter().all(|result| matches!(result, Err(RefError::Vetoed))));
            assert_eq!(repository.refs(), before);
        }
        assert_eq!(repository.leftovers(), [] as [&Path; 0]);
    }
}

#[test]
fn no_edits_are_no_work() {
    let repository = TestRepository::new();
    let store = repository.store();
    assert!(RefTransaction::new(&store).apply_each(&[]).is_empty());
    assert!(RefTransaction::new(&store).apply_atomic(&[]).unwrap().is_empty());
}

#[test]
fn files_have_the_configured_modes() {
    let repository = TestRepository::new();
    let settings =
        RefSettings { file_mode: 0o640, directory_mode: 0o750, ..repository.context().settings };
    let store = RefStore::new(RefContext { settings, ..repository.context() });
    RefTransaction::new(&store).apply_each(&[create(XY, commit(0))])[0].as_ref().unwrap();
    RefTransaction::new(&store).packing_from(1).apply_each(&[create("refs/tags/t", commit(0))]);
    let mode = |path| fs::metadata(repository.path(path)).unwrap().mode() & 0o777;
    let umask = mode("HEAD") ^ 0o666;
    assert_eq!(mode(XY), 0o640 & !umask);
    assert_eq!(mode(X), 0o750 & !umask);
    assert_eq!(mode("packed-refs"), 0o640 & !umask);
}

#[test]
fn refs_on_another_file_system_can_be_changed() {
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
    let repository = TestRepository::on_disk();
    let refs = elsewhere.path().join("refs");
    fs::create_dir_all(refs.join("heads")).unwrap();
    fs::remove_dir_all(repository.path("refs")).unwrap();
    std::os::unix::fs::symlink(&refs, repository.path("refs")).unwrap();
    let store = repository.store();
    let transaction = RefTransaction::new(&store);
    let result =
        transaction.apply_each(&[create(XY, commit(0)), create("refs/heads/z", commit(0))]);
    assert!(result.iter().all(Result::is_ok), "{result:?}");
    transaction
        .apply_atomic(&[update(XY, commit(0), commit(1)), delete("refs/heads/z", commit(0))])
        .unwrap();
    assert_eq!(repository.refs(), format!("{} {XY} \n", commit(1)));
    assert_eq!(repository.leftovers(), [] as [&Path; 0]);
    let mut left = Vec::new();
    walk(&refs, &mut |path| left.push(path.to_owned()));
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn a_push_by_git_meets_our_lock_and_fails_in_its_own_words() {
    let repository = TestRepository::new();
    repository.set(X, commit(0));
    let store = repository.store();
    let admit = |_: &[usize]| {
        let mut command = git_command(&repository.git_dir, &["update-ref", "--stdin"]);
        command.arg("--no-deref");
        let text = run(command, as_command(&update(X, commit(0), commit(2))).as_bytes());
        assert!(text.unwrap_err().contains("x.lock': File exists."));
        true
    };
    let transaction = RefTransaction::new(&store).admitted_by(&admit);
    transaction.apply_each(&[update(X, commit(0), commit(1))])[0].as_ref().unwrap();
    assert_eq!(value(&repository, X), Some(commit(1)));
}
