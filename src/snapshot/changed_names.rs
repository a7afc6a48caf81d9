//! Known indexes brought up to date by the names that have changed, and by our own packs.

use super::SnapshotError;
use super::first_look::{FirstLook, Looked, first_look};
use super::index_file::{Identity, Unreadable};
use super::known_indexes::{
    Known, KnownIndexes, Surroundings, load, look_at, new_index, with_ending,
};
use super::listed_multi::{MULTI_KEY, Multi};
use super::listed_names::Concerning;
use super::multi_pack_index::stem_of;
use super::run::Run;
use crate::repo::NameChange;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

/// Packs that are looked at one by one. For more, a listing is made.
const PACKS_MAX: usize = 256;

/// What was last told of the two files of a pack.
#[derive(Default)]
struct Told {
    pack_is_there: bool,
    index_is_there: bool,
}

impl KnownIndexes {
    /// Looks at what has changed, in whatever order that was told. False if only a listing helps:
    /// nothing is changed then.
    ///
    /// That something was told to be there and has gone since is such a case: a repack may be at
    /// work, and what replaces it may not have been told yet.
    pub(super) fn look_again(
        &mut self,
        around: &Surroundings<'_>,
        changes: &[NameChange],
    ) -> Result<bool, SnapshotError> {
        let mut told: BTreeMap<&OsStr, Told> = BTreeMap::new();
        for NameChange { name, is_there } in changes {
            match Concerning::of(name) {
                Some(Concerning::Pack(stem)) => {
                    told.entry(stem).or_default().pack_is_there = *is_there;
                }
                Some(Concerning::Index(stem)) => {
                    told.entry(stem).or_default().index_is_there = *is_there;
                }
                Some(Concerning::Multi) => return Ok(false),
                None => {}
            }
        }
        if told.len() > PACKS_MAX {
            return Ok(false);
        }
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for (stem, told) in told {
            let pack = is_there(around, stem, ".pack")?;
            let index = is_there(around, stem, ".idx")?;
            if (told.pack_is_there && pack.is_none()) || (told.index_is_there && index.is_none()) {
                return Ok(false);
            }
            if self.is_covered(stem) {
                if pack.is_none() {
                    return Ok(false);
                }
                continue;
            }
            let known = self.indexes.get(stem);
            let is_kept = pack.is_some() && known.map(|known| known.file.identity()) == index;
            if known.is_none() && (pack.is_none() || index.is_none()) || is_kept {
                continue;
            }
            gone.extend(known.cloned());
            new.extend(pack.and(index).map(|_| stem));
        }
        if !gone.is_empty() && self.list.on_disk().iter().any(|file| !file.may_load()) {
            // There may be room in memory now for one that is searched where it lies.
            return Ok(false);
        }
        let Some((files, runs)) = self.read_new(around, &new)? else {
            return Ok(false);
        };
        self.replace(around, &gone, files, runs);
        Ok(true)
    }

    /// Adds a pack of our own, whose index is `bytes`. False if nothing was to be added, or if it
    /// would not fit: the next listing decides then.
    pub(super) fn add_own(
        &mut self,
        around: &Surroundings<'_>,
        index: &Path,
        bytes: &[u8],
    ) -> bool {
        let Some(stem) = index.file_name().and_then(stem_of) else {
            return false;
        };
        let Ok(Some(stat)) = around.disk.stat(index) else {
            return false;
        };
        let identity = Identity::of(&stat);
        let known = self.indexes.get(&*stem).cloned();
        if known.as_ref().is_some_and(|known| known.file.identity() == identity)
            || self.multi.as_ref().is_some_and(|multi| multi.covers(&stem))
            || identity.memory_estimate() > self.room(around)
        {
            return false;
        }
        let file = Arc::new(new_index(around, &stem, identity));
        let Ok(run) = file.parse(bytes, around.hash) else {
            return false;
        };
        self.replace(around, known.as_slice(), vec![Known { file, in_memory: true }], vec![run]);
        true
    }

    /// Reads indexes that are new; `None` if one has gone again or they do not fit the memory.
    #[expect(clippy::type_complexity, reason = "files and tables, for the one caller")]
    fn read_new(
        &self,
        around: &Surroundings<'_>,
        stems: &[&OsStr],
    ) -> Result<Option<(Vec<Known>, Vec<Run>)>, SnapshotError> {
        let FirstLook { looked, mut runs } = first_look(around, stems);
        let mut files = Vec::with_capacity(stems.len());
        let mut room = self.room(around);
        for (_, looked) in looked {
            let Looked { file, is_read } = match looked {
                Ok(looked) => looked,
                Err(Unreadable::Gone(_)) => return Ok(None),
                Err(Unreadable::Error(error)) => return Err(error),
            };
            let estimate = file.identity().memory_estimate();
            let Some(rest) = room.checked_sub(estimate) else {
                around.open.close(file.number());
                return Ok(None);
            };
            room = rest;
            let in_memory = is_read || !file.is_large();
            file.let_load(!in_memory);
            if in_memory && !is_read {
                match load(around, &file) {
                    Ok(run) => runs.push(run),
                    Err(Unreadable::Gone(_)) => return Ok(None),
                    Err(Unreadable::Error(error)) => return Err(error),
                }
            }
            files.push(Known { file, in_memory });
        }
        Ok(Some((files, runs)))
    }

    fn replace(
        &mut self,
        around: &Surroundings<'_>,
        gone: &[Known],
        new: Vec<Known>,
        runs: Vec<Run>,
    ) {
        if gone.is_empty() && new.is_empty() {
            return;
        }
        for known in gone {
            self.indexes.remove(known);
            // An open file would keep the space of a removed index taken.
            around.open.close(known.file.number());
        }
        let is_gone = |number: u64| gone.iter().any(|known| known.file.number() == number);
        let on_disk = self.list.on_disk().iter().filter(|file| !is_gone(file.number()));
        let also = new.iter().filter(|known| !known.in_memory).map(|known| &known.file);
        let on_disk = on_disk.chain(also).cloned().collect();
        let packs = gone.iter().flat_map(|known| known.file.packs());
        let packs: HashSet<u64> = packs.map(|pack| pack.number).collect();
        self.list = Arc::new(self.list.changed(&packs, runs, on_disk));
        self.indexes.extend(new);
    }

    /// Whether the multi-pack-index is used and has the pack.
    fn is_covered(&self, stem: &OsStr) -> bool {
        self.indexes.contains(OsStr::new(MULTI_KEY))
            && self.multi.as_ref().is_some_and(|multi: &Multi| multi.covers(stem))
    }

    fn room(&self, around: &Surroundings<'_>) -> u64 {
        around.bytes_max.saturating_sub(self.list.table_bytes())
    }
}

fn is_there(
    around: &Surroundings<'_>,
    stem: &OsStr,
    ending: &str,
) -> Result<Option<Identity>, SnapshotError> {
    match look_at(around.disk, &with_ending(around.directory, stem, ending)) {
        Ok(identity) => Ok(Some(identity)),
        Err(Unreadable::Gone(_)) => Ok(None),
        Err(Unreadable::Error(error)) => Err(error),
    }
}
