//! Objects and packs made by hand, byte by byte.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use sha1::{Digest, Sha1};
use std::io::Write;

/// An id as hex digits.
pub type Id = String;

/// The null id.
pub const ZERO: &str = "0000000000000000000000000000000000000000";

/// An object by kind and content.
#[derive(Clone, Debug)]
pub struct Object {
    pub kind: &'static str,
    pub data: Vec<u8>,
}

impl Object {
    pub fn id(&self) -> Id {
        let mut hasher = Sha1::new();
        hasher.update(format!("{} {}\0", self.kind, self.data.len()));
        hasher.update(&self.data);
        hex(&hasher.finalize())
    }
}

pub fn blob(data: impl Into<Vec<u8>>) -> Object {
    Object { kind: "blob", data: data.into() }
}

/// A tree of `(mode, name, id)` entries, in the order given.
pub fn tree(entries: &[(&str, &str, &str)]) -> Object {
    let mut data = Vec::new();
    for (mode, name, id) in entries {
        data.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        data.extend_from_slice(&unhex(id));
    }
    Object { kind: "tree", data }
}

pub fn commit(tree: &str, parents: &[&str], message: &str) -> Object {
    let mut text = format!("tree {tree}\n");
    for parent in parents {
        text.push_str(&format!("parent {parent}\n"));
    }
    text.push_str("author a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n\n");
    text.push_str(message);
    text.push('\n');
    Object { kind: "commit", data: text.into_bytes() }
}

pub fn tag(target: &str, kind: &str, name: &str) -> Object {
    let text =
        format!("object {target}\ntype {kind}\ntag {name}\ntagger a <a@b> 1700000000 +0000\n\nt\n");
    Object { kind: "tag", data: text.into_bytes() }
}

/// A commit with one file, and the objects it needs.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub commit: Object,
    pub tree: Object,
    pub blob: Object,
}

impl Snapshot {
    /// `content` in a file `f`, on top of `parents`.
    pub fn new(content: &str, parents: &[&str]) -> Self {
        let blob = blob(content);
        let tree = tree(&[("100644", "f", &blob.id())]);
        let commit = commit(&tree.id(), parents, "m");
        Self { commit, tree, blob }
    }

    pub fn id(&self) -> Id {
        self.commit.id()
    }

    /// The three objects as a pack.
    pub fn pack(&self) -> Vec<u8> {
        pack(&[entry(&self.blob), entry(&self.tree), entry(&self.commit)])
    }
}

/// Two commits, one on top of the other, whose blobs make a good delta.
pub fn two_commits() -> (Snapshot, Snapshot) {
    let text = "hello\n".repeat(50);
    let first = Snapshot::new(&text, &[]);
    let second = Snapshot::new(&format!("{text}more\n"), &[&first.id()]);
    (first, second)
}

/// The second of [`two_commits`] as a thin pack: its blob is a delta of the first's.
pub fn thin_pack(first: &Snapshot, second: &Snapshot) -> Vec<u8> {
    pack(&[
        ref_delta(&first.blob.id(), &first.blob.data, &second.blob.data),
        entry(&second.tree),
        entry(&second.commit),
    ])
}

/// A pack with a right count and trailer.
pub fn pack(entries: &[Vec<u8>]) -> Vec<u8> {
    pack_claiming(entries, u32::try_from(entries.len()).unwrap(), 2)
}

/// A pack that claims any count and version.
pub fn pack_claiming(entries: &[Vec<u8>], count: u32, version: u32) -> Vec<u8> {
    let mut bytes = b"PACK".to_vec();
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&count.to_be_bytes());
    for entry in entries {
        bytes.extend_from_slice(entry);
    }
    let trailer = Sha1::digest(&bytes);
    bytes.extend_from_slice(&trailer);
    bytes
}

/// A whole object as a pack entry.
pub fn entry(object: &Object) -> Vec<u8> {
    let kind = match object.kind {
        "commit" => 1,
        "tree" => 2,
        "blob" => 3,
        "tag" => 4,
        other => panic!("no object kind '{other}'"),
    };
    let mut bytes = entry_header(kind, object.data.len());
    bytes.extend_from_slice(&deflate(&object.data));
    bytes
}

/// `target` as a delta of the object `base`, whose content is `source`.
pub fn ref_delta(base: &str, source: &[u8], target: &[u8]) -> Vec<u8> {
    let delta = delta(source, target);
    let mut bytes = entry_header(7, delta.len());
    bytes.extend_from_slice(&unhex(base));
    bytes.extend_from_slice(&deflate(&delta));
    bytes
}

/// `target` as a delta of the entry `distance` bytes before.
pub fn ofs_delta(distance: usize, source: &[u8], target: &[u8]) -> Vec<u8> {
    let delta = delta(source, target);
    let mut bytes = entry_header(6, delta.len());
    bytes.extend_from_slice(&offset_distance(distance));
    bytes.extend_from_slice(&deflate(&delta));
    bytes
}

/// A delta that copies what the two have in common at the start and inserts the rest.
pub fn delta(source: &[u8], target: &[u8]) -> Vec<u8> {
    let common = source.iter().zip(target).take_while(|(a, b)| a == b).count().min(0xffff);
    let mut bytes = varint(source.len());
    bytes.extend_from_slice(&varint(target.len()));
    if common > 0 {
        let length = u16::try_from(common).unwrap().to_le_bytes();
        bytes.extend_from_slice(&[0xb0, length[0], length[1]]);
    }
    for piece in target[common..].chunks(127) {
        bytes.push(u8::try_from(piece.len()).unwrap());
        bytes.extend_from_slice(piece);
    }
    bytes
}

pub fn entry_header(kind: u8, size: usize) -> Vec<u8> {
    let mut size = size;
    let mut byte = (kind << 4) | (size & 15) as u8;
    size >>= 4;
    let mut bytes = Vec::new();
    while size > 0 {
        bytes.push(byte | 128);
        byte = (size & 127) as u8;
        size >>= 7;
    }
    bytes.push(byte);
    bytes
}

pub fn varint(mut size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while size > 127 {
        bytes.push((size & 127) as u8 | 128);
        size >>= 7;
    }
    bytes.push(size as u8);
    bytes
}

/// How far back a base is, as git writes it.
pub fn offset_distance(mut distance: usize) -> Vec<u8> {
    let mut bytes = vec![(distance & 127) as u8];
    distance >>= 7;
    while distance > 0 {
        distance -= 1;
        bytes.insert(0, (distance & 127) as u8 | 128);
        distance >>= 7;
    }
    bytes
}

pub fn deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// Bytes that no deflate makes smaller.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}
