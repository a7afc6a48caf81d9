//! A small history in a repository, made once for each hash.

use crate::ingest::testing::{git_ok, init};
use crate::model::HashKind;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Commits of the history.
pub(super) const COMMITS: usize = 40;

/// The repository, packed by nobody: objects are loose or in fast-import's pack.
pub(super) fn repository(hash: HashKind) -> &'static Path {
    static SHA1: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    static SHA256: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let place = if hash == HashKind::Sha256 { &SHA256 } else { &SHA1 };
    &place.get_or_init(|| make(hash)).1
}

/// What `git pack-objects` makes of the revisions, one a line; of all if there are none.
pub(super) fn pack(hash: HashKind, arguments: &[&str], revisions: &str) -> Vec<u8> {
    let mut all = vec!["pack-objects", "--stdout", "--revs", "-q", "--threads=1"];
    if revisions.is_empty() {
        all.push("--all");
    }
    all.extend(arguments);
    git_ok(repository(hash), &all, revisions.as_bytes())
}

fn make(hash: HashKind) -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("history.git");
    init(&path, hash);
    let mut stream = String::new();
    for n in 1..=COMMITS {
        write!(stream, "commit refs/heads/main\ncommitter A <a@b> {n}00000 +0000\n").unwrap();
        write!(stream, "data 8\nmessage\n\n").unwrap();
        for file in 0..12 {
            if n != 1 && (n + file) % 5 != 0 {
                continue;
            }
            let mut text = String::new();
            for line in 0..60 {
                let version = if line % 12 == file { n } else { 0 };
                writeln!(text, "file {file}, line {line}, version {version}").unwrap();
            }
            let path = format!("dir{}/sub{}/file{file}", file % 3, file % 2);
            write!(stream, "M 100644 inline {path}\ndata {}\n{text}\n", text.len()).unwrap();
        }
        if n % 10 == 0 {
            write!(stream, "tag v{n}\nfrom refs/heads/main\ntagger A <a@b> {n}00000 +0000\n")
                .unwrap();
            write!(stream, "data 4\ntag\n\n").unwrap();
        }
    }
    git_ok(&path, &["fast-import", "--quiet"], stream.as_bytes());
    (root, path)
}
