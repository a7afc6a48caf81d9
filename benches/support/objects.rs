//! Objects, packs, loose files and requests, made without git: five thousand packs by
//! `git pack-objects` would take minutes.

use super::Outcome;
use packhouse::model::{HashKind, ObjectId, ObjectKind};
use packhouse::pack::checksum::Checksum;
use packhouse::pack::index::write_index;
use packhouse::pack::table::EntryTable;
use packhouse::pack::writer::PackBuilder;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// An object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: ObjectKind,
    pub(crate) content: Vec<u8>,
    pub(crate) id: ObjectId,
}

impl Object {
    pub(crate) fn new(kind: ObjectKind, content: Vec<u8>) -> Self {
        let mut hash = Checksum::new(HashKind::Sha1);
        hash.update(format!("{} {}\0", kind.as_str(), content.len()).as_bytes());
        hash.update(&content);
        Self { kind, id: hash.finish(), content }
    }
}

/// A commit of a tree.
pub(crate) fn commit(tree: ObjectId, parent: Option<ObjectId>, number: usize) -> Object {
    let parent = parent.map(|id| format!("parent {id}\n")).unwrap_or_default();
    let who = format!("A <a@example.org> {} +0000", 1_700_000_000 + number);
    let text = format!("tree {tree}\n{parent}author {who}\ncommitter {who}\n\ncommit {number}\n");
    Object::new(ObjectKind::Commit, text.into_bytes())
}

/// One commit with a tree of three blobs of a kilobyte; the commit is the last of the objects.
pub(crate) fn small_commit(parent: Option<ObjectId>, number: usize) -> Vec<Object> {
    let mut objects: Vec<Object> = (0..3)
        .map(|blob| Object::new(ObjectKind::Blob, text(number * 3 + blob, 1024).into_bytes()))
        .collect();
    let mut tree = Vec::new();
    for (blob, object) in objects.iter().enumerate() {
        tree.extend_from_slice(format!("100644 file-{blob}\0").as_bytes());
        tree.extend_from_slice(object.id.as_slice());
    }
    let tree = Object::new(ObjectKind::Tree, tree);
    let commit = commit(tree.id, parent, number);
    objects.extend([tree, commit]);
    objects
}

/// Text that compresses to about a half.
pub(crate) fn text(seed: usize, bytes: usize) -> String {
    let mut state = seed as u64 + 1;
    let mut text = String::new();
    while text.len() < bytes {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.extend([format!("{:08x}\n", state >> 32)]);
    }
    text.truncate(bytes);
    text
}

/// A pack of these objects.
pub(crate) fn pack(objects: &[Object]) -> Vec<u8> {
    let mut builder = PackBuilder::new(HashKind::Sha1, 1);
    for object in objects {
        builder.whole(object.kind, &object.content);
    }
    builder.finish()
}

/// Writes a pack of these objects and its index into a directory of packs.
pub(crate) fn write_pack(directory: &Path, objects: &[Object]) -> Outcome<()> {
    let mut builder = PackBuilder::new(HashKind::Sha1, 1);
    let offsets: Vec<u64> =
        objects.iter().map(|object| builder.whole(object.kind, &object.content)).collect();
    let bytes = builder.finish();
    let behind = bytes.len() - HashKind::Sha1.len_in_bytes();
    let checksum = ObjectId::try_from(bytes.get(behind..).unwrap_or_default())?;
    let ends = offsets.iter().skip(1).copied().chain([behind as u64]);
    let mut table = EntryTable::new(HashKind::Sha1);
    for ((object, begin), end) in objects.iter().zip(&offsets).zip(ends) {
        let raw = bytes.get(usize::try_from(*begin)?..usize::try_from(end)?).unwrap_or_default();
        let place = table.push(*begin, crc32fast::hash(raw))?;
        table.set_object(place, object.kind, &object.id);
    }
    let file = |end: &str| directory.join(format!("pack-{checksum}.{end}"));
    fs::write(file("pack"), &bytes)?;
    let mut index = BufWriter::new(File::create(file("idx"))?);
    write_index(&table, &table.by_id(), &checksum, &mut index)?;
    Ok(index.flush()?)
}

/// Writes loose blobs into a directory of objects, that many.
pub(crate) fn write_loose_blobs(directory: &Path, count: usize) -> Outcome<()> {
    for number in 0..256 {
        fs::create_dir_all(directory.join(format!("{number:02x}")))?;
    }
    for number in 0..count {
        let blob = Object::new(ObjectKind::Blob, format!("loose {number}\n").into_bytes());
        let name = blob.id.to_string();
        let (fan_out, rest) = name.split_at(2);
        let mut file = flate2::write::ZlibEncoder::new(
            File::create(directory.join(fan_out).join(rest))?,
            flate2::Compression::fast(),
        );
        write!(file, "blob {}\0", blob.content.len())?;
        file.write_all(&blob.content)?;
        file.finish()?;
    }
    Ok(())
}

/// One line of a command list.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// `None` to create the ref.
    pub(crate) old: Option<ObjectId>,
    pub(crate) new: ObjectId,
    pub(crate) name: String,
}

/// The command list of a push, up to where the pack begins.
pub(crate) fn command_list(wishes: &[Wish]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, wish) in wishes.iter().enumerate() {
        let old = wish.old.unwrap_or_else(|| ObjectId::null(HashKind::Sha1));
        let mut line = format!("{old} {} {}", wish.new, wish.name);
        if number == 0 {
            line.push_str("\0report-status side-band-64k quiet object-format=sha1 agent=bench");
        }
        bytes.extend_from_slice(format!("{:04x}{line}", line.len() + 4).as_bytes());
    }
    bytes.extend_from_slice(b"0000");
    bytes
}
