//! The names in a directory, all in one piece of memory: a listing of ten thousand costs what the
//! kernel takes for it, and hardly an allocation.

use super::disk::{Disk, bump};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a directory names, in no order, without `.` and `..`.
#[derive(Debug, Default)]
pub struct NameList {
    /// One after the other.
    names: Vec<u8>,
    /// Where each ends, and its inode as the listing says it.
    ends: Vec<(usize, u64)>,
}

/// Bytes of entries that are asked for at once.
const BUFFER_BYTES: usize = 64 << 10;

impl NameList {
    /// The names and their inodes. Not every file system says the same inode when it is asked for
    /// the file.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, u64)> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, inode)| {
            let name = self.names.get(start..end).unwrap_or_default();
            start = end;
            (OsStr::from_bytes(name), inode)
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl Disk {
    /// Lists the names in a directory.
    pub fn list_names(&self, directory: &Path) -> io::Result<NameList> {
        bump(&self.shared.counters.listings);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory, flags, Mode::empty())?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        let mut list = NameList::default();
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                list.names.extend_from_slice(name);
                list.ends.push((list.names.len(), entry.ino()));
            }
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn names_are_those_of_the_directory_with_their_inodes() {
        let directory = tempfile::tempdir().unwrap();
        let mut expected = Vec::new();
        for number in 0..1200 {
            let path = directory.path().join(format!("{number}-{}", "n".repeat(number % 200)));
            std::fs::write(&path, b"").unwrap();
            let inode = std::fs::metadata(&path).unwrap().ino();
            expected.push((path.file_name().unwrap().to_owned(), inode));
        }
        let disk = Disk::default();
        let list = disk.list_names(directory.path()).unwrap();
        let mut found: Vec<_> = list.iter().map(|(name, inode)| (name.to_owned(), inode)).collect();
        assert_eq!(list.len(), found.len());
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(disk.counts().listings, 1);
    }

    #[test]
    fn what_is_no_directory_is_an_error_and_an_empty_one_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        assert!(disk.list_names(directory.path()).unwrap().is_empty());
        let missing = disk.list_names(&directory.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        std::fs::write(directory.path().join("f"), b"").unwrap();
        let file = disk.list_names(&directory.path().join("f")).unwrap_err();
        assert_eq!(file.kind(), io::ErrorKind::NotADirectory);
    }
}
