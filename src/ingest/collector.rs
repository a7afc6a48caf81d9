//! What the objects of the pack name, noted while their bytes are in memory.

use super::error::IngestError;
use super::inspection::{Inspection, Inspector};
use super::memory::PushMemory;
use super::tree_starts::NewEntries;
use crate::links::{self, LinkError, NewObjects};
use crate::model::{HashKind, Limit, Limits, ObjectId, ObjectKind};
use std::sync::Arc;

/// Collects objects and their links; one for each thread.
///
/// An object whose links cannot be read is noted as malformed, which is a fault only if a ref
/// leads to it. One that goes past a limit is an error.
#[derive(Debug)]
pub(super) struct Collector {
    hash: HashKind,
    objects: NewObjects,
    /// `named_objects_max`.
    names: Limit,
    /// `commit_parents_max`.
    parents: Limit,
    /// `entry_name_bytes_max`.
    name_bytes: Limit,
    /// `tree_entries_max`.
    entries: Limit,
    /// What fsck is to look at, if it is to.
    inspector: Option<Box<Inspector>>,
}

/// What became of an entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    /// What it names is noted.
    Named,
    /// It cannot be read.
    Malformed,
    /// Its name is longer than allowed.
    NameTooLong,
}

impl Collector {
    pub(super) fn new(hash: HashKind, limits: &Limits) -> Self {
        let limit = |name, value, unit| Limit { name, value, unit };
        Self {
            hash,
            objects: NewObjects::new(),
            names: limit("named_objects_max", limits.named_objects_max, "objects"),
            parents: limit("commit_parents_max", limits.commit_parents_max, "parents"),
            name_bytes: limit("entry_name_bytes_max", limits.entry_name_bytes_max, "bytes"),
            entries: limit("tree_entries_max", limits.tree_entries_max, "entries"),
            inspector: None,
        }
    }

    /// Has the objects looked at by fsck, if that is to be.
    pub(super) fn inspected(mut self, inspection: Option<&Arc<Inspection>>) -> Self {
        let inspector = |inspection| Inspector::new(Arc::clone(inspection), self.hash);
        self.inspector = inspection.map(inspector).map(Box::new);
        self
    }

    /// Another one that keeps to the same limit.
    pub(super) fn sibling(&self) -> Self {
        let inspector = self.inspector.as_deref().map(Inspector::sibling).map(Box::new);
        Self { objects: NewObjects::new(), inspector, ..*self }
    }

    /// Takes over what another one collected.
    pub(super) fn absorb(&mut self, other: Self) -> Result<(), IngestError> {
        if let (Some(own), Some(other)) = (&mut self.inspector, other.inspector) {
            own.absorb(*other);
        }
        if self.objects.is_empty() && self.objects.named_len() == 0 {
            self.objects = other.objects;
        } else {
            self.objects.absorb(other.objects);
        }
        self.check_names()
    }

    /// Memory that what was collected takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let notes = self.inspector.as_ref().map_or(0, |inspector| inspector.memory_bytes());
        self.objects.memory_bytes().saturating_add(notes)
    }

    /// The objects with their links.
    pub(super) fn objects(&self) -> &NewObjects {
        &self.objects
    }

    pub(super) fn into_objects(self) -> NewObjects {
        self.objects
    }

    /// What fsck has noted, if it looks at the objects.
    pub(super) fn inspector(&self) -> Option<&Inspector> {
        self.inspector.as_deref()
    }

    /// Notes whether git would unpack the pack.
    pub(super) fn set_unpacks(&mut self, unpacks: bool) {
        if let Some(inspector) = &mut self.inspector {
            inspector.set_unpacks(unpacks);
        }
    }

    /// Whether an object has to be in memory whole, however large it is, because fsck looks at it;
    /// there is memory for it then.
    pub(super) fn makes_room(
        &mut self,
        kind: ObjectKind,
        size: u64,
        memory: &PushMemory,
    ) -> Result<bool, IngestError> {
        match &mut self.inspector {
            Some(inspector) if kind != ObjectKind::Blob => {
                inspector.make_room(size, memory).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Has fsck look at an object; an error if it refuses it.
    pub(super) fn inspect(
        &mut self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<(), IngestError> {
        if self.inspector.is_some() && kind == ObjectKind::Commit {
            // fsck notes the parents that it meets, and is told of no more than may be.
            self.check_parents(id, content)?;
        }
        match &mut self.inspector {
            None => Ok(()),
            Some(inspector) => inspector.inspect(id, kind, content),
        }
    }

    /// Notes an object without its links.
    pub(super) fn insert(&mut self, id: &ObjectId, kind: ObjectKind) {
        self.objects.insert(*id, kind);
    }

    /// Notes an object and its links.
    pub(super) fn note(
        &mut self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<(), IngestError> {
        self.insert(id, kind);
        self.note_links(id, kind, content)
    }

    /// Notes the links of an object.
    pub(super) fn note_links(
        &mut self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<(), IngestError> {
        match kind {
            ObjectKind::Blob => return Ok(()),
            ObjectKind::Commit => self.note_commit(id, content)?,
            ObjectKind::Tree => {
                for (entry, number) in links::tree(content, self.hash).zip(1..) {
                    self.check_entries(id, number)?;
                    if self.note_entry(&entry) == Noted::NameTooLong {
                        return Err(self.name_too_long(id));
                    }
                }
            }
            ObjectKind::Tag => match links::tag(content, self.hash) {
                Ok(target) => _ = self.objects.name(&target.id, target.kind),
                Err(_) => self.objects.add_malformed(),
            },
        }
        self.check_names()
    }

    /// Notes a tree that was made from one whose links are all noted: only what is new in it.
    pub(super) fn note_new_entries(
        &mut self,
        id: &ObjectId,
        content: &[u8],
        new: &NewEntries,
    ) -> Result<(), IngestError> {
        for &start in &new.starts {
            let entry = content.get(start as usize..).unwrap_or_default();
            // Nothing where an entry should be is as bad as half of one.
            let entry = links::tree(entry, self.hash).next();
            match self.note_entry(&entry.unwrap_or(Err(LinkError::TreeTruncated))) {
                Noted::Named => {}
                // It counts as one, as it does where a tree is read whole.
                Noted::Malformed => return self.check_entries(id, new.total.saturating_add(1)),
                Noted::NameTooLong => return Err(self.name_too_long(id)),
            }
        }
        self.check_entries(id, new.total)?;
        self.check_names()
    }

    /// Notes that an object cannot be read for its links.
    pub(super) fn note_malformed(&mut self) {
        self.objects.add_malformed();
    }

    /// Notes what an entry of a tree names.
    pub(super) fn note_entry(&mut self, entry: &Result<links::TreeEntry<'_>, LinkError>) -> Noted {
        let Ok(entry) = entry else {
            self.objects.add_malformed();
            return Noted::Malformed;
        };
        if self.is_too_long(entry.name.len()) {
            return Noted::NameTooLong;
        }
        self.objects.name_entry(entry);
        Noted::Named
    }

    /// Whether the name of an entry may not have so many bytes.
    pub(super) fn is_too_long(&self, name_bytes: usize) -> bool {
        name_bytes as u64 > self.name_bytes.value
    }

    /// The error that the name of an entry is too long.
    pub(super) fn name_too_long(&self, id: &ObjectId) -> IngestError {
        IngestError::NameTooLong { id: *id, limit: self.name_bytes }
    }

    /// Whether a tree may not have so many entries.
    pub(super) fn has_too_many(&self, entries: u64) -> bool {
        entries > self.entries.value
    }

    /// An error if a tree may not have so many entries.
    pub(super) fn check_entries(&self, id: &ObjectId, entries: u64) -> Result<(), IngestError> {
        let limit = self.entries;
        if self.has_too_many(entries) {
            return Err(IngestError::TooManyTreeEntries { id: *id, limit });
        }
        Ok(())
    }

    /// The length of a beginning of a commit that shows whether it has too many parents.
    pub(super) fn parents_bytes_max(&self) -> usize {
        let line = self.hash.len_in_hex() + "parent \n".len();
        let lines = usize::try_from(self.parents.value).unwrap_or(usize::MAX);
        line.saturating_mul(lines.saturating_add(2))
    }

    /// Looks whether the beginning of a commit has too many parents.
    pub(super) fn check_parents(&self, id: &ObjectId, content: &[u8]) -> Result<(), IngestError> {
        let limit = self.parents;
        let parents = links::commit(content, self.hash).into_iter().flatten();
        let allowed = usize::try_from(limit.value).unwrap_or(usize::MAX);
        match parents.map_while(Result::ok).nth(allowed) {
            Some(_) => Err(IngestError::TooManyParents { id: *id, limit }),
            None => Ok(()),
        }
    }

    pub(super) fn check_names(&self) -> Result<(), IngestError> {
        // Special names are given to gitlinks, too, which are no links.
        let special = self.inspector.as_ref().map_or(0, |inspector| inspector.special().len());
        if self.objects.named_len().max(special) as u64 > self.names.value {
            return Err(IngestError::TooManyNames { limit: self.names });
        }
        Ok(())
    }

    /// Notes a commit, none of whose links count if one of them cannot be read.
    fn note_commit(&mut self, id: &ObjectId, content: &[u8]) -> Result<(), IngestError> {
        self.check_parents(id, content)?;
        match links::commit(content, self.hash) {
            Ok(commit) if commit.clone().all(|parent| parent.is_ok()) => {
                self.objects.name(&commit.tree, ObjectKind::Tree);
                for parent in commit.flatten() {
                    self.objects.name(&parent, ObjectKind::Commit);
                }
            }
            _ => self.objects.add_malformed(),
        }
        Ok(())
    }
}
