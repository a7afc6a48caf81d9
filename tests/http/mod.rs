//! Raw requests against a real server: what a client may send, rightly and wrongly, and what it
//! gets for it.

mod access;
mod auth;
mod bodies;
mod configuration;
mod discovery;
mod lifecycle;
mod paths;
pub mod raw;
pub mod server;
mod shortage;
mod signed;
mod tls;
mod upload_pack;
