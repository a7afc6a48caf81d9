//! The content of an object that deltas are made from: in memory, or on disk if it is large.

use super::error::IngestError;
use super::options::Destination;
use crate::repo::DurableFile;
use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

/// Content that can be read at random.
#[derive(Debug)]
pub(super) enum Content {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file without a name.
    Spilled(SpillFile),
}

/// A file in the quarantine that nobody else can open; its bytes go with its descriptor.
#[derive(Debug)]
pub(super) struct SpillFile {
    file: DurableFile,
    window: RefCell<Window>,
}

/// A small part of a file. Deltas copy small pieces that lie near each other.
#[derive(Debug, Default)]
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

/// Content that is being made.
#[derive(Debug)]
pub(super) enum ContentWriter {
    Memory(Vec<u8>),
    Spill(BufWriter<DurableFile>),
}

/// Buffer for one write or one large read of a spilled content.
const PIECE_BYTES: usize = 64 << 10;

/// What is read where less is wanted.
const WINDOW_BYTES: usize = 8 << 10;

impl Content {
    /// Its length.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Spilled(spill) => spill.file.length(),
        }
    }

    /// Memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.capacity(),
            Self::Spilled(_) => 0,
        }
    }

    /// The bytes, if they are in memory.
    pub(super) fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Self::Memory(bytes) => Some(bytes),
            Self::Spilled(_) => None,
        }
    }

    /// Hands `len` bytes from `offset` on to `sink`, in order; they must be there.
    pub(super) fn read<E: From<IngestError>>(
        &self,
        offset: u64,
        len: u64,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
                let piece = bytes.get(start..end).ok_or(IngestError::Reread)?;
                sink(piece)
            }
            Self::Spilled(spill) => spill.read(offset, len, sink),
        }
    }
}

impl SpillFile {
    fn read<E: From<IngestError>>(
        &self,
        offset: u64,
        len: u64,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if len <= WINDOW_BYTES as u64 {
            let mut window = self.window.borrow_mut();
            if window.get(offset, len).is_none() {
                let wanted = self.file.length().saturating_sub(offset).max(len);
                let size = usize::try_from(wanted).unwrap_or(usize::MAX).min(WINDOW_BYTES);
                let mut bytes = std::mem::take(&mut window.bytes);
                bytes.resize(size, 0);
                self.read_exact(&mut bytes, offset)?;
                *window = Window { offset, bytes };
            }
            return sink(window.get(offset, len).unwrap_or_default());
        }
        let mut buffer = vec![0; PIECE_BYTES];
        let (mut at, mut left) = (offset, len);
        while left > 0 {
            let size = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let piece = buffer.get_mut(..size).unwrap_or_default();
            self.read_exact(piece, at)?;
            sink(piece)?;
            at += size as u64;
            left -= size as u64;
        }
        Ok(())
    }

    fn read_exact(&self, piece: &mut [u8], offset: u64) -> Result<(), IngestError> {
        let read = self.file.as_file().read_exact_at(piece, offset);
        read.map_err(|error| IngestError::disk("read back a large object", error))
    }
}

impl Window {
    fn get(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }
}

impl ContentWriter {
    /// Starts a content of `size` bytes: on disk if that is more than `memory_max`. Memory grows
    /// with what is written.
    pub(super) fn new(
        size: u64,
        memory_max: usize,
        destination: &Destination,
    ) -> Result<Self, IngestError> {
        if usize::try_from(size).is_ok_and(|size| size <= memory_max) {
            return Ok(Self::Memory(Vec::new()));
        }
        let create = || -> io::Result<DurableFile> {
            let disk = &destination.disk;
            let directory = destination.directory.path()?;
            let file = disk.create_temporary(directory, "tmp_base_", 0o600)?;
            // It goes when the descriptor does, however this push ends.
            disk.unlink(file.path())?;
            Ok(file)
        };
        let file = create().map_err(|error| IngestError::disk(WRITING, error))?;
        Ok(Self::Spill(BufWriter::with_capacity(PIECE_BYTES, file)))
    }

    /// Appends.
    pub(super) fn write(&mut self, piece: &[u8]) -> Result<(), IngestError> {
        match self {
            Self::Memory(bytes) => {
                bytes.extend_from_slice(piece);
                Ok(())
            }
            Self::Spill(file) => {
                file.write_all(piece).map_err(|error| IngestError::disk(WRITING, error))
            }
        }
    }

    /// What was written.
    pub(super) fn finish(self) -> Result<Content, IngestError> {
        match self {
            Self::Memory(bytes) => Ok(Content::Memory(bytes)),
            Self::Spill(file) => match file.into_inner() {
                Ok(file) => {
                    let window = RefCell::default();
                    Ok(Content::Spilled(SpillFile { file, window }))
                }
                Err(error) => Err(IngestError::disk(WRITING, error.into_error())),
            },
        }
    }
}

const WRITING: &str = "put a large object aside";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::testing::destination;

    #[test]
    fn content_reads_back_from_memory_and_from_disk() {
        let (destination, _root) = destination();
        let bytes: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[1]).collect();
        for memory_max in [200_000, 199_999] {
            let mut writer = ContentWriter::new(200_000, memory_max, &destination).unwrap();
            bytes.chunks(999).for_each(|piece| writer.write(piece).unwrap());
            let content = writer.finish().unwrap();
            assert_eq!(content.in_memory().is_some(), memory_max == 200_000);
            assert_eq!(content.len(), 200_000);
            let mut read = Vec::new();
            let sink = |piece: &[u8]| -> Result<(), IngestError> {
                read.extend_from_slice(piece);
                Ok(())
            };
            content.read(70_000, 100_000, sink).unwrap();
            assert_eq!(read, bytes[70_000..170_000]);
            for (offset, len) in [(5u64, 3u64), (0, 0), (3, 8000), (190_000, 10_000), (6, 1)] {
                let mut read = Vec::new();
                let sink = |piece: &[u8]| -> Result<(), IngestError> {
                    read.extend_from_slice(piece);
                    Ok(())
                };
                content.read(offset, len, sink).unwrap();
                let start = usize::try_from(offset).unwrap();
                assert_eq!(read, bytes[start..start + usize::try_from(len).unwrap()]);
            }
            let past = content.read(199_999, 2, |_| Ok::<_, IngestError>(()));
            assert!(past.is_err());
        }
        let left = std::fs::read_dir(destination.directory.path().unwrap()).unwrap().count();
        assert_eq!(left, 0, "spilled content has no name");
    }
}
