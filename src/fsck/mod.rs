//! The rules that git's fsck has for objects: bytes in, findings out.
//!
//! An object is checked as `git index-pack --strict` checks it: the same message ids
//! (git-fsck(1), "FSCK MESSAGES"), the same severities, the same texts, so that operators can
//! reuse what they know and clients read what git would have said. No bytes make a check panic,
//! and none takes more memory than a small multiple of the object's.
//!
//! What an object names is not looked up here: whether its links lead anywhere is for whoever has
//! the objects, as is reading the blobs that [`SpecialBlobs`] asks for. Refs are not checked.
//!
//! Where git misses something that it means to find, this module finds it:
//!
//! - git takes a byte 0xff for the end of a `.gitmodules` blob and stumbles over a byte order mark
//!   at its start, though neither hides anything from the git that reads the file later.
//! - git forgets a tag's bad tagger if another header follows.
//!
//! A symbolic link in the place of a special file is told of once a tree, not for each spelling.

#[cfg(test)]
mod against_git;
mod check;
mod commit;
mod config;
mod finding;
mod gitattributes;
mod gitmodules;
mod header;
mod http_url;
mod ident;
mod message;
mod options;
mod order;
mod special;
mod spelling;
mod submodule;
mod tag;
mod tree;

pub use check::{Fsck, SpecialContent};
pub use finding::{Finding, Findings, Severity};
pub use message::{FsckId, Level};
pub use options::{FsckOptions, OverrideError, SkipListError};
pub use special::{SpecialBlobs, SpecialRoles};
