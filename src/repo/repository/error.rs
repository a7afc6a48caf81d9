//! Why a repository was not opened.

use super::super::config::ConfigError;
use bstr::BString;
use std::io;
use std::path::PathBuf;

/// A repository that was not found, may not be used, or is set up for a git we do not know.
///
/// Texts are git's where git has one: clients over ssh and scripts see them.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// Nothing at the path, or no repository.
    #[error("'{}' does not appear to be a git repository", path.display())]
    NotARepository {
        /// The path as it was asked for.
        path: PathBuf,
    },
    /// A file where a repository was looked for, and not one that names another place.
    #[error("invalid gitfile format: {}", path.display())]
    InvalidGitfile {
        /// The file.
        path: PathBuf,
    },
    /// A gitfile that names a place without a repository.
    #[error("not a git repository: {}", path.display())]
    GitfileTarget {
        /// The place.
        path: PathBuf,
    },
    /// Somebody else owns it, and no protected configuration trusts it.
    #[error(
        "detected dubious ownership in repository at '{0}'\n\
         To add an exception for this directory, call:\n\n\
         \tgit config --global --add safe.directory {0}",
        path.display()
    )]
    DubiousOwnership {
        /// The git directory.
        path: PathBuf,
    },
    /// A format of a later git.
    #[error("Expected git repo version <= 1, found {found}")]
    Version {
        /// `core.repositoryFormatVersion`.
        found: i64,
    },
    /// Extensions that nobody here knows.
    #[error("unknown repository extension found:{}", listed(names))]
    UnknownExtensions {
        /// Their names.
        names: Vec<BString>,
    },
    /// Extensions that the repository's version rules out.
    #[error("repo version is 0, but v1-only extension found:{}", listed(names))]
    ExtensionsNeedVersionOne {
        /// Their names.
        names: Vec<BString>,
    },
    /// An extension with a value that git does not know either.
    #[error("invalid value for 'extensions.{name}': '{value}'")]
    BadExtension {
        /// The extension.
        name: &'static str,
        /// Its value.
        value: BString,
    },
    /// A known extension that this version does not do.
    #[error("repository extension '{name} = {value}' is not supported")]
    UnsupportedExtension {
        /// The extension.
        name: &'static str,
        /// Its value.
        value: BString,
    },
    /// A mode that would lock the owner out.
    #[error(
        "problem with core.sharedRepository filemode value (0{mode:03o}): the owner of files must \
         always have read and write permissions"
    )]
    SharedMode {
        /// The mode.
        mode: u32,
    },
    /// A compression level that zlib does not have.
    #[error("bad zlib compression level {level}")]
    CompressionLevel {
        /// The level.
        level: i64,
    },
    /// Its configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The disk.
    #[error("cannot read '{}'", path.display())]
    Disk {
        /// What was read.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl RepositoryError {
    /// Wraps an error of the disk with the path it happened at.
    pub(super) fn disk(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Disk { path, source }
    }
}

fn listed(names: &[BString]) -> String {
    names.iter().map(|name| format!("\n\t{name}")).collect::<Vec<_>>().concat()
}
