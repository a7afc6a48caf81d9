//! Which ids an object names, each with the kind that is expected of it.
//!
//! Objects are read as leniently as git's object parsers do when `git rev-list --objects` walks
//! them, and no more so: what git walks is walked, what makes git give up is an error. The rules
//! that `git fsck` adds on top are no concern of this module.

#[cfg(test)]
mod against_git;
mod commit;
mod hex;
mod link;
mod new_objects;
mod tag;
mod tree;
mod tree_names;

pub use commit::{CommitLinks, commit};
pub use link::{Link, LinkError, Links, holds_all_links, links};
pub use new_objects::NewObjects;
pub use tag::{TagTarget, tag};
pub use tree::{TreeEntries, TreeEntry, tree};
pub use tree_names::TreeNames;
