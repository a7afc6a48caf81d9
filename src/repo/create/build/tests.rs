//! What `create` promises: to git, to a crash, and to those who create at the same time.

use super::*;
use crate::repo::create::Removal;
use crate::repo::{FlushPolicy, Operation};
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

struct Place {
    directory: tempfile::TempDir,
    head: RefName,
}

impl Place {
    fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    /// In memory where there is such a file system: for thousands of flushes that need not last.
    fn quick() -> Self {
        Self::at(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn at(directory: tempfile::TempDir) -> Self {
        Self { directory, head: RefName::new("refs/heads/trunk").unwrap() }
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    fn create(&self, disk: &Disk, name: &str) -> Result<Creation, CreateError> {
        self.create_with(disk, name, HashKind::Sha1)
    }

    fn create_with(
        &self,
        disk: &Disk,
        name: &str,
        hash: HashKind,
    ) -> Result<Creation, CreateError> {
        let path = self.root().join(name);
        create(disk, &NewRepository { root: self.root(), path: &path, hash, head: &self.head })
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn git(directory: &Path, arguments: &[&str]) -> Output {
    Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env_remove("GIT_DIR")
        .output()
        .unwrap()
}

fn git_says(directory: &Path, arguments: &[&str]) -> String {
    let output = git(directory, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn assert_whole(path: &Path) {
    for name in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        assert!(path.join(name).is_dir(), "{name}");
    }
    assert_eq!(fs::read(path.join("HEAD")).unwrap(), b"ref: refs/heads/trunk\n");
    assert!(fs::read_to_string(path.join("config")).unwrap().ends_with("bare = true\n"));
}

#[test]
fn git_takes_what_was_created_for_its_own() {
    for (hash, name) in [(HashKind::Sha1, "sha1"), (HashKind::Sha256, "sha256")] {
        let place = Place::new();
        assert!(place.create_with(&Disk::default(), "r.git", hash).unwrap().made);
        let path = place.root().join("r.git");
        assert_eq!(git_says(&path, &["rev-parse", "--is-bare-repository"]), "true");
        assert_eq!(git_says(&path, &["rev-parse", "--show-object-format"]), name);
        assert_eq!(git_says(&path, &["symbolic-ref", "HEAD"]), "refs/heads/trunk");
        assert_eq!(git_says(&path, &["config", "core.filemode"]), "true");
        git_says(&path, &["fsck", "--strict"]);
        git_says(place.root(), &["clone", "-q", "r.git", "w"]);
        let work = place.root().join("w");
        git_says(&work, &["commit", "-q", "--allow-empty", "-m", "one"]);
        git_says(&work, &["push", "-q", "origin", "HEAD"]);
        assert_eq!(
            git_says(&path, &["rev-parse", "refs/heads/trunk"]),
            git_says(&work, &["rev-parse", "HEAD"])
        );
    }
}

#[test]
fn missing_directories_on_the_way_are_made() {
    let place = Place::new();
    assert!(place.create(&Disk::default(), "a/b/r.git").unwrap().made);
    assert_whole(&place.root().join("a/b/r.git"));
    assert_eq!(fs::read_dir(place.root().join("a/b")).unwrap().count(), 1);
}

#[test]
fn a_repository_that_is_there_is_used_as_it_is() {
    let place = Place::new();
    git_says(place.root(), &["init", "-q", "--bare", "r.git"]);
    let config = fs::read(place.root().join("r.git/config")).unwrap();
    let creation = place.create(&Disk::default(), "r.git").unwrap();
    assert!(!creation.made);
    assert_eq!(fs::read(place.root().join("r.git/config")).unwrap(), config);
    assert_eq!(creation.hold.remove_if_untouched().unwrap(), Removal::Kept);
    assert!(place.root().join("r.git").exists());
}

#[test]
fn nothing_is_created_inside_a_repository() {
    let place = Place::new();
    git_says(place.root(), &["init", "-q", "--bare", "group/bare.git"]);
    git_says(place.root(), &["init", "-q", "work"]);
    git_says(place.root(), &["clone", "-q", "--bare", "work", "wt.git"]);
    fs::create_dir(place.root().join("linked")).unwrap();
    fs::write(place.root().join("linked/.git"), "gitdir: ../work/.git\n").unwrap();
    for (name, outer) in [
        ("group/bare.git/r.git", "group/bare.git"),
        ("group/bare.git/objects/r.git", "group/bare.git"),
        ("work/r.git", "work"),
        ("work/sub/r.git", "work"),
        ("work/.git/r.git", "work"),
        ("linked/r.git", "linked"),
    ] {
        let error = place.create(&Disk::default(), name).unwrap_err();
        let CreateError::Nested { repository, .. } = &error else { panic!("{name}: {error}") };
        assert_eq!(*repository, place.root().join(outer), "{name}");
        assert!(error.to_string().contains(outer));
        assert!(!place.root().join(name).exists());
    }
}

#[test]
fn a_root_inside_a_work_tree_is_no_repository_but_a_bare_one_is() {
    let place = Place::new();
    git_says(place.root(), &["init", "-q"]);
    assert!(place.create(&Disk::default(), "r.git").unwrap().made);
    let place = Place::new();
    git_says(place.root(), &["init", "-q", "--bare"]);
    let error = place.create(&Disk::default(), "r.git").unwrap_err();
    assert!(matches!(error, CreateError::Nested { .. }), "{error}");
}

#[test]
fn a_name_that_something_else_has_is_left_alone() {
    let place = Place::new();
    fs::create_dir_all(place.root().join("group/sub")).unwrap();
    fs::create_dir(place.root().join("empty")).unwrap();
    fs::write(place.root().join("file"), "x").unwrap();
    std::os::unix::fs::symlink("nowhere", place.root().join("dangling")).unwrap();
    for (name, occupied) in [
        ("group", "group"),
        ("empty", "empty"),
        ("file", "file"),
        ("file/r.git", "file"),
        ("dangling", "dangling"),
    ] {
        let error = place.create(&Disk::default(), name).unwrap_err();
        let CreateError::Occupied { path } = error else { panic!("{name}: {error}") };
        assert_eq!(path, place.root().join(occupied));
    }
    assert_eq!(fs::read(place.root().join("file")).unwrap(), b"x");
    assert_eq!(place.names().len(), 4);
}

#[test]
fn a_place_that_is_not_below_the_root_is_refused() {
    let place = Place::new();
    for name in ["", ".", "../r.git", "a/../r.git", "a/../../r.git", "/tmp/r.git"] {
        let error = place.create(&Disk::default(), name).unwrap_err();
        assert!(matches!(error, CreateError::Outside { .. }), "{name}: {error}");
    }
    assert!(place.names().is_empty());
}

/// Replays the record and checks, at the moment of each rename and at the end, that every byte
/// and every name that was made lies behind a flush.
#[test]
fn everything_is_flushed_before_it_gets_its_name_and_the_name_before_it_is_told() {
    let place = Place::new();
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    let creation = place.create(&disk, "a/b/r.git").unwrap();
    let mut files = BTreeSet::new();
    let mut directories = BTreeSet::new();
    let mut renames = 0;
    for operation in recorder.operations() {
        let mut names = |path: &Path| directories.insert(path.parent().unwrap().to_owned());
        match operation {
            Operation::CreateFile { file, path } => {
                names(&path);
                files.insert(file);
            }
            Operation::CreateDirectory { path } => {
                names(&path);
            }
            Operation::Write { file, .. } => {
                files.insert(file);
            }
            Operation::FlushFile { file } => {
                files.remove(&file);
            }
            Operation::FlushDirectory { path } => {
                directories.remove(&path);
            }
            Operation::Rename { to, .. } => {
                assert_eq!(to, place.root().join("a/b/r.git"));
                assert!(files.is_empty());
                // The directory that gets the name is flushed once, after the rename.
                assert_eq!(directories.iter().collect::<Vec<_>>(), [to.parent().unwrap()]);
                renames += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(renames, 1);
    assert!(files.is_empty() && directories.is_empty());
    drop(creation);
}

#[test]
fn one_who_finds_it_there_flushes_the_way_to_it_before_using_it() {
    let place = Place::new();
    drop(place.create(&Disk::new(FlushPolicy::NONE), "a/b/r.git").unwrap());
    let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
    assert!(!place.create(&disk, "a/b/r.git").unwrap().made);
    let operations = recorder.operations();
    let flushed: BTreeSet<&Path> = operations
        .iter()
        .map(|operation| match operation {
            Operation::FlushDirectory { path } => path.as_path(),
            other => panic!("{other:?}"),
        })
        .collect();
    let [a, b] = ["a", "a/b"].map(|name| place.root().join(name));
    assert_eq!(flushed, BTreeSet::from([place.root(), &a, &b]));
}

#[test]
fn a_fault_at_any_step_leaves_nothing_or_a_whole_repository() {
    let all = {
        let place = Place::quick();
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        place.create(&disk, "a/b/r.git").unwrap();
        recorder.attempts()
    };
    assert!(all > 20, "{all}");
    for persistent in [false, true] {
        for at in 0..=all {
            let place = Place::quick();
            let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
            recorder.fail_at(at, io::ErrorKind::StorageFull, persistent);
            let path = place.root().join("a/b/r.git");
            match place.create(&disk, "a/b/r.git") {
                Ok(creation) => {
                    assert_eq!(at, all);
                    assert!(creation.made);
                    assert_whole(&path);
                }
                Err(CreateError::Disk { source, .. }) => {
                    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
                    // A disk that takes no rename either keeps what had its name already.
                    if path.exists() {
                        assert!(persistent && at == all - 1, "fault at {at} of {all}");
                        assert_whole(&path);
                    } else {
                        assert!(place.names().is_empty(), "fault at {at} of {all}");
                    }
                }
                Err(error) => panic!("fault at {at}: {error}"),
            }
            // Whatever happened, the next push gets a repository.
            recorder.fail_at(usize::MAX, io::ErrorKind::StorageFull, false);
            place.create(&disk, "a/b/r.git").unwrap();
            assert_whole(&path);
        }
    }
}

#[test]
fn a_fault_while_it_is_taken_away_leaves_a_whole_repository_or_none_in_its_place() {
    let count = |at: Option<usize>| {
        let place = Place::quick();
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        let hold = place.create(&disk, "a/r.git").unwrap().hold;
        recorder.fail_at(at.unwrap_or(usize::MAX), io::ErrorKind::PermissionDenied, false);
        let result = hold.remove_if_untouched();
        let path = place.root().join("a/r.git");
        if path.exists() {
            assert_whole(&path);
        }
        match at {
            None => assert_eq!(result.unwrap(), Removal::Removed),
            // A parent that cannot be removed is no fault.
            Some(_) if result.is_ok() => assert!(!path.exists()),
            Some(_) => drop(result.unwrap_err()),
        }
        recorder.attempts()
    };
    let all = count(None);
    assert!(all >= 12, "{all}");
    for at in 0..all {
        count(Some(at));
    }
}

#[test]
fn of_eight_who_create_the_same_path_one_does_and_all_have_it() {
    for name in ["r.git", "a/b/r.git"] {
        for _ in 0..6 {
            let place = Place::new();
            let barrier = Barrier::new(8);
            let creations: Vec<Creation> = thread::scope(|scope| {
                let threads: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| {
                            barrier.wait();
                            let creation = place.create(&Disk::new(FlushPolicy::NONE), name);
                            let creation = creation.unwrap();
                            assert_whole(&place.root().join(name));
                            creation
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(creations.iter().filter(|creation| creation.made).count(), 1);
            let holder = place.root().join(name).parent().unwrap().to_owned();
            assert_eq!(fs::read_dir(holder).unwrap().count(), 1, "a temporary name is left");
        }
    }
}

/// Of two paths, one inside the other, at most one can become a repository.
#[test]
fn of_two_who_create_one_inside_the_other_at_most_one_does() {
    for _ in 0..20 {
        let place = Place::new();
        let barrier = Barrier::new(2);
        let made = thread::scope(|scope| {
            let threads = ["a", "a/b/c"].map(|name| {
                let (place, barrier) = (&place, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    place.create(&Disk::new(FlushPolicy::NONE), name).is_ok()
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        let inner = place.root().join("a/b/c");
        assert_ne!(made, [true, true]);
        assert_eq!(inner.exists(), made[1]);
        if made[0] {
            assert_whole(&place.root().join("a"));
            assert_eq!(fs::read_dir(place.root().join("a")).unwrap().count(), 4);
        }
    }
}

/// Eight threads create one path again and again, and take it away unless they store something.
/// Nothing that was stored under a hold may be lost, and no hold may be on anything but what the
/// path names.
#[test]
fn nothing_stored_under_a_hold_is_taken_away() {
    let place = Place::new();
    let rounds = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..8 {
            let (place, rounds) = (&place, &rounds);
            scope.spawn(move || {
                let disk = Disk::new(FlushPolicy::NONE);
                while rounds.fetch_add(1, Ordering::Relaxed) < 800 {
                    let creation = place.create(&disk, "a/r.git").unwrap();
                    let stored = place.root().join(format!("a/r.git/refs/heads/{number}"));
                    fs::write(&stored, "x").unwrap();
                    thread::yield_now();
                    assert!(stored.exists(), "taken away under a hold");
                    fs::remove_file(&stored).unwrap();
                    creation.hold.remove_if_untouched().unwrap();
                }
            });
        }
    });
    assert!(place.names().iter().all(|name| name == "a"));
    if place.root().join("a").exists() {
        assert!(fs::read_dir(place.root().join("a")).unwrap().count() <= 1);
    }
}

/// git takes no lock of ours: its push either lands and stays, or fails.
#[test]
fn a_push_of_gits_beside_the_removal_lands_or_fails() {
    let place = Place::new();
    git_says(place.root(), &["init", "-q", "w"]);
    let work = place.root().join("w");
    git_says(&work, &["commit", "-q", "--allow-empty", "-m", "one"]);
    for round in 0..12 {
        let name = format!("r{round}.git");
        let hold = place.create(&Disk::new(FlushPolicy::NONE), &name).unwrap().hold;
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Spread over the time a push takes.
                thread::sleep(std::time::Duration::from_millis(round * 2));
                hold.remove_if_untouched().unwrap();
                done.store(true, Ordering::Release);
            });
            let url = format!("../{name}");
            let pushed = git(&work, &["push", "-q", &url, "HEAD:refs/heads/main"]);
            if pushed.status.success() {
                while !done.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                git_says(&place.root().join(&name), &["cat-file", "-e", "refs/heads/main^{tree}"]);
            }
        });
    }
}
