//! Reading and inflating what lies at a place of a file.

use super::error::Damage;
use super::index_file::is_gone;
use super::{SnapshotError, layout::ReadAt};
use crate::model::ObjectId;
use crate::pack::inflate::{Inflate, InflateError, Inflater, ObjectBuffer, Sirocco, Status};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A file of which a part is read from front to back.
#[derive(Debug)]
pub(super) struct Input<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

/// What reading one copy of an object needs, kept for the next: a new inflater costs more than a
/// median object.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    inflater: Inflater,
    prefix: Sirocco,
    block: Vec<u8>,
}

/// The scratch memory of a snapshot: one piece for each thread that reads at the same time.
#[derive(Debug, Default)]
pub(super) struct ScratchPool(Mutex<Vec<Scratch>>);

/// Why one copy of an object could not be read.
#[derive(Debug)]
pub(super) enum CopyFault {
    /// It is not there any more.
    Gone,
    /// It is there and not what it should be. Another copy may do.
    Damaged(PathBuf, Damage),
    /// No other copy would do any better.
    Other(SnapshotError),
}

/// Bytes read at once, at the most.
const BLOCK_BYTES: usize = 64 << 10;

/// Bytes read at once, at the least: the difference to one byte does not show.
const BLOCK_BYTES_MIN: usize = 512;

/// What a stream may have beyond the bytes that it inflates to, in all but odd cases. With this
/// much in the first block the inflater takes its fastest way.
const OVERHEAD_BYTES: u64 = 64;

/// Bytes of a stream that are looked at to read a header inside it: a loose object's has 28 at the
/// most, a delta's 20.
pub(super) const PREFIX_BYTES: usize = 64;

impl<'a> Input<'a> {
    /// The bytes of `file` from `at` to before `end`.
    pub(super) fn new(file: &'a File, at: u64, end: u64) -> Self {
        Self { file, at, end: end.max(at) }
    }

    /// Reads up to `wanted` bytes into `block`; it is empty at the end.
    fn next(&mut self, wanted: usize, block: &mut Vec<u8>) -> io::Result<()> {
        let rest = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        block.resize(wanted.min(rest), 0);
        self.file.read_exact_at(block, self.at)?;
        self.at += block.len() as u64;
        Ok(())
    }
}

/// Why inflating ended before the stream.
enum Halt {
    Damage(InflateError),
    Enough,
}

impl From<InflateError> for Halt {
    fn from(error: InflateError) -> Self {
        Self::Damage(error)
    }
}

impl Scratch {
    /// Inflates the stream at the start of `input` to the object of `declared` bytes that it is.
    /// Returns it, and the length of the stream.
    pub(super) fn inflate(
        &mut self,
        mut input: Input<'_>,
        declared: u64,
        path: &Path,
    ) -> Result<(Vec<u8>, u64), CopyFault> {
        let mut out = ObjectBuffer::default();
        let mut consumed = 0;
        let mut wanted = block_bytes(declared);
        self.inflater.begin(declared);
        loop {
            self.fill(&mut input, wanted, path)?;
            let progress = self.inflater.whole(&self.block, &mut out);
            let progress = progress.map_err(|error| damaged(path, error))?;
            consumed += progress.consumed as u64;
            if progress.done {
                return Ok((out.take(), consumed));
            }
            wanted = BLOCK_BYTES;
        }
    }

    /// As [`inflate`](Self::inflate), handing out what comes in chunks, and before each the bytes
    /// of the stream that were read for it. Memory is bounded. Returns the length of the stream;
    /// `None` if `sink` says that it has had enough.
    pub(super) fn inflate_chunks(
        &mut self,
        mut input: Input<'_>,
        declared: u64,
        path: &Path,
        mut raw: impl FnMut(&[u8]),
        mut sink: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Option<u64>, CopyFault> {
        let mut consumed = 0;
        let mut wanted = block_bytes(declared);
        self.inflater.begin(declared);
        loop {
            self.fill(&mut input, wanted, path)?;
            let progress = self.inflater.chunks(&self.block, |chunk| match sink(chunk) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Halt::Enough),
            });
            let progress = match progress {
                Ok(progress) => progress,
                Err(Halt::Enough) => return Ok(None),
                Err(Halt::Damage(error)) => return Err(damaged(path, error)),
            };
            raw(self.block.get(..progress.consumed).unwrap_or_default());
            consumed += progress.consumed as u64;
            if progress.done {
                return Ok(Some(consumed));
            }
            wanted = BLOCK_BYTES;
        }
    }

    /// Inflates the first [`PREFIX_BYTES`] of a stream, or all of it if it has fewer.
    pub(super) fn prefix(
        &mut self,
        mut input: Input<'_>,
        path: &Path,
    ) -> Result<Vec<u8>, CopyFault> {
        let mut window = vec![0; PREFIX_BYTES];
        let mut produced = 0;
        self.prefix.reset();
        loop {
            self.fill(&mut input, BLOCK_BYTES_MIN, path)?;
            let step = self.prefix.step(&self.block, &mut window, false);
            let step = step.map_err(|error| damaged(path, error))?;
            produced += step.produced;
            if step.status != Status::NeedsInput || produced == window.len() {
                window.truncate(produced);
                return Ok(window);
            }
        }
    }

    fn fill(&mut self, input: &mut Input<'_>, wanted: usize, path: &Path) -> Result<(), CopyFault> {
        input.next(wanted, &mut self.block).map_err(|error| read_fault(path, error))?;
        if self.block.is_empty() { Err(damaged(path, InflateError::Truncated)) } else { Ok(()) }
    }
}

impl CopyFault {
    /// The same fault where content was handed out already, so that no other copy can be tried.
    pub(super) fn into_final(self, id: &ObjectId) -> Self {
        match self {
            Self::Damaged(path, source) => {
                let source = Box::new(source);
                Self::Other(SnapshotError::DamagedObject { id: *id, path, source })
            }
            fault => fault,
        }
    }
}

impl ScratchPool {
    /// Lends scratch memory.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut scratch = taken.unwrap_or_default();
        let result = work(&mut scratch);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        result
    }
}

/// What a failed read of a file that could be opened means.
pub(super) fn read_fault(path: &Path, error: io::Error) -> CopyFault {
    if is_gone(&error) {
        CopyFault::Gone
    } else if error.kind() == io::ErrorKind::UnexpectedEof {
        damaged(path, Damage::Truncated)
    } else {
        CopyFault::Other(SnapshotError::io(path, error))
    }
}

pub(super) fn damaged(path: &Path, damage: impl Into<Damage>) -> CopyFault {
    CopyFault::Damaged(path.to_owned(), damage.into())
}

/// What to read first of a stream that inflates to this many bytes.
fn block_bytes(declared: u64) -> usize {
    let wanted = usize::try_from(declared.saturating_add(OVERHEAD_BYTES)).unwrap_or(BLOCK_BYTES);
    wanted.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES)
}
