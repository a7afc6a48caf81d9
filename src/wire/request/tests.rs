//! Tests of the request parser: what git's clients send, what hostile ones send, and that the
//! split of the bytes makes no difference.

mod certificates;
mod faults;
mod limits;
mod object_formats;
mod oracle;
mod properties;
mod push_options;
mod requests;

use super::*;
use crate::model::{Command, HashKind, Limit, Limits, ObjectId};
use crate::wire::capabilities::{
    ClientCapabilities, ReportStatusVersion, ServerCapabilities, UnsupportedObjectFormat,
};
use crate::wire::pkt_line::{PktLineError, encode_data, encode_flush};
use bstr::{BString, ByteSlice};
use proptest::prelude::*;

const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";
const ZERO: &str = "0000000000000000000000000000000000000000";

fn offered(object_format: HashKind) -> ServerCapabilities {
    ServerCapabilities { push_options: true, ..ServerCapabilities::new(object_format, "a") }
}

fn parser() -> RequestParser {
    RequestParser::new(&offered(HashKind::Sha1), &Limits::default())
}

/// Packets of `lines`, an empty string being a flush.
fn packets(lines: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        if line.is_empty() {
            encode_flush(&mut out);
        } else {
            encode_data(&mut out, &[line]).unwrap();
        }
    }
    out
}

fn command(old: &str, new: &str, rest: &str) -> Vec<u8> {
    format!("{old} {new} {rest}").into_bytes()
}

/// The request, the bytes it took, and what the client was known to have chosen.
type Outcome = (Result<(Request, usize), RequestError>, Option<ClientCapabilities>);

/// Feeds `bytes` in `pieces`, stops when the request is complete, ends the input after the last.
fn run<'a>(mut parser: RequestParser, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut taken = 0;
    for piece in pieces {
        match parser.feed(piece) {
            Ok(Feed::NeedMore) => taken += piece.len(),
            Ok(Feed::Complete { consumed }) => {
                taken += consumed;
                assert_eq!(parser.feed(b"PACK"), Ok(Feed::Complete { consumed: 0 }));
                break;
            }
            Err(error) => {
                assert_eq!(parser.feed(b"0000"), Err(error), "an error stays");
                break;
            }
        }
    }
    let capabilities = parser.capabilities().cloned();
    (parser.finish().map(|request| (request, taken)), capabilities)
}

fn parse(bytes: &[u8]) -> Result<(Request, usize), RequestError> {
    run(parser(), [bytes]).0
}

fn push(bytes: &[u8]) -> PushRequest {
    match parse(bytes) {
        Ok((Request::Push(push), _)) => push,
        other => panic!("{other:?}"),
    }
}

fn fault(bytes: &[u8]) -> RequestFault {
    parse(bytes).expect_err("a fault").fault
}
