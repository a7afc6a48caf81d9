//! A disk in memory: loads a directory, plays changes on it, and writes it out again.

use packhouse::repo::{FileId, Operation};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The state of a disk below one directory.
#[derive(Clone, Debug)]
pub struct Replay {
    root: PathBuf,
    nodes: HashMap<u64, Node>,
    next: u64,
    files: HashMap<FileId, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Node {
    File(Vec<u8>),
    Directory(BTreeMap<String, u64>),
}

/// What one change does, with nodes in the place of paths: a path may lead elsewhere once another
/// change is left out.
#[derive(Clone, Debug)]
enum Effect {
    Link { directory: u64, name: String, node: u64, blank: Node },
    Move { from: (u64, String), to: (u64, String), node: u64, blank: Node },
    Remove { directory: u64, name: String },
    Write { node: u64, offset: u64, bytes: Vec<u8> },
    Nothing,
}

const ROOT: u64 = 0;

impl Replay {
    /// Reads a directory.
    pub fn load(root: &Path) -> Self {
        let nodes = HashMap::from([(ROOT, Node::Directory(BTreeMap::new()))]);
        let mut replay = Self { root: root.to_owned(), nodes, next: 1, files: HashMap::new() };
        replay.load_into(root, ROOT);
        replay
    }

    fn load_into(&mut self, path: &Path, node: u64) {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let is_directory = entry.file_type().unwrap().is_dir();
            let child = if is_directory {
                self.add(Node::Directory(BTreeMap::new()))
            } else {
                self.add(Node::File(fs::read(entry.path()).unwrap()))
            };
            self.entries(node).insert(name, child);
            if is_directory {
                self.load_into(&entry.path(), child);
            }
        }
    }

    /// Writes the state out to a directory that does not exist.
    pub fn materialize(&self, target: &Path) {
        self.write_out(ROOT, target);
    }

    fn write_out(&self, node: u64, target: &Path) {
        match &self.nodes[&node] {
            Node::File(bytes) => fs::write(target, bytes).unwrap(),
            Node::Directory(entries) => {
                fs::create_dir(target).unwrap();
                for (name, child) in entries {
                    self.write_out(*child, &target.join(name));
                }
            }
        }
    }

    /// Shows `look` every different state in which a crash at any moment of `record` can leave the
    /// disk, with the number of changes before the crash.
    pub fn every_crash(&self, record: &[Operation], look: impl FnMut(usize, &str, &Self)) {
        self.every_crash_after(0, record, look);
    }

    /// The same for crashes after so many changes and more.
    pub fn every_crash_after(
        &self,
        begin: usize,
        record: &[Operation],
        mut look: impl FnMut(usize, &str, &Self),
    ) {
        let (effects, files) = self.clone().effects(record);
        let mut seen = HashSet::new();
        for end in begin..=record.len() {
            let loose: Vec<usize> =
                (0..end).filter(|at| !is_durable(record, &files, *at, end)).collect();
            let mut choices = vec![("nothing is lost".to_owned(), HashSet::new())];
            choices
                .push(("all that was not flushed is lost".into(), loose.iter().copied().collect()));
            for at in &loose {
                let lost = HashSet::from([*at]);
                choices.push((format!("only {} is lost", shown(&record[*at])), lost));
                let others = loose.iter().copied().filter(|other| other != at).collect();
                choices.push((format!("only {} is not lost", shown(&record[*at])), others));
            }
            let acknowledged =
                record[..end].iter().any(|change| matches!(change, Operation::Mark(_)));
            for (what, lost) in choices {
                let mut state = self.clone();
                for (at, effect) in effects[..end].iter().enumerate() {
                    if !lost.contains(&at) {
                        state.apply(effect);
                    }
                }
                if seen.insert((acknowledged, state.fingerprint(ROOT))) {
                    look(end, &format!("after {end} changes, {what}"), &state);
                }
            }
        }
    }

    /// Plays the whole record and notes what each change does, and which file each open file is.
    fn effects(mut self, record: &[Operation]) -> (Vec<Effect>, HashMap<FileId, u64>) {
        let effects = record
            .iter()
            .map(|operation| {
                let effect = self.effect(operation);
                self.apply(&effect);
                effect
            })
            .collect();
        (effects, self.files)
    }

    fn effect(&mut self, operation: &Operation) -> Effect {
        match operation {
            Operation::CreateDirectory { path } => {
                let node = self.add(Node::Directory(BTreeMap::new()));
                self.link(path, node)
            }
            Operation::CreateFile { file, path } => {
                let node = self.add(Node::File(Vec::new()));
                self.files.insert(*file, node);
                self.link(path, node)
            }
            Operation::OpenFile { file, path } => {
                let node = self.find(path).unwrap();
                self.files.insert(*file, node);
                Effect::Nothing
            }
            Operation::Write { file, offset, bytes } => match self.files.get(file) {
                Some(node) => Effect::Write { node: *node, offset: *offset, bytes: bytes.clone() },
                None => panic!("a write to a file nobody opened"),
            },
            Operation::Truncate { .. } => panic!("no push cuts a file short"),
            Operation::Link { from, to } => {
                let node = self.find(from).unwrap();
                self.link(to, node)
            }
            Operation::Rename { from, to } => {
                let node = self.find(from).unwrap();
                Effect::Move {
                    node,
                    blank: self.blank(node),
                    from: self.place(from),
                    to: self.place(to),
                }
            }
            Operation::Unlink { path } | Operation::RemoveDirectory { path } => {
                let (directory, name) = self.place(path);
                Effect::Remove { directory, name }
            }
            _ => Effect::Nothing,
        }
    }

    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Link { directory, name, node, blank } => {
                self.nodes.entry(*node).or_insert_with(|| blank.clone());
                self.entries(*directory).insert(name.clone(), *node);
            }
            Effect::Move { from, to, node, blank } => {
                self.nodes.entry(*node).or_insert_with(|| blank.clone());
                if self.entries(from.0).get(&from.1) == Some(node) {
                    self.entries(from.0).remove(&from.1);
                }
                self.entries(to.0).insert(to.1.clone(), *node);
            }
            Effect::Remove { directory, name } => {
                self.entries(*directory).remove(name);
            }
            Effect::Write { node, offset, bytes } => {
                let content = match self.nodes.entry(*node).or_insert(Node::File(Vec::new())) {
                    Node::File(content) => content,
                    Node::Directory(_) => panic!("bytes written to a directory"),
                };
                let offset = usize::try_from(*offset).unwrap();
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[offset..end].copy_from_slice(bytes);
            }
        }
    }

    /// The entries of a directory, which may have been made by a change that this state lacks.
    fn entries(&mut self, node: u64) -> &mut BTreeMap<String, u64> {
        match self.nodes.entry(node).or_insert_with(|| Node::Directory(BTreeMap::new())) {
            Node::Directory(entries) => entries,
            Node::File(_) => panic!("a file used as a directory"),
        }
    }

    /// The node as it was when it was made.
    fn blank(&self, node: u64) -> Node {
        match &self.nodes[&node] {
            Node::File(_) => Node::File(Vec::new()),
            Node::Directory(_) => Node::Directory(BTreeMap::new()),
        }
    }

    fn link(&mut self, path: &Path, node: u64) -> Effect {
        let (directory, name) = self.place(path);
        Effect::Link { directory, name, node, blank: self.blank(node) }
    }

    fn place(&mut self, path: &Path) -> (u64, String) {
        let parent = path.parent().unwrap();
        let directory = self.find(parent).unwrap_or_else(|| panic!("no {}", parent.display()));
        (directory, path.file_name().unwrap().to_str().unwrap().to_owned())
    }

    fn find(&self, path: &Path) -> Option<u64> {
        let below = path
            .strip_prefix(&self.root)
            .unwrap_or_else(|_| panic!("{} is outside the repository", path.display()));
        let mut at = ROOT;
        for part in below {
            match self.nodes.get(&at)? {
                Node::Directory(entries) => at = *entries.get(part.to_str().unwrap())?,
                Node::File(_) => return None,
            }
        }
        Some(at)
    }

    fn add(&mut self, node: Node) -> u64 {
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, node);
        number
    }

    /// Tells states apart by what is in these entries of the directory.
    pub fn fingerprint_of(&self, names: &[&str]) -> String {
        let part = |name: &&str| self.find(&self.root.join(name)).map(|at| self.fingerprint(at));
        names.iter().map(part).map(Option::unwrap_or_default).collect()
    }

    fn fingerprint(&self, node: u64) -> String {
        match &self.nodes[&node] {
            Node::File(bytes) => format!("{bytes:?}"),
            Node::Directory(entries) => {
                let parts: Vec<String> = entries
                    .iter()
                    .map(|(name, child)| format!("{name:?}:{}", self.fingerprint(*child)))
                    .collect();
                format!("{{{}}}", parts.join(","))
            }
        }
    }
}

/// Whether the change at `at` was made durable by a flush before `end`.
fn is_durable(record: &[Operation], files: &HashMap<FileId, u64>, at: usize, end: usize) -> bool {
    let later = &record[at + 1..end];
    let flushed_directory = |path: &Path| {
        later.iter().any(|operation| match operation {
            Operation::FlushDirectory { path: flushed } => Some(flushed.as_path()) == path.parent(),
            _ => false,
        })
    };
    match &record[at] {
        Operation::Write { file, .. } => {
            let same = |other: &FileId| files.get(other) == files.get(file);
            later.iter().any(|change| matches!(change, Operation::FlushFile { file } if same(file)))
        }
        Operation::CreateDirectory { path }
        | Operation::CreateFile { path, .. }
        | Operation::RemoveDirectory { path }
        | Operation::Unlink { path } => flushed_directory(path),
        Operation::Link { to, .. } | Operation::Rename { to, .. } => flushed_directory(to),
        _ => true,
    }
}

fn shown(operation: &Operation) -> String {
    match operation {
        Operation::Write { file, offset, bytes } => {
            format!("the write of {} bytes at {offset} to file {}", bytes.len(), file.0)
        }
        other => format!("{other:?}"),
    }
}
