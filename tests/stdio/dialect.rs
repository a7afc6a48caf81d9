//! What `--dialect` changes, end to end. The expectations are fixed: what git 2.55 was seen to
//! answer, but for the differences that docs/PROTOCOL.md names.

use super::{packhouse, run, seeded};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO, two_commits};
use crate::support::request::Request;
use std::fs;
use std::path::{Path, PathBuf};

/// A bare repository with the first commit at some branches, `packed` packed, and both commits.
struct Scene {
    _scratch: tempfile::TempDir,
    repository: PathBuf,
    first: Snapshot,
    second: Snapshot,
}

impl Scene {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let repository = seeded(scratch.path());
        let (first, second) = two_commits();
        git::run_with_input(&repository, &["unpack-objects", "-q"], &second.pack());
        git::run(&repository, &["update-ref", "refs/keep/second", &second.id()]);
        for name in ["x", "d/e"] {
            git::run(&repository, &["update-ref", &format!("refs/heads/{name}"), &first.id()]);
        }
        git::run(&repository, &["pack-refs", "--all"]);
        git::run(&repository, &["update-ref", "refs/heads/y", &first.id()]);
        Self { _scratch: scratch, repository, first, second }
    }

    /// Pushes commands in which 0, 1 and 2 stand for nothing, the first and the second commit.
    fn push(&self, dialect: &str, commands: &[&str]) -> Answer {
        self.push_with(dialect, "report-status side-band-64k agent=probe", commands)
    }

    fn push_with(&self, dialect: &str, capabilities: &str, commands: &[&str]) -> Answer {
        let id = |digit: &str| match digit {
            "1" => self.first.id(),
            "2" => self.second.id(),
            _ => ZERO.into(),
        };
        let mut request = Request::new().capabilities(capabilities);
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            let name = format!("refs/heads/{}", words[2]);
            request = request.command(&id(words[0]), &id(words[1]), name);
        }
        if commands.iter().any(|command| command.split(' ').nth(1) != Some("0")) {
            request = request.pack(self.second.pack());
        }
        let mut command = packhouse();
        command.args(["--stateless-rpc", "--dialect", dialect]).arg(&self.repository);
        let output = run(&mut command, &request.bytes());
        assert_eq!(output.status.code(), Some(0));
        git::assert_sound(&self.repository);
        Answer::from_bands(&output.stdout)
    }

    /// Names and values of the branches, in the digits of [`push`](Self::push).
    fn branches(&self) -> String {
        let refs = git::refs(&self.repository);
        let refs = refs.replace(&*self.first.id(), "1").replace(&*self.second.id(), "2");
        refs.lines()
            .filter_map(|line| line.split_once(" refs/heads/"))
            .map(|(id, name)| format!("{name}={id} "))
            .collect()
    }

    /// Makes hooks write down what they are told. `verdict` is how they end.
    fn log_hooks(&self, names: &[&str], verdict: &str) {
        for name in names {
            let script = format!(
                "#!/bin/sh\n{{ echo \"{name} $1\"; test {name} = update || cat; }} >>log\n{verdict}\n"
            );
            git::hook(&self.repository, name, &script);
        }
    }

    /// What hooks were told since the last time, in the digits of [`push`](Self::push).
    fn told(&self) -> String {
        let log = self.repository.join("log");
        let text = fs::read_to_string(&log).unwrap_or_default();
        drop(fs::remove_file(log));
        text.replace(&*self.first.id(), "1")
            .replace(&*self.second.id(), "2")
            .replace(ZERO, "0")
            .replace("refs/heads/", "")
    }
}

const COMMANDS: [&str; 7] =
    ["1 0 y", "2 1 x", "0 2 new", "0 2 d", "0 1 main", "1 0 none", "0 2 main/below"];

#[test]
fn each_refused_ref_is_told_for_what_and_the_others_move() {
    let scene = Scene::new();
    let answer = scene.push("2.55", &COMMANDS);
    let expected = [
        "unpack ok",
        "ok refs/heads/y",
        "ng refs/heads/x incorrect old value provided",
        "ok refs/heads/new",
        "ng refs/heads/d refname conflict",
        "ng refs/heads/main reference already exists",
        "ng refs/heads/none reference does not exist",
        "ng refs/heads/main/below refname conflict",
    ];
    assert_eq!(answer.report, expected);
    let (first, second) = (scene.first.id(), scene.second.id());
    let messages = format!(
        "error: cannot lock ref 'refs/heads/none': unable to resolve reference 'refs/heads/none'\n\
         error: cannot lock ref 'refs/heads/x': is at {first} but expected {second}\n\
         error: 'refs/heads/d/e' exists; cannot create 'refs/heads/d'\n\
         error: cannot lock ref 'refs/heads/main': reference already exists\n\
         error: 'refs/heads/main' exists; cannot create 'refs/heads/main/below'\n"
    );
    assert_eq!(answer.messages, messages);
    assert_eq!(scene.branches(), "d/e=1 main=1 new=2 x=1 ");
}

#[test]
fn without_the_setting_there_is_one_text_for_all_reasons() {
    let scene = Scene::new();
    let answer = scene.push("2.47", &COMMANDS);
    let refused = answer.report.iter().filter(|line| line.starts_with("ng "));
    let texts: Vec<&str> = refused.map(|line| line.splitn(3, ' ').last().unwrap()).collect();
    assert_eq!(texts, ["failed to update ref"; 5]);
    assert_eq!(scene.branches(), "d/e=1 main=1 new=2 x=1 ");
    let scene = Scene::new();
    let request = Request::new().command(&scene.second.id(), ZERO, "refs/heads/x").bytes();
    for (dialect, text) in
        [(None, "failed to update ref"), (Some("2.55"), "incorrect old value provided")]
    {
        let mut command = packhouse();
        command.arg("--stateless-rpc").arg(&scene.repository);
        command
            .env_remove("PACKHOUSE_DIALECT")
            .envs(dialect.map(|name| ("PACKHOUSE_DIALECT", name)));
        let answer = Answer::from_bands(&run(&mut command, &request).stdout);
        assert_eq!(answer.of("refs/heads/x"), format!("ng refs/heads/x {text}"));
    }
}

#[test]
fn a_dialect_that_does_not_exist_is_refused_with_those_that_do() {
    let output = run(packhouse().args(["--dialect", "2.50", "r.git"]), b"");
    assert_eq!(output.status.code(), Some(129));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("there is no dialect '2.50'; there are 2.47 and 2.55"), "{text}");
}

#[test]
fn deletions_come_first_and_make_room() {
    let scene = Scene::new();
    scene.push("2.55", &["0 2 d", "1 0 d/e"]).assert_all_ok();
    assert_eq!(scene.branches(), "d=2 main=1 x=1 y=1 ");
    // In the older dialect the order is the pusher's.
    let scene = Scene::new();
    let answer = scene.push("2.47", &["0 2 d", "1 0 d/e"]);
    assert_eq!(answer.of("refs/heads/d"), "ng refs/heads/d failed to update ref");
}

#[test]
fn hooks_see_two_transactions_and_what_is_refused_not_after_it_is() {
    let scene = Scene::new();
    scene.log_hooks(&["update", "reference-transaction"], "");
    scene.push("2.55", &["1 2 main", "1 0 y", "2 1 x", "0 2 new"]);
    let expected = "update y\n\
                    reference-transaction preparing\n1 0 y\n\
                    reference-transaction aborted\n0 0 y\n\
                    reference-transaction prepared\n1 0 y\n\
                    reference-transaction committed\n1 0 y\n\
                    update main\nupdate x\nupdate new\n\
                    reference-transaction preparing\n1 2 main\n2 1 x\n0 2 new\n\
                    reference-transaction prepared\n1 2 main\n0 2 new\n\
                    reference-transaction committed\n1 2 main\n0 2 new\n";
    assert_eq!(scene.told().replace("update refs/heads/", "update "), expected);
}

#[test]
fn a_batch_whose_refs_the_update_hook_refuses_is_told_of_as_empty() {
    let scene = Scene::new();
    scene.log_hooks(&["reference-transaction"], "");
    git::hook(&scene.repository, "update", "#!/bin/sh\nexit 1\n");
    let answer = scene.push("2.55", &["1 2 x"]);
    assert_eq!(answer.of("refs/heads/x"), "ng refs/heads/x hook declined");
    let states = ["preparing", "prepared", "committed"];
    let expected: String =
        states.iter().map(|state| format!("reference-transaction {state}\n")).collect();
    assert_eq!(scene.told(), expected);
}

#[test]
fn a_no_of_the_hook_ends_the_push_in_either_state() {
    for state in ["preparing", "prepared"] {
        let scene = Scene::new();
        let before = scene.branches();
        scene.log_hooks(&["reference-transaction"], &format!("test \"$1\" != {state}"));
        let answer = scene.push("2.55", &["1 0 y", "1 2 x"]);
        let expected = ["y", "x"].map(|name| format!("ng refs/heads/{name} failed to update refs"));
        assert_eq!(answer.report[1..], expected);
        assert_eq!(answer.messages, "error: ref updates aborted by hook\n");
        assert_eq!(scene.branches(), before);
        assert!(scene.told().ends_with("reference-transaction aborted\n1 0 y\n"));
    }
}

#[test]
fn a_list_that_names_a_ref_twice_fails_as_a_whole_and_what_moved_before_is_told() {
    let scene = Scene::new();
    let answer = scene.push("2.55", &["0 2 k", "0 2 k", "1 0 y", "0 2 l"]);
    let refused = |name| format!("ng refs/heads/{name} failed to update refs");
    let expected = [refused("k"), refused("k"), "ok refs/heads/y".into(), refused("l")];
    assert_eq!(answer.report[1..], expected);
    assert_eq!(answer.messages, "error: multiple updates for ref 'refs/heads/k' not allowed\n");
    assert_eq!(scene.branches(), "d/e=1 main=1 x=1 ");
}

#[test]
fn an_atomic_push_fails_in_the_words_it_had() {
    let scene = Scene::new();
    let before = scene.branches();
    scene.log_hooks(&["reference-transaction"], "");
    let atomic = "report-status side-band-64k atomic agent=probe";
    let answer = scene.push_with("2.55", atomic, &["1 0 y", "2 1 x"]);
    let expected = ["y", "x"].map(|name| format!("ng refs/heads/{name} atomic transaction failed"));
    assert_eq!(answer.report[1..], expected);
    let expected = "reference-transaction preparing\n1 0 y\n2 1 x\n\
                    reference-transaction aborted\n0 0 y\n";
    assert_eq!(scene.told(), expected);
    assert_eq!(scene.branches(), before);
}

#[test]
fn a_symbolic_ref_and_one_in_a_namespace_are_reported_as_what_they_are() {
    let scene = Scene::new();
    git::run(&scene.repository, &["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    let answer = scene.push("2.55", &["2 1 alias"]);
    let expected = "ng refs/heads/alias incorrect old value provided";
    assert_eq!(answer.of("refs/heads/alias"), expected);
    let inside = "refs/namespaces/n/refs/heads/x";
    git::run(&scene.repository, &["update-ref", inside, &scene.first.id()]);
    let request = Request::new().command(&scene.second.id(), ZERO, "refs/heads/x").bytes();
    let mut command = packhouse();
    command.args(["--stateless-rpc", "--dialect=2.55"]).arg(&scene.repository);
    let answer = Answer::from_bands(&run(command.env("GIT_NAMESPACE", "n"), &request).stdout);
    assert_eq!(answer.of("refs/heads/x"), "ng refs/heads/x incorrect old value provided");
}

#[test]
fn where_refs_are_a_reftable_the_texts_are_the_same() {
    let scratch = tempfile::tempdir().unwrap();
    let arguments = ["init", "-q", "--bare", "-b", "main", "--ref-format=reftable", "r.git"];
    git::run(scratch.path(), &arguments);
    let repository = scratch.path().join("r.git");
    let (first, second) = two_commits();
    git::run_with_input(&repository, &["unpack-objects", "-q"], &first.pack());
    for name in ["refs/heads/x", "refs/heads/d/e"] {
        git::run(&repository, &["update-ref", name, &first.id()]);
    }
    let request = Request::new()
        .command(ZERO, &second.id(), "refs/heads/x")
        .command(&second.id(), &first.id(), "refs/heads/d/e")
        .command(ZERO, &second.id(), "refs/heads/d")
        .command(&first.id(), &second.id(), "refs/heads/none")
        .command(ZERO, &second.id(), "refs/heads/new")
        .pack(second.pack())
        .bytes();
    let mut command = packhouse();
    command.args(["--stateless-rpc", "--dialect=2.55"]).arg(&repository);
    let answer = Answer::from_bands(&run(&mut command, &request).stdout);
    let expected = [
        "ng refs/heads/x reference already exists",
        "ng refs/heads/d/e incorrect old value provided",
        "ng refs/heads/d refname conflict",
        "ng refs/heads/none reference does not exist",
        "ok refs/heads/new",
    ];
    assert_eq!(answer.report[1..], expected);
}

#[test]
fn a_work_tree_is_where_core_worktree_says() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    git::run(scratch.path(), &["init", "-q", "-b", "main", "--separate-git-dir=g.git", "w"]);
    let (first, second) = two_commits();
    git::run_with_input(&path("g.git"), &["unpack-objects", "-q"], &first.pack());
    git::run(&path("w"), &["reset", "-q", "--hard", &first.id()]);
    git::run(&path("w"), &["config", "receive.denyCurrentBranch", "updateInstead"]);
    git::run(&path("w"), &["config", "core.worktree", path("w").to_str().unwrap()]);
    let request = Request::new()
        .command(&first.id(), &second.id(), "refs/heads/main")
        .pack(second.pack())
        .bytes();
    let mut command = packhouse();
    command.args(["--stateless-rpc", "--dialect=2.55"]).arg(path("g.git"));
    Answer::from_bands(&run(&mut command, &request).stdout).assert_all_ok();
    let file = |directory: &str| fs::read(Path::new(&path(directory)).join("f")).ok();
    assert_eq!(file("w"), Some(second.blob.data.clone()));
    assert_eq!(file("g.git"), None);
}
