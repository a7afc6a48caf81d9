//! What a killed process leaves behind, and who takes it away.

use super::seeded;
use crate::support::git;
use crate::support::objects::two_commits;
use crate::support::request::Request;
use packhouse::repo::sweep::Sweep;
use packhouse::repo::{Disk, FlushPolicy};
use std::io::Write;
use std::path::Path;
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

fn begin_push(repository: &Path, request: &[u8]) -> Child {
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

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {}", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn quarantines(repository: &Path) -> usize {
    let is_quarantine = |entry: &std::io::Result<std::fs::DirEntry>| {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("tmp_objdir-")
    };
    std::fs::read_dir(repository.join("objects")).unwrap().filter(is_quarantine).count()
}
