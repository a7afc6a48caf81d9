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

#[derive(Debug)]
struct Held {
    pushes: usize,
    /// Whether this process made the file.
    is_ours: bool,
    note: Option<InFlightGuard>,
}

/// One push's hold on a keep file.
#[derive(Debug)]
#[must_use = "the keep file goes when this is dropped"]
pub struct KeepGuard {
    shared: Arc<Shared>,
    disk: Disk,
    path: PathBuf,
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
        let mut held = self.0.held();
        if let Some(entry) = held.get_mut(to) {
            entry.pushes = entry.pushes.saturating_add(1);
        } else {
            let identity = disk.stat(from)?.ok_or(io::ErrorKind::NotFound)?;
            let note = self.0.in_flight.note(to, &identity)?;
            let entry = match disk.link(from, to) {
                Ok(()) => Held { pushes: 1, is_ours: true, note: Some(note) },
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    Held { pushes: 1, is_ours: false, note: None }
                }
                Err(error) => return Err(error),
            };
            held.insert(to.to_owned(), entry);
        }
        Ok(KeepGuard {
            shared: Arc::clone(&self.0),
            disk: disk.clone(),
            path: to.to_owned(),
            is_released: false,
        })
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, HashMap<PathBuf, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        // The lock is held over the removal: a push that comes in between would find the file
        // there, take it for somebody else's, and lose it.
        let mut held = self.shared.held();
        let Some(entry) = held.get_mut(&self.path) else { return Ok(()) };
        entry.pushes = entry.pushes.saturating_sub(1);
        if entry.pushes > 0 {
            return Ok(());
        }
        let entry = held.remove(&self.path);
        if entry.as_ref().is_some_and(|entry| entry.is_ours) {
            self.disk.unlink(&self.path)?;
        }
        drop(entry.and_then(|entry| entry.note));
        Ok(())
    }
}

impl Drop for KeepGuard {
    fn drop(&mut self) {
        // What cannot be removed is reported by the next sweep.
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
    }

    #[test]
    fn a_killed_process_leaves_a_note() {
        let world = World::new();
        let disk = Disk::default();
        let state_dir = world.root.path().join("state");
        let in_flight = InFlight::open(&disk, &state_dir).unwrap();
        let registry = KeepRegistry::new(in_flight);
        let guard = registry.hold(&disk, &world.root.path().join("from"), &world.path()).unwrap();
        let record = fs::read_dir(&state_dir).unwrap().next().unwrap().unwrap().path();
        assert!(fs::metadata(&record).unwrap().len() > 0);
        guard.release().unwrap();
        assert_eq!(fs::metadata(&record).unwrap().len(), 0);
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
