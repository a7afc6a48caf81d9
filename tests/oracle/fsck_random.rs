//! Pushes drawn at random, good and bad, to repositories that ask for fsck in ways drawn at random.

use super::scenarios::{configure, scenario, store};
use super::{Observation, Scenario, Variant, observe};
use crate::support::objects::{Object, ZERO, blob, commit, entry, pack, ref_delta, tree};
use crate::support::request::Request;
use std::fs;
use std::path::Path;

/// Pushes that are compared; `PACKHOUSE_FSCK_PUSHES` asks for another number.
const PUSHES: u64 = 60;

#[test]
fn random_pushes_are_judged_by_fsck_as_by_stock_git() {
    let pushes =
        std::env::var("PACKHOUSE_FSCK_PUSHES").ok().and_then(|n| n.parse().ok()).unwrap_or(PUSHES);
    let next = std::sync::atomic::AtomicU64::new(0);
    let tally = std::sync::Mutex::new((Vec::new(), [0u32; 3]));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= pushes {
                        break;
                    }
                    let drawn = draw(seed);
                    for unpack_limit in [1, 100] {
                        let (fault, kind) = compare(
                            &drawn,
                            Variant { unpack_limit, hooks: false, ref_format: "files" },
                        );
                        let mut tally = tally.lock().unwrap();
                        tally.0.extend(fault.map(|fault| format!("--- push {seed}\n{fault}")));
                        tally.1[kind] += 1;
                    }
                }
            });
        }
    });
    let (faults, [silent, warned, refused]) = tally.into_inner().unwrap();
    println!("{silent} pushes taken in silence, {warned} with a warning, {refused} refused");
    assert!(faults.is_empty(), "{} differences\n{}", faults.len(), faults.join("\n"));
    assert!(silent > 0 && warned > 0 && refused > 0);
}

/// What differs, and whether the push was taken in silence, with a word, or not.
fn compare(scenario: &Scenario, variant: Variant) -> (Option<String>, usize) {
    let git = observe::run(scenario, variant, &["git", "receive-pack"]);
    let ours = observe::run(scenario, variant, &[env!("CARGO_BIN_EXE_packhouse"), "receive-pack"]);
    let kind = match (is_taken(&git), git.answer.messages.is_empty()) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    };
    let said = |seen: &Observation| {
        let mut lines: Vec<String> = seen.answer.messages.lines().map(Into::into).collect();
        if is_taken(seen) {
            // What connectivity says has words of its own.
            lines.retain(|line| line.contains(": object "));
        }
        // The order in which git looks at what it unpacks, and in which threads make deltas, and
        // where it stops, is its own.
        lines.sort_unstable();
        lines
    };
    let (theirs, own) = (said(&git), said(&ours));
    // Of several faults each may tell of another one first, as long as git knows it, too.
    let agree = if is_taken(&git) { theirs == own } else { theirs.is_empty() == own.is_empty() };
    let differs = !agree
        || git.answer.report != ours.answer.report
        || git.refs != ours.refs
        || git.objects != ours.objects;
    let unsound = observe::unsound(&git, &ours);
    let fault = (differs || unsound.is_some()).then(|| {
        let (theirs, own) = (&git.answer, &ours.answer);
        let unsound = unsound.unwrap_or_default();
        format!("{} ({variant:?})\n  git:  {theirs:?}\n  ours: {own:?}\n{unsound}", scenario.name)
    });
    (fault, kind)
}

fn is_taken(seen: &Observation) -> bool {
    seen.answer.report.iter().any(|line| line == "unpack ok")
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at + 1));
        }
    }
}

/// Names, modes and contents that mean something to fsck, and plain ones, which are drawn oftener.
const NAMES: [&str; 20] = [
    "a",
    "b",
    "a.b",
    "a-b",
    "a0",
    ".git",
    ".GIT",
    "git~1",
    ".gi\u{200c}t",
    "..",
    "a/b",
    ".gitmodules",
    ".GitModules",
    "gitmod~1",
    "GI7EBA~1",
    ".gitmodule\u{200d}s",
    ".gitattributes",
    "gitatt~1",
    ".gitignore",
    ".mailmap",
];
const MODULES: [&str; 12] = [
    "[submodule \"a\"]\n\turl = a\n",
    "[submodule \"a\"]\n\turl = -x\n",
    "[submodule \"../a\"]\n\turl = a\n",
    "[submodule \"a\"]\n\tpath = -x\n",
    "[submodule \"a\"]\n\tupdate = !x\n",
    "[submodule \"a\"]\n\turl = \"http://a/%0ab\"\n",
    "[submodule \"a\"]\n\turl = ./../../:x\n",
    "[submodule \"a\"\n",
    "",
    "* text\n",
    "plain text\n",
    "[x]\n",
];
const LEVELS: [&str; 3] = ["ignore", "warn", "error"];
const IDS: [&str; 18] = [
    "badTree",
    "badFilemode",
    "duplicateEntries",
    "treeNotSorted",
    "hasDotgit",
    "hasDotdot",
    "fullPathname",
    "nullSha1",
    "zeroPaddedFilemode",
    "missingEmail",
    "zeroPaddedDate",
    "gitmodulesUrl",
    "gitmodulesName",
    "gitmodulesPath",
    "gitmodulesParse",
    "gitmodulesSymlink",
    "gitmodulesBlob",
    "gitattributesSymlink",
];

fn content(draw: &mut Draw) -> Object {
    if draw.one_in(12) {
        blob(format!("{} x\n", "y".repeat(2100)))
    } else {
        blob(draw.of(&MODULES))
    }
}

/// A tree whose entries are mostly in order.
fn draw_tree(draw: &mut Draw, files: &[Object], directories: &[Object]) -> Object {
    let mut entries: Vec<(&str, &str, String)> = (0..=draw.below(4))
        .map(|_| {
            let name = if draw.one_in(5) { draw.of(&NAMES) } else { draw.of(&NAMES[..5]) };
            let directory = draw.one_in(4).then(|| directories.get(draw.below(3))).flatten();
            let (mode, id) = match directory {
                Some(directory) => ("40000", directory.id()),
                None if draw.one_in(12) => ("160000", "1".repeat(40)),
                None => (
                    if draw.one_in(8) {
                        draw.of(&["120000", "100664", "0100644", "100600"])
                    } else {
                        draw.of(&["100644", "100755"])
                    },
                    files[draw.below(files.len())].id(),
                ),
            };
            (mode, name, id)
        })
        .collect();
    // Where a gitlink stands for a special file what git does is left to chance.
    entries.retain(|(mode, name, _)| *mode != "160000" || NAMES[..5].contains(name));
    if !draw.one_in(12) {
        entries.sort_by_key(|(mode, name, _)| {
            format!("{name}{}", if *mode == "40000" { "/" } else { "" })
        });
        if !draw.one_in(12) {
            entries.dedup_by_key(|(_, name, _)| *name);
        }
    }
    let entries: Vec<_> = entries.iter().map(|(mode, name, id)| (*mode, *name, &id[..])).collect();
    tree(&entries)
}

fn draw_commit(draw: &mut Draw, root: &Object, parents: &[&str]) -> Object {
    let mut made = commit(&root.id(), parents, "m");
    if draw.one_in(10) {
        let text = String::from_utf8(made.data).unwrap();
        let author = "author a <a@b> 1700000000 +0000";
        let bad = draw.of(&["author a a@b 1 +0000", "author a <a@b> 01 +0000", "author <a> x"]);
        made.data = text.replace(author, bad).into_bytes();
    }
    made
}

/// A history of a few commits, some of whose objects are in the repository already.
fn draw(seed: u64) -> Scenario {
    let mut draw = Draw(seed);
    let files: Vec<Object> = (0..3).map(|_| content(&mut draw)).collect();
    let mut directories = Vec::new();
    for _ in 0..draw.below(3) {
        directories.push(draw_tree(&mut draw, &files, &directories.clone()));
    }
    let mut sent: Vec<Object> = files.iter().chain(&directories).cloned().collect();
    let mut tip = ZERO.to_owned();
    for _ in 0..=draw.below(3) {
        let root = draw_tree(&mut draw, &files, &directories);
        let parents = if tip == ZERO { vec![] } else { vec![&tip[..]] };
        let made = draw_commit(&mut draw, &root, &parents);
        tip = made.id();
        sent.extend([root, made]);
    }
    sent.sort_by_key(Object::id);
    sent.dedup_by_key(|object| object.id());
    draw.shuffle(&mut sent);
    let mut there = Vec::new();
    if draw.one_in(2) {
        // Some were sent before, and some of those are left out now, or were never sent.
        there = sent.iter().filter(|_| draw.one_in(3)).cloned().collect();
        let left_out: Vec<_> = sent.iter().filter(|_| draw.one_in(4)).map(Object::id).collect();
        let is_there: Vec<_> = there.iter().map(Object::id).collect();
        sent.retain(|o| !left_out.contains(&o.id()) || !is_there.contains(&o.id()));
        if draw.one_in(4) {
            sent.pop();
        }
    }
    let entries = entries(&mut draw, &sent, &there);
    let mut settings: Vec<(String, String)> = vec![("receive.fsckObjects".into(), "true".into())];
    for _ in 0..draw.below(5) {
        let key = format!("receive.fsck.{}", draw.of(&IDS));
        settings.push((key, draw.of(&LEVELS).to_owned()));
    }
    let skipped: String =
        sent.iter().filter(|_| draw.one_in(8)).map(|object| object.id() + "\n").collect();
    let has_list = draw.one_in(3);
    let name = format!("settings {settings:?}, {} sent, {} there", sent.len(), there.len());
    let prepare = move |repository: &Path| {
        for (key, value) in &settings {
            configure(repository, key, value);
        }
        if has_list {
            configure(repository, "receive.fsck.skipList", "list");
            fs::write(repository.join("list"), &skipped).unwrap();
        }
        store(repository, &there.iter().collect::<Vec<_>>());
    };
    let request = Request::new().command(ZERO, &tip, "refs/heads/x").pack(pack(&entries)).bytes();
    scenario(name, prepare, move |_| request.clone())
}

/// The objects as entries of a pack, some as deltas of others or of what is there.
fn entries(draw: &mut Draw, sent: &[Object], there: &[Object]) -> Vec<Vec<u8>> {
    let mut made: Vec<Vec<u8>> = Vec::new();
    // git takes no delta against an object that comes twice over, here and in the pack.
    let comes = |base: &&Object| sent.iter().all(|object| object.id() != base.id());
    let mut bases: Vec<&Object> = there.iter().filter(comes).collect();
    for object in sent {
        let base = bases.iter().rev().find(|base| base.kind == object.kind);
        // A delta of a few bytes is none.
        match base.filter(|_| object.data.len() > 4).filter(|_| draw.one_in(3)) {
            Some(base) => made.push(ref_delta(&base.id(), &base.data, &object.data)),
            None => made.push(entry(object)),
        }
        bases.push(object);
    }
    made
}
