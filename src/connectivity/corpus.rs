//! Objects and pushes for tests, in memory.

use super::{
    Connectivity, ConnectivityError, Missing, ObjectSource, RefValues, SourceError, Verdicts,
};
use crate::connectivity::commit_graph::CommitGraph;
use crate::links::{self, Link, NewObjects, links};
use crate::model::{ByteBudget, CancelToken, HashKind, Limit, ObjectId, ObjectKind};
use sha1::Digest as _;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::sync::Arc;

pub(super) const SHA1: HashKind = HashKind::Sha1;

pub(super) const METADATA_BYTES: Limit =
    Limit { name: "metadata_bytes_max", value: 1 << 30, unit: "bytes" };

/// A store of objects that counts what it is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    pub(super) objects: BTreeMap<ObjectId, (ObjectKind, Vec<u8>)>,
    /// Objects that are there but damaged.
    pub(super) damaged: HashSet<ObjectId>,
    /// Looked up for their kind.
    pub(super) lookups: Cell<usize>,
    /// Read.
    pub(super) reads: RefCell<Vec<ObjectId>>,
}

impl Store {
    pub(super) fn put(&mut self, hash: HashKind, kind: ObjectKind, data: Vec<u8>) -> ObjectId {
        let id = id_of(hash, kind, &data);
        self.objects.insert(id, (kind, data));
        id
    }

    pub(super) fn blob(&mut self, text: &str) -> ObjectId {
        self.put(SHA1, ObjectKind::Blob, text.as_bytes().to_vec())
    }

    pub(super) fn tree(&mut self, entries: &[(&str, &str, ObjectId)]) -> ObjectId {
        self.put(SHA1, ObjectKind::Tree, tree_bytes(entries))
    }

    pub(super) fn commit(&mut self, tree: ObjectId, parents: &[ObjectId], date: u64) -> ObjectId {
        self.put(SHA1, ObjectKind::Commit, commit_bytes(tree, parents, date))
    }

    pub(super) fn tag(&mut self, target: ObjectId, kind: ObjectKind, name: &str) -> ObjectId {
        self.put(SHA1, ObjectKind::Tag, tag_bytes(target, kind, name))
    }

    pub(super) fn remove(&mut self, id: &ObjectId) -> (ObjectKind, Vec<u8>) {
        self.objects.remove(id).unwrap()
    }

    /// The objects that this store has and the other has not.
    pub(super) fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.objects.retain(|id, _| !other.objects.contains_key(id));
        rest
    }

    pub(super) fn reads(&self) -> usize {
        self.reads.borrow().len()
    }

    /// What ingest notes of the objects of this store.
    pub(super) fn new_objects(&self, hash: HashKind) -> NewObjects {
        let mut new = NewObjects::new();
        for (id, (kind, data)) in &self.objects {
            new.insert(*id, *kind);
            let named: Result<Vec<Link>, _> = links(*kind, data, hash).collect();
            let Ok(named) = named else {
                new.add_malformed();
                continue;
            };
            if *kind == ObjectKind::Tree {
                for entry in links::tree(data, hash) {
                    new.name_entry(&entry.unwrap());
                }
            } else {
                for link in named {
                    new.name(&link.id, link.kind);
                }
            }
        }
        new
    }
}

impl ObjectSource for Store {
    fn kind(&self, id: &ObjectId) -> Result<Option<ObjectKind>, SourceError> {
        self.lookups.set(self.lookups.get() + 1);
        if self.damaged.contains(id) {
            return Err(SourceError::Damaged("a flipped bit".into()));
        }
        Ok(self.objects.get(id).map(|(kind, _)| *kind))
    }

    fn read(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ObjectKind, Vec<u8>)>, SourceError> {
        self.reads.borrow_mut().push(*id);
        let Some((kind, data)) = self.objects.get(id) else { return Ok(None) };
        assert_ne!(*kind, ObjectKind::Blob, "blobs are never read");
        if data.len() as u64 > bytes_max {
            return Err(SourceError::TooLarge);
        }
        Ok(Some((*kind, data.clone())))
    }
}

/// Refs that note whether they were listed.
#[derive(Clone, Debug, Default)]
pub(super) struct Refs {
    pub(super) old: Vec<ObjectId>,
    pub(super) visible: Vec<ObjectId>,
    pub(super) listed: usize,
}

impl Refs {
    pub(super) fn of(old: &[ObjectId], visible: &[ObjectId]) -> Self {
        Self { old: old.to_vec(), visible: visible.to_vec(), listed: 0 }
    }
}

impl RefValues for Refs {
    fn old_values(&mut self) -> Vec<ObjectId> {
        self.old.clone()
    }

    fn visible(&mut self) -> Result<Vec<ObjectId>, Box<dyn Error + Send + Sync>> {
        self.listed += 1;
        Ok(self.visible.clone())
    }
}

/// A push as it is judged, with everything at its default.
pub(super) struct Push<'a> {
    pub(super) hash: HashKind,
    pub(super) old: &'a dyn ObjectSource,
    pub(super) new: NewObjects,
    pub(super) brought: &'a dyn ObjectSource,
    pub(super) shallow: HashSet<ObjectId>,
    pub(super) graph: Option<Arc<CommitGraph>>,
    pub(super) graph_loads: Cell<usize>,
    pub(super) bytes_max: u64,
    pub(super) cancel: CancelToken,
}

impl<'a> Push<'a> {
    pub(super) fn new(old: &'a dyn ObjectSource, brought: &'a Store) -> Self {
        Self {
            hash: SHA1,
            old,
            new: brought.new_objects(SHA1),
            brought,
            shallow: HashSet::new(),
            graph: None,
            graph_loads: Cell::new(0),
            bytes_max: 1 << 30,
            cancel: CancelToken::new(),
        }
    }

    pub(super) fn check(
        &self,
        tips: &[ObjectId],
        refs: &mut Refs,
    ) -> Result<Verdicts, ConnectivityError> {
        self.ask(|connectivity| connectivity.check(tips, refs))
    }

    /// Has connectivity asked something.
    pub(super) fn ask<T>(&self, ask: impl FnOnce(&Connectivity<'_>) -> T) -> T {
        let commit_graph = || {
            self.graph_loads.set(self.graph_loads.get() + 1);
            self.graph.clone()
        };
        ask(&Connectivity {
            hash: self.hash,
            new: &self.new,
            old: self.old,
            brought: self.brought,
            commit_graph: &commit_graph,
            shallow: &self.shallow,
            metadata_bytes: Limit { value: self.bytes_max, ..METADATA_BYTES },
            metadata_memory: &ByteBudget::new(METADATA_BYTES),
            cancel: &self.cancel,
        })
    }

    /// The verdict on one new value, and what was accepted without a ref.
    pub(super) fn judge(
        &self,
        tip: ObjectId,
        refs: &mut Refs,
    ) -> (Result<(), Missing>, Vec<ObjectId>) {
        let mut verdicts = self.check(&[tip], refs).unwrap();
        assert_eq!(verdicts.tips.len(), 1);
        (verdicts.tips.remove(0), verdicts.unreferenced)
    }
}

pub(super) fn id_of(hash: HashKind, kind: ObjectKind, data: &[u8]) -> ObjectId {
    let object = [format!("{kind} {}\0", data.len()).as_bytes(), data].concat();
    let digest = match hash {
        HashKind::Sha1 => sha1::Sha1::digest(object).to_vec(),
        _ => sha2::Sha256::digest(object).to_vec(),
    };
    ObjectId::try_from(&digest[..]).unwrap()
}

pub(super) fn tree_bytes(entries: &[(&str, &str, ObjectId)]) -> Vec<u8> {
    let mut entries: Vec<_> = entries.iter().collect();
    let key = |entry: &&(&str, &str, ObjectId)| {
        let end = if entry.0 == "40000" { "/" } else { "\0" };
        format!("{}{end}", entry.1)
    };
    entries.sort_by_key(key);
    let bytes = |(mode, name, id): &(&str, &str, ObjectId)| {
        [mode.as_bytes(), b" ", name.as_bytes(), b"\0", id.as_slice()].concat()
    };
    entries.into_iter().flat_map(bytes).collect()
}

pub(super) fn commit_bytes(tree: ObjectId, parents: &[ObjectId], date: u64) -> Vec<u8> {
    let parents: Vec<_> = parents.iter().map(|id| format!("parent {id}\n")).collect();
    let parents = parents.concat();
    let who = format!("A U Thor <a@example.com> {date} +0000");
    format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\nmessage\n").into_bytes()
}

pub(super) fn tag_bytes(target: ObjectId, kind: ObjectKind, name: &str) -> Vec<u8> {
    let tagger = "A U Thor <a@example.com> 1700000000 +0000";
    format!("object {target}\ntype {kind}\ntag {name}\ntagger {tagger}\n\nmessage\n").into_bytes()
}

pub(super) fn absent(digit: u8) -> ObjectId {
    ObjectId::from_bytes_or_panic(&[digit; 20])
}
