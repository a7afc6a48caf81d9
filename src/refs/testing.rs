//! Repositories for the tests of this module, and stock git to look at them.

use super::{RefContext, RefEdit, RefSettings, RefStore};
use crate::model::{HashKind, ObjectId, RefName};
use crate::refs::{Change, Expected};
use crate::repo::{Disk, FlushPolicy, InFlight};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use tempfile::TempDir;

/// A bare repository with four commits, a tag of the first and a tag of that tag; no refs.
pub(super) struct TestRepository {
    _root: TempDir,
    pub(super) git_dir: PathBuf,
}

pub(super) struct Objects {
    pub(super) commits: [ObjectId; 4],
    pub(super) tag: ObjectId,
    pub(super) tag_of_tag: ObjectId,
}

struct Template {
    root: TempDir,
    objects: Objects,
}

static TEMPLATE: LazyLock<Template> = LazyLock::new(|| {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path();
    let init = ["init", "-q", "--bare", "--template=", "-b", "main", "."];
    git_in(dir, &init, b"").unwrap();
    let tree = git_in(dir, &["mktree"], b"").unwrap();
    let commits = ["1", "2", "3", "4"].map(|message| {
        id_of(&git_in(dir, &["commit-tree", "-m", message, tree.trim()], b"").unwrap())
    });
    let tag = |object: &ObjectId, kind: &str| {
        let text = format!("object {object}\ntype {kind}\ntag t\ntagger a <a@b> 1 +0000\n\nt\n");
        id_of(&git_in(dir, &["mktag"], text.as_bytes()).unwrap())
    };
    let first = tag(&commits[0], "commit");
    let objects = Objects { commits, tag: first, tag_of_tag: tag(&first, "tag") };
    Template { root, objects }
});

pub(super) fn objects() -> &'static Objects {
    &TEMPLATE.objects
}

pub(super) fn commit(number: usize) -> ObjectId {
    objects().commits[number]
}

impl TestRepository {
    /// In memory if there is such a place: what is asked here is whether and when we flush, not
    /// how long a disk takes.
    pub(super) fn new() -> Self {
        let memory = tempfile::tempdir_in("/dev/shm");
        Self::below(memory.unwrap_or_else(|_| tempfile::tempdir().unwrap()))
    }

    pub(super) fn on_disk() -> Self {
        Self::below(tempfile::tempdir().unwrap())
    }

    fn below(root: TempDir) -> Self {
        let git_dir = root.path().join("r.git");
        copy(TEMPLATE.root.path(), &git_dir);
        Self { _root: root, git_dir }
    }

    pub(super) fn context(&self) -> RefContext {
        RefContext {
            disk: Disk::new(FlushPolicy::NONE),
            git_dir: self.git_dir.clone(),
            common_dir: self.git_dir.clone(),
            hash: HashKind::Sha1,
            namespace: None,
            settings: RefSettings {
                committer: "a <a@b> 1000000000 +0000".into(),
                ..RefSettings::default()
            },
            in_flight: InFlight::none(),
        }
    }

    pub(super) fn store(&self) -> RefStore {
        RefStore::new(self.context())
    }

    pub(super) fn store_on(&self, disk: &Disk) -> RefStore {
        RefStore::new(RefContext { disk: disk.clone(), ..self.context() })
    }

    /// Adds so many commits.
    pub(super) fn add_commits(&self, number: usize) -> Vec<ObjectId> {
        let one =
            |n: usize| format!("commit refs/heads/pool\ncommitter a <a@b> {n} +0000\ndata 0\n");
        let stream: String = (0..number).map(one).collect();
        self.try_git(&["fast-import", "--quiet"], stream.as_bytes()).unwrap();
        let ids = self.git(&["rev-list", "refs/heads/pool"]).lines().map(id_of).collect();
        self.git(&["update-ref", "-d", "refs/heads/pool"]);
        ids
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.git_dir.join(below)
    }

    pub(super) fn write(&self, below: &str, content: impl AsRef<[u8]>) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(super) fn read(&self, below: &str) -> String {
        fs::read_to_string(self.path(below)).unwrap()
    }

    pub(super) fn exists(&self, below: &str) -> bool {
        self.path(below).symlink_metadata().is_ok()
    }

    pub(super) fn set(&self, name: &str, id: ObjectId) {
        self.write(name, format!("{id}\n"));
    }

    /// Runs git, whatever comes of it.
    pub(super) fn try_git(&self, args: &[&str], input: &[u8]) -> Result<String, String> {
        git_in(&self.git_dir, args, input)
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        self.try_git(args, b"").unwrap()
    }

    /// All refs as git sees them, one a line, with the objects that tags lead to.
    pub(super) fn refs(&self) -> String {
        self.git(&["for-each-ref", "--format=%(objectname) %(refname) %(*objectname)"])
    }

    /// Everything that a transaction must not leave behind.
    pub(super) fn leftovers(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.git_dir, &mut |path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.contains(".lock") || name.contains("tmp_") {
                found.push(path.to_owned());
            }
        });
        found
    }
}

pub(super) fn walk(directory: &Path, each: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        each(&path);
        if path.is_dir() && !path.is_symlink() {
            walk(&path, each);
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

pub(super) fn git_command(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .args(args)
        .current_dir(directory)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_DIR", ".")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@b")
        .env("GIT_AUTHOR_DATE", "1000000000 +0000")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@b")
        .env("GIT_COMMITTER_DATE", "1000000000 +0000");
    command
}

/// Output if git succeeds, else its complaint.
pub(super) fn git_in(directory: &Path, args: &[&str], input: &[u8]) -> Result<String, String> {
    run(git_command(directory, args), input)
}

pub(super) fn run(mut command: Command, input: &[u8]) -> Result<String, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

pub(super) fn id_of(text: &str) -> ObjectId {
    ObjectId::from_hex(text.trim().as_bytes()).unwrap()
}

pub(super) fn name(text: &str) -> RefName {
    RefName::for_deletion(text).unwrap()
}

pub(super) fn edit(text: &str, expected: Expected, change: Change) -> RefEdit {
    RefEdit { name: name(text), expected, change, message: "push".into() }
}

pub(super) fn create(text: &str, id: ObjectId) -> RefEdit {
    edit(text, Expected::MustNotExist, Change::Set(id))
}

pub(super) fn update(text: &str, old: ObjectId, new: ObjectId) -> RefEdit {
    edit(text, Expected::MustBe(old), Change::Set(new))
}

pub(super) fn delete(text: &str, old: ObjectId) -> RefEdit {
    edit(text, Expected::MustBe(old), Change::Delete)
}

/// The edit as a line for `git update-ref --stdin`.
pub(super) fn as_command(edit: &RefEdit) -> String {
    let name = &edit.name;
    match (edit.change, edit.expected) {
        (Change::Set(new), Expected::MustNotExist) => format!("create {name} {new}\n"),
        (Change::Set(new), Expected::MustBe(old)) => format!("update {name} {new} {old}\n"),
        (Change::Set(new), Expected::Any) => format!("update {name} {new}\n"),
        (Change::Delete, Expected::MustBe(old)) => format!("delete {name} {old}\n"),
        (Change::Delete, _) => format!("delete {name}\n"),
    }
}
