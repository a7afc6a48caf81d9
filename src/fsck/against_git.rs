//! The same objects to stock git and to us: the same findings must be made.

use super::{Finding, Fsck, FsckOptions, Severity, SpecialBlobs, SpecialContent};
use crate::model::{HashKind, ObjectId, ObjectKind};
use crate::pack::writer::PackBuilder;
use bstr::{BString, ByteSlice};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Output, Stdio};

mod corpus;
mod generated;

const HASHES: [(HashKind, &str); 2] = [(HashKind::Sha1, "sha1"), (HashKind::Sha256, "sha256")];

/// A repository of stock git, and all objects that are in it.
struct World {
    dir: tempfile::TempDir,
    hash: HashKind,
    objects: BTreeMap<ObjectId, (ObjectKind, Vec<u8>)>,
}

/// What was said of an object: its id, how much it matters, `messageId: text`.
type Said = BTreeSet<(ObjectId, Severity, BString)>;

impl World {
    fn new(hash: HashKind, format: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let world = Self { dir, hash, objects: BTreeMap::new() };
        let made = world.git(&["init", "-q", "--bare", "--object-format", format], b"");
        assert!(made.status.success());
        world
    }

    fn git(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = Command::new("git")
            .args(args)
            .current_dir(self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("LC_ALL", "C")
            .envs([("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "core.fsync")])
            .env("GIT_CONFIG_VALUE_0", "none")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A git that has seen enough reads no further.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// Stores objects as they are, in one run of git.
    fn store_all(&mut self, kind: ObjectKind, all: &[Vec<u8>]) -> Vec<ObjectId> {
        let mut pack = PackBuilder::new(self.hash, 0);
        let mut ids = Vec::new();
        for data in all {
            let mut hasher = gix_hash::hasher(self.hash);
            hasher.update(format!("{kind} {}\0", data.len()).as_bytes());
            hasher.update(data);
            let id = hasher.try_finalize().unwrap();
            ids.push(id);
            if self.objects.insert(id, (kind, data.clone())).is_none() {
                pack.whole(kind, data);
            }
        }
        let output = self.git(&["index-pack", "--stdin"], &pack.finish());
        assert!(output.status.success(), "{}", output.stderr.as_bstr());
        ids
    }

    fn store(&mut self, kind: ObjectKind, data: &[u8]) -> ObjectId {
        self.store_all(kind, &[data.to_vec()])[0]
    }

    /// What `git fsck --strict` says of all objects, and those that it could not even parse.
    fn git_fsck(&self) -> (Said, BTreeSet<ObjectId>) {
        let args = ["fsck", "--strict", "--no-dangling", "--no-progress", "--full"];
        let (mut said, mut unparsed) = (Said::new(), BTreeSet::new());
        for line in self.git(&args, b"").stderr.lines() {
            if let Some((id, rest)) =
                line.strip_prefix(b"error: ").and_then(|l| l.split_once_str(": "))
                && rest == b"object corrupt or missing"
            {
                unparsed.insert(ObjectId::from_hex(id).unwrap());
            }
            for (word, severity) in [("error", Severity::Error), ("warning", Severity::Warning)] {
                let Some(rest) = line.strip_prefix(format!("{word} in ").as_bytes()) else {
                    continue;
                };
                let (_, rest) = rest.split_once_str(" ").unwrap();
                let (id, text) = rest.split_once_str(": ").unwrap();
                if text == b"broken links" {
                    continue;
                }
                said.insert((ObjectId::from_hex(id).unwrap(), severity, text.into()));
            }
        }
        (said, unparsed)
    }

    /// What we say of all objects, blobs first or last.
    fn our_fsck(&self, options: FsckOptions, blobs_first: bool) -> Vec<Finding> {
        let fsck = Fsck::new(options);
        let (mut special, mut found) = (SpecialBlobs::new(), Vec::new());
        let mut sink = |finding| found.push(finding);
        for blobs in [blobs_first, !blobs_first] {
            for (id, (kind, data)) in &self.objects {
                if blobs == (*kind == ObjectKind::Blob) {
                    fsck.check(*kind, id, data, &mut special, &mut sink);
                }
            }
        }
        for (id, roles) in special.all_due() {
            let content = match self.objects.get(&id) {
                Some((ObjectKind::Blob, data)) => SpecialContent::Blob(data),
                Some(_) => SpecialContent::OtherKind,
                None => SpecialContent::Missing,
            };
            fsck.check_special(&id, roles, content, &mut sink);
        }
        found
    }

    /// Compares all that is said of all objects; returns the number of objects compared, and those
    /// that git's fsck cannot parse.
    fn compare(&self) -> (usize, BTreeSet<ObjectId>) {
        let (theirs, unparsed) = self.git_fsck();
        for blobs_first in [false, true] {
            let found = self.our_fsck(FsckOptions::strict(self.hash), blobs_first);
            let ours: Said = found
                .iter()
                .filter(|finding| !unparsed.contains(&finding.object))
                .map(|finding| (finding.object, finding.severity, said(finding)))
                .collect();
            for (id, severity, text) in ours.symmetric_difference(&theirs) {
                let whose =
                    if ours.contains(&(*id, *severity, text.clone())) { "we" } else { "git" };
                let data = self.objects.get(id).map(|(_, data)| data.as_bstr());
                println!("only {whose}: {id} {severity:?} {text}\n    {data:?}");
            }
            assert_eq!(ours, theirs);
        }
        (self.objects.len() - unparsed.len(), unparsed)
    }

    fn tree(&mut self, entries: &[(&str, &str, ObjectId)]) -> ObjectId {
        let data: Vec<u8> = entries.iter().flat_map(|e| entry(e.0, e.1.as_bytes(), &e.2)).collect();
        self.store(ObjectKind::Tree, &data)
    }

    /// A pack of these objects, and of nothing else.
    fn pack(&self, ids: &[ObjectId]) -> Vec<u8> {
        let list: String = ids.iter().flat_map(|id| [id.to_string(), "\n".into()]).collect();
        let made = self.git(&["pack-objects", "-q", "--stdout"], list.as_bytes());
        assert!(made.status.success());
        made.stdout
    }
}

/// The first line of what is said: git's output is read line by line.
fn said(finding: &Finding) -> BString {
    let head = format!("{}: ", finding.message);
    let text = finding.text.lines().next().unwrap_or_default();
    [head.as_bytes(), text].concat().into()
}

fn entry(mode: &str, name: &[u8], id: &ObjectId) -> Vec<u8> {
    [mode.as_bytes(), b" ", name, b"\0", id.as_slice()].concat()
}

#[test]
fn hand_made_trees_and_blobs_are_judged_as_by_git() {
    for (hash, format) in HASHES {
        let mut world = World::new(hash, format);
        let blob = world.store(ObjectKind::Blob, b"");
        world.store_all(ObjectKind::Tree, &corpus::trees(&blob));
        for (name, blobs) in
            [(".gitmodules", corpus::gitmodules()), (".gitattributes", corpus::gitattributes())]
        {
            let ids = world.store_all(ObjectKind::Blob, &blobs);
            let trees: Vec<_> = ids.iter().map(|id| entry("100644", name.as_bytes(), id)).collect();
            world.store_all(ObjectKind::Tree, &trees);
        }
        let (compared, _) = world.compare();
        println!("{format}: {compared} objects agree");
        assert!(compared > 600, "{compared}");
    }
}

#[test]
fn hand_made_commits_and_tags_are_judged_as_by_git() {
    for (hash, format) in HASHES {
        let mut world = World::new(hash, format);
        let blob = world.store(ObjectKind::Blob, b"");
        let tree = world.store(ObjectKind::Tree, b"");
        world.store_all(ObjectKind::Commit, &corpus::commits(&tree));
        world.store_all(ObjectKind::Tag, &corpus::tags(&blob));
        let (compared, unparsed) = world.compare();
        println!("{format}: {compared} commits and tags agree, and {} more", unparsed.len());

        // What git's fsck cannot parse `git hash-object` still has something to say about, up to
        // the first finding.
        let fsck = Fsck::new(FsckOptions::strict(hash));
        for id in &unparsed {
            let (kind, data) = &world.objects[id];
            let made = world.git(&["hash-object", "-t", kind.as_str(), "--stdin"], data);
            let theirs =
                made.stderr.lines().find_map(|l| l.strip_prefix(b"error: object fails fsck: "));
            let mut found = Vec::new();
            fsck.check(*kind, id, data, &mut SpecialBlobs::new(), &mut |f| found.push(f));
            let ours = found.first().map(said);
            assert_eq!(ours, theirs.map(BString::from), "{:?}", data.as_bstr());
        }
    }
}

/// The lines that git prints of objects on receipt.
fn lines(output: &Output) -> Vec<BString> {
    let is_finding =
        |line: &&[u8]| line.starts_with(b"error: object ") || line.starts_with(b"warning: object ");
    output.stderr.lines().filter(is_finding).map(BString::from).collect()
}

#[test]
fn a_pack_on_receipt_gets_the_lines_of_git() {
    let mut world = World::new(HashKind::Sha1, "sha1");
    let blob = world.store(ObjectKind::Blob, b"x");
    let tree = world.tree(&[("100644", "a", blob)]);
    let commit = |author: &str| {
        format!("tree {tree}\nauthor {author} 1 +0000\ncommitter A <a> 1 +0000\n\nx\n")
    };
    let modules = |text: &str| text.as_bytes().to_vec();
    let mut packs: Vec<Vec<ObjectId>> = Vec::new();
    for data in [commit("A <a@b>"), commit("A a@b"), commit("A <a"), commit("A <a> 2") + "\0"] {
        let id = world.store(ObjectKind::Commit, data.as_bytes());
        packs.push(vec![id]);
    }
    for (mode, name) in [
        ("100644", ".git"),
        ("040000", "d"),
        ("100664", "a"),
        ("120000", ".gitmodules"),
        ("120000", ".mailmap"),
        ("120000", "gitatt~1"),
        ("100644", "a/b"),
    ] {
        let target = if mode == "040000" { tree } else { blob };
        packs.push(vec![world.tree(&[(mode, name, target)])]);
    }
    for text in [
        "[submodule \"a\"]\nurl = -x\n",
        "[submodule \"..\"]\npath = -y\nupdate = !z\n",
        "[submodule \"a\"]\nurl = \"./%0ax\\n\\b\"\n",
        "[x",
        "[submodule \"x\"]\nurl = -x\n[x",
    ] {
        let id = world.store(ObjectKind::Blob, &modules(text));
        let tree = world.tree(&[("100644", ".gitmodules", id)]);
        packs.push(vec![id, tree]);
        // The blob is in the repository already, and the tree is all that comes.
        packs.push(vec![tree]);
    }
    let data = format!("object {blob}\ntype blob\ntag a b\n\nno tagger\n");
    packs.push(vec![world.store(ObjectKind::Tag, data.as_bytes())]);
    let data = format!("object {blob}\ntype blob\ntag a\ntagger A <a> 1 +0000\nx y\n\nextra\n");
    packs.push(vec![world.store(ObjectKind::Tag, data.as_bytes())]);

    let settings = [
        "",
        "missingemail=warn",
        "missingEmail=ignore,badfilemode=error",
        "hasdotgit=warn",
        "gitmodulesurl=warn,gitmodulesname=ignore,gitmodulesparse=error",
        "nulincommit=warn",
        "missingtaggerentry=error",
        "extraheaderentry=warn,badtagname=error",
        "fullpathname=ignore",
        "zeropaddedfilemode=warn,gitmodulessymlink=warn",
        "bademail=warn",
    ];
    let mut compared = 0;
    for ids in &packs {
        let pack = world.pack(ids);
        let mut plain = None;
        for setting in settings {
            let strict = if setting.is_empty() {
                "--strict".to_owned()
            } else {
                format!("--strict={setting}")
            };
            let mut options = FsckOptions::strict(HashKind::Sha1);
            for pair in setting.split(',').filter(|pair| !pair.is_empty()) {
                let (id, level) = pair.split_once('=').unwrap();
                options.set(id, level).unwrap();
            }
            let all = world.objects.clone();
            let mut sent =
                World { dir: tempfile::tempdir().unwrap(), hash: world.hash, objects: all };
            sent.objects.retain(|id, (kind, _)| *kind == ObjectKind::Blob || ids.contains(id));
            let ours = sent.our_fsck(options, false);
            if *plain.get_or_insert_with(|| ours.clone()) == ours && !setting.is_empty() {
                // The setting is about something else.
                continue;
            }
            let is_refused = ours.iter().any(|finding| finding.severity == Severity::Error);
            // Of a text with line feeds only the first line is known for one of ours.
            let first_line = |finding: &Finding| finding.line().lines().next().map(BString::from);
            let wanted: Vec<_> = ours.iter().filter_map(first_line).collect();
            let programs: &[&str] = if setting.is_empty() {
                &["index-pack", "unpack-objects"]
            } else {
                &["index-pack"]
            };
            for &program in programs {
                let mut args = vec![program, &strict];
                if program == "index-pack" {
                    args.push("--stdin");
                }
                let output = world.git(&args, &pack);
                let shown = output.stderr.as_bstr();
                assert_eq!(lines(&output), wanted, "{program} {strict}: {shown}");
                assert_eq!(output.status.success(), !is_refused, "{program} {strict}: {shown}");
                compared += 1;
            }
        }
    }
    println!("{compared} packs agree");
}

#[test]
fn an_object_on_the_skip_list_is_not_heard_of() {
    let mut world = World::new(HashKind::Sha1, "sha1");
    let blob = world.store(ObjectKind::Blob, b"[submodule \"x\"]\nurl = -x\n");
    let tree = world.tree(&[("100644", ".git", blob), ("100644", ".gitmodules", blob)]);
    let pack = world.pack(&[blob, tree]);
    for (skipped, refused) in [(vec![], 2), (vec![tree], 1), (vec![blob], 1), (vec![tree, blob], 0)]
    {
        let list: String =
            skipped.iter().flat_map(|id| [id.to_string(), " # known\n\n".into()]).collect();
        std::fs::write(world.dir.path().join("list"), &list).unwrap();
        let output = world.git(&["index-pack", "--strict=skiplist=list", "--stdin"], &pack);
        let mut options = FsckOptions::strict(HashKind::Sha1);
        options.read_skip_list(list.as_bytes()).unwrap();
        let ours = world.our_fsck(options, false);
        assert_eq!(ours.len(), refused);
        // git stops at the first object that it refuses.
        assert_eq!(lines(&output).first().cloned(), ours.first().map(Finding::line));
        assert_eq!(output.status.success(), refused == 0);
    }
}

#[test]
fn configuration_is_refused_in_the_words_of_git() {
    let world = World::new(HashKind::Sha1, "sha1");
    for (id, level) in [
        ("unterminatedheader", "warn"),
        ("nulinheader", "ignore"),
        ("badtree", "nonsense"),
        ("largepathname", "warn:10"),
        ("whatever", "error"),
        ("missingemail", "warn"),
    ] {
        let setting = format!("receive.fsck.{id}={level}");
        let mut options = FsckOptions::strict(HashKind::Sha1);
        let ours = options.set(id, level).err().map(|error| error.to_string());
        let output = world.git(&["-c", &setting, "receive-pack", "."], b"0000");
        let said = output.stderr.as_bstr();
        match ours {
            // This one is index-pack's to say.
            Some(text) if text.starts_with("Cannot demote") => {
                assert_eq!(said, "");
                let strict = format!("--strict={id}={level}");
                let output = world.git(&["index-pack", &strict, "--stdin"], b"");
                assert!(output.stderr.contains_str(&text), "{}", output.stderr.as_bstr());
            }
            Some(text) => assert!(said.contains_str(&text), "{text}: {said}"),
            None => assert_eq!(said, ""),
        }
    }
}

#[test]
fn what_git_overlooks_is_found() {
    let mut world = World::new(HashKind::Sha1, "sha1");
    let evil = b"[submodule \"x\"]\nurl = -x\n";
    let hidden = [
        // git stops at this byte.
        [b"# \xff\n", &evil[..]].concat(),
        // git does not know this mark here.
        [b"\xef\xbb\xbf", &evil[..]].concat(),
    ];
    for id in world.store_all(ObjectKind::Blob, &hidden) {
        world.store(ObjectKind::Tree, &entry("100644", b".gitmodules", &id));
    }
    let (theirs, _) = world.git_fsck();
    let ours = world.our_fsck(FsckOptions::strict(HashKind::Sha1), false);
    let is_url = |text: &[u8]| text.starts_with(b"gitmodulesUrl: ");
    assert!(!theirs.iter().any(|(_, _, text)| is_url(text)), "git has learned it");
    assert_eq!(ours.iter().filter(|finding| is_url(&said(finding))).count(), 2);

    // git tells of the tagger, and lets the tag in all the same.
    let blob = world.store(ObjectKind::Blob, b"x");
    let data = format!("object {blob}\ntype blob\ntag a\ntagger A\nx y\n\nz\n");
    let tag = world.store(ObjectKind::Tag, data.as_bytes());
    let output = world.git(&["index-pack", "--strict", "--stdin"], &world.pack(&[tag]));
    let ours = world.our_fsck(FsckOptions::strict(HashKind::Sha1), false);
    let ours: Vec<_> = ours.iter().filter(|finding| finding.object == tag).collect();
    assert_eq!(ours.iter().map(|finding| finding.line()).collect::<Vec<_>>(), lines(&output));
    assert_eq!(ours[0].severity, Severity::Error);
    assert!(output.status.success(), "git has learned it");
}
