//! git's configuration of a repository, as git reads it.
//!
//! Guarantees the order of git-config(1): system, global, repository, worktree, environment,
//! command line; the last value wins. `include.path` and `includeIf.*.path` are followed in
//! place. Every file is bounded in size, and their number and depth too.
//!
//! Does not write configuration, and does not know what any key means.

mod command_line;
mod condition;
mod error;
mod git_config;
mod key;
mod source;
mod value;

pub use error::ConfigError;
pub use git_config::{ConfigEntry, ConfigOrigin, ConfigScope, GitConfig};

pub(in crate::repo) use git_config::expand;
