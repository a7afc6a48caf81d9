//! Packets: the same for every split, and what they were is what they encode to.

use packhouse::wire::pkt_line::{
    Decoded, PktLine, PktLineError, PktLineStream, decode, encode_data,
};

pub fn run(bytes: &[u8]) {
    let splits = super::splits(bytes);
    let expected = packets(&splits[0]);
    for split in &splits[1..] {
        assert_eq!(packets(split), expected);
    }
    let (lines, _) = &expected;
    let wire_bytes: usize = lines.iter().map(|line| line.as_ref().map_or(4, |l| l.len() + 4)).sum();
    assert!(wire_bytes <= bytes.len());
    for payload in lines.iter().flatten() {
        let mut encoded = Vec::new();
        encode_data(&mut encoded, &[payload]).expect("it came in one packet");
        let line = PktLine::Data(payload);
        assert_eq!(line.wire_bytes(), encoded.len());
        assert_eq!(decode(&encoded), Ok(Decoded::Complete { line, consumed: encoded.len() }));
    }
}

type Packets = (Vec<Option<Vec<u8>>>, Result<usize, PktLineError>);

/// The payloads, `None` for a marker, and the error or how many bytes are left over.
fn packets(pieces: &[&[u8]]) -> Packets {
    let mut stream = PktLineStream::new();
    let mut lines = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            match stream.next(rest) {
                Err(error) => return (lines, Err(error)),
                Ok(Decoded::Incomplete { needed }) => {
                    assert!(needed > 0);
                    break;
                }
                Ok(Decoded::Complete { line, consumed }) => {
                    assert!(consumed <= line.wire_bytes() && consumed > 0);
                    lines.push(match line {
                        PktLine::Data(payload) => Some(payload.to_vec()),
                        PktLine::Delim | PktLine::Flush | PktLine::ResponseEnd => None,
                    });
                    rest = &rest[consumed..];
                }
            }
        }
    }
    (lines, Ok(stream.pending_bytes()))
}
