//! The multi-pack-index: one index over many packs.
//!
//! Chains of them (`multi-pack-index.d`) are not read: the packs that a chain covers have indexes
//! of their own, and those are.

use super::error::IndexFault;
use super::layout::{IndexError, LargeOffsets, Layout, Places, ReadAt, array, read_fan_out};
use crate::model::HashKind;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Its name in `objects/pack`.
pub(super) const FILE_NAME: &str = "multi-pack-index";

/// What a multi-pack-index says, but for the table of objects, which stays where it is.
#[derive(Debug)]
pub(super) struct MultiPackIndex {
    pub(super) layout: Layout,
    /// The names of its packs without their ending, in the order of their numbers.
    pub(super) packs: Vec<OsString>,
}

/// LIMIT: bytes of pack names. A million packs have 46 MB of them.
const PACK_NAME_BYTES_MAX: u64 = 256 << 20;

const HEADER_BYTES: u64 = 12;
const CHUNK_ENTRY_BYTES: u64 = 12;

impl MultiPackIndex {
    /// Reads one of `size` bytes.
    pub(super) fn read(
        source: &(impl ReadAt + ?Sized),
        size: u64,
        hash: HashKind,
    ) -> Result<Self, IndexError> {
        let trailer_bytes = hash.len_in_bytes() as u64;
        if size < HEADER_BYTES + CHUNK_ENTRY_BYTES + trailer_bytes {
            return Err(IndexFault::TooShort { size }.into());
        }
        let [m, i, d, x, version, hash_version, chunk_count, base_count, n0, n1, n2, n3] =
            array(source, 0)?;
        if [m, i, d, x] != *b"MIDX" {
            return Err(IndexFault::Signature.into());
        }
        // A base is a layer of a chain: such a file is no index of its own.
        if version != 1 || base_count != 0 {
            return Err(IndexFault::Version { version: version.into() }.into());
        }
        let expected_hash = match hash {
            HashKind::Sha1 => 1,
            HashKind::Sha256 => 2,
            _ => 0,
        };
        if hash_version != expected_hash {
            return Err(IndexFault::Hash.into());
        }
        let chunks = read_chunks(source, chunk_count, size - trailer_bytes)?;
        let fan_out_at = chunks.of_size(*b"OIDF", 4 * 256)?.start;
        let fan_out = read_fan_out(source, fan_out_at)?;
        let count = u64::from(fan_out[255]);
        let ids = chunks.of_size(*b"OIDL", count * hash.len_in_bytes() as u64)?;
        let offsets = chunks.of_size(*b"OOFF", count * 8)?;
        let large = match chunks.find(*b"LOFF") {
            Some(chunk) => LargeOffsets { at: chunk.start, count: (chunk.end - chunk.start) / 8 },
            None => LargeOffsets { at: 0, count: 0 },
        };
        let places = Places::TableWithPacks { at: offsets.start, large };
        let packs = read_pack_names(source, &chunks, u32::from_be_bytes([n0, n1, n2, n3]))?;
        Ok(Self { layout: Layout::of_chunks(hash, fan_out, ids.start, places), packs })
    }
}

/// The chunks by name.
struct Chunks(Vec<([u8; 4], Range<u64>)>);

impl Chunks {
    fn find(&self, name: [u8; 4]) -> Option<Range<u64>> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, range)| range.clone())
    }

    fn of_size(&self, name: [u8; 4], size: u64) -> Result<Range<u64>, IndexFault> {
        self.find(name)
            .filter(|range| range.end - range.start == size)
            .ok_or(IndexFault::Chunk { name })
    }
}

/// Reads the table of chunks: each begins where the one before it ends, the last ends at `end`.
fn read_chunks(source: &(impl ReadAt + ?Sized), count: u8, end: u64) -> Result<Chunks, IndexError> {
    let first_at = HEADER_BYTES + (u64::from(count) + 1) * CHUNK_ENTRY_BYTES;
    let mut chunks: Vec<([u8; 4], Range<u64>)> = Vec::new();
    for number in 0..=u64::from(count) {
        let entry: [u8; 12] = array(source, HEADER_BYTES + number * CHUNK_ENTRY_BYTES)?;
        let [c0, c1, c2, c3, offset @ ..] = entry;
        let name = [c0, c1, c2, c3];
        let offset = u64::from_be_bytes(offset);
        if offset < first_at || offset > end {
            return Err(IndexFault::Chunk { name }.into());
        }
        if let Some((name, range)) = chunks.last_mut() {
            if offset < range.start {
                return Err(IndexFault::Chunk { name: *name }.into());
            }
            range.end = offset;
        }
        chunks.push((name, offset..offset));
    }
    Ok(Chunks(chunks))
}

/// Reads the names, each ended by a NUL, and takes the `.idx` off.
fn read_pack_names(
    source: &(impl ReadAt + ?Sized),
    chunks: &Chunks,
    count: u32,
) -> Result<Vec<OsString>, IndexError> {
    let chunk = chunks.find(*b"PNAM").ok_or(IndexFault::Chunk { name: *b"PNAM" })?;
    let size = chunk.end - chunk.start;
    let mut names = match usize::try_from(size) {
        Ok(bytes) if size <= PACK_NAME_BYTES_MAX => vec![0; bytes],
        _ => return Err(IndexFault::Chunk { name: *b"PNAM" }.into()),
    };
    source.read_exact_at(&mut names, chunk.start)?;
    // What is behind the last name is padding.
    let names: Vec<OsString> = names
        .split(|byte| *byte == 0)
        .take(count as usize)
        .map_while(|name| stem_of(OsStr::from_bytes(name)))
        .collect();
    if names.len() == count as usize { Ok(names) } else { Err(IndexFault::PackNames.into()) }
}

/// The name without `.idx`, if it is the plain name of an index.
pub(super) fn stem_of(name: &OsStr) -> Option<OsString> {
    name.as_bytes()
        .strip_suffix(b".idx")
        .filter(|stem| !stem.is_empty() && !stem.contains(&b'/'))
        .map(|stem| OsString::from_vec(stem.to_vec()))
}
