//! Reading the instructions of a delta that is too large to be held in memory.
//!
//! Gives the verdicts of [`delta::apply`](crate::pack::delta::apply), for any split of the bytes,
//! though not always at the same place: a wrong sum shows only at the end.

use crate::pack::delta::{DeltaError, DeltaHeader};

/// A step of a delta that comes in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// Bytes of the base, which lie within it.
    Copy {
        /// Where they begin.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Bytes of the delta, or some of them.
    Insert(&'a [u8]),
}

/// Decodes instructions as they come.
#[derive(Debug)]
pub(super) struct DeltaStream {
    state: State,
    header: DeltaHeader,
    base_size: u64,
    delta_bytes: u64,
    produced: u64,
}

#[derive(Debug)]
enum State {
    BaseSize(Size),
    ResultSize(Size),
    Code,
    Copy { code: u8, next_bit: u32, operands: [u8; 7] },
    Insert { left: usize },
}

#[derive(Debug, Default)]
struct Size {
    value: u64,
    shift: u32,
}

impl DeltaStream {
    /// Starts a delta against a base of `base_size` bytes.
    pub(super) fn new(base_size: u64) -> Self {
        Self {
            state: State::BaseSize(Size::default()),
            header: DeltaHeader { base_size: 0, result_size: 0 },
            base_size,
            delta_bytes: 0,
            produced: 0,
        }
    }

    /// Takes the next bytes of the delta and hands the steps in them to `sink`.
    pub(super) fn feed<E: From<DeltaError>>(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(Step<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.delta_bytes += bytes.len() as u64;
        let mut rest = bytes;
        while let Some((&byte, tail)) = rest.split_first() {
            match &mut self.state {
                State::BaseSize(size) => {
                    if size.push(byte)? {
                        self.header.base_size = size.value;
                        self.check_base()?;
                        self.state = State::ResultSize(Size::default());
                    }
                    rest = tail;
                }
                State::ResultSize(size) => {
                    if size.push(byte)? {
                        self.header.result_size = size.value;
                        self.state = State::Code;
                    }
                    rest = tail;
                }
                State::Code => {
                    self.state = match byte {
                        0 => return Err(DeltaError::Reserved.into()),
                        code if code & 0x80 != 0 => {
                            State::Copy { code, next_bit: 0, operands: [0; 7] }
                        }
                        len => State::Insert { left: len.into() },
                    };
                    rest = tail;
                    self.finish_copy(&mut sink)?;
                }
                State::Copy { code, next_bit, operands } => {
                    while *code >> *next_bit & 1 == 0 {
                        *next_bit += 1;
                    }
                    if let Some(operand) = operands.get_mut(*next_bit as usize) {
                        *operand = byte;
                    }
                    *next_bit += 1;
                    rest = tail;
                    self.finish_copy(&mut sink)?;
                }
                State::Insert { left } => {
                    let (piece, tail) = rest.split_at((*left).min(rest.len()));
                    *left -= piece.len();
                    if *left == 0 {
                        self.state = State::Code;
                    }
                    self.produce(piece.len() as u64)?;
                    sink(Step::Insert(piece))?;
                    rest = tail;
                }
            }
        }
        Ok(())
    }

    /// Says that the delta is over.
    pub(super) fn finish(&self) -> Result<(), DeltaError> {
        match self.state {
            State::Code if self.delta_bytes >= DELTA_BYTES_MIN => self.produced_all(),
            _ => Err(DeltaError::Truncated),
        }
    }

    /// Ends a copy whose operands are all there.
    fn finish_copy<E: From<DeltaError>>(
        &mut self,
        sink: &mut impl FnMut(Step<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let State::Copy { code, next_bit, operands } = self.state else { return Ok(()) };
        if (code & 0x7f) >> next_bit != 0 {
            return Ok(());
        }
        let [o0, o1, o2, o3, l0, l1, l2] = operands;
        let offset = u64::from(u32::from_le_bytes([o0, o1, o2, o3]));
        let len = match u64::from(u32::from_le_bytes([l0, l1, l2, 0])) {
            0 => COPY_BYTES_DEFAULT,
            len => len,
        };
        if offset + len > self.base_size {
            let base_size = self.base_size;
            return Err(DeltaError::CopyOutOfBounds { offset, len, base_size }.into());
        }
        self.state = State::Code;
        self.produce(len)?;
        sink(Step::Copy { offset, len })
    }

    fn check_base(&self) -> Result<(), DeltaError> {
        let (declared, actual) = (self.header.base_size, self.base_size);
        if declared == actual { Ok(()) } else { Err(DeltaError::BaseSize { declared, actual }) }
    }

    fn produce(&mut self, len: u64) -> Result<(), DeltaError> {
        self.produced = self.produced.saturating_add(len);
        if self.produced > self.header.result_size {
            return Err(DeltaError::ResultSize { declared: self.header.result_size });
        }
        Ok(())
    }

    fn produced_all(&self) -> Result<(), DeltaError> {
        let declared = self.header.result_size;
        if self.produced == declared { Ok(()) } else { Err(DeltaError::ResultSize { declared }) }
    }
}

impl Size {
    /// Adds seven bits; true if they were the last ones.
    fn push(&mut self, byte: u8) -> Result<bool, DeltaError> {
        let bits = u64::from(byte & 0x7f);
        let shifted = bits.checked_shl(self.shift).filter(|value| value >> self.shift == bits);
        self.value |= shifted.ok_or(DeltaError::SizeOverflow)?;
        self.shift += 7;
        Ok(byte & 0x80 == 0)
    }
}

/// A shorter delta git does not read.
const DELTA_BYTES_MIN: u64 = 4;

/// A copy of length 0 means this one.
const COPY_BYTES_DEFAULT: u64 = 0x1_0000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::delta;
    use crate::pack::writer::encode_delta;
    use proptest::prelude::*;
    use proptest::sample::Index;

    fn apply(base: &[u8], delta: &[u8], cuts: &[Index]) -> Result<Vec<u8>, DeltaError> {
        let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(delta.len() + 1)).collect();
        places.extend([0, delta.len()]);
        places.sort_unstable();
        let mut stream = DeltaStream::new(base.len() as u64);
        let mut out = Vec::new();
        for pair in places.windows(2) {
            stream.feed(&delta[pair[0]..pair[1]], |step| {
                match step {
                    Step::Copy { offset, len } => {
                        let start = usize::try_from(offset).unwrap();
                        let end = start + usize::try_from(len).unwrap();
                        out.extend_from_slice(&base[start..end]);
                    }
                    Step::Insert(bytes) => out.extend_from_slice(bytes),
                }
                Ok::<_, DeltaError>(())
            })?;
        }
        stream.finish().map(|()| out)
    }

    proptest! {
        #[test]
        fn any_split_makes_what_the_whole_delta_makes(
            start in prop::collection::vec(any::<u8>(), 0..70_000),
            middle in prop::collection::vec(any::<u8>(), 0..300),
            other in prop::collection::vec(any::<u8>(), 4..300),
            cuts in prop::collection::vec(any::<Index>(), 0..8),
        ) {
            let base = [&start[..], &middle, b"end"].concat();
            let result = [&start[..], &other, b"end"].concat();
            let delta = encode_delta(&base, &result).unwrap();
            prop_assert_eq!(apply(&base, &delta, &cuts), Ok(result));
        }

        #[test]
        fn the_verdict_is_that_of_the_whole_delta(
            base in prop::collection::vec(any::<u8>(), 0..100),
            sizes in (0u8..120, 0u8..120),
            noise in prop::collection::vec(
                prop_oneof![any::<u8>(), 0u8..4, Just(0x91)], 0..40),
            cuts in prop::collection::vec(any::<Index>(), 0..8),
            fits in any::<bool>(),
        ) {
            let base_size = if fits { u8::try_from(base.len()).unwrap() } else { sizes.0 };
            let delta = [&[base_size, sizes.1][..], &noise].concat();
            let mut whole = Vec::new();
            let verdict = delta::apply(&base, &delta, u64::MAX, &mut whole).map(|()| whole);
            prop_assert_eq!(apply(&base, &delta, &cuts).ok(), verdict.ok());
            prop_assert_eq!(
                apply(&base, &noise, &cuts).is_ok(),
                delta::apply(&base, &noise, u64::MAX, &mut Vec::new()).is_ok()
            );
        }
    }
}
