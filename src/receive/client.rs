//! The port back to the client, which an edge implements.

use std::io;

/// Where the answer to a push goes. A large push is worked on by one thread while another keeps the
/// answer alive.
pub trait Client: Send {
    /// The command list is read and the answer may begin. Called once, before anything is sent;
    /// an HTTP edge sends its status and headers now, so that proxies see life.
    fn begin(&mut self) -> io::Result<()>;

    /// Sends protocol bytes, framed already. An error means that the client has gone; past the
    /// commit it changes nothing.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// What `git receive-pack` would write to its own standard error: the terminal of a local
    /// pusher, the log of a server.
    fn diagnose(&mut self, text: &[u8]);
}
