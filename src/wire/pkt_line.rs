//! Framing: pkt-lines, the packets of every git protocol.
//!
//! A packet is four hex digits, its whole length, and then the payload; three lengths too small
//! to hold even the digits are markers. The rules are those of gitprotocol-common ("pkt-line
//! Format") and of git's `pkt-line.c`, which is what clients were tested against: digits of
//! either case, an empty packet (`0004`) is legal, the longest packet has 65520 bytes.
//!
//! The decoder borrows from its input and allocates nothing; [`PktLineStream`] adds the one
//! buffer needed when packets arrive in pieces, which grows with the bytes that came and never
//! with the length that was declared. What a payload means is not known here: a trailing LF is
//! part of it until somebody takes it off with [`without_line_feed`].

/// The longest packet, its four digits included (`LARGE_PACKET_MAX` in git's `pkt-line.h`).
pub const PACKET_BYTES_MAX: usize = 65520;

/// The longest payload of one packet.
pub const PAYLOAD_BYTES_MAX: usize = PACKET_BYTES_MAX - HEADER_BYTES;

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PktLine<'a> {
    /// A payload, possibly empty.
    Data(&'a [u8]),
    /// `0001`, which separates sections in protocol version 2; no part of a push.
    Delim,
    /// `0000`, which ends a list.
    Flush,
    /// `0002`, which ends a response in protocol version 2; no part of a push.
    ResponseEnd,
}

impl PktLine<'_> {
    /// Bytes that the packet took on the wire.
    pub fn wire_bytes(&self) -> usize {
        match self {
            Self::Data(payload) => HEADER_BYTES.saturating_add(payload.len()),
            Self::Delim | Self::Flush | Self::ResponseEnd => HEADER_BYTES,
        }
    }
}

/// What the front of some bytes holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A whole packet.
    Complete {
        /// The packet.
        line: PktLine<'a>,
        /// Bytes of the input that belong to it.
        consumed: usize,
    },
    /// The beginning of a packet, or nothing.
    Incomplete {
        /// Bytes that are certainly missing; with fewer nothing new can be said.
        needed: usize,
    },
}

/// A length that no packet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PktLineError {
    /// The first four bytes are not hex digits: typically not a git client at all, or a body that
    /// is still compressed.
    #[error("protocol error: bad line length character: {}", .0.escape_ascii())]
    BadDigits([u8; HEADER_BYTES]),
    /// `0003`, which is no marker and too short for a packet.
    #[error("protocol error: bad line length {0}")]
    TooShort(usize),
    /// More than [`PACKET_BYTES_MAX`].
    #[error("protocol error: bad line length {0}, the longest is {PACKET_BYTES_MAX}")]
    TooLong(usize),
}

/// Decodes the packet at the front of `bytes`.
pub fn decode(bytes: &[u8]) -> Result<Decoded<'_>, PktLineError> {
    let Some((digits, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(Decoded::Incomplete { needed: HEADER_BYTES.saturating_sub(bytes.len()) });
    };
    let length = declared_bytes(*digits)?;
    let marker = |line| Ok(Decoded::Complete { line, consumed: HEADER_BYTES });
    match length {
        0 => return marker(PktLine::Flush),
        1 => return marker(PktLine::Delim),
        2 => return marker(PktLine::ResponseEnd),
        _ => {}
    }
    let Some(payload_bytes) = length.checked_sub(HEADER_BYTES) else {
        return Err(PktLineError::TooShort(length));
    };
    if length > PACKET_BYTES_MAX {
        return Err(PktLineError::TooLong(length));
    }
    Ok(match rest.get(..payload_bytes) {
        Some(payload) => Decoded::Complete { line: PktLine::Data(payload), consumed: length },
        None => Decoded::Incomplete { needed: length.saturating_sub(bytes.len()) },
    })
}

/// The payload without its last byte if that is a LF: senders of text end it with one, receivers
/// must not insist.
pub fn without_line_feed(payload: &[u8]) -> &[u8] {
    payload.strip_suffix(b"\n").unwrap_or(payload)
}

/// Cuts a stream into packets, whatever the pieces it arrives in.
///
/// Packets that lie whole in a piece are borrowed from it; only one that straddles two pieces is
/// copied. Memory: at most one packet.
#[derive(Debug, Default)]
pub struct PktLineStream {
    /// The front of a packet, less than the whole of it; or, while `lent`, one whole packet.
    partial: Vec<u8>,
    /// Whether `partial` was handed out and is to be forgotten at the next call.
    lent: bool,
}

impl PktLineStream {
    /// A stream at the boundary of a packet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next packet. `consumed` counts bytes of `input`, which may be fewer than the
    /// packet has; [`Decoded::Incomplete`] means that all of `input` was taken.
    ///
    /// After an error the stream has lost its place and must not be used again.
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> Result<Decoded<'a>, PktLineError> {
        if self.lent {
            self.partial.clear();
            self.lent = false;
        }
        if self.partial.is_empty() {
            let decoded = decode(input)?;
            if let Decoded::Incomplete { .. } = decoded {
                self.partial.extend_from_slice(input);
            }
            return Ok(decoded);
        }
        let mut consumed = 0_usize;
        while let Decoded::Incomplete { needed } = decode(&self.partial)? {
            let rest = input.get(consumed..).unwrap_or_default();
            let taken = rest.get(..needed).unwrap_or(rest);
            if taken.is_empty() {
                return Ok(Decoded::Incomplete { needed });
            }
            self.partial.extend_from_slice(taken);
            consumed = consumed.saturating_add(taken.len());
        }
        self.lent = true;
        Ok(match decode(&self.partial)? {
            Decoded::Complete { line, .. } => Decoded::Complete { line, consumed },
            incomplete @ Decoded::Incomplete { .. } => incomplete,
        })
    }

    /// Bytes held of a packet that is not whole yet.
    pub fn pending_bytes(&self) -> usize {
        if self.lent { 0 } else { self.partial.len() }
    }
}

/// A payload over [`PAYLOAD_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line of {bytes} bytes does not fit into a packet, the longest is {PAYLOAD_BYTES_MAX}")]
pub struct LineTooLong {
    /// Bytes of the payload.
    pub bytes: usize,
}

/// Appends a packet that holds `parts` one after the other. If they do not fit, `out` is left as
/// it was.
pub fn encode_data(out: &mut Vec<u8>, parts: &[&[u8]]) -> Result<(), LineTooLong> {
    let bytes = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
    if bytes > PAYLOAD_BYTES_MAX {
        return Err(LineTooLong { bytes });
    }
    encode_header(out, bytes);
    for part in parts {
        out.extend_from_slice(part);
    }
    Ok(())
}

/// Appends a packet that holds `parts` and a LF, cut where the packet is full: for messages,
/// where the front of a text is better than none.
pub fn encode_text(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let whole = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
    let mut room = whole.min(PAYLOAD_BYTES_MAX.saturating_sub(1));
    encode_header(out, room.saturating_add(1));
    for part in parts {
        let fitting = part.get(..room).unwrap_or(part);
        out.extend_from_slice(fitting);
        room = room.saturating_sub(fitting.len());
    }
    out.push(b'\n');
}

/// Appends a flush packet.
pub fn encode_flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// Appends the digits for a payload of `payload_bytes`, which the caller holds to the maximum.
pub(super) fn encode_header(out: &mut Vec<u8>, payload_bytes: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let length = payload_bytes.saturating_add(HEADER_BYTES);
    debug_assert!(length <= PACKET_BYTES_MAX, "a packet of {length} bytes");
    for shift in [12, 8, 4, 0] {
        out.extend(DIGITS.get((length >> shift) & 0xf));
    }
}

/// Reads the digits. No sign, no blank, no prefix: those that `from_str_radix` would take too.
fn declared_bytes(digits: [u8; HEADER_BYTES]) -> Result<usize, PktLineError> {
    digits
        .iter()
        .try_fold(0_usize, |length, &digit| {
            let value = char::from(digit).to_digit(16)?;
            Some(length << 4 | usize::try_from(value).ok()?)
        })
        .ok_or(PktLineError::BadDigits(digits))
}

const HEADER_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::pieces;
    use proptest::prelude::*;

    #[test]
    fn a_packet_is_taken_from_the_front_and_the_rest_is_left() {
        assert_eq!(
            decode(b"0009hello0000"),
            Ok(Decoded::Complete { line: PktLine::Data(b"hello"), consumed: 9 })
        );
    }

    #[test]
    fn digits_may_have_either_case() {
        let mut packet = b"00aF".to_vec();
        packet.resize(0xaf, b'x');
        let Ok(Decoded::Complete { line: PktLine::Data(payload), consumed: 0xaf }) =
            decode(&packet)
        else {
            panic!("{:?}", decode(&packet));
        };
        assert_eq!(payload.len(), 0xaf - 4);
    }

    #[test]
    fn markers_are_told_apart() {
        for (bytes, line) in [
            (b"0000", PktLine::Flush),
            (b"0001", PktLine::Delim),
            (b"0002", PktLine::ResponseEnd),
            (b"0004", PktLine::Data(b"")),
        ] {
            assert_eq!(decode(bytes), Ok(Decoded::Complete { line, consumed: 4 }));
        }
    }

    #[test]
    fn length_three_is_an_error() {
        assert_eq!(decode(b"0003"), Err(PktLineError::TooShort(3)));
        assert_eq!(
            PktLineError::TooShort(3).to_string(),
            "protocol error: bad line length 3",
            "git's own words"
        );
    }

    #[test]
    fn the_longest_packet_is_taken_and_one_byte_more_is_not() {
        let mut packet = b"fff0".to_vec();
        packet.resize(PACKET_BYTES_MAX, b'x');
        assert!(matches!(
            decode(&packet),
            Ok(Decoded::Complete { consumed: PACKET_BYTES_MAX, .. })
        ));
        assert_eq!(decode(b"fff1"), Err(PktLineError::TooLong(65521)));
        assert_eq!(decode(b"ffff"), Err(PktLineError::TooLong(65535)));
    }

    #[test]
    fn only_hex_digits_are_digits() {
        for bytes in [
            b"zzzz",
            b"00 5",
            b"+005",
            b"-001",
            b"0x04",
            b" 004",
            b"004\n",
            b"00\x004",
            b"\xff004",
            b"PACK",
            b"000g",
            b"000G",
            b"00_4",
            b"000:",
            b"000@",
            b"\x1f\x8b\x08\0",
        ] {
            assert_eq!(decode(bytes), Err(PktLineError::BadDigits(*bytes)));
        }
        assert_eq!(
            PktLineError::BadDigits(*b"zz\n\xff").to_string(),
            "protocol error: bad line length character: zz\\n\\xff"
        );
    }

    #[test]
    fn what_is_missing_is_said_exactly() {
        assert_eq!(decode(b""), Ok(Decoded::Incomplete { needed: 4 }));
        assert_eq!(decode(b"00"), Ok(Decoded::Incomplete { needed: 2 }));
        assert_eq!(decode(b"0009"), Ok(Decoded::Incomplete { needed: 5 }));
        assert_eq!(decode(b"0009hell"), Ok(Decoded::Incomplete { needed: 1 }));
    }

    #[test]
    fn a_declared_length_reserves_no_memory() {
        let mut stream = PktLineStream::new();
        assert!(matches!(stream.next(b"fff0a"), Ok(Decoded::Incomplete { .. })));
        assert!(stream.partial.capacity() < 64, "{}", stream.partial.capacity());
    }

    #[test]
    fn a_packet_that_was_handed_out_is_no_longer_pending() {
        let mut stream = PktLineStream::new();
        assert!(matches!(stream.next(b"0009he"), Ok(Decoded::Incomplete { needed: 3 })));
        assert_eq!(stream.pending_bytes(), 6);
        assert_eq!(
            stream.next(b"llo0000"),
            Ok(Decoded::Complete { line: PktLine::Data(b"hello"), consumed: 3 })
        );
        assert_eq!(stream.pending_bytes(), 0);
    }

    #[test]
    fn one_line_feed_is_dropped_and_only_at_the_end() {
        assert_eq!(without_line_feed(b"a\n\n"), b"a\n");
        assert_eq!(without_line_feed(b"\na"), b"\na");
        assert_eq!(without_line_feed(b""), b"");
    }

    #[test]
    fn data_that_does_not_fit_leaves_the_output_alone() {
        let mut out = b"before".to_vec();
        let payload = vec![b'x'; PAYLOAD_BYTES_MAX + 1];
        assert_eq!(
            encode_data(&mut out, &[&payload]),
            Err(LineTooLong { bytes: PAYLOAD_BYTES_MAX + 1 })
        );
        assert_eq!(out, b"before");
        assert_eq!(encode_data(&mut out, &[&payload[1..]]), Ok(()));
        assert_eq!(out.len(), "before".len() + PACKET_BYTES_MAX);
    }

    #[test]
    fn text_gets_a_line_feed_and_is_cut_where_the_packet_is_full() {
        let mut out = Vec::new();
        encode_text(&mut out, &[b"unpack ", b"ok"]);
        assert_eq!(out, b"000eunpack ok\n");

        let mut out = Vec::new();
        let long = vec![b'x'; PAYLOAD_BYTES_MAX];
        encode_text(&mut out, &[b"ng ", &long, b"tail"]);
        assert_eq!(out.len(), PACKET_BYTES_MAX);
        assert_eq!(out.last(), Some(&b'\n'));
    }

    fn packets(bytes: &[u8], cuts: &[usize]) -> (Vec<(bool, Vec<u8>)>, Option<PktLineError>) {
        let mut stream = PktLineStream::new();
        let mut found = Vec::new();
        for piece in pieces(bytes, cuts) {
            let mut rest = piece;
            loop {
                match stream.next(rest) {
                    Ok(Decoded::Complete { line, consumed }) => {
                        found.push(match line {
                            PktLine::Data(payload) => (true, payload.to_vec()),
                            marker => (false, format!("{marker:?}").into_bytes()),
                        });
                        rest = &rest[consumed..];
                    }
                    Ok(Decoded::Incomplete { needed }) => {
                        assert!(needed > 0);
                        break;
                    }
                    Err(error) => return (found, Some(error)),
                }
            }
        }
        (found, None)
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_back(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
        ) {
            let mut bytes = Vec::new();
            for payload in &payloads {
                encode_data(&mut bytes, &[payload]).unwrap();
            }
            encode_flush(&mut bytes);
            let (found, error) = packets(&bytes, &[]);
            prop_assert_eq!(error, None);
            let mut expected: Vec<_> = payloads.into_iter().map(|p| (true, p)).collect();
            expected.push((false, b"Flush".to_vec()));
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_split_gives_the_same_packets_and_the_same_error(
            bytes in prop::collection::vec(
                prop_oneof![
                    4 => prop::sample::select(b"0000012345af".to_vec()),
                    1 => any::<u8>(),
                ],
                0..200,
            ),
            cuts in prop::collection::vec(any::<usize>(), 0..12),
        ) {
            let whole = packets(&bytes, &[]);
            let every: Vec<usize> = (0..bytes.len()).collect();
            prop_assert_eq!(&packets(&bytes, &cuts), &whole);
            prop_assert_eq!(&packets(&bytes, &every), &whole);
        }
    }
}
