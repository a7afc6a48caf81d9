//! Repositories and packs for tests, with stock git at hand.

use super::{Disk, Environment, Repository};
use crate::model::{HashKind, ObjectId};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A bare repository in a directory of its own that goes with it.
#[derive(Debug)]
pub(crate) struct TestRepository {
    _root: tempfile::TempDir,
    path: PathBuf,
    environment: Environment,
}

impl TestRepository {
    /// A repository `r.git` without objects and refs.
    pub(crate) fn bare() -> Self {
        Self::bare_named("r.git")
    }

    /// The same under another name.
    pub(crate) fn bare_named(name: &str) -> Self {
        let root = scratch();
        let path = fs::canonicalize(root.path()).unwrap().join(name);
        for directory in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
            fs::create_dir_all(path.join(directory)).unwrap();
        }
        fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(path.join("config"), "[core]\nrepositoryformatversion = 0\nbare = true\n")
            .unwrap();
        let environment = [
            ("PATH", std::env::var_os("PATH").unwrap()),
            ("HOME", root.path().into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
            ("GIT_AUTHOR_NAME", "A".into()),
            ("GIT_AUTHOR_EMAIL", "a@example.org".into()),
            ("GIT_COMMITTER_NAME", "C".into()),
            ("GIT_COMMITTER_EMAIL", "c@example.org".into()),
        ];
        Self { path, environment: environment.into_iter().collect(), _root: root }
    }

    /// The git directory, free of symbolic links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The environment in which git is run and the repository opened.
    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn open(&self, disk: &Disk) -> Repository {
        Repository::open_exact(disk, &self.path, &self.environment).unwrap()
    }

    /// Runs git in the repository, which must succeed; its output.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.git_with(&Environment::empty(), arguments, "")
    }

    /// The same with more variables and an input.
    pub(crate) fn git_with(
        &self,
        environment: &Environment,
        arguments: &[&str],
        input: &str,
    ) -> String {
        let output = self.run(environment, arguments, input);
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Whether git fails.
    pub(crate) fn git_fails(&self, environment: &Environment, arguments: &[&str]) -> bool {
        !self.run(environment, arguments, "").status.success()
    }

    fn run(&self, environment: &Environment, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new("git")
            .current_dir(&self.path)
            .env_clear()
            .envs(self.environment.iter())
            .envs(environment.iter())
            .env("GIT_DIR", ".")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// The paths of all files below a directory of the repository, relative to it, sorted.
    pub(crate) fn files(&self, directory: &str) -> Vec<String> {
        let root = self.path.join(directory);
        let mut found = Vec::new();
        let mut pending = vec![root.clone()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pending.push(path);
                } else {
                    found.push(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        found
    }

    /// The SHA-1 id of a blob.
    pub(crate) fn blob_id(content: &[u8]) -> ObjectId {
        let mut hasher = gix_hash::hasher(HashKind::Sha1);
        hasher.update(format!("blob {}\0", content.len()).as_bytes());
        hasher.update(content);
        hasher.try_finalize().unwrap()
    }
}

/// A directory in memory where there is one: flushes are counted here, not timed.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// A pack of blobs, made by git.
#[derive(Debug)]
pub(crate) struct TestPack {
    /// What stands between `pack-` and the extension.
    pub(crate) name: String,
    pub(crate) pack: Vec<u8>,
    pub(crate) idx: Vec<u8>,
    pub(crate) rev: Vec<u8>,
}

impl TestPack {
    pub(crate) fn of(blobs: &[&str]) -> Self {
        let home = TestRepository::bare();
        let none = Environment::empty();
        let ids: String = blobs
            .iter()
            .map(|blob| home.git_with(&none, &["hash-object", "-w", "--stdin"], blob))
            .collect();
        let name = home.git_with(&none, &["pack-objects", "-q", "objects/pack/pack"], &ids);
        let name = name.trim().to_owned();
        let read = |extension: &str| {
            let path = format!("objects/pack/pack-{name}.{extension}");
            fs::read(home.path().join(path)).unwrap()
        };
        Self { pack: read("pack"), idx: read("idx"), rev: read("rev"), name }
    }
}
