//! Reading an object from its pack, through its chain of deltas.

use super::copies::{Copies, ObjectCopy};
use super::descriptors::Descriptors;
use super::error::{Damage, SnapshotError};
use super::index_file::is_gone;
use super::input::{CopyFault, Input, ScratchPool, damaged, read_fault};
use super::layout::{ReadAt, array};
use super::loose_reader::LooseFile;
use super::pack_list::Packed;
use super::run::PackFile;
use crate::model::{HashKind, ObjectId, ObjectKind};
use crate::pack::delta::{self, DeltaError};
use crate::pack::entry::{Decoded, EntryHeader, EntryKind};
use crate::pack::header::PackHeader;
use std::collections::HashMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the readers of one snapshot share.
#[derive(Debug)]
pub(super) struct ReadState {
    open_packs: Descriptors<OpenPack>,
    pub(super) scratch: ScratchPool,
    bases: Mutex<Bases>,
}

/// A pack that is open, and was found to be the one that its index describes.
#[derive(Debug)]
pub(super) struct OpenPack {
    file: File,
    path: PathBuf,
    /// Where its entries end and its trailer begins.
    end: u64,
}

/// Reads entries of packs.
#[derive(Debug)]
pub(super) struct EntryReader<'a> {
    pub(super) state: &'a ReadState,
    pub(super) copies: &'a Copies<'a>,
    pub(super) hash: HashKind,
    /// The object that is asked for, for messages.
    pub(super) id: &'a ObjectId,
}

/// An entry that was found: its header, and where its data begins.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) pack: Arc<OpenPack>,
    pub(super) kind: EntryKind,
    /// Bytes that its data inflates to.
    pub(super) size: u64,
    data_at: u64,
}

/// The content of an object and its kind.
type Content = (ObjectKind, Arc<Vec<u8>>);

/// Contents of bases, kept for the next delta on them. When it is full, what was not used since it
/// was last full goes.
#[derive(Debug, Default)]
struct Bases {
    young: HashMap<(u64, u64), Content>,
    old: HashMap<(u64, u64), Content>,
    young_bytes: u64,
}

/// Packs that one push holds open at once.
const PACKS_OPEN_MAX: usize = 16;

/// LIMIT: deltas from an object down to its whole base. git writes 4,095 at the most
/// (`pack.depth`), packhouse takes `Limits::delta_depth_max`, 10,000 by default; what is longer
/// goes in a circle.
const DEPTH_MAX: usize = 1 << 16;

/// LIMIT: bytes of base contents that a push keeps from one read for the next, in each of two
/// generations.
const BASES_BYTES_MAX: u64 = 8 << 20;

/// A base larger than this would push all others out.
const BASE_BYTES_MAX: u64 = BASES_BYTES_MAX / 8;

impl EntryReader<'_> {
    /// Kind and size of the object whose entry this is.
    pub(super) fn kind_and_size(&self, packed: &Packed) -> Result<(ObjectKind, u64), CopyFault> {
        let mut size = None;
        let mut at = packed.clone();
        for _ in 0..=DEPTH_MAX {
            if let Some((kind, content)) = self.state.bases().find(&at) {
                return Ok((kind, size.unwrap_or(content.len() as u64)));
            }
            let entry = self.entry(&at)?;
            if let EntryKind::Whole(kind) = entry.kind {
                return Ok((kind, size.unwrap_or(entry.size)));
            }
            if size.is_none() {
                size = Some(self.result_size(&entry)?);
            }
            match self.base_of(&at, &entry)? {
                ObjectCopy::Packed(base) => at = base,
                ObjectCopy::Loose(path) => {
                    let kind = self.open_loose(&path)?.kind;
                    return Ok((kind, size.unwrap_or_default()));
                }
            }
        }
        Err(damaged(&packed.pack.path, Damage::ChainTooLong { depth_max: DEPTH_MAX }))
    }

    /// The object. Neither it nor any base on the way to it is larger than `bytes_max`; there are
    /// two of them in memory at a time, and one delta.
    pub(super) fn read(&self, packed: &Packed, bytes_max: u64) -> Result<Content, CopyFault> {
        let mut deltas: Vec<(Packed, Entry)> = Vec::new();
        let mut at = packed.clone();
        let (kind, mut content) = loop {
            let known = self.state.bases().find(&at);
            if let Some((kind, content)) = known {
                self.check_size(content.len() as u64, bytes_max)?;
                break (kind, content);
            }
            let entry = self.entry(&at)?;
            self.check_size(entry.size, bytes_max)?;
            if let EntryKind::Whole(kind) = entry.kind {
                let content = Arc::new(self.inflate(&entry)?);
                if !deltas.is_empty() {
                    self.state.bases().keep(&at, kind, &content);
                }
                break (kind, content);
            }
            if deltas.len() >= DEPTH_MAX {
                let damage = Damage::ChainTooLong { depth_max: DEPTH_MAX };
                return Err(damaged(&packed.pack.path, damage));
            }
            let base = self.base_of(&at, &entry)?;
            deltas.push((at, entry));
            match base {
                ObjectCopy::Packed(base) => at = base,
                ObjectCopy::Loose(path) => {
                    let loose = self.open_loose(&path)?;
                    self.check_size(loose.size, bytes_max)?;
                    let content = self.state.scratch.with(|scratch| loose.read(scratch))?;
                    break (loose.kind, Arc::new(content));
                }
            }
        };
        while let Some((at, entry)) = deltas.pop() {
            let delta = self.inflate(&entry)?;
            let mut result = Vec::new();
            delta::apply(&content, &delta, bytes_max, &mut result).map_err(
                |error| match error {
                    DeltaError::ResultTooLarge { declared, .. } => {
                        self.too_large(declared, bytes_max)
                    }
                    error => damaged(&at.pack.path, error),
                },
            )?;
            content = Arc::new(result);
            if !deltas.is_empty() {
                self.state.bases().keep(&at, kind, &content);
            }
        }
        Ok((kind, content))
    }

    /// The header of an entry.
    pub(super) fn entry(&self, packed: &Packed) -> Result<Entry, CopyFault> {
        let pack = self.pack(&packed.pack)?;
        let mut header = [0; EntryHeader::BYTES_MAX];
        let rest = pack.end.saturating_sub(packed.offset);
        let len = usize::try_from(rest).map_or(header.len(), |rest| rest.min(header.len()));
        let header = header.get_mut(..len).unwrap_or_default();
        pack.file
            .read_exact_at(header, packed.offset)
            .map_err(|error| read_fault(&pack.path, error))?;
        match EntryHeader::decode(header, self.hash, packed.offset) {
            Ok(Decoded::Complete(EntryHeader { kind, size }, len)) => {
                let data_at = packed.offset.saturating_add(u64::from(len));
                Ok(Entry { pack, kind, size, data_at })
            }
            Ok(Decoded::Incomplete) => Err(damaged(&pack.path, Damage::Truncated)),
            Err(error) => Err(damaged(&pack.path, error)),
        }
    }

    /// Inflates the data of an entry.
    fn inflate(&self, entry: &Entry) -> Result<Vec<u8>, CopyFault> {
        self.state
            .scratch
            .with(|scratch| scratch.inflate(entry.input(), entry.size, &entry.pack.path))
            .map(|(content, _)| content)
    }

    /// Inflates the data of an entry in chunks, handing out both the stream and what is in it,
    /// until `sink` has had enough.
    pub(super) fn stream(
        &self,
        entry: &Entry,
        raw: impl FnMut(&[u8]),
        sink: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), CopyFault> {
        let (input, path) = (entry.input(), &entry.pack.path);
        self.state
            .scratch
            .with(|scratch| scratch.inflate_chunks(input, entry.size, path, raw, sink))
            .map(|_| ())
    }

    /// The size of the object that a delta makes.
    fn result_size(&self, entry: &Entry) -> Result<u64, CopyFault> {
        let path = &entry.pack.path;
        let prefix = self.state.scratch.with(|scratch| scratch.prefix(entry.input(), path))?;
        let header = delta::header(&prefix).map_err(|error| damaged(path, error))?;
        Ok(header.result_size)
    }

    fn base_of(&self, packed: &Packed, entry: &Entry) -> Result<ObjectCopy, CopyFault> {
        match entry.kind {
            EntryKind::OfsDelta { base_offset } => {
                let pack = Arc::clone(&packed.pack);
                Ok(ObjectCopy::Packed(Packed { pack, offset: base_offset }))
            }
            EntryKind::RefDelta { base } => self
                .copies
                .base_for(&base, packed.pack.number)
                .map_err(CopyFault::Other)?
                .ok_or_else(|| damaged(&packed.pack.path, Damage::BaseMissing { base })),
            EntryKind::Whole(_) => Ok(ObjectCopy::Packed(packed.clone())),
        }
    }

    fn open_loose(&self, path: &std::path::Path) -> Result<LooseFile, CopyFault> {
        self.state.scratch.with(|scratch| LooseFile::open(path, self.copies.disk, scratch))
    }

    fn pack(&self, pack: &PackFile) -> Result<Arc<OpenPack>, CopyFault> {
        self.state.open_packs.file(pack.number, || self.open_pack(pack))
    }

    /// Opens a pack and looks whether it is the one that its index describes: one of the same
    /// name may have come in its place, whose objects are at other offsets.
    fn open_pack(&self, pack: &PackFile) -> Result<OpenPack, CopyFault> {
        let path = &pack.path;
        let file = match self.copies.disk.open(path) {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Err(CopyFault::Gone),
            Err(error) => return Err(CopyFault::Other(SnapshotError::io(path, error))),
        };
        let trailer_bytes = self.hash.len_in_bytes();
        let fault = |error| read_fault(path, error);
        let end = file.metadata().map_err(fault)?.len().checked_sub(trailer_bytes as u64);
        let end = end.ok_or_else(|| damaged(path, Damage::Truncated))?;
        PackHeader::decode(&array(&file, 0).map_err(fault)?).map_err(|e| damaged(path, e))?;
        if let Some(expected) = pack.checksum.get() {
            let mut trailer = vec![0; trailer_bytes];
            ReadAt::read_exact_at(&file, &mut trailer, end).map_err(fault)?;
            match ObjectId::try_from(&trailer[..]) {
                Ok(actual) if actual != *expected => {
                    let damage = Damage::OtherPack { expected: *expected, actual };
                    return Err(damaged(path, damage));
                }
                _ => {}
            }
        }
        Ok(OpenPack { file, path: path.clone(), end })
    }

    fn check_size(&self, size: u64, bytes_max: u64) -> Result<(), CopyFault> {
        if size > bytes_max { Err(self.too_large(size, bytes_max)) } else { Ok(()) }
    }

    fn too_large(&self, size: u64, bytes_max: u64) -> CopyFault {
        CopyFault::Other(SnapshotError::TooLarge { id: *self.id, size, bytes_max })
    }
}

impl Default for ReadState {
    fn default() -> Self {
        Self {
            open_packs: Descriptors::new(PACKS_OPEN_MAX),
            scratch: ScratchPool::default(),
            bases: Mutex::default(),
        }
    }
}

impl ReadState {
    fn bases(&self) -> MutexGuard<'_, Bases> {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn input(&self) -> Input<'_> {
        Input::new(&self.pack.file, self.data_at, self.pack.end)
    }
}

impl Bases {
    fn find(&mut self, at: &Packed) -> Option<Content> {
        let key = (at.pack.number, at.offset);
        if let Some(content) = self.young.get(&key) {
            return Some(content.clone());
        }
        let (kind, content) = self.old.remove(&key)?;
        self.keep(at, kind, &content);
        Some((kind, content))
    }

    fn keep(&mut self, at: &Packed, kind: ObjectKind, content: &Arc<Vec<u8>>) {
        let bytes = content.len() as u64;
        if bytes > BASE_BYTES_MAX {
            return;
        }
        if self.young_bytes.saturating_add(bytes) > BASES_BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        let key = (at.pack.number, at.offset);
        if self.young.insert(key, (kind, Arc::clone(content))).is_none() {
            self.young_bytes += bytes;
        }
    }
}
