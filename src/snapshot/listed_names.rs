//! What a listing of `objects/pack` names. Nothing is looked at.

use super::multi_pack_index;
use crate::repo::DirectoryEntry;
use std::collections::HashSet;
use std::ffi::OsString;
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
