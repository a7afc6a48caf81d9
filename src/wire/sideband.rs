//! Sideband: three streams in one, each packet marked with the number of its stream.
//!
//! Used once the client chose `side-band-64k` (gitprotocol-capabilities). Packets hold at most
//! 65520 bytes, so 65515 of payload. That the flush at the very end is written, and after what,
//! is the caller's business; so is which text is fit for a terminal.

use super::pkt_line::{
    self, Decoded, PAYLOAD_BYTES_MAX, PktLine, PktLineError, PktLineStream, encode_header,
};

/// The streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// 1: the report, itself a stream of pkt-lines.
    Data,
    /// 2: text for the user's terminal: progress, hook output.
    Progress,
    /// 3: a last text; the client prints it and gives up.
    Error,
}

impl Band {
    /// The byte in front of the payload.
    fn number(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Progress => 2,
            Self::Error => 3,
        }
    }
}

/// Appends `payload` on `band`, in as many packets as it takes: none if it is empty.
pub fn encode(out: &mut Vec<u8>, band: Band, payload: &[u8]) {
    for chunk in payload.chunks(CHUNK_BYTES_MAX) {
        encode_header(out, chunk.len().saturating_add(1));
        out.push(band.number());
        out.extend_from_slice(chunk);
    }
}

/// Appends an empty packet on band 1, which every client skips: it keeps proxies from taking a
/// working server for a dead one.
pub fn encode_keepalive(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0005\x01");
}

/// The longest payload of one sideband packet.
pub const CHUNK_BYTES_MAX: usize = PAYLOAD_BYTES_MAX - 1;

/// Takes a sideband stream apart, whatever the pieces it arrives in.
#[derive(Debug, Default)]
pub struct SidebandDecoder {
    packets: PktLineStream,
}

/// What a sideband stream holds next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidebandEvent<'a> {
    /// A piece of a band, empty for a keepalive.
    Chunk {
        /// The band.
        band: Band,
        /// The piece.
        payload: &'a [u8],
        /// Bytes of the input that were taken.
        consumed: usize,
    },
    /// The stream is over.
    End {
        /// Bytes of the input that were taken.
        consumed: usize,
    },
    /// All of the input was taken; more must come.
    NeedMore,
}

/// What is wrong with a sideband stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SidebandError {
    /// The framing.
    #[error(transparent)]
    PktLine(#[from] PktLineError),
    /// A packet without even the number.
    #[error("protocol error: no band designator")]
    NoBand,
    /// A number that names no band.
    #[error("protocol error: bad band #{0}")]
    UnknownBand(u8),
    /// A marker that has no place in a push.
    #[error("protocol error: got an unexpected packet")]
    UnexpectedPacket,
}

impl SidebandDecoder {
    /// A decoder at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece from `input`.
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> Result<SidebandEvent<'a>, SidebandError> {
        let (line, consumed) = match self.packets.next(input)? {
            Decoded::Complete { line, consumed } => (line, consumed),
            Decoded::Incomplete { .. } => return Ok(SidebandEvent::NeedMore),
        };
        let packet = match line {
            PktLine::Data(packet) => packet,
            PktLine::Flush => return Ok(SidebandEvent::End { consumed }),
            PktLine::Delim | PktLine::ResponseEnd => return Err(SidebandError::UnexpectedPacket),
        };
        let (&number, payload) = packet.split_first().ok_or(SidebandError::NoBand)?;
        let band = match number {
            1 => Band::Data,
            2 => Band::Progress,
            3 => Band::Error,
            other => return Err(SidebandError::UnknownBand(other)),
        };
        Ok(SidebandEvent::Chunk { band, payload, consumed })
    }
}

/// Appends the flush that ends a sideband stream.
pub fn encode_end(out: &mut Vec<u8>) {
    pkt_line::encode_flush(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pkt_line::PACKET_BYTES_MAX;
    use proptest::prelude::*;

    /// The three bands, and whether the stream ended.
    fn bands(bytes: &[u8], piece_bytes: usize) -> Result<([Vec<u8>; 3], bool), SidebandError> {
        let mut decoder = SidebandDecoder::new();
        let mut found = <[Vec<u8>; 3]>::default();
        let mut ended = false;
        for piece in bytes.chunks(piece_bytes) {
            let mut rest = piece;
            loop {
                match decoder.next(rest)? {
                    SidebandEvent::Chunk { band, payload, consumed } => {
                        found[usize::from(band.number()) - 1].extend_from_slice(payload);
                        rest = &rest[consumed..];
                    }
                    SidebandEvent::End { consumed } => {
                        ended = true;
                        rest = &rest[consumed..];
                    }
                    SidebandEvent::NeedMore => break,
                }
            }
        }
        Ok((found, ended))
    }

    #[test]
    fn a_payload_of_one_packet_and_one_byte_takes_two() {
        let mut out = Vec::new();
        encode(&mut out, Band::Data, &vec![b'x'; CHUNK_BYTES_MAX]);
        assert_eq!(out.len(), PACKET_BYTES_MAX);
        assert!(out.starts_with(b"fff0\x01"));

        out.clear();
        encode(&mut out, Band::Progress, &vec![b'x'; CHUNK_BYTES_MAX + 1]);
        assert_eq!(out.get(PACKET_BYTES_MAX..), Some(&b"0006\x02x"[..]));
    }

    #[test]
    fn nothing_to_say_takes_no_packet() {
        let mut out = Vec::new();
        encode(&mut out, Band::Error, b"");
        assert!(out.is_empty());
    }

    #[test]
    fn a_keepalive_is_an_empty_chunk_of_band_one() {
        let mut out = Vec::new();
        encode_keepalive(&mut out);
        assert_eq!(out, b"0005\x01");
        assert_eq!(
            SidebandDecoder::new().next(&out),
            Ok(SidebandEvent::Chunk { band: Band::Data, payload: b"", consumed: 5 })
        );
    }

    #[test]
    fn broken_streams_are_named() {
        for (bytes, error) in [
            (&b"0004"[..], SidebandError::NoBand),
            (b"0005\x04", SidebandError::UnknownBand(4)),
            (b"0005\x00", SidebandError::UnknownBand(0)),
            (b"0001", SidebandError::UnexpectedPacket),
            (b"0003", SidebandError::PktLine(PktLineError::TooShort(3))),
        ] {
            assert_eq!(SidebandDecoder::new().next(bytes), Err(error));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn what_is_encoded_decodes_back_in_packets_of_legal_length(
            texts in prop::collection::vec(
                (0_usize..3, prop_oneof![9 => 0_usize..50, 1 => 65_000_usize..140_000]),
                0..6,
            ),
            piece_bytes in 1_usize..100_000,
        ) {
            let mut out = Vec::new();
            let mut expected = <[Vec<u8>; 3]>::default();
            for (position, (index, length)) in texts.into_iter().enumerate() {
                let text: Vec<u8> =
                    (0..length).map(|n| u8::try_from((n + position) % 251).unwrap()).collect();
                encode(&mut out, [Band::Data, Band::Progress, Band::Error][index], &text);
                encode_keepalive(&mut out);
                expected[index].extend_from_slice(&text);
            }
            encode_end(&mut out);
            prop_assert_eq!(bands(&out, piece_bytes), Ok((expected, true)));

            let mut rest = &out[..];
            while let Decoded::Complete { consumed, .. } = pkt_line::decode(rest).unwrap() {
                prop_assert!(consumed <= PACKET_BYTES_MAX);
                rest = &rest[consumed..];
            }
            prop_assert!(rest.is_empty());
        }
    }
}
