//! Directories whose changes the kernel tells (inotify), so that nobody need list them again.
//!
//! What is guaranteed: a change that was made before [`DirectoryWatch::changes`] is called, by
//! whatever process of this machine, is among what it tells. The kernel queues the event before
//! the system call that makes the change returns.
//!
//! That holds where every change goes through this kernel: on local file systems, of which a list
//! is kept. Network file systems do not tell what other hosts do, stacked ones not what is done to
//! the layer below. There is no watch on those, none where the kernel gives none (its limits of
//! `max_user_watches` and `max_user_instances`, no `/proc`), and none but of the directories that
//! were last asked for. The caller must have another way, and take it whenever a watch ends.
//!
//! A watch is on the directory itself, whatever path it has: whether a path still leads there is
//! the caller's to ask, with one `stat`. What was changed is a hint where to look, in an order and
//! with doubles that mean nothing.

use super::disk::Stat;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The watches of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct DirectoryWatches {
    watches_max: usize,
    state: Arc<Mutex<State>>,
}

/// A watch on one directory. Dropped, it ends.
#[derive(Debug)]
pub struct DirectoryWatch {
    state: Arc<Mutex<State>>,
    /// The kernel's number of the watch, which two paths to one directory share.
    descriptor: i32,
    number: u64,
    device: u64,
    inode: u64,
}

/// A name that came or went, or that leads to another file than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameChange {
    /// The name.
    pub name: OsString,
    /// Whether it was there after the change.
    pub is_there: bool,
}

/// What happened in a directory since the last time that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// These, in their order.
    Names(Vec<NameChange>),
    /// Too many to be told: the directory is to be listed. What comes later is told again.
    TooMany,
    /// The watch has ended: nothing is known, and nothing will be told.
    Ended,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    by_descriptor: HashMap<i32, Vec<Listener>>,
    numbers: u64,
    /// Changes that listeners keep, those included that were asked for since the last count.
    kept: usize,
    has_complained: bool,
}

/// The kernel's queue of events.
#[derive(Debug, Default)]
enum Queue {
    #[default]
    NotAskedFor,
    Open(Arc<OwnedFd>),
    NotToBeHad,
}

#[derive(Debug)]
struct Listener {
    number: u64,
    concerns: fn(&OsStr) -> bool,
    changes: Vec<NameChange>,
    has_too_many: bool,
    last_use: u64,
}

const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// LIMIT: changes that are kept for one who does not ask.
const CHANGES_MAX: usize = 1024;

/// LIMIT: changes that are kept in all, some ten megabytes of names.
const CHANGES_OF_ALL_MAX: usize = 64 << 10;

/// Bytes of events that are read at once: some two hundred, of names as packs have them.
const EVENT_BYTES: usize = 16 << 10;

/// Local file systems: ext2 to ext4, XFS, Btrfs, F2FS and tmpfs, by their numbers in statfs(2).
const LOCAL_FILE_SYSTEMS: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

impl DirectoryWatches {
    /// Watches at most so many directories, the last asked for.
    pub fn new(watches_max: usize) -> Self {
        Self { watches_max, state: Arc::default() }
    }

    /// Watches a directory from now on, for the names that `concerns` says yes to; `None` if that
    /// cannot be. What happened before is not told.
    pub fn watch(&self, directory: &Path, concerns: fn(&OsStr) -> bool) -> Option<DirectoryWatch> {
        if self.watches_max == 0 {
            return None;
        }
        // Not under the lock: a file system that does not answer must not stop all others.
        let opened = open_local(directory);
        let mut state = lock(&self.state);
        let watched = opened.and_then(|opened| {
            let Some((held, stat)) = opened else { return Ok(None) };
            let watched = state.watch(&held, concerns, self.watches_max)?;
            Ok(watched.map(|(descriptor, number)| (descriptor, number, stat)))
        });
        match watched {
            Ok(Some((descriptor, number, stat))) => {
                let state = Arc::clone(&self.state);
                let (device, inode) = (stat.st_dev, stat.st_ino);
                Some(DirectoryWatch { state, descriptor, number, device, inode })
            }
            Ok(None) => None,
            Err(error) => {
                state.complain(directory, error);
                None
            }
        }
    }
}

impl DirectoryWatch {
    /// Whether this is the directory that was looked at.
    pub fn is_of(&self, stat: &Stat) -> bool {
        (self.device, self.inode) == (stat.device, stat.inode)
    }

    /// What happened since the last time.
    pub fn changes(&self) -> Changes {
        let mut state = lock(&self.state);
        state.take_events();
        state.numbers += 1;
        let last_use = state.numbers;
        let Some(listener) = state.listener(self.descriptor, self.number) else {
            return Changes::Ended;
        };
        listener.last_use = last_use;
        let changes = std::mem::take(&mut listener.changes);
        if std::mem::take(&mut listener.has_too_many) {
            Changes::TooMany
        } else {
            Changes::Names(changes)
        }
    }
}

impl Drop for DirectoryWatch {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if let Some(listeners) = state.by_descriptor.get_mut(&self.descriptor) {
            listeners.retain(|listener| listener.number != self.number);
            if listeners.is_empty() {
                state.remove(self.descriptor);
            }
        }
    }
}

impl State {
    fn watch(
        &mut self,
        held: &OwnedFd,
        concerns: fn(&OsStr) -> bool,
        watches_max: usize,
    ) -> rustix::io::Result<Option<(i32, u64)>> {
        let Some(queue) = self.open_queue()? else {
            return Ok(None);
        };
        // Events of a watch that ended must not be taken for those of a new one.
        self.take_events();
        let path = format!("/proc/self/fd/{}", held.as_raw_fd());
        let descriptor = inotify::add_watch(&*queue, path, EVENTS)?;
        self.numbers += 1;
        let number = self.numbers;
        let (changes, has_too_many) = (Vec::new(), false);
        let listener = Listener { number, concerns, changes, has_too_many, last_use: number };
        self.by_descriptor.entry(descriptor).or_default().push(listener);
        while self.by_descriptor.len() > watches_max {
            let last_use = |listeners: &[Listener]| listeners.iter().map(|one| one.last_use).max();
            let oldest = self.by_descriptor.iter().min_by_key(|(_, of_one)| last_use(of_one));
            let Some(oldest) = oldest.map(|(descriptor, _)| *descriptor) else { break };
            self.remove(oldest);
        }
        Ok(Some((descriptor, number)))
    }

    fn open_queue(&mut self) -> rustix::io::Result<Option<Arc<OwnedFd>>> {
        if matches!(self.queue, Queue::NotAskedFor) {
            self.queue = Queue::NotToBeHad;
            let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            self.queue = Queue::Open(Arc::new(queue));
        }
        Ok(match &self.queue {
            Queue::Open(queue) => Some(Arc::clone(queue)),
            Queue::NotAskedFor | Queue::NotToBeHad => None,
        })
    }

    /// Reads what is queued, and gives each listener what concerns it.
    fn take_events(&mut self) {
        let Queue::Open(queue) = &self.queue else {
            return;
        };
        let queue = Arc::clone(queue);
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut events = Reader::new(&*queue, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    self.take_event(event.wd(), event.events(), name);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    // What it may have told is lost.
                    self.by_descriptor.clear();
                    self.queue = Queue::NotToBeHad;
                    return;
                }
            }
        }
    }

    fn take_event(&mut self, descriptor: i32, events: ReadFlags, name: Option<&OsStr>) {
        const ENDS: ReadFlags = ReadFlags::IGNORED
            .union(ReadFlags::DELETE_SELF)
            .union(ReadFlags::MOVE_SELF)
            .union(ReadFlags::UNMOUNT);
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.lose_count();
            return;
        }
        if events.intersects(ENDS) {
            self.remove(descriptor);
            return;
        }
        let is_there = events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        let (Some(listeners), Some(name)) = (self.by_descriptor.get_mut(&descriptor), name) else {
            return;
        };
        for listener in listeners.iter_mut().filter(|listener| (listener.concerns)(name)) {
            if listener.changes.len() >= CHANGES_MAX {
                listener.lose_count();
            } else if !listener.has_too_many {
                listener.changes.push(NameChange { name: name.to_owned(), is_there });
                self.kept += 1;
            }
        }
        if self.kept > CHANGES_OF_ALL_MAX {
            self.kept = self.by_descriptor.values().flatten().map(|one| one.changes.len()).sum();
            if self.kept > CHANGES_OF_ALL_MAX {
                self.lose_count();
            }
        }
    }

    fn lose_count(&mut self) {
        for listener in self.by_descriptor.values_mut().flatten() {
            listener.lose_count();
        }
        self.kept = 0;
    }

    fn listener(&mut self, descriptor: i32, number: u64) -> Option<&mut Listener> {
        let listeners = self.by_descriptor.get_mut(&descriptor)?;
        listeners.iter_mut().find(|listener| listener.number == number)
    }

    /// Ends the watches on a directory.
    fn remove(&mut self, descriptor: i32) {
        if let (Some(_), Queue::Open(queue)) = (self.by_descriptor.remove(&descriptor), &self.queue)
        {
            // The kernel may have ended it already.
            let _ = inotify::remove_watch(&**queue, descriptor);
        }
    }

    /// Nothing is wrong without a watch, only slower: said once, in case it can be had.
    fn complain(&mut self, directory: &Path, error: Errno) {
        if error != Errno::NOENT && !std::mem::replace(&mut self.has_complained, true) {
            let (path, error) = (directory.display(), io::Error::from(error));
            tracing::warn!(%path, %error, "cannot watch a directory; it is listed at each change");
        }
    }
}

impl Listener {
    fn lose_count(&mut self) {
        self.has_too_many = true;
        self.changes = Vec::new();
    }
}

/// The directory itself, whatever its path leads to from now on; `None` if others may change it
/// unseen.
fn open_local(directory: &Path) -> rustix::io::Result<Option<(OwnedFd, rustix::fs::Stat)>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = rustix::fs::open(directory, flags, Mode::empty())?;
    if !is_local(&held)? {
        return Ok(None);
    }
    let stat = rustix::fs::fstat(&held)?;
    Ok(Some((held, stat)))
}

fn is_local(directory: &OwnedFd) -> rustix::io::Result<bool> {
    let kind = rustix::fs::fstatfs(directory)?.f_type;
    // The type of the field is signed on some platforms.
    Ok(u64::try_from(kind).is_ok_and(|kind| LOCAL_FILE_SYSTEMS.contains(&kind)))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Disk;
    use std::fs;

    fn all(_: &OsStr) -> bool {
        true
    }

    fn change(name: &str, is_there: bool) -> NameChange {
        NameChange { name: name.into(), is_there }
    }

    fn watch(directory: &Path) -> DirectoryWatch {
        let watches = DirectoryWatches::new(8);
        watches.watch(directory, all).expect("the tests run on a local file system")
    }

    #[test]
    fn names_that_come_and_go_are_told_once() {
        let directory = tempfile::tempdir().unwrap();
        let watch = watch(directory.path());
        assert_eq!(watch.changes(), Changes::Names(Vec::new()));
        fs::write(directory.path().join("a"), b"").unwrap();
        fs::rename(directory.path().join("a"), directory.path().join("b")).unwrap();
        fs::remove_file(directory.path().join("b")).unwrap();
        let expected =
            [change("a", true), change("a", false), change("b", true), change("b", false)];
        assert_eq!(watch.changes(), Changes::Names(expected.to_vec()));
        assert_eq!(watch.changes(), Changes::Names(Vec::new()));
    }

    #[test]
    fn what_another_process_does_is_told_when_it_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let watch = watch(directory.path());
        let path = directory.path().join("of another");
        let status = std::process::Command::new("mkdir").arg(&path).status().unwrap();
        assert!(status.success());
        assert_eq!(watch.changes(), Changes::Names(vec![change("of another", true)]));
    }

    #[test]
    fn names_that_do_not_concern_are_not_told() {
        let directory = tempfile::tempdir().unwrap();
        let watches = DirectoryWatches::new(8);
        let watch = watches.watch(directory.path(), |name| name == "b").unwrap();
        for name in ["a", "b"] {
            fs::write(directory.path().join(name), b"").unwrap();
        }
        assert_eq!(watch.changes(), Changes::Names(vec![change("b", true)]));
    }

    #[test]
    fn more_changes_than_are_kept_are_told_as_too_many_and_later_ones_again() {
        let directory = tempfile::tempdir().unwrap();
        let watch = watch(directory.path());
        for number in 0..=CHANGES_MAX {
            fs::write(directory.path().join(number.to_string()), b"").unwrap();
        }
        assert_eq!(watch.changes(), Changes::TooMany);
        fs::write(directory.path().join("later"), b"").unwrap();
        assert_eq!(watch.changes(), Changes::Names(vec![change("later", true)]));
    }

    #[test]
    fn an_overflow_of_the_kernels_queue_is_too_many_for_every_watch() {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let watches = DirectoryWatches::new(8);
        let both = directories.each_ref().map(|one| watches.watch(one.path(), all).unwrap());
        lock(&watches.state).take_event(-1, ReadFlags::QUEUE_OVERFLOW, None);
        assert_eq!(both.map(|watch| watch.changes()), [Changes::TooMany, Changes::TooMany]);
    }

    #[test]
    fn what_is_kept_for_all_who_do_not_ask_is_bounded_and_asking_makes_room() {
        let watches = DirectoryWatches::new(80);
        let directories = [(); 65].map(|()| tempfile::tempdir().unwrap());
        let all = directories.each_ref().map(|one| watches.watch(one.path(), all).unwrap());
        let [asks, last, others @ ..] = &all;
        let tell = |watch: &DirectoryWatch| {
            let mut state = lock(&watches.state);
            for _ in 0..CHANGES_MAX {
                state.take_event(watch.descriptor, ReadFlags::CREATE, Some(OsStr::new("a")));
            }
        };
        for watch in others {
            tell(watch);
            tell(asks);
            assert!(matches!(asks.changes(), Changes::Names(names) if names.len() == CHANGES_MAX));
        }
        // They keep all that is kept now.
        tell(last);
        let name = Some(OsStr::new("one more"));
        lock(&watches.state).take_event(asks.descriptor, ReadFlags::CREATE, name);
        assert!(all.iter().all(|watch| watch.changes() == Changes::TooMany));
    }

    #[test]
    fn a_directory_that_is_moved_or_removed_ends_its_watch() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        for ends in [
            |path: &Path| fs::rename(path, path.with_extension("aside")).unwrap(),
            |path: &Path| fs::remove_dir(path).unwrap(),
        ] {
            let path = root.path().join("watched");
            fs::create_dir(&path).unwrap();
            let watch = watch(&path);
            assert!(watch.is_of(&disk.stat(&path).unwrap().unwrap()));
            assert!(!watch.is_of(&disk.stat(root.path()).unwrap().unwrap()));
            ends(&path);
            assert_eq!(watch.changes(), Changes::Ended);
            assert_eq!(watch.changes(), Changes::Ended);
        }
    }

    #[test]
    fn two_watches_on_one_directory_are_told_each_and_end_each() {
        let directory = tempfile::tempdir().unwrap();
        let watches = DirectoryWatches::new(8);
        let one = watches.watch(directory.path(), all).unwrap();
        let other = watches.watch(directory.path(), all).unwrap();
        fs::write(directory.path().join("a"), b"").unwrap();
        assert_eq!(one.changes(), Changes::Names(vec![change("a", true)]));
        drop(one);
        fs::write(directory.path().join("b"), b"").unwrap();
        let expected = vec![change("a", true), change("b", true)];
        assert_eq!(other.changes(), Changes::Names(expected));
        drop(other);
        assert!(lock(&watches.state).by_descriptor.is_empty());
    }

    #[test]
    fn the_watch_that_was_not_asked_for_longest_ends_when_there_are_too_many() {
        let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let watches = DirectoryWatches::new(2);
        let [one, two] =
            [0, 1].map(|at: usize| watches.watch(directories[at].path(), all).unwrap());
        one.changes();
        let three = watches.watch(directories[2].path(), all).unwrap();
        assert_eq!(two.changes(), Changes::Ended);
        assert_eq!(one.changes(), Changes::Names(Vec::new()));
        assert_eq!(three.changes(), Changes::Names(Vec::new()));
    }

    #[test]
    fn a_file_system_that_others_change_unseen_is_not_watched() {
        let watches = DirectoryWatches::new(8);
        assert!(watches.watch(Path::new("/proc/self"), all).is_none());
        assert!(watches.watch(Path::new("/nowhere"), all).is_none());
        let directory = tempfile::tempdir().unwrap();
        assert!(DirectoryWatches::new(0).watch(directory.path(), all).is_none());
    }
}
