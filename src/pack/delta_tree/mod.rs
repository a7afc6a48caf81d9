//! Which entry of a pack is made from which, and in what order to make them.
//!
//! Built while the pack arrives, from headers alone; then walked from each whole object down
//! through the deltas made from it, each once. A base may lie behind its deltas, chains may be as
//! long as the pack, objects may be there twice: nothing here recurses, and memory is some twelve
//! bytes per entry, and 25 (SHA-1) or 37 (SHA-256) more for a delta that names its base by id.
//!
//! Contents are no concern of this module. It arranges the walk so that few of them have to be
//! kept: see [`Walk`].

mod ref_deltas;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

pub use tree::{DeltaTree, DeltaTreeBuilder, NoSuchBase, Root};
pub use walk::{Delta, Walk};
