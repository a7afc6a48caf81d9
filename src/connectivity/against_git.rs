//! The same pushes to `git rev-list` and to us: the same values must be connected.

use super::commit_graph::CommitGraph;
use super::corpus::{METADATA_BYTES, Push, Refs, Store, commit_bytes, tag_bytes, tree_bytes};
use super::{Connectivity, Fault, LazySource, Missing, Verdicts};
use crate::links::{NewObjects, links};
use crate::model::{ByteBudget, CancelToken, HashKind, ObjectId, ObjectKind};
use crate::repo::Disk;
use crate::snapshot::{SnapshotCache, Sources};
use flate2::{Compression, write::ZlibEncoder};
use sha1::Digest as _;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A small generator of numbers; the same seed gives the same world.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Two levels of directories.
type Files = std::collections::BTreeMap<(Option<&'static str>, &'static str), (Mode, ObjectId)>;

type Mode = &'static str;

const DIRECTORIES: [Option<&str>; 4] = [None, Some("d1"), Some("d2"), Some("d3")];
const NAMES: [&str; 4] = ["f1", "f2", "f3", "f4"];

/// A repository and one push to it.
struct World {
    dice: Dice,
    hash: HashKind,
    /// All objects, those of the push included.
    all: Store,
    commits: Vec<(ObjectId, Files)>,
    trees: Vec<ObjectId>,
    blobs: Vec<ObjectId>,
    tags: Vec<ObjectId>,
    date: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            dice.below(2);
        }
        let hash = if dice.one_in(8) { HashKind::Sha256 } else { HashKind::Sha1 };
        Self {
            dice,
            hash,
            all: Store::default(),
            commits: Vec::new(),
            trees: Vec::new(),
            blobs: Vec::new(),
            tags: Vec::new(),
            date: 1_700_000_000,
        }
    }

    fn blob(&mut self) -> ObjectId {
        let text = format!("{}", self.dice.below(1 << 30));
        let id = self.all.put(self.hash, ObjectKind::Blob, text.into_bytes());
        self.blobs.push(id);
        id
    }

    fn tree(&mut self, entries: &[(Mode, &str, ObjectId)]) -> ObjectId {
        let id = self.all.put(self.hash, ObjectKind::Tree, tree_bytes(entries));
        self.trees.push(id);
        id
    }

    fn root(&mut self, files: &Files) -> ObjectId {
        let mut root = Vec::new();
        for directory in DIRECTORIES {
            let entries: Vec<_> = files
                .iter()
                .filter(|((d, _), _)| *d == directory)
                .map(|((_, name), (mode, id))| (*mode, *name, *id))
                .collect();
            match directory {
                None => root.extend(entries),
                Some(name) if !entries.is_empty() => {
                    let id = self.tree(&entries);
                    root.push(("40000", name, id));
                }
                Some(_) => {}
            }
        }
        self.tree(&root)
    }

    /// Changes a few entries in the ways in which pushes do.
    fn change(&mut self, files: &mut Files) {
        for _ in 0..=self.dice.below(3) {
            let key = (*self.dice.pick(&DIRECTORIES), *self.dice.pick(&NAMES));
            let entry = match self.dice.below(12) {
                0 => ("160000", self.foreign()),
                1 if !self.trees.is_empty() => ("40000", *self.dice.pick(&self.trees)),
                2 if !self.blobs.is_empty() => ("120000", *self.dice.pick(&self.blobs)),
                3 => {
                    files.remove(&key);
                    continue;
                }
                _ => ("100644", self.blob()),
            };
            files.insert(key, entry);
        }
    }

    fn foreign(&mut self) -> ObjectId {
        let byte = u8::try_from(self.dice.below(200)).unwrap() + 1;
        ObjectId::try_from(&vec![byte; self.hash.len_in_bytes()][..]).unwrap()
    }

    fn commit(&mut self, tree: ObjectId, parents: &[ObjectId], files: Files) -> ObjectId {
        self.date += 10;
        let skewed = self.dice.one_in(6);
        let date = if skewed { self.date - self.dice.below(200) as u64 } else { self.date };
        let id = self.all.put(self.hash, ObjectKind::Commit, commit_bytes(tree, parents, date));
        self.commits.push((id, files));
        id
    }

    /// A commit on one or two of those before the `end`th, or on none.
    fn grow(&mut self, end: usize) -> ObjectId {
        if end == 0 || self.dice.one_in(12) {
            let mut files = Files::new();
            self.change(&mut files);
            let tree = self.root(&files);
            return self.commit(tree, &[], files);
        }
        let near = end.saturating_sub(1 + self.dice.below(3));
        let (parent, mut files) = self.commits[near].clone();
        let mut parents = vec![parent];
        if self.dice.one_in(5) {
            parents.push(self.dice.pick(&self.commits[..end]).0);
        }
        match self.dice.below(8) {
            0 => files = self.dice.pick(&self.commits[..end]).1.clone(),
            1 => {
                // One directory moves onto another.
                let from: Files = files
                    .iter()
                    .filter(|((d, _), _)| *d == Some("d1"))
                    .map(|(k, v)| (*k, *v))
                    .collect();
                for ((_, name), value) in from {
                    files.insert((Some("d3"), name), value);
                }
            }
            _ => self.change(&mut files),
        }
        let tree = self.root(&files);
        self.commit(tree, &parents, files)
    }

    fn tag(&mut self, target: ObjectId) -> ObjectId {
        let kind = self.all.objects[&target].0;
        let name = format!("t{}", self.dice.below(1 << 30));
        let id = self.all.put(self.hash, ObjectKind::Tag, tag_bytes(target, kind, &name));
        self.tags.push(id);
        id
    }

    fn any(&mut self) -> ObjectId {
        match self.dice.below(6) {
            0 if !self.blobs.is_empty() => *self.dice.pick(&self.blobs),
            1 | 2 if !self.trees.is_empty() => *self.dice.pick(&self.trees),
            3 if !self.tags.is_empty() => *self.dice.pick(&self.tags),
            _ => self.dice.pick(&self.commits).0,
        }
    }

    /// An object with one link gone wrong.
    fn twisted(&mut self) -> ObjectId {
        let (a, b) = (self.any(), self.any());
        let (kind, data) = match self.dice.below(3) {
            0 => {
                let entries = [("40000", "x", a), ("100644", "y", b)];
                (ObjectKind::Tree, tree_bytes(&entries))
            }
            1 => {
                let tree = *self.dice.pick(&self.trees);
                (ObjectKind::Commit, commit_bytes(tree, &[a], self.date))
            }
            _ => {
                let kinds =
                    [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag];
                let kind = *self.dice.pick(&kinds);
                (ObjectKind::Tag, tag_bytes(a, kind, "twisted"))
            }
        };
        let id = self.all.put(self.hash, kind, data);
        match kind {
            ObjectKind::Tree => {
                let files = Files::from([((None, "f1"), ("40000", id))]);
                let root = self.tree(&[("40000", "f1", id)]);
                let parent = self.dice.pick(&self.commits).0;
                self.commit(root, &[parent], files)
            }
            _ => id,
        }
    }

    fn reachable(&self, from: &[ObjectId]) -> BTreeSet<ObjectId> {
        let (mut seen, mut todo) = (BTreeSet::new(), from.to_vec());
        while let Some(id) = todo.pop() {
            let Some((kind, data)) = self.all.objects.get(&id) else { continue };
            if seen.insert(id) {
                todo.extend(links(*kind, data, self.hash).map_while(Result::ok).map(|l| l.id));
            }
        }
        seen
    }
}

/// A repository on disk, a push, and what both sides say about it.
struct Case {
    world: World,
    old: Store,
    /// Objects of `old` that lie in an alternate.
    borrowed: BTreeSet<ObjectId>,
    brought: Store,
    visible: Vec<ObjectId>,
    hidden: Vec<ObjectId>,
    tips: Vec<ObjectId>,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut world = World::new(seed);
        for _ in 0..6 + world.dice.below(8) {
            world.grow(world.commits.len());
        }
        let mut visible = vec![world.commits[world.commits.len() - 1].0];
        for _ in 0..world.dice.below(3) {
            let target = world.any();
            visible.push(if world.dice.one_in(3) { world.tag(target) } else { target });
        }
        let kept = world.reachable(&visible);
        // What no visible ref leads to, and what of it has been pruned.
        for _ in 0..world.dice.below(4) {
            let end = world.commits.len();
            world.grow(end);
        }
        if world.dice.one_in(2) {
            let target = world.any();
            world.tag(target);
        }
        let hidden =
            if world.dice.one_in(2) { vec![world.dice.pick(&world.commits).0] } else { vec![] };
        let mut old = world.all.clone();
        let loose: Vec<_> = old.objects.keys().filter(|id| !kept.contains(*id)).copied().collect();
        for _ in 0..world.dice.below(3) {
            if !loose.is_empty() {
                old.objects.remove(world.dice.pick(&loose));
            }
        }
        let before: BTreeSet<_> = world.all.objects.keys().copied().collect();
        let mut tips = Vec::new();
        for _ in 0..=world.dice.below(3) {
            for _ in 0..=world.dice.below(3) {
                let end = world.commits.len();
                world.grow(end);
            }
            let tip = match world.dice.below(10) {
                0 => world.any(),
                1 | 2 => {
                    let target = world.any();
                    world.tag(target)
                }
                3 => world.twisted(),
                _ => world.commits[world.commits.len() - 1].0,
            };
            tips.push(tip);
        }
        let mut brought = world.all.clone();
        brought.objects.retain(|id, _| !before.contains(id));
        // Some objects are sent again, some are forgotten.
        for id in &loose {
            if world.dice.one_in(6) {
                brought.objects.insert(*id, world.all.objects[id].clone());
            }
        }
        if world.dice.one_in(2) && !brought.objects.is_empty() {
            let ids: Vec<_> = brought.objects.keys().copied().collect();
            brought.objects.remove(world.dice.pick(&ids));
        }
        let borrows = world.dice.one_in(3);
        let mut borrowed: BTreeSet<_> = old.objects.keys().copied().collect();
        borrowed.retain(|_| borrows && world.dice.one_in(2));
        Self { world, old, borrowed, brought, visible, hidden, tips }
    }

    /// Writes the repository and the quarantine.
    fn write(&self, dir: &Path) {
        for sub in ["objects/info", "refs/heads", "refs/hidden", "quarantine"] {
            fs::create_dir_all(dir.join(sub)).unwrap();
        }
        fs::write(dir.join("HEAD"), "ref: refs/heads/r0\n").unwrap();
        let format = match self.world.hash {
            HashKind::Sha1 => "repositoryformatversion = 0\n\tbare = true\n",
            _ => {
                "repositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n"
            }
        };
        let config = format!("[core]\n\t{format}[transfer]\n\thideRefs = refs/hidden\n");
        fs::write(dir.join("config"), config).unwrap();
        for (n, id) in self.visible.iter().enumerate() {
            // Branches must be commits to git.
            let kind = if n == 0 { "heads" } else { "tags" };
            fs::create_dir_all(dir.join("refs/tags")).unwrap();
            fs::write(dir.join(format!("refs/{kind}/r{n}")), format!("{id}\n")).unwrap();
        }
        for (n, id) in self.hidden.iter().enumerate() {
            fs::write(dir.join(format!("refs/hidden/r{n}")), format!("{id}\n")).unwrap();
        }
        let (mut own, mut other) = (self.old.clone(), self.old.clone());
        own.objects.retain(|id, _| !self.borrowed.contains(id));
        other.objects.retain(|id, _| self.borrowed.contains(id));
        if !self.borrowed.is_empty() {
            fs::create_dir_all(dir.join("other")).unwrap();
            fs::write(dir.join("objects/info/alternates"), "../other\n").unwrap();
            write_pack(&other, self.world.hash, dir, "other");
        }
        write_pack(&own, self.world.hash, dir, "objects");
        write_pack(&self.brought, self.world.hash, dir, "quarantine");
    }
}

/// Whether git finds these values connected, all together.
fn git_says(dir: &Path, tips: &[ObjectId]) -> bool {
    let args = [
        "rev-list",
        "--objects",
        "--stdin",
        "--quiet",
        "--not",
        "--exclude-hidden=receive",
        "--all",
    ];
    let mut child = git(dir, &args)
        .env("GIT_OBJECT_DIRECTORY", dir.join("quarantine"))
        .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", dir.join("objects"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<_> = tips.iter().map(|tip| format!("{tip}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.concat().as_bytes()).unwrap();
    child.wait().unwrap().success()
}

fn git(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_DIR", dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Writes a pack with all objects and has git index it: quicker than many loose files.
fn write_pack(store: &Store, hash: HashKind, dir: &Path, objects: &str) {
    let count = u32::try_from(store.objects.len()).unwrap();
    let mut pack = [&b"PACK\0\0\0\x02"[..], &count.to_be_bytes()].concat();
    for (kind, data) in store.objects.values() {
        let kind = match kind {
            ObjectKind::Commit => 1,
            ObjectKind::Tree => 2,
            ObjectKind::Blob => 3,
            ObjectKind::Tag => 4u8,
        };
        let mut size = data.len() >> 4;
        let mut byte = kind << 4 | u8::try_from(data.len() & 15).unwrap();
        while size > 0 {
            pack.push(byte | 0x80);
            byte = u8::try_from(size & 0x7f).unwrap();
            size >>= 7;
        }
        pack.push(byte);
        let mut zlib = ZlibEncoder::new(pack, Compression::fast());
        zlib.write_all(data).unwrap();
        pack = zlib.finish().unwrap();
    }
    let trailer = match hash {
        HashKind::Sha1 => sha1::Sha1::digest(&pack).to_vec(),
        _ => sha2::Sha256::digest(&pack).to_vec(),
    };
    pack.extend(trailer);
    let path = dir.join(objects).join("pack/pack-1.pack");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, pack).unwrap();
    let path = path.to_str().unwrap();
    assert!(git(dir, &["index-pack", path]).status().unwrap().success());
}

/// git does not look at the kind of a blob; we do.
fn git_would_not_see(verdict: &Result<(), Missing>) -> bool {
    matches!(verdict, Err(Missing { kind: Some(ObjectKind::Blob), fault: Fault::Kind(_), .. }))
}

/// The verdicts when the objects are read through a snapshot of the repository.
fn on_disk(
    dir: &Path,
    hash: HashKind,
    new: &NewObjects,
    tips: &[ObjectId],
    refs: &mut Refs,
) -> Verdicts {
    let other = Some(dir.join("other")).filter(|other| other.exists());
    let sources = Sources { own: dir.join("objects"), alternates: Vec::from_iter(other) };
    let cache = SnapshotCache::new(Disk::default(), 1 << 20);
    let old = cache.snapshot(&sources, hash).unwrap();
    let brought = LazySource::new(|| Ok(Box::new(old.with_quarantine(&dir.join("quarantine"))?)));
    let connectivity = Connectivity {
        hash,
        new,
        old: &old,
        brought: &brought,
        commit_graph: &|| None,
        shallow: &HashSet::new(),
        metadata_bytes: METADATA_BYTES,
        metadata_memory: &ByteBudget::new(METADATA_BYTES),
        cancel: &CancelToken::new(),
    };
    connectivity.check(tips, refs).unwrap()
}

/// What is accepted is referenced, brought, or reported; what is reported is there. A commit-graph
/// may make the walk meet, and so report, more of what is referenced anyway.
fn check_unreferenced(case: &Case, verdicts: &Verdicts, seed: u64) {
    let kept: HashSet<_> = case.world.reachable(&case.visible).into_iter().collect();
    for id in &verdicts.unreferenced {
        assert!(case.old.objects.contains_key(id), "seed {seed}, {id}");
    }
    let accepted: Vec<_> = case.tips.iter().zip(&verdicts.tips).collect();
    for (tip, _) in accepted.into_iter().filter(|(_, verdict)| verdict.is_ok()) {
        for id in case.world.reachable(&[*tip]) {
            let covered = kept.contains(&id)
                || case.brought.objects.contains_key(&id)
                || verdicts.unreferenced.contains(&id);
            assert!(covered || id.is_empty_tree(), "seed {seed}, {tip}: {id}");
        }
    }
}

/// How many values were connected and how many were not.
fn compare(seeds: std::ops::Range<u64>) -> (usize, usize) {
    let (mut good, mut bad) = (0, 0);
    for seed in seeds {
        let mut case = Case::new(seed);
        let dir = tempfile::tempdir().unwrap();
        case.write(dir.path());
        let mut graph = None;
        if case.world.dice.one_in(4) {
            let write = ["commit-graph", "write", "--reachable"];
            git(dir.path(), &write).status().unwrap();
            // git writes none if a hidden ref is broken.
            let objects = [dir.path().join("objects")];
            let loaded = CommitGraph::load(&Disk::default(), &objects, case.world.hash, 1 << 20);
            graph = loaded.map(Arc::new);
        }
        let known = case.world.dice.below(case.visible.len() + 1);
        let mut push = Push::new(&case.old, &case.brought);
        let has_graph = graph.is_some();
        (push.hash, push.graph) = (case.world.hash, graph);
        push.new = case.brought.new_objects(push.hash);
        let mut refs = Refs::of(&case.visible[..known], &case.visible);
        let together = push.check(&case.tips, &mut refs).unwrap();
        let stored = on_disk(dir.path(), push.hash, &push.new, &case.tips, &mut refs);
        if has_graph {
            // Another order of the walk may find another one of the faults first.
            let judged = |verdicts: &Verdicts| -> Vec<_> {
                verdicts.tips.iter().map(Result::is_ok).collect()
            };
            assert_eq!(judged(&stored), judged(&together), "seed {seed}");
        } else {
            assert_eq!(stored, together, "seed {seed}");
        }
        let mut connected = Vec::new();
        for (tip, verdict) in case.tips.iter().zip(&together.tips) {
            let alone = push.judge(*tip, &mut refs).0;
            assert_eq!(alone.is_ok(), verdict.is_ok(), "seed {seed}, {tip}");
            if verdict.is_ok() {
                connected.push(*tip);
            } else if !git_would_not_see(verdict) {
                let git = git_says(dir.path(), &[*tip]);
                assert!(!git, "seed {seed}, {tip}: git says yes, we say {verdict:?}");
                bad += 1;
            }
        }
        assert!(git_says(dir.path(), &connected), "seed {seed}, {connected:?}");
        good += connected.len();
        for verdicts in [&together, &stored] {
            check_unreferenced(&case, verdicts, seed);
        }
    }
    (good, bad)
}

/// Compares a quarter of the pushes; `PACKHOUSE_CONNECTIVITY_PUSHES` tells how many they are.
fn compare_quarter(number: u64) {
    let pushes = std::env::var("PACKHOUSE_CONNECTIVITY_PUSHES");
    let pushes = pushes.map_or(400, |count| count.parse().unwrap());
    let first = 1 + number * pushes / 4;
    let (good, bad) = compare(first..first + pushes / 4);
    println!("{good} values are connected, {bad} are not");
    assert!(good > 30 && bad > 30, "{good} {bad}");
}

#[test]
fn git_and_we_agree_on_a_quarter_of_the_pushes() {
    compare_quarter(0);
}

#[test]
fn git_and_we_agree_on_a_second_quarter() {
    compare_quarter(1);
}

#[test]
fn git_and_we_agree_on_a_third_quarter() {
    compare_quarter(2);
}

#[test]
fn git_and_we_agree_on_the_last_quarter() {
    compare_quarter(3);
}
