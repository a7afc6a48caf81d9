//! What a listing of `objects/pack` names. Nothing is looked at.

use super::multi_pack_index;
use crate::repo::DirectoryEntry;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What a listing says, by names.
pub(super) struct Names {
    /// The packs, without `.pack`.
    pub(super) packs: HashSet<OsString>,
    /// The indexes of packs that are there, without `.idx`.
    pub(super) indexes: Vec<OsString>,
    pub(super) has_multi: bool,
}

impl Names {
    pub(super) fn of(listing: &[DirectoryEntry]) -> Self {
        // Names that begin with a dot are of files being written, by rsync or `git repack`.
        let names = || listing.iter().map(|entry| entry.name.as_bytes());
        let stems = |ending: &'static [u8]| {
            names()
                .filter(|name| !name.starts_with(b"."))
                .filter_map(move |name| name.strip_suffix(ending))
                .map(|stem| OsString::from_vec(stem.to_vec()))
        };
        let packs: HashSet<OsString> = stems(b".pack").collect();
        let indexes = stems(b".idx").filter(|stem| packs.contains(stem)).collect();
        let has_multi = names().any(|name| name == multi_pack_index::FILE_NAME.as_bytes());
        Self { packs, indexes, has_multi }
    }
}

/// Whether a listing names exactly the `count` indexes that `inode_of` knows, each with its inode
/// and its pack, and no multi-pack-index.
///
/// That takes no look at any of them. An index whose bytes were changed where they are is not told
/// from what it was; what is read through it shows that, and is reason to look again.
pub(super) fn names_exactly(
    listing: &[DirectoryEntry],
    count: usize,
    inode_of: impl Fn(&OsStr) -> Option<u64>,
) -> bool {
    let (mut packs, mut indexes) = (HashSet::new(), Vec::with_capacity(count));
    for entry in listing {
        let name = entry.name.as_bytes();
        if name == multi_pack_index::FILE_NAME.as_bytes() {
            return false;
        }
        if let Some(stem) = name.strip_suffix(b".pack") {
            packs.insert(stem);
        } else if let Some(stem) = name.strip_suffix(b".idx").filter(|_| !name.starts_with(b".")) {
            if inode_of(OsStr::from_bytes(stem)) != Some(entry.inode) {
                return false;
            }
            indexes.push(stem);
        }
    }
    indexes.len() == count && indexes.iter().all(|stem| packs.contains(stem))
}
