//! A file that packhouse writes: the other half of [`durable`](super::durable).
//!
//! Writes and flushes go through one descriptor: another descriptor's flush may report nothing of
//! an error that this one's writes met.

use super::disk::{Disk, Stat, bump};
use super::flush_policy::Component;
use super::recorder::{FileId, Operation};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file being written. Dropping it neither flushes nor removes it.
#[derive(Debug)]
pub struct DurableFile {
    pub(super) disk: Disk,
    pub(super) file: File,
    pub(super) id: FileId,
    pub(super) path: PathBuf,
    pub(super) length: u64,
    pub(super) appends: bool,
}

impl DurableFile {
    /// Where it is; its name when it was created, whatever has been renamed since.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The descriptor, for reading back what was written. Writes go through this type alone.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// Writes over bytes that are there, or past the end.
    pub fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.admit(false)?;
        self.file.write_all_at(bytes, offset)?;
        let end = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.length = self.length.max(end);
        self.disk.record(|| Operation::Write { file: self.id, offset, bytes: bytes.to_vec() });
        Ok(())
    }

    /// Cuts it to `length` bytes.
    pub fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.disk.admit(true)?;
        self.file.set_len(length)?;
        self.length = length;
        self.disk.record(|| Operation::Truncate { file: self.id, length });
        Ok(())
    }

    /// What `stat` says of it.
    pub fn stat(&self) -> io::Result<Stat> {
        bump(&self.disk.shared.counters.stats);
        self.file.metadata().map(Stat::from)
    }

    /// Its permission bits.
    pub fn mode(&self) -> io::Result<u32> {
        Ok(self.stat()?.mode)
    }

    /// Gives it these permission bits, whatever the umask.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.disk.admit(false)?;
        self.file.set_permissions(Permissions::from_mode(mode))
    }

    /// Writes where the file ends now, which is further on if somebody else has written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.disk.admit(false)?;
        (&self.file).write_all(bytes)?;
        let offset = self.length;
        self.length = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.disk.record(|| Operation::Write { file: self.id, offset, bytes: bytes.to_vec() });
        Ok(())
    }

    /// Makes the bytes durable if files of this kind are flushed at all.
    pub fn flush_as(&self, component: Component) -> io::Result<()> {
        if !self.disk.policy.flushes(component) {
            return Ok(());
        }
        bump(&self.disk.shared.counters.file_flushes);
        let flushed = self.disk.admit(false).and_then(|()| self.file.sync_data());
        // A file without room is not named by anything yet: it goes, and no other is concerned.
        flushed.inspect_err(|error| {
            if !lacks_room(error) {
                self.disk.note_failed_flush();
            }
        })?;
        self.disk.record(|| Operation::FlushFile { file: self.id });
        Ok(())
    }
}

/// Appends. `flush` does nothing: durability is asked for by [`DurableFile::flush_as`].
impl Write for DurableFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.appends {
            self.append(bytes)?;
        } else {
            self.write_all_at(bytes, self.length)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a file could not be kept because there is no room for it.
fn lacks_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
