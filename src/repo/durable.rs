//! Every change packhouse makes on disk, and the order in which changes become durable.
//!
//! Files are written by [`DurableFile`]. [`ChangeSet`](super::ChangeSet) commits many changes in the
//! one safe order.
//!
//! A failed flush is never retried: the kernel may have dropped the pages and would report
//! success (see fsync(2), and the PostgreSQL project's "fsyncgate"). It fails the set, and
//! [`Disk::is_healthy`] turns false.
//!
//! This file does not decide what needs flushing; [`FlushPolicy`](super::FlushPolicy) does.

use super::disk::{Disk, absent_is_none, bump};
use super::durable_file::DurableFile;
use super::flush_policy::Component;
use super::recorder::{FileId, Operation};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Changes on disk, one by one. None of them is durable until a flush says so.
impl Disk {
    /// Creates a file that must not exist, with these permission bits less the umask.
    pub fn create_file(&self, path: &Path, mode: u32) -> io::Result<DurableFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(mode);
        self.create(path, &options, false)
    }

    fn create(&self, path: &Path, options: &OpenOptions, appends: bool) -> io::Result<DurableFile> {
        self.admit(false)?;
        let file = options.open(path)?;
        bump(&self.shared.counters.creates);
        let id = self.name_file();
        self.record(|| Operation::CreateFile { file: id, path: path.to_owned() });
        Ok(DurableFile { disk: self.clone(), file, id, path: path.to_owned(), length: 0, appends })
    }

    /// Creates a file whose name ends in random letters, such as `tmp_obj_Ab3x9Z`, in a
    /// directory.
    pub fn create_temporary(
        &self,
        directory: &Path,
        prefix: &str,
        mode: u32,
    ) -> io::Result<DurableFile> {
        with_random_name(directory, prefix, |path| self.create_file(path, mode))
    }

    /// Creates a directory whose name ends in random letters.
    pub fn create_temporary_directory(
        &self,
        parent: &Path,
        prefix: &str,
        mode: u32,
    ) -> io::Result<PathBuf> {
        with_random_name(parent, prefix, |path| {
            self.create_directory(path, mode)?;
            Ok(path.to_owned())
        })
    }

    /// Opens a file for appending, creating it if there is none. What others append at the same
    /// time is not written over.
    pub fn append_file(&self, path: &Path, mode: u32) -> io::Result<DurableFile> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).mode(mode);
        let file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match self.create(path, options.clone().create_new(true), true) {
                    // Somebody else created it in between.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        options.open(path)?
                    }
                    result => return result,
                }
            }
            result => result?,
        };
        self.admit(false)?;
        let length = file.metadata()?.len();
        let id = self.name_file();
        self.record(|| Operation::OpenFile { file: id, path: path.to_owned() });
        Ok(DurableFile {
            disk: self.clone(),
            file,
            id,
            path: path.to_owned(),
            length,
            appends: true,
        })
    }

    /// Opens a file that somebody else wrote, to flush it: writes to it fail. A read-only
    /// descriptor flushes as well, and an object that may not be written is not opened otherwise.
    pub fn open_to_flush(&self, path: &Path) -> io::Result<DurableFile> {
        self.admit(false)?;
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let id = self.name_file();
        self.record(|| Operation::OpenFile { file: id, path: path.to_owned() });
        Ok(DurableFile {
            disk: self.clone(),
            file,
            id,
            path: path.to_owned(),
            length,
            appends: false,
        })
    }

    /// Creates a directory that must not exist, with these permission bits less the umask.
    pub fn create_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.admit(false)?;
        fs::DirBuilder::new().mode(mode).create(path)?;
        bump(&self.shared.counters.creates);
        self.record(|| Operation::CreateDirectory { path: path.to_owned() });
        Ok(())
    }

    /// Creates a directory and the parents that are missing below `root`, and tells which were
    /// created, outermost first: their parents have entries to be flushed.
    pub fn create_directories(
        &self,
        root: &Path,
        path: &Path,
        mode: u32,
    ) -> io::Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        let mut at = path;
        while at != root && at.starts_with(root) && self.stat(at)?.is_none() {
            missing.push(at.to_owned());
            match at.parent() {
                Some(parent) => at = parent,
                None => break,
            }
        }
        let mut created = Vec::new();
        for directory in missing.into_iter().rev() {
            match self.create_directory(&directory, mode) {
                Ok(()) => created.push(directory),
                // Somebody else made it in between: as good.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(created)
    }

    /// Gives a file a second name, which must be free.
    pub fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.admit(false)?;
        fs::hard_link(from, to)?;
        bump(&self.shared.counters.links);
        self.record(|| Operation::Link { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    /// Gives a file a second name that ends in random letters, in a directory.
    pub fn link_temporary(
        &self,
        from: &Path,
        directory: &Path,
        prefix: &str,
    ) -> io::Result<PathBuf> {
        with_random_name(directory, prefix, |path| {
            self.link(from, path)?;
            Ok(path.to_owned())
        })
    }

    /// Renames, taking the place of a file that has the new name.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.admit(false)?;
        fs::rename(from, to)?;
        bump(&self.shared.counters.renames);
        self.record(|| Operation::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    /// Renames to a name that must be free, with an error of the kind `AlreadyExists` if it is
    /// not.
    ///
    /// Where the file system cannot do both in one step (see `RENAME_NOREPLACE` in rename(2)),
    /// the name is looked at first. A directory is safe all the same: rename(2) puts one in the
    /// place of nothing but an empty directory. For files, use [`link`](Self::link).
    pub fn rename_to_free(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        self.admit(false)?;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                if self.stat_link(to)?.is_some() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                match fs::rename(from, to) {
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                        return Err(io::ErrorKind::AlreadyExists.into());
                    }
                    result => result?,
                }
            }
            Err(error) => return Err(error.into()),
        }
        bump(&self.shared.counters.renames);
        self.record(|| Operation::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    /// Renames to a free name in `directory` that ends in random letters, and tells it.
    pub fn rename_to_temporary(
        &self,
        from: &Path,
        directory: &Path,
        prefix: &str,
    ) -> io::Result<PathBuf> {
        with_random_name(directory, prefix, |path| {
            self.rename_to_free(from, path)?;
            Ok(path.to_owned())
        })
    }

    /// Removes a name; false if there was none.
    pub fn unlink(&self, path: &Path) -> io::Result<bool> {
        self.admit(true)?;
        let was_there = absent_is_none(fs::remove_file(path))?.is_some();
        if was_there {
            bump(&self.shared.counters.removes);
            self.record(|| Operation::Unlink { path: path.to_owned() });
        }
        Ok(was_there)
    }

    /// Removes an empty directory; false if there was none.
    pub fn remove_directory(&self, path: &Path) -> io::Result<bool> {
        self.admit(true)?;
        let was_there = absent_is_none(fs::remove_dir(path))?.is_some();
        if was_there {
            bump(&self.shared.counters.removes);
            self.record(|| Operation::RemoveDirectory { path: path.to_owned() });
        }
        Ok(was_there)
    }

    /// Removes a name from a directory that is open; `path` is for the record.
    pub(super) fn remove_entry(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        is_directory: bool,
        path: PathBuf,
    ) -> io::Result<()> {
        use rustix::fs::{AtFlags, unlinkat};
        self.admit(true)?;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let removed = unlinkat(directory, name, flags).map_err(io::Error::from);
        if absent_is_none(removed)?.is_some() {
            bump(&self.shared.counters.removes);
            self.record(|| {
                if is_directory {
                    Operation::RemoveDirectory { path }
                } else {
                    Operation::Unlink { path }
                }
            });
        }
        Ok(())
    }

    /// Gives a file or directory these permission bits, whatever the umask.
    pub fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.admit(false)?;
        fs::set_permissions(path, Permissions::from_mode(mode))
    }

    /// Sets a file's times to now, so that no prune takes it for old; false if there is none.
    pub fn freshen(&self, path: &Path) -> io::Result<bool> {
        self.admit(false)?;
        let now = fs::FileTimes::new().set_modified(std::time::SystemTime::now());
        // A read-only descriptor may set times: the owner needs no write permission for that.
        let there = absent_is_none(File::open(path).and_then(|file| file.set_times(now)))?;
        if there.is_some() {
            self.record(|| Operation::Freshen { path: path.to_owned() });
        }
        Ok(there.is_some())
    }

    /// Makes the entries of a directory durable, if those of files of this kind are at all. Those
    /// who ask at the same time share a flush.
    pub fn flush_directory(&self, path: &Path, component: Component) -> io::Result<()> {
        if !self.policy.flushes_directories_of(component) {
            return Ok(());
        }
        self.shared.directory_flushes.flush(path, || {
            bump(&self.shared.counters.directory_flushes);
            let directory = File::open(path)?;
            let flushed = self.admit(false).and_then(|()| directory.sync_all());
            flushed.inspect_err(|_| self.note_failed_flush())?;
            self.record(|| Operation::FlushDirectory { path: path.to_owned() });
            Ok(())
        })
    }

    pub(super) fn admit(&self, removes: bool) -> io::Result<()> {
        self.shared.recorder.as_ref().map_or(Ok(()), |recorder| recorder.admit(removes))
    }

    pub(super) fn record(&self, operation: impl FnOnce() -> Operation) {
        if let Some(recorder) = &self.shared.recorder {
            recorder.record(operation());
        }
    }

    fn name_file(&self) -> FileId {
        self.shared.recorder.as_ref().map_or(FileId(0), |recorder| recorder.name_file())
    }
}

/// Tries names until one is free. Six letters of 62 as mkstemp(3) gives; a hundred collisions in
/// a row mean something else is wrong.
fn with_random_name<T>(
    directory: &Path,
    prefix: &str,
    mut create: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<T> {
    for _ in 0..100 {
        match create(&directory.join(format!("{prefix}{}", random_letters()?))) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result,
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("no free name for '{prefix}…' in '{}'", directory.display()),
    ))
}

fn random_letters() -> io::Result<String> {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut bytes = [0u8; 6];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::{ChangeSet, FlushPolicy, Recorder};
    use std::io::Write as _;
    use std::sync::Arc;

    fn recording() -> (Disk, Arc<Recorder>, tempfile::TempDir) {
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        (disk, recorder, tempfile::tempdir().unwrap())
    }

    #[test]
    fn bytes_are_flushed_before_names_and_names_before_directories() {
        let (disk, recorder, root) = recording();
        let from = root.path().join("a");
        let to = root.path().join("b");
        let mut file = disk.create_file(&from, 0o444).unwrap();
        file.write_all(b"hello").unwrap();
        let mut set = ChangeSet::new();
        set.add_file(file, Component::Pack);
        set.add_rename(from.clone(), to.clone(), Component::Pack);
        set.commit(&disk).unwrap();
        let id = FileId(1);
        assert_eq!(
            recorder.operations(),
            [
                Operation::CreateFile { file: id, path: from.clone() },
                Operation::Write { file: id, offset: 0, bytes: b"hello".to_vec() },
                Operation::FlushFile { file: id },
                Operation::Rename { from, to: to.clone() },
                Operation::FlushDirectory { path: root.path().to_owned() },
            ]
        );
        assert_eq!(fs::read(to).unwrap(), b"hello");
    }

    #[test]
    fn a_directory_with_many_changes_is_flushed_once() {
        let (disk, _, root) = recording();
        let mut set = ChangeSet::new();
        for component in [Component::LooseObject, Component::Pack, Component::Reference] {
            set.add_directory(root.path().to_owned(), component);
        }
        set.commit(&disk).unwrap();
        assert_eq!(disk.counts().directory_flushes, 1);
    }

    #[test]
    fn a_weaker_policy_flushes_less() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::new(FlushPolicy::GIT);
        let file = disk.create_file(&root.path().join("ref"), 0o666).unwrap();
        let mut set = ChangeSet::new();
        set.add_file(file, Component::Reference);
        set.add_directory(root.path().to_owned(), Component::Pack);
        set.commit(&disk).unwrap();
        let counts = disk.counts();
        assert_eq!((counts.file_flushes, counts.directory_flushes), (0, 0));
    }

    #[test]
    fn no_name_moves_when_a_flush_fails() {
        let (disk, recorder, root) = recording();
        let from = root.path().join("a");
        let file = disk.create_file(&from, 0o444).unwrap();
        let mut set = ChangeSet::new();
        set.add_file(file, Component::Pack);
        set.add_rename(from.clone(), root.path().join("b"), Component::Pack);
        recorder.fail_at(0, io::ErrorKind::StorageFull, false);
        assert_eq!(set.commit(&disk).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(from.exists());
        assert!(!root.path().join("b").exists());
    }

    #[test]
    fn a_name_that_is_taken_is_not_renamed_over() {
        let (disk, _, root) = recording();
        let [from, taken, free] = ["from", "taken", "free"].map(|name| root.path().join(name));
        fs::create_dir(&from).unwrap();
        fs::create_dir(&taken).unwrap();
        let error = disk.rename_to_free(&from, &taken).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(from.exists());
        disk.rename_to_free(&from, &free).unwrap();
        assert!(!from.exists());
        let temporary = disk.rename_to_temporary(&free, root.path(), ".tmp-").unwrap();
        assert!(temporary.exists());
        assert!(!free.exists());
        assert_eq!(disk.counts().renames, 2);
    }

    #[test]
    fn missing_parents_are_created_and_named_outermost_first() {
        let (disk, _, root) = recording();
        let path = root.path().join("x/y/z");
        let created = disk.create_directories(root.path(), &path, 0o777).unwrap();
        assert_eq!(created, [root.path().join("x"), root.path().join("x/y"), path.clone()]);
        assert!(disk.create_directories(root.path(), &path, 0o777).unwrap().is_empty());
    }

    #[test]
    fn a_tree_is_removed_without_following_links() {
        let (disk, _, root) = recording();
        let outside = root.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("keep"), b"").unwrap();
        let tree = root.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        std::os::unix::fs::symlink(&outside, tree.join("a/link")).unwrap();
        disk.remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.join("keep").exists());
    }

    #[test]
    fn appending_goes_on_where_the_file_ends() {
        let (disk, _, root) = recording();
        let path = root.path().join("log");
        disk.append_file(&path, 0o666).unwrap().write_all(b"one\n").unwrap();
        disk.append_file(&path, 0o666).unwrap().write_all(b"two\n").unwrap();
        assert_eq!(fs::read(path).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn a_file_of_others_is_flushed_though_it_may_not_be_written() {
        let (disk, recorder, root) = recording();
        let path = root.path().join("o");
        fs::write(&path, b"theirs").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        let mut file = disk.open_to_flush(&path).unwrap();
        assert_eq!(file.length(), 6);
        file.flush_as(Component::LooseObject).unwrap();
        assert!(file.write_all(b"ours").is_err());
        let id = FileId(1);
        let flushed = [Operation::OpenFile { file: id, path }, Operation::FlushFile { file: id }];
        assert_eq!(recorder.operations(), flushed);
    }

    #[test]
    fn a_file_cut_short_goes_on_where_it_ends() {
        let (disk, recorder, root) = recording();
        let path = root.path().join("f");
        let mut file = disk.create_file(&path, 0o600).unwrap();
        file.write_all(b"hello").unwrap();
        file.truncate(1).unwrap();
        file.write_all(b"i").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"hi");
        let cut = Operation::Truncate { file: FileId(1), length: 1 };
        assert!(recorder.operations().contains(&cut));
        assert_eq!(file.stat().unwrap(), disk.stat(&path).unwrap().unwrap());
    }

    #[test]
    fn permission_bits_are_set_past_the_umask() {
        let (disk, _, root) = recording();
        let file = disk.create_file(&root.path().join("f"), 0o600).unwrap();
        file.set_mode(0o666).unwrap();
        assert_eq!(file.mode().unwrap(), 0o666);
        disk.set_mode(root.path(), 0o2777).unwrap();
        assert_eq!(disk.stat(root.path()).unwrap().unwrap().mode, 0o2777);
    }

    #[test]
    fn those_who_append_at_once_do_not_write_over_each_other() {
        let (disk, _, root) = recording();
        for there in [false, true] {
            let path = root.path().join(if there { "old" } else { "new" });
            if there {
                fs::write(&path, b"").unwrap();
            }
            let mut first = disk.append_file(&path, 0o666).unwrap();
            let mut second = disk.append_file(&path, 0o666).unwrap();
            first.write_all(b"one\n").unwrap();
            second.write_all(b"two\n").unwrap();
            first.write_all(b"three\n").unwrap();
            assert_eq!(fs::read(path).unwrap(), b"one\ntwo\nthree\n");
        }
    }

    #[test]
    fn a_second_name_with_random_letters_is_the_same_file() {
        let (disk, recorder, root) = recording();
        let from = root.path().join("a");
        fs::write(&from, b"x").unwrap();
        let to = disk.link_temporary(&from, root.path(), "tmp_").unwrap();
        assert_eq!(to.parent(), Some(root.path()));
        assert_eq!(disk.stat(&to).unwrap(), disk.stat(&from).unwrap());
        assert_eq!(recorder.operations(), [Operation::Link { from, to }]);
    }

    #[test]
    fn freshening_moves_the_time_and_tells_whether_the_file_was_there() {
        let (disk, _, root) = recording();
        let path = root.path().join("o");
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
        let file = File::create(&path).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(old)).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o444)).unwrap();
        assert!(disk.freshen(&path).unwrap());
        assert!(fs::metadata(&path).unwrap().modified().unwrap() > old);
        assert!(!disk.freshen(&root.path().join("none")).unwrap());
    }
}
