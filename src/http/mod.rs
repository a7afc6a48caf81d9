//! The HTTP edge: `git push`, `git fetch` and `git clone` over smart HTTP (gitprotocol-http(5)).
//!
//! Guarantees that bodies are streamed in both directions and never held whole; that a client
//! that goes away stops its push before the commit and changes nothing after it; that nothing is
//! read of a request before its sender was let in; and that no answer is HTML or cached.
//!
//! What a push means is [`crate::receive`]'s business; fetches are handed to `git upload-pack`.
//! The dumb protocol and Git LFS are not served.

mod authorize;
mod bridge;
mod engine;
mod environment;
mod headers;
mod info_refs;
mod locate;
mod neighbour;
mod patience;
mod percent;
mod push_log;
mod query;
mod receive_pack;
mod reload;
mod reply;
mod request_body;
mod route;
mod router;
mod server;
mod service;
mod site;
mod stall;
mod stop;
#[cfg(test)]
mod testing;
mod tls;
mod upload_pack;
mod upload_pack_process;

pub use reload::Reloader;
pub use server::{Bounds, Server, ServerSettings};
pub use tls::{Tls, TlsError};
