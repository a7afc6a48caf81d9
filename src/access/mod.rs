//! Who may do what, as pure decisions: facts in, a verdict out.
//!
//! Guarantees the rules of anonymous access and of creating a repository by pushing to it, those of
//! an access file, and the bounds of a token, in one place, for any edge. Knows nothing of HTTP, of passwords, or of how a repository is read: the
//! edge hands the facts in, and turns a [`Decision`] into the status of its protocol.

mod access_file;
mod glob;
mod grant;
mod local;
mod parse_access;
mod ref_rules;
mod right;
mod rules;
mod words;

pub use access_file::{AccessFile, Question, Rule, Ruling};
pub use glob::{Glob, GlobFault};
pub use grant::{Grant, Scope, UnknownScope};
pub use local::{is_loopback_host, tells_of_proxy};
pub use parse_access::AccessFault;
pub use ref_rules::{AccessDenied, RefRules};
pub use right::Right;
pub use rules::{
    Anonymous, Caller, Decision, Denial, Operation, Origin, Rules, Switches, UnknownAnonymous,
    Unprotected, Wishes,
};
pub use words::{Word, WordFault, words};
