//! Whether an object is there as a loose file.
//!
//! Few questions are answered by a `stat` each. Many are answered from the fan-out directories,
//! each read once: a push of thousands of objects then costs 256 listings at the most, and the next
//! one 256 `stat`s, as long as nothing changes.

use super::SnapshotError;
use super::loose_lists::LooseLists;
use crate::model::{HashKind, ObjectId, oid};
use crate::repo::Disk;
use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The loose objects of one objects directory, for one push.
#[derive(Debug)]
pub(super) struct LooseObjects {
    /// `objects`.
    directory: PathBuf,
    hash: HashKind,
    /// What other pushes have listed.
    lists: Arc<LooseLists>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lookups: u32,
    /// What a `stat` has found. That stays so for this push: if such an object has gone when it
    /// is opened, it was packed or pruned, and there is reason to look again.
    found: HashSet<ObjectId>,
    /// By first byte, once `objects` has been listed.
    fan_outs: Option<Vec<FanOut>>,
}

/// What is known of one fan-out directory.
#[derive(Clone, Debug)]
enum FanOut {
    /// It has been asked this often.
    Asked(u32),
    /// Its objects, in order.
    Listed(Arc<[ObjectId]>),
    /// It holds too many for a list that lives no longer than a push.
    TooMany,
}

/// Questions that cost a `stat` each before `objects` is listed to learn which fan-out
/// directories there are. Listing all 256 names takes as long as about 30 `stat`s; in a
/// repository that is packed, and has few, it takes as long as one or two.
const STATS_MAX: u32 = 16;

/// Questions to one fan-out directory before it is listed. Measured on ext4: a `stat` that finds
/// nothing takes 4 to 8 µs, a listing 6 µs and 1.1 µs more for each of its entries, of which there
/// are 26 when `gc.auto` (6,700 objects) is about to sweep them up.
const STATS_IN_FAN_OUT_MAX: u32 = 6;

/// LIMIT: finds that are remembered. More come only from fan-out directories that are not listed.
const FOUND_MAX: usize = 4096;

/// LIMIT: objects in a fan-out directory that is made a list, 4 million in all of them.
const LISTED_MAX: usize = 16 << 10;

impl LooseObjects {
    pub(super) fn new(directory: PathBuf, hash: HashKind, lists: Arc<LooseLists>) -> Self {
        Self { directory, hash, lists, state: Mutex::default() }
    }

    /// Reads every directory now, so that what comes later is not seen.
    pub(super) fn listed(
        directory: PathBuf,
        hash: HashKind,
        disk: &Disk,
    ) -> Result<Self, SnapshotError> {
        let loose = Self::new(directory, hash, Arc::new(LooseLists::new(0)));
        let mut fan_outs = loose.list_fan_outs(disk)?;
        for (first, fan_out) in (0..=255).zip(&mut fan_outs) {
            if matches!(fan_out, FanOut::Asked(_)) {
                *fan_out = loose.list_fan_out(disk, first)?;
            }
        }
        let state = State { lookups: STATS_MAX, found: HashSet::new(), fan_outs: Some(fan_outs) };
        Ok(Self { state: Mutex::new(state), ..loose })
    }

    /// Whether the object has a loose file.
    pub(super) fn has(&self, disk: &Disk, id: &oid) -> Result<bool, SnapshotError> {
        let Some(first) = id.as_bytes().first().filter(|_| id.kind() == self.hash) else {
            return Ok(false);
        };
        if let Some(answer) = self.answer_from_lists(disk, id, *first)? {
            return Ok(answer);
        }
        let path = self.path_of(id);
        let stat = disk.stat(&path).map_err(|error| SnapshotError::io(&path, error))?;
        if stat.is_some() {
            let mut state = self.lock();
            if state.found.len() < FOUND_MAX {
                state.found.insert(id.to_owned());
            }
        }
        Ok(stat.is_some())
    }

    /// Where the loose file of an object is, if it has one.
    pub(super) fn path_of(&self, id: &oid) -> PathBuf {
        let hex = id.to_hex().to_string();
        let (fan_out, rest) = hex.split_at_checked(2).unwrap_or_default();
        let mut path = self.directory.join(fan_out);
        path.push(rest);
        path
    }

    /// The answer, unless a `stat` is cheaper than a list.
    fn answer_from_lists(
        &self,
        disk: &Disk,
        id: &oid,
        first: u8,
    ) -> Result<Option<bool>, SnapshotError> {
        let mut state = self.lock();
        if state.found.contains(id) {
            return Ok(Some(true));
        }
        if state.lookups < STATS_MAX {
            state.lookups += 1;
            return Ok(None);
        }
        // Listed under the lock: the other threads are about to ask for the same.
        let fan_outs = match &mut state.fan_outs {
            Some(fan_outs) => fan_outs,
            unknown => unknown.insert(self.list_fan_outs(disk)?),
        };
        let Some(fan_out) = fan_outs.get_mut(usize::from(first)) else {
            return Ok(None);
        };
        if let FanOut::Asked(0) = fan_out
            && let Some(kept) = self.lists.kept(disk, first, &self.fan_out_path(first))?
        {
            *fan_out = FanOut::Listed(kept);
        }
        if let FanOut::Asked(times) = fan_out {
            if *times < STATS_IN_FAN_OUT_MAX {
                *times += 1;
                return Ok(None);
            }
            *fan_out = self.list_fan_out(disk, first)?;
        }
        Ok(match fan_out {
            FanOut::Listed(ids) => Some(ids.binary_search_by(|other| (**other).cmp(id)).is_ok()),
            FanOut::Asked(_) | FanOut::TooMany => None,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists `objects`: directories that are not there hold nothing.
    fn list_fan_outs(&self, disk: &Disk) -> Result<Vec<FanOut>, SnapshotError> {
        if !self.lists.is_empty() {
            return Ok(vec![FanOut::Asked(0); 256]);
        }
        let mut fan_outs = vec![FanOut::Listed(Arc::default()); 256];
        for name in list(disk, &self.directory)? {
            if let &[high, low] = name.as_slice()
                && let (Some(high), Some(low)) = (hex_digit(high), hex_digit(low))
                && let Some(fan_out) = fan_outs.get_mut(usize::from(high << 4 | low))
            {
                *fan_out = FanOut::Asked(0);
            }
        }
        for (first, fan_out) in (0..=255).zip(&fan_outs) {
            if matches!(fan_out, FanOut::Listed(_)) {
                self.lists.keep_absent(first);
            }
        }
        Ok(fan_outs)
    }

    fn list_fan_out(&self, disk: &Disk, first: u8) -> Result<FanOut, SnapshotError> {
        let directory = self.fan_out_path(first);
        let objects = self.lists.list(disk, first, &directory, || {
            let names = list(disk, &directory)?;
            if names.len() > LISTED_MAX {
                return Ok(None);
            }
            let prefix = format!("{first:02x}");
            let mut ids: Vec<ObjectId> = names
                .iter()
                .filter(|name| name.iter().all(|digit| hex_digit(*digit).is_some()))
                .filter_map(|name| ObjectId::from_hex(&[prefix.as_bytes(), name].concat()).ok())
                .filter(|id| id.kind() == self.hash)
                .collect();
            ids.sort_unstable();
            Ok(Some(ids))
        })?;
        Ok(objects.map_or(FanOut::TooMany, FanOut::Listed))
    }

    fn fan_out_path(&self, first: u8) -> PathBuf {
        self.directory.join(format!("{first:02x}"))
    }
}

/// The names in a directory; none if there is no such directory.
fn list(disk: &Disk, directory: &Path) -> Result<Vec<Vec<u8>>, SnapshotError> {
    match disk.list(directory) {
        Ok(entries) => Ok(entries.iter().map(|entry| entry.name.as_bytes().to_vec()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(SnapshotError::io(directory, error)),
    }
}

/// The value of a digit as git writes it, in lower case.
fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
