//! Pass one: the pack is read, parsed and stored while it arrives.

use super::context::Context;
use super::error::IngestError;
use super::options::Surplus;
use super::pace::Pace;
use super::spool::Spool;
use super::visitor::{Arrivals, Arrived};
use crate::model::{Limit, Limits};
use crate::pack::inflate::Sirocco;
use crate::pack::parser::{PackEnd, PackParser};
use std::io::{self, Read};
use std::thread;
use std::time::Instant;

/// A pack whose bytes have all come.
#[derive(Debug)]
pub(super) struct Received<'d> {
    /// The bytes.
    pub(super) spool: Spool<'d>,
    /// Length, count and trailer.
    pub(super) end: PackEnd,
    /// What was found in it.
    pub(super) arrived: Arrived,
}

impl Received<'_> {
    /// Where the trailer begins.
    pub(super) fn body_end(&self) -> u64 {
        self.end.bytes.saturating_sub(self.end.checksum.as_slice().len() as u64)
    }

    /// An error if objects that come from this pack may not have so many bytes together.
    pub(super) fn check_expansion(&self, bytes: u64, limits: &Limits) -> Result<(), IngestError> {
        let pack_bytes = self.end.bytes;
        let value = limits.inflated_bytes_max;
        if bytes > value {
            let limit = Limit { name: "inflated_bytes_max", value, unit: "bytes" };
            return Err(IngestError::InflatedTooLarge { limit });
        }
        if bytes > limits.expanded_bytes_max(pack_bytes) {
            let limit = limits.expansion_ratio();
            return Err(IngestError::ExpandsTooFar { expanded_bytes: bytes, pack_bytes, limit });
        }
        Ok(())
    }
}

/// Reads a pack from `input` and stops behind it, as far as the input allows.
pub(super) fn receive<'d>(
    input: &mut dyn Read,
    context: Context<'d>,
) -> Result<Received<'d>, IngestError> {
    let mut spool = Spool::new(context.destination);
    let (end, arrived) = thread::scope(|scope| {
        let mut arrivals = Arrivals::new(context, scope);
        let end = read_pack(input, &mut spool, &mut arrivals, context)?;
        spool.settle()?;
        arrivals.finish().map(|arrived| (end, arrived))
    })?;
    Ok(Received { spool, end, arrived })
}

fn read_pack(
    input: &mut dyn Read,
    spool: &mut Spool<'_>,
    arrivals: &mut Arrivals<'_, '_>,
    context: Context<'_>,
) -> Result<PackEnd, IngestError> {
    let options = context.options;
    let mut parser = PackParser::<Sirocco>::new(options.hash, &options.limits);
    if options.input_bytes_max > 0 {
        let (name, value) = ("receive.maxInputSize", options.input_bytes_max);
        parser = parser.with_pack_limit(Limit { name, value, unit: "bytes" });
    }
    let mut pace = Pace::default();
    loop {
        context.check_on()?;
        let (room, began) = (spool.room()?, Instant::now());
        let len = read(input, room)?;
        if len == 0 {
            break;
        }
        let is_waited_for = context.memory.keeps_others_waiting();
        if is_waited_for && !pace.keeps_up(len, began.elapsed()) {
            let limit = options.limits.push_memory_bytes();
            return Err(IngestError::TooSlow { limit });
        }
        let fed = parser.feed(spool.arrived(len), arrivals)?;
        spool.advance(fed.consumed);
        arrivals.flush();
        if fed.done {
            check_end(input, fed.consumed == len, options.surplus, spool.len())?;
            break;
        }
    }
    Ok(parser.finish()?)
}

/// An error if anything follows a pack that has ended at `offset`, with the bytes of the last read
/// if `is_all`.
pub(super) fn check_end(
    input: &mut dyn Read,
    is_all: bool,
    surplus: Surplus,
    offset: u64,
) -> Result<(), IngestError> {
    if is_all && (surplus == Surplus::Leave || read(input, &mut [0])? == 0) {
        return Ok(());
    }
    Err(IngestError::Surplus { offset })
}

/// What one read brings; 0 at the end of the input.
pub(super) fn read(input: &mut dyn Read, room: &mut [u8]) -> Result<usize, IngestError> {
    loop {
        match input.read(room) {
            Ok(len) => return Ok(len),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(IngestError::Input(error)),
        }
    }
}
