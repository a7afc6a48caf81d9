//! Loose objects: one file each, deflated, named by their id.
//!
//! Reads with bounded memory and believes nothing that a header says until the bytes have borne
//! it out. Does not compute ids: whoever writes an object hashes it anyway.

mod compare;
mod read;
mod write;

pub use compare::{LooseComparison, compare_loose};
pub use read::{LooseError, LooseReader, read_loose};
pub use write::{LooseStream, LooseWriter};

use crate::model::oid;
use std::path::{Path, PathBuf};

/// Where an object lies in a directory of objects: two digits, a slash, the other digits.
pub fn loose_path(objects_dir: &Path, id: &oid) -> PathBuf {
    let hex = id.to_hex().to_string();
    let (fan_out, rest) = hex.split_at(2);
    objects_dir.join(fan_out).join(rest)
}
