//! The way back to the client: bands if it asked for them, else the bare report on the stream and
//! texts on standard error.
//!
//! A client that has gone is noted, not reported: what a push does past its commit must not depend
//! on who still listens.

use super::Client;
use super::packet_trace::{PacketTrace, Said};
use crate::wire::pkt_line::PktLine;
use crate::wire::sideband::{self, Band};

/// The answer to one push.
pub(super) struct Channel<'a> {
    client: &'a mut dyn Client,
    banded: bool,
    gone: bool,
    buffer: Vec<u8>,
    packet_trace: PacketTrace,
}

impl<'a> Channel<'a> {
    /// An answer that has not begun; `banded` if the client asked for side-band-64k.
    pub(super) fn new(client: &'a mut dyn Client, banded: bool) -> Self {
        let packet_trace = PacketTrace::default();
        Self { client, banded, gone: false, buffer: Vec::new(), packet_trace }
    }

    /// The same, with the packets of the report, and the flush at the end, written down.
    pub(super) fn traced(self, packet_trace: &PacketTrace) -> Self {
        Self { packet_trace: packet_trace.clone(), ..self }
    }

    /// Begins the answer: from here on faults are told in it.
    pub(super) fn begin(&mut self) {
        self.gone = self.client.begin().is_err();
    }

    /// Whether a write has failed.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Whether the answer has bands.
    pub(super) fn is_banded(&self) -> bool {
        self.banded
    }

    /// Sends a packet that says nothing, for those who take silence for death.
    pub(super) fn keep_alive(&mut self) {
        if self.banded {
            self.send(sideband::encode_keepalive);
        }
    }

    /// Shows what a program that was run has said; nothing for a while is an empty piece.
    pub(super) fn relay(&mut self, said: &[u8]) {
        if said.is_empty() {
            self.keep_alive();
        } else {
            self.message(said);
        }
    }

    /// The same for a program whose words are not for the client.
    pub(super) fn relay_aside(&mut self, said: &[u8]) {
        if said.is_empty() {
            self.keep_alive();
        } else {
            self.diagnose(said);
        }
    }

    /// Shows text to the person who pushes.
    pub(super) fn message(&mut self, text: &[u8]) {
        if self.banded {
            self.send(|buffer| sideband::encode(buffer, Band::Progress, text));
        } else {
            self.client.diagnose(text);
        }
    }

    /// Shows one line that begins with `error: `.
    pub(super) fn error(&mut self, text: &str) {
        self.message(format!("error: {text}\n").as_bytes());
    }

    /// Shows one line that begins with `warning: `.
    pub(super) fn warning(&mut self, text: &str) {
        self.message(format!("warning: {text}\n").as_bytes());
    }

    /// What git would say on its own standard error and not to the client.
    pub(super) fn diagnose(&mut self, text: &[u8]) {
        self.client.diagnose(text);
    }

    /// Sends the report.
    pub(super) fn report(&mut self, report: &[u8]) {
        self.packet_trace.sent(report);
        if self.banded {
            self.send(|buffer| sideband::encode(buffer, Band::Data, report));
        } else {
            self.send(|buffer| buffer.extend_from_slice(report));
        }
    }

    /// Ends the answer with a fault: band 3 if there are bands, else standard error.
    pub(super) fn fatal(&mut self, text: &str) {
        if self.banded {
            self.send(|buffer| sideband::encode(buffer, Band::Error, text.as_bytes()));
        } else {
            self.client.diagnose(format!("fatal: {text}\n").as_bytes());
        }
    }

    /// Ends a banded answer with its flush.
    pub(super) fn finish(&mut self) {
        if self.banded {
            self.packet_trace.packet(Said::ByUs, PktLine::Flush);
            self.send(sideband::encode_end);
        }
    }

    fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.gone {
            return;
        }
        self.buffer.clear();
        encode(&mut self.buffer);
        self.gone = self.client.send(&self.buffer).is_err();
    }
}
