//! What a killed process leaves behind, and who takes it away.

use super::seeded;
use crate::http::raw;
use crate::http::server::Server;
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{ZERO, pack, two_commits};
use crate::support::request::Request;
use packhouse::repo::sweep::Sweep;
use packhouse::repo::{Disk, FlushPolicy};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[test]
fn the_quarantine_of_a_killed_push_is_swept_and_that_of_a_live_one_is_not() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path(), |_| ());
    let hook = repository.join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\ntouch reached\nexec sleep 20\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, mode).unwrap();
    let (first, second) = two_commits();
    let request = Request::new()
        .command(&first.id(), &second.id(), "refs/heads/main")
        .pack(second.pack())
        .bytes();
    let mut push = begin_push(&repository, &request);
    wait_for(&repository.join("reached"));
    let disk = Disk::new(FlushPolicy::FULL);
    let sweep = || Sweep::new(&disk, SystemTime::now(), DAY).repository(&repository);

    let report = sweep();
    assert!(report.removed.is_empty(), "{report:?}");
    assert_eq!(report.live, 1, "{report:?}");
    assert_eq!(quarantines(&repository), 1);

    push.kill().unwrap();
    push.wait().unwrap();
    assert_eq!(quarantines(&repository), 1);
    assert!(!sweep().removed.is_empty());
    assert_eq!(quarantines(&repository), 0);
    std::fs::remove_file(hook).unwrap();
    let mut push = begin_push(&repository, &request);
    assert!(push.wait().unwrap().success());
    assert!(git::refs(&repository).contains(&second.id()));
    git::assert_sound(&repository);
}

#[test]
fn the_locks_of_a_killed_server_are_gone_before_the_next_one_listens() {
    let scratch = tempfile::tempdir().unwrap();
    // The moment may be missed on a busy machine.
    let killed = (0..10).any(|attempt| {
        let root = scratch.path().join(attempt.to_string());
        std::fs::create_dir(&root).unwrap();
        is_locked_by_the_dead_and_recovers(&root)
    });
    assert!(killed, "the locks were never there when the server was killed");
}

/// False if the push was done before it could be killed.
fn is_locked_by_the_dead_and_recovers(root: &Path) -> bool {
    let repository = seeded(root, |repository| {
        git::run(repository, &["config", "transfer.unpackLimit", "1"]);
        git::run(repository, &["update-ref", "refs/tags/gone", "refs/heads/main"]);
        git::run(repository, &["pack-refs", "--all"]);
    });
    // Somebody else's, for whom nobody here can speak.
    let foreign = repository.join("refs/heads/foreign.lock");
    std::fs::write(&foreign, "").unwrap();
    let (first, second) = two_commits();
    let names: Vec<String> = (0..2000).map(|number| format!("refs/tags/t{number}")).collect();
    let request = Request::new()
        .capabilities("report-status side-band-64k atomic agent=probe")
        .command(&first.id(), &second.id(), "refs/heads/main")
        .command(&first.id(), ZERO, "refs/tags/gone");
    let all = |request: Request, name: &String| request.command(ZERO, &second.id(), name);
    let request = names.iter().fold(request, all).pack(second.pack()).bytes();
    let push = raw::Request::push("/r.git", request);
    let server = serve(root);
    let mut connection = raw::Connection::open(&server);
    connection.write(&push.head(server.address())).unwrap();
    for part in push.wire_body() {
        connection.write(&part).unwrap();
    }
    let packed_refs_lock = repository.join("packed-refs.lock");
    wait_for(&packed_refs_lock);
    drop(server);
    let locks = locks(&repository);
    if !locks.contains(&packed_refs_lock) {
        return false;
    }
    assert_eq!(locks.len(), 2000 + 4, "{locks:?}");
    assert_eq!(keep_files(&repository), 1);
    let blocked = git::try_run(&repository, &["update-ref", "-d", "refs/tags/gone"]);
    assert!(!blocked.status.success());

    let server = serve(root);
    assert_eq!(self::locks(&repository), std::slice::from_ref(&foreign));
    assert_eq!(keep_files(&repository), 0);
    git::assert_sound(&repository);
    // Whatever became of that push, the next one finds no lock in its way.
    let has_gone = !git::refs(&repository).contains("refs/tags/gone");
    let (doomed, value) =
        if has_gone { ("refs/tags/t0", second.id()) } else { ("refs/tags/gone", first.id()) };
    let next = Request::new()
        .capabilities("report-status side-band-64k atomic agent=probe")
        .command(&value, ZERO, doomed)
        .command(ZERO, &first.id(), "refs/heads/next")
        .pack(pack(&[]))
        .bytes();
    let next = raw::Request::push("/r.git", next).send(&server);
    Answer::from_bands(&next.body).assert_all_ok();
    std::fs::remove_file(foreign).unwrap();
    true
}

fn locks(repository: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![repository.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lock") {
                found.push(path);
            }
        }
    }
    found
}

/// A server of these repositories, which stay when it ends.
fn serve(root: &Path) -> Server {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Server::command(directory.path());
    command.arg("--root").arg(root).args(["--listen=127.0.0.1:0", "--anonymous=write"]);
    Server::begin(command, directory)
}

fn keep_files(repository: &Path) -> usize {
    git::object_files(repository).iter().filter(|name| name.ends_with(".keep")).count()
}

pub fn begin_push(repository: &Path, request: &[u8]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhouse"));
    git::isolate(&mut command);
    let mut child = command
        .args(["receive-pack", "--stateless-rpc"])
        .arg(repository)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(request).unwrap();
    child
}

pub fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {}", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn quarantines(repository: &Path) -> usize {
    let is_quarantine = |entry: &std::io::Result<std::fs::DirEntry>| {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("tmp_objdir-")
    };
    std::fs::read_dir(repository.join("objects")).unwrap().filter(is_quarantine).count()
}
