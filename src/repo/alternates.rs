//! The directories in which the objects of a repository lie.
//!
//! Follows `objects/info/alternates` as deep as git does and `GIT_ALTERNATE_OBJECT_DIRECTORIES`;
//! names each directory once, by its real path, so that circles end. Does not open any object and
//! does not watch for changes.

use super::disk::{Disk, EntryKind};
use super::environment::Environment;
use super::quoted_path;
use super::repository::Repository;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where objects lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDirectories {
    /// Where new objects go.
    pub own: PathBuf,
    /// Where others may be found, in the order in which git asks them.
    pub alternates: Vec<PathBuf>,
    /// What was named and is no directory, for the log: its objects are missing too.
    pub missing: Vec<PathBuf>,
}

/// Reads the list of a repository. Only the disk can make it fail: what is named and not there is
/// told, not refused.
pub fn object_directories(
    repository: &Repository,
    environment: &Environment,
) -> io::Result<ObjectDirectories> {
    let own = repository.objects_dir().to_owned();
    let mut search = Search {
        disk: repository.disk(),
        seen: Vec::new(),
        found: ObjectDirectories { own, alternates: Vec::new(), missing: Vec::new() },
    };
    if let Some(list) = environment.var("GIT_ALTERNATE_OBJECT_DIRECTORIES") {
        for path in quoted_path::split(list.as_bytes(), b':') {
            search.visit(&repository.git_dir().join(path), 0)?;
        }
    }
    let own = search.found.own.clone();
    search.follow(&own, 0)?;
    Ok(search.found)
}

struct Search<'a> {
    disk: &'a Disk,
    /// By their real paths; the repository's own first, once another is met.
    seen: Vec<PathBuf>,
    found: ObjectDirectories,
}

impl Search<'_> {
    /// Visits what the list of `directory` names.
    fn follow(&mut self, directory: &Path, depth: u32) -> io::Result<()> {
        let list = directory.join("info/alternates");
        let Some(list) = self.disk.read_if_there(&list, LIST_BYTES_MAX)? else { return Ok(()) };
        for path in quoted_path::split(&list, b'\n') {
            if depth > DEPTH_MAX {
                self.found.missing.push(directory.join(path));
                continue;
            }
            self.visit(&directory.join(path), depth)?;
        }
        Ok(())
    }

    fn visit(&mut self, path: &Path, depth: u32) -> io::Result<()> {
        let is_directory = |path: &PathBuf| matches!(self.disk.stat(path), Ok(Some(stat)) if stat.kind == EntryKind::Directory);
        let Some(real) = self.disk.canonicalize(path).ok().filter(is_directory) else {
            self.found.missing.push(path.to_owned());
            return Ok(());
        };
        if self.seen.is_empty() {
            self.seen.push(self.disk.canonicalize(&self.found.own)?);
        }
        if self.seen.contains(&real) {
            return Ok(());
        }
        self.seen.push(real.clone());
        self.found.alternates.push(real.clone());
        self.follow(&real, depth.saturating_add(1))
    }
}

/// git's bound on lists that name directories with lists of their own.
const DEPTH_MAX: u32 = 5;
/// Bytes of one list.
const LIST_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    struct World {
        root: PathBuf,
        environment: Environment,
        _directory: tempfile::TempDir,
    }

    impl World {
        fn new(repositories: &[&str]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = fs::canonicalize(directory.path()).unwrap();
            let environment = [("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")];
            let environment = environment.into_iter().collect();
            let world = Self { root, environment, _directory: directory };
            for name in repositories {
                let path = world.root.join(name);
                fs::create_dir_all(path.join("objects/info")).unwrap();
                fs::create_dir_all(path.join("refs")).unwrap();
                fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            }
            world
        }

        fn list(&self, name: &str, content: &str) {
            fs::write(self.root.join(name).join("objects/info/alternates"), content).unwrap();
        }

        /// The alternates of a repository without the root and `/objects`, compared with git's.
        fn alternates(&self, name: &str) -> ObjectDirectories {
            let path = self.root.join(name);
            let repository =
                Repository::open_exact(&Disk::default(), &path, &self.environment).unwrap();
            let found = object_directories(&repository, &self.environment).unwrap();
            let output = Command::new("git")
                .current_dir(&path)
                .envs(self.environment.iter())
                .args(["--git-dir=.", "count-objects", "-v"])
                .output()
                .unwrap();
            let gits: Vec<_> = output
                .stdout
                .split(|byte| *byte == b'\n')
                .filter_map(|line| line.strip_prefix(b"alternate: "))
                .flat_map(|path| quoted_path::split(path, b'\n'))
                .map(|path| fs::canonicalize(path).unwrap())
                .collect();
            assert_eq!(found.alternates, gits);
            found
        }

        fn objects(&self, names: &[&str]) -> Vec<PathBuf> {
            names.iter().map(|name| self.root.join(name).join("objects")).collect()
        }
    }

    #[test]
    fn lists_are_followed_with_comments_quotes_and_relative_paths() {
        let world = World::new(&["a", "b", "c", "d e", "f:g"]);
        let absolute = world.root.join("c/objects");
        world.list(
            "a",
            &format!(
                "# {0}\n../../b/objects\n\n\"../../d\\040e/objects\"\n{0}/\n../../f:g/objects",
                absolute.display()
            ),
        );
        world.list("b", "../../c/objects\n");
        let found = world.alternates("a");
        assert_eq!(found.alternates, world.objects(&["b", "c", "d e", "f:g"]));
        assert!(found.missing.is_empty());
    }

    #[test]
    fn missing_ones_are_told_and_passed_over() {
        let world = World::new(&["a", "b"]);
        world.list("a", "../../no/objects\n../../b/HEAD\n../../b/objects\n");
        let found = world.alternates("a");
        assert_eq!(found.alternates, world.objects(&["b"]));
        assert_eq!(found.missing.len(), 2);
    }

    #[test]
    fn circles_end() {
        let world = World::new(&["a", "b"]);
        world.list("a", "../../b/objects\n../objects\n");
        world.list("b", "../../a/objects\n../objects\n");
        assert_eq!(world.alternates("a").alternates, world.objects(&["b"]));
    }

    #[test]
    fn chains_are_followed_as_deep_as_git_does() {
        let names = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"];
        let world = World::new(&names);
        for pair in names.windows(2) {
            world.list(pair[0], &format!("../../{}/objects\n", pair[1]));
        }
        let found = world.alternates("r0");
        assert!((5..8).contains(&found.alternates.len()));
        assert_eq!(found.missing.len(), 1);
    }

    #[test]
    fn the_environment_names_more() {
        let mut world = World::new(&["a", "b", "c", "d:e"]);
        world.list("a", "../../b/objects\n");
        let list = format!("{0}/c/objects:\"{0}/d:e/objects\":{0}/b/objects", world.root.display());
        world.environment.set("GIT_ALTERNATE_OBJECT_DIRECTORIES", list);
        assert_eq!(world.alternates("a").alternates, world.objects(&["c", "d:e", "b"]));
    }

    #[test]
    fn a_list_over_the_bound_is_an_error() {
        let world = World::new(&["a"]);
        world.list("a", &"#".repeat((1 << 20) + 1));
        let path = world.root.join("a");
        let repository =
            Repository::open_exact(&Disk::default(), &path, &world.environment).unwrap();
        let error = object_directories(&repository, &world.environment).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
