//! A work tree to push from.

use crate::http::server::Server;
use crate::support::git;
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use tempfile::TempDir;

/// A repository with a work tree and an `origin`.
pub struct Work {
    _directory: TempDir,
    pub path: PathBuf,
}

impl Work {
    /// An empty one whose origin is `url`.
    pub fn new(url: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("work");
        fs::create_dir(&path).unwrap();
        let work = Self { _directory: directory, path };
        work.git(&["init", "-q", "-b", "main"]);
        work.git(&["remote", "add", "origin", url]);
        work
    }

    /// A fresh clone.
    pub fn clone_of(url: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        git::run(directory.path(), &["clone", "-q", url, "work"]);
        let path = directory.path().join("work");
        Self { _directory: directory, path }
    }

    /// One with a commit, whose origin is a repository of `server`.
    pub fn with_commit(server: &Server, repository: &str) -> Self {
        let work = Self::new(&server.url(repository));
        work.commit("file", "content\n");
        work
    }

    /// Commits `content` as `file`; gives the id.
    pub fn commit(&self, file: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.path.join(file), content).unwrap();
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "-m", file]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Runs git, which must succeed.
    pub fn git(&self, arguments: &[&str]) -> String {
        git::run(&self.path, arguments)
    }

    /// Runs git, whatever comes of it.
    pub fn try_git(&self, arguments: &[&str]) -> Output {
        git::try_run(&self.path, arguments)
    }

    /// What a command that must fail says.
    pub fn failing(&self, arguments: &[&str]) -> String {
        let output = self.try_git(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{text}");
        text
    }
}

/// Bytes that do not compress.
pub fn noise(bytes: u32, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    (0..bytes).map(|_| next()).collect()
}
