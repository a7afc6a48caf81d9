//! Where the copies of an object are, in the order in which they are tried.

use super::cache::{SnapshotCache, Sources};
use super::descriptors::Descriptors;
use super::directory_state::Freshness;
use super::error::SnapshotError;
use super::input::CopyFault;
use super::loose::LooseObjects;
use super::pack_list::{PackList, Packed};
use crate::model::{HashKind, ObjectId, oid};
use crate::repo::Disk;
use std::collections::HashSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// One objects directory as a snapshot sees it.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) packs: Arc<PackList>,
    pub(super) loose: LooseObjects,
}

/// All directories of a repository, its own first.
#[derive(Debug)]
pub(super) struct View {
    pub(super) directories: Vec<Directory>,
}

/// One copy of an object.
#[derive(Clone, Debug)]
pub(super) enum ObjectCopy {
    /// An entry of a pack.
    Packed(Packed),
    /// A loose file.
    Loose(PathBuf),
}

/// All directories, and what looking into them needs.
#[derive(Debug)]
pub(super) struct Copies<'a> {
    pub(super) quarantine: Option<&'a Directory>,
    pub(super) directories: &'a [Directory],
    pub(super) disk: &'a Disk,
    pub(super) open_indexes: &'a Descriptors<File>,
}

/// What became of trying one copy after the other.
#[derive(Debug)]
pub(super) enum Attempt<T> {
    /// One of them did.
    Found(T),
    /// None did.
    Nothing {
        /// Whether one of them, or an index that may name one, is not there any more.
        is_stale: bool,
        /// The first damage that was met.
        damage: Option<SnapshotError>,
    },
}

impl View {
    pub(super) fn new(
        cache: &SnapshotCache,
        sources: &Sources,
        hash: HashKind,
        freshness: Freshness,
    ) -> Result<Self, SnapshotError> {
        let mut seen = HashSet::new();
        let directories = std::iter::once(&sources.own)
            .chain(&sources.alternates)
            .filter(|objects| seen.insert(objects.as_path()))
            .map(|objects| cache.directory(objects, hash, freshness))
            .collect::<Result<_, _>>()?;
        Ok(Self { directories })
    }
}

impl Copies<'_> {
    /// Tries the copies of an object until one does: those in packs, ours before those of
    /// alternates, then those in loose files. Packs come first because a hit in one costs no
    /// system call.
    pub(super) fn attempt<T>(
        &self,
        id: &ObjectId,
        mut work: impl FnMut(&ObjectCopy) -> Result<Option<T>, CopyFault>,
    ) -> Result<Attempt<T>, SnapshotError> {
        let mut stale = false;
        let mut damage = None;
        let mut attempt = |copy: &ObjectCopy| match work(copy) {
            Ok(result) => Ok(result),
            Err(CopyFault::Gone) => {
                stale = true;
                Ok(None)
            }
            Err(CopyFault::Damaged(path, source)) => {
                let source = Box::new(source);
                damage.get_or_insert(SnapshotError::DamagedObject { id: *id, path, source });
                Ok(None)
            }
            Err(CopyFault::Other(error)) => Err(error),
        };
        let mut index_has_gone = false;
        for directory in self.directories() {
            let find =
                |first_only| directory.packs.find(id, self.disk, self.open_indexes, first_only);
            let (mut packed, has_gone) = find(true)?;
            index_has_gone |= has_gone;
            let tried = packed.pop();
            if let Some(first) = tried.clone() {
                if let Some(found) = attempt(&ObjectCopy::Packed(first))? {
                    return Ok(Attempt::Found(found));
                }
                // Only now are all indexes asked: that the first copy will not do is rare.
                packed = find(false)?.0;
            }
            for other in packed.into_iter().filter(|other| Some(other) != tried.as_ref()) {
                if let Some(found) = attempt(&ObjectCopy::Packed(other))? {
                    return Ok(Attempt::Found(found));
                }
            }
        }
        for directory in self.directories() {
            if directory.loose.has(self.disk, id)? {
                let path = directory.loose.path_of(id);
                if let Some(found) = attempt(&ObjectCopy::Loose(path))? {
                    return Ok(Attempt::Found(found));
                }
            }
        }
        Ok(Attempt::Nothing { is_stale: stale || index_has_gone, damage })
    }

    /// Whether there is a copy, as far as the indexes and names say.
    pub(super) fn any(&self, id: &oid) -> Result<Attempt<()>, SnapshotError> {
        let mut is_stale = false;
        for directory in self.directories() {
            let (packed, has_gone) =
                directory.packs.find(id, self.disk, self.open_indexes, true)?;
            if !packed.is_empty() {
                return Ok(Attempt::Found(()));
            }
            is_stale |= has_gone;
        }
        for directory in self.directories() {
            if directory.loose.has(self.disk, id)? {
                return Ok(Attempt::Found(()));
            }
        }
        Ok(Attempt::Nothing { is_stale, damage: None })
    }

    /// The copies that a delta in the pack of this number can have for its base: one in the same
    /// pack if there is one, as the format asks, else any.
    pub(super) fn base_for(
        &self,
        id: &oid,
        pack_number: u64,
    ) -> Result<Option<ObjectCopy>, SnapshotError> {
        let mut elsewhere = None;
        for directory in self.directories() {
            let (packed, _) = directory.packs.find(id, self.disk, self.open_indexes, false)?;
            for packed in packed {
                if packed.pack.number == pack_number {
                    return Ok(Some(ObjectCopy::Packed(packed)));
                }
                elsewhere.get_or_insert(packed);
            }
        }
        if let Some(packed) = elsewhere {
            return Ok(Some(ObjectCopy::Packed(packed)));
        }
        for directory in self.directories() {
            if directory.loose.has(self.disk, id)? {
                return Ok(Some(ObjectCopy::Loose(directory.loose.path_of(id))));
            }
        }
        Ok(None)
    }

    fn directories(&self) -> impl Iterator<Item = &Directory> {
        self.quarantine.into_iter().chain(self.directories)
    }
}
