//! Pushes to repositories that ask for fsck on receipt.

use super::Scenario;
use super::accepted::Accepted::{Diagnostics, FsckOrder};
use super::scenarios::{configure, scenario, store};
use crate::support::git;
use crate::support::objects::{
    Object, ZERO, blob, commit, entry, ofs_delta, pack, ref_delta, tag, tree,
};
use crate::support::request::Request;
use std::fs;
use std::path::Path;

/// A push to come: what is in the repository, what it says, and what is sent.
#[derive(Clone, Debug, Default)]
struct Push {
    settings: Vec<(String, String)>,
    there: Vec<Object>,
    sent: Vec<Vec<u8>>,
    tip: String,
    shallow: Vec<String>,
    files: Vec<(&'static str, String)>,
}

impl Push {
    /// These objects, and a branch at `tip`.
    fn of(tip: &Object, objects: &[&Object]) -> Self {
        Self {
            settings: vec![("transfer.fsckObjects".into(), "true".into())],
            sent: objects.iter().map(|object| entry(object)).collect(),
            tip: tip.id(),
            ..Self::default()
        }
    }

    fn with(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    fn there(mut self, objects: &[&Object]) -> Self {
        self.there.extend(objects.iter().map(|object| (*object).clone()));
        self
    }

    fn file(mut self, name: &'static str, text: String) -> Self {
        self.files.push((name, text));
        self
    }

    fn shallow(mut self, id: &str) -> Self {
        self.shallow.push(id.into());
        self
    }

    fn request(&self) -> Request {
        let request = self.shallow.iter().fold(Request::new(), |request, id| request.shallow(id));
        request.command(ZERO, &self.tip, "refs/heads/x").pack(pack(&self.sent))
    }

    fn prepare(&self, repository: &Path) {
        for (key, value) in &self.settings {
            configure(repository, key, value);
        }
        store(repository, &self.there.iter().collect::<Vec<_>>());
        for (name, text) in &self.files {
            fs::write(repository.join(name), text).unwrap();
        }
    }

    fn named(self, name: impl Into<String>) -> Scenario {
        let push = self.clone();
        scenario(name, move |path| push.prepare(path), move |_| self.request().bytes())
    }
}

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    [objects(), unreadable(), links(), special(), deltas(), settings(), skip_lists(), shallow()]
        .into_iter()
        .flatten()
        .collect()
}

fn file() -> Object {
    blob("x\n")
}

fn good_tree() -> Object {
    tree(&[("100644", "f", &file().id())])
}

fn good() -> Object {
    commit(&good_tree().id(), &[], "m")
}

fn commit_by(author: &str) -> Object {
    let text = format!(
        "tree {}\nauthor {author} 1 +0000\ncommitter a <a@b> 1 +0000\n\nm\n",
        good_tree().id()
    );
    Object { kind: "commit", data: text.into_bytes() }
}

fn raw(kind: &'static str, data: impl Into<Vec<u8>>) -> Object {
    Object { kind, data: data.into() }
}

/// A commit of a tree with these entries, whole.
fn of_tree(root: &Object, others: &[&Object]) -> Push {
    let tip = commit(&root.id(), &[], "m");
    let mut objects = vec![&tip, root];
    objects.extend(others);
    Push::of(&tip, &objects)
}

fn objects() -> Vec<Scenario> {
    let bad_tag = raw(
        "tag",
        format!("object {}\ntype commit\ntag a b\ntagger A 1 +0000\n\nx\n", good().id()),
    );
    let no_tagger = raw("tag", format!("object {}\ntype commit\ntag v\n\nx\n", good().id()));
    let mut all = vec![
        Push::of(&good(), &[&good(), &good_tree(), &file()]).named("a good push"),
        Push::of(&bad_tag, &[&bad_tag, &good(), &good_tree(), &file()]).named("a bad tagger"),
        Push::of(&no_tagger, &[&no_tagger, &good(), &good_tree(), &file()]).named("no tagger"),
        Push::of(&tag(&file().id(), "blob", "v"), &[&tag(&file().id(), "blob", "v"), &file()])
            .named("a tag of a blob, as a branch"),
    ];
    for author in ["a a@b", "a <a@b", "<a@b>", "a <a@b> 0", "a <a@b> x", "a\n"] {
        let tip = commit_by(author);
        all.push(Push::of(&tip, &[&tip, &good_tree(), &file()]).named(format!("author {author}")));
    }
    let id = file().id();
    for (mode, name) in [
        ("100644", ".git"),
        ("100644", ".GIT"),
        ("100644", "git~1"),
        ("100644", ".g\u{200c}it"),
        ("100644", "a/b"),
        ("100644", ".."),
        ("0100644", "a"),
        ("100664", "a"),
        ("120000", ".gitmodules"),
        ("120000", "gitmod~1"),
        ("120000", ".gitignore"),
        ("120000", ".gitattributes"),
        ("120000", ".mailmap"),
    ] {
        let root = tree(&[(mode, name, &id)]);
        all.push(of_tree(&root, &[&file()]).named(format!("a tree entry {mode} {name}")));
    }
    let unsorted = tree(&[("100644", "b", &id), ("100644", "a", &id)]);
    let twice = tree(&[("100644", "a", &id), ("100644", "a", &id)]);
    let both = tree(&[("100644", "a", &id), ("40000", "a", &good_tree().id())]);
    let null = tree(&[("160000", "a", ZERO)]);
    all.extend([
        of_tree(&unsorted, &[&file()]).named("an unsorted tree"),
        of_tree(&twice, &[&file()]).named("a name twice"),
        of_tree(&both, &[&good_tree(), &file()]).named("a file and a directory of one name"),
        of_tree(&null, &[]).named("a null id"),
    ]);
    let bad = commit_by("a a@b");
    let unreachable = Push::of(&good(), &[&good(), &good_tree(), &file(), &bad]);
    all.push(unreachable.named("a bad commit that no ref leads to"));
    // Faults of several objects: git tells of those of a pack that it unpacks as it walks them.
    let (one, other) = (tree(&[("100664", "f", &id)]), tree(&[("100664", "g", &id)]));
    let first = commit(&one.id(), &[], "m");
    let second = commit(&other.id(), &[&first.id()], "m");
    let two = Push::of(&second, &[&second, &first, &one, &other, &file()]);
    all.push(two.named("two warnings").accepting(&[FsckOrder]));
    let plain = Push::of(&bad, &[&bad, &good_tree(), &file()]);
    let request = plain.request().capabilities("report-status").bytes();
    let prepare = plain.clone();
    let bare = scenario("without bands", move |r| prepare.prepare(r), move |_| request.clone());
    all.push(bare.plain().diagnosed());
    all
}

fn unreadable() -> Vec<Scenario> {
    let tree_id = good_tree().id();
    let mut all = Vec::new();
    for (name, object) in [
        ("a commit without a tree", raw("commit", "author x\n\nm\n")),
        (
            "a commit with a bad tree pointer",
            raw("commit", format!("tree {}\nauthor x\n\nm\n", "g".repeat(40))),
        ),
        (
            "a commit with a bad parent",
            raw(
                "commit",
                format!("tree {tree_id}\nparent {}\nauthor x <x> 1 +0000\n\n", "g".repeat(40)),
            ),
        ),
        ("a commit that is cut", raw("commit", format!("tree {tree_id}\n"))),
        ("an empty tag", raw("tag", "")),
        (
            "a tag of an unknown type",
            raw("tag", format!("object {tree_id}\ntype thing\ntag x\ntagger x\n\n")),
        ),
        ("a tag without a name", raw("tag", format!("object {tree_id}\ntype tree\ntagger x\n\n"))),
        ("a tree of a byte", raw("tree", "1")),
        ("a tree that is cut", raw("tree", &good_tree().data[..20])),
        ("a tree with a bad mode", raw("tree", [&b"1x f\0"[..], &[1; 20]].concat())),
        ("a tree with an empty name", raw("tree", [&b"100644 \0"[..], &[1; 20]].concat())),
        (
            "a tree whose second entry is bad",
            raw("tree", [&good_tree().data[..], b"1x g\0", &[1; 20]].concat()),
        ),
    ] {
        let push = Push::of(&good(), &[&good(), &good_tree(), &file(), &object]);
        all.push(push.clone().named(name));
        for key in ["missingTree", "badTreeSha1", "badParentSha1"] {
            if object.kind == "commit" {
                let push = push.clone().with(&format!("receive.fsck.{key}"), "ignore");
                all.push(push.named(format!("{name}, {key} ignored")));
            }
        }
        if object.kind == "tree" {
            let push = push.with("receive.fsck.badTree", "ignore");
            // git's reader says why twice, and we once.
            all.push(push.named(format!("{name}, badTree ignored")).accepting(&[Diagnostics]));
        }
    }
    all
}

fn links() -> Vec<Scenario> {
    let stray = "1".repeat(40);
    let missing_tree = commit(&stray, &[], "m");
    let missing_parent = commit(&good_tree().id(), &[&stray], "m");
    let of_blob = commit(&file().id(), &[], "m");
    let as_directory = tree(&[("40000", "d", &file().id())]);
    let unreachable = tree(&[("100644", "f", &stray)]);
    let gitlink = tree(&[("160000", "f", &stray)]);
    let empty = raw("tree", "");
    vec![
        Push::of(&good(), &[&good(), &good_tree()]).named("a missing blob"),
        Push::of(&good(), &[&good(), &good_tree()]).there(&[&file()]).named("a blob from here"),
        Push::of(&missing_tree, &[&missing_tree]).named("a missing tree"),
        Push::of(&missing_parent, &[&missing_parent, &good_tree(), &file()])
            .named("a missing parent"),
        Push::of(&good(), &[&good(), &good_tree(), &file(), &unreachable])
            .named("a missing blob that no ref leads to"),
        Push::of(&good(), &[&good(), &good_tree(), &file(), &tag(&stray, "tag", "x")])
            .named("a missing object of a tag"),
        of_tree(&gitlink, &[]).named("a gitlink"),
        Push::of(&commit(&empty.id(), &[], "m"), &[&commit(&empty.id(), &[], "m")])
            .named("the empty tree, which nobody sent"),
        Push::of(&of_blob, &[&of_blob]).there(&[&file()]).named("a blob from here as a tree"),
        // What git says of these depends on the order of the pack.
        Push::of(&of_blob, &[&of_blob, &file()])
            .named("a blob as a tree")
            .accepting(&[Diagnostics]),
        of_tree(&as_directory, &[&file()]).named("a blob as a directory").accepting(&[Diagnostics]),
        Push::of(&good(), &[&file(), &good_tree(), &good(), &as_directory])
            .named("a blob as a directory that no ref leads to")
            .accepting(&[Diagnostics]),
    ]
}

const EVIL: &str = "[submodule \"a\"]\n\turl = -x\n";

fn special() -> Vec<Scenario> {
    let evil = blob(EVIL);
    let root = tree(&[("100644", ".gitmodules", &evil.id())]);
    let tip = commit(&root.id(), &[], "m");
    let as_directory = tree(&[("40000", ".gitmodules", &good_tree().id())]);
    let long = blob(format!("{} x\n", "a".repeat(3000)));
    let attributes = tree(&[("100644", ".gitattributes", &long.id())]);
    let warn = ("receive.fsck.gitmodulesUrl", "warn");
    let big = Push::of(&tip, &[&tip, &root, &evil]).with("core.bigFileThreshold", "8");
    let mut all = vec![
        Push::of(&tip, &[&tip, &root, &evil]).named("modules behind their tree"),
        Push::of(&tip, &[&evil, &root, &tip]).named("modules before their tree"),
        Push::of(&tip, &[&root, &tip]).there(&[&evil]).named("modules from here"),
        Push::of(&tip, &[&root, &tip]).named("modules from nowhere"),
        Push::of(&good(), &[&good(), &good_tree(), &file(), &evil]).named("modules by no name"),
        of_tree(&as_directory, &[&good_tree(), &file()]).named("modules that are a directory"),
        of_tree(&attributes, &[&long]).named("a long line of attributes"),
        of_tree(&attributes, &[]).there(&[&long]).named("a long line of attributes from here"),
        Push::of(&tip, &[&tip, &root, &evil]).with(warn.0, warn.1).named("modules, a warning"),
        Push::of(&tip, &[&evil, &root, &tip]).with(warn.0, warn.1).named("modules, a late warning"),
        // git calls modules large that it does not want in memory.
        big.named("modules that are a big file"),
    ];
    for text in
        ["[x", "[submodule \"..\"]\npath = -y\nupdate = !z\n", "[submodule \"a\"]\nurl = a\n"]
    {
        let modules = blob(text);
        let root = tree(&[("100644", ".gitmodules", &modules.id())]);
        all.push(of_tree(&root, &[&modules]).named(format!("modules {text}")));
    }
    for name in
        [".GITMODULES", "gitmod~1", "GITMOD~4", "gi7eba~1", ".gitmodules ", ".git\u{200c}modules"]
    {
        let root = tree(&[("100644", name, &evil.id())]);
        all.push(of_tree(&root, &[&evil]).named(format!("modules as {name}")));
        let sent = of_tree(&root, &[]).there(&[&evil]);
        all.push(sent.named(format!("modules from here as {name}")));
    }
    all
}

/// `more` on top of `object`, as the next entry of a pack.
fn delta_of(object: &Object, target: &Object) -> Vec<Vec<u8>> {
    let whole = entry(object);
    let delta = ofs_delta(whole.len(), &object.data, &target.data);
    vec![whole, delta]
}

fn deltas() -> Vec<Scenario> {
    let id = file().id();
    let sorted = tree(&[("100644", "a", &id), ("100644", "b", &id)]);
    let more = tree(&[("100644", "a", &id), ("100644", "b", &id), ("100644", "a0", &id)]);
    let with_git = tree(&[("100644", "a", &id), ("100644", "b", &id), ("100644", ".git", &id)]);
    let mut all = Vec::new();
    for (name, made) in
        [("unsorted by its delta", &more), ("that has .git by its delta", &with_git)]
    {
        let tip = commit(&made.id(), &[], "m");
        let mut push = Push::of(&tip, &[&tip, &file()]);
        push.sent.extend(delta_of(&sorted, made));
        all.push(push.named(format!("a tree {name}")));
        // The same in a thin pack.
        let mut push = Push::of(&tip, &[&tip]).there(&[&sorted, &file()]);
        push.sent.push(ref_delta(&sorted.id(), &sorted.data, &made.data));
        all.push(push.named(format!("a thin pack with a tree {name}")));
    }
    let (fine, evil) = (blob("[submodule \"a\"]\n\turl = a\n"), blob(EVIL));
    let root = tree(&[("100644", ".gitmodules", &evil.id())]);
    let tip = commit(&root.id(), &[], "m");
    let mut push = Push::of(&tip, &[&tip, &root]);
    push.sent.extend(delta_of(&fine, &evil));
    all.push(push.named("modules that a delta makes"));
    let mut push = Push::of(&tip, &[&tip, &root]).there(&[&fine]);
    push.sent.push(ref_delta(&fine.id(), &fine.data, &evil.data));
    all.push(push.named("modules that a delta makes in a thin pack"));
    // Both the tree and its modules are deltas.
    let old = tree(&[("100644", ".gitmodules", &fine.id())]);
    let mut push = Push::of(&tip, &[&tip]);
    push.sent.extend(delta_of(&fine, &evil));
    push.sent.extend(delta_of(&old, &root));
    all.push(push.named("modules and a tree that deltas make"));
    all
}

fn settings() -> Vec<Scenario> {
    let bad = commit_by("a a@b");
    let push = Push::of(&bad, &[&bad, &good_tree(), &file()]);
    let mut all = Vec::new();
    for settings in [
        &[("receive.fsckObjects", "false")][..],
        &[("receive.fsck.missingEmail", "ignore")],
        &[("receive.fsck.missingEmail", "warn")],
        &[("receive.fsck.MISSINGEMAIL", "warn")],
        &[("receive.fsck.missingEmail", "error")],
        &[("receive.fsck.missingEmail", "ignore"), ("receive.fsck.missingEmail", "error")],
        &[("receive.fsck.missingEmail", "error"), ("receive.fsck.missingEmail", "warn")],
        &[("fsck.missingEmail", "ignore")],
        &[("receive.fsck.badDate", "ignore")],
        &[("receive.fsck.missingEmail", "IGNORE")],
        &[("receive.fsck.missingEmail", "info")],
        &[("receive.fsck.missingEmail", "")],
        &[("receive.fsck.whatEver", "error")],
        &[("receive.fsck.whatEver", "nonsense"), ("receive.fsck.missingEmail", "ignore")],
        &[("receive.fsck.largePathname", "warn:10")],
        &[("receive.fsck.unterminatedHeader", "warn")],
        &[("receive.fsck.nulInHeader", "ignore")],
        &[("receive.fsck.nulInHeader", "error")],
        &[("receive.fsckObjects", "false"), ("receive.fsck.nulInHeader", "ignore")],
        &[("receive.fsckObjects", "false"), ("receive.fsck.badDate", "nonsense")],
        &[("receive.fsckObjects", "false"), ("receive.fsck.whatEver", "nonsense")],
    ] {
        let push = settings.iter().fold(push.clone(), |push, (key, value)| push.with(key, value));
        let name = format!("settings {settings:?}");
        all.push(push.named(name).diagnosed());
    }
    let dates = tree(&[("0100644", "f", &file().id())]);
    for level in ["ignore", "warn", "error"] {
        let push = of_tree(&dates, &[&file()]).with("receive.fsck.zeroPaddedFilemode", level);
        all.push(push.named(format!("zero-padded modes, {level}")));
        let group = tree(&[("100664", "f", &file().id())]);
        let push = of_tree(&group, &[&file()]).with("receive.fsck.badFilemode", level);
        all.push(push.named(format!("bad modes, {level}")));
    }
    all
}

fn skip_lists() -> Vec<Scenario> {
    let bad = commit_by("a a@b");
    let evil = blob(EVIL);
    let root = tree(&[("100644", ".gitmodules", &evil.id()), ("100644", ".git", &evil.id())]);
    let push = Push::of(&bad, &[&bad, &good_tree(), &file()]);
    let list = format!("# known\n\n  {} # bad\n", bad.id());
    let key = "receive.fsck.skipList";
    let mut all = vec![
        push.clone().with(key, "list").file("list", list.clone()).named("a skip list"),
        push.clone()
            .with("fsck.skipList", "list")
            .file("list", list.clone())
            .named("a skip list of fsck"),
        push.clone()
            .with(key, "none")
            .with(key, "list")
            .file("list", list.clone())
            .named("a skip list that is not there, and one that is"),
        push.clone().with(key, "/dev/null").named("an empty skip list"),
        push.clone().with(key, "").named("a skip list without a name"),
        push.clone().with(key, "hooks").named("a skip list that is a directory"),
        push.clone().with(key, "HEAD").named("a skip list that is none"),
        push.clone()
            .with(key, "list")
            .file("list", format!("{} x\n", bad.id()))
            .named("a skip list with two words"),
        push.clone()
            .with("receive.fsck.nulInHeader", "warn")
            .with(key, "none")
            .named("a level and a skip list that cannot be"),
        push.clone()
            .with(key, "none")
            .with("receive.fsck.nulInHeader", "warn")
            .named("a skip list and a level that cannot be"),
    ];
    let no_pack = push.with(key, "none");
    let prepare = move |repository: &Path| {
        no_pack.prepare(repository);
        store(repository, &[&file(), &good_tree(), &good()]);
        git::run(repository, &["update-ref", "refs/heads/x", &good().id()]);
    };
    all.push(scenario("a bad skip list and a deletion", prepare, |_| {
        Request::new().command(&good().id(), ZERO, "refs/heads/x").bytes()
    }));
    for (name, skipped) in [
        ("a tree and its modules", vec![root.id(), evil.id()]),
        ("a tree, but not its modules", vec![root.id()]),
        ("modules, but not their tree", vec![evil.id()]),
    ] {
        let list: String = skipped.iter().map(|id| format!("{id}\n")).collect();
        let push = of_tree(&root, &[&evil]).with(key, "list").file("list", list);
        all.push(push.named(format!("a skip list with {name}")));
    }
    let broken = raw("commit", "author x\n\nm\n");
    let push = Push::of(&good(), &[&good(), &good_tree(), &file(), &broken]);
    let push = push.with(key, "list").file("list", format!("{}\n", broken.id()));
    all.push(push.named("a skip list with what cannot be read"));
    all
}

fn shallow() -> Vec<Scenario> {
    let border = commit(&good_tree().id(), &[&"1".repeat(40)], "border");
    let next = commit(&good_tree().id(), &[&border.id()], "next");
    let beside = commit(&good_tree().id(), &[&"1".repeat(40)], "beside");
    let here = |push: Push| push.file("shallow", format!("{}\n", border.id()));
    vec![
        Push::of(&border, &[&border, &good_tree(), &file()])
            .shallow(&border.id())
            .named("the client's border"),
        here(Push::of(&next, &[&next]).there(&[&border, &good_tree(), &file()]))
            .named("on top of the repository's border"),
        here(Push::of(&next, &[&next, &border]).there(&[&border, &good_tree(), &file()]))
            .named("the repository's border again"),
        here(Push::of(&next, &[&next, &border, &beside]).there(&[&border, &good_tree(), &file()]))
            .named("a commit beside the border without its parent"),
    ]
}
