//! The states of the parser and the steps between them.

use super::error::PackFault;
use super::visitor::{Delivery, EntryEnd, EntryStart, PackVisitor};
use crate::model::{HashKind, Limit, Limits, ObjectId};
use crate::pack::checksum::Checksum;
use crate::pack::entry::{Decoded, EntryError, EntryHeader};
use crate::pack::header::{HeaderError, PackHeader};
use crate::pack::inflate::{Inflate, Inflater, ObjectBuffer};

/// Everything about a pack that is being parsed, but for the number of bytes consumed.
#[derive(Debug)]
pub(super) struct Machine<I> {
    hash: HashKind,
    bounds: Bounds,
    state: State,
    /// Where the header, entry or trailer at hand begins: the offset of its faults.
    began: u64,
    entries: u32,
    entries_left: u32,
    /// Content declared by the entries so far.
    inflated_bytes: u64,
    carry: Carry,
    /// Over the entry at hand, up to the piece at hand.
    crc32: crc32fast::Hasher,
    /// Over the pack, up to the piece at hand.
    checksum: Checksum,
    inflater: Inflater<I>,
    buffer: ObjectBuffer,
}

/// Why parsing stopped before the end of a piece.
pub(super) enum Stop<E> {
    Fault(PackFault),
    Visitor(E),
}

#[derive(Clone, Copy, Debug)]
enum State {
    PackHeader,
    EntryHeader,
    Content(Delivery),
    Trailer,
}

#[derive(Debug)]
struct Bounds {
    objects: Limit,
    object: Limit,
    inflated: Limit,
}

/// A piece, and how far it has been dealt with. Checksums run over it in large stretches rather
/// than entry by entry.
struct Piece<'a> {
    bytes: &'a [u8],
    /// The offset of the piece in the pack.
    offset: u64,
    pos: usize,
    crc32_from: usize,
    checksum_from: usize,
}

/// The beginning of a header or trailer that a piece cut through.
#[derive(Debug, Default)]
struct Carry {
    bytes: Vec<u8>,
}

/// Whether there is something to go on with.
enum Step {
    Next,
    NeedsInput,
    Over(ObjectId),
}

impl<I: Inflate + Default> Machine<I> {
    pub(super) fn new(hash: HashKind, limits: &Limits) -> Self {
        Self {
            hash,
            bounds: Bounds::new(limits),
            state: State::PackHeader,
            began: 0,
            entries: 0,
            entries_left: 0,
            inflated_bytes: 0,
            carry: Carry::default(),
            crc32: crc32fast::Hasher::new(),
            checksum: Checksum::new(hash),
            inflater: Inflater::default(),
            buffer: ObjectBuffer::default(),
        }
    }

    pub(super) fn began(&self) -> u64 {
        self.began
    }

    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    pub(super) fn entries_left(&self) -> u32 {
        self.entries_left
    }

    pub(super) fn inflated_bytes(&self) -> u64 {
        self.inflated_bytes
    }

    /// Parses `bytes`, which lie at `offset` of the pack. Returns how many were consumed, and the
    /// trailer once it is verified. Must not be called again after that, or after an error.
    pub(super) fn advance<V: PackVisitor>(
        &mut self,
        offset: u64,
        bytes: &[u8],
        visitor: &mut V,
    ) -> Result<(usize, Option<ObjectId>), Stop<V::Error>> {
        let mut piece = Piece { bytes, offset, pos: 0, crc32_from: 0, checksum_from: 0 };
        loop {
            let step = match self.state {
                State::PackHeader => self.pack_header(&mut piece, visitor)?,
                State::EntryHeader => self.entry_header(&mut piece, visitor)?,
                State::Content(delivery) => self.content(delivery, &mut piece, visitor)?,
                State::Trailer => self.trailer(&mut piece)?,
            };
            match step {
                Step::Next => {}
                Step::NeedsInput => {
                    self.suspend(&piece);
                    return Ok((piece.pos, None));
                }
                Step::Over(checksum) => return Ok((piece.pos, Some(checksum))),
            }
        }
    }

    fn pack_header<V: PackVisitor>(
        &mut self,
        piece: &mut Piece<'_>,
        visitor: &mut V,
    ) -> Result<Step, Stop<V::Error>> {
        let Some(bytes) = self.carry.complete(piece, PackHeader::BYTES) else {
            return Ok(Step::NeedsInput);
        };
        let header = bytes.first_chunk().ok_or(HeaderError::Signature)?;
        let header = PackHeader::decode(header)?;
        let limit = self.bounds.objects;
        if u64::from(header.count) > limit.value {
            return Err(PackFault::TooManyObjects { count: header.count, limit }.into());
        }
        visitor.header(header).map_err(Stop::Visitor)?;
        self.carry.bytes.clear();
        self.entries_left = header.count;
        self.next_entry(piece);
        Ok(Step::Next)
    }

    fn entry_header<V: PackVisitor>(
        &mut self,
        piece: &mut Piece<'_>,
        visitor: &mut V,
    ) -> Result<Step, Stop<V::Error>> {
        let Some((header, len)) = self.carry.entry_header(piece, self.hash, self.began)? else {
            return Ok(Step::NeedsInput);
        };
        let declared = header.size;
        if declared > self.bounds.object.value {
            return Err(PackFault::ObjectTooLarge { declared, limit: self.bounds.object }.into());
        }
        match self.inflated_bytes.checked_add(declared) {
            Some(sum) if sum <= self.bounds.inflated.value => self.inflated_bytes = sum,
            _ => return Err(PackFault::InflatedTooLarge { limit: self.bounds.inflated }.into()),
        }
        let start = EntryStart { offset: self.began, header, header_len: len };
        let delivery = visitor.entry(&start).map_err(Stop::Visitor)?;
        self.inflater.begin(declared);
        self.state = State::Content(delivery);
        Ok(Step::Next)
    }

    fn content<V: PackVisitor>(
        &mut self,
        delivery: Delivery,
        piece: &mut Piece<'_>,
        visitor: &mut V,
    ) -> Result<Step, Stop<V::Error>> {
        let rest = piece.rest();
        if rest.is_empty() {
            return Ok(Step::NeedsInput);
        }
        let progress = match delivery {
            Delivery::Whole => self.inflater.whole(rest, &mut self.buffer)?,
            Delivery::Chunks => {
                self.inflater.chunks(rest, |chunk| visitor.chunk(chunk).map_err(Stop::Visitor))?
            }
        };
        piece.pos += progress.consumed;
        if !progress.done {
            return Ok(Step::NeedsInput);
        }
        if delivery == Delivery::Whole {
            visitor.whole(&self.buffer).map_err(Stop::Visitor)?;
            self.buffer.clear();
        }
        let end =
            EntryEnd { offset: self.began, end: piece.place(), crc32: self.take_crc32(piece) };
        self.entries += 1;
        self.entries_left = self.entries_left.saturating_sub(1);
        visitor.end(&end).map_err(Stop::Visitor)?;
        self.next_entry(piece);
        Ok(Step::Next)
    }

    fn trailer<E>(&mut self, piece: &mut Piece<'_>) -> Result<Step, Stop<E>> {
        let Some(bytes) = self.carry.complete(piece, self.hash.len_in_bytes()) else {
            return Ok(Step::NeedsInput);
        };
        let actual = self.checksum.clone().finish();
        if bytes == actual.as_slice() {
            return Ok(Step::Over(actual));
        }
        let mut expected = ObjectId::null(self.hash);
        expected.as_mut_slice().copy_from_slice(bytes);
        Err(PackFault::Checksum { expected, actual }.into())
    }

    /// Goes on to the entry, or the trailer, that begins where `piece` stands.
    fn next_entry(&mut self, piece: &mut Piece<'_>) {
        self.began = piece.place();
        piece.crc32_from = piece.pos;
        if self.entries_left > 0 {
            self.state = State::EntryHeader;
        } else {
            self.checksum.update(piece.since(piece.checksum_from));
            self.state = State::Trailer;
        }
    }

    /// Takes what the checksums have not seen of `piece`, before it goes.
    fn suspend(&mut self, piece: &Piece<'_>) {
        match self.state {
            State::PackHeader => self.checksum.update(piece.since(piece.checksum_from)),
            State::EntryHeader | State::Content(_) => {
                self.crc32.update(piece.since(piece.crc32_from));
                self.checksum.update(piece.since(piece.checksum_from));
            }
            State::Trailer => {}
        }
    }

    fn take_crc32(&mut self, piece: &Piece<'_>) -> u32 {
        self.crc32.update(piece.since(piece.crc32_from));
        let crc32 = self.crc32.clone().finalize();
        self.crc32.reset();
        crc32
    }
}

impl Bounds {
    fn new(limits: &Limits) -> Self {
        let bytes = |name, value| Limit { name, value, unit: "bytes" };
        Self {
            objects: Limit { name: "objects_max", value: limits.objects_max, unit: "objects" },
            object: bytes("object_bytes_max", limits.object_bytes_max),
            inflated: bytes("inflated_bytes_max", limits.inflated_bytes_max),
        }
    }
}

impl<'a> Piece<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }

    fn since(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..self.pos).unwrap_or_default()
    }

    /// The offset in the pack of what is to be parsed next.
    fn place(&self) -> u64 {
        self.offset + self.pos as u64
    }
}

impl Carry {
    /// The next `len` bytes, once that many have come; consumes what there is of them.
    fn complete(&mut self, piece: &mut Piece<'_>, len: usize) -> Option<&[u8]> {
        let rest = piece.rest();
        let take = len.saturating_sub(self.bytes.len()).min(rest.len());
        self.bytes.extend_from_slice(rest.get(..take).unwrap_or_default());
        piece.pos += take;
        (self.bytes.len() == len).then_some(&self.bytes)
    }

    /// The entry header that begins here, and its length, once all of it has come; consumes what
    /// there is of it.
    fn entry_header(
        &mut self,
        piece: &mut Piece<'_>,
        hash: HashKind,
        offset: u64,
    ) -> Result<Option<(EntryHeader, u8)>, EntryError> {
        let rest = piece.rest();
        let carried = self.bytes.len();
        let decoded = if carried == 0 {
            EntryHeader::decode(rest, hash, offset)?
        } else {
            let more = EntryHeader::BYTES_MAX.saturating_sub(carried).min(rest.len());
            self.bytes.extend_from_slice(rest.get(..more).unwrap_or_default());
            EntryHeader::decode(&self.bytes, hash, offset)?
        };
        match decoded {
            Decoded::Complete(header, len) => {
                piece.pos += usize::from(len).saturating_sub(carried);
                self.bytes.clear();
                Ok(Some((header, len)))
            }
            Decoded::Incomplete => {
                if carried == 0 {
                    self.bytes.extend_from_slice(rest);
                }
                piece.pos = piece.bytes.len();
                Ok(None)
            }
        }
    }
}

impl<E, F: Into<PackFault>> From<F> for Stop<E> {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}
