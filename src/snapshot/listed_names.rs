//! What a listing of `objects/pack` names. Nothing is looked at.

use super::multi_pack_index;
use crate::repo::NameList;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What a listing says, by names.
pub(super) struct Names<'a> {
    /// The packs, without `.pack`.
    pub(super) packs: HashSet<&'a OsStr>,
    /// The indexes of packs that are there, without `.idx`, and their inodes.
    pub(super) indexes: Vec<(&'a OsStr, u64)>,
    pub(super) has_multi: bool,
}

impl<'a> Names<'a> {
    pub(super) fn of(listing: &'a NameList) -> Self {
        let mut packs = HashSet::with_capacity(listing.len() / 2);
        let mut indexes = Vec::with_capacity(listing.len() / 2);
        let mut has_multi = false;
        for (name, inode) in listing.iter() {
            match Concerning::of(name) {
                Some(Concerning::Pack(stem)) => {
                    packs.insert(stem);
                }
                Some(Concerning::Index(stem)) => indexes.push((stem, inode)),
                Some(Concerning::Multi) => has_multi = true,
                None => {}
            }
        }
        indexes.retain(|(stem, _)| packs.contains(stem));
        Self { packs, indexes, has_multi }
    }
}

/// A name that says something of what a repository has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Concerning<'a> {
    /// A pack, without `.pack`.
    Pack(&'a OsStr),
    /// The index of a pack, without `.idx`.
    Index(&'a OsStr),
    /// The multi-pack-index.
    Multi,
}

impl<'a> Concerning<'a> {
    pub(super) fn of(name: &'a OsStr) -> Option<Self> {
        let bytes = name.as_bytes();
        // Names that begin with a dot are of files being written, by rsync or `git repack`.
        if bytes.starts_with(b".") {
            return None;
        }
        if let Some(stem) = bytes.strip_suffix(b".pack") {
            return Some(Self::Pack(OsStr::from_bytes(stem)));
        }
        if let Some(stem) = bytes.strip_suffix(b".idx") {
            return Some(Self::Index(OsStr::from_bytes(stem)));
        }
        (bytes == multi_pack_index::FILE_NAME.as_bytes()).then_some(Self::Multi)
    }
}
