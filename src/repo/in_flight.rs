//! A record, outside all repositories, of names that must not outlive this process.
//!
//! Ref locks and keep files of a process that was killed would stop every later push to those
//! refs, and nobody but an operator could tell them from those of a running git. So each is noted
//! before it gets its name, in one append-only file per process that is locked while the process
//! lives. The next start reads the records of the dead and removes what they name, but only where
//! the very same file still has the name.
//!
//! Guards against a killed process, not against power loss. Notes are written and not flushed: what
//! was written outlives the process that wrote it, and a flush for each lock would cost more than
//! the push. After a power loss a note and the name it notes are there or not each for itself. A
//! note without its name is passed over. A name without its note, or on a device that has another
//! number since, is reported by the sweep, with its age, for an operator to look at.
//!
//! So that a name never goes on without its note, a note is struck out only once the name has gone;
//! where it could not be removed the note stays until the next start. And a record is removed only
//! once the directories that it names are flushed: else a power loss right after the recovery could
//! bring a name back that nothing notes any more.
//!
//! Whether a process lives is asked by flock(2). Where hosts share a file system and each keeps
//! its locks to itself, nobody can tell, and no two of them may use one state directory.

use super::disk::{Disk, EntryKind, Stat};
use super::durable_file::DurableFile;
use super::flush_policy::Component;
use rustix::fs::{FlockOperation, flock};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The record of this process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct InFlight(Option<Arc<Record>>);

#[derive(Debug)]
struct Record(Mutex<State>);

#[derive(Debug)]
struct State {
    file: DurableFile,
    last: u64,
    /// The lines of what is in flight, to be written again when the file has grown too long; in
    /// the order in which they were written, so that none is written over before it has a copy.
    live: BTreeMap<u64, Vec<u8>>,
    live_bytes: u64,
}

/// A note of one name or several; dropping it says that they are gone or have become something
/// lasting.
#[derive(Debug)]
#[must_use = "a note that is dropped at once guards nothing"]
pub struct InFlightGuard {
    noted: Option<(Arc<Record>, u64)>,
    stays: AtomicBool,
}

/// What [`InFlight::recover`] found in the records of dead processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Names that were removed.
    pub removed: Vec<PathBuf>,
    /// Names that were noted and now belong to another file, or to none: not touched.
    pub passed_over: Vec<PathBuf>,
    /// Records that could not be worked through, and why. They stay for the next time.
    pub failed: Vec<(PathBuf, String)>,
}

impl InFlight {
    /// Records nothing: for a process that serves one push and has nowhere to write.
    pub fn none() -> Self {
        Self(None)
    }

    /// Begins the record of this process in `state_dir`, which is created if it is missing.
    pub fn open(disk: &Disk, state_dir: &Path) -> io::Result<Self> {
        if disk.stat(state_dir)?.is_none() {
            let root = state_dir.ancestors().last().unwrap_or(state_dir);
            disk.create_directories(root, state_dir, 0o700)?;
        }
        for _ in 0..ATTEMPTS_MAX {
            let file = disk.create_temporary(state_dir, PREFIX, 0o600)?;
            flock(file.as_file(), FlockOperation::LockExclusive)?;
            // A recovery may have taken the new, unlocked file for that of a dead process.
            if is_at(disk, file.path(), &file.stat()?)? {
                let state = State { file, last: 0, live: BTreeMap::new(), live_bytes: 0 };
                return Ok(Self(Some(Arc::new(Record(Mutex::new(state))))));
            }
        }
        Err(io::Error::other(format!("records in '{}' keep vanishing", state_dir.display())))
    }

    /// Whether there is a record: if not, notes need not be prepared.
    pub fn is_recording(&self) -> bool {
        self.0.is_some()
    }

    /// Notes that `path` is about to become a name of the file that `identity` was asked of. The
    /// file must not be written to any more.
    pub fn note(&self, path: &Path, identity: &Stat) -> io::Result<InFlightGuard> {
        self.note_all([(path, identity)])
    }

    /// The same for several names, in one write and with one guard for all.
    pub fn note_all<'n>(
        &self,
        names: impl IntoIterator<Item = (&'n Path, &'n Stat)>,
    ) -> io::Result<InFlightGuard> {
        let stays = AtomicBool::new(false);
        let Some(record) = &self.0 else { return Ok(InFlightGuard { noted: None, stays }) };
        let mut state = record.state();
        let number = state.last.wrapping_add(1);
        let lines = names.into_iter().map(|(path, of)| checked(&begin_line(number, path, of)));
        let lines: Vec<u8> = lines.flatten().collect();
        state.file.write_all(&lines)?;
        state.last = number;
        state.live_bytes = state.live_bytes.saturating_add(length_of(&lines));
        state.live.insert(number, lines);
        Ok(InFlightGuard { noted: Some((Arc::clone(record), number)), stays })
    }

    /// Removes what dead processes left under the names they noted, and their records.
    ///
    /// A record is one of the dead if its lock is free: the kernel holds it for as long as the
    /// process lives. A name is removed only if device, inode, time of modification and, where
    /// known, time of creation are those that were noted, so that neither a lock that a git took
    /// since, nor one on an inode that is used again, is taken for ours. Between that look and the
    /// removal another process could in theory take the name; somebody else would have to remove
    /// it first, within microseconds, after it has been stuck until now.
    pub fn recover(disk: &Disk, state_dir: &Path) -> io::Result<Recovered> {
        let mut recovered = Recovered::default();
        if disk.stat(state_dir)?.is_none() {
            return Ok(recovered);
        }
        for entry in disk.list(state_dir)? {
            let is_record = entry.name.as_bytes().starts_with(PREFIX.as_bytes());
            if is_record && entry.kind == EntryKind::File {
                let record = state_dir.join(&entry.name);
                // One name that cannot be removed must not keep the others, nor a server from
                // starting.
                if let Err(error) = recover_one(disk, &record, &mut recovered) {
                    recovered.failed.push((record, error.to_string()));
                }
            }
        }
        Ok(recovered)
    }
}

impl Record {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightGuard {
    /// Lets the note stand for as long as this process lives, and for the next to find: a name
    /// that it notes could not be removed.
    pub fn leave(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let Some((record, number)) = self.noted.take() else { return };
        if !self.stays.load(Ordering::Relaxed) {
            // A note that cannot be struck out is harmless: its name is gone or another file's.
            let _ = record.state().strike_out(number);
        }
    }
}

impl State {
    /// A line more is written: to cut the file at once would cost ten times that.
    fn strike_out(&mut self, number: u64) -> io::Result<()> {
        let lines = self.live.remove(&number).unwrap_or_default();
        self.live_bytes = self.live_bytes.saturating_sub(length_of(&lines));
        let length_max = RECORD_BYTES.max(self.live_bytes.saturating_mul(2));
        if self.file.length() < length_max {
            return self.file.write_all(&checked(format!("- {number}").as_bytes()));
        }
        // What is in flight goes to the front first: a reader that comes before the cut sees some
        // lines twice and one torn, which its checksum gives away.
        let lines: Vec<u8> = self.live.values().flatten().copied().collect();
        self.file.write_all_at(&lines, 0)?;
        self.file.truncate(length_of(&lines))
    }
}

fn length_of(lines: &[u8]) -> u64 {
    u64::try_from(lines.len()).unwrap_or(u64::MAX)
}

fn recover_one(disk: &Disk, path: &Path, recovered: &mut Recovered) -> io::Result<()> {
    let file = match disk.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => return Ok(()),
        locked => locked?,
    }
    let recovered = recover_locked(disk, path, &file, recovered);
    // Not by closing it: a child that another thread has just forked holds it until it has become
    // another program, and would keep the next recovery from this record.
    flock(&file, FlockOperation::Unlock)?;
    recovered
}

fn recover_locked(
    disk: &Disk,
    path: &Path,
    file: &File,
    recovered: &mut Recovered,
) -> io::Result<()> {
    if !is_at(disk, path, &Stat::from(file.metadata()?))? {
        return Ok(());
    }
    // One name that cannot be removed must not keep the others.
    let mut done = Ok(());
    let mut directories = BTreeSet::new();
    for note in pending(&disk.read(path, RECORD_BYTES_MAX)?) {
        directories.extend(note.path.parent().map(Path::to_owned));
        match remove_noted(disk, &note) {
            Ok(true) => recovered.removed.push(note.path),
            Ok(false) => recovered.passed_over.push(note.path),
            Err(error) => done = done.and(Err(error)),
        }
    }
    // DURABILITY: before the record goes. A name that had gone already may have gone a moment ago.
    for directory in directories {
        match disk.flush_directory(&directory, Component::Reference) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            flushed => done = done.and(flushed),
        }
    }
    done?;
    disk.unlink(path).map(drop)
}

/// Removes a name if it is still that of the file that was noted.
fn remove_noted(disk: &Disk, note: &Note) -> io::Result<bool> {
    let found = disk.stat_link(&note.path)?;
    if !found.is_some_and(|stat| stat.kind == EntryKind::File && note.names(&stat)) {
        return Ok(false);
    }
    disk.unlink(&note.path)
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Note {
    path: PathBuf,
    device: u64,
    inode: u64,
    modified: (i64, i64),
    created: Option<(i64, i64)>,
}

impl Note {
    fn names(&self, stat: &Stat) -> bool {
        (self.device, self.inode, self.modified, self.created)
            == (stat.device, stat.inode, stat.modified, stat.created)
    }
}

/// What a record notes and does not strike out, in order.
fn pending(record: &[u8]) -> BTreeSet<Note> {
    let mut notes: BTreeMap<u64, Vec<Note>> = BTreeMap::new();
    for line in record.split_inclusive(|byte| *byte == b'\n').filter_map(unchecked) {
        if let Some(number) = line.strip_prefix(b"- ").and_then(number_of) {
            notes.remove(&number);
        } else if let Some((number, note)) = parse_begin(line) {
            notes.entry(number).or_default().push(note);
        }
    }
    notes.into_values().flatten().collect()
}

/// `+ <number> <device> <inode> <modified> <created> <path>`, times as seconds and nanoseconds;
/// that of creation is `- -` if unknown. Names that are noted together have one number.
fn begin_line(number: u64, path: &Path, identity: &Stat) -> Vec<u8> {
    let Stat { device, inode, modified: (seconds, nanoseconds), .. } = identity;
    let created = match identity.created {
        Some((seconds, nanoseconds)) => format!("{seconds} {nanoseconds}"),
        None => "- -".to_owned(),
    };
    let mut line =
        format!("+ {number} {device} {inode} {seconds} {nanoseconds} {created} ").into_bytes();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'\n' => line.extend(b"\\n"),
            b'\\' => line.extend(b"\\\\"),
            _ => line.push(*byte),
        }
    }
    line
}

fn parse_begin(line: &[u8]) -> Option<(u64, Note)> {
    let mut fields = line.strip_prefix(b"+ ")?.splitn(8, |byte| *byte == b' ');
    let number = number_of(fields.next()?)?;
    let device = number_of(fields.next()?)?;
    let inode = number_of(fields.next()?)?;
    let modified = (number_of(fields.next()?)?, number_of(fields.next()?)?);
    let created = match (fields.next()?, fields.next()?) {
        (b"-", b"-") => None,
        (seconds, nanoseconds) => Some((number_of(seconds)?, number_of(nanoseconds)?)),
    };
    let mut path = Vec::new();
    let mut escaped = fields.next()?.iter();
    while let Some(byte) = escaped.next() {
        path.push(match byte {
            b'\\' if *escaped.next()? == b'n' => b'\n',
            _ => *byte,
        });
    }
    let path = OsString::from_vec(path).into();
    Some((number, Note { path, device, inode, modified, created }))
}

/// A line with its checksum in front: a torn one must not be taken for another.
fn checked(line: &[u8]) -> Vec<u8> {
    let mut whole = format!("{:08x} ", crc32fast::hash(line)).into_bytes();
    whole.extend_from_slice(line);
    whole.push(b'\n');
    whole
}

fn unchecked(whole: &[u8]) -> Option<&[u8]> {
    let (checksum, rest) = whole.split_at_checked(8)?;
    let line = rest.strip_prefix(b" ")?.strip_suffix(b"\n")?;
    let expected = format!("{:08x}", crc32fast::hash(line));
    (expected.as_bytes() == checksum).then_some(line)
}

fn number_of<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Whether the file of this identity is what `path` names.
fn is_at(disk: &Disk, path: &Path, identity: &Stat) -> io::Result<bool> {
    let found = disk.stat_link(path)?;
    Ok(found.is_some_and(|s| (s.device, s.inode) == (identity.device, identity.inode)))
}

const PREFIX: &str = "in-flight-";
const ATTEMPTS_MAX: u32 = 10;
/// The length from which a record is written anew rather than on.
const RECORD_BYTES: u64 = 1 << 20;
/// The longest record that is read: a million names in flight at once would not be.
const RECORD_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::{FlushPolicy, Operation};
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    struct World {
        root: tempfile::TempDir,
        disk: Disk,
    }

    impl World {
        fn new() -> Self {
            Self { root: tempfile::tempdir().unwrap(), disk: Disk::default() }
        }

        fn state_dir(&self) -> PathBuf {
            self.root.path().join("state/packhouse")
        }

        fn open(&self) -> InFlight {
            InFlight::open(&self.disk, &self.state_dir()).unwrap()
        }

        /// A file with a name, and what stat says of it.
        fn file(&self, name: &str) -> (PathBuf, Stat) {
            let path = self.root.path().join(name);
            fs::write(&path, name).unwrap();
            let stat = self.disk.stat(&path).unwrap().unwrap();
            (path, stat)
        }

        fn recover(&self) -> Recovered {
            InFlight::recover(&self.disk, &self.state_dir()).unwrap()
        }

        fn records(&self) -> usize {
            fs::read_dir(self.state_dir()).unwrap().count()
        }
    }

    /// Ends a record as a killed process would: the lock goes, the notes stay.
    fn kill(in_flight: InFlight, guards: Vec<InFlightGuard>) {
        for mut guard in guards {
            guard.noted.take();
        }
        let (directory, inode) = {
            let state = in_flight.0.as_ref().unwrap().state();
            let path = state.file.path().parent().unwrap().to_owned();
            (path, state.file.stat().unwrap().inode)
        };
        drop(in_flight);
        // Another test's child holds the descriptor, and the lock with it, until it has become
        // another program. This one is let go in words for the same reason.
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if fs::metadata(&path).unwrap().ino() == inode {
                let file = fs::File::open(path).unwrap();
                flock(&file, FlockOperation::LockExclusive).unwrap();
                flock(&file, FlockOperation::Unlock).unwrap();
            }
        }
    }

    #[test]
    fn what_a_dead_process_left_is_removed() {
        let world = World::new();
        let (path, stat) = world.file("a\\b \n.lock");
        let in_flight = world.open();
        let guard = in_flight.note(&path, &stat).unwrap();
        kill(in_flight, vec![guard]);
        let recovered = world.recover();
        assert_eq!(recovered.removed, std::slice::from_ref(&path));
        assert!(!path.exists());
        assert_eq!(world.records(), 0);
    }

    #[test]
    fn a_live_process_is_left_alone() {
        let world = World::new();
        let (path, stat) = world.file("a.lock");
        let in_flight = world.open();
        let guard = in_flight.note(&path, &stat).unwrap();
        assert_eq!(world.recover(), Recovered::default());
        assert!(path.exists());
        drop(guard);
        assert_eq!(world.records(), 1);
    }

    #[test]
    fn a_name_that_another_file_has_now_is_left_alone() {
        let world = World::new();
        let (path, stat) = world.file("a.lock");
        let (gone, gone_stat) = world.file("b.lock");
        let in_flight = world.open();
        let guards =
            [(&path, &stat), (&gone, &gone_stat)].map(|(p, s)| in_flight.note(p, s).unwrap());
        let (other, _) = world.file("other");
        fs::rename(&other, &path).unwrap();
        fs::rename(&gone, world.root.path().join("ref")).unwrap();
        kill(in_flight, guards.into());
        let recovered = world.recover();
        assert_eq!(recovered.passed_over, [path.clone(), gone]);
        assert!(path.exists() && world.root.path().join("ref").exists());
    }

    #[test]
    fn an_inode_that_is_used_again_is_another_file() {
        let world = World::new();
        let (path, mut stat) = world.file("a.lock");
        stat.created = Some((1, 1));
        let in_flight = world.open();
        let guard = in_flight.note(&path, &stat).unwrap();
        kill(in_flight, vec![guard]);
        assert_eq!(world.recover().passed_over, std::slice::from_ref(&path));
        assert!(path.exists());
    }

    #[test]
    fn what_was_struck_out_is_left_alone() {
        let world = World::new();
        let (done, done_stat) = world.file("done.lock");
        let (open, open_stat) = world.file("open.lock");
        let in_flight = world.open();
        let first = in_flight.note(&done, &done_stat).unwrap();
        let second = in_flight.note(&open, &open_stat).unwrap();
        drop(first);
        kill(in_flight, vec![second]);
        assert_eq!(world.recover().removed, [open]);
        assert!(done.exists());
    }

    #[test]
    fn an_idle_record_names_nothing() {
        let world = World::new();
        let (path, stat) = world.file("a.lock");
        let in_flight = world.open();
        drop(in_flight.note(&path, &stat).unwrap());
        kill(in_flight, Vec::new());
        assert_eq!(world.recover(), Recovered::default());
        assert!(path.exists());
        assert_eq!(world.records(), 0);
    }

    #[test]
    fn names_noted_together_go_and_are_struck_out_together() {
        let world = World::new();
        let files = ["a.lock", "b.lock", "c.lock"].map(|name| world.file(name));
        let all = || files.iter().map(|(path, stat)| (path.as_path(), stat));
        let in_flight = world.open();
        drop(in_flight.note_all(all()).unwrap());
        kill(in_flight, Vec::new());
        assert_eq!(world.recover(), Recovered::default());
        let in_flight = world.open();
        let guard = in_flight.note_all(all()).unwrap();
        kill(in_flight, vec![guard]);
        assert_eq!(world.recover().removed, files.map(|(path, _)| path));
    }

    #[test]
    fn a_note_that_is_left_outlives_its_guard() {
        let world = World::new();
        let (path, stat) = world.file("a.lock");
        let in_flight = world.open();
        let guard = in_flight.note(&path, &stat).unwrap();
        guard.leave();
        drop(guard);
        drop(in_flight);
        assert_eq!(world.recover().removed, [path]);
    }

    #[test]
    fn a_file_that_was_written_to_since_is_another() {
        let world = World::new();
        let (path, mut stat) = world.file("a.lock");
        stat.modified.1 ^= 1;
        // As on a file system that does not know when a file was made.
        stat.created = world.disk.stat(&path).unwrap().unwrap().created;
        let in_flight = world.open();
        let guard = in_flight.note(&path, &stat).unwrap();
        kill(in_flight, vec![guard]);
        assert_eq!(world.recover().passed_over, [path]);
    }

    /// A record of a dead process that names `a.lock` and `d/b.lock`, which are there.
    fn two_left(world: &World) -> [PathBuf; 2] {
        fs::create_dir(world.root.path().join("d")).unwrap();
        let files = ["a.lock", "d/b.lock"].map(|name| world.file(name));
        let in_flight = world.open();
        let all = files.iter().map(|(path, stat)| (path.as_path(), stat));
        let guard = in_flight.note_all(all).unwrap();
        kill(in_flight, vec![guard]);
        files.map(|(path, _)| path)
    }

    #[test]
    fn what_was_removed_is_gone_for_good_before_the_record_is() {
        let world = World::new();
        let paths = two_left(&world);
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        InFlight::recover(&disk, &world.state_dir()).unwrap();
        let operations = recorder.operations();
        let at = |wanted: &dyn Fn(&Operation) -> bool| operations.iter().position(wanted).unwrap();
        let record = at(&|one| match one {
            Operation::Unlink { path } => path.starts_with(world.state_dir()),
            _ => false,
        });
        for name in &paths {
            let removed = at(&|one| *one == Operation::Unlink { path: name.clone() });
            let path = name.parent().unwrap().to_owned();
            let flushed = at(&|one| *one == Operation::FlushDirectory { path: path.clone() });
            assert!(removed < flushed && flushed < record, "{operations:?}");
        }
    }

    #[test]
    fn whatever_fails_the_record_stays_and_the_next_recovery_ends_it() {
        for at in 0..4 {
            let world = World::new();
            let paths = two_left(&world);
            let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
            recorder.fail_at(at, io::ErrorKind::Other, false);
            let recovered = InFlight::recover(&disk, &world.state_dir()).unwrap();
            assert_eq!(recovered.failed.len(), 1, "{at}");
            // The other name goes all the same.
            let left = paths.iter().filter(|path| path.exists()).count();
            assert_eq!(left, usize::from(at < 2), "{at}");
            assert_eq!(world.records(), 1, "{at}");
            assert!(world.recover().failed.is_empty());
            assert!(paths.iter().all(|path| !path.exists()));
            assert_eq!(world.records(), 0);
        }
    }

    #[test]
    fn a_record_that_is_never_idle_stays_bounded() {
        let world = World::new();
        let (path, stat) = world.file("a.lock");
        let in_flight = world.open();
        let first = in_flight.note(&path, &stat).unwrap();
        let (other, other_stat) = world.file("b.lock");
        for _ in 0..30_000 {
            drop(in_flight.note(&other, &other_stat).unwrap());
        }
        let length = in_flight.0.as_ref().unwrap().state().file.length();
        assert!(length < RECORD_BYTES + 1000, "{length}");
        let many = vec![(other.as_path(), &other_stat); 20_000];
        let batch = in_flight.note_all(many).unwrap();
        for _ in 0..30_000 {
            drop(in_flight.note(&other, &other_stat).unwrap());
        }
        let state = in_flight.0.as_ref().unwrap().state();
        let (length, live) = (state.file.length(), state.live_bytes);
        drop(state);
        assert!(live > RECORD_BYTES && length < 2 * live + 1000, "{length} {live}");
        drop(batch);
        kill(in_flight, vec![first]);
        assert_eq!(world.recover().removed, [path]);
        assert!(other.exists());
    }

    #[test]
    fn torn_lines_are_passed_over() {
        let world = World::new();
        let (path, stat) = world.file("a.lock");
        let whole = checked(&begin_line(7, &path, &stat));
        assert_eq!(pending(&whole).len(), 1);
        for cut in 1..whole.len() {
            assert!(pending(&whole[cut..]).is_empty());
            assert!(pending(&whole[..cut]).is_empty());
        }
        assert_eq!(pending(&[&whole[5..], &whole[..]].concat()).len(), 1);
    }

    #[test]
    fn without_a_record_nothing_is_written() {
        let world = World::new();
        let (path, stat) = world.file("a.lock");
        let guard = InFlight::none().note(&path, &stat).unwrap();
        drop(guard);
        assert!(!world.state_dir().exists());
        assert_eq!(world.recover(), Recovered::default());
    }
}
