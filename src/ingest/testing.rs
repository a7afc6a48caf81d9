//! What the tests of this module share: an object store in memory, quarantines, and stock git.

use super::*;
use crate::model::{
    ByteBudget, CancelToken, HashKind, Limits, ObjectId, ObjectKind, Share, UnpackLimit,
};
use crate::pack::writer::Deflater;
use crate::repo::{Disk, NewContent, NewFile, QuarantineDirectory, SharedPermissions};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// An empty quarantine.
pub(super) fn destination() -> (Destination, TempDir) {
    let root = tempfile::tempdir().unwrap();
    let objects_dir = root.path().join("objects");
    std::fs::create_dir(&objects_dir).unwrap();
    let disk = Disk::default();
    let destination = Destination {
        directory: QuarantineDirectory::at(&disk, &objects_dir),
        disk,
        permissions: SharedPermissions::Umask,
        compression: 1,
        held_bytes_max: HELD_BYTES_MAX,
    };
    (destination, root)
}

/// Options that keep every pack.
pub(super) fn keeping(hash: HashKind) -> IngestOptions {
    IngestOptions {
        hash,
        unpack_limit: UnpackLimit(0),
        limits: Limits::default(),
        input_bytes_max: 0,
        thin: true,
        surplus: Surplus::Refuse,
        reverse_index_from: Some(0),
        keep: None,
        threads: 1,
        fsck: None,
        progress: None,
    }
}

/// Options that make as many objects loose as they can.
pub(super) fn unpacking(hash: HashKind) -> IngestOptions {
    IngestOptions { unpack_limit: UnpackLimit(u64::MAX), ..keeping(hash) }
}

/// Objects by id and kind.
pub(super) type Objects = BTreeMap<ObjectId, (ObjectKind, Vec<u8>)>;

/// Existing objects, with faults on demand.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) objects: HashMap<ObjectId, (ObjectKind, Vec<u8>)>,
    /// Objects that are only seen after a refresh.
    pub(super) late: HashSet<ObjectId>,
    /// Objects that are there and cannot be read.
    pub(super) unreadable: HashSet<ObjectId>,
    /// Whether packs hold all objects whole.
    pub(super) compressed: bool,
    /// What a zlib stream of another object does when it is asked for.
    pub(super) compressed_is_wrong: bool,
}

impl Store {
    pub(super) fn with(objects: impl IntoIterator<Item = (ObjectKind, Vec<u8>)>) -> Self {
        let mut store = Self::default();
        for (kind, content) in objects {
            store.add(kind, &content);
        }
        store
    }

    pub(super) fn add(&mut self, kind: ObjectKind, content: &[u8]) -> ObjectId {
        let id = id_of(HashKind::Sha1, kind, content);
        self.objects.insert(id, (kind, content.to_vec()));
        id
    }

    fn get(&self, id: &ObjectId) -> Result<Option<&(ObjectKind, Vec<u8>)>, StoreError> {
        if self.unreadable.contains(id) {
            return Err("injected fault".into());
        }
        Ok(self.objects.get(id))
    }
}

impl ExistingObjects for Store {
    fn contains(&self, id: &ObjectId) -> Result<bool, StoreError> {
        Ok(self.objects.contains_key(id) && !self.late.contains(id))
    }

    fn find(&self, id: &ObjectId, refresh: bool) -> Result<Option<ExistingObject>, StoreError> {
        if self.late.contains(id) && !refresh {
            return Ok(None);
        }
        let found = self.get(id)?;
        Ok(found.map(|(kind, content)| ExistingObject { kind: *kind, size: content.len() as u64 }))
    }

    fn read(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ObjectKind, Vec<u8>)>, StoreError> {
        let found = self.get(id)?.cloned();
        match found {
            Some((_, content)) if content.len() as u64 > bytes_max => Err("too large".into()),
            found => Ok(found),
        }
    }

    fn stream(
        &self,
        id: &ObjectId,
        _: u64,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Option<ExistingObject>, StoreError> {
        let Some((kind, content)) = self.get(id)? else { return Ok(None) };
        let _ = content.chunks(1000).try_for_each(sink);
        Ok(Some(ExistingObject { kind: *kind, size: content.len() as u64 }))
    }

    fn compressed(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ExistingObject, Vec<u8>)>, StoreError> {
        let Some((kind, content)) = self.get(id)?.filter(|_| self.compressed) else {
            return Ok(None);
        };
        let mut stream = Vec::new();
        let content = if self.compressed_is_wrong { b"other" } else { &content[..] };
        Deflater::new(9).append(content, &mut stream);
        let object = ExistingObject { kind: *kind, size: content.len() as u64 };
        Ok(Some((object, stream)).filter(|(_, stream)| stream.len() as u64 <= bytes_max))
    }
}

/// A pack that was taken in, and the quarantine it is in.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) ingested: Ingested,
    pub(super) destination: Destination,
    pub(super) root: TempDir,
}

impl Taken {
    pub(super) fn pack(&self) -> &StoredPack {
        match &self.ingested.stored {
            Stored::Pack(pack) => pack,
            other => panic!("not a pack: {other:?}"),
        }
    }

    pub(super) fn pack_bytes(&self) -> Vec<u8> {
        std::fs::read(self.objects_dir().join(&self.pack().pack)).unwrap()
    }

    pub(super) fn objects_dir(&self) -> &Path {
        self.destination.directory.path().unwrap()
    }

    /// All files below the quarantine, by their path in it.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        files_below(self.objects_dir())
    }

    /// All objects in the quarantine as git reads them.
    pub(super) fn objects(&self, hash: HashKind) -> Objects {
        let repository = self.root.path().join("repository.git");
        init(&repository, hash);
        std::fs::remove_dir_all(repository.join("objects")).unwrap();
        std::fs::rename(self.objects_dir(), repository.join("objects")).unwrap();
        let objects = all_objects(&repository);
        std::fs::rename(repository.join("objects"), self.objects_dir()).unwrap();
        objects
    }
}

/// Takes a pack in.
pub(super) fn take(
    pack: &[u8],
    store: &dyn ExistingObjects,
    options: &IngestOptions,
) -> Result<Taken, IngestError> {
    take_from(&mut &pack[..], store, options)
}

/// Takes a pack in from any input.
pub(super) fn take_from(
    input: &mut dyn Read,
    store: &dyn ExistingObjects,
    options: &IngestOptions,
) -> Result<Taken, IngestError> {
    take_to(destination(), input, store, options)
}

/// Takes a pack in to disk, however small it is.
pub(super) fn take_to_disk(
    pack: &[u8],
    store: &dyn ExistingObjects,
    options: &IngestOptions,
) -> Result<Taken, IngestError> {
    let (destination, root) = destination();
    let destination = Destination { held_bytes_max: 0, ..destination };
    take_to((destination, root), &mut &pack[..], store, options)
}

fn take_to(
    (destination, root): (Destination, TempDir),
    input: &mut dyn Read,
    store: &dyn ExistingObjects,
    options: &IngestOptions,
) -> Result<Taken, IngestError> {
    let cancel = CancelToken::new();
    let share = share(&options.limits);
    let ingested = ingest(input, store, &destination, options, &cancel, share)?;
    write_held(&destination, &ingested.files);
    Ok(Taken { ingested, destination, root })
}

/// Writes what is in memory, as the quarantine would.
fn write_held(destination: &Destination, files: &[NewFile]) {
    for NewFile { name, content } in files {
        if let NewContent::Held(bytes) = content {
            let path = destination.directory.path().unwrap().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }
}

/// A share of a budget that nobody else uses.
pub(super) fn share(limits: &Limits) -> Share<Arc<ByteBudget>> {
    Arc::new(ByteBudget::new(limits.push_memory_bytes())).owned_share()
}

/// The memory of a push that is alone.
pub(super) fn memory(limits: &Limits) -> memory::PushMemory {
    memory::PushMemory::new(share(limits), limits, &CancelToken::new())
}

/// An input that gives its bytes in pieces of the given sizes, over and over.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) sizes: Vec<usize>,
    pub(super) next: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let size = self.sizes[self.next % self.sizes.len()].max(1);
        self.next += 1;
        let len = size.min(room.len()).min(self.bytes.len());
        let (piece, rest) = self.bytes.split_at(len);
        room[..len].copy_from_slice(piece);
        self.bytes = rest;
        Ok(len)
    }
}

pub(super) fn id_of(hash: HashKind, kind: ObjectKind, content: &[u8]) -> ObjectId {
    object_hash::object_id(hash, kind, content).unwrap()
}

pub(super) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(
                files_below(&path)
                    .into_iter()
                    .map(|below| Path::new(path.file_name().unwrap()).join(below)),
            );
        } else {
            files.push(path.file_name().unwrap().into());
        }
    }
    files.sort();
    files
}

/// Runs git in `directory`, with the configuration of nobody.
pub(super) fn git(directory: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // git may stop reading early.
        scope.spawn(move || _ = stdin.write_all(input));
        child.wait_with_output().unwrap()
    })
}

/// Runs git, which must succeed, and gives its output.
pub(super) fn git_ok(directory: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let output = git(directory, arguments, input);
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

pub(super) fn init(repository: &Path, hash: HashKind) {
    let format = format!("--object-format={hash}");
    let parent = repository.parent().unwrap();
    let path = repository.to_str().unwrap();
    git_ok(parent, &["init", "-q", "--bare", "--template=", &format, path], b"");
}

/// Every object of a repository.
pub(super) fn all_objects(repository: &Path) -> Objects {
    let list = ["cat-file", "--batch-all-objects", "--batch"];
    let output = git_ok(repository, &list, b"");
    let mut objects = Objects::new();
    let mut rest = &output[..];
    while !rest.is_empty() {
        let line_end = rest.iter().position(|&byte| byte == b'\n').unwrap();
        let line = std::str::from_utf8(&rest[..line_end]).unwrap();
        let mut words = line.split(' ');
        let id = ObjectId::from_hex(words.next().unwrap().as_bytes()).unwrap();
        let kind = ObjectKind::from_bytes(words.next().unwrap().as_bytes()).unwrap();
        let size: usize = words.next().unwrap().parse().unwrap();
        let (content, tail) = rest[line_end + 1..].split_at(size);
        objects.insert(id, (kind, content.to_vec()));
        rest = &tail[1..];
    }
    objects
}
