//! Repositories that were opened before, for servers: most of what opening one reads has not
//! changed since the last request.

use super::super::disk::{Disk, Stat};
use super::super::environment::Environment;
use super::super::stamp::Stamp;
use super::error::RepositoryError;
use super::opened::Repository;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Opens repositories as [`Repository::open_exact`] does, and gives one that it has opened before
/// if nothing that was looked at then has changed: which directory it is and whose, HEAD, every
/// file of git's configuration, there or not, and the environment. A look costs a `stat` of each.
/// What lies in the git directory besides may come and go, as with every push.
///
/// What changed so lately that a second change might not show is not kept.
#[derive(Debug, Default)]
pub struct RepositoryCache {
    opened: Mutex<HashMap<PathBuf, Arc<Opened>>>,
}

#[derive(Debug)]
struct Opened {
    repository: Repository,
    variables: Vec<(OsString, OsString)>,
    watched: Watched,
}

/// What opening a repository has looked at.
#[derive(Debug, PartialEq, Eq)]
struct Watched {
    directory: Place,
    files: Vec<(PathBuf, Option<Stamp>)>,
}

/// Which directory a path names, and who may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    device: u64,
    inode: u64,
    created: Option<(i64, i64)>,
    owner: u32,
    mode: u32,
}

/// Repositories that are kept. With more all are forgotten: that costs each one opening, and no
/// bookkeeping.
const REPOSITORIES_MAX: usize = 4096;

impl RepositoryCache {
    /// Opens the repository whose git directory is `git_dir`, looking nowhere else.
    pub fn open_exact(
        &self,
        disk: &Disk,
        git_dir: &Path,
        environment: &Environment,
    ) -> Result<Repository, RepositoryError> {
        let variables = variables(environment);
        if let Some(opened) = self.find(git_dir)
            && opened.variables == variables
            && opened.is_unchanged(disk, git_dir)
        {
            return Ok(opened.repository.in_environment(environment));
        }
        let begun = SystemTime::now();
        let repository = Repository::open_exact(disk, git_dir, environment)?;
        self.keep(disk, git_dir, begun, &repository, variables);
        Ok(repository)
    }

    fn find(&self, git_dir: &Path) -> Option<Arc<Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).get(git_dir).cloned()
    }

    /// Keeps a repository that was read since `begun`, if all that was read had settled before.
    fn keep(
        &self,
        disk: &Disk,
        git_dir: &Path,
        begun: SystemTime,
        repository: &Repository,
        variables: Vec<(OsString, OsString)>,
    ) {
        // A linked work tree reads more than is watched here.
        let watched = (repository.common_dir() == repository.git_dir())
            .then(|| watch(disk, git_dir, repository))
            .and_then(|watched| watched.ok().flatten())
            .filter(|watched| {
                watched
                    .files
                    .iter()
                    .all(|(_, stamp)| stamp.is_none_or(|s| s.is_settled_file(begun)))
            });
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = watched else {
            opened.remove(git_dir);
            return;
        };
        if opened.len() >= REPOSITORIES_MAX && !opened.contains_key(git_dir) {
            opened.clear();
        }
        let repository = repository.clone();
        let kept = Opened { repository, variables, watched };
        opened.insert(git_dir.to_owned(), Arc::new(kept));
    }
}

impl Opened {
    fn is_unchanged(&self, disk: &Disk, git_dir: &Path) -> bool {
        let Watched { directory, files } = &self.watched;
        place(disk, git_dir).ok().flatten() == Some(*directory)
            && files.iter().all(|(path, seen)| stamp(disk, path).ok() == Some(*seen))
    }
}

/// Everything that opening `repository` by the name of `git_dir` has read; `None` if that has gone.
fn watch(disk: &Disk, git_dir: &Path, repository: &Repository) -> io::Result<Option<Watched>> {
    let Some(directory) = place(disk, git_dir)? else { return Ok(None) };
    let own = ["HEAD", "commondir"].map(|name| git_dir.join(name));
    let paths = own.into_iter().chain(repository.config().files().iter().cloned());
    let files = paths.map(|path| stamp(disk, &path).map(|stamp| (path, stamp)));
    Ok(Some(Watched { directory, files: files.collect::<io::Result<_>>()? }))
}

fn place(disk: &Disk, git_dir: &Path) -> io::Result<Option<Place>> {
    Ok(disk.stat(git_dir)?.map(|stat| {
        let Stat { device, inode, created, owner, mode, .. } = stat;
        Place { device, inode, created, owner, mode }
    }))
}

fn stamp(disk: &Disk, path: &Path) -> io::Result<Option<Stamp>> {
    Ok(disk.stat(path)?.as_ref().map(Stamp::of))
}

/// The variables that opening a repository may look at: all of git's but those that name a
/// person or the protocol, which differ from request to request.
fn variables(environment: &Environment) -> Vec<(OsString, OsString)> {
    let is_read = |name: &OsStr| {
        let name = name.as_bytes();
        let is_other = [&b"GIT_PROTOCOL"[..], b"GIT_COMMITTER_", b"GIT_AUTHOR_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        let others: [&[u8]; 3] = [b"HOME", b"XDG_CONFIG_HOME", b"SUDO_UID"];
        others.contains(&name) || (name.starts_with(b"GIT_") && !is_other)
    };
    let read = environment.iter().filter(|(name, _)| is_read(name));
    read.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, FileTimes};
    use std::process::Command;
    use std::time::Duration;

    struct World {
        root: tempfile::TempDir,
        environment: Environment,
        disk: Disk,
        cache: RepositoryCache,
    }

    fn world() -> World {
        let root = tempfile::tempdir().unwrap();
        let environment: Environment =
            [("HOME", root.path().as_os_str().to_owned()), ("GIT_CONFIG_NOSYSTEM", "1".into())]
                .into_iter()
                .collect();
        let status = Command::new("git")
            .current_dir(root.path())
            .envs(environment.iter())
            .args(["init", "-q", "--bare", "r.git"])
            .status();
        assert!(status.unwrap().success());
        World { root, environment, disk: Disk::default(), cache: RepositoryCache::default() }
    }

    impl World {
        fn path(&self) -> PathBuf {
            self.root.path().join("r.git")
        }

        fn open(&self) -> Result<Repository, RepositoryError> {
            self.cache.open_exact(&self.disk, &self.path(), &self.environment)
        }

        /// Keeps the repository as if nothing had changed for long.
        fn keep(&self) {
            let repository = self.open().unwrap();
            let later = SystemTime::now() + Duration::from_secs(10);
            let variables = variables(&self.environment);
            self.cache.keep(&self.disk, &self.path(), later, &repository, variables);
        }

        /// Opens it, and tells how many files that took.
        fn opens(&self) -> (Result<Repository, RepositoryError>, u64) {
            let before = self.disk.counts().opens;
            let opened = self.open();
            (opened, self.disk.counts().opens - before)
        }
    }

    #[test]
    fn what_has_not_changed_is_not_read_again() {
        let world = world();
        world.keep();
        let (opened, opens) = world.opens();
        assert_eq!(opened.unwrap().git_dir(), fs::canonicalize(world.path()).unwrap());
        assert_eq!(opens, 0);
    }

    #[test]
    fn what_is_young_is_read_each_time() {
        let world = world();
        let head = world.path().join("HEAD");
        let repository = world.open().unwrap();
        let changed = fs::metadata(head).unwrap().modified().unwrap();
        for (age, is_kept) in [(1, false), (1000, true)] {
            let begun = changed + Duration::from_millis(age);
            let variables = variables(&world.environment);
            world.cache.keep(&world.disk, &world.path(), begun, &repository, variables);
            assert_eq!(world.cache.find(&world.path()).is_some(), is_kept);
        }
    }

    #[test]
    fn what_comes_and_goes_in_the_directory_is_no_reason_to_read_anything_again() {
        let world = world();
        world.keep();
        fs::write(world.path().join("tmp_ref_x"), "").unwrap();
        assert_eq!(world.opens().1, 0);
        fs::write(world.path().join("commondir"), "../elsewhere").unwrap();
        assert!(world.opens().1 > 0);
    }

    #[test]
    fn a_changed_configuration_is_seen_wherever_it_is() {
        let world = world();
        let included = world.root.path().join("included");
        fs::write(world.root.path().join(".gitconfig"), "[include]\npath=included\n").unwrap();
        for (file, text) in [
            (world.path().join("config"), "[core]\nbare\n[receive]\ndenyDeletes=false\n"),
            (included, "[receive]\ndenyDeletes\n"),
            (world.root.path().join(".config/git/config"), "[receive]\ndenyDeletes\n"),
        ] {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            world.keep();
            fs::write(&file, text).unwrap();
            let (opened, opens) = world.opens();
            assert!(opens > 0, "{}", file.display());
            let key = "receive.denyDeletes";
            assert!(opened.unwrap().config().boolean(key).unwrap().is_some(), "{}", file.display());
            fs::remove_file(file).unwrap();
        }
    }

    #[test]
    fn an_old_file_that_is_renamed_into_place_is_seen() {
        let world = world();
        let old = world.path().join("old");
        fs::write(&old, "[core]\nbare=true\n[receive]\ndenyDeletes\n").unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(1000);
        File::open(&old).unwrap().set_times(FileTimes::new().set_modified(long_ago)).unwrap();
        world.keep();
        fs::rename(old, world.path().join("config")).unwrap();
        assert_eq!(
            world.open().unwrap().config().boolean("receive.denyDeletes").unwrap(),
            Some(true)
        );
    }

    #[test]
    fn a_repository_that_went_is_gone() {
        let world = world();
        world.keep();
        fs::rename(world.path(), world.root.path().join("elsewhere")).unwrap();
        assert!(matches!(world.open(), Err(RepositoryError::NotARepository { .. })));
    }

    #[test]
    fn another_environment_is_another_configuration_and_another_person_is_not() {
        let mut world = world();
        world.keep();
        world.environment.set("GIT_COMMITTER_NAME", "somebody");
        let (opened, opens) = world.opens();
        assert_eq!(opens, 0);
        let name = opened.unwrap().environment().var("GIT_COMMITTER_NAME").map(ToOwned::to_owned);
        assert_eq!(name, Some("somebody".into()));
        world.environment.set("GIT_CONFIG_COUNT", "1");
        world.environment.set("GIT_CONFIG_KEY_0", "receive.denyDeletes");
        world.environment.set("GIT_CONFIG_VALUE_0", "true");
        let value = world.open().unwrap().config().boolean("receive.denyDeletes").unwrap();
        assert_eq!(value, Some(true));
    }
}
