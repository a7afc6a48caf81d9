//! Whether a push leaves every ref it moves with all that the ref leads to.
//!
//! The verdicts are those of `git rev-list --objects --stdin --not --exclude-hidden=receive --all`
//! (git's `connected.c`), one for each new value, at the cost of the push: what is looked at are
//! the links that lead out of the push, not the refs of the repository.
//!
//! What is guaranteed:
//!
//! - A value is accepted only if everything it leads to is there, each object of the kind that
//!   its link says. An object that merely lies in the store proves nothing but itself. Gitlinks
//!   are neither followed nor proof.
//! - What a visible ref leads to is taken to be complete, as git does; so is the tree of such a
//!   commit.
//! - Objects of the push to which no new value leads do no harm, however broken.
//! - A value is refused only with the name of an object that is missing, of the wrong kind, or
//!   unreadable.
//! - Every walk is iterative and can be cancelled. The bytes of one object are in memory at a
//!   time, of at most `metadata_bytes_max` (and, where it is stored as a delta, its base and the
//!   delta); beyond that, memory is some two hundred bytes for each different object touched,
//!   whatever number of times it is named.
//!
//! What it deliberately does not do: change anything, open paths other than those of commit-graph
//! files, find out which refs there are or which of them are hidden (the caller hands in
//! [`RefValues`]), apply replacement refs or grafts, or judge objects by any rule but their links
//! (git's `core.maxTreeDepth` included).
//!
//! git looks only whether a blob that a tree names exists, not whether it is one; here kinds must
//! match for every link.
//!
//! | file | holds |
//! |---|---|
//! | `check` | the order of proofs, and the verdicts |
//! | `history` | which commits a visible ref leads to |
//! | `beside` | new trees walked beside those of complete commits |
//! | `border` | which commits of a shallow client's border new values need |
//! | `ancestry` | whether one commit is an ancestor of another |
//! | `closure`, `agenda` | the exact walk, for what nothing cheaper proves and for the blame |
//! | `commits`, `stores`, `source`, `from_snapshot` | where commits, objects and refs are read |
//! | `commit_graph` | a reader of commit-graph files |

mod agenda;
mod ancestry;
mod beside;
mod border;
mod check;
mod closure;
pub mod commit_graph;
mod commits;
mod error;
mod from_snapshot;
mod history;
mod source;
mod stores;
mod verdict;

#[cfg(test)]
mod against_git;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;

pub use ancestry::Ancestry;
pub use check::Connectivity;
pub use error::ConnectivityError;
pub use source::{LazySource, ObjectSource, RefValues, SourceError};
pub use verdict::{Fault, Missing, Verdicts};
