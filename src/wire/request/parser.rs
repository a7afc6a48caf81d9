//! The push parser: from pieces of bytes to a request.

use super::error::{RequestError, RequestFault};
use super::grammar::{Grammar, Request};
use crate::model::Limits;
use crate::wire::capabilities::{ClientCapabilities, ServerCapabilities};
use crate::wire::pkt_line::{Decoded, PktLineStream};

/// Reads a request that arrives in pieces.
///
/// However the bytes are split, the request is the same, and so is an error and its offset.
/// Memory is bounded by [`Limits`]: `command_bytes_max` and `push_option_bytes_max` count
/// packets with their four digits, flushes not; on top comes at most one packet.
#[derive(Debug)]
pub struct RequestParser {
    packets: PktLineStream,
    grammar: Grammar,
    /// Bytes of the whole packets so far.
    offset: u64,
    /// The first error, which is every later answer.
    failed: Option<RequestError>,
}

/// What became of the bytes fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// All of them belong to the request, which is not complete.
    NeedMore,
    /// The request is complete.
    Complete {
        /// Bytes fed that belong to it. Those behind are the first of the pack, if one is
        /// expected.
        consumed: usize,
    },
}

impl RequestParser {
    /// A parser for the request of a client that saw `offered`: it may choose nothing else, and
    /// `offered.object_format` is the repository's hash.
    pub fn new(offered: &ServerCapabilities, limits: &Limits) -> Self {
        Self {
            packets: PktLineStream::new(),
            grammar: Grammar::new(offered, limits),
            offset: 0,
            failed: None,
        }
    }

    /// Takes further bytes. After an error it says that error again; after completion it
    /// consumes nothing.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Feed, RequestError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.take_packets(bytes).map_err(|fault| {
            let error = RequestError { offset: self.offset, fault };
            self.failed = Some(error.clone());
            error
        })
    }

    /// What the client chose, once its list of commands is whole. From then on faults can be
    /// told within the response; before, the client cannot be assumed to understand one.
    ///
    /// `None` for a [`Request::Probe`], which chooses nothing.
    pub fn capabilities(&self) -> Option<&ClientCapabilities> {
        self.grammar.capabilities()
    }

    /// The memory that the request will take, as far as it has come; for the caller to weigh.
    /// While it is read it takes less.
    pub fn memory_bytes(&self) -> u64 {
        self.grammar.memory_bytes()
    }

    /// Ends the parsing: the request if it is complete, else the error, which is that the remote
    /// end hung up if none came before.
    pub fn finish(self) -> Result<Request, RequestError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let pending = u64::try_from(self.packets.pending_bytes()).unwrap_or(u64::MAX);
        let offset = self.offset.saturating_add(pending);
        let hung_up = RequestError { offset, fault: RequestFault::HungUp };
        self.grammar.into_request().ok_or(hung_up)
    }

    fn take_packets(&mut self, bytes: &[u8]) -> Result<Feed, RequestFault> {
        let mut rest = bytes;
        while !self.grammar.is_complete() {
            match self.packets.next(rest)? {
                Decoded::Incomplete { .. } => return Ok(Feed::NeedMore),
                Decoded::Complete { line, consumed } => {
                    self.grammar.accept(line)?;
                    let packet_bytes = u64::try_from(line.wire_bytes()).unwrap_or(u64::MAX);
                    self.offset = self.offset.saturating_add(packet_bytes);
                    rest = rest.get(consumed..).unwrap_or_default();
                }
            }
        }
        Ok(Feed::Complete { consumed: bytes.len().saturating_sub(rest.len()) })
    }
}
