//! A push's share in a repository that might otherwise be taken away.

use super::layout::{TEMPORARY_PREFIX, is_untouched, take_apart};
use crate::repo::path_lock::PathLock;
use crate::repo::{Component, Disk, EntryKind};
use std::io;
use std::path::{Path, PathBuf};

/// While this is held, no other push takes the repository away. Dropping it lets go.
#[derive(Debug)]
pub struct RepositoryHold {
    disk: Disk,
    git_dir: PathBuf,
    lock: PathLock,
    /// Directories that were made for the repository to lie in, outermost first.
    parents: Vec<PathBuf>,
}

/// What became of a repository that was to be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is gone, and so are the directories that were made for it.
    Removed,
    /// Another push holds it, and takes it away if nothing lands there either; or the file system
    /// cannot tell whether one does.
    InUse,
    /// It stays: something is in it, or no push to packhouse made it.
    Kept,
    /// It had gone before.
    Gone,
}

impl RepositoryHold {
    /// Holds the repository at `git_dir`. `None` if it went meanwhile: it may be created anew, and
    /// nothing read from it before counts.
    ///
    /// Its name is durable when this returns, though whoever created it may have died before they
    /// flushed it. Waits while another push creates it or takes it away.
    pub fn take(disk: &Disk, git_dir: &Path) -> io::Result<Option<Self>> {
        let Some(lock) = PathLock::shared(disk, git_dir)? else { return Ok(None) };
        if let Some(parent) = git_dir.parent() {
            disk.flush_directory(parent, Component::Reference)?;
        }
        Ok(Some(Self::new(disk, git_dir, lock)))
    }

    /// A hold by a shared lock that was taken elsewhere.
    pub(super) fn new(disk: &Disk, git_dir: &Path, lock: PathLock) -> Self {
        Self { disk: disk.clone(), git_dir: git_dir.to_owned(), lock, parents: Vec::new() }
    }

    /// Also lets these go with the repository, outermost first, when they are empty.
    pub(super) fn with_parents(self, parents: Vec<PathBuf>) -> Self {
        Self { parents, ..self }
    }

    /// Ends the hold and takes the repository away if nothing landed in it: no ref, no object, its
    /// files as they were written, and nothing else. Only one that a push to packhouse made goes.
    ///
    /// On an error it may be left under a temporary name, where the sweep finds it.
    pub fn remove_if_untouched(self) -> io::Result<Removal> {
        let Self { disk, git_dir, lock, parents } = self;
        let Some(lock) = lock.try_make_exclusive()? else { return Ok(Removal::InUse) };
        if !lock.is_at(&disk, &git_dir)? {
            return Ok(Removal::Gone);
        }
        if !withdraw(&disk, &git_dir)? {
            return Ok(Removal::Kept);
        }
        remove_parents(&disk, &parents);
        Ok(Removal::Removed)
    }
}

/// Takes a repository away whose lock the caller holds alone. False if it was touched; it is then
/// where it was.
pub(super) fn withdraw(disk: &Disk, git_dir: &Path) -> io::Result<bool> {
    let is_directory =
        disk.stat_link(git_dir)?.is_some_and(|stat| stat.kind == EntryKind::Directory);
    let Some(parent) = git_dir.parent().filter(|_| is_directory) else { return Ok(false) };
    if !is_untouched(disk, git_dir)? {
        return Ok(false);
    }
    let away = disk.rename_to_temporary(git_dir, parent, TEMPORARY_PREFIX)?;
    // The name must not come back after a crash with half of what it named. A failed flush changes
    // nothing about what is done here, and is told at the end.
    let flushed = disk.flush_directory(parent, Component::Reference);
    let taken = is_untouched(disk, &away)? && take_apart(disk, &away)?;
    if !taken {
        give_back(disk, &away, git_dir)?;
    }
    flushed.map(|()| taken)
}

/// Removes directories that were made for a repository, as far as they are empty.
pub(super) fn remove_parents(disk: &Disk, parents: &[PathBuf]) {
    for parent in parents.iter().rev() {
        // Somebody else uses it, or it went with its own maker: an empty directory more or less
        // is no reason to fail.
        if disk.remove_directory(parent).is_err() {
            break;
        }
    }
}

fn give_back(disk: &Disk, away: &Path, git_dir: &Path) -> io::Result<()> {
    disk.rename_to_free(away, git_dir)?;
    match git_dir.parent() {
        Some(parent) => disk.flush_directory(parent, Component::Reference),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NewRepository, create};
    use super::*;
    use crate::model::{HashKind, RefName};
    use std::fs;

    fn made(root: &Path, name: &str) -> RepositoryHold {
        let path = root.join(name);
        let head = RefName::new("refs/heads/main").unwrap();
        let new = NewRepository { root, path: &path, hash: HashKind::Sha1, head: &head };
        create(&Disk::default(), &new).unwrap().hold
    }

    #[test]
    fn an_untouched_repository_goes_with_the_parents_made_for_it() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("theirs")).unwrap();
        let hold = made(root.path(), "theirs/a/b/r.git");
        assert_eq!(hold.remove_if_untouched().unwrap(), Removal::Removed);
        assert!(root.path().join("theirs").exists());
        assert!(!root.path().join("theirs/a").exists());
    }

    #[test]
    fn a_parent_that_others_use_by_now_stays() {
        let root = tempfile::tempdir().unwrap();
        let hold = made(root.path(), "a/b/r.git");
        fs::write(root.path().join("a/note"), "").unwrap();
        assert_eq!(hold.remove_if_untouched().unwrap(), Removal::Removed);
        assert!(!root.path().join("a/b").exists());
        assert!(root.path().join("a/note").exists());
    }

    #[test]
    fn a_repository_in_which_something_landed_stays() {
        for (directory, file) in [("refs/heads", "main"), ("objects/00", "11"), ("", "packed-refs")]
        {
            let root = tempfile::tempdir().unwrap();
            let hold = made(root.path(), "r.git");
            let directory = root.path().join("r.git").join(directory);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join(file), "x").unwrap();
            assert_eq!(hold.remove_if_untouched().unwrap(), Removal::Kept);
            assert_eq!(fs::read(directory.join(file)).unwrap(), b"x");
            assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn an_empty_repository_that_no_push_made_stays() {
        let root = tempfile::tempdir().unwrap();
        drop(made(root.path(), "r.git"));
        let path = root.path().join("r.git");
        fs::write(path.join("config"), "[core]\n\tbare = true\n").unwrap();
        let hold = RepositoryHold::take(&Disk::default(), &path).unwrap().unwrap();
        assert_eq!(hold.remove_if_untouched().unwrap(), Removal::Kept);
        assert!(path.exists());
    }

    #[test]
    fn the_last_push_to_fail_takes_it_away() {
        let root = tempfile::tempdir().unwrap();
        let first = made(root.path(), "r.git");
        let path = root.path().join("r.git");
        let second = RepositoryHold::take(&Disk::default(), &path).unwrap().unwrap();
        assert_eq!(first.remove_if_untouched().unwrap(), Removal::InUse);
        assert!(path.exists());
        assert_eq!(second.remove_if_untouched().unwrap(), Removal::Removed);
        assert!(!path.exists());
        assert!(RepositoryHold::take(&Disk::default(), &path).unwrap().is_none());
    }

    #[test]
    fn a_repository_that_somebody_moved_is_not_looked_for() {
        let root = tempfile::tempdir().unwrap();
        let hold = made(root.path(), "r.git");
        fs::rename(root.path().join("r.git"), root.path().join("s.git")).unwrap();
        assert_eq!(hold.remove_if_untouched().unwrap(), Removal::Gone);
        assert!(root.path().join("s.git/HEAD").exists());
    }

    #[test]
    fn a_repository_behind_a_symbolic_link_stays() {
        let root = tempfile::tempdir().unwrap();
        drop(made(root.path(), "r.git"));
        let link = root.path().join("l.git");
        std::os::unix::fs::symlink("r.git", &link).unwrap();
        let hold = RepositoryHold::take(&Disk::default(), &link).unwrap().unwrap();
        assert_eq!(hold.remove_if_untouched().unwrap(), Removal::Kept);
        assert!(link.join("HEAD").exists());
    }

    #[test]
    fn what_landed_under_the_temporary_name_gets_its_place_back() {
        let root = tempfile::tempdir().unwrap();
        drop(made(root.path(), "r.git"));
        let [path, away] = ["r.git", "away"].map(|name| root.path().join(name));
        fs::rename(&path, &away).unwrap();
        fs::create_dir(away.join("objects/tmp_objdir-incoming-abcdef")).unwrap();
        assert!(!take_apart(&Disk::default(), &away).unwrap());
        give_back(&Disk::default(), &away, &path).unwrap();
        assert!(path.join("objects/tmp_objdir-incoming-abcdef").exists());
        assert!(path.join("objects/pack").exists());
    }
}
