//! What can be wrong with a request. All of it is the client's fault, or the network's.
//!
//! The texts are git's where git has one, without the `fatal: ` that the edge puts in front.

use crate::model::{HashKind, Limit};
use crate::wire::capabilities::UnsupportedObjectFormat;
use crate::wire::pkt_line::PktLineError;
use bstr::BString;

/// Why a request cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct RequestError {
    /// Bytes of the request before the packet that is at fault; for an end of input, all bytes
    /// that came.
    pub offset: u64,
    /// What is wrong.
    pub fault: RequestFault,
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// A line that is neither a command nor anything else that may stand there.
    #[error("protocol error: expected old/new/ref, got '{}'", .0.escape_ascii())]
    BadCommand(BString),
    /// A shallow line whose id is none, or is not all of it.
    #[error("protocol error: expected shallow sha, got '{}'", .0.escape_ascii())]
    BadShallow(BString),
    /// A certificate with a NUL in it, where git would cut its line.
    #[error("protocol error: push certificate with a NUL: '{}'", .0.escape_ascii())]
    CertificateByte(BString),
    /// An object id of the other hash.
    #[error(
        "protocol error: expected object ids of {} hex digits ({expected}), got '{}'",
        .expected.len_in_hex(),
        .line.escape_ascii()
    )]
    ForeignObjectId {
        /// The repository's hash.
        expected: HashKind,
        /// The line.
        line: BString,
    },
    /// The input ended within the request, or before it.
    #[error("the remote end hung up unexpectedly")]
    HungUp,
    /// A bound was passed.
    #[error("push request goes past the {limit}: {what}", limit = .0, what = advice(.0))]
    LimitExceeded(Limit),
    /// A certificate without an empty line, or without a command between that and its signature.
    #[error("malformed push certificate '{}'", .0.escape_ascii())]
    MalformedCertificate(BString),
    /// The framing.
    #[error(transparent)]
    PktLine(#[from] PktLineError),
    /// A push option with a NUL or a LF in it, which no hook could be handed.
    #[error("protocol error: push option with a NUL or a line feed: '{}'", .0.escape_ascii())]
    PushOptionByte(BString),
    /// A second certificate.
    #[error("protocol error: more than one push certificate")]
    RepeatedCertificate,
    /// The list ended within a certificate.
    #[error("protocol error: push certificate without its end")]
    UnendedCertificate,
    /// A marker of protocol version 2.
    #[error("protocol error: got an unexpected packet")]
    UnexpectedPacket,
    /// A certificate that nobody signed, or in a form that nobody here knows.
    #[error("push certificate without a signature")]
    UnsignedCertificate,
    /// Commands beside those of a certificate.
    #[error("protocol error: got both push certificate and unsigned commands")]
    UnsignedCommands,
    /// The client speaks another hash than the repository has.
    #[error(transparent)]
    UnsupportedObjectFormat(#[from] UnsupportedObjectFormat),
}

/// What to do about a bound.
fn advice(limit: &Limit) -> &'static str {
    match limit.name {
        "push_option_bytes_max" => "send shorter push options",
        _ => "push fewer refs at once",
    }
}

/// The part of a client's line that is worth repeating to it.
pub(super) fn excerpt(line: &[u8]) -> BString {
    line.get(..EXCERPT_BYTES_MAX).unwrap_or(line).into()
}

/// Room for two SHA-256 ids and the front of a name.
const EXCERPT_BYTES_MAX: usize = 160;
