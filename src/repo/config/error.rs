//! What can be wrong with a configuration.

use super::git_config::ConfigOrigin;
use bstr::{BStr, BString, ByteSlice};
use std::io;
use std::path::PathBuf;

/// A configuration that cannot be read, or a value that is not of its type.
///
/// Texts follow git's where git has one.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value that is neither a boolean word nor a number.
    #[error("bad boolean config value '{value}' for '{key}'")]
    BadBoolean {
        /// The key, in lower case but for its subsection.
        key: BString,
        /// The value.
        value: BString,
        /// Where it was set.
        origin: ConfigOrigin,
    },
    /// A boolean in the environment that is none.
    #[error("bad boolean environment value '{value}' for '{name}'")]
    BadBooleanVariable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: BString,
    },
    /// A value that is not a number, or none of the range asked for.
    #[error("bad numeric config value '{value}' for '{key}'{origin}: {reason}")]
    BadNumber {
        /// The key.
        key: BString,
        /// The value.
        value: BString,
        /// Where it was set.
        origin: ConfigOrigin,
        /// git's word for it: `invalid unit` or `out of range`.
        reason: &'static str,
    },
    /// A path with a `~` that leads nowhere.
    #[error("failed to expand user dir in '{value}' for '{key}'")]
    BadPath {
        /// The key.
        key: BString,
        /// The value.
        value: BString,
    },
    /// A key that stands alone where a value is needed.
    #[error("missing value for '{key}'{}", where_parsed(key.as_bstr(), origin))]
    MissingValue {
        /// The key.
        key: BString,
        /// Where it was set.
        origin: ConfigOrigin,
    },
    /// A line that is not git configuration.
    #[error("bad config line {line} in file {}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// A file that cannot be read.
    #[error("cannot read config file '{}'", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Includes that are nested too deep.
    #[error("exceeded maximum include depth ({depth_max}) while including '{}'", path.display())]
    IncludeDepth {
        /// The file that was to be included.
        path: PathBuf,
        /// The bound.
        depth_max: u32,
    },
    /// More files than one configuration may consist of.
    #[error("exceeded maximum number of config files ({files_max}) while including '{}'", path.display())]
    TooManyFiles {
        /// The file that was to be read.
        path: PathBuf,
        /// The bound.
        files_max: usize,
    },
    /// A relative include or condition that does not come from a file.
    #[error("relative config includes must come from files: '{value}'")]
    RelativeInclude {
        /// The path or condition.
        value: BString,
    },
    /// `GIT_CONFIG_PARAMETERS` or `GIT_CONFIG_COUNT` that cannot be understood.
    #[error("bogus {what} in {variable}")]
    BogusVariable {
        /// What of it.
        what: &'static str,
        /// The variable.
        variable: String,
    },
    /// A `GIT_CONFIG_COUNT` beyond what git takes.
    #[error("too many entries in {variable}")]
    TooManyVariables {
        /// The variable.
        variable: String,
    },
    /// A variable that `GIT_CONFIG_COUNT` promises and that is not there.
    #[error("missing config {what} {variable}")]
    MissingVariable {
        /// `key` or `value`.
        what: &'static str,
        /// The variable.
        variable: String,
    },
    /// A key from the environment or the command line that is none.
    #[error("invalid key: {key}")]
    InvalidKey {
        /// The key.
        key: BString,
    },
}

/// Where a key was read from: a place in a file, or, in git's words, the command line.
fn where_parsed(key: &BStr, origin: &ConfigOrigin) -> String {
    match origin.file() {
        Some(_) => origin.to_string(),
        None => format!(": unable to parse '{key}' from command-line config"),
    }
}
