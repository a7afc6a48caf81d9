//! Reading one loose object as a stream.

use super::super::disk::{Disk, absent_is_none};
use crate::model::ObjectKind;
use flate2::{Decompress, FlushDecompress, Status};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A loose object that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LooseError {
    /// The file is not a loose object from its first byte to its last.
    #[error("loose object is damaged: {0}")]
    Damaged(&'static str),
    /// The object has more bytes than the caller wants to hold.
    #[error("loose object of {size} bytes is over the bound of {bytes_max}")]
    TooLarge {
        /// What its header says.
        size: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// The disk.
    #[error("cannot read loose object")]
    Disk(#[from] io::Error),
}

/// Inflates a loose object piece by piece, in constant memory.
///
/// The end of the stream is reported only after the checksum was verified and the file found to
/// have exactly the size that its header declares, with nothing behind it.
#[derive(Debug)]
pub struct LooseReader<R = File> {
    file: R,
    inflate: Decompress,
    input: Box<[u8]>,
    /// The part of `input` that is not inflated yet.
    pending: std::ops::Range<usize>,
    /// Content that came out along with the header.
    head: Vec<u8>,
    kind: ObjectKind,
    size: u64,
    remaining: u64,
    stream_ended: bool,
    verified: bool,
}

impl LooseReader {
    /// Opens an object and reads its header; `None` if there is no such file.
    pub fn open(disk: &Disk, path: &Path) -> Result<Option<Self>, LooseError> {
        absent_is_none(disk.open(path))?.map(Self::new).transpose()
    }
}

impl<R: Read> LooseReader<R> {
    /// Reads the header of an object whose file begins here.
    pub fn new(file: R) -> Result<Self, LooseError> {
        let mut reader = Self {
            file,
            inflate: Decompress::new(true),
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            pending: 0..0,
            head: Vec::new(),
            kind: ObjectKind::Blob,
            size: 0,
            remaining: 0,
            stream_ended: false,
            verified: false,
        };
        reader.read_header()?;
        Ok(reader)
    }

    /// The kind that the header declares.
    pub fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// The bytes of content that the header declares.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Fills a part of `buffer` with content; 0 means that all was read and found sound.
    pub fn read_content(&mut self, buffer: &mut [u8]) -> Result<usize, LooseError> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.remaining == 0 {
            self.verify_end()?;
            return Ok(0);
        }
        let wanted = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = buffer.get_mut(..wanted).unwrap_or_default();
        let count = if self.head.is_empty() {
            self.inflate_into(buffer)?
        } else {
            let count = self.head.len().min(buffer.len());
            for (to, from) in buffer.iter_mut().zip(self.head.drain(..count)) {
                *to = from;
            }
            count
        };
        if count == 0 {
            return Err(LooseError::Damaged("it is shorter than its header says"));
        }
        self.remaining = self.remaining.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }

    fn read_header(&mut self) -> Result<(), LooseError> {
        let mut buffer = [0; HEADER_BYTES_MAX];
        let mut filled = 0;
        let end = loop {
            let free = buffer.get_mut(filled..).unwrap_or_default();
            let count = if free.is_empty() { 0 } else { self.inflate_into(free)? };
            filled += count;
            let known = buffer.get(..filled).unwrap_or_default();
            match known.iter().position(|byte| *byte == 0) {
                Some(end) => break end,
                None if count == 0 => return Err(LooseError::Damaged("its header has no end")),
                None => {}
            }
        };
        let header = buffer.get(..end).unwrap_or_default();
        let (kind, size) = parse_header(header).ok_or(LooseError::Damaged("its header is none"))?;
        self.kind = kind;
        self.size = size;
        self.remaining = size;
        self.head = buffer.get(end + 1..filled).unwrap_or_default().to_vec();
        if u64::try_from(self.head.len()).unwrap_or(u64::MAX) > size {
            return Err(LooseError::Damaged("it is longer than its header says"));
        }
        Ok(())
    }

    /// Inflates until at least one byte comes out; 0 at the end of the stream.
    fn inflate_into(&mut self, buffer: &mut [u8]) -> Result<usize, LooseError> {
        while !self.stream_ended {
            if self.pending.is_empty() {
                let count = self.file.read(&mut self.input)?;
                self.pending = 0..count;
            }
            let at_end_of_file = self.pending.is_empty();
            let input = self.input.get(self.pending.clone()).unwrap_or_default();
            let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(input, buffer, FlushDecompress::None)
                .map_err(|_| LooseError::Damaged("it does not inflate"))?;
            let consumed = usize_of(self.inflate.total_in().saturating_sub(before_in));
            let produced = usize_of(self.inflate.total_out().saturating_sub(before_out));
            self.pending.start = self.pending.start.saturating_add(consumed);
            self.stream_ended = status == Status::StreamEnd;
            if produced > 0 {
                return Ok(produced);
            }
            if at_end_of_file && !self.stream_ended {
                return Err(LooseError::Damaged("it ends in the middle"));
            }
        }
        Ok(0)
    }

    fn verify_end(&mut self) -> Result<(), LooseError> {
        if self.verified {
            return Ok(());
        }
        if !self.head.is_empty() || self.inflate_into(&mut [0])? > 0 {
            return Err(LooseError::Damaged("it is longer than its header says"));
        }
        if !self.pending.is_empty() || self.file.read(&mut [0])? > 0 {
            return Err(LooseError::Damaged("there is garbage behind it"));
        }
        self.verified = true;
        Ok(())
    }
}

/// Damage is reported as [`io::ErrorKind::InvalidData`].
impl<R: Read> Read for LooseReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_content(buffer).map_err(|error| match error {
            LooseError::Disk(error) => error,
            damaged => io::Error::new(io::ErrorKind::InvalidData, damaged),
        })
    }
}

/// Reads a whole object of at most `bytes_max`; `None` if there is no such file.
pub fn read_loose(
    disk: &Disk,
    path: &Path,
    bytes_max: u64,
) -> Result<Option<(ObjectKind, Vec<u8>)>, LooseError> {
    let Some(mut reader) = LooseReader::open(disk, path)? else { return Ok(None) };
    if reader.size() > bytes_max {
        return Err(LooseError::TooLarge { size: reader.size(), bytes_max });
    }
    let mut content = Vec::new();
    let mut chunk = vec![0; INPUT_BYTES];
    loop {
        let count = reader.read_content(&mut chunk)?;
        if count == 0 {
            return Ok(Some((reader.kind(), content)));
        }
        content.extend_from_slice(chunk.get(..count).unwrap_or_default());
    }
}

/// Reads `<kind> <size>`, the size in decimal without leading zeros.
fn parse_header(header: &[u8]) -> Option<(ObjectKind, u64)> {
    let space = header.iter().position(|byte| *byte == b' ')?;
    let (kind, rest) = header.split_at(space);
    let digits = rest.get(1..)?;
    let is_number = digits.iter().all(u8::is_ascii_digit) && !digits.is_empty();
    if !is_number || (digits.starts_with(b"0") && digits.len() > 1) {
        return None;
    }
    Some((ObjectKind::from_bytes(kind)?, std::str::from_utf8(digits).ok()?.parse().ok()?))
}

fn usize_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Bytes read at once.
const INPUT_BYTES: usize = 16 << 10;
/// Room for `commit` and the digits of any size, and then some; git's bound too.
const HEADER_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use std::fs;
    use std::io::Write;

    fn deflated(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(file: &[u8]) -> Result<(ObjectKind, Vec<u8>), String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("o");
        fs::write(&path, file).unwrap();
        let disk = Disk::default();
        read_loose(&disk, &path, 1 << 20).map(Option::unwrap).map_err(|error| error.to_string())
    }

    fn damaged(what: &str) -> Result<(ObjectKind, Vec<u8>), String> {
        Err(format!("loose object is damaged: {what}"))
    }

    #[test]
    fn sound_objects_are_read() {
        assert_eq!(read(&deflated(b"blob 5\0hello")), Ok((ObjectKind::Blob, b"hello".to_vec())));
        assert_eq!(read(&deflated(b"tree 0\0")), Ok((ObjectKind::Tree, vec![])));
        let large = [b"blob 100000\0".as_slice(), &vec![7; 100_000]].concat();
        assert_eq!(read(&deflated(&large)).unwrap().1.len(), 100_000);
        assert!(read_loose(&Disk::default(), Path::new("/no/such"), 1).unwrap().is_none());
    }

    #[test]
    fn sizes_that_do_not_fit_are_damage() {
        let long = "it is longer than its header says";
        let short = "it is shorter than its header says";
        assert_eq!(read(&deflated(b"blob 4\0hello")), damaged(long));
        assert_eq!(read(&deflated(b"blob 6\0hello")), damaged(short));
        assert_eq!(read(&deflated(b"blob 999999\0hello")), damaged(short));
        let large = [b"blob 99999\0".as_slice(), &vec![7; 100_000]].concat();
        assert_eq!(read(&deflated(&large)), damaged(long));
    }

    #[test]
    fn headers_that_are_none_are_damage() {
        for header in [
            "blob05\0hello",
            "blob 05\0hello",
            "blob -5\0hello",
            "blob 5x\0hello",
            "blob \0",
            "file 5\0hello",
            " 5\0hello",
            "blob  5\0hello",
            "blob 99999999999999999999\0",
        ] {
            assert_eq!(read(&deflated(header.as_bytes())), damaged("its header is none"));
        }
        assert_eq!(read(&deflated(&[b'a'; 99])), damaged("its header has no end"));
        assert_eq!(read(&deflated(b"blob 5")), damaged("its header has no end"));
    }

    #[test]
    fn broken_streams_are_damage() {
        let sound = deflated(b"blob 5\0hello");
        for end in 0..sound.len() {
            assert!(read(&sound[..end]).is_err(), "cut at {end}");
        }
        let mut longer = sound.clone();
        longer.push(0);
        assert_eq!(read(&longer), damaged("there is garbage behind it"));
        let mut wrong_checksum = sound.clone();
        *wrong_checksum.last_mut().unwrap() ^= 1;
        assert_eq!(read(&wrong_checksum), damaged("it does not inflate"));
        assert_eq!(read(b"hello world"), damaged("it does not inflate"));
    }

    #[test]
    fn a_large_object_is_refused_by_its_header() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("o");
        fs::write(&path, deflated(b"blob 5\0hello")).unwrap();
        let of = |bytes_max| read_loose(&Disk::default(), &path, bytes_max);
        assert!(of(5).is_ok());
        assert!(matches!(of(4), Err(LooseError::TooLarge { size: 5, bytes_max: 4 })));
    }
}
