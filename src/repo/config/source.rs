//! From files and environment to the list of settings, includes followed in place.
//!
//! gix-config reads the syntax. Its own include resolver is not used: it opens files of any size
//! past [`Disk`], and puts included values behind the section that includes them, where git puts
//! them behind the line.

use super::super::disk::Disk;
use super::super::environment::Environment;
use super::command_line;
use super::condition::{self, Condition};
use super::error::ConfigError;
use super::git_config::{ConfigEntry, ConfigOrigin, ConfigScope, expand};
use super::value;
use bstr::{BStr, BString, ByteSlice};
use gix_config::parse::{EventRef, Events};
use std::cell::OnceCell;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All settings for the repository with this git directory and common directory, or without one;
/// and the files that were looked for, there or not.
pub(super) fn all(
    disk: &Disk,
    environment: &Environment,
    repository: Option<(&Path, &Path)>,
) -> Result<(Vec<ConfigEntry>, Vec<PathBuf>), ConfigError> {
    let mut loader = Loader {
        disk,
        environment,
        repository,
        entries: Vec::new(),
        files: Vec::new(),
        branch: OnceCell::new(),
        remote_urls: None,
        collects_urls: false,
    };
    loader.sequence()?;
    Ok((loader.entries, loader.files))
}

/// The settings of one file, or none if there is no such file.
pub(super) fn one_file(disk: &Disk, path: &Path) -> Result<Vec<ConfigEntry>, ConfigError> {
    let bytes = disk
        .read_if_there(path, FILE_BYTES_MAX)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    bytes.map_or(Ok(Vec::new()), |bytes| text(&bytes, path, ConfigScope::Local))
}

/// The settings of a text that comes from `path`.
pub(super) fn text(
    bytes: &[u8],
    path: &Path,
    scope: ConfigScope,
) -> Result<Vec<ConfigEntry>, ConfigError> {
    let syntax = |line| ConfigError::Syntax { path: path.to_owned(), line };
    let events = Events::from_bytes(bytes, None).map_err(|error| syntax(error.line_number()))?;
    let path: Arc<Path> = path.into();
    let mut entries = Vec::new();
    let mut reading = Reading { line: 1, ..Reading::default() };
    for event in events.iter() {
        if let Some((key, value)) = reading.next(event).map_err(syntax)? {
            let origin = ConfigOrigin::file_at(Arc::clone(&path), reading.line);
            entries.push(ConfigEntry { key, value, scope, origin });
        }
    }
    Ok(entries)
}

/// Turns syntax events into keys and values.
#[derive(Default)]
struct Reading {
    line: usize,
    section: Option<BString>,
    name: Option<BString>,
    has_separator: bool,
    value: BString,
    /// A key alone ends its line; git takes anything else behind it for a fault.
    awaits_newline: bool,
}

impl Reading {
    fn next(&mut self, event: EventRef<'_>) -> Result<Option<(BString, Option<BString>)>, usize> {
        let ends_line = matches!(event, EventRef::Newline(_) | EventRef::Whitespace(_));
        if self.awaits_newline && !ends_line {
            return Err(self.line);
        }
        match event {
            EventRef::SectionHeader { name, separator, subsection_name } => {
                let mut section = BString::from(name.to_ascii_lowercase());
                if let Some(subsection) = subsection_name {
                    section.push(b'.');
                    if separator.is_some_and(|separator| separator == ".") {
                        // The old form `[section.subsection]` knows no case.
                        section.extend(subsection.to_ascii_lowercase());
                    } else {
                        section.extend_from_slice(subsection);
                    }
                }
                self.section = Some(section);
            }
            EventRef::SectionValueName(name) => {
                self.name = Some(name.to_ascii_lowercase().into());
                self.has_separator = false;
                self.value.clear();
            }
            EventRef::KeyValueSeparator => self.has_separator = true,
            EventRef::ValueNotDone(part) => self.value.extend_from_slice(part),
            EventRef::Value(part) | EventRef::ValueDone(part) => {
                self.value.extend_from_slice(part);
                return Ok(self.finish());
            }
            EventRef::Newline(newline) => {
                self.line = self.line.saturating_add(newline.find_iter("\n").count());
                self.awaits_newline = false;
            }
            EventRef::Whitespace(_) | EventRef::Comment { .. } => {}
        }
        Ok(None)
    }

    /// The key and value just read. A key before any section is of no use to anybody.
    fn finish(&mut self) -> Option<(BString, Option<BString>)> {
        let name = self.name.take()?;
        self.awaits_newline = !self.has_separator;
        let mut key = self.section.clone()?;
        key.push(b'.');
        key.extend_from_slice(&name);
        let value = gix_config::value::normalize(self.value.as_bstr()).into_owned();
        Some((key, self.has_separator.then_some(value)))
    }
}

struct Loader<'a> {
    disk: &'a Disk,
    environment: &'a Environment,
    repository: Option<(&'a Path, &'a Path)>,
    entries: Vec<ConfigEntry>,
    files: Vec<PathBuf>,
    /// The branch that HEAD names, once asked for.
    branch: OnceCell<Option<BString>>,
    /// Every URL of every remote, once asked for.
    remote_urls: Option<Vec<BString>>,
    /// Set while those are collected: a condition on them is then false.
    collects_urls: bool,
}

impl Loader<'_> {
    fn sequence(&mut self) -> Result<(), ConfigError> {
        if let Some(path) = self.system_file()? {
            self.file(&path, ConfigScope::System, 0)?;
        }
        for path in self.global_files() {
            self.file(&path, ConfigScope::Global, 0)?;
        }
        if let Some((git_dir, common_dir)) = self.repository {
            let local = common_dir.join("config");
            self.file(&local, ConfigScope::Local, 0)?;
            if self.has_worktree_config(&local)? {
                self.file(&git_dir.join("config.worktree"), ConfigScope::Worktree, 0)?;
            }
        }
        for setting in command_line::settings(self.environment)? {
            let entry = ConfigEntry {
                key: setting.key,
                value: setting.value,
                scope: ConfigScope::Command,
                origin: ConfigOrigin::command_line(),
            };
            self.take(entry, 0)?;
        }
        Ok(())
    }

    fn system_file(&self) -> Result<Option<PathBuf>, ConfigError> {
        const NO_SYSTEM: &str = "GIT_CONFIG_NOSYSTEM";
        if let Some(text) = self.environment.var(NO_SYSTEM) {
            let none = value::boolean(Some(text.as_bytes())).ok_or_else(|| {
                ConfigError::BadBooleanVariable { name: NO_SYSTEM, value: text.as_bytes().into() }
            })?;
            if none {
                return Ok(None);
            }
        }
        let path = self.environment.var("GIT_CONFIG_SYSTEM");
        Ok(Some(path.map_or_else(|| PathBuf::from("/etc/gitconfig"), PathBuf::from)))
    }

    fn global_files(&self) -> Vec<PathBuf> {
        let path = |name| self.environment.var(name).map(PathBuf::from);
        if let Some(only) = path("GIT_CONFIG_GLOBAL") {
            return vec![only];
        }
        let home = path("HOME");
        let xdg = path("XDG_CONFIG_HOME")
            .filter(|path| !path.as_os_str().is_empty())
            .or_else(|| home.as_ref().map(|home| home.join(".config")));
        let xdg = xdg.map(|path| path.join("git/config"));
        xdg.into_iter().chain(home.map(|home| home.join(".gitconfig"))).collect()
    }

    /// Whether the repository's own file, without includes, says so: git reads its format so.
    fn has_worktree_config(&self, local: &Path) -> Result<bool, ConfigError> {
        let key = "extensions.worktreeconfig";
        let own = |entry: &&ConfigEntry| entry.origin.file() == Some(local) && entry.key == key;
        let Some(entry) = self.entries.iter().rfind(own) else { return Ok(false) };
        entry.boolean()
    }

    fn file(&mut self, path: &Path, scope: ConfigScope, depth: u32) -> Result<(), ConfigError> {
        self.files.push(path.to_owned());
        if self.files.len() > FILES_MAX {
            let path = path.to_owned();
            return Err(ConfigError::TooManyFiles { path, files_max: FILES_MAX });
        }
        let bytes = match self.disk.read_if_there(path, FILE_BYTES_MAX) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(()),
            // A server often runs as a user who may not look into the home it was given; git
            // forgives that too.
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && scope == ConfigScope::Global
                    && depth == 0 =>
            {
                return Ok(());
            }
            Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
        };
        for entry in text(&bytes, path, scope)? {
            self.take(entry, depth)?;
        }
        Ok(())
    }

    /// Adds a setting, and behind it what it includes.
    fn take(&mut self, entry: ConfigEntry, depth: u32) -> Result<(), ConfigError> {
        let included = self.includes(&entry)?;
        let (scope, origin) = (entry.scope, entry.origin.clone());
        self.entries.push(entry);
        let Some(path) = included else { return Ok(()) };
        let missing = |what: &BStr| ConfigError::BadPath {
            key: "include.path".into(),
            value: what.to_owned(),
        };
        let home = self.environment.var("HOME").map(Path::new);
        let mut file = expand(path.as_ref(), home).ok_or_else(|| missing(path.as_ref()))?;
        if file.is_relative() {
            let directory = origin.file().and_then(Path::parent);
            let relative = || ConfigError::RelativeInclude { value: path.clone() };
            file = directory.ok_or_else(relative)?.join(file);
        }
        if depth >= DEPTH_MAX {
            return Err(ConfigError::IncludeDepth { path: file, depth_max: DEPTH_MAX });
        }
        self.file(&file, scope, depth.saturating_add(1))
    }

    /// The path that a setting includes, if it does.
    fn includes(&mut self, entry: &ConfigEntry) -> Result<Option<BString>, ConfigError> {
        let key = entry.key.as_bytes();
        let includes = if key == b"include.path" {
            true
        } else if let Some(condition) =
            key.strip_prefix(b"includeif.").and_then(|rest| rest.strip_suffix(b".path"))
        {
            self.holds(condition.as_bstr(), &entry.origin)?
        } else {
            false
        };
        match (includes, &entry.value) {
            (false, _) => Ok(None),
            (true, Some(path)) => Ok(Some(path.clone())),
            (true, None) => Err(ConfigError::MissingValue {
                key: entry.key.clone(),
                origin: entry.origin.clone(),
            }),
        }
    }

    fn holds(&mut self, condition: &BStr, origin: &ConfigOrigin) -> Result<bool, ConfigError> {
        match Condition::parse(condition) {
            Condition::GitDirectory { pattern, ignore_case } => {
                let Some((git_dir, _)) = self.repository else { return Ok(false) };
                let home = self.environment.var("HOME").map(Path::new);
                let expanded = expand(pattern, home);
                let pattern = expanded
                    .as_ref()
                    .map_or(pattern, |expanded| expanded.as_os_str().as_bytes().as_bstr());
                condition::git_directory_matches(pattern, ignore_case, git_dir, origin)
            }
            Condition::OnBranch { pattern } => {
                let branch = self.branch()?;
                Ok(branch
                    .is_some_and(|branch| condition::branch_matches(pattern, branch.as_bstr())))
            }
            Condition::HasRemoteUrl { pattern } => {
                let urls = self.remote_urls()?;
                Ok(urls.iter().any(|url| condition::url_matches(pattern, url.as_ref())))
            }
            Condition::Unknown => Ok(false),
        }
    }

    fn branch(&self) -> Result<Option<&BString>, ConfigError> {
        if self.branch.get().is_none() {
            let mut branch = None;
            if let Some((git_dir, _)) = self.repository {
                let path = git_dir.join("HEAD");
                let head = self.disk.read_if_there(&path, FILE_BYTES_MAX);
                let head = head.map_err(|source| ConfigError::Read { path, source })?;
                branch = head.as_deref().and_then(|head| {
                    let target = head.strip_prefix(b"ref:")?.trim();
                    target.strip_prefix(b"refs/heads/").map(BString::from)
                });
            }
            return Ok(self.branch.get_or_init(|| branch).as_ref());
        }
        Ok(self.branch.get().and_then(Option::as_ref))
    }

    fn remote_urls(&mut self) -> Result<Vec<BString>, ConfigError> {
        if self.collects_urls {
            return Ok(Vec::new());
        }
        if let Some(known) = &self.remote_urls {
            return Ok(known.clone());
        }
        let mut loader = Loader {
            entries: Vec::new(),
            files: std::mem::take(&mut self.files),
            branch: self.branch.clone(),
            remote_urls: None,
            collects_urls: true,
            ..*self
        };
        let read = loader.sequence();
        self.files = std::mem::take(&mut loader.files);
        read?;
        let is_url = |key: &BStr| key.starts_with(b"remote.") && key.ends_with(b".url");
        let urls: Vec<_> = loader
            .entries
            .into_iter()
            .filter(|entry| is_url(entry.key.as_bstr()))
            .filter_map(|entry| entry.value)
            .collect();
        self.remote_urls = Some(urls.clone());
        Ok(urls)
    }
}

/// Bytes of one file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Files of one configuration. Ten levels of includes could name any number.
const FILES_MAX: usize = 1000;
/// Levels of includes; git's own bound.
const DEPTH_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::super::GitConfig;
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write;
    use std::fs;
    use std::process::Command;

    /// What stock git reads, as `key`, `Some(value)` pairs; `None` if it refuses.
    fn gits(
        directory: &Path,
        environment: &Environment,
        arguments: &[&str],
    ) -> Option<Vec<(String, Option<String>)>> {
        let output = Command::new("git")
            .current_dir(directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .envs(environment.iter())
            .args(["config", "--includes", "--list", "-z"])
            .args(arguments)
            .output()
            .unwrap();
        let listed = |entry: &[u8]| match entry.split_once_str("\n") {
            Some((key, value)) => (key.to_str_lossy().into(), Some(value.to_str_lossy().into())),
            None => (entry.to_str_lossy().into(), None),
        };
        let entries = output.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        output.status.success().then(|| entries.map(listed).collect())
    }

    fn ours(entries: impl IntoIterator<Item = ConfigEntry>) -> Vec<(String, Option<String>)> {
        let text = |bytes: &BString| bytes.to_str_lossy().into_owned();
        entries.into_iter().map(|e| (text(&e.key), e.value.as_ref().map(text))).collect()
    }

    fn assert_file_is_read_as_git_does(content: &[u8]) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        fs::write(&path, content).unwrap();
        let own = one_file(&Disk::default(), &path).ok().map(ours);
        let environment = Environment::empty();
        let gits = gits(directory.path(), &environment, &["--file", "f"]);
        assert_eq!(own, gits, "{:?}", content.as_bstr());
    }

    #[test]
    fn files_are_read_as_git_reads_them() {
        let files: &[&str] = &[
            "",
            "[core]\n\tbare = true\n",
            "[core]bare=true\n[Core]BARE\n",
            "[remote \"Ori\\\"gin\\\\\"]\n url = a b  # comment\n",
            "[a.B.c]\nd = 1\n",
            "[a \"B.c\"]\nD-e = 1\n",
            "[a]\nb = \"quoted ; # \" tail ; comment\n",
            "[a]\nb = one \\\n   two \\\n\tthree\n",
            "[a]\nb = \"x\\ty\\nz\\\\\\\"\"\n",
            "[a]\nb =\n c = \n d\n",
            "[a]\nb =   inner   spaces\tand tabs   \n",
            "[a]\r\nb = crlf\r\nc\r\n",
            "\u{feff}[a]\nb = bom\n",
            "# only\n; comments\n",
            "[a]\nb = \"unterminated\n",
            "[a]\nb = bad \\q escape\n",
            "[a\nb = 1\n",
            "[a]\n1b = 1\n",
            "[a]\nb c\n",
            "[a]\nb # comment\n",
            "[a]\nb = 1 [c]\nd = 2\n",
            "[a] [b]\nc = 1\n",
            "[a \"x]\nb = 1\n",
            "[a]\nb_c = 1\n",
            "[a]\nb = last line",
            "[a]\nb = trailing \\",
            "[]\nb = 1\n",
            "[a \"\"]\nb = 1\n",
            "[a]\nb == c\n",
            "[a]\n=c\n",
            "[a]\nb = c;d\n",
        ];
        for content in files {
            assert_file_is_read_as_git_does(content.as_bytes());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = text(&bytes, Path::new("f"), ConfigScope::Local);
        }

        #[test]
        fn any_value_that_git_would_write_is_read_back(value in "[ -~\t\n]{0,20}") {
            let mut content = b"[a]\nb = \"".to_vec();
            for byte in value.bytes() {
                match byte {
                    b'\n' => content.extend(b"\\n"),
                    b'\t' => content.extend(b"\\t"),
                    b'"' | b'\\' => content.extend([b'\\', byte]),
                    _ => content.push(byte),
                }
            }
            content.extend(b"\"\n");
            let config = GitConfig::from_text(&content).unwrap();
            prop_assert_eq!(config.string("a.b").unwrap().unwrap(), value.as_str());
        }
    }

    struct World {
        root: tempfile::TempDir,
        environment: Environment,
    }

    impl World {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let environment = [
                ("HOME", root.path().join("home").into_os_string()),
                ("GIT_CONFIG_SYSTEM", root.path().join("system").into_os_string()),
            ]
            .into_iter()
            .collect();
            fs::create_dir_all(root.path().join("home/.config/git")).unwrap();
            let world = Self { root, environment };
            world.git(&["init", "-q", "--bare", "-b", "topic/one", "r.git"]);
            world
        }

        fn git(&self, arguments: &[&str]) {
            let status = Command::new("git")
                .current_dir(self.root.path())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .args(arguments)
                .status()
                .unwrap();
            assert!(status.success());
        }

        fn write(&self, path: &str, content: &str) {
            fs::write(self.root.path().join(path), content).unwrap();
        }

        fn append(&self, path: &str, content: &str) {
            let old = fs::read_to_string(self.root.path().join(path)).unwrap();
            self.write(path, &(old + content));
        }

        fn ours(&self) -> Result<Vec<(String, Option<String>)>, ConfigError> {
            let git_dir = fs::canonicalize(self.root.path()).unwrap().join("r.git");
            all(&Disk::default(), &self.environment, Some((&git_dir, &git_dir)))
                .map(|(entries, _)| ours(entries))
        }

        fn assert_same_as_git(&self) {
            let gits = gits(&self.root.path().join("r.git"), &self.environment, &[]);
            assert_eq!(self.ours().ok(), gits);
        }
    }

    #[test]
    fn every_source_is_read_in_gits_order() {
        let mut world = World::new();
        world.write("system", "[x]\na = system\n");
        world.write("home/.config/git/config", "[x]\na = xdg\n");
        world.write("home/.gitconfig", "[x]\na = home\n");
        world.append("r.git/config", "[x]\na = local\n");
        world.write("r.git/config.worktree", "[x]\na = worktree\n");
        world.environment.set("GIT_CONFIG_PARAMETERS", "'x.a'='parameters' 'x.b'");
        world.environment.set("GIT_CONFIG_COUNT", "1");
        world.environment.set("GIT_CONFIG_KEY_0", "x.a");
        world.environment.set("GIT_CONFIG_VALUE_0", "counted");
        world.assert_same_as_git();
        world.append("r.git/config", "[extensions]\nworktreeConfig = true\n");
        world.assert_same_as_git();
        let global = world.root.path().join("home/.gitconfig");
        world.environment.set("GIT_CONFIG_GLOBAL", global);
        world.assert_same_as_git();
        world.environment.set("GIT_CONFIG_NOSYSTEM", "yes");
        world.assert_same_as_git();
        world.environment.set("GIT_CONFIG_NOSYSTEM", "perhaps");
        world.assert_same_as_git();
    }

    #[test]
    fn xdg_takes_the_place_of_the_default_directory() {
        let mut world = World::new();
        fs::create_dir_all(world.root.path().join("xdg/git")).unwrap();
        world.write("xdg/git/config", "[x]\na = elsewhere\n");
        world.write("home/.config/git/config", "[x]\na = default\n");
        world.assert_same_as_git();
        world.environment.set("XDG_CONFIG_HOME", world.root.path().join("xdg"));
        world.assert_same_as_git();
        world.environment.set("XDG_CONFIG_HOME", "");
        world.assert_same_as_git();
    }

    #[test]
    fn includes_are_followed_behind_their_line() {
        let world = World::new();
        world.write("home/inc", "[x]\na = included\n[include]\npath = inc2\n[x]\nc = after\n");
        world.write("home/inc2", "[x]\nb = deeper\n");
        world.append(
            "r.git/config",
            "[x]\na = before\n[include]\npath = ~/inc\npath = ../no-such\n[x]\na = last\n",
        );
        world.assert_same_as_git();
        assert_eq!(world.ours().unwrap().iter().filter(|(key, _)| key == "x.b").count(), 1);
    }

    #[test]
    fn conditions_hold_as_in_git() {
        let world = World::new();
        world.write("yes", "[y]\nes = true\n");
        let root = fs::canonicalize(world.root.path()).unwrap();
        let root = root.to_str().unwrap();
        let conditions = [
            format!("gitdir:{root}/"),
            format!("gitdir:{root}/r.git"),
            format!("gitdir:{root}/r"),
            "gitdir:r.git".to_owned(),
            "gitdir:R.git".to_owned(),
            "gitdir/i:R.git".to_owned(),
            "gitdir:./".to_owned(),
            "gitdir:~/".to_owned(),
            "gitdir:~/../r.git".to_owned(),
            "onbranch:topic/".to_owned(),
            "onbranch:topic/*".to_owned(),
            "onbranch:topic".to_owned(),
            "hasconfig:remote.*.url:https://example.org/**".to_owned(),
            "hasconfig:remote.*.url:https://example.com/**".to_owned(),
            "hasconfig:branch.*.remote:x".to_owned(),
            "future:x".to_owned(),
        ];
        let mut text = String::new();
        for (n, condition) in conditions.iter().enumerate() {
            write!(text, "[n]\nn = {n}\n[includeIf \"{condition}\"]\npath = {root}/yes\n").unwrap();
        }
        world.append("r.git/config", &text);
        world.append("r.git/config", "[remote \"o\"]\nurl = https://example.org/a/b\n");
        world.assert_same_as_git();
        let held = world.ours().unwrap().iter().filter(|(key, _)| key == "y.es").count();
        assert!((5..conditions.len()).contains(&held), "{held}");
    }

    #[test]
    fn a_circle_of_includes_ends() {
        let world = World::new();
        world.append("r.git/config", "[include]\npath = config\n");
        assert!(matches!(world.ours(), Err(ConfigError::IncludeDepth { depth_max: 10, .. })));
        world.assert_same_as_git();
    }

    #[test]
    fn includes_that_double_at_each_level_end() {
        let world = World::new();
        for n in 0..9 {
            world.write(&format!("i{n}"), &format!("[include]\npath = i{0}\npath = i{0}\n", n + 1));
        }
        world.append("r.git/config", "[include]\npath = ../i0\npath = ../i0\n");
        assert!(matches!(world.ours(), Err(ConfigError::TooManyFiles { files_max: 1000, .. })));
    }

    #[test]
    fn a_file_over_the_bound_is_refused() {
        let world = World::new();
        world.append("r.git/config", &"#".repeat(4 << 20));
        assert!(matches!(world.ours(), Err(ConfigError::Read { .. })));
    }

    #[test]
    fn a_relative_include_from_the_environment_is_refused() {
        let mut world = World::new();
        world.environment.set("GIT_CONFIG_PARAMETERS", "'include.path'='x'");
        assert!(matches!(world.ours(), Err(ConfigError::RelativeInclude { .. })));
        world.assert_same_as_git();
        let absolute = world.root.path().join("abs");
        world.write("abs", "[x]\nfrom = include\n");
        let parameters = format!("'include.path'='{}'", absolute.display());
        world.environment.set("GIT_CONFIG_PARAMETERS", parameters);
        world.assert_same_as_git();
    }

    #[test]
    fn typed_values_are_read_as_git_reads_them() {
        let values = [
            "true",
            "Yes",
            "ON",
            "1",
            "0",
            "",
            "false",
            "no",
            "off",
            "2",
            "-1",
            "x",
            "1k",
            "1K",
            "3m",
            "2g",
            "0x1f",
            "017",
            "08",
            "1.5",
            "9223372036854775807",
            "9223372036854775808",
            "99999999999999999999",
            "4294967296",
            "1 k",
            "-5k",
            "+3",
            "--3",
            "\" 7\"",
            "k",
            "0x",
        ];
        let mut text = String::new();
        for (n, value) in values.iter().enumerate() {
            write!(
                text,
                "[v]
n{n} = {value}
"
            )
            .unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("f"), &text).unwrap();
        let config = GitConfig::from_text(text.as_bytes()).unwrap();
        let ask = |n: usize, kind: &str| {
            let output = Command::new("git")
                .current_dir(directory.path())
                .args(["config", "--file", "f", kind, "--get", &format!("v.n{n}")])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stdout).unwrap().trim().to_owned();
            output.status.success().then_some(text)
        };
        for (n, value) in values.iter().enumerate() {
            let key = format!("v.n{n}");
            let boolean = config.boolean(&key).ok().flatten().map(|b| b.to_string());
            assert_eq!(boolean, ask(n, "--type=bool"), "{value}");
            let integer = config.integer(&key).ok().flatten().map(|i| i.to_string());
            assert_eq!(integer, ask(n, "--type=int"), "{value}");
        }
    }
}
