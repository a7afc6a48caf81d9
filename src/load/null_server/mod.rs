//! A server that keeps nothing but the values of refs, in memory.
//!
//! It answers a push as soon as its last byte is there, without looking at the pack: what the load
//! generator reaches against it is the generator's own ceiling. It can also be told to misbehave,
//! so that it can be seen that the generator notices. It serves no fetches, and its repositories
//! are those that are asked for.

mod faults;
mod serve;
mod store;

pub use faults::Faults;
pub use serve::{NullServer, NullServerError};
