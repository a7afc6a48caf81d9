//! Graphs that git has written, and what can be wrong with them.

use super::layer::{Layer, LayerError};
use super::{CommitGraph, CommitGraphCache};
use crate::model::{HashKind, ObjectId};
use crate::repo::Disk;
use proptest::prelude::*;
use sha1::Digest as _;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};

const MIB: u64 = 1 << 20;

fn git(dir: &Path, args: &[&str], input: &[u8]) -> String {
    let mut child = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A line of commits, then an octopus merge with five parents, then one more.
fn history(format: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q", "--bare", "-b", "main", "--object-format", format], b"");
    let mut stream = String::new();
    let mut commit = |mark: u32, parents: &[u32]| {
        use std::fmt::Write as _;
        let branch =
            if parents.is_empty() && mark > 1 { format!("b{mark}") } else { "main".into() };
        let date = 1_700_000_000 + mark;
        let _ = write!(stream, "commit refs/heads/{branch}\nmark :{mark}\n");
        let _ = write!(stream, "committer A <a@b> {date} +0000\ndata 1\nx\n");
        for (n, parent) in parents.iter().enumerate() {
            let word = if n == 0 { "from" } else { "merge" };
            let _ = writeln!(stream, "{word} :{parent}");
        }
        let _ = write!(stream, "M 100644 inline f{mark}\ndata 2\n{mark:02}\n\n");
    };
    commit(1, &[]);
    for mark in 2..20 {
        commit(mark, &[mark - 1]);
    }
    for mark in 20..24 {
        commit(mark, &[]);
    }
    commit(24, &[19, 20, 21, 22, 23]);
    commit(25, &[24]);
    git(dir.path(), &["fast-import", "--quiet"], stream.as_bytes());
    dir
}

/// What git says of every commit: tree, parents, date.
fn facts(dir: &Path) -> BTreeMap<ObjectId, (ObjectId, Vec<ObjectId>, u64)> {
    let id = |hex: &str| ObjectId::from_hex(hex.as_bytes()).unwrap();
    let log = git(dir, &["log", "--all", "--format=%H %ct %T %P"], b"");
    log.lines()
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let parents = words[3..].iter().map(|hex| id(hex)).collect();
            (id(words[0]), (id(words[2]), parents, words[1].parse().unwrap()))
        })
        .collect()
}

fn assert_agrees(dir: &Path, graph: &CommitGraph) {
    let facts = facts(dir);
    assert_eq!(facts.len(), 25);
    for (id, (tree, parents, date)) in &facts {
        let commit = graph.find(id).unwrap();
        assert_eq!((&commit.tree, &commit.parents, commit.date), (tree, parents, *date));
        let parents = parents.iter().map(|parent| graph.find(parent).unwrap().generation);
        assert_eq!(commit.generation, parents.max().unwrap_or(0) + 1);
        assert!(graph.contains(id) && !graph.contains(tree));
        assert_eq!(graph.find(tree), None);
    }
}

fn load(dir: &Path, hash: HashKind) -> Option<CommitGraph> {
    CommitGraph::load(&Disk::default(), &[dir.join("objects")], hash, MIB)
}

#[test]
fn a_graph_says_what_the_commits_say() {
    for (hash, format) in [(HashKind::Sha1, "sha1"), (HashKind::Sha256, "sha256")] {
        let dir = history(format);
        assert!(load(dir.path(), hash).is_none());
        git(dir.path(), &["commit-graph", "write", "--reachable"], b"");
        let graph = load(dir.path(), hash).unwrap();
        assert_agrees(dir.path(), &graph);
        let file = fs::metadata(dir.path().join("objects/info/commit-graph")).unwrap();
        assert_eq!(graph.bytes_len(), file.len());
        let other = if hash == HashKind::Sha1 { HashKind::Sha256 } else { HashKind::Sha1 };
        assert!(load(dir.path(), other).is_none());
        assert!(!graph.contains(&ObjectId::null(other)));
    }
}

/// A chain of three files.
fn chain() -> tempfile::TempDir {
    let dir = history("sha1");
    for revision in ["main~9", "main~2", "main"] {
        let tip = git(dir.path(), &["rev-parse", revision], b"");
        let args = ["commit-graph", "write", "--stdin-commits", "--split=no-merge"];
        git(dir.path(), &args, tip.as_bytes());
    }
    dir
}

fn chain_files(dir: &Path) -> Vec<PathBuf> {
    let directory = dir.join("objects/info/commit-graphs");
    let chain = fs::read_to_string(directory.join("commit-graph-chain")).unwrap();
    chain.lines().map(|name| directory.join(format!("graph-{name}.graph"))).collect()
}

#[test]
fn a_chain_is_one_graph() {
    let dir = chain();
    assert_eq!(chain_files(dir.path()).len(), 3);
    assert_agrees(dir.path(), &load(dir.path(), HashKind::Sha1).unwrap());
}

#[test]
fn the_lower_files_of_a_chain_may_lie_in_an_alternate() {
    let (dir, upper) = (chain(), tempfile::tempdir().unwrap());
    let files = chain_files(dir.path());
    let below = upper.path().join("info/commit-graphs");
    fs::create_dir_all(&below).unwrap();
    for file in [&files[2], &files[2].with_file_name("commit-graph-chain")] {
        fs::rename(file, below.join(file.file_name().unwrap())).unwrap();
    }
    let directories = [upper.path().to_owned(), dir.path().join("objects")];
    let load = |directories| CommitGraph::load(&Disk::default(), directories, HashKind::Sha1, MIB);
    let graph = load(&directories).unwrap();
    assert!(facts(dir.path()).keys().all(|id| graph.find(id).is_some()));
    assert!(load(&directories[..1]).is_none());
}

#[test]
fn a_chain_with_a_file_missing_damaged_or_in_the_wrong_place_is_ignored() {
    for broken in 0..3 {
        let dir = chain();
        let files = chain_files(dir.path());
        let mut bytes = fs::read(&files[broken]).unwrap();
        fs::remove_file(&files[broken]).unwrap();
        assert!(load(dir.path(), HashKind::Sha1).is_none(), "without file {broken}");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&files[broken], bytes).unwrap();
        assert!(load(dir.path(), HashKind::Sha1).is_none(), "file {broken} damaged");
    }
    let dir = chain();
    let files = chain_files(dir.path());
    let list = files[0].with_file_name("commit-graph-chain");
    let chain = fs::read_to_string(&list).unwrap();
    let mut lines: Vec<_> = chain.lines().collect();
    lines.swap(0, 1);
    fs::write(&list, lines.join("\n")).unwrap();
    assert!(load(dir.path(), HashKind::Sha1).is_none());
    fs::write(&list, "../../../../etc/passwd\n").unwrap();
    assert!(load(dir.path(), HashKind::Sha1).is_none());
    fs::write(&list, "").unwrap();
    assert!(load(dir.path(), HashKind::Sha1).is_none());
}

#[test]
fn an_upper_file_of_a_chain_is_no_graph_by_itself() {
    let dir = chain();
    let files = chain_files(dir.path());
    fs::rename(&files[2], dir.path().join("objects/info/commit-graph")).unwrap();
    assert!(load(dir.path(), HashKind::Sha1).is_none());
}

#[test]
fn a_graph_over_the_bound_is_ignored() {
    let dir = history("sha1");
    git(dir.path(), &["commit-graph", "write", "--reachable"], b"");
    let size = fs::metadata(dir.path().join("objects/info/commit-graph")).unwrap().len();
    let objects = [dir.path().join("objects")];
    let load = |max| CommitGraph::load(&Disk::default(), &objects, HashKind::Sha1, max);
    assert!(load(size).is_some());
    assert!(load(size - 1).is_none());
}

#[test]
fn the_cache_reads_a_graph_once_and_again_when_it_was_replaced() {
    let dir = history("sha1");
    let (disk, cache) = (Disk::default(), CommitGraphCache::new(MIB));
    let objects = [dir.path().join("objects")];
    assert!(cache.load(&disk, &objects, HashKind::Sha1).is_none());
    let tip = git(dir.path(), &["rev-parse", "main~9"], b"");
    git(dir.path(), &["commit-graph", "write", "--stdin-commits"], tip.as_bytes());
    let first = cache.load(&disk, &objects, HashKind::Sha1).unwrap();
    let opens = disk.counts().opens;
    let second = cache.load(&disk, &objects, HashKind::Sha1).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(disk.counts().opens, opens);
    git(dir.path(), &["commit-graph", "write", "--reachable"], b"");
    let third = cache.load(&disk, &objects, HashKind::Sha1).unwrap();
    assert_agrees(dir.path(), &third);
}

#[test]
fn the_cache_remembers_that_a_graph_is_of_no_use() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("info")).unwrap();
    fs::write(dir.path().join("info/commit-graph"), "CGPH").unwrap();
    let (disk, cache) = (Disk::default(), CommitGraphCache::new(MIB));
    let objects = [dir.path().to_owned()];
    assert!(cache.load(&disk, &objects, HashKind::Sha1).is_none());
    let opens = disk.counts().opens;
    assert!(cache.load(&disk, &objects, HashKind::Sha1).is_none());
    assert_eq!(disk.counts().opens, opens);
}

#[test]
fn the_cache_lets_the_graph_go_that_was_not_asked_for_the_longest() {
    let directories: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let size = FILE.len() as u64;
    for directory in &directories {
        fs::create_dir(directory.path().join("info")).unwrap();
        fs::write(directory.path().join("info/commit-graph"), &*FILE).unwrap();
    }
    let (disk, cache) = (Disk::default(), CommitGraphCache::new(2 * size));
    let opens = |n: usize| {
        let before = disk.counts().opens;
        let objects = [directories[n].path().to_owned()];
        assert!(cache.load(&disk, &objects, HashKind::Sha1).is_some());
        disk.counts().opens - before
    };
    assert_eq!([opens(0), opens(1), opens(0)], [1, 1, 0]);
    assert_eq!([opens(2), opens(0), opens(1)], [1, 0, 1]);
}

/// A graph with an octopus merge.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = history("sha1");
    git(dir.path(), &["commit-graph", "write", "--reachable"], b"");
    fs::read(dir.path().join("objects/info/commit-graph")).unwrap()
});

/// Puts the checksum right after a change.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(body) = bytes.len().checked_sub(20) {
        let digest = sha1::Sha1::digest(&bytes[..body]);
        bytes[body..].copy_from_slice(&digest);
    }
    bytes
}

#[test]
fn every_cut_and_every_flipped_bit_is_an_error() {
    for end in 0..FILE.len() {
        assert!(Layer::parse(FILE[..end].to_vec(), HashKind::Sha1).is_err(), "{end}");
    }
    for place in 0..FILE.len() {
        let mut bytes = FILE.clone();
        bytes[place] ^= 1 << (place % 8);
        assert!(Layer::parse(bytes, HashKind::Sha1).is_err(), "{place}");
    }
}

#[test]
fn each_rule_of_the_format_has_its_error() {
    let parse = |bytes| Layer::parse(sealed(bytes), HashKind::Sha1).map(|layer| layer.count());
    assert_eq!(parse(FILE.clone()), Ok(25));
    let with = |place: usize, byte: u8| {
        let mut bytes = FILE.clone();
        bytes[place] = byte;
        parse(bytes)
    };
    assert_eq!(with(0, b'X'), Err(LayerError::Header));
    assert_eq!(with(4, 2), Err(LayerError::Header));
    assert_eq!(with(5, 2), Err(LayerError::Header));
    assert_eq!(with(6, 200), Err(LayerError::Chunk));
    assert_eq!(with(6, 0), Err(LayerError::Chunk));
    assert_eq!(with(7, 1), Err(LayerError::Chunk));
    assert_eq!(with(8, b'X'), Err(LayerError::Chunk));
    assert_eq!(with(12, 0xff), Err(LayerError::Chunk));
    let fan_out = usize::try_from(u64::from_be_bytes(FILE[12..20].try_into().unwrap())).unwrap();
    assert_eq!(with(fan_out, 0xff), Err(LayerError::FanOut));
    assert_eq!(with(fan_out + 255 * 4, 0x01), Err(LayerError::Chunk));
    let mut longer = FILE.clone();
    longer.extend_from_slice(b"x");
    assert_eq!(
        Layer::parse(longer, HashKind::Sha1).map(|layer| layer.count()),
        Err(LayerError::Checksum)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// With the right checksum a hostile file gets as far as it can.
    #[test]
    fn no_bytes_panic_or_hang(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = FILE.clone();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(layer) = Layer::parse(sealed(bytes), HashKind::Sha1) {
            for place in 0..layer.count().saturating_add(2) {
                let found = layer.id(place).and_then(|id| layer.find(&id));
                let _ = (found, layer.record(place));
            }
        }
    }
}
