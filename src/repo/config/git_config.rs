//! The configuration as a list of settings, and the typed questions asked of it.

use super::super::disk::Disk;
use super::super::environment::Environment;
use super::error::ConfigError;
use super::{key, source, value};
use bstr::{BStr, BString, ByteSlice};
use std::collections::HashMap;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who set a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigScope {
    /// `/etc/gitconfig`.
    System,
    /// The configuration of the user that runs the server.
    Global,
    /// The repository's `config`.
    Local,
    /// The repository's `config.worktree`.
    Worktree,
    /// The environment and `git -c`.
    Command,
}

impl ConfigScope {
    /// Whether whoever owns a repository has no say in it ("protected configuration" of
    /// git-config(1)).
    pub fn is_protected(self) -> bool {
        matches!(self, Self::System | Self::Global | Self::Command)
    }
}

/// Where a value was set, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigOrigin(Option<(Arc<Path>, usize)>);

impl ConfigOrigin {
    pub(super) fn command_line() -> Self {
        Self(None)
    }

    pub(super) fn file_at(path: impl Into<Arc<Path>>, line: usize) -> Self {
        Self(Some((path.into(), line)))
    }

    /// The file; `None` for the environment.
    pub fn file(&self) -> Option<&Path> {
        self.0.as_ref().map(|(path, _)| path.as_ref())
    }
}

impl fmt::Display for ConfigOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some((path, line)) => write!(f, " in file {} at line {line}", path.display()),
            None => Ok(()),
        }
    }
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The key: section and name in lower case, the subsection as written.
    pub key: BString,
    /// The value; `None` for a key that stands alone.
    pub value: Option<BString>,
    /// Who set it.
    pub scope: ConfigScope,
    /// Where.
    pub origin: ConfigOrigin,
}

impl ConfigEntry {
    /// The value as it is; an error for a key that stands alone.
    pub fn string(&self) -> Result<&BStr, ConfigError> {
        self.value.as_ref().map(|value| value.as_bstr()).ok_or_else(|| ConfigError::MissingValue {
            key: self.key.clone(),
            origin: self.origin.clone(),
        })
    }

    /// The value as a boolean: `true`, `yes`, `on` or a number but 0; `false`, `no`, `off`, 0 or
    /// nothing after the `=`; true for a key alone.
    pub fn boolean(&self) -> Result<bool, ConfigError> {
        let text = self.value.as_ref().map(|value| value.as_slice());
        value::boolean(text).ok_or_else(|| ConfigError::BadBoolean {
            key: self.key.clone(),
            value: self.value.clone().unwrap_or_default(),
            origin: self.origin.clone(),
        })
    }

    /// The value as a number, with `k`, `m` or `g` for powers of 1024.
    pub fn integer(&self) -> Result<i64, ConfigError> {
        self.number(value::integer)
    }

    /// The value as a number that must not be negative.
    pub fn unsigned(&self) -> Result<u64, ConfigError> {
        self.number(value::unsigned)
    }

    fn number<T>(
        &self,
        read: fn(&[u8]) -> Result<T, value::NumberError>,
    ) -> Result<T, ConfigError> {
        let text = self.string()?;
        read(text).map_err(|error| ConfigError::BadNumber {
            key: self.key.clone(),
            value: text.to_owned(),
            origin: self.origin.clone(),
            reason: error.as_str(),
        })
    }
}

/// git's configuration as it was when it was read.
///
/// Keys given to the getters are compared as git does: section and name in any case, the
/// subsection exactly.
#[derive(Clone, Debug, Default)]
pub struct GitConfig {
    entries: Vec<ConfigEntry>,
    by_key: HashMap<BString, Vec<usize>>,
    home: Option<PathBuf>,
    disk: Disk,
    files: Vec<PathBuf>,
}

impl GitConfig {
    /// Reads all there is for a repository: system, global, `config` of `common_dir`,
    /// `config.worktree` of `git_dir` if `extensions.worktreeConfig` is set there, environment.
    ///
    /// `git_dir` must be absolute and free of symbolic links.
    pub fn load(
        disk: &Disk,
        environment: &Environment,
        git_dir: &Path,
        common_dir: &Path,
    ) -> Result<Self, ConfigError> {
        let (entries, files) = source::all(disk, environment, Some((git_dir, common_dir)))?;
        Ok(Self { files, ..Self::new(entries, disk, environment) })
    }

    /// Reads what whoever owns a repository has no say in: system, global, environment.
    pub fn load_protected(disk: &Disk, environment: &Environment) -> Result<Self, ConfigError> {
        let (entries, files) = source::all(disk, environment, None)?;
        Ok(Self { files, ..Self::new(entries, disk, environment) })
    }

    /// Reads one file alone, following no include.
    pub fn load_file(disk: &Disk, path: &Path) -> Result<Self, ConfigError> {
        Ok(Self::new(source::one_file(disk, path)?, disk, &Environment::empty()))
    }

    /// Reads configuration from memory, as if it were a repository's file, following no include.
    pub fn from_text(text: &[u8]) -> Result<Self, ConfigError> {
        let entries = source::text(text, Path::new("config"), ConfigScope::Local)?;
        Ok(Self::new(entries, &Disk::default(), &Environment::empty()))
    }

    fn new(entries: Vec<ConfigEntry>, disk: &Disk, environment: &Environment) -> Self {
        let mut by_key: HashMap<BString, Vec<usize>> = HashMap::new();
        for (at, entry) in entries.iter().enumerate() {
            by_key.entry(entry.key.clone()).or_default().push(at);
        }
        let home = environment.var("HOME").map(PathBuf::from);
        Self { entries, by_key, home, disk: disk.clone(), files: Vec::new() }
    }

    /// The files that were looked for, whether or not they were there: while none of them changes,
    /// nor HEAD, and the environment is the same, reading them again gives the same.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Every setting, in the order in which they count.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigEntry> {
        self.entries.iter()
    }

    /// The setting of a key that counts: the last one.
    pub fn entry(&self, key: &str) -> Option<&ConfigEntry> {
        self.entries_of(key).last()
    }

    /// A boolean; see [`ConfigEntry::boolean`].
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        self.entry(key).map(ConfigEntry::boolean).transpose()
    }

    /// A number, with `k`, `m` or `g` for powers of 1024.
    pub fn integer(&self, key: &str) -> Result<Option<i64>, ConfigError> {
        self.entry(key).map(ConfigEntry::integer).transpose()
    }

    /// A number that must not be negative.
    pub fn unsigned(&self, key: &str) -> Result<Option<u64>, ConfigError> {
        self.entry(key).map(ConfigEntry::unsigned).transpose()
    }

    /// A value as it is.
    pub fn string(&self, key: &str) -> Result<Option<&BStr>, ConfigError> {
        self.entry(key).map(ConfigEntry::string).transpose()
    }

    /// All values of a key, in order.
    pub fn strings(&self, key: &str) -> Result<Vec<&BStr>, ConfigError> {
        self.entries_of(key).map(ConfigEntry::string).collect()
    }

    /// All values of several keys, each with its key, in the order in which they appear across
    /// them all.
    pub fn values_in_order(&self, keys: &[&str]) -> Result<Vec<(&BStr, &BStr)>, ConfigError> {
        let mut positions: Vec<usize> =
            keys.iter().flat_map(|key| self.positions(key)).copied().collect();
        positions.sort_unstable();
        positions.dedup();
        positions
            .into_iter()
            .filter_map(|at| self.entries.get(at))
            .map(|entry| Ok((entry.key.as_bstr(), entry.string()?)))
            .collect()
    }

    /// All values of a key that whoever owns the repository has no say in, in order; `None` for a
    /// key alone.
    pub fn protected_strings(&self, key: &str) -> Vec<Option<&BStr>> {
        self.entries_of(key)
            .filter(|entry| entry.scope.is_protected())
            .map(|entry| entry.value.as_ref().map(|value| value.as_bstr()))
            .collect()
    }

    /// A path, with `~` and `~user` expanded. A relative path is relative to the git directory,
    /// in which git acts; the caller joins them. A path marked `:(optional)` that leads nowhere
    /// counts as unset.
    pub fn path(&self, key: &str) -> Result<Option<PathBuf>, ConfigError> {
        self.entry(key).map_or(Ok(None), |entry| self.expand_path(entry))
    }

    /// The path that a setting holds, as [`path`](Self::path) reads it.
    pub fn expand_path(&self, entry: &ConfigEntry) -> Result<Option<PathBuf>, ConfigError> {
        let value = entry.string()?;
        let bad = || ConfigError::BadPath { key: entry.key.clone(), value: value.to_owned() };
        let (value, is_optional) = match value.strip_prefix(b":(optional)") {
            Some(rest) => (rest.as_bstr(), true),
            None => (value, false),
        };
        let path = expand(value, self.home.as_deref()).ok_or_else(bad)?;
        let is_absent = || matches!(self.disk.stat(&path), Ok(None));
        Ok(if is_optional && is_absent() { None } else { Some(path) })
    }

    fn entries_of(&self, key: &str) -> impl DoubleEndedIterator<Item = &ConfigEntry> {
        self.positions(key).iter().filter_map(|at| self.entries.get(*at))
    }

    fn positions(&self, key: &str) -> &[usize] {
        self.by_key.get(&key::fold(key.as_bytes())).map_or(&[], Vec::as_slice)
    }
}

/// Expands `~` and `~user`; `None` if there is no such home.
pub(in crate::repo) fn expand(path: &BStr, home: Option<&Path>) -> Option<PathBuf> {
    let of = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
    let Some(after) = path.strip_prefix(b"~") else { return Some(of(path)) };
    let (user, rest) = match after.split_once_str("/") {
        Some((user, rest)) => (user, Some(rest)),
        None => (after, None),
    };
    let home = if user.is_empty() {
        home?.to_owned()
    } else {
        gix_config::path::interpolate::home_for_user(user.to_str().ok()?)?
    };
    Some(match rest {
        Some(rest) => home.join(of(rest)),
        None => home,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> GitConfig {
        GitConfig::from_text(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_last_value_wins_whatever_the_case_of_the_key() {
        let config = config("[Receive]\ndenyDeletes = true\n[receive]\nDENYDELETES = no\n");
        assert_eq!(config.boolean("receive.denyDeletes").unwrap(), Some(false));
        assert_eq!(config.boolean("receive.denyNonFastForwards").unwrap(), None);
    }

    #[test]
    fn errors_name_key_value_and_place() {
        let config =
            config("[receive]\n\tdenyDeletes = x\n\n\tunpackLimit = 9q\n\tcertNonceSeed\n");
        let text = |error: ConfigError| error.to_string();
        assert_eq!(
            text(config.boolean("receive.denyDeletes").unwrap_err()),
            "bad boolean config value 'x' for 'receive.denydeletes'"
        );
        assert_eq!(
            text(config.integer("receive.unpackLimit").unwrap_err()),
            "bad numeric config value '9q' for 'receive.unpacklimit' in file config at line 4: \
             invalid unit"
        );
        assert_eq!(
            text(config.string("receive.certNonceSeed").unwrap_err()),
            "missing value for 'receive.certnonceseed' in file config at line 5"
        );
    }

    #[test]
    fn values_of_two_keys_keep_their_order() {
        let config = config(
            "[transfer]\nhideRefs = a\n[receive]\nhideRefs = b\nother = x\n\
             [transfer]\nhideRefs = !c\n",
        );
        let values = config.values_in_order(&["receive.hiderefs", "transfer.hiderefs"]).unwrap();
        let expected =
            [("transfer.hiderefs", "a"), ("receive.hiderefs", "b"), ("transfer.hiderefs", "!c")];
        assert_eq!(values, expected.map(|(key, value)| (BStr::new(key), BStr::new(value))));
    }

    #[test]
    fn a_repository_has_no_say_in_protected_values() {
        let config = config("[safe]\ndirectory = *\n");
        assert!(config.protected_strings("safe.directory").is_empty());
        assert_eq!(config.strings("safe.directory").unwrap(), ["*"]);
    }

    #[test]
    fn a_home_is_expanded_and_an_unknown_one_refused() {
        let home = Some(Path::new("/home/a"));
        assert_eq!(expand("~/x".into(), home), Some("/home/a/x".into()));
        assert_eq!(expand("~".into(), home), Some("/home/a".into()));
        assert_eq!(expand("x/~".into(), home), Some("x/~".into()));
        assert_eq!(expand("~root/x".into(), None), Some("/root/x".into()));
        assert_eq!(expand("~/x".into(), None), None);
        assert_eq!(expand("~no-such-user-here/x".into(), home), None);
    }

    #[test]
    fn an_optional_path_that_leads_nowhere_is_unset() {
        let config = config("[a]\nthere = :(optional)/\nnot = :(optional)/no/such/path\n");
        assert_eq!(config.path("a.there").unwrap(), Some("/".into()));
        assert_eq!(config.path("a.not").unwrap(), None);
    }
}
