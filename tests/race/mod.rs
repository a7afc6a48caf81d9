//! Many pushers at once, on one repository, with stock git among them and at work beside them.
//!
//! Each test runs a number of rounds; `PACKHOUSE_RACE_ROUNDS` asks for another number than the
//! few that an ordinary run has time for.

mod one_branch;

use crate::support::answer::Answer;
use crate::support::git;
use crate::support::local::Local;
use crate::support::objects::{Snapshot, ZERO, pack};
use crate::support::request::Request;
use packhouse::model::{Dialect, Limits, UnpackLimit};
use packhouse::receive::{self, ReceiverSettings};
use packhouse::repo::{Disk, FlushPolicy, InFlight, Recovered};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PUSHERS: usize = 20;

fn rounds() -> usize {
    std::env::var("PACKHOUSE_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// Who takes a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    Packhouse,
    StockGit,
}

struct Scene {
    scratch: tempfile::TempDir,
    repository: PathBuf,
    local: Local,
    first: Snapshot,
    begun: Instant,
    tried: AtomicUsize,
    taken: AtomicUsize,
}

fn scene() -> Scene {
    let scratch = tempfile::tempdir().unwrap();
    let repository = git::init_bare(&scratch.path().join("r.git"));
    git::run(&repository, &["config", "receive.autogc", "false"]);
    let local = with_record(&scratch.path().join("state"));
    let first = Snapshot::new("first\n", &[]);
    let request =
        Request::new().command(ZERO, &first.id(), "refs/heads/main").pack(first.pack()).bytes();
    local.push_ok(&repository, &request);
    let (tried, taken) = Default::default();
    Scene { scratch, repository, local, first, begun: Instant::now(), tried, taken }
}

/// A receiver that notes its locks and keep files, as a server does.
fn with_record(state_dir: &Path) -> Local {
    let disk = Disk::new(FlushPolicy::FULL);
    let receiver = receive::Receiver::new(ReceiverSettings {
        disk: disk.clone(),
        limits: Limits::default(),
        unpack_limit: UnpackLimit::DEFAULT,
        dialect: Dialect::default(),
        agent: "packhouse/test".into(),
        state_dir: Some(state_dir.to_owned()),
        hooks_apart: false,
        packet_trace: receive::PacketTrace::default(),
    });
    Local { receiver: receiver.unwrap(), ..Local::new(disk) }
}

impl Scene {
    /// A commit that differs for each number.
    fn commit(&self, number: usize) -> Snapshot {
        Snapshot::new(&format!("{number}\n"), &[&self.first.id()])
    }

    fn push(&self, receiver: Receiver, request: &[u8]) -> Answer {
        match receiver {
            Receiver::Packhouse => {
                let (_, heard) = self.local.push(&self.repository, request);
                Answer::from_bands(&heard.bytes)
            }
            Receiver::StockGit => stock_push(&self.repository, request),
        }
    }

    /// Pushes all requests at once and tells which commands were taken.
    fn race(&self, requests: &[(Receiver, Vec<u8>)]) -> Vec<Answer> {
        let barrier = Barrier::new(requests.len());
        thread::scope(|scope| {
            let running: Vec<_> = requests
                .iter()
                .map(|(receiver, request)| {
                    scope.spawn(|| {
                        barrier.wait();
                        self.push(*receiver, request)
                    })
                })
                .collect();
            let join = |running: thread::ScopedJoinHandle<'_, Answer>| running.join().unwrap();
            let answers: Vec<Answer> = running.into_iter().map(join).collect();
            self.tried.fetch_add(answers.len(), Ordering::Relaxed);
            self.taken.fetch_add(taken(&answers), Ordering::Relaxed);
            answers
        })
    }

    /// Asserts that the repository is sound and that no push has left anything, and prints what
    /// was done.
    fn end(self, what: &str) {
        git::assert_sound(&self.repository);
        let strays = strays(&self.repository);
        assert!(strays.is_empty(), "{strays:?}");
        let (tried, taken) = (self.tried.into_inner(), self.taken.into_inner());
        let seconds = self.begun.elapsed().as_secs_f64();
        let refs = git::refs(&self.repository).lines().count();
        println!("{what}: {tried} pushes, {taken} taken, {refs} refs at the end, {seconds:.1} s");
        // The record names nothing any more: nothing that is there, and nothing that was.
        drop(self.local);
        let recovered = InFlight::recover(&Disk::default(), &self.scratch.path().join("state"));
        assert_eq!(recovered.unwrap(), Recovered::default());
    }

    /// A creation of `name`, with objects of its own.
    fn creation(&self, name: &str, number: usize) -> Vec<u8> {
        let commit = self.commit(number);
        Request::new().command(ZERO, &commit.id(), name).pack(commit.pack()).bytes()
    }

    fn delete(&self, name: &str) {
        git::run(&self.repository, &["update-ref", "-d", name]);
    }
}

/// Locks, keep files and temporary files.
fn strays(repository: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![repository.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if [".lock", ".keep"].iter().any(|end| name.ends_with(end)) || name.contains("tmp_") {
                found.push(path);
            } else if path.is_dir() {
                directories.push(path);
            }
        }
    }
    found
}

fn stock_push(repository: &Path, request: &[u8]) -> Answer {
    let mut command = Command::new("git");
    git::isolate(&mut command);
    let mut child = command
        .args(["receive-pack", "--stateless-rpc"])
        .arg(repository)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    drop(stdin.write_all(request));
    drop(stdin);
    Answer::from_bands(&child.wait_with_output().unwrap().stdout)
}

fn taken(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.report.iter().any(|line| line.starts_with("ok "))).count()
}

/// Half of the pushers through stock git, if asked for.
fn receiver(number: usize, mixed: bool) -> Receiver {
    if mixed && number % 2 == 1 { Receiver::StockGit } else { Receiver::Packhouse }
}

#[test]
fn twenty_pushers_to_twenty_branches_are_all_taken() {
    let scene = scene();
    for round in 0..rounds() {
        let requests: Vec<_> = (0..PUSHERS)
            .map(|number| {
                let name = format!("refs/heads/r{round}/b{number}");
                (Receiver::Packhouse, scene.creation(&name, round * PUSHERS + number))
            })
            .collect();
        let answers = scene.race(&requests);
        assert_eq!(taken(&answers), PUSHERS, "round {round}: {answers:?}");
    }
    assert_eq!(git::refs(&scene.repository).lines().count(), rounds() * PUSHERS + 1);
    scene.end("twenty pushers to twenty branches");
}

#[test]
fn of_twenty_creators_of_one_branch_exactly_one_is_taken() {
    let scene = scene();
    one_creator_wins(&scene, false);
    scene.end("twenty creators of one branch");
}

#[test]
fn of_twenty_creators_half_through_stock_git_exactly_one_is_taken() {
    let scene = scene();
    one_creator_wins(&scene, true);
    scene.end("twenty creators of one branch, half through stock git");
}

#[test]
fn exactly_one_creator_is_taken_beside_a_hundred_thousand_packed_refs() {
    let scene = scene();
    pack_many_refs(&scene, 100_000);
    one_creator_wins(&scene, false);
    one_kind_wins(&scene, false);
    scene.end("twenty creators beside a hundred thousand packed refs");
}

#[test]
fn of_a_branch_and_one_below_it_exactly_one_kind_is_taken() {
    let scene = scene();
    one_kind_wins(&scene, false);
    scene.end("a branch and those below it");
}

#[test]
fn of_a_branch_and_one_below_it_half_through_stock_git_one_kind_is_taken() {
    let scene = scene();
    one_kind_wins(&scene, true);
    scene.end("a branch and those below it, half through stock git");
}

/// Loose objects, but for pushes that come while a gc runs: gc takes loose objects to which no ref
/// leads yet into cruft packs, and `git repack -ad` deletes these although a ref came to lead there
/// since it looked. Stock git as the receiver loses pushes here.
#[test]
fn small_pushes_go_on_while_stock_git_packs_refs_and_objects() {
    let scene = scene();
    let taken = pushes_beside_stock_git(&scene);
    assert_eq!(taken.len(), rounds() * PUSHERS);
    scene.end("small pushes beside git gc, repack and pack-refs");
}

/// Packs, which their keep files guard until refs lead to what is in them. With twenty pushers and
/// two repacks the directory of packs may never be still for long enough to be read; who meets
/// that is told, and nothing that was taken is lost.
#[test]
fn kept_pushes_are_not_lost_while_stock_git_packs_refs_and_objects() {
    let scene = scene();
    git::run(&scene.repository, &["config", "transfer.unpackLimit", "1"]);
    let taken = pushes_beside_stock_git(&scene);
    assert!(taken.len() > rounds() * PUSHERS * 3 / 4, "{}", taken.len());
    scene.end("kept pushes beside git gc, repack and pack-refs");
}

/// Pushes while `git gc`, `git repack` and `git pack-refs` run in loops; what was taken to
/// branches of its own must be there at the end, and is returned.
fn pushes_beside_stock_git(scene: &Scene) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    beside_stock_git(scene, || {
        for round in 0..rounds() {
            let names: Vec<_> =
                (0..PUSHERS).map(|number| format!("refs/heads/r{round}/b{number}")).collect();
            let creation = |(number, name): (usize, &String)| {
                (Receiver::Packhouse, scene.creation(name, round * PUSHERS + number))
            };
            let requests: Vec<_> = names.iter().enumerate().map(creation).collect();
            for (number, answer) in scene.race(&requests).iter().enumerate() {
                if taken(std::slice::from_ref(answer)) == 1 {
                    let id = scene.commit(round * PUSHERS + number).id();
                    lines.insert(format!("{id} {}", names[number]));
                } else {
                    println!("refused: {answer:?}");
                }
            }
        }
        one_creator_wins(scene, false);
        one_kind_wins(scene, false);
    });
    let refs = git::refs(&scene.repository);
    let refs: BTreeSet<&str> = refs.lines().collect();
    for line in &lines {
        assert!(refs.contains(line.as_str()), "{line} is lost");
    }
    // The commit-graph may name commits whose refs were deleted since, and which were pruned.
    git::run(&scene.repository, &["gc", "-q"]);
    lines
}

/// What is pushed once must not be pushed again by another part of a test: that would put back
/// what was lost.
const OF_ONE_CREATOR: usize = 1_000_000;
const OF_ONE_KIND: usize = 2_000_000;

fn one_creator_wins(scene: &Scene, mixed: bool) {
    for round in 0..rounds() {
        let requests: Vec<_> = (0..PUSHERS)
            .map(|number| {
                let number_of_all = OF_ONE_CREATOR + round * PUSHERS + number;
                let request = scene.creation("refs/heads/one", number_of_all);
                (receiver(number, mixed), request)
            })
            .collect();
        let answers = scene.race(&requests);
        assert_eq!(taken(&answers), 1, "round {round}: {answers:?}");
        scene.delete("refs/heads/one");
    }
}

fn one_kind_wins(scene: &Scene, mixed: bool) {
    for round in 0..rounds() {
        let requests: Vec<_> = (0..PUSHERS)
            .map(|number| {
                let below = format!("refs/heads/q/x{number}");
                // Pairs, so that both kinds go through both receivers.
                let name = if number / 2 % 2 == 0 { "refs/heads/q" } else { below.as_str() };
                let number_of_all = OF_ONE_KIND + round * PUSHERS + number;
                (receiver(number, mixed), scene.creation(name, number_of_all))
            })
            .collect();
        let answers = scene.race(&requests);
        let refs = git::refs(&scene.repository);
        let above = refs.lines().filter(|line| line.ends_with(" refs/heads/q")).count();
        let below: Vec<&str> = refs
            .lines()
            .filter_map(|line| line.split_once(' ').map(|(_, name)| name))
            .filter(|name| name.starts_with("refs/heads/q/"))
            .collect();
        assert_eq!(above == 1, below.is_empty(), "round {round}: {refs}");
        assert_eq!(taken(&answers), above + below.len(), "round {round}: {answers:?}");
        if above == 1 {
            scene.delete("refs/heads/q");
        }
        for name in below {
            scene.delete(name);
        }
    }
}

fn pack_many_refs(scene: &Scene, count: usize) {
    // packed-refs is written directly: a hundred thousand loose refs would take a minute.
    let id = scene.first.id();
    let mut lines: Vec<String> =
        (0..count).map(|number| format!("{id} refs/tags/many/t{number}\n")).collect();
    lines.push(format!("{id} refs/heads/main\n"));
    lines.sort_by(|a, b| a[41..].cmp(&b[41..]));
    let text = format!("# pack-refs with: peeled fully-peeled sorted \n{}", lines.concat());
    std::fs::write(scene.repository.join("packed-refs"), text).unwrap();
    assert_eq!(git::refs(&scene.repository).lines().count(), count + 1);
}

/// Runs `work` while `git gc`, `git repack` and `git pack-refs` run in loops.
fn beside_stock_git(scene: &Scene, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let loops: [&[&str]; 3] = [&["gc", "-q"], &["repack", "-adq"], &["pack-refs", "--all"]];
    thread::scope(|scope| {
        for arguments in loops {
            let stop = &stop;
            scope.spawn(move || {
                let (mut runs, mut failed) = (0, 0);
                let mut complaints = BTreeSet::new();
                while !stop.load(Ordering::Relaxed) {
                    // They meet each other's locks; that is theirs to report.
                    let output = git::try_run(&scene.repository, arguments);
                    runs += 1;
                    if !output.status.success() {
                        failed += 1;
                        complaints.insert(String::from_utf8_lossy(&output.stderr).into_owned());
                    }
                    thread::sleep(Duration::from_millis(5));
                }
                println!("git {}: {runs} runs, {failed} of them failed", arguments.join(" "));
                // One that finds a ref without its object has found a push that was lost, unless
                // the ref is one of those that are deleted again, whose objects it drops itself.
                let lost = |text: &&String| text.contains("bad object refs/heads/r");
                assert_eq!(complaints.iter().find(lost), None);
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn a_push_whose_body_is_slow_holds_nobody_else_up() {
    let scene = scene();
    let slow = scene.creation("refs/heads/slow", 1000);
    let (feed, body) = std::io::pipe().map(|(reader, writer)| (writer, reader)).unwrap();
    thread::scope(|scope| {
        let scene = &scene;
        let running = scope.spawn(move || {
            let mut body = body;
            scene.local.push_from(&scene.repository, &mut body).1
        });
        let mut feed = feed;
        let half = slow.len() / 2;
        feed.write_all(&slow[..half]).unwrap();
        // While the first waits for the rest of its body, ten others come and go.
        let requests: Vec<_> = (0..10)
            .map(|number| {
                let name = format!("refs/heads/quick{number}");
                (Receiver::Packhouse, scene.creation(&name, number))
            })
            .collect();
        assert_eq!(taken(&scene.race(&requests)), 10);
        assert!(!running.is_finished());
        feed.write_all(&slow[half..]).unwrap();
        drop(feed);
        let answer = Answer::from_bands(&running.join().unwrap().bytes);
        assert_eq!(answer.of("refs/heads/slow"), "ok refs/heads/slow");
    });
    git::assert_sound(&scene.repository);
}

#[test]
fn three_thousand_refs_in_one_push_pass_a_hook_that_reads_nothing() {
    let scene = scene();
    let hook = scene.repository.join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\nexit 0\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, mode).unwrap();
    let names = (0..3000).map(|number| format!("refs/tags/v{number}"));
    let request =
        names.fold(Request::new(), |request, name| request.command(ZERO, &scene.first.id(), name));
    scene.local.push_ok(&scene.repository, &request.pack(pack(&[])).bytes());
    assert_eq!(git::refs(&scene.repository).lines().count(), 3001);
}

#[test]
fn an_empty_pack_creates_many_refs_at_once_beside_others() {
    let scene = scene();
    let many = |prefix: &str| {
        let mut request = Request::new();
        for number in 0..400 {
            let name = format!("refs/tags/{prefix}/t{number}");
            request = request.command(ZERO, &scene.first.id(), name);
        }
        request.pack(pack(&[])).bytes()
    };
    let requests: Vec<_> =
        (0..4).map(|number| (Receiver::Packhouse, many(&format!("p{number}")))).collect();
    let answers = scene.race(&requests);
    for answer in &answers {
        answer.assert_all_ok();
    }
    assert_eq!(git::refs(&scene.repository).lines().count(), 1601);
    git::assert_sound(&scene.repository);
}
