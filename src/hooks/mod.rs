//! Runs a repository's hooks as `git receive-pack` runs them (githooks(5)).
//!
//! A hook is started in the git directory as `hooks/<name>`, or below `core.hooksPath` as that is
//! configured, which is also what it sees as `$0`. Its standard output and error come back through
//! one pipe, in the order it wrote them. What a hook may decide, and when it runs, is the
//! `receive` module's business.
//!
//! Programs that are run for their word, such as those that check signatures, start in the same way
//! and have a time by which they must have ended.

mod converse;
mod exec_path;
mod program;
mod run;
#[cfg(test)]
mod testing;

pub use program::{ProgramBounds, ProgramError, ProgramOutput};
pub use run::{Feed, Hook, HookError, HookVerdict, Hooks};
