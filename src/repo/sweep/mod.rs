//! What dead pushes left in repositories: found, told, and removed where that is safe.
//!
//! | what | when it goes |
//! |---|---|
//! | our quarantines, `objects/tmp_objdir-incoming-packhouse-*` | nobody holds the lock on it |
//! | git's, `objects/tmp_objdir-incoming-` and six letters | nothing in it has changed for the given age |
//! | unfinished objects and packs, `tmp_*` | it has not changed for that age |
//! | our unfinished refs, `tmp_ref_*` and `tmp_packed_refs_*` | it has not changed for ten minutes and no lock is a name of it, or for that age |
//! | our `.tmp-packhouse-*` beside repositories | nobody holds the lock on it, and nothing was stored there |
//! | `*.lock`, keep files of dead processes | never; they are reported |
//!
//! A live push of ours is never disturbed, whatever its age: it holds its quarantine by flock(2)
//! from right after the directory was made; one that is swept in between is noticed, and another
//! is made. Of git's, only the age can be asked. Where a file system has no locks, ours are judged
//! by age too.
//!
//! Locks and keep files do not go even when they look abandoned: from outside nobody can tell.
//! Those of our own dead processes are removed through [`InFlight`](super::InFlight).
//!
//! An entry that cannot be looked at or removed is reported, and the rest is swept all the same.

mod report;
mod repository;
mod walk;

pub use report::{Finding, Reported, SweepReport};
pub use repository::{OWN_AGE, Sweep};
pub use walk::{Found, Walk, repositories_below, walk};
