//! A directory held by its descriptor, and what lies in it reached from there.
//!
//! A path can come to name another thing between two looks: a hook may have put a symbolic link
//! in the place of its quarantine, and whoever lists or empties "the quarantine" by its path then
//! lists or empties what the link leads to. Here no symbolic link is followed, neither at the
//! start nor below it, and every entry is removed from the very directory that was listed.

use super::disk::{DirectoryEntry, Disk, EntryKind, bump};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Which file or directory a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// A directory that is open, and the path it was found at.
#[derive(Debug)]
pub(super) struct HeldDirectory {
    directory: File,
    path: PathBuf,
    identity: FileIdentity,
}

impl HeldDirectory {
    /// Opens a directory. `None` if nothing has the name; an error if it is a symbolic link or
    /// anything else.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        Self::opened(rustix::fs::open(path, OPEN_FLAGS, Mode::empty()), path.to_owned())
    }

    /// Opens a directory that lies in this one, as [`open`](Self::open) does.
    pub(super) fn below(&self, name: &OsStr) -> io::Result<Option<Self>> {
        let opened = rustix::fs::openat(&self.directory, name, OPEN_FLAGS, Mode::empty());
        Self::opened(opened, self.path.join(name))
    }

    fn opened(opened: rustix::io::Result<OwnedFd>, path: PathBuf) -> io::Result<Option<Self>> {
        use rustix::io::Errno;
        let directory = match opened {
            Ok(directory) => File::from(directory),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let text = format!("'{}' is not the directory it was", path.display());
                return Err(io::Error::new(io::ErrorKind::NotADirectory, text));
            }
            Err(error) => return Err(error.into()),
        };
        let metadata = directory.metadata()?;
        let identity = FileIdentity { device: metadata.dev(), inode: metadata.ino() };
        Ok(Some(Self { directory, path, identity }))
    }

    /// The path it was found at.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Which directory it is.
    pub(super) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Lists it, in no order, without `.` and `..`.
    pub(super) fn list(&self, disk: &Disk) -> io::Result<Vec<DirectoryEntry>> {
        bump(&disk.shared.counters.listings);
        rustix::fs::seek(&self.directory, SeekFrom::Start(0))?;
        let mut buffer = Vec::with_capacity(LISTING_BYTES);
        let mut listing = RawDir::new(&self.directory, buffer.spare_capacity_mut());
        let mut entries = Vec::new();
        while let Some(entry) = listing.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsString::from_vec(name.to_vec());
            if let Some(kind) = self.kind(&name, entry.file_type())? {
                entries.push(DirectoryEntry { name, kind, inode: entry.ino() });
            }
        }
        Ok(entries)
    }

    /// Not every file system says in a listing what an entry is.
    fn kind(&self, name: &OsStr, told: rustix::fs::FileType) -> io::Result<Option<EntryKind>> {
        use rustix::fs::FileType;
        let kind = if told == FileType::Unknown {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            match rustix::fs::statat(&self.directory, name, flags) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(rustix::io::Errno::NOENT) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        } else {
            told
        };
        Ok(Some(match kind {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Symlink,
            _ => EntryKind::Other,
        }))
    }

    /// Removes what lies in it, itself not.
    fn clear(&self, disk: &Disk, levels: usize) -> io::Result<()> {
        let Some(levels) = levels.checked_sub(1) else {
            let text = format!("'{}' has more than {LEVELS_MAX} levels", self.path.display());
            return Err(io::Error::other(text));
        };
        for DirectoryEntry { name, kind, .. } in self.list(disk)? {
            let is_directory = kind == EntryKind::Directory;
            if is_directory {
                let Some(below) = self.below(&name)? else { continue };
                below.clear(disk, levels)?;
            }
            let path = self.path.join(&name);
            disk.remove_entry(self.directory.as_fd(), &name, is_directory, path)?;
        }
        Ok(())
    }
}

impl Disk {
    /// Removes a directory with all that is in it, following no symbolic link, not even one at
    /// `path`: that is an error, and stays with what it leads to. Nothing there is as good.
    pub fn remove_tree(&self, path: &Path) -> io::Result<()> {
        self.remove_tree_if(path, |_| true)
    }

    /// The same, for one directory only: any other that has the path by now stays.
    pub(super) fn remove_tree_of(&self, path: &Path, wanted: FileIdentity) -> io::Result<()> {
        self.remove_tree_if(path, |found| found == wanted)
    }

    fn remove_tree_if(
        &self,
        path: &Path,
        wanted: impl FnOnce(FileIdentity) -> bool,
    ) -> io::Result<()> {
        let Some(directory) = HeldDirectory::open(path)? else { return Ok(()) };
        if !wanted(directory.identity) {
            let text = format!("'{}' is another directory by now", path.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, text));
        }
        directory.clear(self, LEVELS_MAX)?;
        self.remove_directory(path).map(drop)
    }
}

const OPEN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const LISTING_BYTES: usize = 16 << 10;

/// LIMIT: levels of directories that are removed, each with a descriptor of its own.
const LEVELS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_tree_goes_and_what_links_lead_to_stays() {
        let root = tempfile::tempdir().unwrap();
        let [tree, kept] = ["tree", "kept"].map(|name| root.path().join(name));
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("f"), "").unwrap();
        fs::write(tree.join("a/f"), "").unwrap();
        symlink(&kept, tree.join("a/link")).unwrap();
        symlink("nowhere", tree.join("dangling")).unwrap();
        let disk = Disk::default();
        disk.remove_tree(&tree).unwrap();
        assert!(!tree.exists() && kept.join("f").exists());
        disk.remove_tree(&tree).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_the_directory_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let [link, kept] = ["link", "kept"].map(|name| root.path().join(name));
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("f"), "").unwrap();
        symlink(&kept, &link).unwrap();
        let error = Disk::default().remove_tree(&link).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        assert!(kept.join("f").exists() && link.exists());
    }

    #[test]
    fn another_directory_under_the_path_stays() {
        let root = tempfile::tempdir().unwrap();
        let [path, away] = ["path", "away"].map(|name| root.path().join(name));
        fs::create_dir(&path).unwrap();
        let identity = HeldDirectory::open(&path).unwrap().unwrap().identity();
        fs::rename(&path, &away).unwrap();
        fs::create_dir(&path).unwrap();
        let disk = Disk::default();
        disk.remove_tree_of(&path, identity).unwrap_err();
        assert!(path.exists());
        disk.remove_tree_of(&away, identity).unwrap();
        assert!(!away.exists());
    }

    #[test]
    fn a_listing_tells_what_each_entry_is_and_can_be_repeated() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("d")).unwrap();
        symlink("d", root.path().join("l")).unwrap();
        for number in 0..1000 {
            fs::write(root.path().join(format!("{number:0>40}")), "").unwrap();
        }
        let directory = HeldDirectory::open(root.path()).unwrap().unwrap();
        let disk = Disk::default();
        for _ in 0..2 {
            let entries = directory.list(&disk).unwrap();
            let of = |wanted| entries.iter().filter(|entry| entry.kind == wanted).count();
            assert_eq!(entries.len(), 1002);
            assert_eq!((of(EntryKind::Directory), of(EntryKind::Symlink)), (1, 1));
        }
        assert!(directory.below(OsStr::new("none")).unwrap().is_none());
        directory.below(OsStr::new("l")).unwrap_err();
    }

    #[test]
    fn a_tree_that_is_too_deep_is_an_error_and_no_overflow() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("d/".repeat(LEVELS_MAX + 1))).unwrap();
        let error = Disk::default().remove_tree(&root.path().join("d")).unwrap_err();
        assert!(error.to_string().contains("64 levels"), "{error}");
    }
}
