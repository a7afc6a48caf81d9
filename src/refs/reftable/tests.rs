//! The same edits through git and through us, on repositories whose refs are a reftable.

use super::{Reftable, ReftableCache};
use crate::model::{HashKind, ObjectId};
use crate::refs::testing::{create, delete, edit, id_of, name, update};
use crate::refs::{
    Change, Expected, Ref, RefContext, RefEdit, RefError, RefSettings, RefStore, RefTransaction,
    RefValue, ReflogCreation, ToldUpdate, TransactionState, Witness,
};
use crate::repo::{Disk, Environment, FlushPolicy, InFlight, Operation};
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const MAIN: &str = "refs/heads/main";
const X: &str = "refs/heads/x";

/// A bare repository with two commits and no refs.
struct Scene {
    root: tempfile::TempDir,
    git_dir: PathBuf,
    commits: [ObjectId; 2],
    cache: Arc<ReftableCache>,
    disk: Disk,
}

impl Scene {
    fn new() -> Self {
        Self::on(Disk::new(FlushPolicy::NONE))
    }

    fn on(disk: Disk) -> Self {
        let root = tempfile::tempdir().unwrap();
        let git_dir = root.path().join("r.git");
        let path = git_dir.to_str().unwrap();
        git(root.path(), &["init", "-q", "--bare", "-b", "main", "--ref-format=reftable", path]);
        let tree = git(&git_dir, &["mktree"]);
        let commits =
            ["1", "2"].map(|text| id_of(&git(&git_dir, &["commit-tree", "-m", text, tree.trim()])));
        Self { root, git_dir, commits, cache: Arc::default(), disk }
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.git_dir, arguments)
    }

    fn context(&self) -> RefContext {
        RefContext {
            disk: self.disk.clone(),
            git_dir: self.git_dir.clone(),
            common_dir: self.git_dir.clone(),
            hash: HashKind::Sha1,
            namespace: None,
            settings: RefSettings::default(),
            in_flight: InFlight::none(),
        }
    }

    fn store(&self) -> RefStore {
        self.store_with(self.context(), &[])
    }

    fn store_with(&self, context: RefContext, more: &[(&str, &str)]) -> RefStore {
        let mut environment: Environment = variables().into_iter().collect();
        for (name, value) in more {
            environment.set(name, value);
        }
        RefStore::with_reftable(context, Reftable::new(environment, Arc::clone(&self.cache)))
    }

    fn hook(&self, text: &str) {
        let path = self.git_dir.join("hooks/reference-transaction");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn refs(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname) %(objectname)"])
    }
}

fn variables() -> Vec<(&'static str, std::ffi::OsString)> {
    let mut variables = vec![("PATH", std::env::var_os("PATH").unwrap())];
    for (name, value) in [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@b"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@b"),
    ] {
        variables.push((name, value.into()));
    }
    variables
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(directory).env_clear().envs(variables()).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?} {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn each(store: &RefStore, edits: &[RefEdit]) -> Vec<String> {
    let outcomes = RefTransaction::new(store).apply_each(edits);
    outcomes
        .into_iter()
        .map(|outcome| outcome.map_or_else(|e| e.to_string(), |_| String::new()))
        .collect()
}

#[test]
fn refs_are_read_as_git_shows_them() {
    let scene = Scene::new();
    let [one, two] = scene.commits;
    let store = scene.store();
    assert!(store.list().unwrap().refs.is_empty());
    assert_eq!(store.head().unwrap(), Some(RefValue::Symbolic(MAIN.into())));
    assert_eq!(store.resolve_head().unwrap().id, None);
    scene.git(&["update-ref", MAIN, &one.to_string()]);
    scene.git(&["update-ref", "refs/tags/дом", &two.to_string()]);
    scene.git(&["update-ref", "ORIG_HEAD", &two.to_string()]);
    scene.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/mid"]);
    scene.git(&["symbolic-ref", "refs/heads/mid", MAIN]);
    let line = |one: &Ref| format!("{} {}\n", one.name, one.id);
    let list = store.list().unwrap();
    assert_eq!(list.refs.iter().map(line).collect::<String>(), scene.refs());
    assert_eq!(list.refs[0].symbolic_target, Some(MAIN.into()));
    assert_eq!(store.resolve_head().unwrap().id, Some(one));
    let alias = store.resolve(&name("refs/heads/alias")).unwrap();
    assert!(alias.is_symbolic() && alias.target() == MAIN && alias.id == Some(one));
    assert_eq!(store.find(&name(X)).unwrap(), None);
    assert_eq!(store.find(&name(MAIN)).unwrap(), Some(RefValue::Id(one)));
    scene.git(&["update-ref", "--no-deref", "HEAD", &two.to_string()]);
    assert_eq!(store.head().unwrap(), Some(RefValue::Id(two)));
}

#[test]
fn a_change_is_seen_at_once_whoever_made_it() {
    let scene = Scene::new();
    let store = scene.store();
    for round in 0..10 {
        let [old, new] =
            if round % 2 == 0 { scene.commits } else { [scene.commits[1], scene.commits[0]] };
        scene.git(&["update-ref", X, &new.to_string()]);
        assert_eq!(store.resolve(&name(X)).unwrap().id, Some(new));
        assert_eq!(each(&store, &[update(X, new, old)]), [""]);
        assert_eq!(store.resolve(&name(X)).unwrap().id, Some(old));
    }
}

#[test]
fn refs_that_stay_as_they_are_are_read_once() {
    let scene = Scene::new();
    scene.git(&["update-ref", X, &scene.commits[0].to_string()]);
    std::thread::sleep(std::time::Duration::from_millis(100));
    let store = scene.store();
    store.view().unwrap();
    // From here on nothing could be read.
    let mut broken = Environment::empty();
    broken.set("PATH", "/nowhere");
    let reftable = Reftable::new(broken, Arc::clone(&scene.cache));
    let store = RefStore::with_reftable(scene.context(), reftable);
    assert_eq!(store.resolve(&name(X)).unwrap().id, Some(scene.commits[0]));
    assert!(store.of_work_tree(&scene.root.path().join("w")).resolve_head().is_err());
}

#[test]
fn each_edit_stands_for_itself_and_is_refused_in_git_s_words() {
    let scene = Scene::new();
    let [one, two] = scene.commits;
    let store = scene.store();
    let lost = id_of(&"1".repeat(40));
    assert_eq!(each(&store, &[create(MAIN, one), create(X, one)]), ["", ""]);
    let outcomes = each(
        &store,
        &[
            create(MAIN, two),
            update(X, two, one),
            create("refs/heads/new", two),
            create("refs/heads/x/below", one),
            create("refs/heads", one),
            delete("refs/heads/none", one),
            edit("refs/heads/none", Expected::Any, Change::Delete),
            create("refs/heads/lost", lost),
            delete(X, one),
            create("refs/heads/x/below", two),
        ],
    );
    assert_eq!(
        outcomes,
        [
            "cannot lock ref 'refs/heads/main': reference already exists",
            &format!("cannot lock ref '{X}': is at {one} but expected {two}"),
            "",
            "'refs/heads/x' exists; cannot create 'refs/heads/x/below'",
            "'refs/heads/main' exists; cannot create 'refs/heads'",
            "cannot lock ref 'refs/heads/none': unable to resolve reference 'refs/heads/none'",
            "",
            &format!("trying to write ref 'refs/heads/lost' with nonexistent object {lost}"),
            "",
            "",
        ]
    );
    let expected = format!("{MAIN} {one}\nrefs/heads/new {two}\nrefs/heads/x/below {two}\n");
    assert_eq!(scene.refs(), expected);
}

#[test]
fn an_atomic_transaction_changes_all_or_nothing() {
    let scene = Scene::new();
    let [one, two] = scene.commits;
    let store = scene.store();
    let atomic = |edits: &[RefEdit]| RefTransaction::new(&store).apply_atomic(edits);
    assert_eq!(atomic(&[create(MAIN, one), create(X, one)]).unwrap().len(), 2);
    let (_, error) = atomic(&[update(MAIN, one, two), create(X, two)]).unwrap_err();
    assert!(!error.is_server_fault(), "{error}");
    assert_eq!(scene.refs(), format!("{MAIN} {one}\n{X} {one}\n"));
    let (_, error) = atomic(&[create("refs/a/b", one), create("refs/a/b", one)]).unwrap_err();
    assert_eq!(error.to_string(), "multiple updates for ref 'refs/a/b' not allowed");
    assert!(atomic(&[]).unwrap().is_empty());
}

#[derive(Default)]
struct Ears(RefCell<String>);

impl Witness for Ears {
    fn see(&self, state: TransactionState, _: &[ToldUpdate]) -> bool {
        panic!("git tells the hook of {state}")
    }

    fn hear(&self, said: &[u8]) {
        self.0.borrow_mut().push_str(std::str::from_utf8(said).unwrap());
    }
}

#[test]
fn git_tells_the_hook_of_each_transaction_once_and_is_stopped_by_it() {
    let scene = Scene::new();
    let [one, _] = scene.commits;
    scene.hook("#!/bin/sh\necho \"$1\" >>told\ncat >>told\necho word >&2\n! grep -q stop told\n");
    let store = scene.store();
    let ears = Ears::default();
    let transaction = RefTransaction::new(&store).witnessed_by(&ears);
    let outcomes = transaction.apply_each(&[create(X, one), create("refs/heads/y", one)]);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let null = "0".repeat(40);
    let told = |name: &str| {
        let line = format!("{null} {one} {name}\n");
        format!("prepared\n{line}committed\n{line}")
    };
    let expected = format!("{}{}", told(X), told("refs/heads/y"));
    assert_eq!(fs::read_to_string(scene.git_dir.join("told")).unwrap(), expected);
    assert_eq!(ears.0.take(), "word\n".repeat(4));
    let outcomes = transaction.apply_each(&[create("refs/heads/stop", one), create(MAIN, one)]);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(RefError::Vetoed))));
    assert_eq!(scene.refs(), format!("{X} {one}\nrefs/heads/y {one}\n"));
}

#[test]
fn reflogs_are_begun_as_the_setting_says() {
    for (reflog, logged) in [
        (ReflogCreation::Never, ""),
        (ReflogCreation::Normal, "HEAD\nrefs/heads/main\n"),
        (ReflogCreation::Always, "HEAD\nrefs/heads/main\nrefs/tags/t\n"),
    ] {
        let scene = Scene::new();
        let settings = RefSettings { reflog, ..RefSettings::default() };
        let store = scene.store_with(RefContext { settings, ..scene.context() }, &[]);
        let [one, _] = scene.commits;
        assert_eq!(each(&store, &[create(MAIN, one), create("refs/tags/t", one)]), ["", ""]);
        assert_eq!(scene.git(&["reflog", "list"]), logged);
        if !logged.is_empty() {
            assert_eq!(scene.git(&["reflog", "--format=%gs %gn", MAIN]), "push a\n");
        }
    }
}

#[test]
fn tables_and_their_directory_are_flushed_as_the_policy_says() {
    for (policy, flushed) in [(FlushPolicy::FULL, true), (FlushPolicy::NONE, false)] {
        let (disk, recorder) = Disk::recording(policy);
        let scene = Scene::on(disk);
        scene.git(&["config", "core.fsync", if flushed { "none" } else { "all" }]);
        let events = scene.root.path().join("events");
        let trace = [("GIT_TRACE2_EVENT", events.to_str().unwrap())];
        let store = scene.store_with(scene.context(), &trace);
        assert_eq!(each(&store, &[create(X, scene.commits[0])]), [""]);
        let events = fs::read_to_string(&events).unwrap();
        assert_eq!(events.contains("\"hardware-flush\""), flushed, "{events}");
        let reftable = scene.git_dir.join("reftable");
        let operations = recorder.operations();
        let is_flush = |one: &Operation| matches!(one, Operation::FlushDirectory { path } if *path == reftable);
        assert_eq!(operations.iter().any(is_flush), flushed);
    }
}

#[test]
fn a_work_tree_has_its_own_head() {
    let scene = Scene::new();
    let [one, two] = scene.commits;
    scene.git(&["update-ref", MAIN, &one.to_string()]);
    let path = scene.root.path().join("w");
    scene.git(&["worktree", "add", "-q", "-b", "w", path.to_str().unwrap(), &two.to_string()]);
    let store = scene.store().of_work_tree(&scene.git_dir.join("worktrees/w"));
    let head = store.resolve_head().unwrap();
    assert_eq!((head.target(), head.id), ("refs/heads/w".into(), Some(two)));
    assert_eq!(scene.store().resolve_head().unwrap().target(), MAIN);
}

#[test]
fn what_git_cannot_do_is_a_fault_of_the_server() {
    let scene = Scene::new();
    let list = scene.git_dir.join("reftable/tables.list");
    fs::write(&list, "no-such-table.ref\n").unwrap();
    let store = scene.store();
    assert!(store.view().unwrap_err().is_server_fault());
    let outcomes = RefTransaction::new(&store).apply_each(&[create(X, scene.commits[0])]);
    assert!(outcomes[0].as_ref().unwrap_err().is_server_fault(), "{outcomes:?}");
    let store = scene.store_with(scene.context(), &[("PATH", "/nowhere")]);
    let outcomes = RefTransaction::new(&store).apply_each(&[create(X, scene.commits[0])]);
    let error = outcomes[0].as_ref().unwrap_err();
    assert!(error.is_server_fault() && !error.may_have_moved(), "{error}");
}
