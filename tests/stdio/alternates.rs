//! Forks: what the tips of alternates spare a client.

use super::packhouse;
use crate::support::git;
use crate::support::objects::Snapshot;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A store with five refs, some of them packed, and a fork that borrows from it.
struct Fork {
    scratch: tempfile::TempDir,
    parent: PathBuf,
    fork: PathBuf,
    commits: Vec<String>,
}

impl Fork {
    fn new(format: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let parent = scratch.path().join("parent.git");
        let ref_format = format!("--ref-format={format}");
        git::run(scratch.path(), &["init", "-q", "--bare", &ref_format, "parent.git"]);
        let mut commits: Vec<String> = Vec::new();
        for number in 0..4 {
            let before: Vec<&str> = commits.last().map(String::as_str).into_iter().collect();
            let snapshot = Snapshot::new(&format!("{number}\n"), &before);
            git::run_with_input(&parent, &["unpack-objects", "-q"], &snapshot.pack());
            commits.push(snapshot.id());
        }
        for (name, at) in [("heads/main", 3), ("heads/old", 0), ("tags/v1", 1), ("pull/1/head", 2)]
        {
            git::run(&parent, &["update-ref", &format!("refs/{name}"), &commits[at]]);
        }
        git::run(&parent, &["pack-refs", "--all"]);
        git::run(&parent, &["update-ref", "refs/heads/again", &commits[3]]);
        let fork = git::init_bare(&scratch.path().join("fork.git"));
        let this = Self { scratch, parent, fork, commits };
        this.borrow(&this.fork, &[&this.parent]);
        this
    }

    fn borrow(&self, from: &Path, stores: &[&Path]) {
        let lines: Vec<String> =
            stores.iter().map(|store| format!("{}/objects\n", store.display())).collect();
        std::fs::create_dir_all(from.join("objects/info")).unwrap();
        std::fs::write(from.join("objects/info/alternates"), lines.concat()).unwrap();
    }

    fn config(&self, key: &str, value: &str) {
        git::run(&self.fork, &["config", key, value]);
    }

    /// The lines of the advertisement of ours, which are those of git.
    fn lines(&self) -> Vec<String> {
        let mut git = Command::new("git");
        git::isolate(&mut git);
        git.arg("receive-pack");
        let [git, ours] = [git, packhouse()].map(|mut command| {
            // A configured command must not take the fork for the alternate.
            command.env("GIT_OBJECT_DIRECTORY", self.fork.join("objects"));
            let output = command.arg("--advertise-refs").arg(&self.fork).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let lines = text.lines().filter(|line| line.len() > 4).map(|line| {
                // Without the length, and without the capabilities, which name the agent.
                line[4..].split('\0').next().unwrap_or_default().to_owned()
            });
            lines.collect::<Vec<_>>()
        });
        assert_eq!(ours, git);
        ours
    }

    /// The commits that are told as `.have`, by their number.
    fn haves(&self) -> Vec<usize> {
        let lines = self.lines();
        let ids = lines.iter().filter_map(|line| line.strip_suffix(" .have"));
        ids.map(|id| self.commits.iter().position(|commit| commit == id).unwrap()).collect()
    }
}

#[test]
fn every_tip_of_an_alternate_is_told_once_after_the_refs() {
    for format in ["files", "reftable"] {
        let fork = Fork::new(format);
        assert_eq!(fork.haves(), [3, 0, 2, 1], "in the order of the names of refs");
        git::run(&fork.fork, &["update-ref", "refs/heads/main", &fork.commits[0]]);
        git::run(&fork.fork, &["update-ref", "refs/heads/same", &fork.commits[0]]);
        assert_eq!(fork.haves(), [3, 2, 1], "what a ref says is not said again");
        assert_eq!(fork.lines().len(), 5, "refs are never left out");
    }
}

#[test]
fn alternates_of_alternates_and_stores_without_refs() {
    let fork = Fork::new("files");
    let [middle, other] =
        ["middle.git", "other.git"].map(|name| git::init_bare(&fork.scratch.path().join(name)));
    fork.borrow(&middle, &[&fork.parent]);
    let bare_store = fork.scratch.path().join("store");
    std::fs::create_dir_all(bare_store.join("objects")).unwrap();
    let nowhere = fork.scratch.path().join("nowhere");
    fork.borrow(&fork.fork, &[&nowhere, &bare_store, &other, &middle]);
    git::run(&middle, &["update-ref", "refs/heads/m", &fork.commits[2]]);
    assert_eq!(fork.haves(), [2, 3, 0, 1]);
}

#[test]
fn prefixes_and_a_command_choose_the_tips() {
    for format in ["files", "reftable"] {
        let fork = Fork::new(format);
        for (prefixes, expected) in [
            ("refs/heads", &[3, 0][..]),
            ("refs/heads/ refs/tags", &[3, 0, 1]),
            ("refs/pull refs/heads/old", &[0, 2]),
            ("refs/he", &[]),
            ("refs/*/v1 refs/pull/*", &[1]),
            ("", &[3, 0, 2, 1]),
        ] {
            fork.config("core.alternateRefsPrefixes", prefixes);
            assert_eq!(fork.haves(), expected, "{prefixes}");
        }
        let [first, second] = [&fork.commits[2], &fork.commits[0]];
        for (command, expected) in [
            ("exit 0 #".to_owned(), &[][..]),
            (format!("echo {first}; echo {second}; exit 7 #"), &[2, 0]),
            (format!("echo {first}; echo nonsense; echo {second} #"), &[2]),
            ("git for-each-ref --format='%(objectname)' --git-dir".to_owned(), &[]),
            ("f() { git --git-dir=\"$1\" rev-parse refs/tags/v1; }; f".to_owned(), &[1]),
        ] {
            fork.config("core.alternateRefsCommand", &command);
            assert_eq!(fork.haves(), expected, "{command}");
        }
    }
}

#[test]
fn a_fork_stores_only_what_neither_it_nor_its_parent_has() {
    for (format, packs) in [("files", "1"), ("files", "100"), ("reftable", "1")] {
        let fork = Fork::new(format);
        fork.config("transfer.unpackLimit", packs);
        let work = fork.scratch.path().join("work.git");
        git::run(fork.scratch.path(), &["clone", "-q", "--bare", "parent.git", "work.git"]);
        let tree = git::run(&work, &["rev-parse", "main^{tree}"]);
        let commit = git::run(&work, &["commit-tree", "-p", "main", "-m", "new", &tree]);
        let receiver = format!("--receive-pack={} receive-pack", env!("CARGO_BIN_EXE_packhouse"));
        let refspec = format!("{commit}:refs/heads/topic");
        let target = fork.fork.display().to_string();
        git::run(&work, &["push", "-q", &receiver, &target, &refspec]);
        assert_eq!(git::run(&fork.fork, &["rev-parse", "refs/heads/topic"]), commit);
        let own = git::run(&fork.fork, &["count-objects", "-v"]);
        let number = |key: &str| {
            let line = own.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap().trim().parse::<u32>().unwrap()
        };
        assert_eq!(number("count:") + number("in-pack:"), 1, "{own}");
        git::run(&fork.fork, &["fsck", "--full", "--strict"]);
    }
}
