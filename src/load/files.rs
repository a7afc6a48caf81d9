//! Everything that the load generator writes: reports, and bare repositories to push to.
//!
//! Nothing is flushed: what is written here can be had again. A repository is git's plain layout,
//! written without git: HEAD at `refs/heads/main`, and a configuration that lets a
//! `git http-backend` without users take pushes (`http.receivepack`). One that exists is left as
//! it is.

use super::side::Repository;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be written.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file or a directory.
    #[error("cannot write '{}'", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A repository without a name.
    #[error("the URL '{0}' ends with no name that a repository could have")]
    NoName(String),
}

/// Makes the repositories that are not there yet, all below one directory, each named after the
/// last part of its URL.
pub(super) fn prepare<'a>(
    directory: &Path,
    repositories: impl Iterator<Item = &'a Repository>,
) -> Result<(), FilesError> {
    for repository in repositories {
        let name = &repository.directory;
        if name.is_empty() || name.starts_with('.') {
            return Err(FilesError::NoName(repository.url.clone()));
        }
        let path = directory.join(name);
        if !path.exists() {
            init(&path).map_err(|source| FilesError::Write { path, source })?;
        }
    }
    Ok(())
}

/// Writes a report.
pub fn write(path: &Path, text: &str) -> Result<(), FilesError> {
    fs::write(path, text).map_err(|source| FilesError::Write { path: path.to_owned(), source })
}

/// A directory that goes when it is dropped.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a directory of a name that nobody else has.
    pub(super) fn new(run: &str) -> Result<Self, FilesError> {
        let path = std::env::temp_dir().join(format!("packhouse-load-{run}"));
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(FilesError::Write { path, source }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody can be told; it lies where the system keeps what may be removed.
        drop(fs::remove_dir_all(&self.0));
    }
}

fn init(path: &Path) -> io::Result<()> {
    for directory in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        fs::create_dir_all(path.join(directory))?;
    }
    fs::write(path.join("config"), CONFIG)?;
    // Last: without it git sees no repository.
    fs::write(path.join("HEAD"), "ref: refs/heads/main\n")
}

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\
                      [http]\n\treceivepack = true\n";

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn git_takes_what_is_prepared_for_a_bare_repository() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b.git");
        init(&path).unwrap();
        let git = |arguments: &[&str]| {
            let output = Command::new("git")
                .arg("-C")
                .arg(&path)
                .args(arguments)
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .output()
                .unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(git(&["rev-parse", "--is-bare-repository"]), "true\n");
        assert_eq!(git(&["config", "http.receivepack"]), "true\n");
        assert_eq!(git(&["fsck"]), "");
    }

    #[test]
    fn scratch_goes_when_it_is_dropped() {
        let name = format!("test-{}", std::process::id());
        let scratch = Scratch::new(&name).unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("x"), "").unwrap();
        assert!(Scratch::new(&name).is_err(), "nobody else's directory is used");
        drop(scratch);
        assert!(!path.exists());
    }
}
