//! The parser as its caller sees it.

use super::error::{PackError, PackFault};
use super::machine::{Machine, Stop};
use super::visitor::PackVisitor;
use crate::model::{HashKind, Limit, Limits, ObjectId};
use crate::pack::inflate::{Inflate, Sirocco};

/// Parses one pack, fed in pieces of any size.
///
/// Give [`feed`](Self::feed) the bytes in order until it says that the pack is done, then ask
/// [`finish`](Self::finish) what it was; or ask earlier, when the input has ended, for the error
/// that says so. Large pieces, 64 KiB and more, are parsed fastest.
#[derive(Debug)]
pub struct PackParser<I = Sirocco> {
    machine: Machine<I>,
    pack_limit: Limit,
    /// Bytes consumed so far.
    offset: u64,
    outcome: Option<Result<ObjectId, PackError>>,
}

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes of the piece that belong to the pack: all of them, unless it is done.
    pub consumed: usize,
    /// Whether the pack is complete, its trailer verified. Nothing has to be read behind it.
    pub done: bool,
}

/// A complete pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackEnd {
    /// Its length, trailer included.
    pub bytes: u64,
    /// Its entries.
    pub entries: u32,
    /// Bytes that its entries inflate to, with deltas counted as such.
    pub inflated_bytes: u64,
    /// Its trailer.
    pub checksum: ObjectId,
}

impl<I: Inflate + Default> PackParser<I> {
    /// Starts a parser for a repository of `hash` that keeps to `pack_bytes_max`, `objects_max`,
    /// `object_bytes_max` and `inflated_bytes_max` of `limits`.
    pub fn new(hash: HashKind, limits: &Limits) -> Self {
        let pack_limit =
            Limit { name: "pack_bytes_max", value: limits.pack_bytes_max, unit: "bytes" };
        Self { machine: Machine::new(hash, limits), pack_limit, offset: 0, outcome: None }
    }

    /// Bounds the bytes of the pack by `limit` too, such as `receive.maxInputSize` of a
    /// repository, if it is the lower one.
    #[must_use]
    pub fn with_pack_limit(mut self, limit: Limit) -> Self {
        if limit.value < self.pack_limit.value {
            self.pack_limit = limit;
        }
        self
    }

    /// Bytes of the pack consumed so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Parses the next bytes of the pack.
    ///
    /// Consumes all of them unless the pack is done; what lies behind its trailer is left alone
    /// and for the caller to judge. After an error every further call gives it again, or
    /// [`PackFault::Stopped`] after one of the visitor.
    pub fn feed<V: PackVisitor>(&mut self, bytes: &[u8], visitor: &mut V) -> Result<Fed, V::Error> {
        match self.outcome {
            Some(Ok(_)) => return Ok(Fed { consumed: 0, done: true }),
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        let room = self.pack_limit.value.saturating_sub(self.offset);
        let allowed = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        let input = bytes.get(..allowed).unwrap_or_default();
        let (consumed, checksum) = match self.machine.advance(self.offset, input, visitor) {
            Ok(advanced) => advanced,
            Err(Stop::Fault(fault)) => {
                return Err(self.fail(self.machine.began(), fault).into());
            }
            Err(Stop::Visitor(error)) => {
                self.fail(self.machine.began(), PackFault::Stopped);
                return Err(error);
            }
        };
        self.offset += consumed as u64;
        if let Some(checksum) = checksum {
            self.outcome = Some(Ok(checksum));
        } else if allowed < bytes.len() {
            let fault = PackFault::PackTooLarge { limit: self.pack_limit };
            return Err(self.fail(self.offset, fault).into());
        }
        Ok(Fed { consumed, done: checksum.is_some() })
    }

    /// What the pack was, or the error that it is not complete.
    pub fn finish(&self) -> Result<PackEnd, PackError> {
        match self.outcome {
            Some(Ok(checksum)) => Ok(PackEnd {
                bytes: self.offset,
                entries: self.machine.entries(),
                inflated_bytes: self.machine.inflated_bytes(),
                checksum,
            }),
            Some(Err(error)) => Err(error),
            None => {
                let fault = PackFault::Truncated { entries_left: self.machine.entries_left() };
                Err(PackError { offset: self.offset, fault })
            }
        }
    }

    fn fail(&mut self, offset: u64, fault: PackFault) -> PackError {
        let error = PackError { offset, fault };
        self.outcome = Some(Err(error));
        error
    }
}
