//! What stands before an object's data in a pack: its kind, its size, its base.

use super::header::PackHeader;
use crate::model::{HashKind, ObjectId, ObjectKind};

/// The header of one pack entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// Whole object or delta.
    pub kind: EntryKind,
    /// Bytes that the entry's stream inflates to, as declared: those of the object, or those of
    /// the delta instructions.
    pub size: u64,
}

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// An object as it is.
    Whole(ObjectKind),
    /// A delta against the entry that begins at an offset of the same pack.
    OfsDelta {
        /// Where the base begins; always before the delta itself.
        base_offset: u64,
    },
    /// A delta against an object named by id, in this pack, before or behind, or elsewhere.
    RefDelta {
        /// The base.
        base: ObjectId,
    },
}

/// A header read from the start of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The header and its length in bytes.
    Complete(EntryHeader, u8),
    /// The slice ends before the header does.
    Incomplete,
}

/// Why bytes are not an entry header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// A type that the format does not have.
    #[error("unknown object type {code}")]
    UnknownType {
        /// 0 or 5.
        code: u8,
    },
    /// The declared size does not fit 64 bits.
    #[error("object size does not fit 64 bits")]
    SizeOverflow,
    /// The distance to the base does not fit 64 bits.
    #[error("delta base distance does not fit 64 bits")]
    DistanceOverflow,
    /// The base would be the delta itself, or lie where no entry can.
    #[error("delta base offset is out of bounds: {distance} bytes before offset {offset}")]
    BaseOutOfBounds {
        /// Where the delta begins.
        offset: u64,
        /// How far before that its base is said to begin.
        distance: u64,
    },
}

impl EntryHeader {
    /// No header is longer: ten bytes for a type and a size, and the longest id.
    pub const BYTES_MAX: usize = 10 + 32;

    /// Reads the header of the entry that begins at `offset` of a pack from the start of `bytes`.
    ///
    /// Numbers may be written longer than they need to be, as for git, as long as they fit.
    pub fn decode(bytes: &[u8], hash: HashKind, offset: u64) -> Result<Decoded, EntryError> {
        let Some((code, size, size_len)) = decode_type_and_size(bytes)? else {
            return Ok(Decoded::Incomplete);
        };
        let rest = bytes.get(size_len..).unwrap_or_default();
        let (kind, base_len) = match code {
            OFS_DELTA => {
                let Some((distance, len)) = decode_distance(rest)? else {
                    return Ok(Decoded::Incomplete);
                };
                (EntryKind::OfsDelta { base_offset: base_offset(offset, distance)? }, len)
            }
            REF_DELTA => {
                let len = hash.len_in_bytes();
                let Some(base) = rest.get(..len).and_then(|id| ObjectId::try_from(id).ok()) else {
                    return Ok(Decoded::Incomplete);
                };
                (EntryKind::RefDelta { base }, len)
            }
            code => (EntryKind::Whole(whole_kind(code)?), 0),
        };
        // Below `BYTES_MAX`: 10 bytes of size at the most, 10 of distance, 32 of id.
        let len = u8::try_from(size_len + base_len).unwrap_or(u8::MAX);
        Ok(Decoded::Complete(Self { kind, size }, len))
    }

    /// Appends the header of an entry that begins at `offset` of a pack.
    ///
    /// The base of an [`EntryKind::OfsDelta`] must begin before `offset`; one that does not is
    /// written as a distance of 0, which no reader accepts.
    pub fn encode(&self, offset: u64, out: &mut Vec<u8>) {
        let code = match self.kind {
            EntryKind::Whole(ObjectKind::Commit) => 1,
            EntryKind::Whole(ObjectKind::Tree) => 2,
            EntryKind::Whole(ObjectKind::Blob) => 3,
            EntryKind::Whole(ObjectKind::Tag) => 4,
            EntryKind::OfsDelta { .. } => OFS_DELTA,
            EntryKind::RefDelta { .. } => REF_DELTA,
        };
        encode_type_and_size(code, self.size, out);
        match self.kind {
            EntryKind::Whole(_) => {}
            EntryKind::OfsDelta { base_offset } => {
                encode_distance(offset.saturating_sub(base_offset), out);
            }
            EntryKind::RefDelta { base } => out.extend_from_slice(base.as_slice()),
        }
    }
}

const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;

fn whole_kind(code: u8) -> Result<ObjectKind, EntryError> {
    match code {
        1 => Ok(ObjectKind::Commit),
        2 => Ok(ObjectKind::Tree),
        3 => Ok(ObjectKind::Blob),
        4 => Ok(ObjectKind::Tag),
        code => Err(EntryError::UnknownType { code }),
    }
}

/// The offset of a base, if an entry can begin there.
fn base_offset(offset: u64, distance: u64) -> Result<u64, EntryError> {
    match offset.checked_sub(distance) {
        Some(base) if distance > 0 && base >= PackHeader::BYTES as u64 => Ok(base),
        _ => Err(EntryError::BaseOutOfBounds { offset, distance }),
    }
}

/// Three bits of type and four of size in the first byte, then seven of size in each that follows,
/// the lowest first.
///
/// An unknown type is an error as soon as its byte is there, so that the verdict does not depend
/// on how much of the header has come.
fn decode_type_and_size(bytes: &[u8]) -> Result<Option<(u8, u64, usize)>, EntryError> {
    let Some(&first) = bytes.first() else {
        return Ok(None);
    };
    let code = (first >> 4) & 7;
    if !matches!(code, OFS_DELTA | REF_DELTA) {
        whole_kind(code)?;
    }
    let mut size = u64::from(first & 0x0f);
    let mut shift = 4;
    let mut len = 1;
    let mut byte = first;
    while byte & 0x80 != 0 {
        let Some(&next) = bytes.get(len) else {
            return Ok(None);
        };
        byte = next;
        size = push_bits(size, byte, shift).ok_or(EntryError::SizeOverflow)?;
        shift += 7;
        len += 1;
    }
    Ok(Some((code, size, len)))
}

/// Adds the low seven bits of `byte` at `shift`, if all of them fit 64 bits.
pub(super) fn push_bits(value: u64, byte: u8, shift: u32) -> Option<u64> {
    let bits = u64::from(byte & 0x7f);
    let shifted = bits.checked_shl(shift)?;
    (shifted >> shift == bits).then_some(value | shifted)
}

/// Seven bits in each byte, the highest first, with one added for each byte that is followed by
/// another, so that every number has one encoding.
fn decode_distance(bytes: &[u8]) -> Result<Option<(u64, usize)>, EntryError> {
    let mut distance = 0u64;
    for (index, &byte) in bytes.iter().enumerate() {
        if index > 0 {
            distance = distance
                .checked_add(1)
                .filter(|value| value.leading_zeros() >= 7)
                .ok_or(EntryError::DistanceOverflow)?;
        }
        distance = distance << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok(Some((distance, index + 1)));
        }
    }
    Ok(None)
}

fn encode_type_and_size(code: u8, size: u64, out: &mut Vec<u8>) {
    let mut byte = code << 4 | low_bits(size, 0x0f);
    let mut rest = size >> 4;
    while rest != 0 {
        out.push(byte | 0x80);
        byte = low_bits(rest, 0x7f);
        rest >>= 7;
    }
    out.push(byte);
}

fn encode_distance(distance: u64, out: &mut Vec<u8>) {
    let mut bytes = [0u8; 10];
    let mut start = bytes.len();
    let mut rest = distance;
    let mut continues = 0;
    for (index, byte) in bytes.iter_mut().enumerate().rev() {
        *byte = low_bits(rest, 0x7f) | continues;
        start = index;
        rest >>= 7;
        if rest == 0 {
            break;
        }
        rest -= 1;
        continues = 0x80;
    }
    out.extend_from_slice(bytes.get(start..).unwrap_or_default());
}

/// The bits of the lowest byte of `value` that `mask` has.
fn low_bits(value: u64, mask: u8) -> u8 {
    value.to_le_bytes()[0] & mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OFFSET: u64 = u64::MAX;

    fn decode(bytes: &[u8]) -> Result<Decoded, EntryError> {
        EntryHeader::decode(bytes, HashKind::Sha1, OFFSET)
    }

    fn any_kind(hash: HashKind) -> impl Strategy<Value = EntryKind> {
        prop_oneof![
            Just(EntryKind::Whole(ObjectKind::Commit)),
            Just(EntryKind::Whole(ObjectKind::Tree)),
            Just(EntryKind::Whole(ObjectKind::Blob)),
            Just(EntryKind::Whole(ObjectKind::Tag)),
            (12..OFFSET).prop_map(|base_offset| EntryKind::OfsDelta { base_offset }),
            (1u64..1 << 20).prop_map(|d| EntryKind::OfsDelta { base_offset: OFFSET - d }),
            prop::collection::vec(any::<u8>(), hash.len_in_bytes())
                .prop_map(|id| EntryKind::RefDelta { base: ObjectId::try_from(&id[..]).unwrap() }),
        ]
    }

    proptest! {
        #[test]
        fn headers_come_back_as_they_went_and_every_prefix_is_incomplete(
            (hash, kind) in prop_oneof![Just(HashKind::Sha1), Just(HashKind::Sha256)]
                .prop_flat_map(|hash| (Just(hash), any_kind(hash))),
            size in prop_oneof![any::<u64>(), 0u64..5000],
        ) {
            let header = EntryHeader { kind, size };
            let mut bytes = Vec::new();
            header.encode(OFFSET, &mut bytes);
            prop_assert!(bytes.len() <= EntryHeader::BYTES_MAX);
            for end in 0..bytes.len() {
                let got = EntryHeader::decode(&bytes[..end], hash, OFFSET);
                prop_assert_eq!(got, Ok(Decoded::Incomplete));
            }
            let len = bytes.len();
            bytes.push(0xff);
            let got = EntryHeader::decode(&bytes, hash, OFFSET);
            prop_assert_eq!(got, Ok(Decoded::Complete(header, u8::try_from(len).unwrap())));
        }

        #[test]
        fn any_bytes_give_a_verdict_that_more_bytes_do_not_change(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            offset in 0..u64::MAX,
        ) {
            let mut verdict = None;
            for end in 0..=bytes.len() {
                let got = EntryHeader::decode(&bytes[..end], HashKind::Sha256, offset);
                if let Some(verdict) = verdict {
                    prop_assert_eq!(got, verdict);
                } else if got != Ok(Decoded::Incomplete) {
                    prop_assert!(end <= EntryHeader::BYTES_MAX);
                    verdict = Some(got);
                }
            }
        }
    }

    #[test]
    fn types_0_and_5_are_unknown_whatever_their_size() {
        for code in [0, 5] {
            let unknown = Err(EntryError::UnknownType { code });
            assert_eq!(decode(&[code << 4 | 3]), unknown);
            assert_eq!(decode(&[0x80 | code << 4]), unknown);
        }
    }

    #[test]
    fn a_size_of_64_bits_fits_and_one_of_65_does_not() {
        let mut bytes = [0xff; 10];
        bytes[0] = 0xbf;
        bytes[9] = 0x0f;
        let EntryHeader { size, .. } = match decode(&bytes) {
            Ok(Decoded::Complete(header, 10)) => header,
            other => panic!("{other:?}"),
        };
        assert_eq!(size, u64::MAX);
        bytes[9] = 0x1f;
        assert_eq!(decode(&bytes), Err(EntryError::SizeOverflow));
    }

    #[test]
    fn a_size_that_never_ends_is_an_error() {
        let mut bytes = vec![0xb0];
        bytes.extend([0x80; 40]);
        assert_eq!(decode(&bytes), Err(EntryError::SizeOverflow));
    }

    #[test]
    fn a_distance_that_does_not_fit_is_an_error() {
        let mut bytes = vec![0x61];
        bytes.extend([0xff; 10]);
        assert_eq!(decode(&bytes), Err(EntryError::DistanceOverflow));
    }

    #[test]
    fn a_base_is_before_its_delta_and_behind_the_pack_header() {
        let at =
            |offset, distance: u8| EntryHeader::decode(&[0x61, distance], HashKind::Sha1, offset);
        for (offset, distance) in [(100, 0), (100, 101), (100, 89), (12, 1), (12, 12)] {
            assert_eq!(
                at(offset, distance),
                Err(EntryError::BaseOutOfBounds { offset, distance: distance.into() })
            );
        }
        assert!(at(100, 88).is_ok());
        assert!(at(13, 1).is_ok());
    }
}
