//! A file that a push brings: in memory as long as nobody else has to see it, else on disk.

use super::super::disk::Disk;
use super::super::durable_file::DurableFile;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file for a quarantine.
#[derive(Debug)]
pub struct NewFile {
    /// Its name below the quarantine, as it will be below `objects`.
    pub name: PathBuf,
    /// Its bytes.
    pub content: NewContent,
}

/// The bytes of a new file.
#[derive(Debug)]
pub enum NewContent {
    /// In memory; nothing has been written.
    Held(Vec<u8>),
    /// Written, not flushed: the descriptor that wrote them is what flushes them.
    Written(DurableFile),
}

impl NewContent {
    /// Bytes so far.
    pub fn length(&self) -> u64 {
        match self {
            Self::Held(bytes) => length_of(bytes),
            Self::Written(file) => file.length(),
        }
    }

    /// Writes over bytes that are there, or right behind them.
    pub fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Held(held) => {
                let outside = || io::Error::from(io::ErrorKind::InvalidInput);
                let start = usize::try_from(offset).map_err(|_| outside())?;
                let end = start.checked_add(bytes.len()).ok_or_else(outside)?;
                if start > held.len() {
                    return Err(outside());
                }
                if held.len() < end {
                    held.resize(end, 0);
                }
                held.get_mut(start..end).unwrap_or_default().copy_from_slice(bytes);
                Ok(())
            }
            Self::Written(file) => file.write_all_at(bytes, offset),
        }
    }

    /// Reads back what was written.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Held(held) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = start.saturating_add(buffer.len());
                let piece = held.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
                buffer.copy_from_slice(piece);
                Ok(())
            }
            Self::Written(file) => file.as_file().read_exact_at(buffer, offset),
        }
    }
}

/// Appends.
impl Write for NewContent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Held(held) => held.write(bytes),
            Self::Written(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where the bytes of an arriving file can be read, to compare them with a file that is there.
#[derive(Clone, Copy, Debug)]
pub enum Arriving<'a> {
    /// In a file.
    File(&'a Path),
    /// In memory.
    Bytes(&'a [u8]),
}

impl<'a> Arriving<'a> {
    /// The length, and the bytes from the first on.
    pub(in crate::repo) fn open(self, disk: &Disk) -> io::Result<(u64, Box<dyn Read + 'a>)> {
        match self {
            Self::File(path) => {
                let file = disk.open(path)?;
                Ok((file.metadata()?.len(), Box::new(file)))
            }
            Self::Bytes(bytes) => Ok((length_of(bytes), Box::new(bytes))),
        }
    }
}

fn length_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_memory_and_on_disk_are_written_and_read_alike() {
        let root = tempfile::tempdir().unwrap();
        let file = Disk::default().create_file(&root.path().join("f"), 0o644).unwrap();
        for mut content in [NewContent::Held(Vec::new()), NewContent::Written(file)] {
            content.write_all(b"hello").unwrap();
            content.write_all_at(b"y, you", 4).unwrap();
            content.write_all_at(b"H", 0).unwrap();
            assert_eq!(content.length(), 10);
            let mut read = [0; 10];
            content.read_exact_at(&mut read, 0).unwrap();
            assert_eq!(&read, b"Helly, you");
            assert!(content.read_exact_at(&mut read, 1).is_err());
        }
        assert!(NewContent::Held(Vec::new()).write_all_at(b"x", 1).is_err());
    }
}
