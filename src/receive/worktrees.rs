//! Which branches are checked out, and where: a push must not move them unasked, and may have to
//! take the work tree along.
//!
//! As git's `worktree.c` has it (`get_worktrees`, `find_shared_symref`): the main work tree first,
//! then the linked ones. Of a linked one nothing is asked but what its directory below `worktrees`
//! says (git-worktree(1), "DETAILS"); whether the work tree is still there is found out by whoever
//! goes there.

use crate::model::Dialect;
use crate::refs::{RefStore, Resolved};
use crate::repo::{ConfigError, Disk, EntryKind, Repository};
use bstr::{BStr, BString, ByteSlice};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A directory with files checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkTree {
    /// Its own git directory: with its HEAD and its index.
    pub(super) git_dir: PathBuf,
    /// Where its files are.
    pub(super) path: PathBuf,
    /// What HEAD names, or will name again when the rebase or bisection is over that goes on there.
    branches: Vec<BString>,
}

/// The branches that HEADs name.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckedOut {
    /// The main one, if there is one, and linked ones.
    work_trees: Vec<WorkTree>,
    /// Of the repository itself, bare or not.
    head: Option<BString>,
}

/// LIMIT: bytes of a file that names a branch or a work tree.
const FILE_BYTES_MAX: u64 = 1 << 16;

impl CheckedOut {
    /// Looks at HEAD and at the HEADs of linked work trees. `main` is the main work tree; in a bare
    /// repository there is none, and HEAD itself matters to deletions alone.
    pub(super) fn look(
        disk: &Disk,
        store: &RefStore,
        main: Option<PathBuf>,
        deletes: bool,
    ) -> io::Result<Self> {
        let common_dir = store.context().common_dir.as_path();
        let target = |resolved: Resolved| resolved.is_symbolic().then(|| resolved.target().into());
        let head = if deletes { store.resolve_head().ok().and_then(target) } else { None };
        let mut work_trees = Vec::new();
        if let Some(path) = main {
            work_trees.push(WorkTree {
                path,
                branches: branches_of(disk, store, common_dir)?,
                git_dir: common_dir.to_owned(),
            });
        }
        let linked = common_dir.join("worktrees");
        if disk.stat(&linked)?.is_some() {
            for entry in disk.list(&linked)? {
                if entry.kind == EntryKind::Directory {
                    let git_dir = linked.join(&entry.name);
                    let Some(path) = linked_path(disk, &git_dir)? else { continue };
                    let branches = branches_of(disk, store, &git_dir)?;
                    work_trees.push(WorkTree { git_dir, path, branches });
                }
            }
        }
        Ok(Self { work_trees, head })
    }

    /// The first work tree that has this branch checked out.
    pub(super) fn work_tree_of(&self, name: &BStr) -> Option<&WorkTree> {
        self.work_trees.iter().find(|tree| tree.branches.iter().any(|branch| branch == name))
    }

    /// Whether HEAD or a work tree names this branch.
    pub(super) fn is_current(&self, full_name: &BStr, shown_name: &BStr) -> bool {
        self.head.as_ref().is_some_and(|head| head == full_name)
            || self.work_tree_of(shown_name).is_some()
    }
}

/// Where the main work tree of a repository is, if it has one.
pub(super) fn main_of(
    repository: &Repository,
    dialect: Dialect,
) -> Result<Option<PathBuf>, ConfigError> {
    if repository.is_bare() {
        return Ok(None);
    }
    let configured = if dialect.heeds_core_worktree() {
        repository.config().path("core.worktree")?
    } else {
        None
    };
    Ok(Some(main_path(repository.common_dir(), configured.as_deref())))
}

/// The main work tree: the directory that `core.worktree` names, from the git directory; else the one
/// that holds `.git`, else the git directory itself.
fn main_path(common_dir: &Path, configured: Option<&Path>) -> PathBuf {
    if let Some(path) = configured {
        return common_dir.join(path);
    }
    match common_dir.parent() {
        Some(parent) if common_dir.file_name() == Some(OsStr::new(".git")) => parent.to_owned(),
        _ => common_dir.to_owned(),
    }
}

/// The work tree that a directory below `worktrees` stands for; none if it does not say. A relative
/// path, as git writes it with `worktree.useRelativePaths`, begins at that directory.
fn linked_path(disk: &Disk, git_dir: &Path) -> io::Result<Option<PathBuf>> {
    let file = read(disk, &git_dir.join("gitdir"))?;
    let named = file.trim_end();
    let path = named.strip_suffix(b"/.git").unwrap_or(named);
    Ok((!path.is_empty()).then(|| git_dir.join(OsStr::from_bytes(path))))
}

/// The branches of the work tree with this git directory.
fn branches_of(disk: &Disk, store: &RefStore, git_dir: &Path) -> io::Result<Vec<BString>> {
    // It may name a branch by another symbolic ref. A HEAD that is damaged names none.
    let Ok(head) = store.of_work_tree(git_dir).resolve_head() else { return Ok(Vec::new()) };
    if head.is_symbolic() {
        return Ok(vec![head.target().into()]);
    }
    let mut branches = Vec::new();
    // Of the directories of git-am(1) and git-rebase(1) the first that is there counts.
    let (apply, merge) = (git_dir.join("rebase-apply"), git_dir.join("rebase-merge"));
    if disk.stat(&apply)?.is_some() {
        if disk.stat(&apply.join("applying"))?.is_none() {
            branches.extend(branch_named_by(&read(disk, &apply.join("head-name"))?));
        }
    } else if disk.stat(&merge)?.is_some() {
        branches.extend(branch_named_by(&read(disk, &merge.join("head-name"))?));
    }
    if disk.stat(&git_dir.join("BISECT_LOG"))?.is_some() {
        branches.extend(branch_named_by(&read(disk, &git_dir.join("BISECT_START"))?));
    }
    Ok(branches)
}

/// The branch that a file of an operation under way names, with or without `refs/heads/`.
fn branch_named_by(file: &[u8]) -> Option<BString> {
    let name = file.trim_end_with(|letter| letter == '\n');
    if name.is_empty() || name == b"detached HEAD" {
        return None;
    }
    let short = name.strip_prefix(b"refs/heads/").unwrap_or(name);
    Some([b"refs/heads/", short].concat().into())
}

fn read(disk: &Disk, file: &Path) -> io::Result<Vec<u8>> {
    Ok(disk.read_if_there(file, FILE_BYTES_MAX)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_work_tree_is_where_git_takes_it_to_be() {
        let path = |common_dir, set| main_path(Path::new(common_dir), set);
        assert_eq!(path("/srv/w/.git", None), Path::new("/srv/w"));
        assert_eq!(path("/srv/r.git", None), Path::new("/srv/r.git"));
        let set = Some(Path::new("/srv/tree"));
        assert_eq!(path("/srv/w/.git", set), Path::new("/srv/tree"));
        assert_eq!(path("/srv/r.git", Some(Path::new("../x"))), Path::new("/srv/r.git/../x"));
    }

    #[test]
    fn a_linked_work_tree_is_named_by_its_file() {
        let root = tempfile::tempdir().unwrap();
        let git_dir = root.path();
        let path = || linked_path(&Disk::default(), git_dir).unwrap();
        assert_eq!(path(), None);
        for (text, expected) in [
            ("/srv/w/.git\n", Some("/srv/w".into())),
            ("/srv/w", Some("/srv/w".into())),
            ("../../../w/.git\n", Some(git_dir.join("../../../w"))),
            ("\n", None),
        ] {
            std::fs::write(git_dir.join("gitdir"), text).unwrap();
            assert_eq!(path(), expected, "{text:?}");
        }
    }

    #[test]
    fn operations_under_way_name_branches_short_or_in_full() {
        let branch = |text: &str| branch_named_by(text.as_bytes()).map(|name| name.to_string());
        assert_eq!(branch("refs/heads/a/b\n"), Some("refs/heads/a/b".into()));
        assert_eq!(branch("main\n"), Some("refs/heads/main".into()));
        assert_eq!(branch("detached HEAD\n"), None);
        assert_eq!(branch("\n"), None);
    }
}
