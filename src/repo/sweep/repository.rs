//! Sweeping one place.

use super::report::{Finding, SweepReport};
use super::walk::{Found, walk};
use crate::repo::create::take_apart;
use crate::repo::disk::absent_is_none;
use crate::repo::keep::KeepOwner;
use crate::repo::quarantine::OWN_PREFIX;
use crate::repo::{Disk, EntryKind, LockAttempt, PathLock, Stat};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Sweeps repositories by one clock and one age.
#[derive(Clone, Debug)]
pub struct Sweep {
    disk: Disk,
    now: i64,
    age: Duration,
}

impl Sweep {
    /// A sweep that takes what has no lock to tell, such as what git left, for dead when it has
    /// not changed for longer than `age`, counted back from `now`. An age below the longest push
    /// takes files away from a git that is still at work.
    pub fn new(disk: &Disk, now: SystemTime, age: Duration) -> Self {
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { disk: disk.clone(), now: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), age }
    }

    /// Sweeps the repository with this git directory.
    pub fn repository(&self, git_dir: &Path) -> SweepReport {
        let mut place = Place { sweep: self, report: SweepReport::default() };
        place.git_dir(git_dir);
        place.objects(&git_dir.join("objects"));
        place.packs(&git_dir.join("objects/pack"));
        place.refs(git_dir.join("refs"));
        place.report
    }

    /// Sweeps what a walk found to be unfinished: a repository under the name it has before it is
    /// whole and after it was given up. It goes if nobody is at work on it and nothing was stored
    /// in it.
    pub fn unfinished(&self, path: &Path) -> SweepReport {
        let mut place = Place { sweep: self, report: SweepReport::default() };
        place.if_abandoned(path, |place| match take_apart(&place.sweep.disk, path) {
            Ok(true) => place.report.removed.push(path.to_owned()),
            Ok(false) => place.report.report(path.to_owned(), Finding::Stored),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                place.report.report(path.to_owned(), Finding::Stored);
            }
            Err(error) => place.report.report(path.to_owned(), Finding::Failed(error)),
        });
        place.report
    }

    /// Sweeps everything below a root, place by place as the iterator is asked.
    pub fn below(&self, root: &Path) -> impl Iterator<Item = SweepReport> + use<> {
        let sweep = self.clone();
        walk(&sweep.disk, root).map(move |found| match found {
            Found::Repository(git_dir) => sweep.repository(&git_dir),
            Found::Unfinished(path) => sweep.unfinished(&path),
            Found::Unreadable(path, error) => {
                let mut report = SweepReport::default();
                report.report(path, Finding::Failed(error));
                report
            }
        })
    }

    /// How long ago, to the second; nothing for a time to come.
    fn since(&self, stat: Stat) -> Duration {
        let seconds = self.now.saturating_sub(stat.modified.0);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// Whether nothing in a tree has changed for the age. It is gone through only until the first
    /// thing that has.
    fn is_old(&self, path: &Path) -> io::Result<bool> {
        let mut pending = vec![path.to_owned()];
        while let Some(path) = pending.pop() {
            let Some(stat) = self.disk.stat_link(&path)? else { continue };
            if self.since(stat) <= self.age {
                return Ok(false);
            }
            if stat.kind == EntryKind::Directory {
                let entries = absent_is_none(self.disk.list(&path))?.unwrap_or_default();
                pending.extend(entries.into_iter().map(|entry| path.join(entry.name)));
            }
        }
        Ok(true)
    }
}

/// One place, and what was found there so far.
struct Place<'a> {
    sweep: &'a Sweep,
    report: SweepReport,
}

impl Place<'_> {
    fn git_dir(&mut self, directory: &Path) {
        self.each(directory, |place, path, name, kind| match kind {
            EntryKind::File if begins_with_any(name, &REF_PREFIXES) => place.unfinished_ref(path),
            EntryKind::File if LOCKS.contains(&name) => place.lock(path),
            EntryKind::File if is_shallow_of_hooks(name) => place.if_old(path),
            _ => {}
        });
    }

    fn objects(&mut self, directory: &Path) {
        self.each(directory, |place, path, name, kind| match kind {
            EntryKind::Directory if name.starts_with(OWN_PREFIX.as_bytes()) => {
                place.if_abandoned(path, |place| place.remove(path));
            }
            EntryKind::Directory if is_quarantine_of_git(name) => place.if_old(path),
            EntryKind::Directory if is_fan_out(name) => {
                place.each(path, |place, path, name, kind| {
                    if kind == EntryKind::File && name.starts_with(b"tmp_obj_") {
                        place.if_old(path);
                    }
                });
            }
            EntryKind::File if begins_with_any(name, &OBJECT_PREFIXES) => place.if_old(path),
            _ => {}
        });
    }

    fn packs(&mut self, directory: &Path) {
        self.each(directory, |place, path, name, kind| match kind {
            EntryKind::File if begins_with_any(name, &PACK_PREFIXES) => place.if_old(path),
            EntryKind::File if name.ends_with(b".keep") => place.keep(path),
            _ => {}
        });
    }

    fn refs(&mut self, directory: PathBuf) {
        let mut pending = vec![directory];
        while let Some(directory) = pending.pop() {
            self.each(&directory, |place, path, name, kind| match kind {
                EntryKind::Directory => pending.push(path.to_owned()),
                EntryKind::File if begins_with_any(name, &REF_PREFIXES) => {
                    place.unfinished_ref(path);
                }
                EntryKind::File if name.ends_with(b".lock") => place.lock(path),
                _ => {}
            });
        }
    }

    /// Calls `look` for each entry of a directory; one that is not there has none.
    fn each(&mut self, directory: &Path, mut look: impl FnMut(&mut Self, &Path, &[u8], EntryKind)) {
        let entries = match absent_is_none(self.sweep.disk.entries(directory)) {
            Ok(entries) => entries.into_iter().flatten(),
            Err(error) => return self.failed(directory, error),
        };
        for entry in entries {
            match entry {
                Ok(entry) => {
                    let path = directory.join(&entry.name);
                    look(self, &path, entry.name.as_bytes(), entry.kind);
                }
                // The listing may be cut here: what an error of readdir(3) leaves is unknown.
                Err(error) => return self.failed(directory, error),
            }
        }
    }

    /// Calls `clear` for a directory of ours if nobody alive works there. The lock is held over
    /// it, so that nobody begins to.
    fn if_abandoned(&mut self, path: &Path, clear: impl FnOnce(&mut Self)) {
        match PathLock::try_exclusive(&self.sweep.disk, path) {
            Ok(LockAttempt::Held(lock)) => match self.sweep.disk.stat_link(path) {
                // A symbolic link that got the name since leads to what is not ours.
                Ok(Some(stat)) if lock.is_of(&stat) => clear(self),
                Ok(_) => {}
                Err(error) => self.failed(path, error),
            },
            Ok(LockAttempt::Busy) => self.report.live += 1,
            Ok(LockAttempt::Gone) => {}
            Ok(LockAttempt::Unknown) => match self.sweep.is_old(path) {
                Ok(true) => clear(self),
                Ok(false) => self.report.live += 1,
                Err(error) => self.failed(path, error),
            },
            Err(error) => self.failed(path, error),
        }
    }

    /// Nobody but packhouse makes these, and holds one, by this name alone, for no longer than it
    /// takes to write it: a transaction that waits has given it the name of a lock as well.
    fn unfinished_ref(&mut self, path: &Path) {
        match self.sweep.disk.stat_link(path) {
            Ok(Some(stat)) => {
                let age = self.sweep.since(stat);
                if age > self.sweep.age || age > OWN_AGE && stat.links == 1 {
                    self.remove(path);
                }
            }
            Ok(None) => {}
            Err(error) => self.failed(path, error),
        }
    }

    fn if_old(&mut self, path: &Path) {
        match self.sweep.is_old(path) {
            Ok(true) => self.remove(path),
            Ok(false) => {}
            Err(error) => self.failed(path, error),
        }
    }

    fn lock(&mut self, path: &Path) {
        match self.sweep.disk.stat_link(path) {
            Ok(Some(stat)) => {
                let age = self.sweep.since(stat);
                self.report.report(path.to_owned(), Finding::Lock { age });
            }
            Ok(None) => {}
            Err(error) => self.failed(path, error),
        }
    }

    fn keep(&mut self, path: &Path) {
        match self.sweep.disk.read_if_there(path, KEEP_BYTES_MAX) {
            Ok(Some(text)) => {
                if let Some(owner) = KeepOwner::parse(&text).filter(KeepOwner::is_dead_here) {
                    let process = owner.process;
                    self.report.report(path.to_owned(), Finding::DeadKeep { process });
                }
            }
            Ok(None) => {}
            // Somebody's note, longer than git's.
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {}
            Err(error) => self.failed(path, error),
        }
    }

    fn remove(&mut self, path: &Path) {
        let disk = &self.sweep.disk;
        let removed = match disk.stat_link(path) {
            Ok(Some(stat)) if stat.kind == EntryKind::Directory => disk.remove_tree(path),
            Ok(Some(_)) => disk.unlink(path).map(drop),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => self.report.removed.push(path.to_owned()),
            Err(error) => self.failed(path, error),
        }
    }

    fn failed(&mut self, path: &Path, error: io::Error) {
        self.report.report(path.to_owned(), Finding::Failed(error));
    }
}

/// What a push shows its hooks in place of `shallow`, git's or ours, has six letters after this.
fn is_shallow_of_hooks(name: &[u8]) -> bool {
    name.strip_prefix(b"shallow_")
        .is_some_and(|rest| rest.len() == 6 && rest.iter().all(u8::is_ascii_alphanumeric))
}

/// git's own quarantines have six letters after this (`tmp_objdir_create` and mkdtemp(3)).
fn is_quarantine_of_git(name: &[u8]) -> bool {
    name.strip_prefix(b"tmp_objdir-incoming-")
        .is_some_and(|rest| rest.len() == 6 && rest.iter().all(u8::is_ascii_alphanumeric))
}

fn is_fan_out(name: &[u8]) -> bool {
    name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit)
}

fn begins_with_any(name: &[u8], prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
}

/// Unfinished files of objects and of bases that were inflated to the disk.
const OBJECT_PREFIXES: [&str; 2] = ["tmp_obj_", "tmp_base_"];

/// Unfinished packs and what belongs to them.
const PACK_PREFIXES: [&str; 4] = ["tmp_pack_", "tmp_idx_", "tmp_rev_", "tmp_keep_"];

/// The age at which a file of ours that nobody has locked has no living owner.
pub const OWN_AGE: Duration = Duration::from_secs(10 * 60);

/// The names that ref transactions give to files before they are renamed; `refs` defines them.
const REF_PREFIXES: [&str; 4] = ["tmp_ref_", ".tmp_ref_", "tmp_packed_refs_", "tmp_shallow_"];

/// The locks that lie in the git directory itself.
const LOCKS: [&[u8]; 4] = [b"HEAD.lock", b"config.lock", b"packed-refs.lock", b"shallow.lock"];

const KEEP_BYTES_MAX: u64 = 4096;

#[cfg(test)]
mod tests;
