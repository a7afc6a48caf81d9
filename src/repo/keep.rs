//! Keep files: they tell git's repack to leave a pack alone until refs lead to its objects.
//!
//! Two pushes of one pack share its keep file. The registry counts them, so that the first to end
//! does not take it from the other. A keep file that was there before belongs to somebody else
//! and stays.

use super::disk::Disk;
use super::in_flight::{InFlight, InFlightGuard};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The keep files that this process holds. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct KeepRegistry(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    in_flight: InFlight,
    held: Mutex<HashMap<PathBuf, Held>>,
}

/// A keep file and how many pushes hold it or are about to.
#[derive(Debug, Default)]
struct Held {
    pushes: usize,
    file: Arc<Mutex<KeepFile>>,
}

/// What the pushes of one pack share. Locked while its file is made or removed: whoever comes in
/// between would find it there, take it for somebody else's, and lose it. Pushes of other packs
/// need not wait for the disk.
#[derive(Debug, Default)]
enum KeepFile {
    /// No push of this process has looked yet, or the last has gone.
    #[default]
    Untouched,
    /// Made by this process.
    Ours(InFlightGuard),
    /// Somebody else's: it was there before.
    Foreign,
}

/// One push's hold on a keep file.
#[derive(Debug)]
#[must_use = "the keep file goes when this is dropped"]
pub struct KeepGuard {
    shared: Arc<Shared>,
    disk: Disk,
    path: PathBuf,
    file: Arc<Mutex<KeepFile>>,
    is_released: bool,
}

impl KeepRegistry {
    /// A registry that notes what it makes in `in_flight`.
    pub fn new(in_flight: InFlight) -> Self {
        Self(Arc::new(Shared { in_flight, held: Mutex::default() }))
    }

    /// Gives the keep file `from`, which lies in a quarantine, the name `to` as well, unless there
    /// is one by that name already.
    pub fn hold(&self, disk: &Disk, from: &Path, to: &Path) -> io::Result<KeepGuard> {
        let guard = KeepGuard {
            shared: Arc::clone(&self.0),
            disk: disk.clone(),
            path: to.to_owned(),
            file: self.0.join(to),
            is_released: false,
        };
        let mut file = locked(&guard.file);
        if matches!(*file, KeepFile::Untouched) {
            *file = self.0.make(disk, from, to)?;
        }
        drop(file);
        Ok(guard)
    }

    /// The record in which it notes what it makes.
    pub fn in_flight(&self) -> &InFlight {
        &self.0.in_flight
    }
}

impl Shared {
    /// Counts one more push.
    fn join(&self, path: &Path) -> Arc<Mutex<KeepFile>> {
        let mut held = locked(&self.held);
        let entry = held.entry(path.to_owned()).or_default();
        entry.pushes = entry.pushes.saturating_add(1);
        Arc::clone(&entry.file)
    }

    /// Counts one push less; true if it was the last.
    fn leave(&self, path: &Path) -> bool {
        let mut held = locked(&self.held);
        let Some(entry) = held.get_mut(path) else { return false };
        entry.pushes = entry.pushes.saturating_sub(1);
        entry.pushes == 0
    }

    /// Forgets a file, unless a push has come meanwhile, which waits for it.
    fn forget(&self, path: &Path) {
        let mut held = locked(&self.held);
        if held.get(path).is_some_and(|entry| entry.pushes == 0) {
            held.remove(path);
        }
    }

    fn make(&self, disk: &Disk, from: &Path, to: &Path) -> io::Result<KeepFile> {
        let identity = disk.stat(from)?.ok_or(io::ErrorKind::NotFound)?;
        let note = self.in_flight.note(to, &identity)?;
        match disk.link(from, to) {
            Ok(()) => Ok(KeepFile::Ours(note)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(KeepFile::Foreign),
            Err(error) => Err(error),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeepGuard {
    /// The keep file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets go, and removes the file if this process made it and no other push holds it. Dropping
    /// does the same and says nothing of errors.
    pub fn release(mut self) -> io::Result<()> {
        self.let_go()
    }

    fn let_go(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_released, true) {
            return Ok(());
        }
        let mut file = locked(&self.file);
        if !self.shared.leave(&self.path) {
            return Ok(());
        }
        let removed = match std::mem::take(&mut *file) {
            KeepFile::Ours(note) => {
                // The next start removes what could not be removed now.
                self.disk.unlink(&self.path).map(drop).inspect_err(|_| note.leave())
            }
            KeepFile::Foreign | KeepFile::Untouched => Ok(()),
        };
        self.shared.forget(&self.path);
        removed
    }
}

impl Drop for KeepGuard {
    fn drop(&mut self) {
        // What cannot be removed is removed at the next start, or reported then.
        let _ = self.let_go();
    }
}

/// What a keep file of this process says; git's own words (`builtin/receive-pack.c`), by which
/// operators and [`KeepOwner::parse`] tell whose it is.
pub(super) fn message() -> String {
    format!("receive-pack {} on {}\n", std::process::id(), host())
}

/// Whose a keep file is, by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeepOwner {
    pub(super) process: u32,
    pub(super) host: String,
}

impl KeepOwner {
    pub(super) fn parse(content: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(content).ok()?.strip_prefix("receive-pack ")?;
        let (process, host) = text.trim_end_matches('\n').split_once(" on ")?;
        Some(Self { process: process.parse().ok()?, host: host.to_owned() })
    }

    /// Whether it was a process of this host that is no more.
    pub(super) fn is_dead_here(&self) -> bool {
        self.host == host() && !process_lives(self.process)
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn process_lives(process: u32) -> bool {
    let Some(process) = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    // Another user's process may not be signalled and yet lives.
    rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::FlushPolicy;
    use std::fs;

    struct World {
        root: tempfile::TempDir,
        registry: KeepRegistry,
    }

    impl World {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            fs::write(root.path().join("from"), message()).unwrap();
            Self { root, registry: KeepRegistry::default() }
        }

        fn path(&self) -> PathBuf {
            self.root.path().join("pack-1.keep")
        }

        fn hold(&self) -> KeepGuard {
            let from = self.root.path().join("from");
            self.registry.hold(&Disk::default(), &from, &self.path()).unwrap()
        }
    }

    #[test]
    fn the_last_push_removes_the_file() {
        let world = World::new();
        let first = world.hold();
        let second = world.hold();
        first.release().unwrap();
        assert!(world.path().exists());
        drop(second);
        assert!(!world.path().exists());
        drop(world.hold());
        assert!(!world.path().exists());
    }

    #[test]
    fn a_foreign_file_stays() {
        let world = World::new();
        fs::write(world.path(), "mine").unwrap();
        let first = world.hold();
        let second = world.hold();
        drop(first);
        second.release().unwrap();
        assert_eq!(fs::read(world.path()).unwrap(), b"mine");
    }

    #[test]
    fn a_failed_hold_holds_nothing() {
        let world = World::new();
        let missing = world.root.path().join("missing");
        assert!(world.registry.hold(&Disk::default(), &missing, &world.path()).is_err());
        drop(world.hold());
        assert!(!world.path().exists());
        assert!(locked(&world.registry.0.held).is_empty());
    }

    #[test]
    fn a_killed_process_leaves_a_note() {
        let world = World::new();
        let disk = Disk::default();
        let state_dir = world.root.path().join("state");
        let in_flight = InFlight::open(&disk, &state_dir).unwrap();
        let registry = KeepRegistry::new(in_flight);
        let guard = registry.hold(&disk, &world.root.path().join("from"), &world.path()).unwrap();
        assert!(InFlight::recover(&disk, &state_dir).unwrap().removed.is_empty());
        // As when the process dies: nothing is dropped but the descriptor of the record.
        let record = fs::read_dir(&state_dir).unwrap().next().unwrap().unwrap().path();
        let bytes = fs::read(&record).unwrap();
        fs::write(state_dir.join("in-flight-killed"), bytes).unwrap();
        let recovered = InFlight::recover(&disk, &state_dir).unwrap();
        assert_eq!(recovered.removed, [world.path()]);
        guard.release().unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_removed_stays_noted() {
        let world = World::new();
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        let state_dir = world.root.path().join("state");
        let registry = KeepRegistry::new(InFlight::open(&disk, &state_dir).unwrap());
        let from = world.root.path().join("from");
        for release in [true, false] {
            let guard = registry.hold(&disk, &from, &world.path()).unwrap();
            recorder.fail_at(0, io::ErrorKind::Other, false);
            if release {
                guard.release().unwrap_err();
            } else {
                drop(guard);
            }
            recorder.fail_at(usize::MAX, io::ErrorKind::Other, false);
            assert!(world.path().exists());
            // It counts as somebody else's until the process ends.
            registry.hold(&disk, &from, &world.path()).unwrap().release().unwrap();
            assert!(world.path().exists());
            let record = fs::read_dir(&state_dir).unwrap().next().unwrap().unwrap().path();
            let bytes = fs::read(&record).unwrap();
            fs::write(state_dir.join("in-flight-killed"), bytes).unwrap();
            assert_eq!(InFlight::recover(&disk, &state_dir).unwrap().removed, [world.path()]);
        }
    }

    #[test]
    fn a_disk_that_is_slow_for_one_pack_holds_no_other_up() {
        let world = World::new();
        let registry = &world.registry;
        let busy = world.root.path().join("pack-2.keep");
        // As a push that waits for the disk, with the file of its pack locked.
        let file = registry.0.join(&busy);
        let _waiting = locked(&file);
        drop(world.hold());
        assert!(!world.path().exists());
    }

    #[test]
    fn many_pushes_at_once_leave_nothing() {
        let world = World::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let guard = world.hold();
                        assert!(world.path().exists());
                        drop(guard);
                    }
                });
            }
        });
        assert!(!world.path().exists());
    }

    #[test]
    fn an_owner_is_read_from_the_message() {
        let owner = KeepOwner::parse(message().as_bytes()).unwrap();
        assert_eq!(owner.process, std::process::id());
        assert!(!owner.is_dead_here());
        let elsewhere = KeepOwner::parse(b"receive-pack 4194305 on elsewhere\n").unwrap();
        assert!(!elsewhere.is_dead_here());
        let dead = KeepOwner { process: 4_194_305, ..owner };
        assert!(dead.is_dead_here());
        for text in ["", "mine", "receive-pack x on y", "receive-pack 1", "fetch-pack 1 on y"] {
            assert_eq!(KeepOwner::parse(text.as_bytes()), None);
        }
    }
}
