//! What the benchmarks share. Each uses a part of it.

pub(crate) mod git;
pub(crate) mod group;
pub(crate) mod inflate_and_hash;
pub(crate) mod machine;
pub(crate) mod objects;
pub(crate) mod options;
pub(crate) mod process;
pub(crate) mod receiver;
pub(crate) mod served;
pub(crate) mod statistics;
pub(crate) mod table;

/// What goes wrong in here is told to a person, once.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
