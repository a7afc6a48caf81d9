//! What ingest is told: how to read the pack, and where to put it.

use super::inspection::Inspection;
use crate::model::{HashKind, Limits, UnpackLimit, UnpackProgress};
use crate::repo::{Disk, DurableFile, QuarantineDirectory, SharedPermissions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a pack is to be read, and in which form it is to be stored.
#[derive(Clone, Debug)]
pub struct IngestOptions {
    /// The hash of the repository.
    pub hash: HashKind,
    /// The object count from which the pack is kept.
    pub unpack_limit: UnpackLimit,
    /// Every bound on the pack.
    pub limits: Limits,
    /// `receive.maxInputSize` of the repository, in bytes; 0 means none, as in git.
    pub input_bytes_max: u64,
    /// Whether bases may be missing from the pack (`--reject-thin-pack-for-testing` says no).
    pub thin: bool,
    /// What to do about bytes after the pack.
    pub surplus: Surplus,
    /// The object count from which a reverse index is written beside the index; none is without
    /// (`pack.writeReverseIndex`).
    pub reverse_index_from: Option<u32>,
    /// The text of a `.keep` file beside a kept pack; none is written without one.
    pub keep: Option<String>,
    /// Threads that resolve deltas. More than the base cache has room for are not started.
    pub threads: usize,
    /// Has every object looked at by fsck, and the links of every object followed.
    pub fsck: Option<Arc<Inspection>>,
    /// Who is told how far the pack has got.
    pub progress: Option<Arc<UnpackProgress>>,
}

/// What to do about bytes after the pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surplus {
    /// Read on to the end of the input; any byte is an error.
    Refuse,
    /// Stop reading at the end of the pack, without waiting for the end of the input. Bytes that
    /// a read returned together with the end of the pack are an error.
    Leave,
}

/// Where objects go: an objects directory of their own, which is migrated or removed later.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Through which everything is written.
    pub disk: Disk,
    /// The quarantine's directory, which what is held in memory does not need.
    pub directory: QuarantineDirectory,
    /// Who may read files and enter directories (`core.sharedRepository`).
    pub permissions: SharedPermissions,
    /// zlib's level for loose objects and appended bases, 0 to 9.
    pub compression: u32,
    /// Bytes that the push may leave in memory, as a pack or as loose objects, until it is
    /// migrated. More go to disk at once.
    pub held_bytes_max: u64,
}

/// LIMIT: what a server should hold of one push. Twice what the spool's buffer holds: a pack that
/// came in one buffer stays in memory with the bases that it misses.
pub const HELD_BYTES_MAX: u64 = 1 << 20;

impl Destination {
    /// Where packs go on disk.
    pub(super) fn pack_dir(&self) -> io::Result<PathBuf> {
        Ok(self.directory.path()?.join("pack"))
    }

    /// Creates a file in the `pack` directory, and that if it is not there yet; the name ends in
    /// random letters. Read-only: what is written once changes no more.
    pub(super) fn create_in_pack_dir(&self, prefix: &str) -> io::Result<DurableFile> {
        let directory = self.pack_dir()?;
        self.create_directory(&directory)?;
        let mode = self.permissions.file_mode(FILE_MODE);
        let file = self.disk.create_temporary(&directory, prefix, mode)?;
        self.permissions.share_file(&file)?;
        Ok(file)
    }

    /// Creates a directory directly below the quarantine, if it is not there yet.
    pub(super) fn create_directory(&self, path: &Path) -> io::Result<()> {
        match self.disk.create_directory(path, self.permissions.directory_mode(DIRECTORY_MODE)) {
            Ok(()) => self.permissions.share_directory(&self.disk, path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// git's modes, before the umask.
const FILE_MODE: u32 = 0o444;
const DIRECTORY_MODE: u32 = 0o777;
