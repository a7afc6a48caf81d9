//! The handle through which everything below a repository is read and changed.
//!
//! Counts what it does, so that tests can hold a push to an exact budget, and carries the flush
//! policy and, in tests, the recorder. Changes are in [`durable`](super::durable); this file
//! reads.

use super::flush_policy::FlushPolicy;
use super::leftovers::Leftovers;
use super::recorder::Recorder;
use super::shared_flush::SharedFlushes;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;

/// A cheap handle on the disk; clones share their counters.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    pub(super) shared: Arc<Shared>,
    pub(super) policy: FlushPolicy,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) counters: Counters,
    pub(super) recorder: Option<Arc<Recorder>>,
    pub(super) leftovers: Leftovers,
    pub(super) directory_flushes: SharedFlushes,
    /// Those who flush several things at this moment.
    pub(super) flushing: AtomicUsize,
    unhealthy: AtomicBool,
}

/// What was done through a [`Disk`] and its clones since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files flushed.
    pub file_flushes: u64,
    /// Directories flushed.
    pub directory_flushes: u64,
    /// Files and directories created.
    pub creates: u64,
    /// Renames.
    pub renames: u64,
    /// Links.
    pub links: u64,
    /// Files and directories removed.
    pub removes: u64,
    /// Directories listed.
    pub listings: u64,
    /// Files opened for reading, or read.
    pub opens: u64,
    /// Paths looked at without opening them.
    pub stats: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) file_flushes: AtomicU64,
    pub(super) directory_flushes: AtomicU64,
    pub(super) creates: AtomicU64,
    pub(super) renames: AtomicU64,
    pub(super) links: AtomicU64,
    pub(super) removes: AtomicU64,
    pub(super) listings: AtomicU64,
    opens: AtomicU64,
    pub(super) stats: AtomicU64,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else.
    Other,
}

/// What `stat` says of a path, as far as packhouse asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: EntryKind,
    /// The device it is on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its modification time: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// The time of the last change of anything about it, which the kernel alone sets, in the same
    /// form.
    pub changed: (i64, i64),
    /// When it was created, in the same form, where the file system knows: an inode that is used
    /// again has another.
    pub created: Option<(i64, i64)>,
    /// How many names it has.
    pub links: u64,
    /// Its permission bits.
    pub mode: u32,
    /// Its owner.
    pub owner: u32,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Its name.
    pub name: OsString,
    /// What it is; a symbolic link is not followed.
    pub kind: EntryKind,
    /// Its inode, as the listing says; not every file system says the same when it is asked for
    /// the file.
    pub inode: u64,
}

/// The entries of a directory that is being read.
#[derive(Debug)]
pub struct DirectoryEntries(fs::ReadDir);

impl Disk {
    /// A handle that flushes as `policy` says.
    pub fn new(policy: FlushPolicy) -> Self {
        Self { shared: Arc::default(), policy }
    }

    /// A handle that writes every change down, for tests.
    pub fn recording(policy: FlushPolicy) -> (Self, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        let shared = Shared { recorder: Some(Arc::clone(&recorder)), ..Shared::default() };
        (Self { shared: Arc::new(shared), policy }, recorder)
    }

    /// The same disk under another flush policy, as a repository's `core.fsync` asks.
    #[must_use]
    pub fn with_policy(&self, policy: FlushPolicy) -> Self {
        Self { shared: Arc::clone(&self.shared), policy }
    }

    /// The flush policy.
    pub fn policy(&self) -> FlushPolicy {
        self.policy
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        let counters = &self.shared.counters;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            file_flushes: of(&counters.file_flushes),
            directory_flushes: of(&counters.directory_flushes),
            creates: of(&counters.creates),
            renames: of(&counters.renames),
            links: of(&counters.links),
            removes: of(&counters.removes),
            listings: of(&counters.listings),
            opens: of(&counters.opens),
            stats: of(&counters.stats),
        }
    }

    /// False once a flush has failed: what the kernel still holds in memory may differ from the
    /// disk from then on, and no later flush can tell.
    pub fn is_healthy(&self) -> bool {
        !self.shared.unhealthy.load(Ordering::Acquire)
    }

    pub(super) fn note_failed_flush(&self) {
        self.shared.unhealthy.store(true, Ordering::Release);
    }

    /// Opens a file for reading.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        bump(&self.shared.counters.opens);
        File::open(path)
    }

    /// Reads a whole file, which must not have more than `bytes_max`.
    pub fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut file = self.open(path)?;
        let mut bytes = vec![0; SMALL_FILE_BYTES];
        let first = loop {
            match file.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                first => break first?,
            }
        };
        bytes.truncate(first);
        // A file gives fewer bytes than it is asked for at its end alone.
        if first == SMALL_FILE_BYTES {
            let rest = bytes_max.saturating_sub(first as u64).saturating_add(1);
            file.take(rest).read_to_end(&mut bytes)?;
        }
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("'{}' has more than {bytes_max} bytes", path.display()),
            ));
        }
        Ok(bytes)
    }

    /// Reads a whole file as [`read`](Self::read) does; `None` if there is none.
    pub fn read_if_there(&self, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        absent_is_none(self.read(path, bytes_max))
    }

    /// Lists a directory, in no order, without `.` and `..`.
    pub fn list(&self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.entries(directory)?.collect()
    }

    /// Lists a directory as [`list`](Self::list) does, entry by entry: for one that may be larger
    /// than what should be held in memory. What is added or removed meanwhile may be seen or not.
    pub fn entries(&self, directory: &Path) -> io::Result<DirectoryEntries> {
        bump(&self.shared.counters.listings);
        Ok(DirectoryEntries(fs::read_dir(directory)?))
    }

    /// The absolute path of something that exists, free of symbolic links.
    pub fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        bump(&self.shared.counters.stats);
        fs::canonicalize(path)
    }

    /// Looks at a path, following symbolic links; `None` if there is nothing.
    pub fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        bump(&self.shared.counters.stats);
        absent_is_none(fs::metadata(path).map(Stat::from))
    }

    /// Looks at a path without following a symbolic link at its end; `None` if there is nothing.
    pub fn stat_link(&self, path: &Path) -> io::Result<Option<Stat>> {
        bump(&self.shared.counters.stats);
        absent_is_none(fs::symlink_metadata(path).map(Stat::from))
    }

    /// Reads where a symbolic link leads; `None` if there is nothing of that name or it is no
    /// link.
    pub fn read_link(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        bump(&self.shared.counters.stats);
        match fs::read_link(path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            result => absent_is_none(result),
        }
    }
}

impl Iterator for DirectoryEntries {
    type Item = io::Result<DirectoryEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.0.next()?;
        Some(entry.and_then(|entry| {
            let (name, inode) = (entry.file_name(), entry.ino());
            Ok(DirectoryEntry { name, kind: entry.file_type()?.into(), inode })
        }))
    }
}

/// Turns "no such file", and "one of its parents is a file", into `None`.
pub(crate) fn absent_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether an error says nothing of the file, only that this process has no more room to look.
pub fn lacks_resources(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR].map(Some).contains(&errno)
}

/// Makes an answer of an error, unless the error says nothing of what was asked: then nobody may
/// take a thing for absent, or for no repository, because of it.
pub(super) fn unless_unknown<T>(result: io::Result<T>, otherwise: T) -> io::Result<T> {
    match result {
        Err(error)
            if lacks_resources(&error)
                || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) =>
        {
            Err(error)
        }
        result => Ok(result.unwrap_or(otherwise)),
    }
}

pub(super) fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What HEAD, a ref or a configuration file seldom reaches: read at once.
const SMALL_FILE_BYTES: usize = 512;

impl From<fs::Metadata> for Stat {
    fn from(metadata: fs::Metadata) -> Self {
        Self {
            kind: metadata.file_type().into(),
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            created: metadata.created().ok().and_then(since_1970),
            links: metadata.nlink(),
            mode: metadata.mode() & 0o7777,
            owner: metadata.uid(),
        }
    }
}

fn since_1970(time: SystemTime) -> Option<(i64, i64)> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some((i64::try_from(since.as_secs()).ok()?, i64::from(since.subsec_nanos())))
}

impl From<fs::FileType> for EntryKind {
    fn from(kind: fs::FileType) -> Self {
        if kind.is_file() {
            Self::File
        } else if kind.is_dir() {
            Self::Directory
        } else if kind.is_symlink() {
            Self::Symlink
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_over_the_bound_is_refused_and_one_at_it_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        fs::write(&path, b"12345").unwrap();
        let disk = Disk::default();
        assert_eq!(disk.read(&path, 5).unwrap(), b"12345");
        assert_eq!(disk.read(&path, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_is_absent_is_none_even_below_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        fs::write(&path, b"").unwrap();
        let disk = Disk::default();
        assert_eq!(disk.stat(&directory.path().join("g")).unwrap(), None);
        assert_eq!(disk.stat(&path.join("below")).unwrap(), None);
        assert_eq!(disk.read_if_there(&path.join("below"), 9).unwrap(), None);
    }

    #[test]
    fn a_path_is_resolved_through_links() {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        fs::write(root.join("f"), b"").unwrap();
        std::os::unix::fs::symlink("f", root.join("l")).unwrap();
        let disk = Disk::default();
        assert_eq!(disk.canonicalize(&root.join("l")).unwrap(), root.join("f"));
    }

    #[test]
    fn a_link_is_read_and_what_is_none_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let [link, file, none] = ["link", "file", "none"].map(|name| directory.path().join(name));
        std::os::unix::fs::symlink("refs/heads/main", &link).unwrap();
        fs::write(&file, b"").unwrap();
        assert_eq!(disk.read_link(&link).unwrap().unwrap(), Path::new("refs/heads/main"));
        assert_eq!(disk.read_link(&file).unwrap(), None);
        assert_eq!(disk.read_link(&none).unwrap(), None);
    }

    #[test]
    fn entries_tell_what_each_is_and_follow_no_link() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("f"), b"").unwrap();
        fs::create_dir(directory.path().join("d")).unwrap();
        std::os::unix::fs::symlink("d", directory.path().join("l")).unwrap();
        let disk = Disk::default();
        let entries = disk.entries(directory.path()).unwrap();
        let mut kinds: Vec<_> =
            entries.map(|entry| entry.map(|entry| (entry.name, entry.kind)).unwrap()).collect();
        kinds.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [
            ("d".into(), EntryKind::Directory),
            ("f".into(), EntryKind::File),
            ("l".into(), EntryKind::Symlink),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(disk.counts().listings, 1);
        assert!(disk.entries(&directory.path().join("none")).is_err());
    }

    #[test]
    fn clones_share_their_counters() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let clone = disk.clone();
        clone.list(directory.path()).unwrap();
        clone.stat(directory.path()).unwrap();
        let counts = disk.counts();
        assert_eq!((counts.listings, counts.stats, counts.opens), (1, 1, 0));
    }
}
