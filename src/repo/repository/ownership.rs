//! Whether a repository may be trusted: its configuration can run programs, so it must belong to
//! whoever runs us, or be named by `safe.directory` (git-config(1)).

use super::super::config::{GitConfig, expand};
use super::super::disk::Disk;
use super::super::environment::Environment;
use super::discover::Found;
use super::error::RepositoryError;
use bstr::BStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Refuses a repository that somebody else owns and nobody trusts.
pub(super) fn check(
    disk: &Disk,
    found: &Found,
    environment: &Environment,
) -> Result<(), RepositoryError> {
    let assumed_foreign = environment
        .var("GIT_TEST_ASSUME_DIFFERENT_OWNER")
        .is_some_and(|value| !matches!(value.as_bytes(), b"" | b"0" | b"false" | b"no" | b"off"));
    let is_ours = |path: &Path| {
        let stat = disk.stat_link(path).map_err(RepositoryError::disk(path))?;
        Ok::<_, RepositoryError>(stat.is_some_and(|stat| is_own(stat.owner, environment)))
    };
    if !assumed_foreign {
        let target_is_ours = found.target.as_deref().map_or(Ok(true), is_ours)?;
        if target_is_ours && is_ours(&found.named)? {
            return Ok(());
        }
    }
    let protected = GitConfig::load_protected(disk, environment)?;
    let real = disk.canonicalize(&found.named).map_err(RepositoryError::disk(&found.named))?;
    if is_declared_safe(disk, &protected, &real, environment) {
        return Ok(());
    }
    Err(RepositoryError::DubiousOwnership { path: found.git_dir().to_owned() })
}

/// Whether a file of this owner is ours: we own it, or we are root by the hand of its owner.
fn is_own(owner: u32, environment: &Environment) -> bool {
    let user = rustix::process::geteuid();
    if user.as_raw() == owner {
        return true;
    }
    let sudo_user = environment
        .var("SUDO_UID")
        .and_then(|digits| digits.to_str())
        .and_then(|digits| digits.parse::<u32>().ok());
    user.is_root() && sudo_user == Some(owner)
}

/// The last word on the directory, with an empty value taking back all before it.
fn is_declared_safe(
    disk: &Disk,
    protected: &GitConfig,
    real: &Path,
    environment: &Environment,
) -> bool {
    let home = environment.var("HOME").map(Path::new);
    let mut is_safe = false;
    for value in protected.protected_strings("safe.directory") {
        match value {
            None => is_safe = false,
            Some(value) if value.is_empty() => is_safe = false,
            Some(value) if value == "*" => is_safe = true,
            Some(value) => is_safe |= names(disk, value, real, home),
        }
    }
    is_safe
}

/// Whether a value names the directory, or by a trailing `/*` one above it.
fn names(disk: &Disk, value: &BStr, real: &Path, home: Option<&Path>) -> bool {
    let Some(path) = expand(value, home) else { return false };
    if path.is_relative() && path != Path::new(".") {
        return false;
    }
    let is_prefix = path.as_os_str().as_bytes().ends_with(b"/*");
    let named = if is_prefix { path.parent().map(PathBuf::from) } else { Some(path) };
    let Some(named) = named.and_then(|named| disk.canonicalize(&named).ok()) else { return false };
    if is_prefix { real != named && real.starts_with(&named) } else { real == named }
}
