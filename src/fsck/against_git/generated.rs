//! Objects put together at random from what matters to the rules.

use super::{FsckOptions, HASHES, World, corpus, entry};
use crate::fsck::{Fsck, SpecialBlobs, SpecialContent, SpecialRoles};
use crate::model::{HashKind, ObjectId, ObjectKind};
use proptest::prelude::*;
use std::sync::LazyLock;

/// Numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.roll(all.len())]
    }

    /// Up to `most` pieces, one after the other.
    fn text(&mut self, pieces: &[&str], most: usize) -> String {
        let count = self.roll(most + 1);
        (0..count).map(|_| self.pick(pieces)).collect()
    }

    fn break_a_little(&mut self, mut data: Vec<u8>) -> Vec<u8> {
        if data.is_empty() || self.roll(2) == 0 {
            return data;
        }
        for _ in 0..=self.roll(2) {
            let at = self.roll(data.len());
            match self.roll(3) {
                0 => data[at] = b"\n \0<>01-+:%/.~x"[self.roll(15)],
                1 => _ = data.remove(at),
                _ => data.insert(at, b"\n \0<>01-+:%/.~x"[self.roll(15)]),
            }
            if data.is_empty() {
                break;
            }
        }
        data
    }
}

const MODES: &[&str] = &[
    "100644", "100644", "100644", "40000", "40000", "120000", "160000", "100755", "040000",
    "100664", "100600",
];
const NAMES: &[&str] = &[
    "a",
    "b",
    "-",
    ".",
    "/",
    "\\",
    ".git",
    "git~1",
    "gitmod~1",
    ".gitmodules",
    ".gitattributes",
    ".mailmap",
    "gi7eba~1",
    "~1000000",
    " ",
    ":",
    "\u{200c}",
    "\u{feff}",
    ".GitIgnore",
    "0",
];
const URL_PIECES: &[&str] = &[
    "-", ".", "./", "../", "..", "/", "//", ":", "::", "://", "https", "http", "ftp", "git",
    "file", "h", "@", "%0a", "%2e", "%", "%25", "?", "#", "80", "0", "[::1]", "a", "\\\\", "\\n",
    "_",
];
const CONFIG_PIECES: &[&str] = &[
    "[submodule \"a\"]",
    "[submodule \"..\"]",
    "[submodule ",
    "\n",
    "\n",
    " ",
    "\t",
    "\r\n",
    "\r",
    "\"",
    "\\",
    "#",
    ";",
    "=",
    "[",
    "]",
    "url = -x\n",
    "url",
    "path",
    "update=!",
    "-y",
    "\\n",
    "a",
    ".",
    "\n[submodule.b]\n",
    "=-z\n",
];
const LINES: &[&str] = &[
    "author ",
    "committer ",
    "parent ",
    "A <a> 1 +0000",
    "A ",
    "<a>",
    " 1",
    " +0000",
    " 0",
    "<",
    ">",
    "\n",
    "\n",
    "x y",
    "99999999999999999999",
    "author A <a> 1 +0000\n",
    "committer A <a> 1 +0000\n",
    "tagger A <a> 1 +0000\n",
];

#[test]
fn generated_objects_are_judged_as_by_git() {
    for (seed, (hash, format)) in (1..).zip(HASHES) {
        let mut world = World::new(hash, format);
        let mut dice = Dice(seed);
        let blob = world.store(ObjectKind::Blob, b"");
        let tree = world.store(ObjectKind::Tree, b"");
        let trees: Vec<_> = (0..250).map(|_| some_tree(&mut dice, &blob)).collect();
        world.store_all(ObjectKind::Tree, &trees);
        let blobs: Vec<_> = (0..250).map(|_| some_gitmodules(&mut dice)).collect();
        let named: Vec<_> = world
            .store_all(ObjectKind::Blob, &blobs)
            .iter()
            .map(|id| entry("100644", b".gitmodules", id))
            .collect();
        world.store_all(ObjectKind::Tree, &named);
        let mut some_lines = |head: &str, most| {
            let data = format!("{head}{}", dice.text(LINES, most)).into_bytes();
            dice.break_a_little(data)
        };
        let commits: Vec<_> = (0..150).map(|_| some_lines(&format!("tree {tree}\n"), 9)).collect();
        world.store_all(ObjectKind::Commit, &commits);
        // The other blob passes for a tree in some trees, and then git cannot parse its tags.
        let tagged = world.store(ObjectKind::Blob, b"tagged");
        let head = format!("object {tagged}\ntype blob\ntag ");
        let tags: Vec<_> = (0..100).map(|_| some_lines(&head, 7)).collect();
        world.store_all(ObjectKind::Tag, &tags);
        let (compared, _) = world.compare();
        println!("{format}: {compared} generated objects agree");
        assert!(compared > 700, "{compared}");
    }
}

fn some_tree(dice: &mut Dice, blob: &ObjectId) -> Vec<u8> {
    let mut entries: Vec<(String, &str)> =
        (0..=dice.roll(5)).map(|_| (dice.text(NAMES, 3), dice.pick(MODES))).collect();
    entries.retain(|(name, _)| !name.is_empty());
    if dice.roll(3) > 0 {
        entries.sort_by_key(|(name, mode)| {
            if mode.ends_with("40000") { format!("{name}/") } else { name.clone() }
        });
    }
    let data = entries.iter().flat_map(|(name, mode)| entry(mode, name.as_bytes(), blob)).collect();
    if dice.roll(4) == 0 { dice.break_a_little(data) } else { data }
}

fn some_gitmodules(dice: &mut Dice) -> Vec<u8> {
    let text = match dice.roll(2) {
        0 => format!("[submodule \"a\"]\nurl = \"{}\"\n", dice.text(URL_PIECES, 9)),
        _ => dice.text(CONFIG_PIECES, 12),
    };
    // git's lines would end within a text.
    text.replace("\\n", "").into_bytes()
}

/// What random bytes are put behind.
static STARTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let blob = ObjectId::empty_blob(HashKind::Sha1);
    let objects = [
        corpus::trees(&blob),
        corpus::commits(&blob),
        corpus::tags(&blob),
        corpus::gitmodules(),
        corpus::gitattributes(),
    ];
    objects.concat()
});

proptest! {
    #[test]
    fn no_bytes_make_a_check_panic(
        data in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
    ) {
        let blob = ObjectId::empty_blob(HashKind::Sha1);
        let mut bytes = at.get(&STARTS[..]).clone();
        bytes.truncate(at.index(bytes.len() + 1));
        bytes.extend_from_slice(&data);
        let fsck = Fsck::new(FsckOptions::strict(HashKind::Sha1));
        let mut count = 0usize;
        for kind in [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Tag] {
            fsck.check(kind, &blob, &bytes, &mut SpecialBlobs::new(), &mut |_| count += 1);
        }
        let roles = SpecialRoles { gitmodules: true, gitattributes: true };
        fsck.check_special(&blob, roles, SpecialContent::Blob(&bytes), &mut |_| count += 1);
        prop_assert!(count < 40 + bytes.len());
    }
}
