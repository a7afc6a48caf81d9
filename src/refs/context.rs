//! What the ref code has to know of a repository, handed in as plain values.

use super::namespace::Namespace;
use crate::model::HashKind;
use crate::repo::{Disk, InFlight};
use bstr::{BStr, BString, ByteSlice};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// A repository as the ref code sees it.
#[derive(Clone, Debug)]
pub struct RefContext {
    /// Through this everything is read and changed.
    pub disk: Disk,
    /// The git directory; of a linked worktree, that worktree's own.
    pub git_dir: PathBuf,
    /// The git directory that all worktrees share; in a bare repository the same.
    pub common_dir: PathBuf,
    /// The hash of the repository's ids.
    pub hash: HashKind,
    /// The namespace that the client sees; full names are used everywhere but in the
    /// advertisement.
    pub namespace: Option<Namespace>,
    /// What the configuration says of refs.
    pub settings: RefSettings,
    /// Where locks are noted that must not outlive this process.
    pub in_flight: InFlight,
}

/// The configuration of refs, with git's defaults.
#[derive(Clone, Debug)]
pub struct RefSettings {
    /// `core.filesRefLockTimeout`.
    pub ref_lock_timeout: LockTimeout,
    /// `core.packedRefsTimeout`.
    pub packed_refs_timeout: LockTimeout,
    /// `reftable.lockTimeout`.
    pub reftable_lock_timeout: LockTimeout,
    /// `core.logAllRefUpdates`.
    pub reflog: ReflogCreation,
    /// Who moves the refs, as reflogs have it: `name <email> seconds zone`.
    pub committer: Committer,
    /// The file that says where history ends in place of the repository's `shallow`, relative to
    /// the git directory; an empty path for none (`GIT_SHALLOW_FILE`).
    pub shallow_file: Option<PathBuf>,
    /// Permission bits of ref files and reflogs, before the umask.
    pub file_mode: u32,
    /// Permission bits of directories, before the umask.
    pub directory_mode: u32,
}

impl Default for RefSettings {
    fn default() -> Self {
        Self {
            ref_lock_timeout: LockTimeout::AtMost(Duration::from_millis(100)),
            packed_refs_timeout: LockTimeout::AtMost(Duration::from_secs(1)),
            reftable_lock_timeout: LockTimeout::AtMost(Duration::from_secs(1)),
            reflog: ReflogCreation::Never,
            committer: Committer::from(BString::default()),
            shallow_file: None,
            file_mode: 0o666,
            directory_mode: 0o777,
        }
    }
}

/// A committer's ident, made when the first reflog is written: few pushes write any, and the time
/// zone of the machine takes a look at many files.
#[derive(Clone, Debug)]
pub struct Committer(Arc<LazyLock<BString, Box<MakeIdent>>>);

type MakeIdent = dyn FnOnce() -> BString + Send;

impl Committer {
    /// The ident that `make` gives, once it is needed.
    pub fn new(make: impl FnOnce() -> BString + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }

    /// The ident.
    pub fn ident(&self) -> &BStr {
        self.0.as_bstr()
    }
}

impl<T: Into<BString>> From<T> for Committer {
    fn from(ident: T) -> Self {
        let ident = ident.into();
        Self::new(|| ident)
    }
}

/// How long to try for a lock that somebody else holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockTimeout {
    /// Until it is free.
    Forever,
    /// For this long; of zero, once.
    AtMost(Duration),
}

impl LockTimeout {
    /// git's number: milliseconds, and forever if negative.
    pub fn from_milliseconds(milliseconds: i64) -> Self {
        u64::try_from(milliseconds)
            .map_or(Self::Forever, |n| Self::AtMost(Duration::from_millis(n)))
    }
}

/// For which refs a reflog is begun. One that is there is always written on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReflogCreation {
    /// For none: `false`.
    Never,
    /// For HEAD and refs below `refs/heads/`, `refs/remotes/` and `refs/notes/`: `true`.
    Normal,
    /// For all: `always`.
    Always,
}

impl ReflogCreation {
    /// The value of `core.logAllRefUpdates`; unset, repositories with a work tree have reflogs.
    pub fn choose(setting: Option<Self>, bare: bool) -> Self {
        setting.unwrap_or(if bare { Self::Never } else { Self::Normal })
    }

    pub(super) fn begins(self, name: &BStr) -> bool {
        match self {
            Self::Never => false,
            Self::Normal => {
                name == "HEAD"
                    || [&b"refs/heads/"[..], b"refs/remotes/", b"refs/notes/"]
                        .iter()
                        .any(|prefix| name.starts_with(prefix))
            }
            Self::Always => true,
        }
    }
}

/// Paths. Names come from `RefName` or have passed the same rules, so that none leads outside.
impl RefContext {
    /// The directory that a ref's files lie below: what belongs to one worktree in its own git
    /// directory, all else in the common one (gitrepository-layout(5)).
    pub(super) fn home_of(&self, name: &BStr) -> &Path {
        if is_per_worktree(name) { &self.git_dir } else { &self.common_dir }
    }

    pub(super) fn ref_path(&self, name: &BStr) -> PathBuf {
        self.home_of(name).join(as_path(name))
    }

    pub(super) fn lock_path(&self, name: &BStr) -> PathBuf {
        with_lock_suffix(self.ref_path(name))
    }

    pub(super) fn log_path(&self, name: &BStr) -> PathBuf {
        self.home_of(name).join("logs").join(as_path(name))
    }

    /// The directories that must be flushed for the file of a ref to stay: all above it, since
    /// another process may have made one of them a moment ago. `refs` itself only names
    /// directories that every repository begins with, unless `with_refs` says otherwise.
    pub(super) fn directories_of(&self, name: &BStr, with_refs: bool) -> Vec<PathBuf> {
        let home = self.home_of(name);
        let mut directories: Vec<PathBuf> =
            parents_of(name).map(|parent| home.join(as_path(parent))).collect();
        let first = parents_of(name).next();
        if with_refs || !first.is_some_and(|first| first == "refs/heads" || first == "refs/tags") {
            directories.push(home.join("refs"));
        }
        directories
    }

    pub(super) fn packed_refs_path(&self) -> PathBuf {
        self.common_dir.join("packed-refs")
    }
}

/// Whether each worktree has its own: HEAD and its like, and three directories below refs.
pub(super) fn is_per_worktree(name: &BStr) -> bool {
    !name.starts_with(b"refs/")
        || PER_WORKTREE.iter().any(|directory| {
            name.strip_prefix(directory.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
        })
}

/// The directories below refs that each worktree has for itself.
pub(super) const PER_WORKTREE: [&str; 3] = ["refs/bisect", "refs/rewritten", "refs/worktree"];

pub(super) fn with_lock_suffix(path: PathBuf) -> PathBuf {
    let mut path = path.into_os_string();
    path.push(".lock");
    path.into()
}

fn as_path(name: &BStr) -> &Path {
    Path::new(OsStr::from_bytes(name.as_bytes()))
}

/// The names that would have to be directories for `name` to be a file: `refs/heads` and
/// `refs/heads/a` for `refs/heads/a/b`. `refs` is left out; it always is one.
pub(super) fn parents_of(name: &BStr) -> impl Iterator<Item = &BStr> {
    name.find_iter("/").skip(1).filter_map(|at| name.get(..at)).map(ByteSlice::as_bstr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worktrees_share_all_but_three_directories_and_what_lies_beside_refs() {
        let context = RefContext {
            disk: Disk::default(),
            git_dir: "/r/worktrees/w".into(),
            common_dir: "/r".into(),
            hash: HashKind::Sha1,
            namespace: None,
            settings: RefSettings::default(),
            in_flight: InFlight::none(),
        };
        let path = |name: &str| context.ref_path(name.into());
        assert_eq!(path("refs/heads/a"), Path::new("/r/refs/heads/a"));
        assert_eq!(path("refs/bisects/a"), Path::new("/r/refs/bisects/a"));
        assert_eq!(path("HEAD"), Path::new("/r/worktrees/w/HEAD"));
        for name in ["refs/bisect/a", "refs/worktree/a", "refs/rewritten/a/b"] {
            assert_eq!(path(name), Path::new("/r/worktrees/w").join(name));
        }
        let log = context.log_path("refs/bisect/x".into());
        assert_eq!(log, Path::new("/r/worktrees/w/logs/refs/bisect/x"));
        assert_eq!(context.lock_path("refs/a/b".into()), Path::new("/r/refs/a/b.lock"));
    }

    #[test]
    fn all_directories_above_a_ref_are_flushed() {
        let root = Path::new("/r");
        let context = RefContext {
            disk: Disk::default(),
            git_dir: root.into(),
            common_dir: root.into(),
            hash: HashKind::Sha1,
            namespace: None,
            settings: RefSettings::default(),
            in_flight: InFlight::none(),
        };
        let of = |name: &str, with_refs| context.directories_of(name.into(), with_refs);
        assert_eq!(of("refs/heads/x", false), [root.join("refs/heads")]);
        let nested = ["refs/heads", "refs/heads/a", "refs/heads/a/b"].map(|path| root.join(path));
        assert_eq!(of("refs/heads/a/b/c", false), nested);
        let with_refs = ["refs/tags", "refs"].map(|path| root.join(path));
        assert_eq!(of("refs/tags/x", true), with_refs);
        assert_eq!(of("refs/pull/x", false), ["refs/pull", "refs"].map(|path| root.join(path)));
        assert_eq!(of("refs/x", false), [root.join("refs")]);
    }

    #[test]
    fn reflogs_begin_as_the_setting_says() {
        let names = ["HEAD", "refs/heads/a", "refs/remotes/o/a", "refs/notes/a", "refs/tags/a"];
        let begun = |policy: ReflogCreation| names.map(|name| policy.begins(name.into()));
        assert_eq!(begun(ReflogCreation::Never), [false; 5]);
        assert_eq!(begun(ReflogCreation::Normal), [true, true, true, true, false]);
        assert_eq!(begun(ReflogCreation::Always), [true; 5]);
        assert_eq!(ReflogCreation::choose(None, true), ReflogCreation::Never);
        assert_eq!(ReflogCreation::choose(None, false), ReflogCreation::Normal);
        let always = Some(ReflogCreation::Always);
        assert_eq!(ReflogCreation::choose(always, true), ReflogCreation::Always);
    }

    #[test]
    fn a_negative_timeout_is_forever() {
        assert_eq!(LockTimeout::from_milliseconds(-1), LockTimeout::Forever);
        assert_eq!(LockTimeout::from_milliseconds(0), LockTimeout::AtMost(Duration::ZERO));
    }

    #[test]
    fn parents_are_named_outermost_first() {
        let parents: Vec<_> = parents_of("refs/heads/a/b".into()).collect();
        assert_eq!(parents, ["refs/heads", "refs/heads/a"]);
        assert_eq!(parents_of("refs/x".into()).count(), 0);
        assert_eq!(parents_of("HEAD".into()).count(), 0);
    }
}
