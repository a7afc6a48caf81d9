//! The repositories below a root.

use crate::repo::create::{TEMPORARY_PREFIX, is_repository};
use crate::repo::{DirectoryEntries, Disk, EntryKind};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a walk comes upon.
#[derive(Debug)]
pub enum Found {
    /// A repository's git directory.
    Repository(PathBuf),
    /// A repository that is being created or taken away, or was when its process died.
    Unfinished(PathBuf),
    /// A directory that cannot be read, wholly or from some entry on.
    Unreadable(PathBuf, io::Error),
}

/// A walk under way. It holds one open directory for each level it has gone down, and no list.
#[derive(Debug)]
pub struct Walk {
    disk: Disk,
    levels: Vec<(PathBuf, DirectoryEntries)>,
    /// What the root itself turned out to be.
    root: Option<Found>,
}

/// Walks through the directories below `root`, in no order.
///
/// It does not look into repositories for others, nor into a work tree beyond its `.git`; it
/// enters no directory whose name begins with a dot, follows no symbolic link but `root` itself,
/// and goes no deeper than 32 levels.
pub fn walk(disk: &Disk, root: &Path) -> Walk {
    let mut walk = Walk { disk: disk.clone(), levels: Vec::new(), root: None };
    walk.root = match is_repository(disk, root) {
        Ok(true) => Some(Found::Repository(root.to_owned())),
        Ok(false) => walk.enter(root.to_owned()),
        Err(error) => Some(Found::Unreadable(root.to_owned(), error)),
    };
    walk
}

/// The git directories of the repositories below `root`, as [`walk`] finds them.
pub fn repositories_below(disk: &Disk, root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    walk(disk, root).filter_map(|found| match found {
        Found::Repository(path) => Some(path),
        Found::Unfinished(_) | Found::Unreadable(..) => None,
    })
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some(root) = self.root.take() {
            return Some(root);
        }
        loop {
            let (directory, entries) = self.levels.last_mut()?;
            let entry = match entries.next() {
                Some(Ok(entry)) => entry,
                Some(Err(error)) => {
                    let (directory, _) = self.levels.pop()?;
                    return Some(Found::Unreadable(directory, error));
                }
                None => {
                    self.levels.pop();
                    continue;
                }
            };
            if entry.kind != EntryKind::Directory {
                continue;
            }
            let name = entry.name.as_bytes();
            let path = directory.join(&entry.name);
            if name.starts_with(TEMPORARY_PREFIX.as_bytes()) {
                return Some(Found::Unfinished(path));
            }
            let found = if name.starts_with(b".") { None } else { self.look_at(path) };
            if found.is_some() {
                return found;
            }
        }
    }
}

impl Walk {
    /// A repository is told; a directory is entered.
    fn look_at(&mut self, path: PathBuf) -> Option<Found> {
        match self.git_dir(&path) {
            Ok(GitDir::At(git_dir)) => Some(Found::Repository(git_dir)),
            Ok(GitDir::Elsewhere) => None,
            Ok(GitDir::None) => self.enter(path),
            Err(error) => Some(Found::Unreadable(path, error)),
        }
    }

    fn git_dir(&self, path: &Path) -> io::Result<GitDir> {
        if is_repository(&self.disk, path)? {
            return Ok(GitDir::At(path.to_owned()));
        }
        let git = path.join(".git");
        Ok(match self.disk.stat_link(&git)? {
            None => GitDir::None,
            Some(stat) if stat.kind == EntryKind::Directory && is_repository(&self.disk, &git)? => {
                GitDir::At(git)
            }
            Some(_) => GitDir::Elsewhere,
        })
    }

    fn enter(&mut self, directory: PathBuf) -> Option<Found> {
        if self.levels.len() == LEVELS_MAX {
            return None;
        }
        match self.disk.entries(&directory) {
            Ok(entries) => {
                self.levels.push((directory, entries));
                None
            }
            // It went meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Found::Unreadable(directory, error)),
        }
    }
}

/// Whether a directory is a repository or holds one.
enum GitDir {
    At(PathBuf),
    /// A work tree whose repository is found elsewhere, if at all.
    Elsewhere,
    None,
}

/// LIMIT: levels of directories below the root, each with a descriptor of its own.
const LEVELS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    fn repository(path: &Path) {
        for directory in ["objects", "refs"] {
            fs::create_dir_all(path.join(directory)).unwrap();
        }
        fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    fn found(root: &Path) -> BTreeSet<PathBuf> {
        let relative = |path: PathBuf| path.strip_prefix(root).unwrap().to_owned();
        repositories_below(&Disk::default(), root).map(relative).collect()
    }

    fn paths<const N: usize>(paths: [&str; N]) -> BTreeSet<PathBuf> {
        paths.into_iter().map(PathBuf::from).collect()
    }

    #[test]
    fn repositories_are_found_at_any_level_and_not_looked_into() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for path in ["a.git", "team/b.git", "team/deep/er/c", "a.git/modules/x.git"] {
            repository(&root.join(path));
        }
        fs::create_dir_all(root.join("team/empty")).unwrap();
        fs::create_dir_all(root.join("half/objects")).unwrap();
        fs::write(root.join("half/HEAD"), "").unwrap();
        fs::write(root.join("file"), "").unwrap();
        assert_eq!(found(root), paths(["a.git", "team/b.git", "team/deep/er/c"]));
    }

    #[test]
    fn of_a_work_tree_only_its_git_directory_is_found() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for path in ["w/.git", "w/vendored.git", "linked/vendored.git"] {
            repository(&root.join(path));
        }
        fs::write(root.join("linked/.git"), "gitdir: ../w/.git/worktrees/linked\n").unwrap();
        assert_eq!(found(root), paths(["w/.git"]));
    }

    #[test]
    fn directories_whose_name_begins_with_a_dot_are_not_entered() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        repository(&root.join(".hidden/a.git"));
        repository(&root.join(".b.git"));
        repository(&root.join(".packhouse"));
        assert!(found(root).is_empty());
    }

    #[test]
    fn symbolic_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        repository(&elsewhere.path().join("a.git"));
        let link = |to: &Path, name| std::os::unix::fs::symlink(to, root.path().join(name));
        link(&elsewhere.path().join("a.git"), "a.git").unwrap();
        link(elsewhere.path(), "d").unwrap();
        link(root.path(), "loop").unwrap();
        link(Path::new("nowhere"), "n").unwrap();
        assert!(found(root.path()).is_empty());
    }

    #[test]
    fn the_root_may_be_a_link_a_work_tree_or_a_repository() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        repository(&root.join("a.git"));
        fs::create_dir(root.join(".git")).unwrap();
        assert_eq!(found(&root), paths(["a.git"]));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();
        assert_eq!(found(&link), paths(["a.git"]));
        assert_eq!(found(&root.join("a.git")), paths([""]));
        assert!(found(&directory.path().join("none")).is_empty());
    }

    #[test]
    fn the_walk_goes_32_levels_deep_and_no_deeper() {
        let root = tempfile::tempdir().unwrap();
        let at = |levels: usize| root.path().join("d/".repeat(levels));
        repository(&at(31).join("in.git"));
        repository(&at(32).join("out.git"));
        let found = found(root.path());
        assert_eq!(found.len(), 1);
        assert!(found.first().unwrap().ends_with("in.git"));
    }

    #[test]
    fn a_directory_is_read_as_the_walk_goes_on() {
        let root = tempfile::tempdir().unwrap();
        for number in 0..300 {
            repository(&root.path().join(format!("{number}.git")));
        }
        let disk = Disk::default();
        let mut walk = repositories_below(&disk, root.path());
        walk.next().unwrap();
        // The first was told after itself and what was read before it had been looked at.
        assert!(disk.counts().stats < 10, "{:?}", disk.counts());
        assert_eq!(walk.count(), 299);
        assert_eq!(disk.counts().listings, 1);
    }

    #[test]
    fn what_is_unfinished_is_told_apart_from_repositories() {
        let root = tempfile::tempdir().unwrap();
        let unfinished = root.path().join("team/.tmp-packhouse-abcdef");
        repository(&unfinished);
        let found: Vec<_> = walk(&Disk::default(), root.path()).collect();
        let [Found::Unfinished(path)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(*path, unfinished);
    }

    #[test]
    fn an_unreadable_directory_is_told_and_the_others_are_walked() {
        use std::os::unix::fs::PermissionsExt;
        if rustix::process::geteuid().is_root() {
            // Nothing is unreadable to root but a root that is no directory.
            let root = tempfile::tempdir().unwrap();
            let file = root.path().join("f");
            fs::write(&file, "").unwrap();
            let found: Vec<_> = walk(&Disk::default(), &file).collect();
            assert!(matches!(&found[..], [Found::Unreadable(path, _)] if *path == file));
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let closed = root.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        repository(&root.path().join("a.git"));
        let found: Vec<_> = walk(&Disk::default(), root.path()).collect();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(found.len(), 2);
        assert!(found.iter().any(|f| matches!(f, Found::Unreadable(path, _) if *path == closed)));
    }
}
