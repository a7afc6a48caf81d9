//! What is known of the indexes in one `objects/pack`, and how it is brought up to date.
//!
//! From a listing: the indexes that are known by name and file are kept, and those that are new
//! are read. From names that have changed: those alone are looked at, at a cost that does not
//! depend on how many packs there are.

#![expect(
    clippy::mutable_key_type,
    reason = "an index goes by its name, which never changes; what changes is read later"
)]

use super::SnapshotError;
use super::descriptors::Descriptors;
use super::first_look::{FirstLook, Looked, first_look};
use super::index_file::{Identity, IndexFile, Unreadable, is_gone};
use super::listed_multi::{MULTI_KEY, Multi};
use super::listed_names::Names;
use super::pack_list::PackList;
use super::run::{PackFile, Run};
use crate::model::HashKind;
use crate::repo::Disk;
use std::borrow::Borrow;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The indexes of an objects directory and the list that snapshots get.
#[derive(Debug, Default)]
pub(super) struct KnownIndexes {
    /// By the name without `.idx`; the multi-pack-index by [`MULTI_KEY`], if it is used.
    pub(super) indexes: HashSet<Known>,
    pub(super) multi: Option<Multi>,
    pub(super) list: Arc<PackList>,
}

/// An index by its name.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) file: Arc<IndexFile>,
    pub(super) in_memory: bool,
}

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

/// What a listing made of what was known.
#[derive(Debug)]
pub(super) struct Updated {
    pub(super) known: KnownIndexes,
    /// Something that was listed and had gone when it was looked at.
    pub(super) vanished: Option<PathBuf>,
    /// Whether a pack that was known is not in the listing.
    pub(super) has_lost: bool,
}

/// The indexes that are to be known, and the tables of those that were read.
#[derive(Default)]
struct Wanted {
    files: Vec<Arc<IndexFile>>,
    /// The numbers of the files that are in `runs`.
    read: HashSet<u64>,
    runs: Vec<Run>,
}

impl KnownIndexes {
    /// Whether a listing names exactly the indexes that are known, each with its inode and its
    /// pack, and no multi-pack-index.
    ///
    /// That takes no look at any of them. An index whose bytes were changed where they are is not
    /// told from what it was; what is read through it shows that, and is reason to look again.
    pub(super) fn is_as_listed(&self, names: &Names<'_>) -> bool {
        let is_known = |(stem, inode): &(&OsStr, u64)| {
            let known = self.indexes.get(*stem);
            known.is_some_and(|known| known.file.identity().inode == *inode)
        };
        self.multi.is_none()
            && !names.has_multi
            && names.indexes.len() == self.indexes.len()
            && names.indexes.iter().all(is_known)
    }

    /// What a new listing gives. Reads the indexes that are not known.
    ///
    /// What has gone since the listing is left out, and told: a repack removes packs one by one,
    /// and whoever waited for a listing of which nothing vanishes might wait for all of it.
    pub(super) fn update(
        &self,
        around: &Surroundings<'_>,
        names: &Names<'_>,
    ) -> Result<Updated, SnapshotError> {
        let mut vanished = None;
        let multi =
            Multi::look(self.multi.as_ref(), around, names).or_else(|fault| match fault {
                Unreadable::Gone(path) => {
                    vanished = Some(path);
                    Ok(None)
                }
                Unreadable::Error(error) => Err(error),
            })?;
        let composed = self.compose(around, names, multi.clone(), &mut vanished);
        let composed = match (composed, multi) {
            (
                Err(Unreadable::Error(SnapshotError::CorruptIndex { path, source })),
                Some(Multi::Read { file, .. }),
            ) if path == file.path() => {
                let ignored = Multi::ignored(file.identity(), &path, source);
                self.compose(around, names, Some(ignored), &mut vanished)
            }
            (Err(Unreadable::Gone(path)), Some(_)) => {
                vanished = Some(path);
                self.compose(around, names, None, &mut vanished)
            }
            (composed, _) => composed,
        };
        let known = composed.map_err(|fault| match fault {
            Unreadable::Gone(path) => SnapshotError::io(&path, io::ErrorKind::NotFound.into()),
            Unreadable::Error(error) => error,
        })?;
        Ok(Updated { has_lost: self.has_lost(names), known, vanished })
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let covered = self.multi.as_ref().map_or(0, Multi::pack_count);
        let named = (self.indexes.len() + covered) * BYTES_OF_AN_INDEX;
        let fan_outs = self.list.on_disk().len() * size_of::<[u32; 256]>();
        self.list.table_bytes().saturating_add((named + fan_outs) as u64)
    }

    /// Whether a pack that is known is not in a listing.
    fn has_lost(&self, names: &Names<'_>) -> bool {
        let covered = match &self.multi {
            Some(Multi::Read { packs, .. }) => Some(packs.iter()),
            _ => None,
        };
        let single = self.indexes.iter().map(|known| known.file.stem());
        single
            .filter(|name| *name != MULTI_KEY)
            .chain(covered.into_iter().flatten().map(OsString::as_os_str))
            .any(|name| !names.packs.contains(name))
    }

    /// What is there, given what is known of the multi-pack-index. Packs that have gone meanwhile
    /// are left out; if the multi-pack-index has, that is the error.
    fn compose(
        &self,
        around: &Surroundings<'_>,
        names: &Names<'_>,
        multi: Option<Multi>,
        vanished: &mut Option<PathBuf>,
    ) -> Result<Self, Unreadable> {
        let usable = multi.as_ref().filter(|multi| multi.is_usable(names));
        let mut wanted = self.look_at_indexes(around, names, usable, vanished)?;
        if let Some(Multi::Read { file, .. }) = usable {
            wanted.files.push(Arc::clone(file));
        }
        let Wanted { files, read, runs } = wanted;
        let is_merged = |file: &IndexFile| {
            let before = self.indexes.get(file.stem()).filter(|before| before.in_memory);
            before.is_some_and(|before| before.file.number() == file.number())
        };
        let mut indexes = choose(files, around.bytes_max, is_merged);
        let mut new = leave_out(runs, &read, &indexes);
        new.extend(self.load_new(around, &mut indexes, &read, vanished)?);
        let is_in_memory = |indexes: &HashSet<Known>, known: &Known| {
            let other = indexes.get(known.file.stem());
            other.is_some_and(|other| other.in_memory && other.is_same(known))
        };
        let gone = self
            .indexes
            .iter()
            .filter(|known| known.in_memory && !is_in_memory(&indexes, known))
            .flat_map(|known| known.file.packs().iter().map(|pack| pack.number))
            .collect();
        let on_disk = indexes.iter().filter(|known| !known.in_memory);
        let on_disk = on_disk.map(|known| Arc::clone(&known.file)).collect();
        let list = Arc::new(self.list.changed(&gone, new, on_disk));
        Ok(Self { indexes, multi, list })
    }

    /// The indexes of packs that `covered`, the multi-pack-index, does not cover: the ones we know,
    /// and new ones, with the tables of those that were read. Those that have gone are left out.
    fn look_at_indexes(
        &self,
        around: &Surroundings<'_>,
        names: &Names<'_>,
        covered: Option<&Multi>,
        vanished: &mut Option<PathBuf>,
    ) -> Result<Wanted, Unreadable> {
        let mut wanted = Wanted::default();
        let mut new = Vec::new();
        let stems = names.indexes.iter().map(|(stem, _)| *stem);
        for stem in stems.filter(|stem| !covered.is_some_and(|multi| multi.covers(stem))) {
            let Some(known) = self.indexes.get(stem) else {
                new.push(stem);
                continue;
            };
            match look_at(around.disk, &with_ending(around.directory, stem, ".idx")) {
                Err(Unreadable::Gone(path)) => *vanished = Some(path),
                Err(fault) => return Err(fault),
                Ok(identity) if known.file.identity() == identity => {
                    wanted.files.push(Arc::clone(&known.file));
                }
                Ok(_) => new.push(stem),
            }
        }
        let FirstLook { looked, runs } = first_look(around, &new);
        wanted.runs = runs;
        for (_, looked) in looked {
            match looked {
                Err(Unreadable::Gone(path)) => *vanished = Some(path),
                Err(fault) => return Err(fault),
                Ok(Looked { file, is_read }) => {
                    wanted.read.extend(is_read.then_some(file.number()));
                    wanted.files.push(file);
                }
            }
        }
        Ok(wanted)
    }

    /// Reads the indexes that are to be in memory and are not yet. Those that have gone are taken
    /// out.
    fn load_new(
        &self,
        around: &Surroundings<'_>,
        indexes: &mut HashSet<Known>,
        read: &HashSet<u64>,
        vanished: &mut Option<PathBuf>,
    ) -> Result<Vec<Run>, Unreadable> {
        let is_known = |known: &Known| {
            let before = self.indexes.get(known.file.stem());
            before.is_some_and(|before| before.in_memory && before.is_same(known))
        };
        let mut loaded = Vec::new();
        let mut gone = Vec::new();
        for known in indexes.iter().filter(|known| known.in_memory) {
            if read.contains(&known.file.number()) || is_known(known) {
                continue;
            }
            match load(around, &known.file) {
                Ok(run) => loaded.push(run),
                Err(Unreadable::Gone(path)) if known.file.stem() != MULTI_KEY => {
                    *vanished = Some(path);
                    gone.push(known.clone());
                }
                Err(fault) => return Err(fault),
            }
        }
        for known in gone {
            indexes.remove(&known);
        }
        Ok(loaded)
    }
}

impl Known {
    /// Whether it is the very file.
    fn is_same(&self, other: &Self) -> bool {
        self.file.number() == other.file.number()
    }
}

impl Borrow<OsStr> for Known {
    fn borrow(&self) -> &OsStr {
        self.file.stem()
    }
}

impl Hash for Known {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.file.stem().hash(state);
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.file.stem() == other.file.stem()
    }
}

impl Eq for Known {}

/// A guess at what an index costs beside its table: paths, names and their tables.
const BYTES_OF_AN_INDEX: usize = 512;

/// Chooses which indexes are in memory: the smallest, since one index that is searched where it
/// lies costs the same whatever its size; before them those whose tables have been read on their
/// own. Large ones that are chosen and are not merged yet get there by being searched often.
fn choose(
    mut wanted: Vec<Arc<IndexFile>>,
    bytes_max: u64,
    is_merged: impl Fn(&IndexFile) -> bool,
) -> HashSet<Known> {
    wanted.sort_by_key(|file| (!file.is_loaded(), file.identity().size));
    let mut indexes = HashSet::with_capacity(wanted.len());
    let mut bytes = 0u64;
    for file in wanted {
        bytes = bytes.saturating_add(file.identity().memory_estimate());
        let has_room = bytes <= bytes_max;
        file.let_load(has_room);
        let in_memory = has_room && (!file.is_large() || is_merged(&file));
        indexes.insert(Known { file, in_memory });
    }
    indexes
}

/// The tables that were read, without the indexes that are not to be in memory after all.
fn leave_out(runs: Vec<Run>, read: &HashSet<u64>, indexes: &HashSet<Known>) -> Vec<Run> {
    let gone: HashSet<u64> = indexes
        .iter()
        .filter(|known| !known.in_memory && read.contains(&known.file.number()))
        .flat_map(|known| known.file.packs().iter().map(|pack| pack.number))
        .collect();
    if gone.is_empty() {
        return runs;
    }
    runs.into_iter().map(|run| run.without(&gone).unwrap_or(run)).collect()
}

pub(super) fn load(around: &Surroundings<'_>, file: &IndexFile) -> Result<Run, Unreadable> {
    let opened = around.open.file(file.number(), || file.open(around.disk))?;
    let run = file.load(&opened, around.hash);
    around.open.close(file.number());
    run
}

pub(super) fn new_index(around: &Surroundings<'_>, stem: &OsStr, identity: Identity) -> IndexFile {
    let pack = Arc::new(PackFile::new(with_ending(around.directory, stem, ".pack")));
    IndexFile::new(identity, pack)
}

pub(super) fn with_ending(directory: &Path, stem: &OsStr, ending: &str) -> PathBuf {
    let bytes = directory.as_os_str().len() + 1 + stem.len() + ending.len();
    let mut path = OsString::with_capacity(bytes);
    for part in [directory.as_os_str(), OsStr::new("/"), stem, OsStr::new(ending)] {
        path.push(part);
    }
    PathBuf::from(path)
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
