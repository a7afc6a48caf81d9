//! Where received bytes go: into memory while there are few, then into the quarantined pack.
//!
//! The buffer that the input is read into is the buffer that is written from, so that the pack is
//! written in large pieces and copied nowhere; a push that fits the buffer touches no disk.

use super::error::IngestError;
use super::options::Destination;
use super::pack_body::PackBody;
use crate::repo::{DurableFile, NewContent};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The received bytes.
#[derive(Debug)]
pub(super) struct Spool<'d> {
    destination: &'d Destination,
    /// What has not been written, and room behind it.
    buffer: Vec<u8>,
    filled: usize,
    /// What has been written: all bytes before the buffer.
    file: Option<DurableFile>,
}

/// What one read of the input may bring at the least.
const READ_BYTES_MIN: usize = 128 << 10;

/// The size up to which the buffer grows; then it is written.
const BUFFER_BYTES_MAX: usize = 512 << 10;

impl<'d> Spool<'d> {
    /// Nothing yet.
    pub(super) fn new(destination: &'d Destination) -> Self {
        Self { destination, buffer: Vec::new(), filled: 0, file: None }
    }

    /// Room for the next bytes.
    pub(super) fn room(&mut self) -> Result<&mut [u8], IngestError> {
        if self.buffer.len() - self.filled < READ_BYTES_MIN {
            if self.buffer.len() < BUFFER_BYTES_MAX {
                let doubled = (self.buffer.len() * 2).max(READ_BYTES_MIN);
                self.buffer.resize(doubled, 0);
            } else {
                self.write()?;
            }
        }
        Ok(self.buffer.get_mut(self.filled..).unwrap_or_default())
    }

    /// The first `len` bytes of the room, which were put there.
    pub(super) fn arrived(&self, len: usize) -> &[u8] {
        self.buffer.get(self.filled..self.filled + len).unwrap_or_default()
    }

    /// Adds the first `len` bytes of the room.
    pub(super) fn advance(&mut self, len: usize) {
        self.filled = (self.filled + len).min(self.buffer.len());
    }

    /// Bytes received.
    pub(super) fn len(&self) -> u64 {
        self.written() + self.filled as u64
    }

    /// Writes what is only in memory, if anything has been written before: called when all bytes
    /// are there, so that the buffer is free.
    pub(super) fn settle(&mut self) -> Result<(), IngestError> {
        if self.file.is_some() {
            self.write()?;
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// The bytes of `range`, from memory or read into `scratch`.
    pub(super) fn read<'a>(
        &'a self,
        range: Range<u64>,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], IngestError> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let Some(file) = &self.file else {
            let start = usize::try_from(range.start).unwrap_or(usize::MAX);
            let end = start.saturating_add(len);
            let filled = self.buffer.get(..self.filled).unwrap_or_default();
            return filled.get(start..end).ok_or(IngestError::Reread);
        };
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        let piece = scratch.get_mut(..len).unwrap_or_default();
        let read = file.as_file().read_exact_at(piece, range.start);
        read.map_err(|error| IngestError::disk("read the pack back", error))?;
        Ok(piece)
    }

    /// Whether all bytes are in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.file.is_none()
    }

    /// The pack, complete; a file has a temporary name.
    pub(super) fn into_body(mut self) -> Result<PackBody<'d>, IngestError> {
        if self.file.is_some() || self.len() > self.destination.held_bytes_max {
            self.write()?;
        }
        self.buffer.truncate(self.filled);
        let content = match self.file {
            Some(file) => NewContent::Written(file),
            None => NewContent::Held(self.buffer),
        };
        Ok(PackBody::new(self.destination, content))
    }

    /// Removes what was written.
    pub(super) fn discard(self) -> Result<(), IngestError> {
        if let Some(file) = self.file {
            let removed = self.destination.disk.unlink(file.path());
            removed.map_err(|error| IngestError::disk("remove an unpacked pack", error))?;
        }
        Ok(())
    }

    fn written(&self) -> u64 {
        self.file.as_ref().map_or(0, DurableFile::length)
    }

    fn write(&mut self) -> Result<(), IngestError> {
        let write = |error| IngestError::disk(WRITING, error);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                self.file.insert(self.destination.create_in_pack_dir("tmp_pack_").map_err(write)?)
            }
        };
        let bytes = self.buffer.get(..self.filled).unwrap_or_default();
        file.write_all_at(bytes, file.length()).map_err(write)?;
        self.filled = 0;
        Ok(())
    }
}

const WRITING: &str = "write the pack";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::testing::destination;

    fn fill(spool: &mut Spool<'_>, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = spool.room().unwrap();
            let len = room.len().min(rest.len());
            room[..len].copy_from_slice(&rest[..len]);
            assert_eq!(spool.arrived(len), &rest[..len]);
            spool.advance(len);
            rest = &rest[len..];
        }
    }

    #[test]
    fn few_bytes_touch_no_disk() {
        let (destination, _root) = destination();
        let mut spool = Spool::new(&destination);
        fill(&mut spool, b"PACK and so on");
        spool.settle().unwrap();
        assert_eq!(spool.read(5..8, &mut Vec::new()).unwrap(), b"and");
        assert!(spool.read(5..80, &mut Vec::new()).is_err());
        assert!(spool.is_in_memory());
        let body = spool.into_body().unwrap();
        assert_eq!(destination.disk.counts().creates, 0);
        let NewContent::Held(bytes) = body.into_content() else { panic!("on disk") };
        assert_eq!(bytes, b"PACK and so on");
    }

    #[test]
    fn many_bytes_are_written_as_they_come_and_read_back() {
        let (destination, _root) = destination();
        let bytes: Vec<u8> = (0..1_500_000u32).map(|n| n.to_le_bytes()[1]).collect();
        let mut spool = Spool::new(&destination);
        fill(&mut spool, &bytes);
        spool.settle().unwrap();
        assert_eq!(spool.len(), 1_500_000);
        let mut scratch = Vec::new();
        assert_eq!(spool.read(1_499_000..1_500_000, &mut scratch).unwrap(), &bytes[1_499_000..]);
        assert!(spool.read(1_499_000..1_500_001, &mut scratch).is_err());
        let path = spool.file.as_ref().unwrap().path().to_owned();
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        spool.discard().unwrap();
        assert!(!path.exists());
    }
}
