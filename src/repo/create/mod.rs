//! A repository made for a push, and taken away again if nothing landed.
//!
//! Nobody ever sees half a repository: it is built under a temporary name beside its final place,
//! flushed whole, and renamed. It goes the same way back.
//!
//! # Who may take it away, and when
//!
//! Two pushes may use one fresh repository; the one that fails must not take it from the one that
//! lands. So each push to a repository that has no refs yet (or simply every push of a server
//! that creates on push) holds a *shared* flock(2) on its directory from before it looks into it
//! until it is done: a [`RepositoryHold`]. Then:
//!
//! 1. Who creates holds the lock alone from the temporary name on until the final name is
//!    durable; a push that finds the repository waits for just that long.
//! 2. Who removes needs the lock alone and does not wait for it: while another push holds its
//!    share, nothing is removed. The last one to fail removes.
//! 3. Whoever got the lock checks that the path still names what is locked; if not, the
//!    repository went meanwhile, and a push that wants it creates it anew.
//!
//! git takes no part in this, so for its pushes the removal itself is careful. Only what a push
//! to packhouse made is touched at all (the configuration says so in a comment), and only while
//! nothing else is in it, looked at again under the temporary name. It is taken apart by removing
//! directories that must be empty, `objects` first: if an object or a quarantine came meanwhile
//! that fails, and the repository gets its name back; once `objects` is gone nothing can land any
//! more. Such a push of git's either keeps what it stored, or fails.
//!
//! This module does not ask who may create what, and does not set HEAD to what was pushed.

mod build;
mod hold;
mod layout;

pub use build::{CreateError, Creation, NewRepository, create};
pub use hold::{Removal, RepositoryHold};
pub(in crate::repo) use layout::{TEMPORARY_PREFIX, is_repository, take_apart};
