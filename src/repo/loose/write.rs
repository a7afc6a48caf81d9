//! Writing loose objects.

use super::super::disk::Disk;
use super::super::durable_file::DurableFile;
use super::super::repository::SharedPermissions;
use crate::model::ObjectKind;
use flate2::{Compress, Compression, FlushCompress, Status};
use std::io::{self, Write};
use std::path::Path;

/// Writes loose objects, one after the other, with one deflater.
///
/// A deflater has hundreds of kilobytes of state: making one for each object would cost more than
/// deflating a median one.
#[derive(Debug)]
pub struct LooseWriter {
    disk: Disk,
    permissions: SharedPermissions,
    deflate: Compress,
    /// Deflated bytes that are not written yet; its capacity is the size of one write.
    output: Vec<u8>,
}

impl LooseWriter {
    /// A writer that deflates at `level`, 0 to 9.
    pub fn new(disk: &Disk, permissions: SharedPermissions, level: u32) -> Self {
        Self {
            disk: disk.clone(),
            permissions,
            deflate: Compress::new(Compression::new(level.min(9)), true),
            output: Vec::with_capacity(OUTPUT_BYTES),
        }
    }

    /// Writes an object to a file `tmp_obj_` and six letters in `directory`, read-only and not
    /// flushed. The caller gives it its name. After an error the file may still be there.
    pub fn write(
        &mut self,
        directory: &Path,
        kind: ObjectKind,
        content: &[u8],
    ) -> io::Result<DurableFile> {
        let mut stream = self.begin(directory, kind, length_of(content))?;
        stream.write_all(content)?;
        stream.finish()
    }

    /// Writes an object to a file of its final name, as a quarantine that nobody else looks into
    /// allows. It must not be there.
    pub fn write_at(
        &mut self,
        path: &Path,
        kind: ObjectKind,
        content: &[u8],
    ) -> io::Result<DurableFile> {
        let mut stream = self.begin_at(path, kind, length_of(content))?;
        stream.write_all(content)?;
        stream.finish()
    }

    /// The bytes of an object's file.
    pub fn deflated(&mut self, kind: ObjectKind, content: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = self.begin_to(Vec::new(), kind, length_of(content))?;
        stream.write_all(content)?;
        stream.finish()
    }

    /// Begins an object of `size` bytes that come piece by piece, to a file `tmp_obj_` and six
    /// letters in `directory`: its id may be known only when they are all there.
    pub fn begin(
        &mut self,
        directory: &Path,
        kind: ObjectKind,
        size: u64,
    ) -> io::Result<LooseStream<'_>> {
        let file = self.disk.create_temporary(directory, "tmp_obj_", 0o444)?;
        self.begin_in(file, kind, size)
    }

    /// Begins an object of `size` bytes that come piece by piece, to a file of its final name.
    pub fn begin_at(
        &mut self,
        path: &Path,
        kind: ObjectKind,
        size: u64,
    ) -> io::Result<LooseStream<'_>> {
        let file = self.disk.create_file(path, 0o444)?;
        self.begin_in(file, kind, size)
    }

    fn begin_in(
        &mut self,
        file: DurableFile,
        kind: ObjectKind,
        size: u64,
    ) -> io::Result<LooseStream<'_>> {
        self.permissions.share_file(&file)?;
        self.begin_to(file, kind, size)
    }

    fn begin_to<W: Write>(
        &mut self,
        file: W,
        kind: ObjectKind,
        size: u64,
    ) -> io::Result<LooseStream<'_, W>> {
        self.deflate.reset();
        self.output.clear();
        let header = format!("{kind} {size}\0");
        let mut stream = LooseStream { writer: self, file, remaining: size };
        stream.deflate(header.as_bytes(), FlushCompress::None)?;
        Ok(stream)
    }
}

/// An object being written.
#[derive(Debug)]
pub struct LooseStream<'a, W = DurableFile> {
    writer: &'a mut LooseWriter,
    file: W,
    remaining: u64,
}

impl<W: Write> LooseStream<'_, W> {
    /// Ends the object, which must have got all its bytes.
    pub fn finish(mut self) -> io::Result<W> {
        if self.remaining > 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("loose object lacks {} bytes", self.remaining),
            ));
        }
        self.deflate(&[], FlushCompress::Finish)?;
        self.spill()?;
        Ok(self.file)
    }

    /// Deflates all of `input`, and with [`FlushCompress::Finish`] all that is still inside.
    fn deflate(&mut self, mut input: &[u8], flush: FlushCompress) -> io::Result<()> {
        loop {
            if self.writer.output.len() == self.writer.output.capacity() {
                self.spill()?;
            }
            let before = self.writer.deflate.total_in();
            let LooseWriter { deflate, output, .. } = &mut *self.writer;
            let status = deflate.compress_vec(input, output, flush).map_err(io::Error::other)?;
            let consumed = self.writer.deflate.total_in().saturating_sub(before);
            input = input.get(usize::try_from(consumed).unwrap_or(usize::MAX)..).unwrap_or(&[]);
            let is_done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => input.is_empty(),
            };
            if is_done {
                return Ok(());
            }
        }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.file.write_all(&self.writer.output)?;
        self.writer.output.clear();
        Ok(())
    }
}

/// Takes content, and no more of it than was announced.
impl<W: Write> Write for LooseStream<'_, W> {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.remaining = self.remaining.checked_sub(length_of(content)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "loose object got too many bytes")
        })?;
        self.deflate(content, FlushCompress::None)?;
        Ok(content.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn length_of(content: &[u8]) -> u64 {
    u64::try_from(content.len()).unwrap_or(u64::MAX)
}

/// Bytes written at once.
const OUTPUT_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::super::read_loose;
    use super::*;
    use crate::repo::FlushPolicy;
    use crate::repo::loose::loose_path;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    fn writer() -> LooseWriter {
        LooseWriter::new(&Disk::default(), SharedPermissions::Umask, 1)
    }

    /// Bytes that do not compress, the same each time.
    fn noise(count: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn what_is_written_is_read_back_piece_by_piece_or_whole() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = writer();
        for size in [0, 1, 1000, 65_536, 300_000] {
            let content = noise(size);
            let whole = writer.write(directory.path(), ObjectKind::Tree, &content).unwrap();
            let mut stream = writer.begin(directory.path(), ObjectKind::Tree, size as u64).unwrap();
            for piece in content.chunks(777) {
                stream.write_all(piece).unwrap();
            }
            let pieces = stream.finish().unwrap();
            for file in [whole, pieces] {
                let read = read_loose(&Disk::default(), file.path(), u64::MAX).unwrap();
                assert_eq!(read, Some((ObjectKind::Tree, content.clone())));
                let mode = fs::metadata(file.path()).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o444);
            }
        }
    }

    #[test]
    fn a_size_that_is_not_kept_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = writer();
        let mut stream = writer.begin(directory.path(), ObjectKind::Blob, 3).unwrap();
        assert!(stream.write_all(b"four").is_err());
        let mut stream = writer.begin(directory.path(), ObjectKind::Blob, 3).unwrap();
        stream.write_all(b"ab").unwrap();
        assert_eq!(stream.finish().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_small_object_is_one_write() {
        let directory = tempfile::tempdir().unwrap();
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        let mut writer = LooseWriter::new(&disk, SharedPermissions::Umask, 1);
        writer.write(directory.path(), ObjectKind::Blob, b"hello").unwrap();
        assert_eq!(recorder.attempts(), 2);
    }

    #[test]
    fn git_reads_what_we_write_and_we_read_what_git_writes() {
        let directory = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let output = Command::new("git")
                .current_dir(directory.path())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .args(arguments)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        git(&["init", "-q", "--bare", "."]);
        fs::write(directory.path().join("f"), "hello\n").unwrap();
        let hex = git(&["hash-object", "-w", "f"]);
        let id = crate::model::ObjectId::from_hex(hex.trim().as_bytes()).unwrap();
        let objects = directory.path().join("objects");
        let path = loose_path(&objects, &id);
        let read = read_loose(&Disk::default(), &path, 100).unwrap();
        assert_eq!(read, Some((ObjectKind::Blob, b"hello\n".to_vec())));
        let file = writer().write(&objects, ObjectKind::Blob, b"hello\n").unwrap();
        fs::rename(file.path(), &path).unwrap();
        assert_eq!(git(&["cat-file", "blob", hex.trim()]), "hello\n");
        git(&["fsck", "--strict"]);
    }
}
