//! A record, outside all repositories, of names that must not outlive this process.
//!
//! Ref locks and keep files of a process that was killed would stop every later push to those
//! refs, and nobody but an operator could tell them from those of a running git. So each is noted
//! before it gets its name, in one append-only file per process that is locked while the process
//! lives. The next start reads the records of the dead and removes what they name, but only where
//! the very same file still has the name.
//!
//! Guards against a killed process, not against power loss: notes are not flushed, since a flush
//! for each lock would cost more than the push. What a lost note leaves behind is reported by the
//! sweep.

use super::disk::{Disk, EntryKind, Stat};
use super::durable::DurableFile;
use rustix::fs::{FlockOperation, flock};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
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
    /// The lines of what is in flight, to be written again when the file has grown too long.
    live: HashMap<u64, Vec<u8>>,
}

/// A note; dropping it says that the name is gone or has become something lasting.
#[derive(Debug)]
#[must_use = "a note that is dropped at once guards nothing"]
pub struct InFlightGuard(Option<(Arc<Record>, u64)>);

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
                let state = State { file, last: 0, live: HashMap::new() };
                return Ok(Self(Some(Arc::new(Record(Mutex::new(state))))));
            }
        }
        Err(io::Error::other(format!("records in '{}' keep vanishing", state_dir.display())))
    }

    /// Notes that `path` is about to become a name of the file that `identity` was asked of.
    pub fn note(&self, path: &Path, identity: &Stat) -> io::Result<InFlightGuard> {
        let Some(record) = &self.0 else { return Ok(InFlightGuard(None)) };
        let mut state = record.state();
        let number = state.last.wrapping_add(1);
        let line = checked(&begin_line(number, path, identity));
        state.file.write_all(&line)?;
        state.last = number;
        state.live.insert(number, line);
        Ok(InFlightGuard(Some((Arc::clone(record), number))))
    }

    /// Removes what dead processes left under the names they noted, and their records.
    ///
    /// A name is removed only if device, inode and, where known, time of creation are those that
    /// were noted. Between that look and the removal another process could in theory take the
    /// name; it would have to do so within microseconds, on a name that has been stuck until now.
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

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let Some((record, number)) = self.0.take() else { return };
        // A note that cannot be struck out is harmless: its name is gone or another file's.
        let _ = record.state().strike_out(number);
    }
}

impl State {
    fn strike_out(&mut self, number: u64) -> io::Result<()> {
        self.live.remove(&number);
        if self.live.is_empty() {
            return self.file.truncate(0);
        }
        if self.file.length() < RECORD_BYTES {
            return self.file.write_all(&checked(format!("- {number}").as_bytes()));
        }
        // What is in flight goes to the front first: a reader that comes before the cut sees some
        // lines twice and one torn, which its checksum gives away.
        let lines: Vec<u8> = self.live.values().flatten().copied().collect();
        self.file.write_all_at(&lines, 0)?;
        self.file.truncate(u64::try_from(lines.len()).unwrap_or(u64::MAX))
    }
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
    if !is_at(disk, path, &Stat::from(file.metadata()?))? {
        return Ok(());
    }
    for note in pending(&disk.read(path, RECORD_BYTES_MAX)?) {
        let found = disk.stat_link(&note.path)?;
        if found.is_some_and(|stat| stat.kind == EntryKind::File && note.names(&stat)) {
            disk.unlink(&note.path)?;
            recovered.removed.push(note.path);
        } else {
            recovered.passed_over.push(note.path);
        }
    }
    disk.unlink(path).map(drop)
}

struct Note {
    device: u64,
    inode: u64,
    created: Option<(i64, i64)>,
    path: PathBuf,
}

impl Note {
    fn names(&self, stat: &Stat) -> bool {
        (self.device, self.inode, self.created) == (stat.device, stat.inode, stat.created)
    }
}

/// What a record notes and does not strike out, in order.
fn pending(record: &[u8]) -> Vec<Note> {
    let mut notes = BTreeMap::new();
    for line in record.split_inclusive(|byte| *byte == b'\n').filter_map(unchecked) {
        if let Some(number) = line.strip_prefix(b"- ").and_then(number_of) {
            notes.remove(&number);
        } else if let Some((number, note)) = parse_begin(line) {
            notes.insert(number, note);
        }
    }
    notes.into_values().collect()
}

/// `+ <number> <device> <inode> <seconds> <nanoseconds> <path>`; the times are `-` if unknown.
fn begin_line(number: u64, path: &Path, identity: &Stat) -> Vec<u8> {
    let Stat { device, inode, .. } = identity;
    let created = match identity.created {
        Some((seconds, nanoseconds)) => format!("{seconds} {nanoseconds}"),
        None => "- -".to_owned(),
    };
    let mut line = format!("+ {number} {device} {inode} {created} ").into_bytes();
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
    let mut fields = line.strip_prefix(b"+ ")?.splitn(6, |byte| *byte == b' ');
    let number = number_of(fields.next()?)?;
    let device = number_of(fields.next()?)?;
    let inode = number_of(fields.next()?)?;
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
    Some((number, Note { device, inode, created, path: OsString::from_vec(path).into() }))
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
    use std::fs;

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
            guard.0.take();
        }
        drop(in_flight);
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
    fn an_idle_record_is_empty() {
        let world = World::new();
        let (path, stat) = world.file("a.lock");
        let in_flight = world.open();
        let length = || in_flight.0.as_ref().unwrap().state().file.length();
        let guard = in_flight.note(&path, &stat).unwrap();
        assert!(length() > 0);
        drop(guard);
        assert_eq!(length(), 0);
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
