//! What is known of one objects directory, and how it is found out again.
//!
//! Three things save a listing of `objects/pack`, the first that holds:
//!
//! 1. Its stamp is that of the last listing, and old enough to prove that nothing has changed.
//! 2. The kernel tells what has changed ([`DirectoryWatch`]): that alone is looked at. Whoever put
//!    a pack in place before we asked is heard of, since the event is queued before his rename
//!    returns; and in order, so that what a repack removes is never heard of before what it put in
//!    its place. Only where every change goes through this kernel.
//! 3. Everything listed is known by its inode: our own packs.
//!
//! A refresh trusts none of them, nor any list of loose objects that was made before. Nor does
//! anything else that is out of the common: too many changes, a multi-pack-index, a pack that was
//! told to be there and is not, an error before.

use super::cache::{SnapshotCache, lock};
use super::copies::Directory;
use super::error::SnapshotError;
use super::index_file::is_gone;
use super::known_indexes::{KnownIndexes, Surroundings};
use super::listed_names::{Concerning, Names};
use super::loose::LooseObjects;
use super::loose_lists::LooseLists;
use super::pack_list::PackList;
use crate::model::HashKind;
use crate::repo::{Changes, DirectoryWatch, NameList, Stamp, Stat};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// What is known of one `objects/pack`.
#[derive(Default)]
pub(super) struct State {
    pub(super) hash: Option<HashKind>,
    /// The stamp before the listing, if it proves that nothing has changed.
    stamp: Option<Stamp>,
    listed_at: Option<Instant>,
    pub(super) known: KnownIndexes,
    watch: Option<DirectoryWatch>,
    /// Whether all that the watch has told, and all that was there before, is in `known`.
    is_followed: bool,
    pub(super) loose: Arc<LooseLists>,
    /// Bytes that this was last counted for.
    counted_bytes: u64,
}

/// How new the answer must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// Whatever proves that nothing has changed.
    Proof,
    /// Listed since this instant, whatever else is known.
    ListedSince(Instant),
}

/// LIMIT: how long a directory is listed again because packs vanish. A repack removes a thousand
/// packs in less on a disk at rest.
const LISTING_TIME_MAX: Duration = Duration::from_secs(5);
/// Listings of a directory at rest that may name an index which is not there.
const ABSENT_TIMES_MAX: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

impl SnapshotCache {
    /// An objects directory as it is now.
    pub(super) fn directory(
        &self,
        objects: &Path,
        hash: HashKind,
        freshness: Freshness,
    ) -> Result<Directory, SnapshotError> {
        let state = self.remember(objects);
        let mut state = lock(&state);
        if state.hash != Some(hash) {
            *state = self.unknown(hash, None);
        }
        self.bring_up_to_date(&mut state, objects, hash, freshness)?;
        if freshness != Freshness::Proof {
            state.loose = Arc::new(LooseLists::new(self.directory_bytes_max()));
        }
        self.count(&mut state, objects);
        let loose = LooseObjects::new(objects.to_owned(), hash, Arc::clone(&state.loose));
        Ok(Directory { packs: Arc::clone(&state.known.list), loose })
    }

    /// Counts what a directory takes, if that has changed.
    pub(super) fn count(&self, state: &mut State, objects: &Path) {
        let bytes = state.known.bytes().saturating_add(state.loose.bytes());
        if std::mem::replace(&mut state.counted_bytes, bytes) != bytes {
            self.account(objects, bytes);
        }
    }

    fn unknown(&self, hash: HashKind, listed_at: Option<Instant>) -> State {
        let loose = Arc::new(LooseLists::new(self.directory_bytes_max()));
        State { hash: Some(hash), listed_at, loose, ..State::default() }
    }

    fn bring_up_to_date(
        &self,
        state: &mut State,
        objects: &Path,
        hash: HashKind,
        freshness: Freshness,
    ) -> Result<(), SnapshotError> {
        if let Freshness::ListedSince(asked) = freshness
            && state.listed_at.is_some_and(|listed| listed >= asked)
        {
            return Ok(());
        }
        let directory = objects.join("pack");
        let Some(stat) = self.stat(&directory)? else {
            // A directory that was moved away can come back with the stamp it had.
            *state = self.unknown(hash, state.listed_at);
            return Ok(());
        };
        let stamp = Stamp::of_entries(&stat);
        if freshness == Freshness::Proof
            && (state.stamp == Some(stamp) || self.follow(state, &directory, &stat, hash)?)
        {
            return Ok(());
        }
        if state.watch.as_ref().is_some_and(|watch| !watch.is_of(&stat)) {
            state.watch = None;
        }
        self.watch(state, &directory);
        let listed = self.list(state, &directory, stamp, hash, freshness);
        // Whatever was told before the listing is in it, if that was of the directory watched.
        state.is_followed = matches!(listed, Ok(true))
            && match &state.watch {
                Some(watch) => self.stat(&directory)?.is_some_and(|stat| watch.is_of(&stat)),
                None => false,
            };
        listed.map(drop)
    }

    /// The packs of a directory that is not worth remembering.
    pub(super) fn packs_once(
        &self,
        objects: &Path,
        hash: HashKind,
    ) -> Result<Arc<PackList>, SnapshotError> {
        let mut state = State::default();
        let directory = objects.join("pack");
        if let Some(stat) = self.stat(&directory)? {
            let stamp = Stamp::of_entries(&stat);
            self.list(&mut state, &directory, stamp, hash, Freshness::Proof)?;
        }
        Ok(state.known.list)
    }

    /// Looks at what the kernel tells of `objects/pack`. False if it is to be listed.
    fn follow(
        &self,
        state: &mut State,
        directory: &Path,
        stat: &Stat,
        hash: HashKind,
    ) -> Result<bool, SnapshotError> {
        let Some(watch) = state.watch.as_ref().filter(|_| state.is_followed) else {
            return Ok(false);
        };
        if !watch.is_of(stat) {
            return Ok(false);
        }
        let changes = match watch.changes() {
            Changes::Names(changes) => changes,
            Changes::TooMany | Changes::Ended => return Ok(false),
        };
        if changes.is_empty() {
            return Ok(true);
        }
        // What was told is not told again, should this fail.
        state.is_followed = false;
        state.is_followed = state.known.look_again(&self.around(directory, hash), &changes)?;
        Ok(state.is_followed)
    }

    /// Sees to it that all changes from now on are told, if they can be.
    fn watch(&self, state: &mut State, directory: &Path) {
        if state.watch.as_ref().is_some_and(|watch| watch.changes() != Changes::Ended) {
            return;
        }
        let concerns = |name: &OsStr| Concerning::of(name).is_some();
        state.watch = self.watches().watch(directory, concerns);
    }

    /// Lists `objects/pack` and reads what is new in it.
    ///
    /// Again, as long as packs go meanwhile: a listing that overlaps a repack may have neither the
    /// old packs nor the new one. A repack puts the new pack there before it removes the first old
    /// one, so a listing that began after one had gone has the new one. Packs that only come are no
    /// reason. What was read stays read.
    ///
    /// What is in one listing after the other and never there, such as a link that leads nowhere,
    /// has not vanished: that is an error.
    ///
    /// It ends after [`LISTING_TIME_MAX`] with what is there then: an object that is found nowhere
    /// is a miss, for which the push may look again, and no reason to fail all pushes. False then.
    fn list(
        &self,
        state: &mut State,
        directory: &Path,
        stamp: Stamp,
        hash: HashKind,
        freshness: Freshness,
    ) -> Result<bool, SnapshotError> {
        let mut stamp = Some(stamp);
        let around = self.around(directory, hash);
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        // What was there before, to tell whether anything has gone since.
        let mut is_known = state.listed_at.is_some();
        let (mut absent, mut times_absent) = (None, 0);
        loop {
            let (now, listed_at) = (SystemTime::now(), Instant::now());
            let listing = match around.disk.list_names(directory) {
                Ok(listing) => listing,
                Err(error) if is_gone(&error) => NameList::default(),
                Err(error) => return Err(SnapshotError::io(directory, error)),
            };
            let stamp_after = self.stat(directory)?.as_ref().map(Stamp::of_entries);
            let is_quiet = stamp_after == stamp;
            let (mut vanished, mut has_lost) = (None, false);
            let names = Names::of(&listing);
            // A directory that has changed by what we have put there ourselves is known already.
            if freshness != Freshness::Proof || !state.known.is_as_listed(&names) {
                let updated = state.known.update(&around, &names)?;
                around.close_unlisted(&state.known.list, &updated.known.list);
                state.known = updated.known;
                (vanished, has_lost) = (updated.vanished, updated.has_lost);
            }
            state.listed_at = Some(listed_at);
            let is_whole = vanished.is_none() && (is_quiet || is_known && !has_lost);
            if is_whole || began.elapsed() >= LISTING_TIME_MAX {
                if let Some(path) = vanished.filter(|_| !is_whole) {
                    let path = path.display().to_string();
                    tracing::warn!(path, "packs still vanish; going on with those that are there");
                }
                let is_proof = is_whole && is_quiet;
                state.stamp = stamp.filter(|stamp| is_proof && stamp.is_settled(now));
                return Ok(is_whole);
            }
            times_absent = if is_quiet && absent == vanished { times_absent + 1 } else { 0 };
            absent = vanished;
            if let (Some(path), ABSENT_TIMES_MAX..) = (&absent, times_absent) {
                return Err(SnapshotError::io(path, io::ErrorKind::NotFound.into()));
            }
            is_known = true;
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            stamp = self.stat(directory)?.as_ref().map(Stamp::of_entries);
        }
    }

    fn stat(&self, directory: &Path) -> Result<Option<Stat>, SnapshotError> {
        self.disk().stat(directory).map_err(|error| SnapshotError::io(directory, error))
    }
}

impl Surroundings<'_> {
    /// An open file that nobody asks for any more would keep the space of a removed index taken.
    fn close_unlisted(&self, before: &PackList, after: &PackList) {
        let after: Vec<u64> = after.on_disk().iter().map(|file| file.number()).collect();
        let before = before.on_disk().iter().map(|file| file.number());
        for number in before.filter(|number| !after.contains(number)) {
            self.open.close(number);
        }
    }
}
