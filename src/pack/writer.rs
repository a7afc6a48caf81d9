//! Writing packs: entries, deltas, and whole packs in memory.
//!
//! For the bases that complete a thin pack, for the load generator and for tests. Deltas are found
//! by common ends only: nothing here competes with `git pack-objects`.

use super::checksum::Checksum;
use super::delta;
use super::entry::{EntryHeader, EntryKind};
use super::header::PackHeader;
use crate::model::{HashKind, ObjectId, ObjectKind};
use flate2::{Compress, Compression, FlushCompress, Status};

/// Compresses one zlib stream after the other.
///
/// Reused, because a new compressor costs a third of what a median object does.
#[derive(Debug)]
pub struct Deflater {
    compress: Compress,
}

/// Builds a pack in memory.
#[derive(Debug)]
pub struct PackBuilder {
    bytes: Vec<u8>,
    count: u32,
    hash: HashKind,
    deflater: Deflater,
}

impl Deflater {
    /// Compresses at zlib's `level`, 0 to 9.
    pub fn new(level: u32) -> Self {
        Self { compress: Compress::new(Compression::new(level.min(9)), true) }
    }

    /// Appends the zlib stream of `content` to `out`.
    #[expect(clippy::missing_panics_doc, reason = "no content leads there")]
    pub fn append(&mut self, content: &[u8], out: &mut Vec<u8>) {
        self.compress.reset();
        let mut rest = content;
        loop {
            // More room than this is only needed by content that does not compress.
            out.reserve(rest.len() / 2 + ROOM_BYTES);
            let before = self.compress.total_in();
            let status = self
                .compress
                .compress_vec(rest, out, FlushCompress::Finish)
                .expect("a compressor that was just reset is in no wrong state");
            let used = usize::try_from(self.compress.total_in() - before).unwrap_or(usize::MAX);
            rest = rest.get(used..).unwrap_or_default();
            if status == Status::StreamEnd {
                return;
            }
        }
    }
}

impl PackBuilder {
    /// Starts a pack of version 2 for a repository of `hash`, compressing at zlib's `level`.
    pub fn new(hash: HashKind, level: u32) -> Self {
        let bytes = PackHeader { version: 2, count: 0 }.encode().to_vec();
        Self { bytes, count: 0, hash, deflater: Deflater::new(level) }
    }

    /// Adds an object as it is; returns the offset of its entry.
    pub fn whole(&mut self, kind: ObjectKind, content: &[u8]) -> u64 {
        self.entry(EntryKind::Whole(kind), content)
    }

    /// Adds a delta against the entry at `base_offset`; returns the offset of its entry.
    pub fn ofs_delta(&mut self, base_offset: u64, delta: &[u8]) -> u64 {
        self.entry(EntryKind::OfsDelta { base_offset }, delta)
    }

    /// Adds a delta against an object named by id; returns the offset of its entry.
    pub fn ref_delta(&mut self, base: ObjectId, delta: &[u8]) -> u64 {
        self.entry(EntryKind::RefDelta { base }, delta)
    }

    /// Adds an entry of any kind; returns its offset.
    pub fn entry(&mut self, kind: EntryKind, content: &[u8]) -> u64 {
        let offset = self.bytes.len() as u64;
        EntryHeader { kind, size: content.len() as u64 }.encode(offset, &mut self.bytes);
        self.deflater.append(content, &mut self.bytes);
        self.count += 1;
        offset
    }

    /// The pack with its count and its trailer.
    pub fn finish(self) -> Vec<u8> {
        let mut bytes = self.bytes;
        let header = PackHeader { version: 2, count: self.count }.encode();
        if let Some(start) = bytes.first_chunk_mut() {
            *start = header;
        }
        let mut checksum = Checksum::new(self.hash);
        checksum.update(&bytes);
        bytes.extend_from_slice(checksum.finish().as_slice());
        bytes
    }
}

/// Writes the delta that makes `result` from `base`: what both begin and end with is copied, what
/// lies between is inserted.
///
/// `None` where no delta exists that git would read: for an empty object made from a small base.
pub fn encode_delta(base: &[u8], result: &[u8]) -> Option<Vec<u8>> {
    let start = base.iter().zip(result).take_while(|(a, b)| a == b).count();
    let (base_rest, result_rest) = (base.get(start..)?, result.get(start..)?);
    let pairs = base_rest.iter().rev().zip(result_rest.iter().rev());
    let end = pairs.take_while(|(a, b)| a == b).count();

    let mut out = Vec::new();
    push_size(base.len(), &mut out);
    push_size(result.len(), &mut out);
    push_copies(0, start, &mut out);
    for piece in result_rest.get(..result_rest.len() - end)?.chunks(INSERT_BYTES_MAX) {
        out.push(u8::try_from(piece.len()).ok()?);
        out.extend_from_slice(piece);
    }
    push_copies(base.len() - end, end, &mut out);
    (out.len() >= delta::DELTA_BYTES_MIN).then_some(out)
}

const ROOM_BYTES: usize = 64;
const INSERT_BYTES_MAX: usize = 0x7f;
/// What git's own encoder copies at most with one instruction, though readers take more.
const COPY_BYTES_MAX: usize = 0x1_0000;

fn push_size(size: usize, out: &mut Vec<u8>) {
    let mut rest = size;
    while rest > 0x7f {
        out.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}

/// Copies `len` bytes of the base from `start`; what lies beyond 4 GiB cannot be told and must not
/// be asked for.
fn push_copies(start: usize, len: usize, out: &mut Vec<u8>) {
    let mut done = 0;
    while done < len {
        let piece = (len - done).min(COPY_BYTES_MAX);
        let [o0, o1, o2, o3, ..] = ((start + done) as u64).to_le_bytes();
        // 64 KiB is written as no length at all.
        let [l0, l1, ..] = (piece as u64).to_le_bytes();
        let mut code = 0x80;
        let place = out.len();
        out.push(code);
        for (bit, byte) in [o0, o1, o2, o3, l0, l1].into_iter().enumerate() {
            if byte != 0 {
                code |= 1 << bit;
                out.push(byte);
            }
        }
        if let Some(first) = out.get_mut(place) {
            *first = code;
        }
        done += piece;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::inflate::{Inflater, ObjectBuffer, Sirocco};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_delta_makes_the_object_it_was_written_for(
            start in prop::collection::vec(any::<u8>(), 0..70_000),
            end in prop::collection::vec(any::<u8>(), 0..300),
            middle in prop::collection::vec(any::<u8>(), 0..300),
            other in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let base = [&start[..], &middle, &end].concat();
            let result = [&start[..], &other, &end].concat();
            let Some(delta) = encode_delta(&base, &result) else {
                prop_assert!(result.is_empty());
                return Ok(());
            };
            let mut out = Vec::new();
            prop_assert_eq!(delta::apply(&base, &delta, u64::MAX, &mut out), Ok(()));
            prop_assert_eq!(out, result);
        }

        #[test]
        fn a_deflater_is_reused(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..5),
            level in 0u32..=9,
        ) {
            let mut deflater = Deflater::new(level);
            let mut inflater = Inflater::<Sirocco>::default();
            let mut buffer = ObjectBuffer::default();
            let mut out = b"before".to_vec();
            for content in contents {
                let start = out.len();
                deflater.append(&content, &mut out);
                let len = inflater.once(&out[start..], content.len() as u64, &mut buffer);
                prop_assert_eq!(len, Ok(out.len() - start));
                prop_assert_eq!(&buffer[..], &content[..]);
            }
        }
    }
}
