//! Which directory a path means.

use super::super::config::expand;
use super::super::disk::{Disk, EntryKind, unless_unknown};
use super::super::environment::Environment;
use super::error::RepositoryError;
use crate::model::ObjectId;
use bstr::ByteSlice;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A directory that looks like a repository, and the gitfile's target if one led there.
#[derive(Debug)]
pub(super) struct Found {
    /// What was named: the git directory itself, or the gitfile.
    pub(super) named: PathBuf,
    /// Where a gitfile leads.
    pub(super) target: Option<PathBuf>,
}

impl Found {
    pub(super) fn git_dir(&self) -> &Path {
        self.target.as_deref().unwrap_or(&self.named)
    }
}

/// Looks for a repository in git's order for paths that clients name: `<path>/.git`, `<path>`,
/// `<path>/.git/.git`, `<path>.git` (git's `enter_repo`, not strict).
pub(super) fn find(
    disk: &Disk,
    path: &Path,
    environment: &Environment,
) -> Result<Found, RepositoryError> {
    let not_found = || RepositoryError::NotARepository { path: path.to_owned() };
    let stem = trim_slashes(path.as_os_str().as_bytes());
    if stem.len() >= PATH_BYTES_MAX {
        return Err(not_found());
    }
    let home = environment.var("HOME").map(Path::new);
    let stem = expand(stem.as_bstr(), home).ok_or_else(not_found)?;
    for suffix in ["/.git", "", "/.git/.git", ".git"] {
        let mut candidate = stem.clone().into_os_string();
        candidate.push(suffix);
        let candidate = PathBuf::from(candidate);
        // A path that is too long or runs in circles is no repository, whatever the error.
        let stat = unless_unknown(disk.stat(&candidate), None)
            .map_err(RepositoryError::disk(&candidate))?;
        match stat.map(|stat| stat.kind) {
            Some(EntryKind::File) => return through_gitfile(disk, candidate, environment),
            Some(EntryKind::Directory) if is_git_directory(disk, &candidate, environment)? => {
                return Ok(Found { named: candidate, target: None });
            }
            _ => {}
        }
    }
    Err(not_found())
}

/// Whether a directory looks like a repository: a HEAD that makes sense, `objects` and `refs`. What
/// cannot be looked at is none, unless that is for want of descriptors or because the disk fails.
pub(super) fn is_git_directory(
    disk: &Disk,
    path: &Path,
    environment: &Environment,
) -> Result<bool, RepositoryError> {
    looks_like_one(disk, path, environment).map_err(RepositoryError::disk(path))
}

fn looks_like_one(disk: &Disk, path: &Path, environment: &Environment) -> io::Result<bool> {
    let common = unless_unknown(common_dir(disk, path).map(Some), None)?;
    let Some(common) = common else { return Ok(false) };
    let is_directory = |path: &Path| -> io::Result<bool> {
        let stat = unless_unknown(disk.stat(path), None)?;
        Ok(stat.is_some_and(|stat| stat.kind == EntryKind::Directory))
    };
    let objects = match environment.var("GIT_OBJECT_DIRECTORY") {
        Some(elsewhere) => path.join(elsewhere),
        None => common.join("objects"),
    };
    Ok(has_valid_head(disk, path)?
        && is_directory(&objects)?
        && is_directory(&common.join("refs"))?)
}

/// The directory that holds what linked work trees share: the one that `commondir` names, or the
/// git directory itself.
pub(super) fn common_dir(disk: &Disk, git_dir: &Path) -> io::Result<PathBuf> {
    Ok(match disk.read_if_there(&git_dir.join("commondir"), GITFILE_BYTES_MAX)? {
        Some(content) => git_dir.join(path_of(content.trim_end_with(is_line_end))),
        None => git_dir.to_owned(),
    })
}

fn through_gitfile(
    disk: &Disk,
    file: PathBuf,
    environment: &Environment,
) -> Result<Found, RepositoryError> {
    let content = disk.read(&file, GITFILE_BYTES_MAX).map_err(RepositoryError::disk(&file))?;
    let target = content.strip_prefix(b"gitdir: ").map(|rest| rest.trim_end_with(is_line_end));
    let Some(target) = target.filter(|target| !target.is_empty()) else {
        return Err(RepositoryError::InvalidGitfile { path: file });
    };
    let directory = file.parent().unwrap_or(Path::new(""));
    let target = directory.join(path_of(target));
    if !is_git_directory(disk, &target, environment)? {
        return Err(RepositoryError::GitfileTarget { path: target });
    }
    Ok(Found { named: file, target: Some(target) })
}

/// HEAD is a symbolic ref, in a file or as a symbolic link, or an object id.
fn has_valid_head(disk: &Disk, git_dir: &Path) -> io::Result<bool> {
    let path = git_dir.join("HEAD");
    let stat = unless_unknown(disk.stat_link(&path), None)?;
    Ok(match stat.map(|stat| stat.kind) {
        Some(EntryKind::Symlink) => unless_unknown(disk.read_link(&path), None)?
            .is_some_and(|target| target.as_os_str().as_bytes().starts_with(b"refs/")),
        Some(EntryKind::File) => {
            let head = unless_unknown(disk.read(&path, HEAD_BYTES_MAX), Vec::new())?;
            if let Some(target) = head.strip_prefix(b"ref:") {
                return Ok(target.trim_start().starts_with(b"refs/"));
            }
            let digits = head.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            head.get(..digits).is_some_and(|hex| ObjectId::from_hex(hex).is_ok())
        }
        _ => false,
    })
}

fn trim_slashes(path: &[u8]) -> &[u8] {
    match path.trim_end_with(|byte| byte == '/') {
        [] => path.get(..1).unwrap_or_default(),
        trimmed => trimmed,
    }
}

fn is_line_end(character: char) -> bool {
    matches!(character, '\n' | '\r')
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Linux's `PATH_MAX`, which git takes for its bound.
const PATH_BYTES_MAX: usize = 4096;
/// git's bound on a gitfile.
const GITFILE_BYTES_MAX: u64 = 1 << 20;
/// A HEAD that is longer names no ref.
const HEAD_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_slashes_do_not_count() {
        assert_eq!(trim_slashes(b"/srv/r.git///"), b"/srv/r.git");
        assert_eq!(trim_slashes(b"///"), b"/");
        assert_eq!(trim_slashes(b""), b"");
    }
}
