//! What a crash leaves of a record of changes: everything that was flushed, and of the rest what
//! chance decides.
//!
//! The model: bytes of a file survive from its last flush on; a change of a name survives once
//! its directory was flushed afterwards. Without that it may survive or not, but of the changes
//! of one name an earlier one never goes while a later one stays.

use crate::repo::{FileId, Operation};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    /// A file of the record.
    Recorded(FileId),
    /// A file from before it, with its bytes.
    Before(Vec<u8>),
}

/// One change of one name.
#[derive(Clone, Debug)]
struct Change {
    path: PathBuf,
    to: Option<Node>,
    durable: bool,
}

/// What all names stand for, and how that came.
struct Names {
    now: BTreeMap<PathBuf, Node>,
    changes: Vec<Change>,
}

impl Names {
    fn set(&mut self, path: &Path, to: Option<Node>) {
        match &to {
            Some(node) => self.now.insert(path.to_owned(), node.clone()),
            None => self.now.remove(path),
        };
        self.changes.push(Change { path: path.to_owned(), to, durable: false });
    }
}

#[derive(Clone, Debug, Default)]
struct Contents {
    written: Vec<u8>,
    flushed: Vec<u8>,
}

/// Builds in `target` what is left of `root` if the machine dies after `operations`, which began
/// on what `before` holds. `survives` decides about each change that no flush made durable.
pub(super) fn crash(
    before: &Path,
    root: &Path,
    operations: &[Operation],
    target: &Path,
    survives: &mut dyn FnMut() -> bool,
) {
    let mut start = BTreeMap::new();
    read_tree(before, root, &mut start);
    let mut names = Names { now: start.clone(), changes: Vec::new() };
    let mut files: BTreeMap<FileId, Contents> = BTreeMap::new();
    // Open files that are others as well.
    let mut aliases: BTreeMap<FileId, FileId> = BTreeMap::new();
    for operation in operations {
        match operation {
            Operation::CreateDirectory { path } => names.set(path, Some(Node::Directory)),
            Operation::RemoveDirectory { path } | Operation::Unlink { path } => {
                names.set(path, None);
            }
            Operation::CreateFile { file, path } => {
                files.insert(*file, Contents::default());
                names.set(path, Some(Node::Recorded(*file)));
            }
            Operation::OpenFile { file, path } => match names.now.get(path).cloned() {
                Some(Node::Before(bytes)) => {
                    let contents = Contents { written: bytes.clone(), flushed: bytes.clone() };
                    files.insert(*file, contents);
                    // The same file as before, known by another name in the record.
                    if let Some(node) = start.get_mut(path) {
                        *node = Node::Recorded(*file);
                    }
                    names.now.insert(path.clone(), Node::Recorded(*file));
                }
                Some(Node::Recorded(other)) => {
                    let first = *aliases.get(&other).unwrap_or(&other);
                    aliases.insert(*file, first);
                }
                other => panic!("{path:?} reopened: {other:?}"),
            },
            Operation::Write { file, offset, bytes } => {
                let file = aliases.get(file).unwrap_or(file);
                let written = &mut files.get_mut(file).unwrap().written;
                let offset = usize::try_from(*offset).unwrap();
                written.resize(written.len().max(offset + bytes.len()), 0);
                written[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            Operation::Truncate { file, length } => {
                let length = usize::try_from(*length).unwrap();
                files.get_mut(file).unwrap().written.truncate(length);
            }
            Operation::FlushFile { file } => {
                let file = aliases.get(file).unwrap_or(file);
                let contents = files.get_mut(file).unwrap();
                contents.flushed = contents.written.clone();
            }
            Operation::Link { from, to } => {
                let node = names.now.get(from).cloned();
                names.set(to, node);
            }
            Operation::Rename { from, to } => {
                let node = names.now.get(from).cloned();
                names.set(to, node);
                names.set(from, None);
            }
            Operation::FlushDirectory { path } => {
                for change in &mut names.changes {
                    change.durable |= change.path.parent() == Some(path);
                }
            }
            Operation::Freshen { .. } | Operation::Mark(_) => {}
        }
    }
    let left = survivors(start, names.changes, survives);
    write_tree(&left, &files, root, target, survives);
}

/// What all names stand for after the crash.
fn survivors(
    mut left: BTreeMap<PathBuf, Node>,
    changes: Vec<Change>,
    survives: &mut dyn FnMut() -> bool,
) -> BTreeMap<PathBuf, Node> {
    let mut lost: Vec<PathBuf> = Vec::new();
    for change in changes {
        let goes = !change.durable && (lost.contains(&change.path) || !survives());
        if goes {
            lost.push(change.path);
            continue;
        }
        match change.to {
            Some(node) => left.insert(change.path, node),
            None => left.remove(&change.path),
        };
    }
    left
}

fn write_tree(
    left: &BTreeMap<PathBuf, Node>,
    files: &BTreeMap<FileId, Contents>,
    root: &Path,
    target: &Path,
    survives: &mut dyn FnMut() -> bool,
) {
    // Parents sort before what is in them; what has lost its parent is lost.
    for (path, node) in left {
        let there = target.join(path.strip_prefix(root).unwrap());
        if !there.parent().unwrap().is_dir() {
            continue;
        }
        match node {
            Node::Directory if there == target => {}
            Node::Directory => fs::create_dir(there).unwrap(),
            Node::Before(bytes) => fs::write(there, bytes).unwrap(),
            Node::Recorded(file) => {
                let contents = &files[file];
                let all = survives();
                fs::write(there, if all { &contents.written } else { &contents.flushed }).unwrap();
            }
        }
    }
}

/// Reads a tree as it was before, under the paths that it has below `root`.
fn read_tree(before: &Path, root: &Path, into: &mut BTreeMap<PathBuf, Node>) {
    into.insert(root.to_owned(), Node::Directory);
    for entry in fs::read_dir(before).unwrap() {
        let entry = entry.unwrap();
        let path = root.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            read_tree(&entry.path(), &path, into);
        } else {
            into.insert(path, Node::Before(fs::read(entry.path()).unwrap()));
        }
    }
}
