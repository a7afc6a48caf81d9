//! Where an index file keeps what: pack indexes of version 1 and 2, and the tables that a
//! multi-pack-index shares with them.
//!
//! The formats are those of gitformat-pack, "pack-*.idx files" and "multi-pack-index files". Read
//! from bytes in memory or from a file with positioned reads; gix-pack's readers keep a whole file
//! mapped or in memory, which is what a large index must not be.

use super::error::IndexFault;
use crate::model::{HashKind, ObjectId};
use sha1::Digest;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that can be read at any place.
pub(super) trait ReadAt {
    /// Fills `buffer` with the bytes from `offset` on.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Where the parts of an index are, checked against the size of the file.
#[derive(Debug)]
pub(super) struct Layout {
    id_bytes: usize,
    fan_out: Box<[u32; 256]>,
    /// Where the first id is, and how far the next is from it.
    ids_at: u64,
    id_stride: usize,
    places: Places,
    pack_checksum: Option<ObjectId>,
}

/// Where an index keeps the places of objects.
#[derive(Clone, Copy, Debug)]
pub(super) enum Places {
    /// Version 1: four bytes in front of each id.
    BesideId,
    /// Version 2: a table of four bytes each, and one of eight for those past 2 GiB.
    Table { at: u64, large: LargeOffsets },
    /// A multi-pack-index: a table of pack number and offset, and one of large offsets.
    TableWithPacks { at: u64, large: LargeOffsets },
}

/// The table of 64-bit offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct LargeOffsets {
    pub(super) at: u64,
    pub(super) count: u64,
}

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of its pack; 0 in an index of one.
    pub(super) pack: u32,
    /// Where in the pack its entry begins.
    pub(super) offset: u64,
}

/// An index could not be read, or is not valid.
#[derive(Debug)]
pub(super) enum IndexError {
    Io(io::Error),
    Fault(IndexFault),
}

const FAN_OUT_BYTES: usize = 4 * 256;
const V2_SIGNATURE: [u8; 4] = [0xff, b't', b'O', b'c'];

/// No entry begins within the pack's header.
const OFFSET_MIN: u64 = 12;

impl Layout {
    /// Reads the layout of a pack index of `size` bytes.
    pub(super) fn read(
        source: &(impl ReadAt + ?Sized),
        size: u64,
        hash: HashKind,
    ) -> Result<Self, IndexError> {
        let id_bytes = hash.len_in_bytes();
        let trailer_bytes = 2 * id_bytes as u64;
        if size < FAN_OUT_BYTES as u64 + trailer_bytes {
            return Err(IndexFault::TooShort { size }.into());
        }
        let start = array::<8>(source, 0)?;
        let pack_checksum = read_id(source, size - trailer_bytes, id_bytes)?;
        let pack_checksum = ObjectId::try_from(&pack_checksum[..]).ok();
        if !start.starts_with(&V2_SIGNATURE) {
            let fan_out = read_fan_out(source, 0)?;
            let count = u64::from(fan_out[255]);
            let id_stride = 4 + id_bytes;
            if size != FAN_OUT_BYTES as u64 + count * id_stride as u64 + trailer_bytes {
                return Err(IndexFault::Size { size, count: fan_out[255] }.into());
            }
            let ids_at = FAN_OUT_BYTES as u64 + 4;
            let places = Places::BesideId;
            return Ok(Self { id_bytes, fan_out, ids_at, id_stride, places, pack_checksum });
        }
        let [.., v0, v1, v2, v3] = start;
        match u32::from_be_bytes([v0, v1, v2, v3]) {
            2 => {}
            version => return Err(IndexFault::Version { version }.into()),
        }
        let fan_out = read_fan_out(source, 8)?;
        let count = u64::from(fan_out[255]);
        let ids_at = 8 + FAN_OUT_BYTES as u64;
        // Ids, then a crc32 of four bytes each, then the offsets.
        let at = ids_at + count * (id_bytes as u64 + 4);
        let large_at = at + count * 4;
        let large_bytes = size.checked_sub(large_at + trailer_bytes);
        match large_bytes {
            Some(bytes) if bytes % 8 == 0 && bytes / 8 <= count => {
                let large = LargeOffsets { at: large_at, count: bytes / 8 };
                let places = Places::Table { at, large };
                let id_stride = id_bytes;
                Ok(Self { id_bytes, fan_out, ids_at, id_stride, places, pack_checksum })
            }
            _ => Err(IndexFault::Size { size, count: fan_out[255] }.into()),
        }
    }

    /// The layout of a multi-pack-index, whose chunks its reader has found.
    pub(super) fn of_chunks(
        hash: HashKind,
        fan_out: Box<[u32; 256]>,
        ids_at: u64,
        places: Places,
    ) -> Self {
        let id_bytes = hash.len_in_bytes();
        Self { id_bytes, fan_out, ids_at, id_stride: id_bytes, places, pack_checksum: None }
    }

    /// Objects in the index.
    pub(super) fn count(&self) -> u32 {
        self.fan_out[255]
    }

    /// Bytes of one id.
    pub(super) fn id_bytes(&self) -> usize {
        self.id_bytes
    }

    /// The checksum of the pack that was indexed; none for a multi-pack-index.
    pub(super) fn pack_checksum(&self) -> Option<ObjectId> {
        self.pack_checksum
    }

    /// The positions of the ids that begin with this byte.
    pub(super) fn bucket(&self, first: u8) -> std::ops::Range<u32> {
        let start = first.checked_sub(1).map_or(0, |before| self.fan_out[usize::from(before)]);
        start..self.fan_out[usize::from(first)]
    }

    /// Reads the ids at these positions into `block`; [`id_in`](Self::id_in) finds them there.
    pub(super) fn read_ids(
        &self,
        source: &(impl ReadAt + ?Sized),
        positions: std::ops::Range<u32>,
        block: &mut Vec<u8>,
    ) -> io::Result<()> {
        let count = positions.end.saturating_sub(positions.start) as usize;
        // The last id has no stride behind it.
        let len = (count * self.id_stride).saturating_sub(self.id_stride - self.id_bytes);
        block.resize(len, 0);
        source
            .read_exact_at(block, self.ids_at + u64::from(positions.start) * self.id_stride as u64)
    }

    /// The ids at these positions, where they lie in an index that is in memory.
    pub(super) fn ids<'a>(
        &self,
        bytes: &'a [u8],
        positions: std::ops::Range<u32>,
    ) -> io::Result<&'a [u8]> {
        let place = |position: u32| {
            let bytes = u64::from(position).checked_mul(self.id_stride as u64)?;
            usize::try_from(self.ids_at.checked_add(bytes)?).ok()
        };
        let ids = place(positions.start)
            .zip(place(positions.end))
            .and_then(|(start, end)| bytes.get(start..end.min(bytes.len())));
        ids.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The id that is this far from the beginning of a block.
    pub(super) fn id_in<'a>(&self, block: &'a [u8], index: usize) -> &'a [u8] {
        let start = index.saturating_mul(self.id_stride);
        block.get(start..start.saturating_add(self.id_bytes)).unwrap_or_default()
    }

    /// Where the object at this position is.
    pub(super) fn place(
        &self,
        source: &(impl ReadAt + ?Sized),
        position: u32,
    ) -> Result<Place, IndexError> {
        let position = u64::from(position);
        let (pack, offset, large) = match self.places {
            Places::BesideId => {
                let at = self.ids_at - 4 + position * self.id_stride as u64;
                // All 32 bits count: the version knows no larger packs.
                (0, u64::from(u32::from_be_bytes(array(source, at)?)), None)
            }
            Places::Table { at, large } => {
                (0, u64::from(u32::from_be_bytes(array(source, at + position * 4)?)), Some(large))
            }
            Places::TableWithPacks { at, large } => {
                let [p0, p1, p2, p3, o0, o1, o2, o3] = array(source, at + position * 8)?;
                let offset = u32::from_be_bytes([o0, o1, o2, o3]);
                (u32::from_be_bytes([p0, p1, p2, p3]), u64::from(offset), Some(large))
            }
        };
        let offset = match large {
            // git writes a multi-pack-index without a table of large offsets as long as all
            // offsets fit 32 bits: the high bit then belongs to the offset.
            Some(large) if offset & 0x8000_0000 != 0 && !self.has_plain_offsets(large) => {
                let index = offset & 0x7fff_ffff;
                if index >= large.count {
                    return Err(IndexFault::Offset.into());
                }
                u64::from_be_bytes(array(source, large.at + index * 8)?)
            }
            _ => offset,
        };
        if offset < OFFSET_MIN {
            return Err(IndexFault::Offset.into());
        }
        Ok(Place { pack, offset })
    }

    fn has_plain_offsets(&self, large: LargeOffsets) -> bool {
        large.count == 0 && matches!(self.places, Places::TableWithPacks { .. })
    }
}

/// Whether the checksum that ends an index file is that of the content before it.
pub(super) fn has_right_checksum(bytes: &[u8], hash: HashKind) -> bool {
    let Some((content, trailer)) = bytes
        .len()
        .checked_sub(hash.len_in_bytes())
        .and_then(|content_bytes| bytes.split_at_checked(content_bytes))
    else {
        return false;
    };
    match hash {
        HashKind::Sha1 => sha1::Sha1::digest(content)[..] == *trailer,
        HashKind::Sha256 => sha2::Sha256::digest(content)[..] == *trailer,
        _ => false,
    }
}

/// Reads a fan-out table: for each first byte, how many ids begin with it or a lesser one.
pub(super) fn read_fan_out(
    source: &(impl ReadAt + ?Sized),
    offset: u64,
) -> Result<Box<[u32; 256]>, IndexError> {
    let bytes = array::<FAN_OUT_BYTES>(source, offset)?;
    let mut fan_out = Box::new([0; 256]);
    let (numbers, _) = bytes.as_chunks::<4>();
    for (number, bytes) in fan_out.iter_mut().zip(numbers) {
        *number = u32::from_be_bytes(*bytes);
    }
    if fan_out.is_sorted() { Ok(fan_out) } else { Err(IndexFault::FanOut.into()) }
}

pub(super) fn array<const N: usize>(
    source: &(impl ReadAt + ?Sized),
    offset: u64,
) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    source.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn read_id(source: &(impl ReadAt + ?Sized), offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut id = vec![0; bytes];
    source.read_exact_at(&mut id, offset)?;
    Ok(id)
}

impl ReadAt for [u8] {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buffer.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<IndexFault> for IndexError {
    fn from(fault: IndexFault) -> Self {
        Self::Fault(fault)
    }
}
