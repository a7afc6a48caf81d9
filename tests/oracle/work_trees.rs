//! Pushes to branches that are checked out, where the work tree is to follow
//! (`receive.denyCurrentBranch=updateInstead`). What is in the work trees, in their indexes and
//! reflogs afterwards is part of what is compared.

use super::Scenario;
use super::accepted::Accepted::{Advice, WorkTreeWords};
use super::observe::write_hook;
use super::scenarios::{configure, first, ordinary, scenario, second, seeded};
use crate::support::git;
use crate::support::objects::{ZERO, blob, commit, entry, pack, tree};
use crate::support::request::Request;
use std::fs;
use std::path::{Path, PathBuf};

/// Gives the repository a work tree beside, whose `.git` it is from then on; nothing is committed.
fn unborn(repository: &Path) {
    let work_tree = beside(repository, "w");
    fs::create_dir(&work_tree).unwrap();
    fs::rename(repository, work_tree.join(".git")).unwrap();
    std::os::unix::fs::symlink(work_tree.join(".git"), repository).unwrap();
    git::run(repository, &["config", "core.bare", "false"]);
    configure(repository, "receive.denyCurrentBranch", "updateInstead");
}

/// A work tree with the first commit checked out.
fn clean(repository: &Path) {
    unborn(repository);
    seeded(repository);
    git::run(&beside(repository, "w"), &["reset", "-q", "--hard"]);
}

/// A bare repository with `refs/heads/l` checked out in a linked work tree.
fn linked(repository: &Path) {
    seeded(repository);
    configure(repository, "receive.denyCurrentBranch", "updateInstead");
    let path = beside(repository, "l").display().to_string();
    git::run(repository, &["worktree", "add", "-q", "-b", "l", &path, "main"]);
}

fn beside(repository: &Path, name: &str) -> PathBuf {
    repository.parent().unwrap().join(name)
}

fn clean_and(change: fn(&Path)) -> impl Fn(&Path) {
    move |repository| {
        clean(repository);
        change(&beside(repository, "w"));
    }
}

/// The second commit on top of the first, to the branch of the linked work tree.
fn to_linked(_: &Path) -> Vec<u8> {
    Request::new()
        .command(&first().id(), &second().id(), "refs/heads/l")
        .pack(second().pack())
        .bytes()
}

/// A commit that adds a file `new` to the first.
fn with_new_file(_: &Path) -> Vec<u8> {
    let blob = blob("pushed\n");
    let tree = tree(&[("100644", "f", &first().blob.id()), ("100644", "new", &blob.id())]);
    let commit = commit(&tree.id(), &[&first().id()], "m");
    Request::new()
        .command(&first().id(), &commit.id(), "refs/heads/main")
        .pack(pack(&[entry(&blob), entry(&tree), entry(&commit)]))
        .bytes()
}

fn delete(name: &'static str) -> impl Fn(&Path) -> Vec<u8> {
    move |_| Request::new().command(&first().id(), ZERO, name).bytes()
}

fn push(_: &Path) -> Vec<u8> {
    ordinary().bytes()
}

pub fn all() -> Vec<Scenario> {
    let all = [work_trees_as_they_are(), other_states(), linked_ones(), hooks()];
    let diagnosed = |scenario: Scenario| scenario.diagnosed().accepting(&[WorkTreeWords]);
    all.into_iter().flatten().map(diagnosed).chain(with_advice()).collect()
}

fn work_trees_as_they_are() -> Vec<Scenario> {
    vec![
        scenario("a clean work tree follows", clean, push),
        scenario("a work tree follows to a branch that is born", unborn, |_| {
            Request::new()
                .command(ZERO, &first().id(), "refs/heads/main")
                .pack(first().pack())
                .bytes()
        }),
        scenario(
            "a file of the same name is in the way of a branch that is born",
            |repository| {
                unborn(repository);
                fs::write(beside(repository, "w").join("f"), "mine\n").unwrap();
            },
            |_| {
                Request::new()
                    .command(ZERO, &first().id(), "refs/heads/main")
                    .pack(first().pack())
                    .bytes()
            },
        ),
        scenario(
            "an index with something in it, and nothing committed",
            |repository| {
                unborn(repository);
                let work_tree = beside(repository, "w");
                fs::write(work_tree.join("g"), "mine\n").unwrap();
                git::run(&work_tree, &["add", "g"]);
            },
            |_| {
                Request::new()
                    .command(ZERO, &first().id(), "refs/heads/main")
                    .pack(first().pack())
                    .bytes()
            },
        ),
        scenario(
            "a file that was touched and is the same",
            clean_and(|work_tree| {
                let file = fs::File::options().append(true).open(work_tree.join("f")).unwrap();
                let then = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
                file.set_modified(then).unwrap();
            }),
            push,
        ),
        scenario(
            "a file that was changed",
            clean_and(|work_tree| fs::write(work_tree.join("f"), "mine\n").unwrap()),
            push,
        ),
        scenario(
            "a file that was removed",
            clean_and(|work_tree| fs::remove_file(work_tree.join("f")).unwrap()),
            push,
        ),
        scenario(
            "a change that was staged",
            clean_and(|work_tree| {
                fs::write(work_tree.join("f"), "mine\n").unwrap();
                git::run(work_tree, &["add", "f"]);
            }),
            push,
        ),
        scenario(
            "the very change that is pushed, staged already",
            clean_and(|work_tree| {
                fs::write(work_tree.join("new"), "pushed\n").unwrap();
                git::run(work_tree, &["add", "new"]);
            }),
            with_new_file,
        ),
        scenario(
            "an untracked file in the way",
            clean_and(|work_tree| fs::write(work_tree.join("new"), "mine\n").unwrap()),
            with_new_file,
        ),
        scenario(
            "an untracked file that is not in the way",
            clean_and(|work_tree| fs::write(work_tree.join("other"), "mine\n").unwrap()),
            with_new_file,
        ),
        scenario(
            "an index that is locked",
            clean_and(|work_tree| fs::write(work_tree.join(".git/index.lock"), "").unwrap()),
            push,
        ),
    ]
}

fn other_states() -> Vec<Scenario> {
    vec![
        scenario(
            "a detached HEAD stays where it is",
            clean_and(|work_tree| {
                git::run(work_tree, &["checkout", "-q", "--detach"]);
            }),
            push,
        ),
        scenario(
            "a work tree in the midst of a rebase of the branch",
            clean_and(|work_tree| {
                git::run(work_tree, &["checkout", "-q", "--detach"]);
                fs::create_dir(work_tree.join(".git/rebase-merge")).unwrap();
                let file = work_tree.join(".git/rebase-merge/head-name");
                fs::write(file, "refs/heads/main\n").unwrap();
            }),
            push,
        ),
        scenario(
            "the files of a rebase beside a HEAD that is not detached",
            clean_and(|work_tree| {
                git::run(work_tree, &["checkout", "-q", "-b", "other"]);
                fs::create_dir(work_tree.join(".git/rebase-apply")).unwrap();
                let file = work_tree.join(".git/rebase-apply/head-name");
                fs::write(file, "refs/heads/main\n").unwrap();
            }),
            push,
        ),
        scenario(
            "a work tree that patches are applied to",
            clean_and(|work_tree| {
                git::run(work_tree, &["checkout", "-q", "--detach"]);
                fs::create_dir(work_tree.join(".git/rebase-apply")).unwrap();
                for (file, text) in [("head-name", "refs/heads/main\n"), ("applying", "")] {
                    fs::write(work_tree.join(".git/rebase-apply").join(file), text).unwrap();
                }
            }),
            push,
        ),
        scenario(
            "a work tree in the midst of a bisection",
            clean_and(|work_tree| {
                git::run(work_tree, &["checkout", "-q", "--detach"]);
                fs::write(work_tree.join(".git/BISECT_LOG"), "\n").unwrap();
                fs::write(work_tree.join(".git/BISECT_START"), "main\n").unwrap();
            }),
            push,
        ),
        scenario(
            "a branch that another symbolic ref leads HEAD to",
            clean_and(|work_tree| {
                git::run(work_tree, &["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
                git::run(work_tree, &["symbolic-ref", "HEAD", "refs/heads/alias"]);
            }),
            push,
        ),
        scenario(
            "a repository that says it is bare",
            |repository| {
                clean(repository);
                git::run(repository, &["config", "core.bare", "true"]);
            },
            push,
        ),
        scenario(
            "core.worktree does not count",
            |repository| {
                clean(repository);
                let elsewhere = beside(repository, "elsewhere");
                fs::create_dir(&elsewhere).unwrap();
                let elsewhere = elsewhere.display().to_string();
                git::run(repository, &["config", "core.worktree", &elsewhere]);
            },
            push,
        ),
        scenario(
            "the deletion of the branch, allowed, finds no tree",
            |repository| {
                clean(repository);
                configure(repository, "receive.denyDeleteCurrent", "warn");
            },
            delete("refs/heads/main"),
        ),
        scenario(
            "a step back that is forbidden leaves the work tree alone",
            |repository| {
                clean(repository);
                configure(repository, "receive.denyNonFastForwards", "true");
            },
            |_| {
                let commit = commit(&first().tree.id(), &[], "root");
                Request::new()
                    .command(&first().id(), &commit.id(), "refs/heads/main")
                    .pack(pack(&[entry(&commit)]))
                    .bytes()
            },
        ),
        scenario("an atomic push takes the work tree along", clean, |_| {
            Request::new()
                .capabilities("report-status side-band-64k atomic agent=probe")
                .command(ZERO, &second().id(), "refs/heads/a")
                .command(&first().id(), &second().id(), "refs/heads/main")
                .command(ZERO, &second().id(), "refs/heads/z")
                .pack(second().pack())
                .bytes()
        }),
        scenario(
            "an atomic push in which the work tree refuses",
            clean_and(|work_tree| fs::write(work_tree.join("f"), "mine\n").unwrap()),
            |_| {
                Request::new()
                    .capabilities("report-status side-band-64k atomic agent=probe")
                    .command(ZERO, &second().id(), "refs/heads/a")
                    .command(&first().id(), &second().id(), "refs/heads/main")
                    .command(ZERO, &second().id(), "refs/heads/z")
                    .pack(second().pack())
                    .bytes()
            },
        ),
        scenario(
            "a work tree that refuses, beside other branches",
            clean_and(|work_tree| fs::write(work_tree.join("f"), "mine\n").unwrap()),
            |_| {
                Request::new()
                    .command(ZERO, &second().id(), "refs/heads/a")
                    .command(&first().id(), &second().id(), "refs/heads/main")
                    .command(ZERO, &second().id(), "refs/heads/z")
                    .pack(second().pack())
                    .bytes()
            },
        ),
    ]
}

fn linked_ones() -> Vec<Scenario> {
    vec![
        scenario("a linked work tree of a bare repository follows", linked, to_linked),
        scenario("HEAD of a bare repository is in no work tree", linked, push),
        scenario(
            "a linked work tree beside a main one follows",
            |repository| {
                clean(repository);
                let path = beside(repository, "l").display().to_string();
                git::run(repository, &["worktree", "add", "-q", "-b", "l", &path, "main"]);
            },
            to_linked,
        ),
        scenario(
            "a linked work tree that was changed",
            |repository| {
                linked(repository);
                fs::write(beside(repository, "l").join("f"), "mine\n").unwrap();
            },
            to_linked,
        ),
        scenario(
            "a linked work tree that has gone",
            |repository| {
                linked(repository);
                fs::remove_dir_all(beside(repository, "l")).unwrap();
            },
            to_linked,
        ),
        scenario(
            "a linked work tree that nobody knows the place of",
            |repository| {
                linked(repository);
                fs::remove_file(repository.join("worktrees/l/gitdir")).unwrap();
            },
            to_linked,
        ),
    ]
}

/// Where git says more than we do.
fn with_advice() -> Vec<Scenario> {
    vec![
        scenario("the deletion of the branch", clean, delete("refs/heads/main"))
            .accepting(&[Advice]),
        scenario("the deletion of a linked work tree's branch", linked, delete("refs/heads/l"))
            .accepting(&[Advice]),
        scenario(
            "push-to-checkout that cannot be executed is not there",
            |repository| {
                clean(repository);
                write_hook(repository, "push-to-checkout", "#!/bin/sh\nexit 1\n");
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
                fs::set_permissions(repository.join("hooks/push-to-checkout"), mode).unwrap();
            },
            push,
        ),
    ]
}

fn hooks() -> Vec<Scenario> {
    vec![
        scenario(
            "push-to-checkout runs in place of git's commands",
            |repository| {
                clean(repository);
                write_hook(repository, "push-to-checkout", TELLING_HOOK);
            },
            push,
        ),
        scenario(
            "push-to-checkout of a linked work tree",
            |repository| {
                linked(repository);
                write_hook(repository, "push-to-checkout", TELLING_HOOK);
            },
            to_linked,
        ),
        scenario(
            "push-to-checkout says no",
            |repository| {
                clean(repository);
                let text = "#!/bin/sh\necho no; echo really not >&2\nexit 1\n";
                write_hook(repository, "push-to-checkout", text);
            },
            push,
        ),
        scenario(
            "push-to-checkout checks the branch out whatever has changed",
            |repository| {
                clean(repository);
                fs::write(beside(repository, "w").join("f"), "mine\n").unwrap();
                let text = "#!/bin/sh\ngit reset -q --hard && git read-tree -u -m HEAD \"$1\"\n";
                write_hook(repository, "push-to-checkout", text);
            },
            push,
        ),
        scenario(
            "push-to-checkout is not asked after update has said no",
            |repository| {
                clean(repository);
                write_hook(repository, "update", "#!/bin/sh\nexit 1\n");
                write_hook(repository, "push-to-checkout", TELLING_HOOK);
            },
            push,
        ),
        scenario(
            "push-to-checkout is not asked for a branch that is not checked out",
            |repository| {
                clean(repository);
                write_hook(repository, "push-to-checkout", TELLING_HOOK);
            },
            |_| {
                Request::new()
                    .command(ZERO, &second().id(), "refs/heads/b")
                    .pack(second().pack())
                    .bytes()
            },
        ),
    ]
}

/// Writes down all that it is given. git names its own directory with a dot at the end.
const TELLING_HOOK: &str = r#"#!/bin/sh
{
    echo "== $0 $*"
    pwd
    (cd "$GIT_DIR" && pwd)
    echo "$GIT_WORK_TREE"
    env | grep '^GIT_' | grep -v '^GIT_EXEC_PATH=' | cut -d= -f1 | sort
    cat
    git cat-file -t "$1"
    git rev-parse HEAD
} >>hook.log
"#;
