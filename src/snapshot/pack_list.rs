//! The packs of one objects directory, as a listing found them.
//!
//! A list never changes: snapshots hold it while the cache moves on. The next list is made from
//! the one before it and a new listing, and only the indexes that are new are read.

use super::SnapshotError;
use super::descriptors::Descriptors;
use super::first_look::{Looked, first_look};
use super::index_file::{Identity, IndexFile, Unreadable, is_gone};
use super::listed_multi::{MULTI_KEY, Multi};
use super::listed_names::{Names, names_exactly};
use super::multi_pack_index::stem_of;
use super::run::{self, PackFile, Run};
use crate::model::{HashKind, oid};
use crate::repo::{DirectoryEntry, Disk};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All packs that have an index, as of one listing.
#[derive(Clone, Debug, Default)]
pub(super) struct PackList {
    /// By the name without `.idx`; the multi-pack-index by [`MULTI_KEY`].
    indexes: HashMap<Arc<OsStr>, Listed>,
    multi: Option<Multi>,
    /// The indexes in memory, from the longest table to the shortest.
    runs: Vec<Arc<Run>>,
    /// The indexes that are too large for it, or large and not searched often so far.
    on_disk: Vec<Arc<IndexFile>>,
}

#[derive(Clone, Debug)]
struct Listed {
    file: Arc<IndexFile>,
    in_memory: bool,
}

type Named = (Arc<OsStr>, Arc<IndexFile>);

/// Tables that were read when their indexes were looked at, by the numbers of these.
type ReadAlready = HashMap<u64, Run>;

/// Where and how lists are made.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) disk: &'a Disk,
    pub(super) hash: HashKind,
    /// `objects/pack`.
    pub(super) directory: &'a Path,
    /// Bytes that all tables of a list may take in memory together.
    pub(super) bytes_max: u64,
    /// The open files of indexes that are searched where they lie.
    pub(super) open: &'a Descriptors<File>,
}

/// What a listing made of a list.
#[derive(Debug)]
pub(super) struct Updated {
    /// The list.
    pub(super) list: PackList,
    /// Something that was listed and had gone when it was looked at.
    pub(super) vanished: Option<PathBuf>,
    /// Whether a pack of the list before is not in the listing.
    pub(super) has_lost: bool,
}

/// An object in a pack.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    pub(super) pack: Arc<PackFile>,
    pub(super) offset: u64,
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        (self.pack.number, self.offset) == (other.pack.number, other.offset)
    }
}

impl PackList {
    /// All places of an object; with `first_only` one of them. An index that has gone is left
    /// out, and the last word says that there was one.
    pub(super) fn find(
        &self,
        id: &oid,
        disk: &Disk,
        open: &Descriptors<File>,
        first_only: bool,
    ) -> Result<(Vec<Packed>, bool), SnapshotError> {
        let mut found = Vec::new();
        let mut is_stale = false;
        for run in &self.runs {
            found.extend(run.find(id).map(|(pack, offset)| Packed { pack: pack.clone(), offset }));
            if first_only && !found.is_empty() {
                found.truncate(1);
                return Ok((found, false));
            }
        }
        for file in &self.on_disk {
            match file.find(id, disk, open, id.kind()) {
                Ok(Some((pack, offset))) => found.push(Packed { pack: pack.clone(), offset }),
                Ok(None) => {}
                Err(Unreadable::Gone(_)) => is_stale = true,
                Err(Unreadable::Error(error)) => return Err(error),
            }
            if first_only && !found.is_empty() {
                return Ok((found, false));
            }
        }
        Ok((found, is_stale))
    }

    /// Whether a listing names the very indexes of this list, and their packs; none is looked at.
    pub(super) fn is_as_listed(&self, listing: &[DirectoryEntry]) -> bool {
        let inode = |stem: &OsStr| Some(self.indexes.get(stem)?.file.identity().inode);
        self.multi.is_none() && names_exactly(listing, self.indexes.len(), inode)
    }

    /// The list that a new listing gives. Reads the indexes that are not in this one.
    ///
    /// What has gone since the listing is left out, and told: a repack removes packs one by one,
    /// and whoever waited for a listing of which nothing vanishes might wait for all of it.
    pub(super) fn update(
        &self,
        around: &Surroundings<'_>,
        listing: &[DirectoryEntry],
    ) -> Result<Updated, SnapshotError> {
        let names = Names::of(listing);
        let mut vanished = None;
        let multi =
            Multi::look(self.multi.as_ref(), around, &names).or_else(|fault| match fault {
                Unreadable::Gone(path) => {
                    vanished = Some(path);
                    Ok(None)
                }
                Unreadable::Error(error) => Err(error),
            })?;
        let composed = self.compose(around, &names, multi.clone(), &mut vanished);
        let composed = match (composed, multi) {
            (
                Err(Unreadable::Error(SnapshotError::CorruptIndex { path, source })),
                Some(Multi::Read { file, .. }),
            ) if path == file.path() => {
                let ignored = Multi::ignored(file.identity(), &path, source);
                self.compose(around, &names, Some(ignored), &mut vanished)
            }
            (Err(Unreadable::Gone(path)), Some(_)) => {
                vanished = Some(path);
                self.compose(around, &names, None, &mut vanished)
            }
            (composed, _) => composed,
        };
        let list = composed.map_err(|fault| match fault {
            Unreadable::Gone(path) => SnapshotError::io(&path, io::ErrorKind::NotFound.into()),
            Unreadable::Error(error) => error,
        })?;
        Ok(Updated { has_lost: self.has_lost(&names), list, vanished })
    }

    /// Whether a pack of this list is not in a listing.
    fn has_lost(&self, names: &Names) -> bool {
        let covered = match &self.multi {
            Some(Multi::Read { packs, .. }) => Some(packs.iter()),
            _ => None,
        };
        let single = self.indexes.keys().map(|name| &**name).filter(|name| *name != MULTI_KEY);
        single
            .chain(covered.into_iter().flatten().map(OsString::as_os_str))
            .any(|name| !names.packs.contains(name))
    }

    /// The list of what is there, given what is known of the multi-pack-index. Packs that have
    /// gone meanwhile are left out; if the multi-pack-index has, there is no list.
    fn compose(
        &self,
        around: &Surroundings<'_>,
        names: &Names,
        multi: Option<Multi>,
        vanished: &mut Option<PathBuf>,
    ) -> Result<Self, Unreadable> {
        let usable = multi.as_ref().filter(|multi| multi.is_usable(names));
        let (mut wanted, mut read) = self.look_at_indexes(around, names, usable, vanished)?;
        if let Some(Multi::Read { file, .. }) = usable {
            wanted.push((Arc::from(OsStr::new(MULTI_KEY)), Arc::clone(file)));
        }
        let before = in_memory(&self.indexes);
        let mut indexes =
            choose(wanted, around.bytes_max, |file| before.contains_key(&file.number()));
        let loaded = load_new(around, &before, &mut indexes, &mut read, vanished)?;
        let after = in_memory(&indexes);
        let gone = before.iter().filter(|(number, _)| !after.contains_key(number));
        let gone = gone.flat_map(|(_, file)| file.packs().iter().map(|pack| pack.number));
        let mut runs = without(&self.runs, &gone.collect());
        run::add(&mut runs, loaded);
        let on_disk = indexes.values().filter(|listed| !listed.in_memory);
        let on_disk = on_disk.map(|listed| Arc::clone(&listed.file)).collect();
        Ok(Self { indexes, multi, runs, on_disk })
    }

    /// This list with a pack of our own, whose index is `bytes`. `None` if nothing is to be
    /// added, or if it would not fit: the next listing decides then.
    pub(super) fn with_pack(
        &self,
        around: &Surroundings<'_>,
        index: &Path,
        bytes: &[u8],
    ) -> Option<Self> {
        let stem = stem_of(index.file_name()?)?;
        let identity = Identity::of(&around.disk.stat(index).ok()??);
        let known = self.indexes.get(&*stem);
        let room = around.bytes_max.saturating_sub(self.table_bytes());
        if known.is_some_and(|listed| listed.file.identity() == identity)
            || self.multi.as_ref().is_some_and(|multi| multi.covers(&stem))
            || identity.memory_estimate() > room
        {
            return None;
        }
        let mut list = self.clone();
        if let Some(listed) = list.indexes.remove(&*stem) {
            let gone = listed.file.packs().iter().map(|pack| pack.number).collect();
            list.runs = without(&self.runs, &gone);
            list.on_disk.retain(|file| file.number() != listed.file.number());
        }
        let file = Arc::new(new_index(around, &stem, identity));
        let run = file.parse(bytes, around.hash).ok()?;
        run::add(&mut list.runs, vec![run]);
        list.indexes.insert(Arc::from(stem), Listed { file, in_memory: true });
        Some(list)
    }

    /// Bytes of memory that the list takes.
    pub(super) fn bytes(&self) -> u64 {
        let covered = self.multi.as_ref().map_or(0, Multi::pack_count);
        let named = (self.indexes.len() + covered) * BYTES_OF_AN_INDEX;
        let fan_outs = self.on_disk.len() * size_of::<[u32; 256]>();
        self.table_bytes().saturating_add((named + fan_outs) as u64)
    }

    /// The numbers of the indexes that are searched where they lie.
    pub(super) fn on_disk(&self) -> impl Iterator<Item = u64> {
        self.on_disk.iter().map(|file| file.number())
    }

    fn table_bytes(&self) -> u64 {
        let may_grow = self.on_disk.iter().filter(|file| file.may_load());
        let may_grow: u64 = may_grow.map(|file| file.identity().memory_estimate()).sum();
        self.runs.iter().map(|run| run.bytes()).sum::<u64>().saturating_add(may_grow)
    }

    /// The indexes of packs that `covered`, the multi-pack-index, does not cover: the ones we know,
    /// and new ones, with the tables of those that were read. Those that have gone are left out.
    fn look_at_indexes(
        &self,
        around: &Surroundings<'_>,
        names: &Names,
        covered: Option<&Multi>,
        vanished: &mut Option<PathBuf>,
    ) -> Result<(Vec<Named>, ReadAlready), Unreadable> {
        let uncovered =
            names.indexes.iter().filter(|stem| !covered.is_some_and(|multi| multi.covers(stem)));
        let mut found = Vec::with_capacity(names.indexes.len());
        let mut new = Vec::new();
        for stem in uncovered {
            let Some((name, listed)) = self.indexes.get_key_value(&**stem) else {
                new.push(stem);
                continue;
            };
            match look_at(around.disk, &with_ending(around.directory, stem, ".idx")) {
                Err(Unreadable::Gone(path)) => *vanished = Some(path),
                Err(fault) => return Err(fault),
                Ok(identity) if listed.file.identity() == identity => {
                    found.push((Arc::clone(name), Arc::clone(&listed.file)));
                }
                Ok(_) => new.push(stem),
            }
        }
        let mut read = ReadAlready::new();
        for (stem, looked) in new.iter().zip(first_look(around, &new)) {
            match looked {
                Err(Unreadable::Gone(path)) => *vanished = Some(path),
                Err(fault) => return Err(fault),
                Ok(Looked { file, run }) => {
                    read.extend(run.map(|run| (file.number(), run)));
                    found.push((Arc::from(stem.as_os_str()), file));
                }
            }
        }
        Ok((found, read))
    }
}

/// A guess at what an index costs beside its table: paths, names and their tables.
const BYTES_OF_AN_INDEX: usize = 512;

/// Chooses which indexes are in memory: the smallest, since one index that is searched where it
/// lies costs the same whatever its size; before them those whose tables have been read on their
/// own. Large ones that are chosen and are not merged yet get there by being searched often.
fn choose(
    mut wanted: Vec<Named>,
    bytes_max: u64,
    is_merged: impl Fn(&IndexFile) -> bool,
) -> HashMap<Arc<OsStr>, Listed> {
    wanted.sort_by_cached_key(|(_, file)| (!file.is_loaded(), file.identity().size));
    let mut bytes = 0u64;
    wanted
        .into_iter()
        .map(|(name, file)| {
            bytes = bytes.saturating_add(file.identity().memory_estimate());
            let has_room = bytes <= bytes_max;
            file.let_load(has_room);
            let in_memory = has_room && (!file.is_large() || is_merged(&file));
            (name, Listed { file, in_memory })
        })
        .collect()
}

fn in_memory(indexes: &HashMap<Arc<OsStr>, Listed>) -> HashMap<u64, &IndexFile> {
    let listed = indexes.values().filter(|listed| listed.in_memory);
    listed.map(|listed| (listed.file.number(), &*listed.file)).collect()
}

/// Reads the indexes that are to be in memory and are not yet. Those that have gone are taken
/// out.
fn load_new(
    around: &Surroundings<'_>,
    before: &HashMap<u64, &IndexFile>,
    indexes: &mut HashMap<Arc<OsStr>, Listed>,
    read: &mut ReadAlready,
    vanished: &mut Option<PathBuf>,
) -> Result<Vec<Run>, Unreadable> {
    let mut loaded = Vec::new();
    let mut gone = Vec::new();
    for (name, listed) in indexes.iter().filter(|(_, listed)| listed.in_memory) {
        if before.contains_key(&listed.file.number()) {
            continue;
        }
        if let Some(run) = read.remove(&listed.file.number()) {
            loaded.push(run);
            continue;
        }
        match load(around, &listed.file) {
            Ok(run) => loaded.push(run),
            Err(Unreadable::Gone(path)) if **name != *MULTI_KEY => {
                *vanished = Some(path);
                gone.push(Arc::clone(name));
            }
            Err(fault) => return Err(fault),
        }
    }
    for name in gone {
        indexes.remove(&name);
    }
    Ok(loaded)
}

fn load(around: &Surroundings<'_>, file: &IndexFile) -> Result<Run, Unreadable> {
    let opened = around.open.file(file.number(), || file.open(around.disk))?;
    let run = file.load(&opened, around.hash);
    around.open.close(file.number());
    run
}

fn without(runs: &[Arc<Run>], gone: &HashSet<u64>) -> Vec<Arc<Run>> {
    if gone.is_empty() {
        return runs.to_vec();
    }
    let mut runs: Vec<_> = runs
        .iter()
        .map(|run| run.without(gone).map_or_else(|| Arc::clone(run), Arc::new))
        .filter(|run| run.len() > 0)
        .collect();
    runs.sort_by_key(|run| Reverse(run.len()));
    runs
}

pub(super) fn new_index(around: &Surroundings<'_>, stem: &OsStr, identity: Identity) -> IndexFile {
    let pack = Arc::new(PackFile::new(with_ending(around.directory, stem, ".pack")));
    IndexFile::new(with_ending(around.directory, stem, ".idx"), identity, pack)
}

pub(super) fn with_ending(directory: &Path, stem: &OsStr, ending: &str) -> PathBuf {
    let mut name = stem.to_owned();
    name.push(ending);
    directory.join(name)
}

/// What a listed file is.
pub(super) fn look_at(disk: &Disk, path: &Path) -> Result<Identity, Unreadable> {
    match disk.stat(path) {
        Ok(Some(stat)) => Ok(Identity::of(&stat)),
        Ok(None) => Err(Unreadable::Gone(path.to_owned())),
        Err(error) => Err(unreadable(path, error)),
    }
}

pub(super) fn unreadable(path: &Path, error: io::Error) -> Unreadable {
    if is_gone(&error) {
        Unreadable::Gone(path.to_owned())
    } else {
        Unreadable::Error(SnapshotError::io(path, error))
    }
}
