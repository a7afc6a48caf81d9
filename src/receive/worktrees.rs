//! Which branches are checked out, where a push must not move them unasked.

use crate::refs::{RefStore, RefValue};
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

/// LIMIT: bytes of a HEAD file.
const HEAD_BYTES_MAX: u64 = 1 << 16;

impl CheckedOut {
    /// Looks at HEAD and at the HEADs of linked work trees (git-worktree(1), "DETAILS").
    pub(super) fn look(disk: &Disk, store: &RefStore, bare: bool) -> io::Result<Self> {
        let common_dir = store.context().common_dir.as_path();
        let head = match store.head().ok().flatten() {
            Some(RefValue::Symbolic(name)) => Some(name),
            _ => None,
        };
        let mut work_trees = Vec::new();
        if !bare {
            work_trees.extend(head.clone());
            // Of a linked work tree, HEAD is its own; the main one has its beside.
            work_trees.extend(branch_of(disk, &common_dir.join("HEAD"))?);
        }
        let linked = common_dir.join("worktrees");
        if disk.stat(&linked)?.is_some() {
            for entry in disk.list(&linked)? {
                if entry.kind == EntryKind::Directory {
                    let head = linked.join(&entry.name).join("HEAD");
                    work_trees.extend(branch_of(disk, &head)?);
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

/// The branch that a HEAD file names, if it names one.
fn branch_of(disk: &Disk, head: &Path) -> io::Result<Option<BString>> {
    let text = disk.read_if_there(head, HEAD_BYTES_MAX)?.unwrap_or_default();
    Ok(text.strip_prefix(b"ref:").map(|name| name.trim().into()))
}
