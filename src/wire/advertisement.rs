//! The advertisement: what refs there are, and what the server can do.
//!
//! gitprotocol-pack, "Reference Discovery", as `git receive-pack` writes it: refs under `refs/`
//! only, never HEAD, no peeled (`^{}`) lines; the capabilities ride on the first line, which is a
//! made-up one if there is no ref. Lines are appended to a buffer that the caller empties when it
//! likes, so that no repository is too large for it.
//!
//! Which refs may be seen, their order, and that ids are not told twice are the caller's business.

use super::capabilities::ServerCapabilities;
use super::pkt_line::{LineTooLong, encode_data, encode_flush, encode_text};
use super::protocol_version::ProtocolVersion;
use crate::model::{HashKind, HexId, ObjectId, oid};
use bstr::{BStr, BString, ByteSlice};

/// Appends the packets that stand before the advertisement over HTTP and nowhere else
/// (gitprotocol-http, "Smart Server Response").
pub fn encode_service_preamble(out: &mut Vec<u8>) {
    encode_text(out, &[b"# service=git-receive-pack"]);
    encode_flush(out);
}

/// Writes one advertisement: refs and haves, then [`finish`](Self::finish).
#[derive(Debug)]
pub struct AdvertisementEncoder {
    /// The line that stands in for the first ref if there is none.
    no_refs_id: ObjectId,
    /// The list for the first line, taken by it.
    capabilities: Option<String>,
}

/// Why a ref was left out. Nothing was written; the advertisement can go on without it, as git
/// goes on without refs of bad names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdvertisementError {
    /// Not below `refs/`, or with bytes that would break the line.
    #[error("'{}' is not the name of a ref that can be advertised", .name.escape_ascii())]
    BadName {
        /// The name.
        name: BString,
    },
    /// A name too long for a packet.
    #[error("a ref cannot be advertised: {0}")]
    LineTooLong(#[from] LineTooLong),
}

impl AdvertisementEncoder {
    /// Begins an advertisement; in version 1 that is a packet by itself.
    pub fn begin(
        out: &mut Vec<u8>,
        version: ProtocolVersion,
        capabilities: &ServerCapabilities,
    ) -> Self {
        if version == ProtocolVersion::V1 {
            encode_text(out, &[b"version 1"]);
        }
        Self {
            no_refs_id: ObjectId::null(capabilities.object_format),
            capabilities: Some(capabilities.to_string()),
        }
    }

    /// Appends a ref under the name that the client is to see.
    pub fn reference(
        &mut self,
        out: &mut Vec<u8>,
        id: &oid,
        name: &BStr,
    ) -> Result<(), AdvertisementError> {
        let mut digits = HashKind::hex_buf();
        self.reference_of(out, id.hex_to_buf(&mut digits).as_bytes(), name)
    }

    /// Appends a ref whose id is at hand in digits: the same line for less work.
    pub fn reference_in_digits(
        &mut self,
        out: &mut Vec<u8>,
        id: HexId<'_>,
        name: &BStr,
    ) -> Result<(), AdvertisementError> {
        match id.canonical() {
            Some(digits) => self.reference_of(out, digits, name),
            None => self.reference(out, &id.id(), name),
        }
    }

    fn reference_of(
        &mut self,
        out: &mut Vec<u8>,
        digits: &[u8],
        name: &BStr,
    ) -> Result<(), AdvertisementError> {
        let breaks_line = |byte: u8| byte == b' ' || byte.is_ascii_control();
        if !name.starts_with(b"refs/") || name.ends_with(b"^{}") || name.bytes().any(breaks_line) {
            return Err(AdvertisementError::BadName { name: name.into() });
        }
        Ok(self.line(out, digits, name)?)
    }

    /// Appends an object that the client need not send although no visible ref leads to it: the
    /// tip of an alternate, or of a ref outside the namespace.
    pub fn have(&mut self, out: &mut Vec<u8>, id: &oid) {
        self.line_that_fits(out, id, b".have");
    }

    /// Appends the commits at which this repository's history is cut off, and ends the
    /// advertisement.
    pub fn finish(mut self, out: &mut Vec<u8>, shallow: impl IntoIterator<Item = ObjectId>) {
        if self.capabilities.is_some() {
            let id = self.no_refs_id;
            self.line_that_fits(out, &id, b"capabilities^{}");
        }
        for id in shallow {
            encode_text(out, &[b"shallow ", id.to_string().as_bytes()]);
        }
        encode_flush(out);
    }

    fn line(&mut self, out: &mut Vec<u8>, hex: &[u8], name: &[u8]) -> Result<(), LineTooLong> {
        match &self.capabilities {
            Some(list) => encode_data(out, &[hex, b" ", name, b"\0", list.as_bytes(), b"\n"])?,
            None => encode_data(out, &[hex, b" ", name, b"\n"])?,
        }
        self.capabilities = None;
        Ok(())
    }

    /// A line whose name is ours: with the capabilities, whose values are bounded, it has a few
    /// thousand bytes at the most.
    fn line_that_fits(&mut self, out: &mut Vec<u8>, id: &oid, name: &[u8]) {
        let mut digits = HashKind::hex_buf();
        let written = self.line(out, id.hex_to_buf(&mut digits).as_bytes(), name);
        debug_assert_eq!(written, Ok(()), "a line of bounded length");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pkt_line::{Decoded, PACKET_BYTES_MAX, PktLine, decode};
    use crate::wire::testing::git_ok;

    fn capabilities() -> ServerCapabilities {
        ServerCapabilities::new(HashKind::Sha1, "packhouse/0.1.0")
    }

    fn id(byte: u8) -> ObjectId {
        ObjectId::from([byte; 20])
    }

    /// The payloads of the packets up to the flush, which must be the end.
    fn lines(mut bytes: &[u8]) -> Vec<BString> {
        let mut lines = Vec::new();
        loop {
            match decode(bytes).unwrap() {
                Decoded::Complete { line: PktLine::Data(payload), consumed } => {
                    lines.push(payload.into());
                    bytes = &bytes[consumed..];
                }
                Decoded::Complete { line: PktLine::Flush, consumed } => {
                    assert_eq!(consumed, bytes.len(), "nothing follows the flush");
                    return lines;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn capabilities_ride_on_the_first_ref_only() {
        let mut out = Vec::new();
        let mut encoder =
            AdvertisementEncoder::begin(&mut out, ProtocolVersion::V0, &capabilities());
        encoder.reference(&mut out, &id(0x11), "refs/heads/a".into()).unwrap();
        encoder.reference(&mut out, &id(0x22), b"refs/heads/\xff".into()).unwrap();
        let digits = "CC".repeat(20);
        let upper = HexId::new(digits.as_bytes(), HashKind::Sha1).unwrap();
        encoder.reference_in_digits(&mut out, upper, "refs/heads/c".into()).unwrap();
        encoder.have(&mut out, &id(0x33));
        encoder.finish(&mut out, [id(0x44)]);
        assert_eq!(
            lines(&out),
            [
                format!("{} refs/heads/a\0{}\n", "11".repeat(20), capabilities()).into_bytes(),
                [format!("{} ", "22".repeat(20)).as_bytes(), b"refs/heads/\xff\n"].concat(),
                format!("{} refs/heads/c\n", "cc".repeat(20)).into_bytes(),
                format!("{} .have\n", "33".repeat(20)).into_bytes(),
                format!("shallow {}\n", "44".repeat(20)).into_bytes(),
            ]
        );
    }

    #[test]
    fn no_refs_are_a_made_up_line_of_zeroes_before_the_shallow_ones() {
        for (kind, digits) in [(HashKind::Sha1, 40), (HashKind::Sha256, 64)] {
            let offer = ServerCapabilities::new(kind, "a");
            let mut out = Vec::new();
            AdvertisementEncoder::begin(&mut out, ProtocolVersion::V0, &offer)
                .finish(&mut out, [id(0x44)]);
            assert_eq!(
                lines(&out)[0],
                format!("{} capabilities^{{}}\0{offer}\n", "0".repeat(digits))
            );
            assert_eq!(lines(&out)[1], format!("shallow {}\n", "44".repeat(20)));
        }
    }

    #[test]
    fn a_have_can_be_the_first_line() {
        let mut out = Vec::new();
        let mut encoder =
            AdvertisementEncoder::begin(&mut out, ProtocolVersion::V0, &capabilities());
        encoder.have(&mut out, &id(0x33));
        encoder.finish(&mut out, []);
        assert_eq!(
            lines(&out),
            [format!("{} .have\0{}\n", "33".repeat(20), capabilities()).into_bytes()]
        );
    }

    #[test]
    fn version_one_is_said_first() {
        let mut out = Vec::new();
        AdvertisementEncoder::begin(&mut out, ProtocolVersion::V1, &capabilities())
            .finish(&mut out, []);
        assert!(out.starts_with(b"000eversion 1\n"), "{}", out.as_bstr());
        assert_eq!(lines(&out).len(), 2);
    }

    #[test]
    fn what_is_no_ref_is_left_out_and_the_next_carries_the_capabilities() {
        let mut out = Vec::new();
        let mut encoder =
            AdvertisementEncoder::begin(&mut out, ProtocolVersion::V0, &capabilities());
        for name in
            ["HEAD", "", "refs/heads/a b", "refs/heads/a\nb", "refs/x\0y", "refs/tags/v1^{}"]
        {
            assert_eq!(
                encoder.reference(&mut out, &id(1), name.into()),
                Err(AdvertisementError::BadName { name: name.into() })
            );
        }
        let long = format!("refs/heads/{}", "x".repeat(PACKET_BYTES_MAX));
        assert!(matches!(
            encoder.reference(&mut out, &id(1), long.as_str().into()),
            Err(AdvertisementError::LineTooLong(_))
        ));
        assert!(out.is_empty());
        encoder.reference(&mut out, &id(2), "refs/onelevel".into()).unwrap();
        encoder.finish(&mut out, []);
        assert!(lines(&out)[0].contains_str("report-status"));
    }

    #[test]
    fn a_caller_can_empty_the_buffer_between_lines() {
        let mut whole = Vec::new();
        let mut chunks = Vec::new();
        let mut buffer = Vec::new();
        let mut first =
            AdvertisementEncoder::begin(&mut whole, ProtocolVersion::V0, &capabilities());
        let mut second =
            AdvertisementEncoder::begin(&mut buffer, ProtocolVersion::V0, &capabilities());
        for number in 0..1000 {
            let name = BString::from(format!("refs/heads/{number:04}"));
            first.reference(&mut whole, &id(7), name.as_bstr()).unwrap();
            second.reference(&mut buffer, &id(7), name.as_bstr()).unwrap();
            if buffer.len() > 4096 {
                chunks.append(&mut buffer);
            }
        }
        first.finish(&mut whole, []);
        second.finish(&mut buffer, []);
        chunks.append(&mut buffer);
        assert_eq!(chunks, whole);
    }

    #[test]
    fn the_preamble_is_gits() {
        let mut out = Vec::new();
        encode_service_preamble(&mut out);
        assert_eq!(out.as_bstr(), "001f# service=git-receive-pack\n0000");
    }

    #[test]
    fn it_equals_that_of_git_for_the_same_repository() {
        let dir = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str], protocol: &str| git_ok(dir.path(), protocol, arguments, b"");
        let offer = ServerCapabilities::new(HashKind::Sha1, "git/test");
        git(&["init", "-q", "--bare", "r.git"], "");
        let advertise = ["receive-pack", "--http-backend-info-refs", "r.git"];

        let mut ours = Vec::new();
        AdvertisementEncoder::begin(&mut ours, ProtocolVersion::V0, &offer).finish(&mut ours, []);
        assert_eq!(ours.as_bstr(), git(&advertise, "").as_bstr());

        let tree = git(&["-C", "r.git", "hash-object", "-wt", "tree", "/dev/null"], "");
        let tree = ObjectId::from_hex(tree.trim_ascii()).unwrap();
        for name in ["refs/tags/t", "refs/onelevel"] {
            git(&["-C", "r.git", "update-ref", name, &tree.to_string()], "");
        }
        for (wish, version) in [
            ("version=1", ProtocolVersion::V1),
            ("version=2", ProtocolVersion::V0),
            ("version=1:version=2", ProtocolVersion::V0),
        ] {
            assert_eq!(ProtocolVersion::from_git_protocol(wish.as_bytes()), version);
            let mut ours = Vec::new();
            let mut encoder = AdvertisementEncoder::begin(&mut ours, version, &offer);
            encoder.reference(&mut ours, &tree, "refs/onelevel".into()).unwrap();
            encoder.reference(&mut ours, &tree, "refs/tags/t".into()).unwrap();
            encoder.finish(&mut ours, []);
            assert_eq!(ours.as_bstr(), git(&advertise, wish).as_bstr(), "{wish}");
        }
    }
}
