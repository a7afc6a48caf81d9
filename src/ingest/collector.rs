//! What the objects of the pack name, noted while their bytes are in memory.

use super::error::IngestError;
use super::tree_starts::TreeStarts;
use crate::links::{self, LinkError, NewCommit, NewObjects};
use crate::model::{HashKind, Limit, Limits, ObjectId, ObjectKind};
use crate::pack::delta::{self, Instruction};

/// Collects objects and their links; one for each thread.
///
/// An object whose links cannot be read is noted as malformed, which is a fault only if a ref
/// leads to it.
#[derive(Debug)]
pub(super) struct Collector {
    hash: HashKind,
    objects: NewObjects,
    names: Limit,
}

impl Collector {
    pub(super) fn new(hash: HashKind, limits: &Limits) -> Self {
        let value = limits.named_objects_max;
        let names = Limit { name: "named_objects_max", value, unit: "objects" };
        Self { hash, objects: NewObjects::new(), names }
    }

    /// Another one that keeps to the same limit.
    pub(super) fn sibling(&self) -> Self {
        Self { hash: self.hash, objects: NewObjects::new(), names: self.names }
    }

    /// Takes over what another one collected.
    pub(super) fn absorb(&mut self, other: Self) -> Result<(), IngestError> {
        if self.objects.is_empty() && self.objects.named_len() == 0 {
            self.objects = other.objects;
        } else {
            self.objects.absorb(other.objects);
        }
        self.check_names()
    }

    pub(super) fn into_objects(self) -> NewObjects {
        self.objects
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
        self.note_links(kind, content)
    }

    /// Notes the links of an object.
    pub(super) fn note_links(
        &mut self,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<(), IngestError> {
        match kind {
            ObjectKind::Blob => return Ok(()),
            ObjectKind::Commit => self.note_commit(content),
            ObjectKind::Tree => {
                for entry in links::tree(content, self.hash) {
                    self.note_entry(&entry);
                }
            }
            ObjectKind::Tag => match links::tag(content, self.hash) {
                Ok(target) => _ = self.objects.name(&target.id, target.kind),
                Err(_) => self.objects.add_malformed(),
            },
        }
        self.check_names()
    }

    /// Notes a tree that `delta` made from a tree whose links are all noted, and returns where its
    /// entries begin; `None` if it is malformed.
    ///
    /// An entry that was copied whole, from where an entry of the base begins, is an entry of the
    /// base and not looked at again. That makes the cost of a tree that of its changes.
    pub(super) fn note_tree_delta(
        &mut self,
        content: &[u8],
        base: &TreeStarts,
        delta: &[u8],
    ) -> Result<Option<TreeStarts>, IngestError> {
        let mut starts = TreeStarts::with_room_for(base);
        let mut region = 0;
        // Where the next entry begins: never before the region at hand.
        let mut at = 0;
        // The delta was applied before, so that these errors do not happen; if they did, the tree
        // must not pass for one without links.
        let Ok(instructions) = delta::instructions(delta, base.content_len()) else {
            self.note_malformed();
            return Ok(None);
        };
        for instruction in instructions {
            let Ok(instruction) = instruction else {
                self.note_malformed();
                return Ok(None);
            };
            let end = region + instruction.len();
            while at < end {
                if let Instruction::Copy(range) = &instruction {
                    let from = range.start + (at - region);
                    at += starts.copy_whole(base, from..range.end, at);
                    if at >= end {
                        break;
                    }
                }
                let mut entries = links::tree(content.get(at..).unwrap_or_default(), self.hash);
                // Nothing where an entry should be is as bad as half of one.
                let entry = entries.next().unwrap_or(Err(LinkError::TreeTruncated));
                if !self.note_entry(&entry) {
                    return Ok(None);
                }
                starts.push(at);
                at = content.len() - entries.rest().len();
            }
            region = end;
        }
        self.check_names()?;
        Ok(Some(starts.finish(content.len())))
    }

    /// Notes that an object cannot be read for its links.
    pub(super) fn note_malformed(&mut self) {
        self.objects.add_malformed();
    }

    /// Notes what an entry of a tree names; false if it is malformed.
    pub(super) fn note_entry(&mut self, entry: &Result<links::TreeEntry<'_>, LinkError>) -> bool {
        let Ok(entry) = entry else {
            self.objects.add_malformed();
            return false;
        };
        self.objects.name_entry(entry);
        true
    }

    pub(super) fn check_names(&self) -> Result<(), IngestError> {
        if self.objects.named_len() as u64 > self.names.value {
            return Err(IngestError::TooManyNames { limit: self.names });
        }
        Ok(())
    }

    fn note_commit(&mut self, content: &[u8]) {
        let parsed = links::commit(content, self.hash).and_then(|commit| {
            let tree = commit.tree;
            Ok(NewCommit { tree, parents: commit.collect::<Result<_, _>>()? })
        });
        match parsed {
            Ok(commit) => {
                self.objects.name(&commit.tree, ObjectKind::Tree);
                for parent in &commit.parents {
                    self.objects.name(parent, ObjectKind::Commit);
                }
                self.objects.add_commit(commit);
            }
            Err(_) => self.objects.add_malformed(),
        }
    }
}
