//! Inflating the zlib streams of a pack, whose lengths nobody tells.
//!
//! [`Inflater`] is what the rest of the crate uses: one object after the other, each with the
//! size its header declared, whole or in chunks. It stands on a backend behind the trait
//! [`Inflate`]: [`Sirocco`] by default, [`Zlib`] (flate2 with zlib-rs) as the fallback and as the
//! oracle of the tests.
//!
//! Nothing here allocates from a declared size: buffers grow as bytes really come.

mod backend;
mod buffer;
mod inflater;
mod sirocco;
mod zlib;

#[cfg(test)]
mod tests;

pub use backend::{Inflate, InflateError, Status, Step};
pub use buffer::ObjectBuffer;
pub use inflater::{Inflater, Progress};
pub use sirocco::Sirocco;
pub use zlib::Zlib;
