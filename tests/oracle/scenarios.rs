//! The pushes.

use super::Scenario;
use super::accepted::Accepted::{
    self, Advice, AtomicIsAtomic, Diagnostics, FatalInWords, KindsMatch, LostRace, StoredAgain,
    TrailingBytes, UnpackReason,
};
use super::observe::write_hook;
use crate::support::git;
use crate::support::objects::{
    Object, Snapshot, ZERO, blob, commit, entry, entry_header, ofs_delta, pack, pack_claiming,
    ref_delta, tag, thin_pack, tree, two_commits,
};
use crate::support::request::{Request, pkt};
use std::fs;
use std::path::Path;

const UNPACK: &[Accepted] = &[UnpackReason, Diagnostics];

pub fn scenario(
    name: impl Into<String>,
    prepare: impl Fn(&Path) + Send + Sync + 'static,
    request: impl Fn(&Path) -> Vec<u8> + Send + Sync + 'static,
) -> Scenario {
    Scenario {
        name: name.into(),
        prepare: Box::new(prepare),
        request: Box::new(request),
        accepted: &[],
        banded: true,
        diagnosed: false,
        sound: false,
    }
}

impl Scenario {
    pub fn accepting(self, accepted: &'static [Accepted]) -> Self {
        Self { accepted, ..self }
    }

    pub fn plain(self) -> Self {
        Self { banded: false, ..self }
    }

    pub fn diagnosed(self) -> Self {
        Self { diagnosed: true, ..self }
    }

    pub fn sound(self) -> Self {
        Self { sound: true, ..self }
    }
}

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    [creations(), updates(), deletions(), names(), packs(), broken_packs(), connectivity()]
        .into_iter()
        .chain([requests(), policies(), hooks(), stores(), super::transactions::all()])
        .chain([super::proc_receive::all(), super::certificates::all()])
        .chain([super::work_trees::all(), super::lost_race::all()])
        .flatten()
        .collect()
}

pub fn empty(_: &Path) {}

/// `refs/heads/main` at the first of the two commits, its objects loose.
pub fn seeded(repository: &Path) {
    let (first, _) = two_commits();
    store(repository, &[&first.blob, &first.tree, &first.commit]);
    git::run(repository, &["update-ref", "refs/heads/main", &first.id()]);
}

/// As [`seeded`], with the objects packed and the ref in packed-refs.
pub fn seeded_and_packed(repository: &Path) {
    seeded(repository);
    git::run(repository, &["repack", "-adq"]);
    git::run(repository, &["pack-refs", "--all"]);
}

/// Both commits, the second reachable from `refs/heads/next`.
fn seeded_with_both(repository: &Path) {
    seeded(repository);
    let (_, second) = two_commits();
    store(repository, &[&second.blob, &second.tree, &second.commit]);
    git::run(repository, &["update-ref", "refs/heads/next", &second.id()]);
}

pub fn store(repository: &Path, objects: &[&Object]) {
    for object in objects {
        let arguments = ["hash-object", "-w", "--literally", "-t", object.kind, "--stdin"];
        git::run_with_input(repository, &arguments, &object.data);
    }
}

pub fn configure(repository: &Path, key: &str, value: &str) {
    git::run(repository, &["config", "--add", key, value]);
}

pub fn first() -> Snapshot {
    two_commits().0
}

pub fn second() -> Snapshot {
    two_commits().1
}

/// The second commit on top of the seeded first, to `refs/heads/main`.
pub fn ordinary() -> Request {
    Request::new().command(&first().id(), &second().id(), "refs/heads/main").pack(second().pack())
}

pub fn creations() -> Vec<Scenario> {
    vec![
        scenario("the first branch of an empty repository", empty, |_| {
            Request::new()
                .command(ZERO, &first().id(), "refs/heads/main")
                .pack(first().pack())
                .bytes()
        }),
        scenario("the first branch is not where HEAD points", empty, |_| {
            Request::new().command(ZERO, &first().id(), "refs/heads/x").pack(first().pack()).bytes()
        }),
        scenario("a branch at an old commit, with an empty pack", seeded, |_| {
            Request::new().command(ZERO, &first().id(), "refs/heads/b").pack(pack(&[])).bytes()
        }),
        scenario("a lightweight tag", seeded, |_| {
            Request::new().command(ZERO, &first().id(), "refs/tags/v1").pack(pack(&[])).bytes()
        }),
        scenario("an annotated tag", seeded, |_| {
            let tag = tag(&first().id(), "commit", "v1");
            Request::new()
                .command(ZERO, &tag.id(), "refs/tags/v1")
                .pack(pack(&[entry(&tag)]))
                .bytes()
        }),
        scenario("a tag of a blob", empty, |_| {
            let blob = blob("just a blob\n");
            Request::new()
                .command(ZERO, &blob.id(), "refs/tags/blob")
                .pack(pack(&[entry(&blob)]))
                .bytes()
        }),
        scenario("a tag of a tree", seeded, |_| {
            Request::new()
                .command(ZERO, &first().tree.id(), "refs/tags/tree")
                .pack(pack(&[]))
                .bytes()
        }),
        scenario("a branch at a blob", empty, |_| {
            let blob = blob("no commit\n");
            Request::new()
                .command(ZERO, &blob.id(), "refs/heads/blob")
                .pack(pack(&[entry(&blob)]))
                .bytes()
        }),
        scenario("a branch at an annotated tag", seeded, |_| {
            let tag = tag(&first().id(), "commit", "v1");
            Request::new()
                .command(ZERO, &tag.id(), "refs/heads/tag")
                .pack(pack(&[entry(&tag)]))
                .bytes()
        }),
        scenario("a ref that is there, with the same value", seeded, |_| {
            Request::new().command(ZERO, &first().id(), "refs/heads/main").pack(pack(&[])).bytes()
        }),
        scenario("a ref that is there, with another value", seeded, |_| {
            Request::new()
                .command(ZERO, &second().id(), "refs/heads/main")
                .pack(second().pack())
                .bytes()
        })
        .accepting(&[LostRace]),
        scenario("a ref that is packed, with another value", seeded_and_packed, |_| {
            Request::new()
                .command(ZERO, &second().id(), "refs/heads/main")
                .pack(second().pack())
                .bytes()
        })
        .accepting(&[LostRace]),
        scenario("a ref below a ref", seeded, |_| {
            Request::new().command(ZERO, &first().id(), "refs/heads/main/x").pack(pack(&[])).bytes()
        }),
        scenario("a ref below a packed ref", seeded_and_packed, |_| {
            Request::new().command(ZERO, &first().id(), "refs/heads/main/x").pack(pack(&[])).bytes()
        }),
        scenario("a ref above a packed ref", seeded_and_packed, |_| {
            Request::new().command(ZERO, &first().id(), "refs/heads/m").pack(pack(&[])).bytes()
        }),
        scenario("two refs, one below the other, in one push", seeded, |_| {
            Request::new()
                .command(ZERO, &first().id(), "refs/heads/q")
                .command(ZERO, &first().id(), "refs/heads/q/x")
                .pack(pack(&[]))
                .bytes()
        }),
        scenario("two commands for one ref", seeded_with_both, |_| {
            Request::new()
                .command(ZERO, &first().id(), "refs/heads/foo")
                .command(ZERO, &second().id(), "refs/heads/foo")
                .pack(pack(&[]))
                .bytes()
        }),
        scenario("four hundred refs at once", seeded, |_| {
            let mut request = Request::new();
            for number in 0..400 {
                request = request.command(ZERO, &first().id(), format!("refs/tags/t{number}"));
            }
            request.pack(pack(&[])).bytes()
        }),
    ]
}

pub fn updates() -> Vec<Scenario> {
    vec![
        scenario("a fast-forward", seeded, |_| ordinary().bytes()),
        scenario("a fast-forward of a packed ref", seeded_and_packed, |_| ordinary().bytes()),
        scenario("a rewind", seeded_with_both, |_| {
            Request::new()
                .command(&second().id(), &first().id(), "refs/heads/next")
                .pack(pack(&[]))
                .bytes()
        }),
        scenario("an update to the value that is there", seeded, |_| {
            Request::new()
                .command(&first().id(), &first().id(), "refs/heads/main")
                .pack(pack(&[]))
                .bytes()
        }),
        scenario("a wrong old value", seeded, |_| {
            Request::new()
                .command(&"1".repeat(40), &second().id(), "refs/heads/main")
                .pack(second().pack())
                .bytes()
        })
        .accepting(&[LostRace]),
        scenario("an update of a ref that is not there", seeded, |_| {
            Request::new()
                .command(&first().id(), &second().id(), "refs/heads/none")
                .pack(second().pack())
                .bytes()
        })
        .accepting(&[LostRace]),
        scenario("one of two refs has a wrong old value", seeded_with_both, |_| {
            Request::new()
                .command(&"1".repeat(40), &second().id(), "refs/heads/main")
                .command(ZERO, &second().id(), "refs/heads/new")
                .pack(pack(&[]))
                .bytes()
        }),
        scenario("atomic, all good", seeded, |_| {
            atomic(&[(&first().id(), "refs/heads/main"), (ZERO, "refs/heads/new")])
        }),
        scenario("atomic, one wrong old value", seeded, |_| {
            atomic(&[(ZERO, "refs/heads/new"), (&"1".repeat(40), "refs/heads/main")])
        })
        .accepting(&[LostRace]),
        scenario("atomic, a ref below another", seeded, |_| {
            atomic(&[(ZERO, "refs/heads/q"), (ZERO, "refs/heads/q/x")])
        }),
        scenario("atomic, a ref below one that is there", seeded, |_| {
            atomic(&[(ZERO, "refs/heads/main/x"), (ZERO, "refs/heads/y")])
        }),
        scenario("atomic, a funny name", seeded, |_| {
            atomic(&[(ZERO, "refs/heads/a"), (ZERO, "refs/heads/b..c"), (ZERO, "refs/heads/d")])
        }),
        scenario("atomic, one command for two of one ref", seeded, |_| {
            atomic(&[(ZERO, "refs/heads/twice"), (ZERO, "refs/heads/twice")])
        })
        .accepting(&[Diagnostics]),
        scenario("a symref and its target, the same change", aliased, |_| {
            Request::new()
                .command(&first().id(), &second().id(), "refs/heads/alias")
                .command(&first().id(), &second().id(), "refs/heads/main")
                .pack(second().pack())
                .bytes()
        }),
        scenario("a symref alone", aliased, |_| {
            Request::new()
                .command(&first().id(), &second().id(), "refs/heads/alias")
                .pack(second().pack())
                .bytes()
        }),
        scenario("a symref and its target, different changes", aliased, |_| {
            Request::new()
                .command(&first().id(), &second().id(), "refs/heads/alias")
                .command(&first().id(), ZERO, "refs/heads/main")
                .pack(second().pack())
                .bytes()
        }),
        scenario("a symref that leads nowhere", dangling, |_| {
            Request::new()
                .command(ZERO, &second().id(), "refs/heads/alias")
                .pack(second().pack())
                .bytes()
        }),
    ]
}

fn atomic(commands: &[(&str, &str)]) -> Vec<u8> {
    let mut request = Request::new().capabilities("report-status side-band-64k atomic");
    for (old, name) in commands {
        request = request.command(old, &second().id(), name);
    }
    request.pack(second().pack()).bytes()
}

fn aliased(repository: &Path) {
    seeded(repository);
    git::run(repository, &["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
}

fn dangling(repository: &Path) {
    seeded(repository);
    git::run(repository, &["symbolic-ref", "refs/heads/alias", "refs/heads/none"]);
}

pub fn deletions() -> Vec<Scenario> {
    vec![
        scenario("of a branch", seeded_with_both, |_| {
            Request::new().command(&second().id(), ZERO, "refs/heads/next").bytes()
        }),
        scenario(
            "of a packed branch",
            |repository| {
                seeded_with_both(repository);
                git::run(repository, &["pack-refs", "--all"]);
            },
            |_| Request::new().command(&second().id(), ZERO, "refs/heads/next").bytes(),
        ),
        scenario("of several", several_branches, |_| {
            Request::new()
                .command(&first().id(), ZERO, "refs/heads/a/b/c")
                .command(&first().id(), ZERO, "refs/heads/a/d")
                .command(&first().id(), ZERO, "refs/tags/t")
                .bytes()
        }),
        scenario("of a ref that is not there, old value null", seeded, |_| {
            Request::new().command(ZERO, ZERO, "refs/heads/none").bytes()
        }),
        scenario("of a ref that is not there, with an old value", seeded, |_| {
            Request::new().command(&first().id(), ZERO, "refs/heads/none").bytes()
        }),
        scenario("with a wrong old value", seeded_with_both, |_| {
            Request::new().command(&first().id(), ZERO, "refs/heads/next").bytes()
        }),
        scenario("with a null old value of a ref that is there", seeded_with_both, |_| {
            Request::new().command(ZERO, ZERO, "refs/heads/next").bytes()
        }),
        scenario("beside a creation in its place", several_branches, |_| {
            Request::new()
                .command(&first().id(), ZERO, "refs/heads/a/d")
                .command(&first().id(), ZERO, "refs/heads/a/b/c")
                .command(ZERO, &first().id(), "refs/heads/a")
                .pack(pack(&[]))
                .bytes()
        }),
        scenario("after a creation in its place", several_branches, |_| {
            Request::new()
                .command(ZERO, &first().id(), "refs/heads/a/d/x")
                .command(&first().id(), ZERO, "refs/heads/a/d")
                .pack(pack(&[]))
                .bytes()
        }),
        scenario("of HEAD's branch", seeded, |_| {
            Request::new().command(&first().id(), ZERO, "refs/heads/main").bytes()
        })
        .accepting(&[Advice]),
        scenario(
            "of HEAD's branch, allowed",
            |repository| {
                seeded(repository);
                configure(repository, "receive.denyDeleteCurrent", "ignore");
            },
            |_| Request::new().command(&first().id(), ZERO, "refs/heads/main").bytes(),
        ),
        scenario(
            "of HEAD's branch, with a warning",
            |repository| {
                seeded(repository);
                configure(repository, "receive.denyDeleteCurrent", "warn");
            },
            |_| Request::new().command(&first().id(), ZERO, "refs/heads/main").bytes(),
        ),
        scenario(
            "of a one-level ref",
            |repository| {
                seeded(repository);
                git::run(repository, &["update-ref", "refs/onelevel", &first().id()]);
            },
            |_| Request::new().command(&first().id(), ZERO, "refs/onelevel").bytes(),
        ),
        scenario(
            "of a ref whose object is missing",
            |repository| {
                seeded(repository);
                fs::write(repository.join("refs/heads/lost"), format!("{}\n", "1".repeat(40)))
                    .unwrap();
            },
            |_| Request::new().command(&"1".repeat(40), ZERO, "refs/heads/lost").bytes(),
        ),
    ]
}

fn several_branches(repository: &Path) {
    seeded(repository);
    for name in ["refs/heads/a/b/c", "refs/heads/a/d", "refs/tags/t"] {
        git::run(repository, &["update-ref", name, &first().id()]);
    }
    git::run(repository, &["pack-refs", "--include", "refs/heads/a/b/*"]);
}

pub fn names() -> Vec<Scenario> {
    vec![
        scenario("funny ones", seeded, |_| {
            let names = [
                "HEAD",
                "refs/foo",
                "refs/heads/a..b",
                "refs/heads/x.lock",
                "refs/heads/@{",
                "refs/heads/a b",
                "refs/heads/../x",
                "refs/heads/.x",
                "refs/heads/x.",
                "refs/heads/a~1",
                "refs/heads/a^",
                "refs/heads/a:b",
                "refs/heads/a?",
                "heads/x",
                "refs/heads//x",
                "refs/heads/x/",
                "../x",
            ];
            named(&names)
        }),
        scenario("odd ones that are good", seeded, |_| {
            named(&[
                "refs/heads/-h",
                "refs/heads/HEAD",
                "refs/heads/$(touch${IFS}x)",
                "refs/heads/;id",
                "refs/heads/--output=x",
                "refs/heads/дом—x",
                "refs/notes/commits",
                "refs/wip/a",
                "refs/for/main",
                "refs/heads/a@b",
                "refs/heads/{x}",
                "refs/heads/\"x\"",
            ])
        }),
        scenario("a very long one", seeded, |_| {
            named(&[&format!("refs/heads/{}", ["x".repeat(200), "y".repeat(200)].join("/"))])
        }),
        scenario("one that is too long for a file", seeded, |_| {
            named(&[&format!("refs/heads/{}", "x".repeat(300))])
        })
        .accepting(&[Diagnostics]),
        scenario("bytes that are not UTF-8", seeded, |_| {
            Request::new()
                .command(ZERO, &first().id(), b"refs/heads/\xff\xfe")
                .pack(pack(&[]))
                .bytes()
        }),
    ]
}

fn named(names: &[&str]) -> Vec<u8> {
    let mut request = Request::new();
    for name in names {
        request = request.command(ZERO, &first().id(), name);
    }
    request.pack(pack(&[])).bytes()
}

fn to_main(pack: Vec<u8>) -> Vec<u8> {
    Request::new().command(&first().id(), &second().id(), "refs/heads/main").pack(pack).bytes()
}

fn packs() -> Vec<Scenario> {
    vec![
        scenario("thin, the base loose", seeded, |_| to_main(thin_pack(&first(), &second()))),
        scenario("thin, the base packed", seeded_and_packed, |_| {
            to_main(thin_pack(&first(), &second()))
        }),
        scenario("a delta before its base", empty, |_| {
            let (one, two) = two_commits();
            Request::new()
                .command(ZERO, &two.id(), "refs/heads/main")
                .pack(pack(&[
                    ref_delta(&one.blob.id(), &one.blob.data, &two.blob.data),
                    entry(&one.blob),
                    entry(&one.tree),
                    entry(&one.commit),
                    entry(&two.tree),
                    entry(&two.commit),
                ]))
                .bytes()
        }),
        scenario("a chain of deltas, in the wrong order", empty, |_| {
            let texts: Vec<String> = (0..5).map(|n| "line\n".repeat(20 + n)).collect();
            let blobs: Vec<Object> = texts.iter().map(|text| blob(text.as_str())).collect();
            let mut entries: Vec<Vec<u8>> = (1..5)
                .rev()
                .map(|n| ref_delta(&blobs[n - 1].id(), &blobs[n - 1].data, &blobs[n].data))
                .collect();
            entries.push(entry(&blobs[0]));
            with_files(&blobs, entries)
        }),
        scenario("deltas by offset", empty, |_| {
            let blobs = [blob("line\n".repeat(30)), blob("line\n".repeat(31))];
            let base = entry(&blobs[0]);
            let delta = ofs_delta(base.len(), &blobs[0].data, &blobs[1].data);
            with_files(&blobs, vec![base, delta])
        }),
        scenario("an object twice", empty, |_| {
            let one = first();
            Request::new()
                .command(ZERO, &one.id(), "refs/heads/main")
                .pack(pack(&[
                    entry(&one.blob),
                    entry(&one.blob),
                    entry(&one.tree),
                    entry(&one.commit),
                ]))
                .bytes()
        }),
        scenario("objects that are there already", seeded_with_both, |_| {
            Request::new()
                .command(&first().id(), &second().id(), "refs/heads/main")
                .pack(second().pack())
                .bytes()
        }),
        scenario("the very pack that brought it all, again", seeded, |_| {
            Request::new()
                .command(&first().id(), &first().id(), "refs/heads/main")
                .command(ZERO, &first().id(), "refs/heads/again")
                .pack(first().pack())
                .bytes()
        }),
        scenario("version 3", seeded, |_| {
            let two = second();
            let entries = [entry(&two.blob), entry(&two.tree), entry(&two.commit)];
            to_main(pack_claiming(&entries, 3, 3))
        }),
        scenario("an unreachable object whose own objects are missing", seeded, |_| {
            let stray = tree(&[("100644", "f", &"1".repeat(40))]);
            let two = second();
            to_main(pack(&[entry(&two.blob), entry(&stray), entry(&two.tree), entry(&two.commit)]))
        }),
    ]
}

/// A commit of these blobs as files, whose blobs are packed as given.
fn with_files(blobs: &[Object], mut entries: Vec<Vec<u8>>) -> Vec<u8> {
    let names: Vec<(String, String)> =
        blobs.iter().enumerate().map(|(n, blob)| (format!("f{n}"), blob.id())).collect();
    let files: Vec<(&str, &str, &str)> =
        names.iter().map(|(name, id)| ("100644", name.as_str(), id.as_str())).collect();
    let tree = tree(&files);
    let commit = commit(&tree.id(), &[], "files");
    entries.push(entry(&tree));
    entries.push(entry(&commit));
    Request::new().command(ZERO, &commit.id(), "refs/heads/main").pack(pack(&entries)).bytes()
}

fn broken_packs() -> Vec<Scenario> {
    vec![
        scenario("none at all", seeded, |_| {
            Request::new().command(ZERO, &first().id(), "refs/heads/b").bytes()
        })
        .accepting(UNPACK),
        scenario("cut short", seeded, |_| {
            let mut bytes = second().pack();
            bytes.truncate(bytes.len() - 30);
            to_main(bytes)
        })
        .accepting(UNPACK),
        scenario("a wrong trailer", seeded, |_| {
            let mut bytes = second().pack();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            to_main(bytes)
        })
        .accepting(UNPACK),
        scenario("bytes after it", seeded, |_| {
            let mut bytes = second().pack();
            bytes.extend_from_slice(b"GARBAGE");
            to_main(bytes)
        })
        .accepting(&[TrailingBytes]),
        scenario("a count that is too high", seeded, |_| {
            let two = second();
            to_main(pack_claiming(&[entry(&two.blob), entry(&two.tree), entry(&two.commit)], 5, 2))
        })
        .accepting(UNPACK),
        scenario("a count of two thousand million", seeded, |_| {
            to_main(pack_claiming(&[entry(&second().blob)], 1 << 31, 2))
        })
        .accepting(UNPACK),
        scenario("version 4", seeded, |_| to_main(pack_claiming(&[], 0, 4))).accepting(UNPACK),
        scenario("no pack but other bytes", seeded, |_| to_main(b"JUNKJUNKJUNKJUNK".to_vec()))
            .accepting(UNPACK),
        scenario("a size that is too large", seeded, |_| {
            let mut bad = entry_header(3, 1 << 40);
            bad.extend_from_slice(&crate::support::objects::deflate(b"ab"));
            to_main(pack(&[bad]))
        })
        .accepting(UNPACK),
        scenario("a size that is too small", seeded, |_| {
            let mut bad = entry_header(3, 10);
            bad.extend_from_slice(&crate::support::objects::deflate(&vec![b'x'; 1 << 20]));
            to_main(pack(&[bad]))
        })
        .accepting(UNPACK),
        scenario("an entry of type 5", seeded, |_| {
            let mut bad = entry_header(5, 2);
            bad.extend_from_slice(&crate::support::objects::deflate(b"ab"));
            to_main(pack(&[bad]))
        })
        .accepting(UNPACK),
        scenario("a base that is nowhere", seeded, |_| {
            let (one, two) = two_commits();
            let lost = ref_delta(&"2".repeat(40), &one.blob.data, &two.blob.data);
            to_main(pack(&[lost, entry(&two.tree), entry(&two.commit)]))
        })
        .accepting(UNPACK),
        scenario("a delta of a base that is too short", seeded, |_| {
            let (one, two) = two_commits();
            let bad = ref_delta(&one.blob.id(), &vec![b'x'; 5000], &two.blob.data);
            to_main(pack(&[bad, entry(&two.tree), entry(&two.commit)]))
        })
        .accepting(UNPACK),
        scenario("a broken pack, three refs", seeded, |_| {
            let id = second().id();
            Request::new()
                .command(ZERO, &id, "refs/heads/a")
                .command(ZERO, &id, "refs/heads/b")
                .command(ZERO, &id, "refs/heads/c")
                .pack(&second().pack()[..50])
                .bytes()
        })
        .accepting(UNPACK),
        scenario("a broken pack, one of the refs a deletion", seeded_with_both, |_| {
            Request::new()
                .command(&second().id(), ZERO, "refs/heads/next")
                .command(ZERO, &second().id(), "refs/heads/b")
                .pack(&second().pack()[..50])
                .bytes()
        })
        .accepting(UNPACK),
        scenario(
            "larger than receive.maxInputSize",
            |repository| {
                seeded(repository);
                configure(repository, "receive.maxInputSize", "100");
            },
            |_| ordinary().bytes(),
        )
        .accepting(UNPACK),
        scenario(
            "within receive.maxInputSize",
            |repository| {
                seeded(repository);
                configure(repository, "receive.maxInputSize", "4k");
            },
            |_| ordinary().bytes(),
        ),
    ]
}

fn connectivity() -> Vec<Scenario> {
    vec![
        scenario("a missing blob", empty, |_| {
            let one = first();
            Request::new()
                .command(ZERO, &one.id(), "refs/heads/x")
                .pack(pack(&[entry(&one.tree), entry(&one.commit)]))
                .bytes()
        })
        .accepting(&[Diagnostics]),
        scenario("a missing tree", empty, |_| {
            let one = first();
            Request::new()
                .command(ZERO, &one.id(), "refs/heads/x")
                .pack(pack(&[entry(&one.blob), entry(&one.commit)]))
                .bytes()
        })
        .accepting(&[Diagnostics]),
        scenario("a missing parent", empty, |_| {
            Request::new()
                .command(ZERO, &second().id(), "refs/heads/x")
                .pack(second().pack())
                .bytes()
        })
        .accepting(&[Diagnostics]),
        scenario("a missing tag target", empty, |_| {
            let tag = tag(&"1".repeat(40), "commit", "v1");
            Request::new()
                .command(ZERO, &tag.id(), "refs/tags/v1")
                .pack(pack(&[entry(&tag)]))
                .bytes()
        })
        .accepting(&[Diagnostics]),
        scenario("a tip that is nowhere", seeded, |_| {
            Request::new().command(ZERO, &"1".repeat(40), "refs/heads/x").pack(pack(&[])).bytes()
        })
        .accepting(&[Diagnostics]),
        scenario("one good ref and one broken", seeded, |_| {
            Request::new()
                .command(&first().id(), &second().id(), "refs/heads/main")
                .command(ZERO, &"1".repeat(40), "refs/heads/x")
                .pack(second().pack())
                .bytes()
        })
        .accepting(&[Diagnostics]),
        scenario("atomic, one good ref and one broken", seeded, |_| {
            Request::new()
                .capabilities("report-status side-band-64k atomic")
                .command(&first().id(), &second().id(), "refs/heads/main")
                .command(ZERO, &"1".repeat(40), "refs/heads/x")
                .pack(second().pack())
                .bytes()
        })
        .accepting(&[AtomicIsAtomic]),
        scenario(
            "a commit that is there, unreachable, its parent missing",
            |repository| {
                seeded(repository);
                let stray = commit(&first().tree.id(), &[&"1".repeat(40)], "stray");
                store(repository, &[&stray]);
            },
            |_| {
                let stray = commit(&first().tree.id(), &[&"1".repeat(40)], "stray");
                Request::new().command(ZERO, &stray.id(), "refs/heads/x").pack(pack(&[])).bytes()
            },
        )
        .accepting(&[Diagnostics]),
        scenario(
            "a commit that is there, unreachable, complete",
            |repository| {
                seeded(repository);
                store(repository, &[&second().blob, &second().tree, &second().commit]);
            },
            |_| {
                Request::new().command(ZERO, &second().id(), "refs/heads/x").pack(pack(&[])).bytes()
            },
        ),
        scenario("a submodule at an absent commit", empty, |_| {
            let tree = tree(&[("160000", "sub", &"1".repeat(40))]);
            let commit = commit(&tree.id(), &[], "sub");
            Request::new()
                .command(ZERO, &commit.id(), "refs/heads/main")
                .pack(pack(&[entry(&tree), entry(&commit)]))
                .bytes()
        }),
        scenario("a tree where a blob should be", empty, |_| {
            let inner = tree(&[]);
            let outer = tree(&[("100644", "f", &inner.id())]);
            let commit = commit(&outer.id(), &[], "wrong kind");
            Request::new()
                .command(ZERO, &commit.id(), "refs/heads/main")
                .pack(pack(&[entry(&inner), entry(&outer), entry(&commit)]))
                .bytes()
        })
        .accepting(&[KindsMatch]),
        scenario("a blob of an old commit again, in another tree", seeded, |_| {
            let tree = tree(&[("100644", "g", &first().blob.id())]);
            let commit = commit(&tree.id(), &[&first().id()], "moved");
            Request::new()
                .command(&first().id(), &commit.id(), "refs/heads/main")
                .pack(pack(&[entry(&tree), entry(&commit)]))
                .bytes()
        }),
    ]
}

fn requests() -> Vec<Scenario> {
    vec![
        scenario("a lone flush", seeded, |_| b"0000".to_vec()),
        scenario("nothing", seeded, |_| Vec::new()).accepting(&[FatalInWords]),
        scenario("a command list that ends early", seeded, |_| {
            let bytes = ordinary().bytes();
            bytes[..60].to_vec()
        })
        .accepting(&[FatalInWords]),
        scenario("no flush after the commands", seeded, |_| {
            pkt(format!("{} {} refs/heads/main\0report-status", first().id(), ZERO).as_bytes())
        })
        .accepting(&[FatalInWords]),
        scenario("a command that is none", seeded, |_| {
            [pkt(b"hello\0report-status"), b"0000".to_vec()].concat()
        })
        .accepting(&[FatalInWords]),
        scenario("a length that is none", seeded, |_| b"zzzz".to_vec()).accepting(&[FatalInWords]),
        scenario("ids of another length beside good ones", seeded, |_| {
            let line = format!("{} {} refs/heads/x", "0".repeat(64), "1".repeat(64));
            let good = format!("{ZERO} {} refs/heads/y\0report-status side-band-64k", first().id());
            [pkt(good.as_bytes()), pkt(line.as_bytes()), b"0000".to_vec(), pack(&[])].concat()
        })
        .accepting(&[FatalInWords]),
        scenario("ids of another length", seeded, |_| {
            let line = format!("{} {} refs/heads/x\0report-status", "0".repeat(64), "1".repeat(64));
            [pkt(line.as_bytes()), b"0000".to_vec()].concat()
        })
        .accepting(&[FatalInWords]),
        scenario("object-format=sha256", seeded, |_| {
            Request::new()
                .capabilities("report-status side-band-64k object-format=sha256")
                .command(&first().id(), ZERO, "refs/heads/main")
                .bytes()
        })
        .accepting(&[FatalInWords]),
        scenario("no side band", seeded, |_| ordinary().capabilities("report-status").bytes())
            .plain(),
        scenario("no side band and a refusal", seeded, |_| {
            Request::new()
                .capabilities("report-status")
                .command(&"1".repeat(40), &second().id(), "refs/heads/main")
                .pack(second().pack())
                .bytes()
        })
        .plain()
        .accepting(&[LostRace]),
        scenario("no report asked for", seeded, |_| {
            ordinary().capabilities("side-band-64k").bytes()
        }),
        scenario("the second report", seeded, |_| {
            ordinary().capabilities("report-status-v2 side-band-64k").bytes()
        }),
        scenario("both reports", seeded, |_| {
            ordinary().capabilities("report-status report-status-v2 side-band-64k").bytes()
        }),
        scenario("quiet", seeded, |_| {
            ordinary().capabilities("report-status side-band-64k quiet").bytes()
        }),
        scenario("capabilities nobody offered", seeded, |_| {
            ordinary().capabilities("report-status side-band-64k fly-me=moon no-thin").bytes()
        }),
        scenario("push options", push_options, |_| {
            ordinary()
                .capabilities("report-status side-band-64k push-options")
                .options(&["a=b", "PACK x", "it's \"quoted\""])
                .bytes()
        }),
        scenario(
            "push options with a deletion",
            |repository| {
                push_options(repository);
                git::run(repository, &["update-ref", "refs/heads/b", &first().id()]);
            },
            |_| {
                Request::new()
                    .capabilities("report-status side-band-64k push-options")
                    .command(&first().id(), ZERO, "refs/heads/b")
                    .options(&["why=because"])
                    .bytes()
            },
        ),
        scenario("no push options", push_options, |_| {
            ordinary().capabilities("report-status side-band-64k push-options").options(&[]).bytes()
        }),
        scenario("a shallow line", seeded, |_| {
            let stray = commit(&first().tree.id(), &[&"1".repeat(40)], "shallow");
            Request::new()
                .shallow(&stray.id())
                .command(ZERO, &stray.id(), "refs/heads/x")
                .pack(pack(&[entry(&stray)]))
                .bytes()
        })
        .accepting(&[Diagnostics]),
    ]
}

fn push_options(repository: &Path) {
    seeded(repository);
    configure(repository, "receive.advertisePushOptions", "true");
}

pub fn policies() -> Vec<Scenario> {
    vec![
        scenario(
            "denyDeletes and a branch",
            |repository| {
                seeded_with_both(repository);
                configure(repository, "receive.denyDeletes", "true");
            },
            |_| Request::new().command(&second().id(), ZERO, "refs/heads/next").bytes(),
        ),
        scenario(
            "denyDeletes and a tag",
            |repository| {
                several_branches(repository);
                configure(repository, "receive.denyDeletes", "true");
            },
            |_| Request::new().command(&first().id(), ZERO, "refs/tags/t").bytes(),
        ),
        scenario(
            "denyNonFastForwards and a rewind",
            |repository| {
                seeded_with_both(repository);
                configure(repository, "receive.denyNonFastForwards", "true");
            },
            |_| {
                Request::new()
                    .command(&second().id(), &first().id(), "refs/heads/next")
                    .pack(pack(&[]))
                    .bytes()
            },
        ),
        scenario(
            "denyNonFastForwards and a fast-forward",
            |repository| {
                seeded(repository);
                configure(repository, "receive.denyNonFastForwards", "true");
            },
            |_| ordinary().bytes(),
        ),
        scenario("a branch that is checked out", checked_out, |_| ordinary().bytes())
            .accepting(&[Advice]),
        scenario(
            "a branch that is checked out by way of another symbolic ref",
            |repository| {
                checked_out(repository);
                git::run(repository, &["symbolic-ref", "HEAD", "refs/heads/alias"]);
                git::run(repository, &["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
            },
            |_| ordinary().bytes(),
        )
        .accepting(&[Advice]),
        scenario(
            "a branch that a linked work tree is rebasing",
            |repository| linked_worktree(repository, "rebase-merge/head-name", "refs/heads/main"),
            |_| ordinary().bytes(),
        )
        .accepting(&[Advice]),
        scenario(
            "a branch that a linked work tree is rebasing by mail",
            |repository| linked_worktree(repository, "rebase-apply/head-name", "refs/heads/main"),
            |_| ordinary().bytes(),
        )
        .accepting(&[Advice]),
        scenario(
            "a branch from which a linked work tree is bisecting",
            |repository| {
                linked_worktree(repository, "BISECT_START", "main");
                std::fs::write(repository.join("worktrees/w/BISECT_LOG"), "\n").unwrap();
            },
            |_| ordinary().bytes(),
        )
        .accepting(&[Advice]),
        scenario(
            "a branch that is checked out, ignored",
            |repository| {
                checked_out(repository);
                configure(repository, "receive.denyCurrentBranch", "ignore");
            },
            |_| ordinary().bytes(),
        ),
        scenario(
            "a branch that is checked out, with a warning",
            |repository| {
                checked_out(repository);
                configure(repository, "receive.denyCurrentBranch", "warn");
            },
            |_| ordinary().bytes(),
        ),
        scenario("another branch than the one checked out", checked_out, |_| {
            Request::new().command(ZERO, &first().id(), "refs/heads/b").pack(pack(&[])).bytes()
        }),
        scenario("a hidden ref beside another", hidden, |_| {
            Request::new()
                .command(ZERO, &second().id(), "refs/hidden/x")
                .command(&first().id(), &second().id(), "refs/heads/main")
                .pack(second().pack())
                .bytes()
        }),
        scenario("a hidden ref alone", hidden, |_| {
            Request::new()
                .command(ZERO, &second().id(), "refs/hidden/x")
                .pack(second().pack())
                .bytes()
        }),
        scenario("the deletion of a hidden ref", hidden, |_| {
            Request::new().command(&first().id(), ZERO, "refs/hidden/old").bytes()
        }),
        scenario("a hidden ref, up to date", hidden, |_| {
            Request::new()
                .command(&first().id(), &first().id(), "refs/hidden/old")
                .pack(pack(&[]))
                .bytes()
        }),
        scenario(
            "a ref that an exclamation mark brings back",
            |repository| {
                hidden(repository);
                configure(repository, "receive.hideRefs", "!refs/hidden/open");
            },
            |_| {
                Request::new()
                    .command(ZERO, &first().id(), "refs/hidden/open/x")
                    .pack(pack(&[]))
                    .bytes()
            },
        ),
        scenario(
            "reflogs of branches",
            |repository| {
                seeded(repository);
                configure(repository, "core.logAllRefUpdates", "true");
            },
            |_| {
                Request::new()
                    .command(&first().id(), &second().id(), "refs/heads/main")
                    .command(ZERO, &second().id(), "refs/heads/new")
                    .command(ZERO, &second().id(), "refs/tags/t")
                    .pack(second().pack())
                    .bytes()
            },
        ),
        scenario(
            "reflogs of everything",
            |repository| {
                seeded(repository);
                configure(repository, "core.logAllRefUpdates", "always");
            },
            |_| {
                Request::new()
                    .command(&first().id(), &second().id(), "refs/heads/main")
                    .command(ZERO, &second().id(), "refs/tags/t")
                    .pack(second().pack())
                    .bytes()
            },
        ),
    ]
}

fn hidden(repository: &Path) {
    seeded(repository);
    git::run(repository, &["update-ref", "refs/hidden/old", &first().id()]);
    configure(repository, "transfer.hideRefs", "refs/hidden");
}

/// Makes the repository one with a work tree.
fn checked_out(repository: &Path) {
    seeded(repository);
    git::run(repository, &["config", "core.bare", "false"]);
}

/// A linked work tree with no branch of its own and one file in its directory.
fn linked_worktree(repository: &Path, file: &str, line: &str) {
    seeded(repository);
    let directory = repository.join("worktrees/w");
    let head = first().id().to_string();
    let files =
        [("HEAD", head.as_str()), ("commondir", "../.."), ("gitdir", "/none/.git"), (file, line)];
    for (name, line) in files {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{line}\n")).unwrap();
    }
}

pub fn hooks() -> Vec<Scenario> {
    vec![
        scenario(
            "pre-receive says no",
            |repository| {
                seeded(repository);
                write_hook(
                    repository,
                    "pre-receive",
                    "#!/bin/sh\ncat >>hook.log\necho no\nexit 1\n",
                );
            },
            |_| {
                Request::new()
                    .command(&first().id(), &second().id(), "refs/heads/main")
                    .command(ZERO, &"1".repeat(40), "refs/heads/x")
                    .pack(second().pack())
                    .bytes()
            },
        )
        .accepting(&[Diagnostics]),
        scenario(
            "update says no to one of three",
            |repository| {
                seeded(repository);
                let text = "#!/bin/sh\necho \"seen $1\"\ntest \"$1\" != refs/heads/b\n";
                write_hook(repository, "update", text);
            },
            three_branches,
        ),
        scenario(
            "update says no to one of three, atomic",
            |repository| {
                seeded(repository);
                let text = "#!/bin/sh\necho \"seen $1\"\ntest \"$1\" != refs/heads/b\n";
                write_hook(repository, "update", text);
            },
            |_| atomic(&[(ZERO, "refs/heads/a"), (ZERO, "refs/heads/b"), (ZERO, "refs/heads/c")]),
        ),
        scenario(
            "post-receive and post-update fail",
            |repository| {
                seeded(repository);
                write_hook(repository, "post-receive", "#!/bin/sh\ncat >&2\nexit 1\n");
                write_hook(repository, "post-update", "#!/bin/sh\necho \"$@\"\nexit 1\n");
            },
            three_branches,
        ),
        scenario(
            "pre-receive reads nothing",
            |repository| {
                seeded(repository);
                write_hook(repository, "pre-receive", "#!/bin/sh\nexit 0\n");
            },
            three_branches,
        ),
        scenario(
            "pre-receive looks at the new objects",
            |repository| {
                seeded(repository);
                let text = "#!/bin/sh\nread old new ref\ngit cat-file -t $new\n\
                        git rev-list --count $new\n";
                write_hook(repository, "pre-receive", text);
            },
            |_| ordinary().bytes(),
        ),
        scenario(
            "pre-receive may not move refs",
            |repository| {
                seeded(repository);
                let text = "#!/bin/sh\nread old new ref\n\
                        git update-ref refs/heads/zz $old 2>/dev/null && echo moved\nexit 0\n";
                write_hook(repository, "pre-receive", text);
            },
            |_| ordinary().bytes(),
        ),
        scenario(
            "an object that pre-receive writes is kept",
            |repository| {
                seeded(repository);
                let text = "#!/bin/sh\necho made by the hook | git hash-object -w --stdin\n";
                write_hook(repository, "pre-receive", text);
            },
            |_| ordinary().bytes(),
        ),
        scenario(
            "a hook that is not executable",
            |repository| {
                seeded(repository);
                write_hook(repository, "pre-receive", "#!/bin/sh\nexit 1\n");
                let path = repository.join("hooks/pre-receive");
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
                fs::set_permissions(path, mode).unwrap();
            },
            |_| ordinary().bytes(),
        ),
        scenario(
            "a hook whose interpreter is missing",
            |repository| {
                seeded(repository);
                write_hook(repository, "pre-receive", "#!/no/such/thing\n");
            },
            |_| ordinary().bytes(),
        )
        .accepting(&[Diagnostics]),
        scenario(
            "hooks elsewhere",
            |repository| {
                seeded(repository);
                configure(repository, "core.hooksPath", "elsewhere");
                write_hook(repository, "../elsewhere/update", "#!/bin/sh\necho \"here $0\"\n");
            },
            three_branches,
        ),
        scenario("every ref is refused before the hooks", hidden, |_| {
            Request::new()
                .command(ZERO, &second().id(), "refs/hidden/x")
                .command(ZERO, &second().id(), "refs/hidden/y")
                .pack(second().pack())
                .bytes()
        }),
    ]
}

pub fn three_branches(_: &Path) -> Vec<u8> {
    let id = second().id();
    Request::new()
        .command(ZERO, &id, "refs/heads/a")
        .command(ZERO, &id, "refs/heads/b")
        .command(ZERO, &id, "refs/heads/c")
        .pack(second().pack())
        .bytes()
}

fn stores() -> Vec<Scenario> {
    vec![
        scenario("an object of an alternate", borrowing, |_| {
            Request::new().command(ZERO, &second().id(), "refs/heads/b").pack(pack(&[])).bytes()
        }),
        scenario("a thin pack whose base is in an alternate", borrowing, |_| {
            Request::new()
                .command(ZERO, &second().id(), "refs/heads/b")
                .pack(thin_pack(&first(), &second()))
                .bytes()
        })
        .accepting(&[StoredAgain]),
        scenario(
            "an alternate that is missing",
            |repository| {
                seeded(repository);
                let path = repository.join("objects/info/alternates");
                fs::write(path, "/no/such/objects\n").unwrap();
            },
            |_| ordinary().bytes(),
        )
        .accepting(&[Diagnostics]),
        scenario(
            "a multi-pack-index",
            |repository| {
                seeded_and_packed(repository);
                git::run(repository, &["multi-pack-index", "write"]);
            },
            |_| to_main(thin_pack(&first(), &second())),
        ),
        scenario(
            "a commit-graph",
            |repository| {
                seeded_with_both(repository);
                git::run(repository, &["commit-graph", "write", "--reachable"]);
            },
            |_| {
                let third = Snapshot::new("third\n", &[&second().id()]);
                Request::new()
                    .command(&first().id(), &third.id(), "refs/heads/main")
                    .pack(third.pack())
                    .bytes()
            },
        ),
    ]
}

/// A repository whose objects are all in another one.
fn borrowing(repository: &Path) {
    let other = git::init_bare(&repository.parent().unwrap().join("other.git"));
    seeded_with_both(&other);
    let path = repository.join("objects/info/alternates");
    fs::write(path, format!("{}\n", other.join("objects").display())).unwrap();
}
