//! Deltas: an object told as copies from a base and insertions.
//!
//! Reads and applies what gitformat-pack calls "deltified representation". Every bound is checked;
//! a delta that git's `patch_delta` refuses is refused too, and the other way around. Nothing is
//! allocated from a declared size before the instructions prove it.

use super::entry::push_bits;
use std::ops::Range;

/// The two sizes that a delta begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaHeader {
    /// Bytes of the base that the delta was made against.
    pub base_size: u64,
    /// Bytes of the object that it makes.
    pub result_size: u64,
}

/// One step in the making of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction<'a> {
    /// Bytes of the base; the range lies within it and is not empty.
    Copy(Range<usize>),
    /// Bytes of the delta itself, at least one.
    Insert(&'a [u8]),
}

/// Why a delta is not valid, or not one against this base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// It ends within its header, or within an instruction; or it is shorter than the four bytes
    /// below which git reads none.
    #[error("truncated delta")]
    Truncated,
    /// A size does not fit 64 bits.
    #[error("delta declares a size that does not fit 64 bits")]
    SizeOverflow,
    /// It was made against a base of another size.
    #[error("delta is against a base of {declared} bytes, not of {actual}")]
    BaseSize {
        /// What the delta says.
        declared: u64,
        /// What the base has.
        actual: u64,
    },
    /// The instruction of code 0 is reserved.
    #[error("delta has an instruction of code 0")]
    Reserved,
    /// A copy reaches beyond the end of the base.
    #[error("delta copies {len} bytes at {offset} from a base of {base_size}")]
    CopyOutOfBounds {
        /// Where the copy begins.
        offset: u64,
        /// How long it is.
        len: u64,
        /// Bytes of the base.
        base_size: u64,
    },
    /// The instructions make more or less than was declared.
    #[error("delta makes an object of another size than the {declared} bytes it declares")]
    ResultSize {
        /// What the delta says.
        declared: u64,
    },
    /// The object would be larger than its caller allows.
    #[error("delta makes an object of {declared} bytes, more than the {max} allowed")]
    ResultTooLarge {
        /// What the delta says.
        declared: u64,
        /// The bound that was given.
        max: u64,
    },
}

/// Reads a delta's header from the start of a delta, or of as much of it as there is.
///
/// [`DeltaError::Truncated`] for fewer bytes than the header has: twenty are always enough.
pub fn header(delta: &[u8]) -> Result<DeltaHeader, DeltaError> {
    split_header(delta).map(|(header, _)| header)
}

/// The instructions of a delta, in order, each checked against a base of `base_size` bytes.
///
/// Their sum is not checked: see [`apply`] for that. Ends after the first error.
pub fn instructions(delta: &[u8], base_size: usize) -> Result<Instructions<'_>, DeltaError> {
    let (_, rest) = split_header(delta)?;
    Ok(Instructions { rest, base_size })
}

/// Makes the object that `delta` tells from `base` into `out`, replacing its content.
///
/// `result_bytes_max` bounds the object. With an error the content of `out` is unspecified, but
/// never larger than that.
pub fn apply(
    base: &[u8],
    delta: &[u8],
    result_bytes_max: u64,
    out: &mut Vec<u8>,
) -> Result<(), DeltaError> {
    out.clear();
    if delta.len() < DELTA_BYTES_MIN {
        return Err(DeltaError::Truncated);
    }
    let (DeltaHeader { base_size, result_size }, rest) = split_header(delta)?;
    if base_size != base.len() as u64 {
        return Err(DeltaError::BaseSize { declared: base_size, actual: base.len() as u64 });
    }
    if result_size > result_bytes_max {
        return Err(DeltaError::ResultTooLarge { declared: result_size, max: result_bytes_max });
    }
    let wrong_size = DeltaError::ResultSize { declared: result_size };
    let result_size = usize::try_from(result_size).map_err(|_| wrong_size)?;
    let steps = Instructions { rest, base_size: base.len() };
    if result_size > TRUSTED_BYTES_MAX {
        let mut sum = 0usize;
        for step in steps.clone() {
            sum = sum.saturating_add(step?.len());
        }
        if sum != result_size {
            return Err(wrong_size);
        }
    }
    out.reserve(result_size);
    for step in steps {
        let bytes = match step? {
            Instruction::Copy(range) => base.get(range).unwrap_or_default(),
            Instruction::Insert(bytes) => bytes,
        };
        if bytes.len() > result_size - out.len() {
            return Err(wrong_size);
        }
        out.extend_from_slice(bytes);
    }
    if out.len() == result_size { Ok(()) } else { Err(wrong_size) }
}

impl Instruction<'_> {
    /// Bytes that the instruction adds to the object.
    pub fn len(&self) -> usize {
        match self {
            Self::Copy(range) => range.len(),
            Self::Insert(bytes) => bytes.len(),
        }
    }

    /// Whether it adds nothing; never for one that was read from a delta.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The iterator that [`instructions`] makes.
#[derive(Clone, Debug)]
pub struct Instructions<'a> {
    rest: &'a [u8],
    base_size: usize,
}

/// git's `DELTA_SIZE_MIN`: a shorter delta could only make an empty object, and git refuses it.
pub(super) const DELTA_BYTES_MIN: usize = 4;

/// A result of up to this size is allocated on the delta's word; for a larger one the
/// instructions are added up first.
const TRUSTED_BYTES_MAX: usize = 64 << 10;

/// A copy of length 0 means this one.
const COPY_BYTES_DEFAULT: usize = 0x1_0000;

impl<'a> Iterator for Instructions<'a> {
    type Item = Result<Instruction<'a>, DeltaError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&code, rest) = self.rest.split_first()?;
        let step = match code {
            0 => Err(DeltaError::Reserved),
            code if code & 0x80 != 0 => self.copy(code, rest),
            len => match rest.split_at_checked(len.into()) {
                Some((bytes, rest)) => {
                    self.rest = rest;
                    Ok(Instruction::Insert(bytes))
                }
                None => Err(DeltaError::Truncated),
            },
        };
        if step.is_err() {
            self.rest = &[];
        }
        Some(step)
    }
}

impl<'a> Instructions<'a> {
    /// Reads the operands of a copy: a byte for each of the code's low bits that is set, four of
    /// offset and three of length, the lowest first.
    fn copy(&mut self, code: u8, mut rest: &'a [u8]) -> Result<Instruction<'a>, DeltaError> {
        let mut operands = [0u8; 7];
        for (bit, operand) in operands.iter_mut().enumerate() {
            if code >> bit & 1 != 0 {
                let (&byte, tail) = rest.split_first().ok_or(DeltaError::Truncated)?;
                *operand = byte;
                rest = tail;
            }
        }
        self.rest = rest;
        let [o0, o1, o2, o3, l0, l1, l2] = operands;
        let offset = u32::from_le_bytes([o0, o1, o2, o3]);
        let mut len = u32::from_le_bytes([l0, l1, l2, 0]) as usize;
        if len == 0 {
            len = COPY_BYTES_DEFAULT;
        }
        let start = offset as usize;
        match start.checked_add(len) {
            Some(end) if end <= self.base_size => Ok(Instruction::Copy(start..end)),
            _ => Err(DeltaError::CopyOutOfBounds {
                offset: offset.into(),
                len: len as u64,
                base_size: self.base_size as u64,
            }),
        }
    }
}

fn split_header(delta: &[u8]) -> Result<(DeltaHeader, &[u8]), DeltaError> {
    let (base_size, rest) = split_size(delta)?;
    let (result_size, rest) = split_size(rest)?;
    Ok((DeltaHeader { base_size, result_size }, rest))
}

/// Seven bits in each byte, the lowest first.
fn split_size(bytes: &[u8]) -> Result<(u64, &[u8]), DeltaError> {
    let mut size = 0;
    let mut shift = 0;
    let mut rest = bytes;
    loop {
        let (&byte, tail) = rest.split_first().ok_or(DeltaError::Truncated)?;
        rest = tail;
        size = push_bits(size, byte, shift).ok_or(DeltaError::SizeOverflow)?;
        if byte & 0x80 == 0 {
            return Ok((size, rest));
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A delta written down with no thought for its meaning.
    fn encode(base_size: u64, result_size: u64, steps: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
        let mut delta = Vec::new();
        for mut size in [base_size, result_size] {
            while size >= 0x80 {
                delta.push(size.to_le_bytes()[0] | 0x80);
                size >>= 7;
            }
            delta.push(size.to_le_bytes()[0]);
        }
        for (offset, len, insert) in steps {
            if insert.is_empty() {
                let operands = [&offset.to_le_bytes()[..], &len.to_le_bytes()[..3]].concat();
                let mut code = 0x80;
                let mut tail = Vec::new();
                for (bit, byte) in operands.into_iter().enumerate() {
                    if byte != 0 {
                        code |= 1 << bit;
                        tail.push(byte);
                    }
                }
                delta.push(code);
                delta.extend(tail);
            } else {
                delta.push(u8::try_from(insert.len()).unwrap());
                delta.extend(insert);
            }
        }
        delta
    }

    fn result_of(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, DeltaError> {
        let mut out = b"left over".to_vec();
        apply(base, delta, 1 << 30, &mut out)?;
        Ok(out)
    }

    fn insert(bytes: &[u8]) -> (u32, u32, Vec<u8>) {
        (0, 0, bytes.to_vec())
    }

    proptest! {
        #[test]
        fn the_object_is_what_a_plain_reading_of_the_steps_makes(
            base in prop::collection::vec(any::<u8>(), 1..70_000),
            steps in prop::collection::vec(
                prop_oneof![
                    (any::<u32>(), any::<u32>()).prop_map(|(at, len)| (at, len, Vec::new())),
                    prop::collection::vec(any::<u8>(), 3..128).prop_map(|bytes| (0, 0, bytes)),
                ],
                1..40,
            ),
        ) {
            let mut expected = Vec::new();
            let steps: Vec<_> = steps.into_iter().map(|(at, len, bytes)| {
                if bytes.is_empty() {
                    let start = at as usize % base.len();
                    let len = len as usize % (base.len() - start) + 1;
                    expected.extend_from_slice(&base[start..start + len]);
                    (u32::try_from(start).unwrap(), u32::try_from(len).unwrap(), bytes)
                } else {
                    expected.extend_from_slice(&bytes);
                    (0, 0, bytes)
                }
            }).collect();
            let delta = encode(base.len() as u64, expected.len() as u64, &steps);
            prop_assert_eq!(result_of(&base, &delta), Ok(expected.clone()));
            let sum: usize = instructions(&delta, base.len())
                .unwrap()
                .map(|step| step.unwrap().len())
                .sum();
            prop_assert_eq!(sum, expected.len());

            for declared in [expected.len() as u64 - 1, expected.len() as u64 + 1] {
                let delta = encode(base.len() as u64, declared, &steps);
                prop_assert_eq!(
                    result_of(&base, &delta),
                    Err(DeltaError::ResultSize { declared })
                );
            }
        }

        #[test]
        fn damage_never_panics_and_never_makes_an_object_of_another_size(
            base in prop::collection::vec(any::<u8>(), 0..100),
            noise in prop::collection::vec(any::<u8>(), 0..60),
            declared in 0u64..300,
        ) {
            let _ = result_of(&base, &noise);
            let mut delta = encode(base.len() as u64, declared, &[]);
            delta.extend(noise);
            if let Ok(object) = result_of(&base, &delta) {
                prop_assert_eq!(object.len() as u64, declared);
            }
        }
    }

    #[test]
    fn a_copy_of_length_0_is_one_of_64_kib() {
        let base: Vec<u8> = (0..70_000u32).map(|n| n.to_le_bytes()[1]).collect();
        let delta = encode(70_000, 0x1_0000, &[(5, 0, Vec::new())]);
        assert_eq!(result_of(&base, &delta).unwrap(), base[5..5 + 0x1_0000]);
    }

    #[test]
    fn copies_stay_within_the_base() {
        for (offset, len) in [(0, 5), (4, 1), (u32::MAX, 1), (0, 0), (2, 0x00ff_ffff)] {
            let delta = encode(4, 100, &[(offset, len, Vec::new()), insert(b"abc")]);
            let error = result_of(b"base", &delta).unwrap_err();
            assert!(matches!(error, DeltaError::CopyOutOfBounds { base_size: 4, .. }), "{error}");
        }
    }

    #[test]
    fn a_base_of_another_size_is_refused() {
        let delta = encode(5, 4, &[insert(b"four")]);
        let expected = DeltaError::BaseSize { declared: 5, actual: 4 };
        assert_eq!(result_of(b"base", &delta), Err(expected));
    }

    #[test]
    fn the_reserved_instruction_is_refused() {
        let mut delta = encode(4, 4, &[insert(b"abcd")]);
        delta.push(0);
        assert_eq!(result_of(b"base", &delta), Err(DeltaError::Reserved));
    }

    #[test]
    fn every_prefix_of_a_delta_is_refused() {
        let delta = encode(200, 6, &[(100, 3, Vec::new()), insert(b"abc")]);
        for end in 0..delta.len() {
            assert!(result_of(&[1; 200], &delta[..end]).is_err(), "{end}");
        }
        assert!(result_of(&[1; 200], &delta).is_ok());
    }

    #[test]
    fn an_empty_object_cannot_be_told_as_a_delta_because_git_reads_none_so_short() {
        assert_eq!(result_of(b"base", &encode(4, 0, &[])), Err(DeltaError::Truncated));
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let delta = [&[0x80; 9][..], &[0x02, 0x04, 0, 0]].concat();
        assert_eq!(header(&delta), Err(DeltaError::SizeOverflow));
        assert_eq!(header(&[0x80; 30]), Err(DeltaError::SizeOverflow));
        let delta = [&[0x80; 9][..], &[0x01, 0x04]].concat();
        let expected = DeltaHeader { base_size: 1 << 63, result_size: 4 };
        assert_eq!(header(&delta), Ok(expected));
    }

    #[test]
    fn a_large_declared_size_allocates_nothing_before_the_steps_prove_it() {
        let delta = encode(4, 1 << 40, &[insert(b"abc")]);
        let mut out = Vec::new();
        let error = apply(b"base", &delta, u64::MAX, &mut out).unwrap_err();
        assert_eq!(error, DeltaError::ResultSize { declared: 1 << 40 });
        assert_eq!(out.capacity(), 0);
    }

    #[test]
    fn the_bound_of_the_caller_is_kept_to_the_byte() {
        let delta = encode(4, 6, &[insert(b"abcdef")]);
        let mut out = Vec::new();
        assert_eq!(apply(b"base", &delta, 6, &mut out), Ok(()));
        let expected = DeltaError::ResultTooLarge { declared: 6, max: 5 };
        assert_eq!(apply(b"base", &delta, 5, &mut out), Err(expected));
    }
}
