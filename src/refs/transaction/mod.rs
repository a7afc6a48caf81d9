//! Changing refs: one by one in order, together but for those that are refused, or all or none.
//!
//! The steps for one ref, each durable before what builds on it:
//!
//! ```text
//! write and flush the new value       tmp_ref_ and six letters
//! lock                                link it as <ref>.lock
//! compare, look for name conflicts    <ref>, then packed-refs
//! move                                rename the value to <ref>
//! unlock                              remove <ref>.lock
//! flush                               the directories that name it; before anybody is told
//! ```
//!
//! A deletion rewrites packed-refs under its lock, if the ref is in there, and flushes that
//! before the file of the ref goes; else a crash in between would bring the packed value back.
//! Many creations go into packed-refs as well, in one rewrite with the deletions.
//!
//! A move keeps the lock until it has looked whether a ref that is only in packed-refs came into
//! its way meanwhile, and could be taken back. gix-ref's transactions are not used: they miss
//! that conflict, take a creation over an equal value for done, and flush nothing.
//!
//! Two things that stock git does beside us cannot be helped. `git pack-refs` flushes what it
//! writes only if `core.fsync` of its own process says so. And it removes the file of a ref whose
//! value is the one it packed: a ref that is deleted and made again with the same value between
//! its two steps is lost, whoever made it.
//!
//! Not decided here: whether an object exists, is a commit, or is a descendant of the old value.

mod ahead;
mod batch;
mod commit;
mod edit;
mod glance;
mod group;
mod head;
mod locking;
mod packed_rewrite;
mod prepare;
mod run;
mod shallow;
mod temporary;
mod undo;
mod unflushed;
mod witness;

pub use edit::{Applied, Change, Expected, RefEdit};
pub use glance::Glance;
pub use run::RefTransaction;
pub use shallow::shallow_lines;
pub use witness::{ToldUpdate, TransactionState, Witness};
