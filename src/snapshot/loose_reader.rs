//! Reading a loose object: a zlib stream of "kind size NUL content".

use super::error::{Damage, SnapshotError};
use super::index_file::is_gone;
use super::input::{CopyFault, Input, Scratch, damaged, read_fault};
use crate::model::ObjectKind;
use crate::repo::Disk;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A loose file that is open, its header read.
#[derive(Debug)]
pub(super) struct LooseFile {
    file: File,
    path: PathBuf,
    file_bytes: u64,
    header_bytes: usize,
    pub(super) kind: ObjectKind,
    pub(super) size: u64,
}

impl LooseFile {
    pub(super) fn open(path: &Path, disk: &Disk, scratch: &mut Scratch) -> Result<Self, CopyFault> {
        let file = match disk.open(path) {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Err(CopyFault::Gone),
            Err(error) => return Err(CopyFault::Other(SnapshotError::io(path, error))),
        };
        let file_bytes = file.metadata().map_err(|error| read_fault(path, error))?.len();
        let prefix = scratch.prefix(Input::new(&file, 0, file_bytes), path)?;
        let (kind, size, header_bytes) =
            parse_header(&prefix).ok_or_else(|| damaged(path, Damage::LooseHeader))?;
        Ok(Self { file, path: path.to_owned(), file_bytes, header_bytes, kind, size })
    }

    /// The content.
    pub(super) fn read(&self, scratch: &mut Scratch) -> Result<Vec<u8>, CopyFault> {
        let (mut content, stream_bytes) =
            scratch.inflate(self.input(), self.inflated_bytes(), &self.path)?;
        self.check_end(stream_bytes)?;
        content.drain(..self.header_bytes.min(content.len()));
        Ok(content)
    }

    /// The content in chunks, until `sink` has had enough.
    pub(super) fn stream(
        &self,
        scratch: &mut Scratch,
        mut sink: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), CopyFault> {
        let mut skip = self.header_bytes;
        let stream_bytes = scratch.inflate_chunks(
            self.input(),
            self.inflated_bytes(),
            &self.path,
            |_| {},
            |chunk| {
                let content = chunk.get(skip.min(chunk.len())..).unwrap_or_default();
                skip = skip.saturating_sub(chunk.len());
                if content.is_empty() { ControlFlow::Continue(()) } else { sink(content) }
            },
        )?;
        stream_bytes.map_or(Ok(()), |bytes| self.check_end(bytes))
    }

    fn input(&self) -> Input<'_> {
        Input::new(&self.file, 0, self.file_bytes)
    }

    fn inflated_bytes(&self) -> u64 {
        self.size.saturating_add(self.header_bytes as u64)
    }

    fn check_end(&self, stream_bytes: u64) -> Result<(), CopyFault> {
        if stream_bytes == self.file_bytes {
            Ok(())
        } else {
            Err(damaged(&self.path, Damage::TrailingBytes))
        }
    }
}

/// Reads kind and size, as git does: a plain decimal number without leading zeros.
fn parse_header(prefix: &[u8]) -> Option<(ObjectKind, u64, usize)> {
    let end = prefix.iter().position(|byte| *byte == 0)?;
    let mut words = prefix.get(..end)?.splitn(2, |byte| *byte == b' ');
    let (kind, digits) = (words.next()?, words.next()?);
    let is_plain = match digits {
        [] => false,
        [b'0', rest @ ..] => rest.is_empty(),
        digits => digits.iter().all(u8::is_ascii_digit),
    };
    let size = std::str::from_utf8(digits).ok()?.parse().ok().filter(|_| is_plain)?;
    Some((ObjectKind::from_bytes(kind)?, size, end + 1))
}
