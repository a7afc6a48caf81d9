//! From a repository's place in a URL to the repository.
//!
//! Guarantees that nothing outside the root is opened: every place is resolved by the kernel with
//! `openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)` first. Symbolic links within the root are
//! followed as long as they stay beneath it, so an absolute link is not. Links are made by the
//! operator, never by a client, so they do not change under the feet of the path that is opened
//! next.
//!
//! Everything here blocks.

use super::route::RepositoryPath;
use crate::access::Switches;
use crate::receive::Target;
use crate::repo::sweep::repositories_below;
use crate::repo::{
    ConfigError, Disk, Environment, Repository, RepositoryCache, RepositoryError, lacks_resources,
};
use crate::report::Fault;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The directory below which repositories lie.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    directory: OwnedFd,
    opened: RepositoryCache,
}

/// What a URL's place turned out to be.
#[derive(Debug)]
pub(super) enum Located {
    /// A repository, and what it says of itself.
    Existing(Repository, Switches),
    /// Nothing, where a push may make a repository.
    Fresh(Target),
    /// Nothing that can be served, and nothing can be made: repositories lie below the place.
    Above,
    /// Nothing that can be served or made.
    Absent,
}

/// A repository that is there and cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot open repository '{}'", path.display())]
pub(super) struct Unusable {
    path: PathBuf,
    #[source]
    source: RepositoryError,
}

impl Root {
    /// Opens the root, which must be a directory.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Self { path, directory, opened: RepositoryCache::default() })
    }

    /// Finds what is at `place`, under either of its names. What `disk` and `environment` mean is
    /// [`Repository::open_exact`]'s business.
    ///
    /// Looks again where something is in the way: it may be a repository that another push has
    /// just made.
    pub(super) fn locate(
        &self,
        disk: &Disk,
        place: &RepositoryPath,
        environment: &Environment,
    ) -> Result<Located, Unusable> {
        match self.look(disk, place, environment)? {
            Located::Absent | Located::Above => self.look(disk, place, environment),
            located => Ok(located),
        }
    }

    fn look(
        &self,
        disk: &Disk,
        place: &RepositoryPath,
        environment: &Environment,
    ) -> Result<Located, Unusable> {
        for candidate in place.candidates() {
            let Some(path) = self.resolve(candidate.as_path())? else { continue };
            if let Some(located) = self.open_at(disk, path, environment)? {
                return Ok(located);
            }
            // A work tree: its repository lies in it.
            if let Some(path) = self.resolve(&candidate.as_path().join(".git"))?
                && let Some(located) = self.open_at(disk, path, environment)?
            {
                return Ok(located);
            }
        }
        let path = place.to_create();
        if self.may_create(disk, &path, environment)? {
            let target =
                Target::Fresh { path: self.path.join(path.as_path()), root: self.path.clone() };
            return Ok(Located::Fresh(target));
        }
        let full = self.path.join(path.as_path());
        let is_plain_directory = self.resolve(path.as_path())?.is_some();
        if is_plain_directory && repositories_below(disk, &full).next().is_some() {
            return Ok(Located::Above);
        }
        Ok(Located::Absent)
    }

    /// The repository at `path`; `None` if there is something else.
    fn open_at(
        &self,
        disk: &Disk,
        path: PathBuf,
        environment: &Environment,
    ) -> Result<Option<Located>, Unusable> {
        match self.opened.open_exact(disk, &path, environment) {
            Ok(repository) => {
                let switches = switches(&repository)
                    .map_err(|error| Unusable { path, source: error.into() })?;
                Ok(Some(Located::Existing(repository, switches)))
            }
            Err(RepositoryError::NotARepository { .. }) => Ok(None),
            Err(source) => Err(Unusable { path, source }),
        }
    }

    /// Whether nothing lies at `place`, and only plain directories above it: never a repository,
    /// whose own directory is nobody else's.
    fn may_create(
        &self,
        disk: &Disk,
        place: &RepositoryPath,
        environment: &Environment,
    ) -> Result<bool, Unusable> {
        let is_repository = |path: &Path| {
            !matches!(
                Repository::open_exact(disk, path, environment),
                Err(RepositoryError::NotARepository { .. })
            )
        };
        let is_there = |relative: &Path| {
            let path = self.path.join(relative);
            match disk.stat_link(&path) {
                Err(source) if lacks_resources(&source) => Err(Unusable::by_disk(path, source)),
                // An error that is not absence is no reason to write.
                found => Ok(!matches!(found, Ok(None))),
            }
        };
        for ancestor in place.ancestors() {
            if !is_there(ancestor)? {
                return Ok(true);
            }
            match self.resolve(ancestor)? {
                // As the creation has it: a work tree's `.git` makes it a repository's, too.
                Some(path) if !is_repository(&path) && !is_there(&ancestor.join(".git"))? => {}
                _ => return Ok(false),
            }
        }
        Ok(!is_there(place.as_path())?)
    }

    /// The full path of a directory beneath the root; `None` if there is none, or if the way to it
    /// leads out. An error that says nothing of the place, such as being out of descriptors, does
    /// not make it absent.
    fn resolve(&self, relative: &Path) -> Result<Option<PathBuf>, Unusable> {
        let opened = loop {
            match open_beneath(&self.directory, relative) {
                // Something above was renamed meanwhile, so the kernel cannot tell.
                Err(Errno::AGAIN) => {}
                opened => break opened,
            }
        };
        match opened {
            Ok(_) => Ok(Some(self.path.join(relative))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Ok(None),
            Err(error @ (Errno::XDEV | Errno::LOOP | Errno::ACCESS | Errno::PERM)) => {
                let relative = relative.display().to_string();
                tracing::warn!(path = ?relative, %error, "path below the root is not served");
                Ok(None)
            }
            Err(error) => Err(Unusable::by_disk(self.path.join(relative), error.into())),
        }
    }
}

impl Unusable {
    fn by_disk(path: PathBuf, source: io::Error) -> Self {
        Self { source: RepositoryError::Disk { path: path.clone(), source }, path }
    }

    /// The row of the table: forms of repositories that are not supported may be told to the
    /// client, anything else is the operator's.
    pub(super) fn fault(&self) -> Fault {
        match &self.source {
            RepositoryError::Version { .. }
            | RepositoryError::UnknownExtensions { .. }
            | RepositoryError::ExtensionsNeedVersionOne { .. }
            | RepositoryError::BadExtension { .. }
            | RepositoryError::UnsupportedExtension { .. } => Fault::Unsupported,
            RepositoryError::Disk { source, .. } if lacks_resources(source) => Fault::Overloaded,
            _ => Fault::Internal,
        }
    }

    /// Why, without the path.
    pub(super) fn reason(&self) -> &RepositoryError {
        &self.source
    }
}

fn switches(repository: &Repository) -> Result<Switches, ConfigError> {
    let config = repository.config();
    Ok(Switches {
        receive_pack: config.boolean("http.receivepack")?,
        upload_pack: config.boolean("http.uploadpack")?,
    })
}

fn open_beneath(directory: &OwnedFd, relative: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(directory, relative, flags, Mode::empty(), resolve) {
        // Kernels before 5.6, and some sandboxes.
        Err(Errno::NOSYS | Errno::PERM) => open_stepwise(directory, relative),
        opened => opened,
    }
}

/// The same without the kernel's help, and without following any link.
fn open_stepwise(directory: &OwnedFd, relative: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut current = None;
    for component in relative {
        let above = current.as_ref().unwrap_or(directory);
        current = Some(rustix::fs::openat(above, component, flags, Mode::empty())?);
    }
    current.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::super::route::Route;
    use super::*;
    use crate::repo::FlushPolicy;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use tempfile::TempDir;

    struct Fixture {
        _directory: TempDir,
        outside: PathBuf,
        root: Root,
    }

    impl Fixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let outside = directory.path().join("outside");
            let root = directory.path().join("root");
            fs::create_dir_all(root.join("group")).unwrap();
            fs::create_dir(&outside).unwrap();
            for path in ["root/x.git", "root/group/plain", "outside/secret.git"] {
                init(&directory.path().join(path));
            }
            let root = Root::open(&root).unwrap();
            Self { outside, root, _directory: directory }
        }

        fn locate(&self, url: &str) -> String {
            let Route::InfoRefs(place) = Route::parse(&format!("{url}/info/refs")) else {
                panic!("no route: {url}")
            };
            let disk = Disk::new(FlushPolicy::FULL);
            let beneath =
                |path: &Path| path.strip_prefix(&self.root.path).unwrap().display().to_string();
            match self.root.locate(&disk, &place, &isolated()).unwrap() {
                Located::Existing(repository, _) => beneath(repository.git_dir()),
                Located::Fresh(Target::Fresh { path, .. }) => format!("fresh {}", beneath(&path)),
                Located::Fresh(Target::Existing(_)) => panic!("fresh and there"),
                Located::Above => "above".into(),
                Located::Absent => "absent".into(),
            }
        }
    }

    fn isolated() -> Environment {
        [("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")].into_iter().collect()
    }

    fn init(path: &Path) {
        let mut git = Command::new("git");
        git.args(["init", "-q", "--bare"]).arg(path).env_clear().envs(isolated().iter());
        git.env("PATH", std::env::var_os("PATH").unwrap());
        assert!(git.status().unwrap().success());
    }

    #[test]
    fn a_repository_is_found_with_and_without_its_suffix() {
        let fixture = Fixture::new();
        assert_eq!(fixture.locate("/x.git"), "x.git");
        assert_eq!(fixture.locate("/x"), "x.git");
        assert_eq!(fixture.locate("/group/plain"), "group/plain");
        assert_eq!(fixture.locate("/group/plain.git"), "group/plain");
    }

    #[test]
    fn the_repository_of_a_work_tree_is_found_by_the_tree_s_name() {
        let fixture = Fixture::new();
        let root = &fixture.root.path;
        init(&root.join("tree/.git"));
        init(&root.join("named.git/.git"));
        assert_eq!(fixture.locate("/tree"), "tree/.git");
        assert_eq!(fixture.locate("/tree.git"), "tree/.git");
        assert_eq!(fixture.locate("/named"), "named.git/.git");
        symlink(fixture.outside.join("secret.git"), root.join("group/.git")).unwrap();
        assert_ne!(fixture.locate("/group"), "group/.git");
        // Where a file points is not beneath the root for certain.
        fs::create_dir(root.join("linked")).unwrap();
        fs::write(root.join("linked/.git"), "gitdir: ../tree/.git\n").unwrap();
        assert_eq!(fixture.locate("/linked"), "fresh linked.git");
    }

    #[test]
    fn nothing_is_where_a_push_may_make_something() {
        let fixture = Fixture::new();
        assert_eq!(fixture.locate("/new"), "fresh new.git");
        assert_eq!(fixture.locate("/new.git"), "fresh new.git");
        assert_eq!(fixture.locate("/group/new"), "fresh group/new.git");
        assert_eq!(fixture.locate("/group"), "fresh group.git");
        assert_eq!(fixture.locate("/deep/er/new"), "fresh deep/er/new.git");
    }

    #[test]
    fn nothing_is_made_inside_a_repository_or_on_top_of_something() {
        let fixture = Fixture::new();
        let root = &fixture.root.path;
        assert_eq!(fixture.locate("/x.git/new"), "absent");
        assert_eq!(fixture.locate("/x.git/refs/new"), "absent");
        assert_eq!(fixture.locate("/group/plain/hooks/new"), "absent");
        init(&root.join("tree/.git"));
        fs::create_dir(root.join("linked")).unwrap();
        fs::write(root.join("linked/.git"), "gitdir: ../tree/.git\n").unwrap();
        assert_eq!(fixture.locate("/tree/new"), "absent");
        assert_eq!(fixture.locate("/linked/new"), "absent");
        fs::write(root.join("file.git"), "").unwrap();
        fs::create_dir(root.join("empty.git")).unwrap();
        symlink("nowhere", root.join("dangling.git")).unwrap();
        for name in
            ["/file", "/file.git", "/file.git/new", "/empty", "/dangling", "/dangling.git/x"]
        {
            assert_eq!(fixture.locate(name), "absent", "{name}");
        }
    }

    #[test]
    fn a_place_above_repositories_is_told_from_one_where_nothing_is() {
        let fixture = Fixture::new();
        let root = &fixture.root.path;
        init(&root.join("team.git/a/x.git"));
        fs::create_dir(root.join("empty.git")).unwrap();
        assert_eq!(fixture.locate("/team"), "above");
        assert_eq!(fixture.locate("/team.git"), "above");
        assert_eq!(fixture.locate("/team.git/a.git"), "fresh team.git/a.git");
        assert_eq!(fixture.locate("/empty"), "absent");
    }

    #[test]
    fn a_repository_that_another_makes_meanwhile_is_found() {
        let fixture = Fixture::new();
        let root = &fixture.root.path;
        for number in 0..300 {
            let ready = root.join(format!("ready{number}"));
            for name in ["objects", "refs"] {
                fs::create_dir_all(ready.join(name)).unwrap();
            }
            fs::write(ready.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        }
        let at = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..300 {
                    at.store(number, std::sync::atomic::Ordering::Release);
                    let made = root.join(format!("made{number}.git"));
                    fs::rename(root.join(format!("ready{number}")), made).unwrap();
                }
                at.store(300, std::sync::atomic::Ordering::Release);
            });
            loop {
                let number = at.load(std::sync::atomic::Ordering::Acquire);
                if number == 300 {
                    break;
                }
                assert_ne!(fixture.locate(&format!("/made{number}")), "absent");
            }
        });
    }

    #[test]
    fn links_are_followed_as_long_as_they_stay_beneath() {
        let fixture = Fixture::new();
        let root = &fixture.root.path;
        symlink("group/plain", root.join("inner.git")).unwrap();
        symlink("group", root.join("alias")).unwrap();
        assert_eq!(fixture.locate("/inner"), "group/plain");
        assert_eq!(fixture.locate("/alias/plain"), "group/plain");
        assert_eq!(fixture.locate("/alias/new"), "fresh alias/new.git");

        symlink(&fixture.outside, root.join("out")).unwrap();
        symlink("../outside", root.join("up")).unwrap();
        symlink("../outside/secret.git", root.join("stolen.git")).unwrap();
        symlink(root.join("x.git"), root.join("absolute.git")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        for url in ["/out/secret.git", "/up/secret", "/stolen", "/absolute", "/out/new", "/up/new"]
        {
            assert_eq!(fixture.locate(url), "absent", "{url}");
        }
        let magic = format!("magic{}/secret.git", fixture.outside.display());
        assert!(fixture.root.resolve(Path::new(&magic)).unwrap().is_none());
        assert!(fixture.root.path.join(&magic).exists());
    }

    #[test]
    fn without_openat2_no_link_is_followed() {
        let fixture = Fixture::new();
        let root = &fixture.root.path;
        symlink("group", root.join("alias")).unwrap();
        let open = |path: &str| open_stepwise(&fixture.root.directory, Path::new(path)).is_ok();
        assert!(open("group/plain/refs") && open("x.git"));
        assert!(!open("alias/plain") && !open("alias") && !open("x.git/HEAD") && !open(""));
    }

    #[test]
    fn the_repositorys_own_switches_are_read() {
        let fixture = Fixture::new();
        let path = fixture.root.path.join("x.git");
        let config = path.join("config");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text + "[http]\n\treceivepack = false\n\tuploadpack\n").unwrap();
        let disk = Disk::new(FlushPolicy::FULL);
        let repository = Repository::open_exact(&disk, &path, &isolated()).unwrap();
        let expected = Switches { receive_pack: Some(false), upload_pack: Some(true) };
        assert_eq!(switches(&repository).unwrap(), expected);
    }

    #[test]
    fn a_repository_of_an_unknown_form_is_told_from_a_broken_one() {
        let fixture = Fixture::new();
        let path = fixture.root.path.join("x.git/config");
        let disk = Disk::new(FlushPolicy::FULL);
        let Route::InfoRefs(place) = Route::parse("/x/info/refs") else { panic!() };
        let fault = |config: &str| {
            fs::write(&path, config).unwrap();
            fixture.root.locate(&disk, &place, &isolated()).unwrap_err().fault()
        };
        let unknown = "[core]\nrepositoryformatversion = 1\n[extensions]\nnew = 1\n";
        assert_eq!(fault(unknown), Fault::Unsupported);
        assert_eq!(fault("[core]\nrepositoryformatversion = 99\n"), Fault::Unsupported);
        assert_eq!(fault("[core\n"), Fault::Internal);
        assert_eq!(fault("[http]\nreceivepack = perhaps\n"), Fault::Internal);
    }
}
