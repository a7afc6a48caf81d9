//! The packets of a push, line by line, for whoever debugs the protocol: git's `GIT_TRACE_PACKET`
//! (git(1), "Environment Variables") under the name that `receive-pack` has in it.
//!
//! Every packet of the advertisement, of the request up to the pack, of the report and of the talk
//! with the `proc-receive` hook is one line, however the bytes arrive. As in git's trace there are
//! neither bands nor pack in it: the report is shown as it is before it goes into a band, and the
//! pack is not made of packets. What it is written to is the edge's to open, and to give up.

use crate::wire::pkt_line::{Decoded, PktLine, PktLineStream};
use std::ffi::c_char;
use std::fmt::{self, Write as _};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where packets are written down; by default nowhere.
#[derive(Clone, Default)]
pub struct PacketTrace {
    output: Option<Arc<Mutex<Box<dyn Write + Send>>>>,
    bare: bool,
}

/// Who has said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// We.
    ByUs,
    /// The client, or the hook.
    ToUs,
}

impl PacketTrace {
    /// Writes to `output`, a whole line at a time; whether that fails is its own business. `bare`
    /// leaves out the time and the place (git's `GIT_TRACE_BARE`).
    pub fn new(output: Box<dyn Write + Send>, bare: bool) -> Self {
        Self { output: Some(Arc::new(Mutex::new(output))), bare }
    }

    /// Writes down the packets that `bytes` are made of, all of them whole.
    pub(super) fn sent(&self, bytes: &[u8]) {
        if self.output.is_some() {
            Packets::new(self, Said::ByUs).take(bytes, u64::MAX);
        }
    }

    /// Writes down packets that arrive in pieces.
    pub(super) fn received(&self) -> Packets<'_> {
        Packets::new(self, Said::ToUs)
    }

    /// Writes down one packet.
    pub(super) fn packet(&self, said: Said, packet: PktLine<'_>) {
        let Some(output) = &self.output else { return };
        let mut line = if self.bare { String::new() } else { time_and_place() };
        line.push_str(match said {
            Said::ByUs => "packet: receive-pack> ",
            Said::ToUs => "packet: receive-pack< ",
        });
        match packet {
            PktLine::Flush => line.push_str("0000"),
            PktLine::Delim => line.push_str("0001"),
            PktLine::ResponseEnd => line.push_str("0002"),
            PktLine::Data(payload) => push_visible(&mut line, payload),
        }
        line.push('\n');
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = output.write_all(line.as_bytes());
    }
}

impl fmt::Debug for PacketTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketTrace").field("on", &self.output.is_some()).finish_non_exhaustive()
    }
}

/// Packets of one direction.
pub(super) struct Packets<'a> {
    trace: &'a PacketTrace,
    said: Said,
    stream: PktLineStream,
    offset: u64,
}

impl<'a> Packets<'a> {
    fn new(trace: &'a PacketTrace, said: Said) -> Self {
        Self { trace, said, stream: PktLineStream::new(), offset: 0 }
    }

    /// Takes the next bytes, and writes down what packets they complete, up to the one that begins
    /// at `last`: behind one that is wrong nobody has read.
    pub(super) fn take(&mut self, bytes: &[u8], last: u64) {
        if self.trace.output.is_none() {
            return;
        }
        let mut rest = bytes;
        while self.offset <= last
            && let Ok(Decoded::Complete { line, consumed }) = self.stream.next(rest)
        {
            self.trace.packet(self.said, line);
            let packet_bytes = u64::try_from(line.wire_bytes()).unwrap_or(u64::MAX);
            self.offset = self.offset.saturating_add(packet_bytes);
            rest = rest.get(consumed..).unwrap_or_default();
        }
    }
}

/// The columns in front of what a trace says.
const FRONT_COLUMNS: usize = 40;

/// The time of day where the machine is, and what writes the trace.
fn time_and_place() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ahead = i64::from(gix_date::Time::now_local_or_utc().offset);
    let seconds = i64::try_from(now.as_secs()).unwrap_or_default().saturating_add(ahead);
    let of_day = seconds.rem_euclid(24 * 60 * 60);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let micros = now.subsec_micros();
    let front =
        format!("{hour:02}:{minute:02}:{second:02}.{micros:06} packet_trace.rs:{}", line!());
    format!("{front:<FRONT_COLUMNS$}")
}

/// Bytes that are no visible ASCII in octal, as wide as the machine's `char` has them; line feeds
/// are left out.
fn push_visible(line: &mut String, payload: &[u8]) {
    for byte in payload {
        match byte {
            b'\n' => {}
            b' '..=b'~' => line.push(char::from(*byte)),
            // Where `char` has a sign, git shows it: eleven digits for a byte above 127.
            other => {
                let char = i32::from(c_char::from_ne_bytes([*other]));
                // Writing to a string cannot fail.
                let _ = write!(line, "\\{char:o}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::pkt_line::{encode_data, encode_flush};
    use std::io;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn traced(bare: bool, work: impl FnOnce(&PacketTrace)) -> String {
        let lines = Lines::default();
        work(&PacketTrace::new(Box::new(lines.clone()), bare));
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn request() -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_data(&mut bytes, &[b"a\0b\tc\n"]).unwrap();
        encode_data(&mut bytes, &[b""]).unwrap();
        encode_flush(&mut bytes);
        bytes.extend_from_slice(b"0001");
        bytes
    }

    #[test]
    fn every_packet_is_a_line_that_says_whose_it_is() {
        let text = traced(true, |trace| trace.sent(&request()));
        let expected = "packet: receive-pack> a\\0b\\11c\npacket: receive-pack> \n\
                        packet: receive-pack> 0000\npacket: receive-pack> 0001\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_arrives_in_pieces_is_the_same() {
        let text = traced(true, |trace| {
            let mut packets = trace.received();
            for byte in request() {
                packets.take(&[byte], u64::MAX);
            }
        });
        assert_eq!(text, traced(true, |trace| trace.sent(&request())).replace('>', "<"));
    }

    #[test]
    fn nothing_behind_the_last_packet_that_was_read_is_shown() {
        let text = traced(true, |trace| trace.received().take(&request(), 10));
        assert_eq!(text.lines().count(), 2, "{text}");
        let text = traced(true, |trace| trace.received().take(b"0000zzzz0000", u64::MAX));
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn the_time_and_the_place_stand_in_forty_columns() {
        let text = traced(false, |trace| trace.packet(Said::ByUs, PktLine::Flush));
        assert_eq!(text.find("packet: "), Some(FRONT_COLUMNS), "{text}");
        let time = text.split(' ').next().unwrap();
        let shape: String =
            time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "00:00:00.000000");
    }
}
