//! The repository's format: its version and extensions.

use super::super::config::{ConfigEntry, ConfigError, ConfigScope, GitConfig};
use super::error::RepositoryError;
use crate::model::HashKind;
use bstr::BString;
use std::path::Path;

/// How a repository keeps its refs (`extensions.refStorage`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefStorage {
    /// In files below `refs`, and in packed-refs.
    Files,
    /// As a stack of tables in `reftable` (gitformat-reftable(5)).
    Reftable,
}

/// What the format says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) hash: HashKind,
    pub(super) ref_storage: RefStorage,
}

impl Format {
    const OLDEST: Self = Self { hash: HashKind::Sha1, ref_storage: RefStorage::Files };
}

/// Checks the format and tells what it is.
///
/// git's rules (gitrepository-layout(5), "repository-version"): without a version nothing is
/// checked; version 0 ignores extensions, save that those which only version 1 may have are
/// refused; version 1 refuses any it does not know. Only the repository's own file is asked,
/// without what it includes.
pub(super) fn check(config: &GitConfig, file: &Path) -> Result<Format, RepositoryError> {
    let own = GitConfigFile { config, file };
    let Some(version) = own.version()? else { return Ok(Format::OLDEST) };
    if version > 1 {
        return Err(RepositoryError::Version { found: version });
    }
    let mut format = Format::OLDEST;
    let mut unsupported = None;
    let mut unknown = Vec::new();
    let mut version_one_only = Vec::new();
    for entry in own.extensions() {
        let name = entry.key.get(EXTENSIONS.len()..).unwrap_or_default();
        let refuse = |name| move |value| RepositoryError::UnsupportedExtension { name, value };
        match name {
            b"noop" | b"preciousobjects" | b"partialclone" | b"worktreeconfig" => continue,
            // How work trees and submodules are linked is no concern of a push.
            b"noop-v1" | b"relativeworktrees" | b"submodulepathconfig" => {}
            b"objectformat" => format.hash = hash_of(entry, "objectformat")?,
            b"compatobjectformat" => {
                hash_of(entry, "compatobjectformat")?;
                unsupported = Some(refuse("compatobjectformat")(value_of(entry)?));
            }
            b"refstorage" => match value_of(entry)? {
                value if value == "files" => format.ref_storage = RefStorage::Files,
                value if value == "reftable" => format.ref_storage = RefStorage::Reftable,
                // Newer versions of git know places beside the repository.
                value if value.starts_with(b"reftable://") || value.starts_with(b"files://") => {
                    unsupported = Some(refuse("refstorage")(value));
                }
                value => return Err(RepositoryError::BadExtension { name: "refstorage", value }),
            },
            _ => {
                unknown.push(BString::from(name));
                continue;
            }
        }
        version_one_only.push(BString::from(name));
    }
    if version >= 1 && !unknown.is_empty() {
        return Err(RepositoryError::UnknownExtensions { names: unknown });
    }
    if version == 0 && !version_one_only.is_empty() {
        return Err(RepositoryError::ExtensionsNeedVersionOne { names: version_one_only });
    }
    unsupported.map_or(Ok(format), Err)
}

struct GitConfigFile<'a> {
    config: &'a GitConfig,
    file: &'a Path,
}

impl GitConfigFile<'_> {
    fn entries(&self) -> impl Iterator<Item = &ConfigEntry> {
        self.config.iter().filter(|entry| {
            entry.scope == ConfigScope::Local && entry.origin.file() == Some(self.file)
        })
    }

    fn extensions(&self) -> impl Iterator<Item = &ConfigEntry> {
        self.entries().filter(|entry| entry.key.starts_with(EXTENSIONS))
    }

    fn version(&self) -> Result<Option<i64>, ConfigError> {
        let key = "core.repositoryformatversion";
        let last = self.entries().filter(|entry| entry.key == key).last();
        // A negative version is what git calls none.
        let version = last.map(ConfigEntry::integer).transpose()?;
        Ok(version.filter(|version| *version >= 0))
    }
}

fn hash_of(entry: &ConfigEntry, name: &'static str) -> Result<HashKind, RepositoryError> {
    match value_of(entry)? {
        value if value == "sha1" => Ok(HashKind::Sha1),
        value if value == "sha256" => Ok(HashKind::Sha256),
        value => Err(RepositoryError::BadExtension { name, value }),
    }
}

fn value_of(entry: &ConfigEntry) -> Result<BString, ConfigError> {
    entry.string().map(ToOwned::to_owned)
}

const EXTENSIONS: &[u8] = b"extensions.";

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<HashKind, String> {
        let config = GitConfig::from_text(text.as_bytes()).unwrap();
        let format = check(&config, Path::new("config")).map_err(|error| error.to_string())?;
        Ok(format.hash)
    }

    fn with(version: u32, extensions: &str) -> Result<HashKind, String> {
        checked(&format!(
            "[core]\nrepositoryFormatVersion = {version}\n[extensions]\n{extensions}\n"
        ))
    }

    #[test]
    fn a_repository_without_a_version_is_not_checked() {
        assert_eq!(
            checked("[extensions]\nfuture = 1\nobjectFormat = sha256\n"),
            Ok(HashKind::Sha1)
        );
    }

    #[test]
    fn known_extensions_are_accepted() {
        for extension in [
            "noop",
            "noop-v1",
            "preciousObjects = true",
            "partialClone = origin",
            "worktreeConfig = true",
            "relativeWorktrees = true",
            "refStorage = files",
            "objectFormat = sha1",
            "submodulePathConfig",
        ] {
            assert_eq!(with(1, extension), Ok(HashKind::Sha1), "{extension}");
        }
        assert_eq!(with(1, "objectFormat = sha256"), Ok(HashKind::Sha256));
    }

    #[test]
    fn the_last_word_on_the_storage_of_refs_counts() {
        let storage = |extensions: &str| {
            let text = format!("[core]\nrepositoryFormatVersion = 1\n[extensions]\n{extensions}\n");
            let config = GitConfig::from_text(text.as_bytes()).unwrap();
            check(&config, Path::new("config")).unwrap().ref_storage
        };
        assert_eq!(storage(""), RefStorage::Files);
        assert_eq!(storage("refStorage = reftable"), RefStorage::Reftable);
        let both = "refStorage = reftable\nrefStorage = files";
        assert_eq!(storage(both), RefStorage::Files);
        let other = with(1, "refStorage = reftables").unwrap_err();
        assert_eq!(other, "invalid value for 'extensions.refstorage': 'reftables'");
    }

    #[test]
    fn unknown_extensions_are_refused_by_name_in_version_one_only() {
        assert_eq!(
            with(1, "future = 1\n[extensions \"Soon\"]\ner = 2"),
            Err("unknown repository extension found:\n\tfuture\n\tSoon.er".to_owned())
        );
        assert_eq!(with(0, "future = 1"), Ok(HashKind::Sha1));
    }

    #[test]
    fn what_needs_version_one_is_refused_in_version_zero() {
        assert_eq!(
            with(0, "objectFormat = sha256"),
            Err("repo version is 0, but v1-only extension found:\n\tobjectformat".to_owned())
        );
        assert_eq!(with(2, ""), Err("Expected git repo version <= 1, found 2".to_owned()));
    }

    #[test]
    fn what_this_version_does_not_do_is_refused_by_name() {
        for (extension, value) in
            [("refStorage", "reftable://srv/refs"), ("compatObjectFormat", "sha256")]
        {
            let name = extension.to_ascii_lowercase();
            assert_eq!(
                with(1, &format!("{extension} = {value}")),
                Err(format!("repository extension '{name} = {value}' is not supported"))
            );
        }
        assert_eq!(
            with(1, "objectFormat = md5"),
            Err("invalid value for 'extensions.objectformat': 'md5'".to_owned())
        );
        assert!(with(1, "refStorage").unwrap_err().starts_with("missing value"));
    }
}
