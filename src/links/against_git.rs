//! The same odd objects to `git rev-list --objects` and to us: the same ones must be walked.

use super::links;
use crate::model::{HashKind, ObjectId, ObjectKind};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn git(dir: &Path, args: &[&str], input: &[u8]) -> Option<String> {
    let mut child = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

fn entry(mode: &str, name: &str, id: &ObjectId) -> Vec<u8> {
    [mode.as_bytes(), b" ", name.as_bytes(), b"\0", id.as_slice()].concat()
}

fn commits(tree: &ObjectId, blob: &ObjectId, parent: &ObjectId) -> Vec<String> {
    vec![
        format!("tree {tree}\n"),
        format!("tree {tree}\n\n"),
        format!("tree {tree}"),
        format!("tree {tree}\nparent {parent}\n\n"),
        format!("tree {tree}\nparent {parent}\n"),
        format!("tree {tree}\nparent {parent}"),
        format!("tree {tree}\nparent {}\n", &parent.to_string()[1..]),
        format!("tree {tree}\nparent {}\nauthor a\n", &parent.to_string()[1..]),
        format!("tree {tree}\nparent {parent}\nparent {parent}\nauthor a <b> 1 +0000\n\nx"),
        format!("tree {}\nparent {parent}\n", tree.to_string().to_uppercase()),
        format!("tree {tree} \nauthor a\n"),
        format!("tree {tree}\nauthor a\nparent nonsense\n"),
        format!("tree {tree}\n\nparent nonsense\n"),
        format!("\ntree {tree}\n"),
        format!("tree {blob}"),
        "author a <b> 1 +0000\n".to_owned(),
    ]
}

fn tags(tree: &ObjectId) -> Vec<String> {
    let head = format!("object {tree}\ntype tree\n");
    vec![
        format!("{head}tag v1\n"),
        format!("{head}tag v1"),
        format!("{head}tag \n"),
        format!("{head}tag v\n\ntext"),
        format!("{head}tagger t\n"),
        format!("{head}\ntag v1\n"),
        format!("{head}tag v1\ntagger nonsense\n"),
        format!("object {tree}\ntype thing\ntag v1\n"),
        format!("object {tree}\ntype \ntag v1\ntagger t\n"),
        format!("object {tree}\ntag v1\ntype tree\n"),
        format!("object {tree} \ntype tree\ntag v1\n"),
        format!("object {}\ntype tree\ntag v1\n", tree.to_string().to_uppercase()),
        format!("type tree\nobject {tree}\ntag v1\n"),
    ]
}

fn trees(tree: &ObjectId, blob: &ObjectId, missing: &ObjectId) -> Vec<Vec<u8>> {
    let file = entry("100644", "a", blob);
    vec![
        Vec::new(),
        file.clone(),
        file[..file.len() - 1].to_vec(),
        [&file[..], &file[..10]].concat(),
        [&file[..], b"1"].concat(),
        [entry("40000", "d", tree), file.clone()].concat(),
        entry("040000", "d", tree),
        entry("100644", "", blob),
        entry("", "a", blob),
        entry("10064x", "a", blob),
        entry("100848", "a", blob),
        entry("0", "a", missing),
        entry("644", "a", missing),
        entry("60000", "a", missing),
        entry("160000", "a", missing),
        entry("777777100664", "a", blob),
        entry("777777040000", "a", tree),
        entry("120000", "a", blob),
        entry("100644", "a\nb/..", blob),
        [&b"100644 a"[..], blob.as_slice()].concat(),
        b"100644 a\0".to_vec(),
    ]
}

#[test]
fn git_walks_an_object_if_and_only_if_its_links_can_be_read() {
    for (hash, format) in [(HashKind::Sha1, "sha1"), (HashKind::Sha256, "sha256")] {
        let dir = tempfile::tempdir().unwrap();
        let run = |args: &[&str], input: &[u8]| git(dir.path(), args, input);
        run(&["init", "-q", "--bare", "--object-format", format], b"").unwrap();
        let store = |kind: &str, data: &[u8]| {
            let args = ["hash-object", "-w", "--literally", "-t", kind, "--stdin"];
            let id = run(&args, data).unwrap();
            ObjectId::from_hex(id.trim().as_bytes()).unwrap()
        };
        let (blob, tree) = (store("blob", b""), store("tree", b""));
        let parent = store("commit", format!("tree {tree}\n\n").as_bytes());
        let missing = ObjectId::try_from(&vec![0x11; hash.len_in_bytes()][..]).unwrap();
        let bytes = |texts: Vec<String>| texts.into_iter().map(String::into_bytes).collect();
        let cases: [(ObjectKind, Vec<Vec<u8>>); 3] = [
            (ObjectKind::Commit, bytes(commits(&tree, &blob, &parent))),
            (ObjectKind::Tag, bytes(tags(&tree))),
            (ObjectKind::Tree, trees(&tree, &blob, &missing)),
        ];
        for (kind, data) in cases.iter().flat_map(|(kind, all)| all.iter().map(|d| (*kind, d))) {
            let id = store(kind.as_str(), data);
            let walked = run(&["rev-list", "--objects", &id.to_string()], b"");
            let read: Result<Vec<_>, _> = links(kind, data, hash).collect();
            let shown = String::from_utf8_lossy(data);
            assert_eq!(walked.is_some(), read.is_ok(), "{kind}: {shown:?}, {read:?}");
            let (Some(walked), Ok(read)) = (walked, read) else { continue };
            for link in read {
                let id = link.id.to_string();
                assert!(walked.contains(&id), "{kind}: {shown:?}, {id}");
            }
        }
    }
}
