//! An open repository.

use super::super::config::{ConfigError, GitConfig};
use super::super::disk::Disk;
use super::super::environment::Environment;
use super::discover::{self, Found};
use super::error::RepositoryError;
use super::format::{Format, RefStorage};
use super::permissions::SharedPermissions;
use super::{format, fsync, ownership};
use crate::model::HashKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A repository that passed git's checks, with its configuration as it was when it was opened.
///
/// Cheap to clone. Holds no file open and no lock.
#[derive(Clone, Debug)]
pub struct Repository {
    git_dir: PathBuf,
    common_dir: PathBuf,
    objects_dir: PathBuf,
    hash: HashKind,
    ref_storage: RefStorage,
    settings: Settings,
    disk: Disk,
    config: Arc<GitConfig>,
    environment: Arc<Environment>,
}

/// What is read from `core.*` once and asked for often.
#[derive(Clone, Copy, Debug)]
struct Settings {
    is_bare: bool,
    permissions: SharedPermissions,
    big_file_bytes: u64,
    loose_compression: u32,
}

impl Repository {
    /// Finds and opens the repository that a client means by `path`, in git's order:
    /// `<path>/.git`, `<path>`, `<path>/.git/.git`, `<path>.git`; trailing slashes dropped, `~`
    /// and `~user` expanded, gitfiles followed.
    ///
    /// The policy of `disk` is what is flushed unless `core.fsync` says otherwise.
    pub fn enter(
        disk: &Disk,
        path: &Path,
        environment: &Environment,
    ) -> Result<Self, RepositoryError> {
        let found = discover::find(disk, path, environment)?;
        Self::open(disk, &found, environment)
    }

    /// Opens the repository whose git directory is `git_dir`, looking nowhere else.
    pub fn open_exact(
        disk: &Disk,
        git_dir: &Path,
        environment: &Environment,
    ) -> Result<Self, RepositoryError> {
        if !discover::is_git_directory(disk, git_dir, environment)? {
            return Err(RepositoryError::NotARepository { path: git_dir.to_owned() });
        }
        Self::open(disk, &Found { named: git_dir.to_owned(), target: None }, environment)
    }

    fn open(
        disk: &Disk,
        found: &Found,
        environment: &Environment,
    ) -> Result<Self, RepositoryError> {
        ownership::check(disk, found, environment)?;
        let real = |path: &Path| disk.canonicalize(path).map_err(RepositoryError::disk(path));
        let git_dir = real(found.git_dir())?;
        let common_dir =
            discover::common_dir(disk, &git_dir).map_err(RepositoryError::disk(&git_dir))?;
        let common_dir = if common_dir == git_dir { common_dir } else { real(&common_dir)? };
        let config = GitConfig::load(disk, environment, &git_dir, &common_dir)?;
        let Format { hash, ref_storage } = format::check(&config, &common_dir.join("config"))?;
        let objects_dir = match environment.var("GIT_OBJECT_DIRECTORY") {
            Some(elsewhere) => git_dir.join(elsewhere),
            None => common_dir.join("objects"),
        };
        let policy = match config.string("core.fsync")? {
            Some(value) => fsync::policy(disk.policy(), value),
            None => disk.policy(),
        };
        Ok(Self {
            settings: Settings::read(&config)?,
            disk: disk.with_policy(policy),
            config: Arc::new(config),
            environment: Arc::new(environment.clone()),
            git_dir,
            common_dir,
            objects_dir,
            hash,
            ref_storage,
        })
    }

    /// The same repository for a request with another environment.
    pub(super) fn in_environment(&self, environment: &Environment) -> Self {
        Self { environment: Arc::new(environment.clone()), ..self.clone() }
    }

    /// The git directory: absolute, free of symbolic links. Hooks run in it.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// What linked work trees share; the git directory itself for all others.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Where new objects go: `objects`, or what `GIT_OBJECT_DIRECTORY` names.
    pub fn objects_dir(&self) -> &Path {
        &self.objects_dir
    }

    /// The hash that names its objects.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// How it keeps its refs.
    pub fn ref_storage(&self) -> RefStorage {
        self.ref_storage
    }

    /// Its configuration.
    pub fn config(&self) -> &GitConfig {
        &self.config
    }

    /// The environment it was opened in.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The disk under the flush policy of this repository.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Whether no work tree hangs on it. As in git's receive-pack, where `core.bare` does not
    /// say otherwise.
    pub fn is_bare(&self) -> bool {
        self.settings.is_bare
    }

    /// Who may use its files: ask it for the final bits of a file or directory just created.
    pub fn permissions(&self) -> SharedPermissions {
        self.settings.permissions
    }

    /// The bits to create a file with, to be lessened by the umask: 0444 for what never changes,
    /// such as objects and packs, else 0666. With a shared repository,
    /// [`SharedPermissions::share_file`] gives the rest.
    pub fn file_mode(&self, read_only: bool) -> u32 {
        self.settings.permissions.file_mode(if read_only { 0o444 } else { 0o666 })
    }

    /// The bits to create a directory with, to be lessened by the umask. With a shared
    /// repository, [`SharedPermissions::share_directory`] gives the rest.
    pub fn directory_mode(&self) -> u32 {
        self.settings.permissions.directory_mode(0o777)
    }

    /// `core.bigFileThreshold`: bytes from which a blob is streamed. git's default is 512 MiB.
    pub fn big_file_bytes(&self) -> u64 {
        self.settings.big_file_bytes
    }

    /// The zlib level for loose objects: `core.looseCompression`, else `core.compression`, else 1.
    pub fn loose_compression(&self) -> u32 {
        self.settings.loose_compression
    }
}

impl Settings {
    fn read(config: &GitConfig) -> Result<Self, RepositoryError> {
        let big_file_bytes = config.unsigned("core.bigFileThreshold")?;
        let general = compression(config, "core.compression")?;
        let loose = compression(config, "core.looseCompression")?;
        Ok(Self {
            is_bare: config.boolean("core.bare")?.unwrap_or(true),
            permissions: SharedPermissions::read(config)?,
            big_file_bytes: big_file_bytes.unwrap_or(512 << 20),
            loose_compression: loose.or(general).unwrap_or(1),
        })
    }
}

fn compression(config: &GitConfig, key: &str) -> Result<Option<u32>, RepositoryError> {
    let level: Result<_, ConfigError> = config.integer(key);
    match level? {
        None => Ok(None),
        // zlib's own default.
        Some(-1) => Ok(Some(6)),
        Some(level) => match u32::try_from(level) {
            Ok(level @ 0..=9) => Ok(Some(level)),
            _ => Err(RepositoryError::CompressionLevel { level }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::{Component, FlushPolicy};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    /// A directory with a bare repository `r.git`, one with a work tree `w`, and more beside.
    struct World {
        root: tempfile::TempDir,
        environment: Environment,
    }

    impl World {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let environment = [
                ("HOME", root.path().as_os_str().to_owned()),
                ("GIT_CONFIG_NOSYSTEM", "1".into()),
                ("PATH", std::env::var_os("PATH").unwrap()),
            ]
            .into_iter()
            .collect();
            let world = Self { root, environment };
            world.git(&["init", "-q", "--bare", "r.git"]);
            world
        }

        fn path(&self, path: &str) -> PathBuf {
            self.root.path().join(path)
        }

        fn git(&self, arguments: &[&str]) -> bool {
            let output = Command::new("git")
                .current_dir(self.root.path())
                .env_clear()
                .envs(self.environment.iter())
                .args(arguments)
                .output()
                .unwrap();
            output.status.success()
        }

        fn enter(&self, path: &str) -> Result<Repository, RepositoryError> {
            Repository::enter(&Disk::default(), &self.path(path), &self.environment)
        }

        fn git_accepts(&self, path: &str) -> bool {
            let path = self.path(path);
            self.git(&["receive-pack", "--http-backend-info-refs", path.to_str().unwrap()])
        }

        fn set(&self, key: &str, value: &str) {
            assert!(self.git(&["--git-dir=r.git", "config", key, value]));
        }

        /// Opens `r.git`, and makes sure that git is of our opinion.
        fn open(&self) -> Result<Repository, String> {
            let opened = self.enter("r.git");
            assert_eq!(opened.is_ok(), self.git_accepts("r.git"), "{:?}", opened.err());
            opened.map_err(|error| error.to_string())
        }
    }

    #[test]
    fn paths_lead_where_they_lead_in_git() {
        let world = World::new();
        assert!(world.git(&["init", "-q", "w"]));
        assert!(world.git(&["init", "-q", "--bare", "both/.git"]));
        fs::write(world.path("file"), "gitdir: r.git\n").unwrap();
        fs::write(world.path("lost"), "gitdir: nowhere\n").unwrap();
        fs::write(world.path("text"), "hello\n").unwrap();
        fs::create_dir(world.path("empty")).unwrap();
        fs::create_dir(world.path("sub")).unwrap();
        fs::write(world.path("sub/.git"), "gitdir: ../w/.git").unwrap();
        symlink("r.git", world.path("link")).unwrap();
        let cases = [
            ("r", Some("r.git")),
            ("r.git", Some("r.git")),
            ("r.git///", Some("r.git")),
            ("w", Some("w/.git")),
            ("w/.git", Some("w/.git")),
            ("both", Some("both/.git")),
            ("file", Some("r.git")),
            ("sub", Some("w/.git")),
            ("link", Some("r.git")),
            ("lost", None),
            ("text", None),
            ("empty", None),
            ("none", None),
            ("r.git/refs", None),
            ("r.git/HEAD/x", None),
        ];
        let real = fs::canonicalize(world.root.path()).unwrap();
        for (path, expected) in cases {
            let opened = world.enter(path);
            assert_eq!(opened.is_ok(), world.git_accepts(path), "{path}");
            let git_dir = opened.ok().map(|repository| repository.git_dir().to_owned());
            assert_eq!(git_dir, expected.map(|path| real.join(path)), "{path}");
        }
        assert_eq!(
            world.enter("none").unwrap_err().to_string(),
            format!("'{}' does not appear to be a git repository", world.path("none").display())
        );
    }

    #[test]
    fn a_home_is_found_by_its_tilde() {
        let world = World::new();
        let opened = Repository::enter(&Disk::default(), Path::new("~/r"), &world.environment);
        assert_eq!(opened.unwrap().git_dir(), fs::canonicalize(world.path("r.git")).unwrap());
        let unknown = Path::new("~no-such-user-here/r");
        let opened = Repository::enter(&Disk::default(), unknown, &world.environment);
        assert!(matches!(opened, Err(RepositoryError::NotARepository { .. })));
    }

    #[test]
    fn an_exact_path_is_not_looked_for() {
        let world = World::new();
        let open = |path: &str| {
            Repository::open_exact(&Disk::default(), &world.path(path), &world.environment)
        };
        assert!(open("r.git").is_ok());
        assert!(matches!(open("r"), Err(RepositoryError::NotARepository { .. })));
    }

    #[test]
    fn a_head_that_makes_no_sense_makes_no_repository() {
        let world = World::new();
        for (head, valid) in [
            ("ref: refs/heads/x", true),
            ("ref:refs/x\n", true),
            ("4b825dc642cb6eb9a060e54bf8d69288fbee4904\n", true),
            ("ref: heads/x\n", false),
            ("4b825dc642\n", false),
            ("", false),
        ] {
            fs::write(world.path("r.git/HEAD"), head).unwrap();
            assert_eq!(world.open().is_ok(), valid, "{head}");
        }
    }

    #[test]
    fn work_trees_share_the_common_directory() {
        let world = World::new();
        let commit = ["-c", "user.name=a", "-c", "user.email=a", "-C", "w", "commit", "-q"];
        assert!(world.git(&["init", "-q", "w"]));
        assert!(world.git(&[&commit[..], &["--allow-empty", "-m", "x"]].concat()));
        assert!(world.git(&["-C", "w", "worktree", "add", "-q", "../linked"]));
        let linked = world.enter("linked").unwrap();
        let main = fs::canonicalize(world.path("w/.git")).unwrap();
        assert_eq!(linked.git_dir(), main.join("worktrees/linked"));
        assert_eq!(linked.common_dir(), main);
        assert_eq!(linked.objects_dir(), main.join("objects"));
        assert!(!linked.is_bare());
        assert!(world.git_accepts("linked"));
    }

    #[test]
    fn a_foreign_owner_is_refused_unless_declared_safe() {
        let mut world = World::new();
        world.environment.set("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
        let error = world.open().unwrap_err();
        assert!(error.starts_with("detected dubious ownership in repository at '"), "{error}");
        // The repository itself has no say.
        let config = fs::read_to_string(world.path("r.git/config")).unwrap();
        fs::write(world.path("r.git/config"), config + "[safe]\ndirectory = *\n").unwrap();
        assert!(world.open().is_err());
        let real = fs::canonicalize(world.root.path()).unwrap();
        let real = real.to_str().unwrap();
        for (values, safe) in [
            (vec!["*".to_owned()], true),
            (vec![format!("{real}/r.git")], true),
            (vec![format!("{real}/r.git/")], true),
            (vec!["~/r.git".to_owned()], true),
            (vec![format!("{real}/*")], true),
            (vec![format!("{real}/r.git/*")], false),
            (vec![format!("{real}")], false),
            (vec!["r.git".to_owned()], false),
            (vec!["*".to_owned(), String::new()], false),
            (vec![String::new(), format!("{real}/r.git")], true),
        ] {
            let mut text = "[safe]\n".to_owned();
            for value in &values {
                text.push_str("directory = ");
                text.push_str(value);
                text.push('\n');
            }
            fs::write(world.path(".gitconfig"), text).unwrap();
            assert_eq!(world.open().is_ok(), safe, "{values:?}");
        }
    }

    #[test]
    fn formats_are_judged_as_git_judges_them() {
        let world = World::new();
        let original = fs::read_to_string(world.path("r.git/config")).unwrap();
        for text in [
            "",
            "[core]\nrepositoryformatversion = 1\n",
            "[core]\nrepositoryformatversion = 2\n",
            "[core]\nrepositoryformatversion = x\n",
            "[core]\nrepositoryformatversion = 1\n[extensions]\nfuture = 1\n",
            "[core]\nrepositoryformatversion = 0\n[extensions]\nfuture = 1\n",
            "[extensions]\nobjectformat = sha256\n",
            "[core]\nrepositoryformatversion = 1\n[extensions]\nnoop-v1\n",
            "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectformat = sha256\n",
            "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectformat = md5\n",
        ] {
            fs::write(world.path("r.git/config"), format!("{original}{text}")).unwrap();
            let opened = world.open();
            if let Ok(repository) = opened {
                let is_sha256 = text.contains("version = 1") && text.contains("sha256");
                assert_eq!(repository.hash() == HashKind::Sha256, is_sha256, "{text}");
            }
        }
        fs::remove_file(world.path("r.git/config")).unwrap();
        assert!(world.open().is_ok());
    }

    #[test]
    fn settings_of_the_core_are_read_and_checked() {
        let world = World::new();
        let repository = world.open().unwrap();
        assert!(repository.is_bare());
        assert_eq!(repository.big_file_bytes(), 512 << 20);
        assert_eq!(repository.loose_compression(), 1);
        assert_eq!(repository.disk().policy(), FlushPolicy::FULL);
        world.set("core.bigFileThreshold", "1m");
        world.set("core.compression", "-1");
        world.set("core.fsync", "-reference");
        world.set("core.bare", "false");
        let repository = world.open().unwrap();
        assert!(!repository.is_bare());
        assert_eq!(repository.big_file_bytes(), 1 << 20);
        assert_eq!(repository.loose_compression(), 6);
        assert!(!repository.disk().policy().flushes(Component::Reference));
        assert!(repository.disk().policy().flushes(Component::Pack));
        world.set("core.looseCompression", "0");
        assert_eq!(world.open().unwrap().loose_compression(), 0);
        world.set("core.looseCompression", "10");
        assert_eq!(world.open().unwrap_err(), "bad zlib compression level 10");
    }

    #[test]
    fn objects_may_be_elsewhere() {
        let mut world = World::new();
        fs::create_dir(world.path("r.git/aside")).unwrap();
        world.environment.set("GIT_OBJECT_DIRECTORY", "aside");
        let repository = world.enter("r.git").unwrap();
        assert_eq!(repository.objects_dir(), repository.git_dir().join("aside"));
        world.environment.set("GIT_OBJECT_DIRECTORY", "nowhere");
        assert!(world.enter("r.git").is_err());
    }

    #[test]
    fn shared_repositories_get_the_bits_that_git_gives() {
        for shared in ["umask", "group", "all", "0640", "0600"] {
            let world = World::new();
            let option = format!("--shared={shared}");
            assert!(world.git(&["init", "-q", "--bare", &option, "s.git"]));
            let repository = world.enter("s.git").unwrap();
            let disk = repository.disk();
            let directory = repository.objects_dir().join("ab");
            disk.create_directory(&directory, 0o777).unwrap();
            repository.permissions().share_directory(disk, &directory).unwrap();
            let file = disk.create_file(&directory.join("x"), 0o666).unwrap();
            repository.permissions().share_file(&file).unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
            let git_dir = repository.git_dir();
            assert_eq!(mode(&directory), mode(&git_dir.join("objects/pack")), "{shared}");
            assert_eq!(mode(file.path()), mode(&git_dir.join("HEAD")), "{shared}");
        }
    }
}
