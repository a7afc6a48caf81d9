//! What a sweep takes, leaves and tells; beside live pushes, after faults, and after a real git.

use super::*;
use crate::model::{HashKind, RefName};
use crate::repo::create::{NewRepository, Removal, create};
use crate::repo::testing::TestRepository;
use crate::repo::{FlushPolicy, Quarantine, Recorder, keep};
use std::fs::{self, File, FileTimes};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const HOUR: Duration = Duration::from_secs(3600);
/// Higher than Linux ever gives.
const DEAD_PROCESS: u32 = 4_194_305;

struct Place {
    home: TestRepository,
    disk: Disk,
    recorder: Arc<Recorder>,
    now: SystemTime,
}

impl Place {
    fn new() -> Self {
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        Self { home: TestRepository::bare(), disk, recorder, now: SystemTime::now() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn directory(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.path(name)).unwrap();
        self.path(name)
    }

    fn file(&self, name: &str, age: Duration) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"x").unwrap();
        self.set_age(&path, age);
        path
    }

    fn set_age(&self, path: &Path, age: Duration) {
        let times = FileTimes::new().set_modified(self.now - age);
        File::open(path).unwrap().set_times(times).unwrap();
    }

    fn keep(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(&format!("objects/pack/{name}.keep"), HOUR);
        fs::write(&path, text).unwrap();
        path
    }

    fn sweep(&self) -> SweepReport {
        Sweep::new(&self.disk, self.now, HOUR).repository(self.home.path())
    }
}

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths
}

fn reported(report: &SweepReport) -> Vec<PathBuf> {
    sorted(report.reported.iter().map(|reported| reported.path.clone()).collect())
}

#[test]
fn a_repository_that_nothing_was_left_in_is_left_alone() {
    let place = Place::new();
    let report = place.sweep();
    assert!(report.is_empty() && report.live == 0);
    assert_eq!(place.recorder.operations(), []);
}

#[test]
fn a_quarantine_of_ours_goes_at_once_when_its_push_is_dead() {
    let place = Place::new();
    let dead = place.directory("objects/tmp_objdir-incoming-packhouse-abcdef");
    place.file("objects/tmp_objdir-incoming-packhouse-abcdef/pack/tmp_pack_x", Duration::ZERO);
    place.file("objects/tmp_objdir-incoming-packhouse-abcdef/00/11", Duration::ZERO);
    assert_eq!(place.sweep().removed, std::slice::from_ref(&dead));
    assert!(!dead.exists());
}

#[test]
fn a_live_quarantine_of_ours_stays_however_old_it_is() {
    let place = Place::new();
    let repository = place.home.open(&place.disk);
    let live = Quarantine::new(&repository);
    live.put_on_disk().unwrap();
    place.set_age(live.directory().path().unwrap(), 1000 * HOUR);
    let report = place.sweep();
    assert!(report.is_empty());
    assert_eq!(report.live, 1);
    assert!(live.directory().path().unwrap().exists());
    let path = live.directory().path().unwrap().to_owned();
    live.discard().unwrap();
    assert!(!path.exists());
    assert_eq!(place.sweep().live, 0);
}

/// Pushes make, use and discard quarantines as fast as they can while two sweeps go on and on.
#[test]
fn sweeps_beside_live_pushes_take_nothing_from_them() {
    let home = TestRepository::bare();
    let disk = Disk::new(FlushPolicy::NONE);
    let repository = home.open(&disk);
    let is_over = AtomicBool::new(false);
    let swept = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let sweep = Sweep::new(&disk, SystemTime::now(), Duration::ZERO);
                    let report = sweep.repository(home.path());
                    assert!(report.reported.is_empty(), "{:?}", report.reported);
                    swept.fetch_add(report.removed.len(), Ordering::Relaxed);
                }
            });
        }
        let pushes: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..60 {
                        let quarantine = Quarantine::new(&repository);
                        let directory = quarantine.put_on_disk().unwrap().join("pack");
                        fs::create_dir(&directory).unwrap();
                        let file = directory.join("tmp_pack_x");
                        fs::write(&file, b"x").unwrap();
                        thread::yield_now();
                        assert!(file.exists());
                        quarantine.discard().unwrap();
                    }
                })
            })
            .collect();
        let ended: Vec<_> = pushes.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Release);
        assert!(ended.iter().all(Result::is_ok));
    });
    let left = fs::read_dir(home.path().join("objects")).unwrap().count();
    assert_eq!(left, 2, "info and pack; {swept:?} were swept before they were locked");
}

#[test]
fn what_others_left_goes_when_it_has_not_changed_for_longer_than_the_age() {
    let place = Place::new();
    let names = [
        "objects/tmp_obj_abcdef",
        "objects/tmp_base_abcdef",
        "objects/ab/tmp_obj_abcdef",
        "objects/pack/tmp_pack_abcdef",
        "objects/pack/tmp_idx_abcdef",
        "objects/pack/tmp_rev_abcdef",
        "shallow_aB3def",
    ];
    for name in names {
        place.file(name, HOUR);
    }
    assert!(place.sweep().is_empty(), "what is just that old stays");
    let old: Vec<_> =
        names.iter().map(|name| place.file(name, HOUR + Duration::from_secs(1))).collect();
    assert_eq!(sorted(place.sweep().removed), sorted(old.clone()));
    assert!(old.iter().all(|path| !path.exists()));
}

#[test]
fn our_unfinished_refs_go_after_ten_minutes_unless_they_are_locks_too() {
    let place = Place::new();
    let names = [
        "tmp_ref_abcdef",
        "tmp_packed_refs_abcdef",
        "tmp_shallow_abcdef",
        "refs/.tmp_ref_abcdef",
        "refs/heads/.tmp_ref_abcdef",
    ];
    let young: Vec<_> = names.iter().map(|name| place.file(name, OWN_AGE)).collect();
    assert!(place.sweep().is_empty(), "what is just that old stays");
    for path in &young {
        place.set_age(path, OWN_AGE + Duration::from_secs(1));
    }
    let lock = place.path("refs/heads/x.lock");
    fs::hard_link(&young[0], &lock).unwrap();
    let removed = place.sweep().removed;
    assert_eq!(sorted(removed), sorted(young[1..].to_vec()));
    assert!(young[0].exists());
    fs::remove_file(lock).unwrap();
    assert_eq!(place.sweep().removed, young[..1]);
}

#[test]
fn what_is_to_come_by_its_time_stays() {
    let place = Place::new();
    let path = place.file("objects/tmp_obj_abcdef", Duration::ZERO);
    let later = FileTimes::new().set_modified(place.now + 1000 * HOUR);
    File::open(&path).unwrap().set_times(later).unwrap();
    assert!(place.sweep().is_empty());
}

#[test]
fn a_quarantine_of_gits_goes_when_nothing_in_it_has_changed_for_the_age() {
    let place = Place::new();
    let old = 2 * HOUR;
    let busy = place.file("objects/tmp_objdir-incoming-AAAAAA/pack/tmp_pack_x", HOUR / 2);
    let idle = place.file("objects/tmp_objdir-incoming-BBBBBB/pack/tmp_pack_x", old);
    for file in [&busy, &idle] {
        for directory in file.ancestors().skip(1).take(2) {
            place.set_age(directory, old);
        }
    }
    let idle = idle.ancestors().nth(2).unwrap().to_owned();
    assert_eq!(place.sweep().removed, std::slice::from_ref(&idle));
    assert!(busy.exists() && !idle.exists());
}

#[test]
fn names_that_only_look_like_leftovers_stay() {
    let place = Place::new();
    let old = 1000 * HOUR;
    let files = [
        "objects/tmp_objdir-incoming-abcdef",
        "objects/tmp_other",
        "objects/ab/cd",
        "objects/ab/tmp_pack_x",
        "objects/abc/tmp_obj_x",
        "objects/info/tmp_obj_x",
        "objects/pack/pack-1.pack",
        "objects/pack/tmp_other",
        "tmp_obj_x",
        "index.lock",
        "refs/heads/lock",
        "refs/heads/tmp_ref",
        "logs/refs/heads/main.lock",
        "hooks/tmp_ref_x",
    ];
    let files: Vec<_> = files.iter().map(|name| place.file(name, old)).collect();
    let directories = [
        "objects/tmp_objdir-incoming-abcdefg",
        "objects/tmp_objdir-incoming-abc.ef",
        "objects/tmp_objdir-migrate-abcdef",
        "objects/tmp_obj_dir",
        "objects/pack/tmp_pack_dir",
        "tmp_ref_dir",
    ];
    let directories: Vec<_> = directories.iter().map(|name| place.directory(name)).collect();
    for directory in &directories {
        place.set_age(directory, old);
    }
    assert!(place.sweep().is_empty());
    assert!(files.iter().chain(&directories).all(|path| path.exists()));
}

#[test]
fn locks_are_reported_with_their_age_and_stay() {
    let place = Place::new();
    let names = [
        "HEAD.lock",
        "config.lock",
        "packed-refs.lock",
        "shallow.lock",
        "refs/heads/a/b.lock",
        "refs/tags/v1.lock",
    ];
    let paths: Vec<_> = names.iter().map(|name| place.file(name, 5 * HOUR)).collect();
    let report = place.sweep();
    assert!(report.removed.is_empty());
    assert_eq!(reported(&report), sorted(paths.clone()));
    for found in &report.reported {
        assert!(matches!(found.finding, Finding::Lock { age } if age.as_secs() == 5 * 3600));
        assert_eq!(found.finding.to_string(), "it is a lock, 18000 s old");
    }
    assert!(paths.iter().all(|path| path.exists()));
}

#[test]
fn keep_files_of_dead_processes_of_this_host_are_reported_and_all_stay() {
    let place = Place::new();
    let own = keep::message();
    let host = own.split_once(" on ").unwrap().1;
    let dead = place.keep("pack-1", &format!("receive-pack {DEAD_PROCESS} on {host}"));
    let others = [
        place.keep("pack-2", &own),
        place.keep("pack-3", &format!("receive-pack {DEAD_PROCESS} on elsewhere\n")),
        place.keep("pack-4", "precious\n"),
        place.keep("pack-5", ""),
        place.keep("pack-6", &"x".repeat(100_000)),
    ];
    let report = place.sweep();
    assert!(report.removed.is_empty());
    assert_eq!(reported(&report), std::slice::from_ref(&dead));
    assert!(
        matches!(report.reported[0].finding, Finding::DeadKeep { process } if process == DEAD_PROCESS)
    );
    assert!(dead.exists() && others.iter().all(|path| path.exists()));
}

#[test]
fn symbolic_links_are_not_followed() {
    let place = Place::new();
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("tmp_obj_abcdef");
    fs::write(&file, b"").unwrap();
    place.set_age(&file, 1000 * HOUR);
    place.set_age(outside.path(), 1000 * HOUR);
    for name in [
        "objects/ab",
        "objects/tmp_objdir-incoming-packhouse-abcdef",
        "objects/tmp_objdir-incoming-abcdef",
        "refs/heads/d",
    ] {
        std::os::unix::fs::symlink(outside.path(), place.path(name)).unwrap();
    }
    // Inside of what is removed the link goes, and not what it points to.
    let dead = place.directory("objects/tmp_objdir-incoming-packhouse-dddddd");
    std::os::unix::fs::symlink(outside.path(), dead.join("link")).unwrap();
    assert_eq!(place.sweep().removed, [dead]);
    assert!(file.exists());
}

#[test]
fn a_fault_at_one_entry_is_reported_and_the_others_go() {
    let names = ["objects/tmp_obj_aaaaaa", "objects/pack/tmp_pack_bbbbbb", "tmp_ref_cccccc"];
    for at in 0..5 {
        let place = Place::new();
        let mut paths: Vec<_> = names.iter().map(|name| place.file(name, 2 * HOUR)).collect();
        paths.push(place.directory("objects/tmp_objdir-incoming-packhouse-dddddd"));
        place.file("objects/tmp_objdir-incoming-packhouse-dddddd/e", Duration::ZERO);
        place.recorder.fail_at(at, io::ErrorKind::PermissionDenied, false);
        let report = place.sweep();
        assert_eq!(report.removed.len(), 3, "fault at {at}");
        let [found] = &report.reported[..] else { panic!("{:?}", report.reported) };
        assert!(matches!(found.finding, Finding::Failed(_)));
        assert!(found.path.exists());
        assert_eq!(place.sweep().removed, std::slice::from_ref(&found.path));
        assert!(paths.iter().all(|path| !path.exists()));
    }
}

#[test]
fn what_is_no_repository_or_only_half_of_one_is_no_fault() {
    let place = Place::new();
    fs::remove_dir_all(place.path("objects/pack")).unwrap();
    fs::remove_dir_all(place.path("refs")).unwrap();
    assert!(place.sweep().is_empty());
    let sweep = Sweep::new(&place.disk, place.now, HOUR);
    assert!(sweep.repository(&place.path("none")).is_empty());
}

/// git itself is killed in the middle of a push, by its own hook.
#[test]
fn what_a_killed_git_leaves_is_found_by_its_name() {
    let place = Place::new();
    let hook = place.directory("hooks").join("pre-receive");
    fs::write(&hook, "#!/bin/sh\nkill -9 $PPID\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let work = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        Command::new("git")
            .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
            .args(arguments)
            .current_dir(work.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(git(&["init", "-q"]) && git(&["commit", "-q", "--allow-empty", "-m", "one"]));
    assert!(!git(&["push", "-q", place.home.path().to_str().unwrap(), "HEAD:refs/heads/main"]));
    let is_left = || fs::read_dir(place.path("objects")).unwrap().count() == 3;
    assert!(is_left(), "git left no quarantine to test with");
    assert!(place.sweep().removed.is_empty());
    let later = Sweep::new(&place.disk, place.now + 2 * HOUR, HOUR);
    let removed = later.repository(place.home.path()).removed;
    assert_eq!(removed.len(), 1);
    assert!(!is_left());
}

struct Root {
    directory: tempfile::TempDir,
    head: RefName,
}

impl Root {
    fn new() -> Self {
        let head = RefName::new("refs/heads/main").unwrap();
        Self { directory: tempfile::tempdir().unwrap(), head }
    }

    fn create(&self, disk: &Disk, name: &str) -> crate::repo::create::Creation {
        let root = self.directory.path();
        let (path, head) = (root.join(name), &self.head);
        create(disk, &NewRepository { root, path: &path, hash: HashKind::Sha1, head }).unwrap()
    }

    /// A repository under the name of one that is unfinished.
    fn unfinished(&self) -> PathBuf {
        drop(self.create(&Disk::default(), "r.git"));
        let path = self.directory.path().join(".tmp-packhouse-abcdef");
        fs::rename(self.directory.path().join("r.git"), &path).unwrap();
        path
    }

    fn sweep(&self) -> Vec<SweepReport> {
        let sweep = Sweep::new(&Disk::default(), SystemTime::now(), HOUR);
        sweep.below(self.directory.path()).collect()
    }
}

#[test]
fn an_unfinished_repository_goes_when_nobody_works_on_it() {
    let root = Root::new();
    let path = root.unfinished();
    let lock = PathLock::exclusive(&Disk::default(), &path).unwrap().unwrap();
    let reports = root.sweep();
    assert!(reports[0].is_empty() && reports[0].live == 1);
    drop(lock);
    fs::remove_file(path.join("config")).unwrap();
    assert_eq!(root.sweep()[0].removed, std::slice::from_ref(&path));
    assert!(!path.exists());
}

#[test]
fn an_unfinished_repository_in_which_something_was_stored_is_reported_and_stays() {
    for name in ["objects/00", "refs/heads/main", "hooks"] {
        let root = Root::new();
        let path = root.unfinished();
        fs::create_dir_all(path.join(name)).unwrap();
        let reports = root.sweep();
        assert!(reports[0].removed.is_empty());
        assert!(matches!(&reports[0].reported[..], [found]
            if found.path == path && matches!(found.finding, Finding::Stored)));
        assert!(path.join(name).exists());
    }
}

#[test]
fn a_sweep_below_a_root_goes_through_every_repository() {
    let root = Root::new();
    for name in ["a.git", "team/b.git"] {
        drop(root.create(&Disk::default(), name));
        let dead = format!("{name}/objects/tmp_objdir-incoming-packhouse-abcdef");
        fs::create_dir(root.directory.path().join(dead)).unwrap();
    }
    let reports = root.sweep();
    assert_eq!(reports.len(), 2);
    assert!(reports.iter().all(|report| report.removed.len() == 1));
}

/// Repositories come and go while a sweep goes on and on: none is lost, and nothing is left over.
#[test]
fn a_sweep_beside_those_who_create_takes_nothing_from_them() {
    let root = Root::new();
    let disk = Disk::new(FlushPolicy::NONE);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let sweep = Sweep::new(&disk, SystemTime::now(), Duration::ZERO);
                for report in sweep.below(root.directory.path()) {
                    assert!(report.reported.is_empty(), "{:?}", report.reported);
                }
            }
        });
        let pushes: Vec<_> = (0..3)
            .map(|number| {
                let (root, disk) = (&root, &disk);
                scope.spawn(move || {
                    for _ in 0..12 {
                        let creation = root.create(disk, &format!("{number}.git"));
                        assert!(creation.made);
                        assert_eq!(creation.hold.remove_if_untouched().unwrap(), Removal::Removed);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = pushes.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Release);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(fs::read_dir(root.directory.path()).unwrap().count(), 0);
}
