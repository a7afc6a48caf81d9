//! Known attacks and known damage, with every limit but the memory budget at its maximum: nothing
//! may depend on a limit that an operator has raised.

mod bombs;
mod deltas;
mod memory;
mod packs;
mod quarantine;
mod repacks;
mod requests;
mod store;

use crate::support::answer::Answer;
use crate::support::git;
use crate::support::local::{Heard, Local};
use crate::support::objects::{Snapshot, ZERO, two_commits};
use crate::support::request::Request;
use packhouse::model::{LimitRow, Limits};
use packhouse::receive::PushOutcome;
use packhouse::repo::{Disk, FlushPolicy};
use std::path::PathBuf;

struct Scene {
    _scratch: tempfile::TempDir,
    repository: PathBuf,
    local: Local,
    first: Snapshot,
    second: Snapshot,
    keeps_packs: bool,
}

/// Limits that bound what a push has in memory, or where it is put; they are left as they are.
const OF_MEMORY: [&str; 9] = [
    "base_cache_bytes_max",
    "big_file_bytes",
    "command_memory_bytes_max",
    "index_cache_bytes_max",
    "metadata_bytes_max",
    "metadata_memory_bytes_max",
    "push_memory_bytes_max",
    "unpack_bytes_max",
    "unpack_objects_max",
];

/// What is remembered for each, and is checked for by tests of its own.
const REMEMBERED: [&str; 3] = ["commit_parents_max", "entry_name_bytes_max", "named_objects_max"];

fn names_at_maximum() -> impl Iterator<Item = &'static LimitRow> {
    let is_left =
        |row: &&LimitRow| !OF_MEMORY.contains(&row.name) && !REMEMBERED.contains(&row.name);
    Limits::TABLE.iter().filter(is_left)
}

fn at_maximum() -> Limits {
    let mut limits = Limits::default();
    names_at_maximum().for_each(|row| *(row.place)(&mut limits) = u64::MAX);
    limits
}

/// A repository with the first of the two commits on `refs/heads/main`.
fn scene(unpack_limit: u32) -> Scene {
    let scratch = tempfile::tempdir().unwrap();
    let repository = git::init_bare(&scratch.path().join("r.git"));
    git::run(&repository, &["config", "transfer.unpackLimit", &unpack_limit.to_string()]);
    let (first, second) = two_commits();
    git::run_with_input(&repository, &["unpack-objects", "-q"], &first.pack());
    git::run(&repository, &["update-ref", "refs/heads/main", &first.id()]);
    let local = Local::with_limits(Disk::new(FlushPolicy::NONE), at_maximum());
    Scene { _scratch: scratch, repository, local, first, second, keeps_packs: unpack_limit == 1 }
}

impl Scene {
    fn push(&self, request: &[u8]) -> (PushOutcome, Heard) {
        self.local.push(&self.repository, request)
    }

    fn answer(&self, request: &Request) -> Answer {
        Answer::from_bands(&self.push(&request.bytes()).1.bytes)
    }

    /// Pushes this pack to two refs: it must fail as a whole, say so for each ref, and leave
    /// nothing.
    fn refuse_pack(&self, pack: impl Into<Vec<u8>>) -> Answer {
        let files = git::object_files(&self.repository);
        let refs = git::refs(&self.repository);
        let request = Request::new()
            .command(&self.first.id(), &self.second.id(), "refs/heads/main")
            .command(ZERO, &self.second.id(), "refs/heads/b")
            .pack(pack)
            .bytes();
        let (outcome, heard) = self.push(&request);
        assert!(outcome.result.is_err(), "{outcome:?}");
        let answer = Answer::from_bands(&heard.bytes);
        assert_eq!(answer.report.len(), 3, "{answer:?}");
        assert!(answer.report[0].starts_with("unpack "), "{answer:?}");
        assert_ne!(answer.report[0], "unpack ok");
        assert_eq!(answer.of("refs/heads/main"), "ng refs/heads/main unpacker error");
        assert_eq!(answer.of("refs/heads/b"), "ng refs/heads/b unpacker error");
        assert!(answer.complete, "{answer:?}");
        assert_eq!(git::object_files(&self.repository), files);
        assert_eq!(git::refs(&self.repository), refs);
        answer
    }

    /// The next push works.
    fn goes_on(&self) {
        let request = Request::new()
            .command(&self.first.id(), &self.second.id(), "refs/heads/main")
            .pack(self.second.pack())
            .bytes();
        self.local.push_ok(&self.repository, &request);
        git::assert_sound(&self.repository);
    }

    /// Writes objects into the store by themselves, whatever they name.
    fn store(&self, objects: &[&crate::support::objects::Object]) {
        for object in objects {
            let arguments = ["hash-object", "-w", "--literally", "-t", object.kind, "--stdin"];
            git::run_with_input(&self.repository, &arguments, &object.data);
        }
    }
}

fn on_both_sides_of_the_unpack_limit(test: impl Fn(&Scene)) {
    for limit in [1, 100] {
        let scene = scene(limit);
        test(&scene);
        scene.goes_on();
    }
}
