//! Which branches are checked out, where a push must not move them unasked.

use crate::model::RefName;
use crate::refs::{RefStore, Resolved};
use crate::repo::{Disk, EntryKind};
use bstr::{BStr, BString, ByteSlice};
use std::io;
use std::path::Path;

/// The branches that HEADs name.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckedOut {
    /// Of the main work tree, if there is one, and of linked ones.
    work_trees: Vec<BString>,
    /// Of the repository itself, bare or not.
    head: Option<BString>,
}

/// LIMIT: bytes of a HEAD file, and of those that name branches.
const HEAD_BYTES_MAX: u64 = 1 << 16;

impl CheckedOut {
    /// Looks at HEAD and at the HEADs of linked work trees (git-worktree(1), "DETAILS"). In a bare
    /// repository HEAD itself matters to deletions alone.
    pub(super) fn look(
        disk: &Disk,
        store: &RefStore,
        bare: bool,
        deletes: bool,
    ) -> io::Result<Self> {
        let common_dir = store.context().common_dir.as_path();
        let target = |resolved: Resolved| resolved.is_symbolic().then(|| resolved.target().into());
        let head = (deletes || !bare).then(|| store.resolve_head().ok().and_then(target)).flatten();
        let mut work_trees = Vec::new();
        if !bare {
            work_trees.extend(head.clone());
            // Of a linked work tree, HEAD is its own; the main one has its beside.
            work_trees.extend(branches_of(disk, store, common_dir)?);
        }
        let linked = common_dir.join("worktrees");
        if disk.stat(&linked)?.is_some() {
            for entry in disk.list(&linked)? {
                if entry.kind == EntryKind::Directory {
                    work_trees.extend(branches_of(disk, store, &linked.join(&entry.name))?);
                }
            }
        }
        Ok(Self { work_trees, head })
    }

    /// Whether a work tree has this branch checked out.
    pub(super) fn in_work_tree(&self, name: &BStr) -> bool {
        self.work_trees.iter().any(|branch| branch == name)
    }

    /// Whether HEAD or a work tree names this branch.
    pub(super) fn is_current(&self, full_name: &BStr, shown_name: &BStr) -> bool {
        self.head.as_ref().is_some_and(|head| head == full_name) || self.in_work_tree(shown_name)
    }
}

/// The branches that the work tree with this directory has checked out, or will have again when
/// the rebase or bisection that goes on there is over (git's `worktree.c`, `find_shared_symref`).
fn branches_of(disk: &Disk, store: &RefStore, git_dir: &Path) -> io::Result<Vec<BString>> {
    let mut branches = Vec::new();
    let head = read(disk, &git_dir.join("HEAD"))?;
    if let Some(name) = head.strip_prefix(b"ref:") {
        let name = BString::from(name.trim());
        // It may name a branch by another symbolic ref.
        let resolved = RefName::new(name.clone()).ok().and_then(|name| store.resolve(&name).ok());
        branches.push(resolved.map_or(name, |resolved| resolved.target().into()));
    }
    for file in ["rebase-merge/head-name", "rebase-apply/head-name"] {
        branches.push(read(disk, &git_dir.join(file))?.trim().into());
    }
    let start = read(disk, &git_dir.join("BISECT_START"))?;
    if !start.trim().is_empty() {
        branches.push([b"refs/heads/", start.trim()].concat().into());
    }
    branches.retain(|name| name.starts_with(b"refs/"));
    Ok(branches)
}

fn read(disk: &Disk, file: &Path) -> io::Result<Vec<u8>> {
    Ok(disk.read_if_there(file, HEAD_BYTES_MAX)?.unwrap_or_default())
}
