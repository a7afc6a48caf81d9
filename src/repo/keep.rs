//! Keep files: they tell git's repack to leave a pack alone until refs lead to its objects.
//!
//! Two pushes of one pack share its keep file. The registry counts them, so that the first to end
//! does not take it from the other. A keep file that was there before belongs to somebody else
//! and stays.

use super::disk::{Disk, Stat};
use super::durable_file::DurableFile;
use super::flush_policy::Component;
use super::in_flight::{InFlight, InFlightGuard};
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The keep files that this process holds. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct KeepRegistry(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    in_flight: InFlight,
    /// The file whose further names are keep files, if there is one.
    template: Option<Template>,
    held: Mutex<HashMap<PathBuf, Held>>,
}

/// A file with what a keep file of this process says. To give it one more name costs a file system
/// much less than to make a file; readers ask only whether there is a keep file.
#[derive(Debug)]
struct Template {
    disk: Disk,
    path: PathBuf,
    identity: Stat,
    /// Struck out after the file has gone.
    note: InFlightGuard,
}

impl Drop for Template {
    fn drop(&mut self) {
        if self.disk.unlink(&self.path).is_err() {
            self.note.leave();
        }
    }
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
        Self(Arc::new(Shared { in_flight, template: None, held: Mutex::default() }))
    }

    /// The same, with a file in `state_dir` of which keep files are further names, where those
    /// are on the same file system. It goes with the registry; if the process is killed, the next
    /// recovery removes it.
    pub fn with_template(disk: &Disk, in_flight: InFlight, state_dir: &Path) -> io::Result<Self> {
        let file = new_keep(disk, state_dir, TEMPLATE_PREFIX)?;
        // Once for all: what a keep file says shall be readable after a power loss.
        file.flush_as(Component::PackMetadata)?;
        let (path, identity) = (file.path().to_owned(), file.stat()?);
        let note = in_flight.note(&path, &identity)?;
        let template = Some(Template { disk: disk.clone(), path, identity, note });
        Ok(Self(Arc::new(Shared { in_flight, template, held: Mutex::default() })))
    }

    /// Gives the keep file `from`, which lies in a quarantine, the name `to` as well, unless there
    /// is one by that name already.
    pub fn hold(&self, disk: &Disk, from: &Path, to: &Path) -> io::Result<KeepGuard> {
        self.hold_with(disk, to, || {
            let identity = disk.stat(from)?.ok_or(io::ErrorKind::NotFound)?;
            self.0.link(disk, from, &identity, to)
        })
    }

    /// Makes a keep file, unless there is one of that name already.
    ///
    /// It is not flushed for the push: it guards against a repack beside us, and after a power loss
    /// there is none.
    pub fn hold_new(&self, disk: &Disk, to: &Path) -> io::Result<KeepGuard> {
        self.hold_with(disk, to, || self.0.make(disk, to))
    }

    fn hold_with(
        &self,
        disk: &Disk,
        to: &Path,
        make: impl FnOnce() -> io::Result<KeepFile>,
    ) -> io::Result<KeepGuard> {
        let guard = KeepGuard {
            shared: Arc::clone(&self.0),
            disk: disk.clone(),
            path: to.to_owned(),
            file: self.0.join(to),
            is_released: false,
        };
        let mut file = locked(&guard.file);
        if matches!(*file, KeepFile::Untouched) {
            *file = make()?;
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

    fn make(&self, disk: &Disk, to: &Path) -> io::Result<KeepFile> {
        if let Some(Template { path, identity, .. }) = &self.template {
            match self.link(disk, path, identity, to) {
                // On another file system, or with as many names as a file may have.
                Err(error) if cannot_link(&error) => {}
                linked => return linked,
            }
        }
        let file = new_keep(disk, to.parent().unwrap_or(to), "tmp_keep_")?;
        let made = file.stat().and_then(|identity| self.link(disk, file.path(), &identity, to));
        // With a second try: there is nobody to tell. What stays is swept when it is old.
        let _ = disk.unlink(file.path()).or_else(|_| disk.unlink(file.path()));
        made
    }

    fn link(&self, disk: &Disk, from: &Path, of: &Stat, to: &Path) -> io::Result<KeepFile> {
        let note = self.in_flight.note(to, of)?;
        match disk.link(from, to) {
            Ok(()) => Ok(KeepFile::Ours(note)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(KeepFile::Foreign),
            Err(error) => Err(error),
        }
    }
}

/// Writes a keep file under a temporary name.
fn new_keep(disk: &Disk, directory: &Path, prefix: &str) -> io::Result<DurableFile> {
    let mut file = disk.create_temporary(directory, prefix, 0o600)?;
    match file.write_all(message().as_bytes()) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = disk.unlink(file.path()).or_else(|_| disk.unlink(file.path()));
            Err(error)
        }
    }
}

fn cannot_link(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    // What NotFound says: somebody has removed the template.
    let kinds =
        [CrossesDevices, PermissionDenied, TooManyLinks, Unsupported, io::ErrorKind::NotFound];
    kinds.contains(&error.kind())
}

/// In the state directory; the in-flight record notes it.
const TEMPLATE_PREFIX: &str = "keep-";

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
    fn a_keep_file_is_made_from_nothing_or_as_one_more_name_of_a_template() {
        let world = World::new();
        let disk = Disk::default();
        let state_dir = world.root.path().join("state");
        let in_flight = InFlight::open(&disk, &state_dir).unwrap();
        let with = KeepRegistry::with_template(&disk, in_flight, &state_dir).unwrap();
        for (registry, links) in [(&world.registry, 1), (&with, 2)] {
            let guard = registry.hold_new(&disk, &world.path()).unwrap();
            assert_eq!(fs::read_to_string(world.path()).unwrap(), message());
            assert_eq!(disk.stat(&world.path()).unwrap().unwrap().links, links);
            drop(guard);
            assert!(!world.path().exists());
        }
        drop(with);
        // The record stays, whose lock tells that its process has ended.
        assert_eq!(fs::read_dir(&state_dir).unwrap().count(), 1);
        assert_eq!(fs::read_dir(world.root.path()).unwrap().count(), 2, "no temporary file");
    }

    #[test]
    fn where_the_template_cannot_be_linked_a_keep_file_is_made_all_the_same() {
        let world = World::new();
        let disk = Disk::default();
        let state_dir = world.root.path().join("state");
        let in_flight = InFlight::open(&disk, &state_dir).unwrap();
        let registry = KeepRegistry::with_template(&disk, in_flight, &state_dir).unwrap();
        // As somebody who clears the state directory does.
        fs::remove_file(&registry.0.template.as_ref().unwrap().path).unwrap();
        let guard = registry.hold_new(&disk, &world.path()).unwrap();
        assert_eq!(fs::read_to_string(world.path()).unwrap(), message());
        drop(guard);
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
