//! `packhouse load null-server`.

use super::{Failure, say};
use crate::load::null_server::{Faults, NullServer};
use clap::Args;
use std::net::SocketAddr;
use std::time::Duration;

/// Serves pushes from memory and keeps nothing: what is reached against it is the generator's own
/// ceiling. Can be told to misbehave, to see that the generator notices.
#[derive(Args, Clone, Debug)]
pub(super) struct NullServerArguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:8418", value_name = "ADDR")]
    listen: SocketAddr,
    /// Threads that serve
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// Forget every Nth of the pushes that are acknowledged
    #[arg(long, value_name = "N")]
    lose_every: Option<u64>,
    /// Acknowledge at once and show refs only so many milliseconds later
    #[arg(long, value_name = "MILLISECONDS")]
    late: Option<u64>,
    /// Refuse every Nth push
    #[arg(long, value_name = "N")]
    reject_every: Option<u64>,
    /// Carry out every Nth push and close the connection without an answer
    #[arg(long, value_name = "N")]
    hang_up_every: Option<u64>,
    /// Answer everything so many milliseconds later
    #[arg(long, value_name = "MILLISECONDS")]
    delay: Option<u64>,
    /// Answer every request with this status, such as 401, 429 or 503
    #[arg(long, value_name = "CODE", value_parser = status)]
    status: Option<u16>,
    /// Tell made-up times by step with Server-Timing
    #[arg(long)]
    server_timing: bool,
}

impl NullServerArguments {
    /// Serves until the process ends.
    pub(super) fn run(self) -> Result<(), Failure> {
        let status = self.status.map(hyper::StatusCode::from_u16).transpose()?;
        let faults = Faults {
            lose_every: self.lose_every,
            late: self.late.map(Duration::from_millis),
            reject_every: self.reject_every,
            hang_up_every: self.hang_up_every,
            delay: self.delay.map(Duration::from_millis),
            status,
            server_timing: self.server_timing,
        };
        let server = NullServer::bind(self.listen, self.threads, faults)?;
        let address = server.local_address()?;
        say(&format!("packhouse: null server listening on http://{address}, keeping nothing"));
        Ok(server.run()?)
    }
}

fn status(text: &str) -> Result<u16, String> {
    let refused = || format!("'{text}' is no status of HTTP");
    text.parse().ok().filter(|code| (200..600).contains(code)).ok_or_else(refused)
}
