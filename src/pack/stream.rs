//! A pack that is made while it is read, from objects that come one after the other.
//!
//! Memory does not grow with the pack. No deltas, and nothing is compressed: for packs that are
//! needed soon and repacked later.

use super::checksum::Checksum;
use super::entry::{EntryHeader, EntryKind};
use super::header::PackHeader;
use crate::model::{HashKind, ObjectKind};
use flate2::Compression;
use flate2::read::ZlibEncoder;
use std::io::{self, Cursor, Read};

/// An object for a pack.
pub struct WholeObject<'a> {
    /// Its kind.
    pub kind: ObjectKind,
    /// The bytes of its content.
    pub size: u64,
    /// The content. If it has another length than `size`, no reader takes the pack.
    pub content: Box<dyn Read + 'a>,
}

/// Reads as a pack of version 2 with all objects of an iterator, whole.
pub struct PackStream<'a, I> {
    objects: I,
    /// What is being read: the header, an object, the trailer.
    piece: Box<dyn Read + 'a>,
    /// Of all before the trailer; none once that is reached.
    checksum: Option<Checksum>,
}

impl<'a, I> PackStream<'a, I>
where
    I: Iterator<Item = io::Result<WholeObject<'a>>>,
{
    /// A pack of `count` objects, which is how many must come.
    pub fn new(hash: HashKind, count: u32, objects: I) -> Self {
        let header = PackHeader { version: 2, count }.encode();
        let piece = Box::new(Cursor::new(header));
        Self { objects, piece, checksum: Some(Checksum::new(hash)) }
    }

    fn next_piece(&mut self) -> io::Result<Option<Box<dyn Read + 'a>>> {
        if let Some(object) = self.objects.next().transpose()? {
            let WholeObject { kind, size, content } = object;
            let mut header = Vec::with_capacity(EntryHeader::BYTES_MAX);
            // Only a delta cares where it begins.
            EntryHeader { kind: EntryKind::Whole(kind), size }.encode(0, &mut header);
            let stored = ZlibEncoder::new(content, Compression::none());
            return Ok(Some(Box::new(Cursor::new(header).chain(stored))));
        }
        let trailer = self.checksum.take().map(Checksum::finish);
        Ok(trailer.map(|id| Box::new(Cursor::new(id.as_slice().to_vec())) as Box<dyn Read>))
    }
}

impl<'a, I> Read for PackStream<'a, I>
where
    I: Iterator<Item = io::Result<WholeObject<'a>>>,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.piece.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                if let Some(checksum) = &mut self.checksum {
                    checksum.update(buffer.get(..count).unwrap_or_default());
                }
                return Ok(count);
            }
            match self.next_piece()? {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::header::PackHeader;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn object(kind: ObjectKind, content: &[u8]) -> WholeObject<'static> {
        let size = content.len() as u64;
        WholeObject { kind, size, content: Box::new(Cursor::new(content.to_vec())) }
    }

    #[test]
    fn git_reads_what_it_makes() {
        for format in ["sha1", "sha256"] {
            let hash = if format == "sha1" { HashKind::Sha1 } else { HashKind::Sha256 };
            let large = vec![7; 300_000];
            let objects = [
                object(ObjectKind::Blob, b"hello\n"),
                object(ObjectKind::Blob, b""),
                object(ObjectKind::Tree, b""),
                object(ObjectKind::Blob, &large),
            ];
            let mut pack = Vec::new();
            PackStream::new(hash, 4, objects.into_iter().map(Ok)).read_to_end(&mut pack).unwrap();

            let home = tempfile::tempdir().unwrap();
            let git = |arguments: &[&str], input: &[u8]| {
                let mut child = Command::new("git")
                    .current_dir(home.path())
                    .args(arguments)
                    .env("GIT_CONFIG_NOSYSTEM", "1")
                    .env("GIT_CONFIG_GLOBAL", "/dev/null")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                child.stdin.take().unwrap().write_all(input).unwrap();
                let output = child.wait_with_output().unwrap();
                assert!(output.status.success(), "{arguments:?}");
                String::from_utf8(output.stdout).unwrap()
            };
            git(&["init", "-q", "--bare", "--object-format", format, "."], b"");
            git(&["index-pack", "--strict", "--stdin"], &pack);
            let listed =
                git(&["cat-file", "--batch-all-objects", "--batch-check=%(objecttype)"], b"");
            let mut kinds: Vec<&str> = listed.lines().collect();
            kinds.sort_unstable();
            assert_eq!(kinds, ["blob", "blob", "blob", "tree"]);
        }
    }

    #[test]
    fn an_object_that_cannot_be_had_is_an_error_and_not_an_end() {
        let gone = Err(io::Error::from(io::ErrorKind::NotFound));
        let objects = [Ok(object(ObjectKind::Blob, b"hello\n")), gone];
        let mut pack = Vec::new();
        let read = PackStream::new(HashKind::Sha1, 2, objects.into_iter()).read_to_end(&mut pack);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(pack.len() > PackHeader::BYTES);
    }
}
