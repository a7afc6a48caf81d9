//! After the report: maintenance, if the repository needs it, and the files for dumb transports.
//!
//! git starts `git maintenance run --auto` after every push, which looks whether there is anything
//! to do, and mostly there is not. Here the look is our own, by git's rule (git-gc(1), "--auto"):
//! more packs without a keep file than `gc.autoPackLimit`, or more loose objects in one of the 256
//! directories than a 256th of `gc.auto`. A server remembers what it saw and counts what it adds, so
//! that it looks again only when a limit could have been passed; what others add to the repository
//! they look after themselves. Tasks that are switched on beside gc are git's to judge.

use super::channel::Channel;
use crate::hooks::Hooks;
use crate::model::ObjectId;
use crate::repo::{ConfigError, GitConfig, Migrated, Repository};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the configuration says of maintenance after a push.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of git's of that type")]
pub(super) struct MaintenanceSettings {
    /// `receive.autogc` and `maintenance.auto`.
    wanted: bool,
    /// `maintenance.autoDetach`, else `gc.autoDetach`: whether the pusher need not wait.
    detached: bool,
    limits: MaintenanceLimits,
    /// Whether a task beside gc is on, whose rule only git knows.
    has_other_tasks: bool,
    /// `receive.updateServerInfo`.
    updates_server_info: bool,
}

/// How much may lie about; none is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MaintenanceLimits {
    packs: Option<u64>,
    /// Loose objects whose ids begin with [`SAMPLE`].
    sampled_loose: Option<u64>,
}

/// The directory of loose objects by which git judges the number of all.
const SAMPLE: u8 = 0x17;

impl MaintenanceSettings {
    pub(super) fn read(config: &GitConfig) -> Result<Self, ConfigError> {
        let flag = |key: &str, default: bool| Ok(config.boolean(key)?.unwrap_or(default));
        let limit = |key: &str, default: i64| {
            let value = config.integer(key)?.unwrap_or(default);
            Ok(u64::try_from(value).ok().filter(|value| *value > 0))
        };
        let (mut gc, mut others) = (true, false);
        for entry in config.iter() {
            let middle = entry.key.strip_prefix(b"maintenance.");
            let Some(task) = middle.and_then(|middle| middle.strip_suffix(b".enabled")) else {
                continue;
            };
            match task {
                b"gc" => gc = entry.boolean()?,
                _ => others |= entry.boolean()?,
            }
        }
        let loose = limit("gc.auto", 6700)?.filter(|_| gc);
        // Without a limit of loose objects git counts no packs either.
        let packs = limit("gc.autopacklimit", 50)?.filter(|_| loose.is_some());
        let detached = match config.boolean("maintenance.autodetach")? {
            Some(set) => set,
            None => flag("gc.autodetach", true)?,
        };
        Ok(Self {
            wanted: flag("receive.autogc", true)? && flag("maintenance.auto", true)?,
            detached,
            limits: MaintenanceLimits {
                packs,
                sampled_loose: loose.map(|loose| loose.div_ceil(256)),
            },
            has_other_tasks: others,
            updates_server_info: flag("receive.updateserverinfo", false)?,
        })
    }
}

/// What a push has added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    packs: u64,
    sampled_loose: u64,
}

impl Added {
    pub(super) fn by(migrated: &Migrated) -> Self {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let is_sampled = |id: &&ObjectId| id.as_bytes().first() == Some(&SAMPLE);
        Self {
            packs: count(migrated.packs.len()),
            sampled_loose: count(migrated.loose.iter().filter(is_sampled).count()),
        }
    }
}

/// What a process knows of the repositories that it pushes to.
#[derive(Debug, Default)]
pub(super) struct MaintenanceLedger(Mutex<HashMap<PathBuf, Known>>);

#[derive(Clone, Copy, Debug)]
enum Known {
    /// What can still be added before the limits are passed.
    Room { limits: MaintenanceLimits, packs: u64, sampled_loose: u64 },
    /// Maintenance was started then.
    Started(Instant),
}

/// Repositories that are remembered. More, and all are forgotten: that costs one look each.
const REPOSITORIES_MAX: usize = 1024;

/// How long maintenance that was started is left alone. One that cannot do its work would be
/// started by every push otherwise.
const PAUSE: Duration = Duration::from_secs(60);

impl MaintenanceLedger {
    /// Whether maintenance is due in the repository now that a push has added this.
    pub(super) fn is_due(
        &self,
        repository: &Repository,
        settings: &MaintenanceSettings,
        added: Added,
    ) -> io::Result<bool> {
        if !settings.wanted {
            return Ok(false);
        }
        if settings.has_other_tasks {
            return Ok(true);
        }
        let limits = settings.limits;
        if limits.packs.is_none() && limits.sampled_loose.is_none() {
            return Ok(false);
        }
        if self.has_room(repository.objects_dir(), limits, added) {
            return Ok(false);
        }
        let packs = left(limits.packs, || count_packs(repository))?;
        let sampled_loose = left(limits.sampled_loose, || count_sampled_loose(repository))?;
        let known = match (packs, sampled_loose) {
            (Some(packs), Some(sampled_loose)) => Known::Room { limits, packs, sampled_loose },
            _ => Known::Started(Instant::now()),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REPOSITORIES_MAX {
            all.clear();
        }
        all.insert(repository.objects_dir().to_owned(), known);
        Ok(matches!(known, Known::Started(_)))
    }

    /// Takes off what was added; whether the limits cannot have been passed by it, or maintenance
    /// is at work already.
    fn has_room(&self, objects_dir: &Path, limits: MaintenanceLimits, added: Added) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(objects_dir) {
            Some(Known::Started(when)) => when.elapsed() < PAUSE,
            Some(Known::Room { limits: of, packs, sampled_loose }) if *of == limits => {
                let left = packs.checked_sub(added.packs);
                let left_loose = sampled_loose.checked_sub(added.sampled_loose);
                let (Some(left), Some(left_loose)) = (left, left_loose) else { return false };
                (*packs, *sampled_loose) = (left, left_loose);
                true
            }
            Some(Known::Room { .. }) | None => false,
        }
    }
}

/// What can be added to what is counted; `None` if the limit has been passed.
fn left(limit: Option<u64>, count: impl FnOnce() -> io::Result<u64>) -> io::Result<Option<u64>> {
    match limit {
        None => Ok(Some(u64::MAX)),
        Some(limit) => Ok(limit.checked_sub(count()?)),
    }
}

/// The packs that no keep file protects.
fn count_packs(repository: &Repository) -> io::Result<u64> {
    let (mut indexes, mut keeps) = (HashSet::new(), HashSet::new());
    for entry in entries(repository, &repository.objects_dir().join("pack"))? {
        if let Some(name) = entry.strip_suffix(b".idx") {
            indexes.insert(name.to_owned());
        } else if let Some(name) = entry.strip_suffix(b".keep") {
            keeps.insert(name.to_owned());
        }
    }
    Ok(indexes.difference(&keeps).fold(0, |count: u64, _| count.saturating_add(1)))
}

fn count_sampled_loose(repository: &Repository) -> io::Result<u64> {
    let digits = repository.hash().len_in_hex().saturating_sub(2);
    let is_object = |name: &Vec<u8>| {
        name.len() == digits && name.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let names = entries(repository, &repository.objects_dir().join(format!("{SAMPLE:02x}")))?;
    Ok(names.iter().filter(|name| is_object(name)).fold(0, |count: u64, _| count.saturating_add(1)))
}

fn entries(repository: &Repository, directory: &Path) -> io::Result<Vec<Vec<u8>>> {
    match repository.disk().list(directory) {
        Ok(entries) => {
            Ok(entries.into_iter().map(|entry| entry.name.as_bytes().to_owned()).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Lets git do the maintenance. What it says goes to the pusher, who waits for it unless it
/// detaches itself, as under git.
pub(super) fn maintain(hooks: &Hooks, settings: &MaintenanceSettings, channel: &mut Channel<'_>) {
    let mut arguments = vec!["maintenance", "run", "--auto", "--quiet"];
    // Before 2.47 git knows neither, and lets `git gc` decide by `gc.autoDetach`.
    if hooks.git_is_at_least((2, 47)) {
        arguments.push(if settings.detached { "--detach" } else { "--no-detach" });
    }
    let run = hooks.run_git(&arguments, &mut |said| channel.relay(said));
    if let Err(error) = run {
        channel.diagnose(format!("error: {error}\n").as_bytes());
    }
}

/// Rewrites the files by which dumb transports find refs and packs (git-update-server-info(1)), if
/// the repository asks for it.
pub(super) fn update_server_info(
    hooks: &Hooks,
    settings: &MaintenanceSettings,
    channel: &mut Channel<'_>,
) {
    if !settings.updates_server_info {
        return;
    }
    let run = hooks.run_git(&["update-server-info"], &mut |said| channel.relay_aside(said));
    if let Err(error) = run {
        channel.diagnose(format!("error: {error}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Client;
    use super::*;
    use crate::repo::{Disk, Environment};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    struct Silent;

    impl Client for Silent {
        fn begin(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn send(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn diagnose(&mut self, _: &[u8]) {}
    }

    #[test]
    fn git_is_told_to_detach_if_it_knows_how() {
        let root = tempfile::tempdir().unwrap();
        let git = root.path().join("git");
        for (version, text, expected) in [
            ("2.39.5", "", ""),
            ("2.47.0", "", " --detach"),
            ("2.47.0", "[gc]\nautoDetach=false\n", " --no-detach"),
        ] {
            let script = format!(
                "#!/bin/sh\ncase $1 in\nversion) echo git version {version};;\n\
                 *) echo \"$@\" >asked;;\nesac\n"
            );
            fs::write(&git, script).unwrap();
            fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
            let mut environment = Environment::empty();
            environment.set("PATH", std::env::var_os("PATH").unwrap());
            environment.set("GIT_EXEC_PATH", root.path());
            let hooks = Hooks::new(Disk::default(), root.path().to_owned(), None, environment);
            maintain(&hooks, &settings(text), &mut Channel::new(&mut Silent, true));
            let asked = fs::read_to_string(root.path().join("asked")).unwrap();
            assert_eq!(asked, format!("maintenance run --auto --quiet{expected}\n"));
        }
    }

    fn settings(text: &str) -> MaintenanceSettings {
        MaintenanceSettings::read(&GitConfig::from_text(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn git_s_defaults_and_switches_are_known() {
        let default = settings("");
        assert!(default.wanted && default.detached && !default.has_other_tasks);
        let limits = MaintenanceLimits { packs: Some(50), sampled_loose: Some(27) };
        assert_eq!(default.limits, limits);
        assert!(!settings("[receive]\nautogc=false\n").wanted);
        assert!(!settings("[maintenance]\nauto=0\n").wanted);
        assert!(!settings("[gc]\nautoDetach=false\n").detached);
        assert!(settings("[gc]\nautoDetach=false\n[maintenance]\nautoDetach\n").detached);
        let none = MaintenanceLimits { packs: None, sampled_loose: None };
        assert_eq!(settings("[gc]\nauto=0\n").limits, none);
        assert_eq!(settings("[maintenance \"gc\"]\nenabled=false\n").limits, none);
        assert_eq!(settings("[gc]\nautoPackLimit=0\n").limits.packs, None);
        assert!(settings("[maintenance \"commit-graph\"]\nenabled\n").has_other_tasks);
    }

    /// A repository with so many packs, some of them kept.
    fn repository(packs: usize, kept: usize) -> (tempfile::TempDir, Repository) {
        let root = tempfile::tempdir().unwrap();
        let git_dir = root.path().join("r.git");
        for directory in ["objects/pack", "objects/17", "refs"] {
            fs::create_dir_all(git_dir.join(directory)).unwrap();
        }
        fs::write(git_dir.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        for number in 0..packs {
            let path = git_dir.join(format!("objects/pack/pack-{number:040}.idx"));
            fs::write(&path, "").unwrap();
            if number < kept {
                fs::write(path.with_extension("keep"), "").unwrap();
            }
        }
        let mut environment = Environment::empty();
        environment.set("GIT_CONFIG_NOSYSTEM", "1");
        let repository = Repository::open_exact(&Disk::default(), &git_dir, &environment).unwrap();
        (root, repository)
    }

    fn add_loose(repository: &Repository, number: usize) {
        let path = repository.objects_dir().join(format!("17/{number:038}"));
        fs::write(path, "").unwrap();
    }

    #[test]
    fn more_packs_than_the_limit_that_no_keep_file_protects_are_too_many() {
        let settings = settings("[gc]\nautoPackLimit=2\n");
        for (packs, kept, due) in [(2, 0, false), (3, 0, true), (3, 1, false), (4, 1, true)] {
            let (_root, repository) = repository(packs, kept);
            let ledger = MaintenanceLedger::default();
            let found = ledger.is_due(&repository, &settings, Added::default()).unwrap();
            assert_eq!(found, due, "{packs} {kept}");
        }
    }

    #[test]
    fn loose_objects_are_judged_by_one_directory() {
        let settings = settings("[gc]\nauto=300\n");
        let (_root, repository) = repository(0, 0);
        fs::write(repository.objects_dir().join("17/tmp_obj_x"), "").unwrap();
        for (number, due) in [(0, false), (1, false), (2, true)] {
            add_loose(&repository, number);
            let ledger = MaintenanceLedger::default();
            let found = ledger.is_due(&repository, &settings, Added::default()).unwrap();
            assert_eq!(found, due, "{number}");
        }
    }

    #[test]
    fn a_server_looks_again_only_when_it_has_added_enough() {
        let text = "[gc]\nautoPackLimit=3\n";
        let (_root, repository) = repository(1, 0);
        let ledger = MaintenanceLedger::default();
        let listings = || repository.disk().counts().listings;
        let one = Added { packs: 1, sampled_loose: 0 };
        let due = |added| ledger.is_due(&repository, &settings(text), added).unwrap();
        let before = listings();
        assert!(!due(one));
        assert_eq!(listings() - before, 2);
        assert!(!due(one) && !due(one) && !due(Added::default()));
        assert_eq!(listings() - before, 2);
        // Somebody has tidied up meanwhile, or else it would be due.
        assert!(!due(one));
        assert_eq!(listings() - before, 4);
        // Another limit, another look.
        let other = settings("[gc]\nautoPackLimit=0\nauto=256\n");
        assert!(!ledger.is_due(&repository, &other, one).unwrap());
        assert_eq!(listings() - before, 5);
    }

    #[test]
    fn maintenance_that_was_started_is_left_alone_for_a_while() {
        let settings = settings("[gc]\nautoPackLimit=1\n");
        let (_root, repository) = repository(2, 0);
        let ledger = MaintenanceLedger::default();
        assert!(ledger.is_due(&repository, &settings, Added::default()).unwrap());
        assert!(!ledger.is_due(&repository, &settings, Added::default()).unwrap());
    }
}
