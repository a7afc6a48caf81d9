//! One commit-graph file.

use crate::model::{HashKind, ObjectId, oid};
use sha1::Digest as _;
use std::ops::Range;

/// The bytes of one file, with the places of its chunks.
///
/// Every access is checked: a file that passed [`parse`](Self::parse) can still hold positions
/// that lead nowhere.
#[derive(Debug)]
pub(super) struct Layer {
    bytes: Vec<u8>,
    hash: HashKind,
    count: u32,
    fan_out: Range<usize>,
    ids: Range<usize>,
    data: Range<usize>,
    edges: Range<usize>,
    bases: Vec<ObjectId>,
}

/// What the file says of a commit; parents are positions in the whole graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) tree: ObjectId,
    pub(super) parents: Vec<u32>,
    pub(super) generation: u32,
    pub(super) date: u64,
}

/// The rule that a file breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LayerError {
    #[error("not a commit-graph of version 1 for this hash")]
    Header,
    #[error("chunk missing, misplaced or of the wrong size")]
    Chunk,
    #[error("fan-out table out of order")]
    FanOut,
    #[error("checksum mismatch")]
    Checksum,
}

impl Layer {
    pub(super) fn parse(bytes: Vec<u8>, hash: HashKind) -> Result<Self, LayerError> {
        let body = bytes.len().checked_sub(hash.len_in_bytes()).ok_or(LayerError::Header)?;
        let header = bytes.get(..body).and_then(|body| body.first_chunk::<HEADER_BYTES>());
        let Some(&[b'C', b'G', b'P', b'H', 1, version, chunks, bases]) = header else {
            return Err(LayerError::Header);
        };
        if version != hash_version(hash) {
            return Err(LayerError::Header);
        }
        let chunks = Chunks::parse(&bytes, usize::from(chunks), body).ok_or(LayerError::Chunk)?;
        let sized = |name, size| chunks.find(name).filter(|range| range.len() == size);
        let fan_out = sized(*b"OIDF", FAN_OUT * 4).ok_or(LayerError::Chunk)?;
        let count = fan_out_total(&bytes, &fan_out).ok_or(LayerError::FanOut)?;
        let entries = usize::try_from(count).map_err(|_| LayerError::Chunk)?;
        let times = |size: usize| entries.checked_mul(size);
        let id_bytes = hash.len_in_bytes();
        let base_bytes = usize::from(bases) * id_bytes;
        let ids = times(id_bytes).and_then(|size| sized(*b"OIDL", size));
        let data = times(id_bytes + RECORD_BYTES).and_then(|size| sized(*b"CDAT", size));
        let bases = if base_bytes == 0 { Some(0..0) } else { sized(*b"BASE", base_bytes) };
        let (Some(ids), Some(data), Some(bases)) = (ids, data, bases) else {
            return Err(LayerError::Chunk);
        };
        let edges = chunks.find(*b"EDGE").unwrap_or(0..0);
        if !checksum_holds(&bytes, body, hash) {
            return Err(LayerError::Checksum);
        }
        let bases = bytes.get(bases).unwrap_or_default().chunks_exact(id_bytes);
        let bases = bases.filter_map(|id| ObjectId::try_from(id).ok()).collect();
        Ok(Self { bytes, hash, count, fan_out, ids, data, edges, bases })
    }

    /// How many commits it has.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The checksums of the files below it in its chain, lowest first.
    pub(super) fn bases(&self) -> &[ObjectId] {
        &self.bases
    }

    /// The bytes it holds in memory.
    pub(super) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// The place of a commit among those of this file.
    pub(super) fn find(&self, id: &oid) -> Option<u32> {
        if id.kind() != self.hash {
            return None;
        }
        let first = usize::from(id.first_byte());
        let end_of = |index: usize| u32_at(&self.bytes, &self.fan_out, index);
        let mut low = first.checked_sub(1).map_or(Some(0), end_of)?;
        let mut high = end_of(first)?;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.id_bytes(middle)?.cmp(id.as_bytes()) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The id at a place.
    pub(super) fn id(&self, place: u32) -> Option<ObjectId> {
        ObjectId::try_from(self.id_bytes(place)?).ok()
    }

    /// What it says of the commit at a place.
    pub(super) fn record(&self, place: u32) -> Option<Record> {
        let id_bytes = self.hash.len_in_bytes();
        let record = slice(&self.bytes, &self.data, place, id_bytes + RECORD_BYTES)?;
        let (tree, rest) = record.split_at_checked(id_bytes)?;
        let word = |index| u32_at(rest, &(0..rest.len()), index);
        let (high, low) = (word(2)?, word(3)?);
        Some(Record {
            tree: ObjectId::try_from(tree).ok()?,
            parents: self.parents(word(0)?, word(1)?)?,
            generation: high >> 2,
            date: u64::from(high & 3) << 32 | u64::from(low),
        })
    }

    fn parents(&self, first: u32, second: u32) -> Option<Vec<u32>> {
        let mut parents = Vec::new();
        if first != NO_PARENT {
            parents.push(first);
        }
        if second == NO_PARENT {
            return Some(parents);
        }
        if second & LAST_OR_MORE == 0 {
            parents.push(second);
            return Some(parents);
        }
        let mut index = usize::try_from(second & !LAST_OR_MORE).ok()?;
        loop {
            let edge = u32_at(&self.bytes, &self.edges, index)?;
            parents.push(edge & !LAST_OR_MORE);
            if edge & LAST_OR_MORE != 0 {
                return Some(parents);
            }
            index += 1;
        }
    }

    fn id_bytes(&self, place: u32) -> Option<&[u8]> {
        slice(&self.bytes, &self.ids, place, self.hash.len_in_bytes())
    }
}

/// The table of contents.
struct Chunks(Vec<([u8; 4], Range<usize>)>);

impl Chunks {
    /// Reads it; chunks lie one behind the other and end before `body`.
    fn parse(bytes: &[u8], count: usize, body: usize) -> Option<Self> {
        let table = bytes.get(HEADER_BYTES..body)?.get(..(count + 1) * TOC_ENTRY_BYTES)?;
        let mut least = HEADER_BYTES + table.len();
        let mut starts = Vec::with_capacity(count + 1);
        for entry in table.as_chunks::<TOC_ENTRY_BYTES>().0 {
            let (name, offset) = entry.split_first_chunk::<4>()?;
            let offset = u64::from_be_bytes(*offset.first_chunk::<8>()?);
            let offset = usize::try_from(offset).ok()?;
            if offset < least || offset > body {
                return None;
            }
            least = offset;
            starts.push((*name, offset));
        }
        let pairs = starts.iter().zip(starts.iter().skip(1));
        Some(Self(pairs.map(|((name, start), (_, end))| (*name, *start..*end)).collect()))
    }

    fn find(&self, name: [u8; 4]) -> Option<Range<usize>> {
        self.0.iter().find(|(chunk, _)| *chunk == name).map(|(_, range)| range.clone())
    }
}

/// Signature, version, hash version, number of chunks, number of base files.
const HEADER_BYTES: usize = 8;

const TOC_ENTRY_BYTES: usize = 12;

const FAN_OUT: usize = 256;

/// What a commit's record has behind its tree: two parents, generation and date.
const RECORD_BYTES: usize = 16;

const NO_PARENT: u32 = 0x7000_0000;

/// In a second parent: more parents are in the edge list. There: this is the last.
const LAST_OR_MORE: u32 = 1 << 31;

fn hash_version(hash: HashKind) -> u8 {
    match hash {
        HashKind::Sha1 => 1,
        HashKind::Sha256 => 2,
        _ => 0,
    }
}

/// The last entry of the fan-out table, if the table never descends.
fn fan_out_total(bytes: &[u8], fan_out: &Range<usize>) -> Option<u32> {
    (0..FAN_OUT)
        .try_fold(0, |least, index| u32_at(bytes, fan_out, index).filter(|&value| value >= least))
}

fn checksum_holds(bytes: &[u8], body: usize, hash: HashKind) -> bool {
    let Some((body, trailer)) = bytes.split_at_checked(body) else { return false };
    match hash {
        HashKind::Sha1 => sha1::Sha1::digest(body)[..] == *trailer,
        HashKind::Sha256 => sha2::Sha256::digest(body)[..] == *trailer,
        _ => false,
    }
}

fn u32_at(bytes: &[u8], chunk: &Range<usize>, index: usize) -> Option<u32> {
    let chunk = bytes.get(chunk.clone())?;
    chunk.as_chunks::<4>().0.get(index).map(|word| u32::from_be_bytes(*word))
}

fn slice<'a>(bytes: &'a [u8], chunk: &Range<usize>, place: u32, size: usize) -> Option<&'a [u8]> {
    let start = usize::try_from(place).ok()?.checked_mul(size)?;
    bytes.get(chunk.clone())?.get(start..start.checked_add(size)?)
}
