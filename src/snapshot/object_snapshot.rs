//! The object store as one push sees it.

use super::cache::{ResolveSources, SnapshotCache, Sources};
use super::copies::{Attempt, Copies, Directory, ObjectCopy, View};
use super::directory_state::Freshness;
use super::entry_reader::{EntryReader, ReadState};
use super::error::{Damage, SnapshotError};
use super::input::{CopyFault, Scratch, damaged};
use super::loose::LooseObjects;
use super::loose_reader::LooseFile;
use crate::model::{HashKind, ObjectId, ObjectKind};
use crate::pack::entry::EntryKind;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

/// What a repository and its alternates hold, as it was when the push began.
///
/// Clones see the same and share their one refresh; any number of threads may ask. Every
/// question about an object that is missing is answered with `None` or `false`, and that answer is
/// final, as the collision check wants it. Thin bases and connectivity ask a
/// [`refreshing`](Self::refreshing) clone.
///
/// A copy that is damaged is passed over as long as there is another; an error is what is left
/// when there is none.
#[derive(Clone, Debug)]
pub struct ObjectSnapshot {
    shared: Arc<Shared>,
    quarantine: Option<Arc<Directory>>,
    refreshes_on_miss: bool,
}

/// An object, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its content, without a header.
    pub data: Vec<u8>,
}

/// An object as a pack holds it: deflated, and not as a delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressedEntry {
    /// Its kind.
    pub kind: ObjectKind,
    /// Bytes of its content, inflated.
    pub size: u64,
    /// The zlib stream, which is complete and has the right checksum.
    pub zlib: Vec<u8>,
}

struct Shared {
    cache: SnapshotCache,
    hash: HashKind,
    sources: Sources,
    resolve: Option<Arc<ResolveSources>>,
    /// The directories now: from before the refresh or from after it.
    view: RwLock<Arc<View>>,
    /// How often the view was made new. Locked while it is.
    refreshes: Mutex<u32>,
    read_state: ReadState,
}

/// An object of which copies are there.
enum Best<T> {
    Good(T),
    /// None of them could be used.
    NotGoodEnough,
}

impl ObjectSnapshot {
    pub(super) fn take(
        cache: &SnapshotCache,
        sources: Sources,
        resolve: Option<Arc<ResolveSources>>,
        hash: HashKind,
    ) -> Result<Self, SnapshotError> {
        let view = View::new(cache, &sources, hash, Freshness::Proof)?;
        let shared = Shared {
            cache: cache.clone(),
            hash,
            sources,
            resolve,
            view: RwLock::new(Arc::new(view)),
            refreshes: Mutex::default(),
            read_state: ReadState::default(),
        };
        Ok(Self { shared: Arc::new(shared), quarantine: None, refreshes_on_miss: false })
    }

    /// The same snapshot, where a miss looks again at the directories before it is final. That
    /// happens once, for all clones together.
    #[must_use]
    pub fn refreshing(&self) -> Self {
        Self { refreshes_on_miss: true, ..self.clone() }
    }

    /// The same snapshot and the objects that a quarantine holds now, which come first.
    ///
    /// `objects` is the quarantine's directory, with loose objects and `pack` in it as in a
    /// repository's `objects`. It is listed here and not again.
    pub fn with_quarantine(&self, objects: &Path) -> Result<Self, SnapshotError> {
        let Shared { cache, hash, .. } = &*self.shared;
        let packs = cache.packs_once(objects, *hash)?;
        let loose = LooseObjects::listed(objects.to_owned(), *hash, cache.disk())?;
        let quarantine = Some(Arc::new(Directory { packs, loose }));
        Ok(Self { quarantine, ..self.clone() })
    }

    /// The hash of the repository.
    pub fn hash(&self) -> HashKind {
        self.shared.hash
    }

    /// Whether the object was there. Nothing is opened: it may be damaged, or gone by now.
    pub fn contains(&self, id: &ObjectId) -> Result<bool, SnapshotError> {
        self.look(id, |copies| copies.any(id)).map(|found| found.is_some())
    }

    /// The pack or loose file that holds the object, to be freshened before something comes to
    /// depend on it. It may be gone by now.
    pub fn holder(&self, id: &ObjectId) -> Result<Option<PathBuf>, SnapshotError> {
        self.look(id, |copies| {
            copies.attempt(id, |copy| match copy {
                ObjectCopy::Packed(packed) => Ok(Some(packed.pack.path.clone())),
                ObjectCopy::Loose(path) => Ok(Some(path.clone())),
            })
        })
    }

    /// Kind and size of the object, from the headers of its entry and of the bases below it.
    pub fn kind_and_size(&self, id: &ObjectId) -> Result<Option<(ObjectKind, u64)>, SnapshotError> {
        self.look_at_copies(id, |reader, copy| match copy {
            ObjectCopy::Packed(packed) => reader.kind_and_size(packed).map(Some),
            ObjectCopy::Loose(path) => {
                self.open_loose(path).map(|loose| Some((loose.kind, loose.size)))
            }
        })
    }

    /// The object. [`SnapshotError::TooLarge`] if it, or a base that it is made from, has more
    /// than `bytes_max` bytes; about three times that is the most memory taken.
    pub fn read(&self, id: &ObjectId, bytes_max: u64) -> Result<Option<Object>, SnapshotError> {
        self.look_at_copies(id, |reader, copy| {
            self.read_copy(reader, copy, bytes_max).map(|(object, _)| Some(object))
        })
    }

    /// As [`read`](Self::read); a copy whose content does not have this id counts as damaged.
    pub fn read_verified(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<Object>, SnapshotError> {
        self.look_at_copies(id, |reader, copy| {
            let (object, path) = self.read_copy(reader, copy, bytes_max)?;
            verify(id, &object).map_err(|damage| damaged(path, damage))?;
            Ok(Some(object))
        })
    }

    /// The object's zlib stream from a pack that holds it whole. `None` also if all packs that
    /// have it hold a delta, if it is loose, or if its stream has more than `bytes_max` bytes.
    ///
    /// The stream is intact, but its id has not been verified.
    pub fn compressed(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<CompressedEntry>, SnapshotError> {
        let found = self.look_at_best_copy(id, |reader, copy| {
            let ObjectCopy::Packed(packed) = copy else {
                return Ok(None);
            };
            let entry = reader.entry(packed)?;
            let EntryKind::Whole(kind) = entry.kind else {
                return Ok(None);
            };
            let mut zlib = Vec::new();
            let mut fits = true;
            let keep = |block: &[u8]| {
                fits &= (zlib.len() + block.len()) as u64 <= bytes_max;
                if fits {
                    zlib.extend_from_slice(block);
                }
            };
            reader.stream(&entry, keep, |_| ControlFlow::Continue(()))?;
            let size = entry.size;
            Ok(fits.then_some(CompressedEntry { kind, size, zlib }))
        })?;
        Ok(match found {
            Some(Best::Good(entry)) => Some(entry),
            Some(Best::NotGoodEnough) | None => None,
        })
    }

    /// The content of the object in chunks, handed to `sink` until that has had enough, and at the
    /// end its kind and size, whether all of it was handed out or not. Memory is bounded, unless all copies are deltas: those are made in memory, of at most
    /// `bytes_max` bytes.
    ///
    /// With an error, part of the content may have been handed out.
    pub fn stream(
        &self,
        id: &ObjectId,
        bytes_max: u64,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Option<(ObjectKind, u64)>, SnapshotError> {
        let streamed = self.look_at_best_copy(id, |reader, copy| {
            let mut begun = false;
            let mut hand_out = |chunk: &[u8]| {
                begun = true;
                sink(chunk)
            };
            let (result, facts) = match copy {
                ObjectCopy::Loose(path) => {
                    let loose = self.open_loose(path)?;
                    let result = self.with_scratch(|scratch| loose.stream(scratch, &mut hand_out));
                    (result, (loose.kind, loose.size))
                }
                ObjectCopy::Packed(packed) => {
                    let entry = reader.entry(packed)?;
                    let EntryKind::Whole(kind) = entry.kind else {
                        return Ok(None);
                    };
                    (reader.stream(&entry, |_| {}, &mut hand_out), (kind, entry.size))
                }
            };
            result.map_err(|fault| if begun { fault.into_final(id) } else { fault })?;
            Ok(Some(facts))
        })?;
        match streamed {
            None => Ok(None),
            Some(Best::Good(facts)) => Ok(Some(facts)),
            Some(Best::NotGoodEnough) => Ok(self.read(id, bytes_max)?.map(|object| {
                // What it answers matters no more.
                let _ = sink(&object.data);
                (object.kind, object.data.len() as u64)
            })),
        }
    }

    fn read_copy<'a>(
        &self,
        reader: &EntryReader<'_>,
        copy: &'a ObjectCopy,
        bytes_max: u64,
    ) -> Result<(Object, &'a Path), CopyFault> {
        match copy {
            ObjectCopy::Packed(packed) => {
                let (kind, content) = reader.read(packed, bytes_max)?;
                let data = Arc::unwrap_or_clone(content);
                Ok((Object { kind, data }, &packed.pack.path))
            }
            ObjectCopy::Loose(path) => {
                let loose = self.open_loose(path)?;
                let LooseFile { kind, size, .. } = loose;
                if size > bytes_max {
                    let id = *reader.id;
                    return Err(CopyFault::Other(SnapshotError::TooLarge { id, size, bytes_max }));
                }
                let data = self.with_scratch(|scratch| loose.read(scratch))?;
                Ok((Object { kind, data }, path))
            }
        }
    }

    fn open_loose(&self, path: &Path) -> Result<LooseFile, CopyFault> {
        self.with_scratch(|scratch| LooseFile::open(path, self.shared.cache.disk(), scratch))
    }

    fn with_scratch<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        self.shared.read_state.scratch.with(work)
    }

    fn look_at_copies<T>(
        &self,
        id: &ObjectId,
        mut work: impl FnMut(&EntryReader<'_>, &ObjectCopy) -> Result<Option<T>, CopyFault>,
    ) -> Result<Option<T>, SnapshotError> {
        let Shared { read_state: state, hash, .. } = &*self.shared;
        self.look(id, |copies| {
            let reader = EntryReader { state, copies, hash: *hash, id };
            copies.attempt(id, |copy| work(&reader, copy))
        })
    }

    /// As [`look_at_copies`](Self::look_at_copies), for work that not every copy is good enough
    /// for: that there are only such copies is no reason to look again.
    fn look_at_best_copy<T>(
        &self,
        id: &ObjectId,
        mut work: impl FnMut(&EntryReader<'_>, &ObjectCopy) -> Result<Option<T>, CopyFault>,
    ) -> Result<Option<Best<T>>, SnapshotError> {
        let Shared { read_state: state, hash, .. } = &*self.shared;
        self.look(id, |copies| {
            let reader = EntryReader { state, copies, hash: *hash, id };
            let mut was_there = false;
            let attempt = copies.attempt(id, |copy| {
                let result = work(&reader, copy)?;
                was_there = true;
                Ok(result)
            })?;
            Ok(match attempt {
                Attempt::Found(found) => Attempt::Found(Best::Good(found)),
                Attempt::Nothing { .. } if was_there => Attempt::Found(Best::NotGoodEnough),
                Attempt::Nothing { is_stale, damage } => Attempt::Nothing { is_stale, damage },
            })
        })
    }

    /// Looks for an object, and once more after a refresh if there is reason for it: a miss that
    /// shall not be final yet, or a copy that was there and is not what it was.
    fn look<T>(
        &self,
        id: &ObjectId,
        mut work: impl FnMut(&Copies<'_>) -> Result<Attempt<T>, SnapshotError>,
    ) -> Result<Option<T>, SnapshotError> {
        if id.kind() != self.shared.hash {
            return Ok(None);
        }
        loop {
            let view = self.view();
            let copies = Copies {
                quarantine: self.quarantine.as_deref(),
                directories: &view.directories,
                disk: self.shared.cache.disk(),
                open_indexes: self.shared.cache.open_indexes(),
            };
            let (is_stale, damage) = match work(&copies)? {
                Attempt::Found(found) => return Ok(Some(found)),
                Attempt::Nothing { is_stale, damage } => (is_stale, damage),
            };
            let has_reason = is_stale || damage.is_some() || self.refreshes_on_miss;
            if !(has_reason && self.refresh(&view, id, is_stale)?) {
                return damage.map_or(Ok(None), Err);
            }
        }
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.shared.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sees to it that there is a newer view than `seen`; false if there cannot be one.
    ///
    /// There is one refresh for misses. That a copy is not where it was is proof of a repack, and
    /// a reason of its own each time: repacks may follow each other while a push runs.
    fn refresh(
        &self,
        seen: &Arc<View>,
        id: &ObjectId,
        is_stale: bool,
    ) -> Result<bool, SnapshotError> {
        let asked = Instant::now();
        let shared = &*self.shared;
        let mut refreshes = shared.refreshes.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(seen, &self.view()) {
            return Ok(true);
        }
        if *refreshes >= if is_stale { REFRESHES_MAX } else { 1 } {
            return Ok(false);
        }
        tracing::debug!(%id, "refreshing the object snapshot");
        let sources = match &shared.resolve {
            Some(resolve) => resolve().map_err(|error| {
                SnapshotError::io(&shared.sources.own.join("info/alternates"), error)
            })?,
            None => shared.sources.clone(),
        };
        let freshness = Freshness::ListedSince(asked);
        let view = View::new(&shared.cache, &sources, shared.hash, freshness)?;
        *shared.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
        *refreshes += 1;
        Ok(true)
    }
}

/// LIMIT: refreshes of one push because of copies that are not where they were.
const REFRESHES_MAX: u32 = 16;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("hash", &self.hash)
            .field("sources", &self.sources)
            .field("refreshes", &self.refreshes)
            .finish_non_exhaustive()
    }
}

fn verify(id: &ObjectId, object: &Object) -> Result<(), Damage> {
    let mut hasher = gix_hash::hasher(id.kind());
    hasher.update(format!("{} {}\0", object.kind, object.data.len()).as_bytes());
    hasher.update(&object.data);
    match hasher.try_finalize() {
        Ok(actual) if actual == *id => Ok(()),
        Ok(actual) => Err(Damage::WrongContent { actual }),
        Err(_) => Err(Damage::CollisionAttack),
    }
}
