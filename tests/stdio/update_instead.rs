//! Work trees that follow a push (`receive.denyCurrentBranch=updateInstead`): with a stock client,
//! and what becomes of them if the ref does not move after all. The oracle has the other cases.

use super::{packhouse, run};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO, two_commits};
use crate::support::request::Request;
use std::fs;
use std::path::{Path, PathBuf};

const ATOMIC: &str = "report-status side-band-64k atomic agent=probe";

/// A repository with a work tree in which the first commit is checked out.
struct Deployed {
    scratch: tempfile::TempDir,
    work_tree: PathBuf,
    first: Snapshot,
    second: Snapshot,
}

impl Deployed {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let work_tree = scratch.path().join("w");
        git::run(scratch.path(), &["init", "-q", "-b", "main", "w"]);
        let (first, second) = two_commits();
        git::run_with_input(&work_tree, &["unpack-objects", "-q"], &first.pack());
        git::run(&work_tree, &["reset", "-q", "--hard", &first.id()]);
        git::run(&work_tree, &["config", "receive.denyCurrentBranch", "updateInstead"]);
        Self { scratch, work_tree, first, second }
    }

    fn git_dir(&self) -> PathBuf {
        self.work_tree.join(".git")
    }

    fn push(&self, request: &Request) -> Answer {
        let request = request.clone().pack(self.second.pack()).bytes();
        let output = run(packhouse().arg("--stateless-rpc").arg(&self.work_tree), &request);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        Answer::from_bands(&output.stdout)
    }

    fn to_main(&self) -> Request {
        Request::new().command(&self.first.id(), &self.second.id(), "refs/heads/main")
    }

    /// Whether HEAD, the index and the files are all at this commit.
    fn is_at(&self, snapshot: &Snapshot) -> bool {
        let head = git::run(&self.work_tree, &["rev-parse", "HEAD"]);
        let file = fs::read(self.work_tree.join("f")).unwrap();
        let changes = git::run(&self.work_tree, &["status", "--porcelain", "-uno"]);
        head == *snapshot.id() && file == snapshot.blob.data && changes.is_empty()
    }
}

#[test]
fn a_stock_client_moves_a_clean_work_tree_and_no_other() {
    let deployed = Deployed::new();
    let scratch = deployed.scratch.path();
    git::run(scratch, &["clone", "-q", "w", "clone"]);
    let clone = scratch.join("clone");
    let receiver = format!("--receive-pack={} receive-pack", env!("CARGO_BIN_EXE_packhouse"));
    let push = || git::try_run(&clone, &["push", &receiver, "origin", "main"]);
    fs::write(clone.join("g"), "new\n").unwrap();
    git::run(&clone, &["add", "g"]);
    git::run(&clone, &["commit", "-q", "-m", "g"]);
    fs::write(deployed.work_tree.join("g"), "in the way\n").unwrap();
    let refused = push();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(said.contains("(Could not update working tree to new HEAD)"), "{said}");
    assert!(said.contains("remote: error: Untracked working tree file 'g'"), "{said}");
    assert!(deployed.is_at(&deployed.first));
    fs::remove_file(deployed.work_tree.join("g")).unwrap();
    assert!(push().status.success());
    assert_eq!(fs::read_to_string(deployed.work_tree.join("g")).unwrap(), "new\n");
    assert_eq!(git::run(&deployed.work_tree, &["status", "--porcelain"]), "");
    let log = git::run(&deployed.work_tree, &["reflog", "--format=%gs", "-1"]);
    assert_eq!(log, "push");
    git::assert_sound(&deployed.git_dir());
}

#[test]
fn a_work_tree_is_put_back_if_another_ref_of_an_atomic_push_is_refused() {
    let deployed = Deployed::new();
    let text = "#!/bin/sh\ntest \"$1\" != refs/heads/z || cmp -s ../f old\n";
    git::hook(&deployed.git_dir(), "update", text);
    fs::write(deployed.git_dir().join("old"), &deployed.first.blob.data).unwrap();
    let request = deployed.to_main().capabilities(ATOMIC).command(
        ZERO,
        &deployed.second.id(),
        "refs/heads/z",
    );
    let answer = deployed.push(&request);
    assert_eq!(answer.of("refs/heads/main"), "ng refs/heads/main atomic push failure");
    // The hook saw the work tree where git has it then.
    assert_eq!(answer.of("refs/heads/z"), "ng refs/heads/z hook declined");
    assert!(deployed.is_at(&deployed.first));
    fs::remove_file(deployed.git_dir().join("hooks/update")).unwrap();
    deployed.push(&request).assert_all_ok();
    assert!(deployed.is_at(&deployed.second));
}

#[test]
fn a_work_tree_is_put_back_if_its_ref_cannot_move() {
    for capabilities in ["report-status side-band-64k agent=probe", ATOMIC] {
        let deployed = Deployed::new();
        fs::write(deployed.git_dir().join("refs/heads/main.lock"), "").unwrap();
        let request = deployed.to_main().capabilities(capabilities);
        let answer = deployed.push(&request);
        assert!(answer.of("refs/heads/main").starts_with("ng refs/heads/main "), "{answer:?}");
        assert!(deployed.is_at(&deployed.first), "{answer:?}");
        fs::remove_file(deployed.git_dir().join("refs/heads/main.lock")).unwrap();
        deployed.push(&request).assert_all_ok();
        assert!(deployed.is_at(&deployed.second));
    }
}

#[test]
fn a_work_tree_of_a_branch_that_is_not_born_is_emptied_again() {
    let deployed = Deployed::new();
    let elsewhere = deployed.work_tree.with_file_name("u");
    git::run(deployed.scratch.path(), &["init", "-q", "-b", "main", "u"]);
    git::run(&elsewhere, &["config", "receive.denyCurrentBranch", "updateInstead"]);
    git::hook(&elsewhere.join(".git"), "reference-transaction", "#!/bin/sh\nexit 1\n");
    let first = &deployed.first;
    let request =
        Request::new().command(ZERO, &first.id(), "refs/heads/main").pack(first.pack()).bytes();
    let push = || {
        let output = run(packhouse().arg("--stateless-rpc").arg(&elsewhere), &request);
        Answer::from_bands(&output.stdout)
    };
    assert_eq!(push().of("refs/heads/main"), "ng refs/heads/main failed to update ref");
    assert!(!elsewhere.join("f").exists());
    assert_eq!(git::run(&elsewhere, &["ls-files"]), "");
    fs::remove_file(elsewhere.join(".git/hooks/reference-transaction")).unwrap();
    push().assert_all_ok();
    assert!(elsewhere.join("f").exists());
}

#[test]
fn what_cannot_be_put_back_is_said() {
    let deployed = Deployed::new();
    let text = "#!/bin/sh\ntest \"$1\" != prepared || { echo mine >../f; exit 1; }\n";
    git::hook(&deployed.git_dir(), "reference-transaction", text);
    let answer = deployed.push(&deployed.to_main());
    let warning = "warning: the work tree of 'refs/heads/main' was updated, its branch was not\n";
    assert!(answer.messages.ends_with(warning), "{answer:?}");
    assert_eq!(fs::read_to_string(deployed.work_tree.join("f")).unwrap(), "mine\n");
}

#[test]
fn what_a_hook_has_checked_out_is_not_undone() {
    let deployed = Deployed::new();
    let text = "#!/bin/sh\necho checking out\ngit read-tree -u -m HEAD \"$1\"\n";
    git::hook(&deployed.git_dir(), "push-to-checkout", text);
    let veto = "#!/bin/sh\ntest \"$1\" != prepared\n";
    git::hook(&deployed.git_dir(), "reference-transaction", veto);
    let answer = deployed.push(&deployed.to_main());
    assert!(answer.messages.contains("checking out\n"), "{answer:?}");
    let file = fs::read(deployed.work_tree.join("f")).unwrap();
    assert_eq!(file, deployed.second.blob.data);
}

#[test]
fn each_linked_work_tree_is_asked_whether_its_branch_is_born() {
    let deployed = Deployed::new();
    let linked = deployed.work_tree.with_file_name("l");
    let path = linked.display().to_string();
    git::run(&deployed.work_tree, &["worktree", "add", "-q", "-b", "l", &path]);
    git::run(&deployed.work_tree, &["symbolic-ref", "HEAD", "refs/heads/none"]);
    let request =
        Request::new().command(&deployed.first.id(), &deployed.second.id(), "refs/heads/l");
    deployed.push(&request).assert_all_ok();
    assert_eq!(fs::read(linked.join("f")).unwrap(), deployed.second.blob.data);
    assert_eq!(git::run(&linked, &["status", "--porcelain"]), "");
}

#[test]
fn pushes_through_a_linked_work_tree_see_the_main_one() {
    let deployed = Deployed::new();
    let linked = deployed.work_tree.with_file_name("l");
    let path = linked.display().to_string();
    git::run(&deployed.work_tree, &["worktree", "add", "-q", "-b", "l", &path]);
    let through = |path: &Path, request: &Request| {
        let request = request.clone().pack(deployed.second.pack()).bytes();
        let output = run(packhouse().arg("--stateless-rpc").arg(path), &request);
        Answer::from_bands(&output.stdout)
    };
    through(&linked, &deployed.to_main()).assert_all_ok();
    assert!(deployed.is_at(&deployed.second));
}
