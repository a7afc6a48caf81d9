//! fsck of what a push brings, object by object, while the bytes are in memory.
//!
//! Every commit, tree and tag is looked at whole, a tree that a delta makes too: what was copied
//! may be out of order where it came to lie. Blobs are looked at if a tree that was met before
//! gives them a special name; the others with such names wait until all objects have come
//! (`inspect_rest`).
//!
//! The first object that is refused ends the push, as in git.

use super::error::IngestError;
use super::memory::PushMemory;
use super::refusal::{Fault, Refusal};
use crate::fsck::{Finding, Findings, Fsck, Severity, SpecialBlobs};
use crate::links::{self, LinkError};
use crate::model::{HashKind, ObjectId, ObjectKind};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What fsck is told for one push, and what it finds.
#[derive(Debug)]
pub struct Inspection {
    fsck: Fsck,
    /// Commits whose parents need not be there.
    shallow: HashSet<ObjectId>,
    findings: Mutex<Findings>,
}

impl Inspection {
    /// An inspection by these rules. The parents of `shallow` commits need not be there, as their
    /// history ends with them in this repository, or in the pusher's.
    pub fn new(fsck: Fsck, shallow: HashSet<ObjectId>) -> Self {
        Self { fsck, shallow, findings: Mutex::default() }
    }

    /// What was found so far, which is then forgotten; to be told however ingest ended. If objects
    /// were refused, what was found in them comes last.
    pub fn take_findings(&self) -> Findings {
        std::mem::take(&mut *self.findings())
    }

    pub(super) fn fsck(&self) -> &Fsck {
        &self.fsck
    }

    /// Takes what was found in one object. What another thread still finds when an object was
    /// refused is not told.
    fn tell(&self, found: Vec<Finding>) {
        let mut findings = self.findings();
        if !findings.has_error() {
            for finding in found {
                findings.push(finding);
            }
        }
    }

    /// Takes one finding of those that come in the end.
    pub(super) fn tell_last(&self, finding: Finding) {
        self.findings().push(finding);
    }

    fn findings(&self) -> MutexGuard<'_, Findings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Inspects objects; one for each thread.
#[derive(Debug)]
pub(super) struct Inspector {
    shared: Arc<Inspection>,
    hash: HashKind,
    special: SpecialBlobs,
    parents: Parents,
    /// Whether git would unpack the pack: it then looks at blobs when all objects have come.
    unpacks: bool,
    /// Memory that is taken for objects that are larger than others may be.
    room: u64,
}

/// The parents of commits, where it matters whose they are.
#[derive(Debug, Default)]
struct Parents {
    of_shallow: HashSet<ObjectId>,
    of_others: HashSet<ObjectId>,
}

/// Memory for an id in a set, or among the special blobs.
const ID_BYTES: u64 = 100;

/// What is in memory of an object beyond itself: its base, or the pack's own copy.
const COPIES: u64 = 2;

impl Inspector {
    pub(super) fn new(shared: Arc<Inspection>, hash: HashKind) -> Self {
        Self {
            shared,
            hash,
            special: SpecialBlobs::new(),
            parents: Parents::default(),
            unpacks: false,
            room: 0,
        }
    }

    /// Another one for the same pack.
    pub(super) fn sibling(&self) -> Self {
        Self { unpacks: self.unpacks, ..Self::new(Arc::clone(&self.shared), self.hash) }
    }

    /// Takes over what another one noted.
    pub(super) fn absorb(&mut self, other: Self) {
        self.special.absorb(other.special);
        self.parents.of_shallow.extend(other.parents.of_shallow);
        self.parents.of_others.extend(other.parents.of_others);
    }

    /// Notes whether git would unpack the pack.
    pub(super) fn set_unpacks(&mut self, unpacks: bool) {
        self.unpacks = unpacks;
    }

    pub(super) fn unpacks(&self) -> bool {
        self.unpacks
    }

    pub(super) fn inspection(&self) -> &Arc<Inspection> {
        &self.shared
    }

    pub(super) fn special(&self) -> &SpecialBlobs {
        &self.special
    }

    /// Memory that the notes take.
    pub(super) fn memory_bytes(&self) -> u64 {
        let Self { special, parents: Parents { of_shallow, of_others }, .. } = self;
        (special.len() as u64)
            .saturating_add((of_shallow.len() + of_others.len()) as u64)
            .saturating_mul(ID_BYTES)
    }

    /// Whether an object is named by shallow commits alone, which do not need it.
    pub(super) fn is_cut_off(&self, id: &ObjectId) -> bool {
        self.parents.of_shallow.contains(id) && !self.parents.of_others.contains(id)
    }

    /// Takes memory for an object that has to be in it whole; no more than `metadata_bytes_max`,
    /// which larger objects have been refused by.
    pub(super) fn make_room(&mut self, size: u64, memory: &PushMemory) -> Result<(), IngestError> {
        let room = size.saturating_mul(COPIES);
        if room > self.room {
            memory.add_tables(room - self.room)?;
            self.room = room;
        }
        Ok(())
    }

    /// Looks at an object; an error if it is refused.
    pub(super) fn inspect(
        &mut self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<(), IngestError> {
        match kind {
            ObjectKind::Blob if self.unpacks || self.special.due(id).is_empty() => return Ok(()),
            ObjectKind::Blob | ObjectKind::Tree => {}
            ObjectKind::Commit => self.note_parents(id, content)?,
            ObjectKind::Tag => {
                let read = links::tag(content, self.hash);
                read.map_err(|fault| self.unreadable(id, kind, content, fault))?;
            }
        }
        let mut found = Vec::new();
        let Self { shared, special, .. } = self;
        shared.fsck.check(kind, id, content, special, &mut |finding| found.push(finding));
        if !found.is_empty() {
            let first = found.iter().find(|finding| finding.severity == Severity::Error).cloned();
            self.shared.tell(found);
            if let Some(finding) = first {
                return Err(self.refuse(Fault::Object(finding)));
            }
        }
        match kind {
            ObjectKind::Tree => self.check_beginning(id, content),
            _ => Ok(()),
        }
    }

    /// The error that the pack is refused.
    pub(super) fn refuse(&self, fault: Fault) -> IngestError {
        IngestError::Refused(Box::new(Refusal { fault, unpacks: self.unpacks }))
    }

    /// Reads a commit as git does before its fsck, whatever that is told to ignore.
    fn note_parents(&mut self, id: &ObjectId, content: &[u8]) -> Result<(), IngestError> {
        let fail = |fault| self.unreadable(id, ObjectKind::Commit, content, fault);
        let commit = links::commit(content, self.hash).map_err(fail)?;
        if self.shared.shallow.is_empty() {
            let fault = commit.clone().find_map(Result::err);
            return fault.map_or(Ok(()), |fault| Err(fail(fault)));
        }
        let parents = commit.collect::<Result<Vec<_>, _>>().map_err(fail)?;
        let Parents { of_shallow, of_others } = &mut self.parents;
        let own = if self.shared.shallow.contains(id) { of_shallow } else { of_others };
        own.extend(parents);
        Ok(())
    }

    /// A tree whose first entry git cannot read it does not walk, whatever its fsck is told to
    /// ignore.
    fn check_beginning(&self, id: &ObjectId, content: &[u8]) -> Result<(), IngestError> {
        let before_id = content.len().checked_sub(self.hash.len_in_bytes());
        let last = before_id.and_then(|length| content.get(..length)).and_then(<[u8]>::last);
        let fault = match links::tree(content, self.hash).next() {
            None => return Ok(()),
            Some(Ok(_)) if last == Some(&0) => return Ok(()),
            Some(Ok(_)) => LinkError::TreeTruncated,
            Some(Err(fault)) => fault,
        };
        Err(self.unreadable(id, ObjectKind::Tree, content, fault))
    }

    fn unreadable(
        &self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
        fault: LinkError,
    ) -> IngestError {
        self.refuse(Fault::unreadable(id, kind, content, self.hash, fault))
    }
}
