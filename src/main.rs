//! The `packhouse` binary.

fn main() {}
