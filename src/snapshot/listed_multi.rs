//! The multi-pack-index of one objects directory, as a listing found it.

use super::IndexFault;
use super::index_file::{Identity, IndexFile, Unreadable};
use super::known_indexes::{Surroundings, look_at, unreadable, with_ending};
use super::layout::IndexError;
use super::listed_names::Names;
use super::multi_pack_index::{self, MultiPackIndex};
use super::run::PackFile;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

/// The multi-pack-index, whether it is used or not: one that is not is not read again either.
#[derive(Clone, Debug)]
pub(super) enum Multi {
    Read { file: Arc<IndexFile>, packs: Arc<HashSet<OsString>> },
    NotUnderstood(Identity),
}

impl Multi {
    pub(super) fn identity(&self) -> Identity {
        match self {
            Self::Read { file, .. } => file.identity(),
            Self::NotUnderstood(identity) => *identity,
        }
    }

    pub(super) fn pack_count(&self) -> usize {
        match self {
            Self::Read { packs, .. } => packs.len(),
            Self::NotUnderstood(_) => 0,
        }
    }

    pub(super) fn covers(&self, stem: &OsStr) -> bool {
        matches!(self, Self::Read { packs, .. } if packs.contains(stem))
    }

    /// One that names a pack that has gone is ignored whole: its objects may be anywhere by now.
    pub(super) fn is_usable(&self, names: &Names<'_>) -> bool {
        let Self::Read { packs, .. } = self else { return false };
        packs.iter().all(|stem| names.packs.contains(stem.as_os_str()))
    }

    /// Looks whether there is a multi-pack-index, and reads what it covers if it is not `known`.
    pub(super) fn look(
        known: Option<&Self>,
        around: &Surroundings<'_>,
        names: &Names<'_>,
    ) -> Result<Option<Self>, Unreadable> {
        if !names.has_multi {
            return Ok(None);
        }
        let path = around.directory.join(multi_pack_index::FILE_NAME);
        let identity = look_at(around.disk, &path)?;
        if let Some(multi) = known.filter(|multi| multi.identity() == identity) {
            return Ok(Some(multi.clone()));
        }
        let file = around.disk.open(&path).map_err(|error| unreadable(&path, error))?;
        match MultiPackIndex::read(&file, identity.size, around.hash) {
            Ok(multi) => {
                let packs = multi.packs.iter().map(|stem| {
                    Arc::new(PackFile::new(with_ending(around.directory, stem, ".pack")))
                });
                let index = IndexFile::new_multi(path, identity, packs.collect(), multi.layout);
                // It stays open for what comes next: being read whole, or being searched.
                around.open.file(index.number(), || Ok::<_, Unreadable>(file))?;
                let packs = Arc::new(multi.packs.into_iter().collect());
                Ok(Some(Self::Read { file: Arc::new(index), packs }))
            }
            Err(IndexError::Io(error)) => Err(unreadable(&path, error)),
            Err(IndexError::Fault(fault)) => Ok(Some(Self::ignored(identity, &path, fault))),
        }
    }

    /// The indexes say what a multi-pack-index does: without it nothing is missing.
    pub(super) fn ignored(identity: Identity, path: &Path, fault: IndexFault) -> Self {
        tracing::warn!(path = %path.display(), %fault, "ignoring a multi-pack-index");
        Self::NotUnderstood(identity)
    }
}

/// What the multi-pack-index goes by among the indexes; no name of a file has a slash.
pub(super) const MULTI_KEY: &str = "/multi-pack-index";
