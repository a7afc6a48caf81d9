//! Step 3: the command list, off the input and into values.

use super::ReceiveError;
use super::packet_trace::Packets;
use crate::model::{ByteBudget, Limit, Limits, Share};
use crate::report::{Fault, Phase};
use crate::wire::{
    Feed, PushRequest, Request, RequestError, RequestFault, RequestParser, ServerCapabilities,
};
use std::io::{self, Read};
use std::time::Duration;

/// The input after the command list: what was read too far, then the rest.
pub(super) type PackInput<'a> = io::Chain<io::Cursor<Vec<u8>>, &'a mut dyn Read>;

/// Bytes of memory that a request may take without asking for a share of what all may take.
const FREE_BYTES: u64 = 1 << 20;

/// By what a share grows.
const STEP_BYTES: u64 = 1 << 20;

/// How long a request waits for the memory of others.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the request up to the byte where the pack starts. A large one takes a share of `memory`
/// while it comes; if others have it all, and for long, it is refused. `packets` writes
/// down what is read.
pub(super) fn read_request<'a>(
    input: &'a mut dyn Read,
    offered: &ServerCapabilities,
    limits: &Limits,
    memory: &mut Share<&ByteBudget>,
    packets: &mut Packets<'_>,
) -> Result<(Request, PackInput<'a>), ReceiveError> {
    let mut parser = RequestParser::new(offered, limits);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = match input.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken_input(error)),
        };
        let bytes = buffer.get(..length).unwrap_or_default();
        if bytes.is_empty() {
            // The end of the input: whole, or the error says where it broke off.
            let request = parser.finish().map_err(refused)?;
            return Ok((request, io::Cursor::new(Vec::new()).chain(input)));
        }
        let fed = parser.feed(bytes);
        match &fed {
            Ok(Feed::NeedMore) => packets.take(bytes, u64::MAX),
            Ok(Feed::Complete { consumed }) => {
                packets.take(bytes.get(..*consumed).unwrap_or_default(), u64::MAX);
            }
            Err(error) => packets.take(bytes, error.offset),
        }
        let fed = fed.map_err(refused)?;
        let wanted = parser.memory_bytes();
        if wanted > FREE_BYTES && wanted > memory.bytes() {
            let steps = wanted.div_ceil(STEP_BYTES);
            let grown = memory.grow_to(steps.saturating_mul(STEP_BYTES), PATIENCE);
            grown.map_err(no_memory)?;
        }
        if let Feed::Complete { consumed } = fed {
            let rest = bytes.get(consumed..).unwrap_or_default().to_vec();
            let request = parser.finish().map_err(refused)?;
            return Ok((request, io::Cursor::new(rest).chain(input)));
        }
    }
}

/// Refuses names that would say something else than they are: hooks read one command a line, and a
/// line feed in a name would forge another. git lets them pass to `pre-receive`.
pub(super) fn refuse_unspeakable(request: &PushRequest) -> Result<(), ReceiveError> {
    match request.commands.iter().find(|command| command.name.contains(&b'\n')) {
        None => Ok(()),
        Some(command) => {
            let text = format!(
                "protocol error: line feed in the ref name '{}'",
                command.name.escape_ascii()
            );
            Err(ReceiveError::new(Fault::Protocol, Phase::Request, text))
        }
    }
}

fn broken_input(error: io::Error) -> ReceiveError {
    ReceiveError::new(Fault::Disconnected, Phase::Request, error.to_string()).with_source(error)
}

fn no_memory(limit: Limit) -> ReceiveError {
    let text = format!(
        "the command lists of this and other pushes go past the {limit}: \
         push fewer refs at once, or later"
    );
    ReceiveError::new(Fault::Limit, Phase::Request, text)
}

fn refused(error: RequestError) -> ReceiveError {
    let fault = match error.fault {
        RequestFault::HungUp => Fault::Disconnected,
        RequestFault::LimitExceeded(_) => Fault::Limit,
        _ => Fault::Protocol,
    };
    ReceiveError::new(fault, Phase::Request, error.fault.to_string()).with_source(error)
}
