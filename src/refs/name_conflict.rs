//! Refs that cannot exist beside each other: `a` is a file where `a/b` needs a directory.
//!
//! Between loose refs the file system decides. A packed ref is in nobody's way on disk, so it is
//! looked for, and always after the directories have been looked at: `git pack-refs` moves refs
//! from there to here.

use super::context::{RefContext, parents_of};
use super::error::{Doing, RefError};
use super::packed::PackedRefs;
use super::store::{Loose, RefStore};
use crate::model::RefName;
use crate::repo::EntryKind;
use bstr::{BStr, BString, ByteSlice};
use std::collections::BTreeSet;
use std::io;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A set of names that tells who is in whose way.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<BString>);

impl Names {
    pub(super) fn insert(&mut self, name: &BStr) {
        self.0.insert(name.into());
    }

    pub(super) fn remove(&mut self, name: &BStr) {
        self.0.remove(name.as_bytes());
    }

    pub(super) fn contains(&self, name: &BStr) -> bool {
        self.0.contains(name.as_bytes())
    }

    /// Whether the name is here, or one that cannot be beside it.
    pub(super) fn concern(&self, name: &BStr) -> bool {
        self.contains(name) || self.has_parent_of(name) || self.first_below(name).is_some()
    }

    pub(super) fn has_parent_of(&self, name: &BStr) -> bool {
        parents_of(name).any(|parent| self.contains(parent))
    }

    fn first_below(&self, name: &BStr) -> Option<&BStr> {
        let mut directory = BString::from(name);
        directory.push(b'/');
        let range = (Bound::Excluded(directory.clone()), Bound::Unbounded);
        let found = self.0.range::<BString, _>(range).next()?;
        found.starts_with(&directory).then(|| found.as_bstr())
    }
}

/// Why a ref cannot be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// This ref is there.
    Existing {
        /// Which.
        name: BString,
        /// Whether it was found in packed-refs.
        packed: bool,
    },
    /// The same transaction names this ref.
    InPush(BString),
}

impl Obstacle {
    fn packed(name: &BStr) -> Self {
        Self::Existing { name: name.into(), packed: true }
    }

    pub(super) fn loose(name: BString) -> Self {
        Self::Existing { name, packed: false }
    }
}

/// What is left of a directory at the place of a ref once all that is empty has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cleared {
    /// Nothing: the place is free.
    Free,
    /// Lock files only. Whoever holds them will be done soon.
    Locks,
    /// Files that are no refs.
    Other,
    /// At least this ref, the first in byte order.
    Ref(BString),
}

impl RefStore {
    /// Looks for what keeps `name` from being created by one who holds its lock, and with that
    /// all directories above it.
    pub(super) fn obstacle(
        name: &BStr,
        packed: &PackedRefs,
        push: Option<&Names>,
    ) -> Result<Option<Obstacle>, RefError> {
        for parent in parents_of(name) {
            if packed.find(parent)?.is_some() {
                return Ok(Some(Obstacle::packed(parent)));
            }
            if push.is_some_and(|push| push.contains(parent)) {
                return Ok(Some(Obstacle::InPush(parent.into())));
            }
        }
        if let Some(below) = packed.first_below(name)? {
            return Ok(Some(Obstacle::packed(below)));
        }
        let below = push.and_then(|push| push.first_below(name));
        Ok(below.map(|below| Obstacle::InPush(below.into())))
    }

    /// Looks for the ref that keeps the directories above `name` from being created.
    pub(super) fn parent_that_exists(&self, name: &BStr) -> Result<Option<BString>, RefError> {
        for parent in parents_of(name) {
            let exists = match self.read_loose(parent)? {
                Loose::Value(_) => true,
                Loose::Broken => false,
                Loose::Absent | Loose::Directory => self.packed_refs()?.find(parent)?.is_some(),
            };
            if exists {
                return Ok(Some(parent.into()));
            }
        }
        Ok(None)
    }

    /// Whether a file that is no directory lies above `name`.
    pub(super) fn is_below_a_file(&self, name: &BStr) -> Result<bool, RefError> {
        for parent in parents_of(name) {
            let path = self.context().ref_path(parent);
            let stat = self.context().disk.stat(&path).doing("look at", &path)?;
            if stat.is_some_and(|stat| stat.kind != EntryKind::Directory) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the directory at the place of `name` as far as it is empty.
    pub(super) fn clear_directory(&self, name: &BStr) -> Result<Cleared, RefError> {
        clear(self.context(), name, &self.context().ref_path(name), &|name| {
            RefName::for_deletion(name).is_ok()
        })
    }
}

/// Removes empty directories bottom up and tells what is left. `is_ref` knows names of refs.
pub(super) fn clear(
    context: &RefContext,
    name: &BStr,
    path: &std::path::Path,
    is_ref: &dyn Fn(&BStr) -> bool,
) -> Result<Cleared, RefError> {
    let mut entries = match context.disk.list(path) {
        Err(error) if is_gone(&error) => return Ok(Cleared::Free),
        result => result.doing("list", path)?,
    };
    // In the order of full names, where what is in a directory is sorted by its slash.
    entries.sort_by_key(|entry| {
        let mut key = entry.name.as_bytes().to_vec();
        key.extend((entry.kind == EntryKind::Directory).then_some(b'/'));
        key
    });
    let mut left = Cleared::Free;
    for entry in entries {
        let mut below = BString::from(name);
        below.push(b'/');
        below.extend_from_slice(entry.name.as_bytes());
        let found = if entry.kind == EntryKind::Directory {
            clear(context, below.as_bstr(), &path.join(&entry.name), is_ref)?
        } else if entry.name.as_bytes().ends_with(b".lock") {
            Cleared::Locks
        } else if is_ref(below.as_bstr()) {
            Cleared::Ref(below)
        } else {
            Cleared::Other
        };
        match (&left, found) {
            (_, found @ Cleared::Ref(_)) => return Ok(found),
            (Cleared::Free | Cleared::Locks, found) if found != Cleared::Free => left = found,
            _ => {}
        }
    }
    if left == Cleared::Free {
        match context.disk.remove_directory(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                return Ok(Cleared::Locks);
            }
            result => result.doing("remove", path)?,
        };
    }
    Ok(left)
}

/// Removes the directories above a file as far as they are empty, but for `refs` and the level
/// below it. What cannot be removed stays: it is in nobody's way.
pub(super) fn prune_parents(context: &RefContext, file: PathBuf, name: &BStr) {
    let levels = name.find_iter("/").count().saturating_sub(2);
    let mut directory = file;
    for _ in 0..levels {
        if !directory.pop() || context.disk.remove_directory(&directory).is_err() {
            return;
        }
    }
}

/// Whether a directory has gone, or become a file.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
