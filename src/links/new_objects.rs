//! What a push brings, and what it names outside itself.
//!
//! Ingest fills one while the objects' bytes are in memory; connectivity asks it. It holds each
//! id once, however often it is named. It does not judge: an object of the wrong kind is told
//! apart from a missing one by whoever asks.

use super::Link;
use crate::model::{ObjectId, ObjectKind, oid};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The objects of one push with their links.
#[derive(Clone, Debug, Default)]
pub struct NewObjects {
    kinds: HashMap<ObjectId, ObjectKind>,
    named: HashMap<ObjectId, Kinds>,
    commits: Vec<NewCommit>,
    malformed: bool,
}

/// A commit of the push: what leads from it to the trees that are there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCommit {
    /// Its tree.
    pub tree: ObjectId,
    /// Its parents, in order.
    pub parents: Vec<ObjectId>,
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kinds(u8);

const ALL: [ObjectKind; 4] =
    [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag];

impl Kinds {
    fn bit(kind: ObjectKind) -> u8 {
        match kind {
            ObjectKind::Commit => 1,
            ObjectKind::Tree => 2,
            ObjectKind::Blob => 4,
            ObjectKind::Tag => 8,
        }
    }

    fn add(&mut self, kind: ObjectKind) {
        self.0 |= Self::bit(kind);
    }

    fn iter(self) -> impl Iterator<Item = ObjectKind> {
        ALL.into_iter().filter(move |kind| self.0 & Self::bit(*kind) != 0)
    }
}

impl NewObjects {
    /// A push that brings nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that the push brings this object. Bringing it twice is legal.
    pub fn insert(&mut self, id: ObjectId, kind: ObjectKind) {
        self.kinds.insert(id, kind);
    }

    /// Notes that some object of the push names `id` and takes it for `kind`; true if that is
    /// news, so that the caller can hold the number of names to a limit.
    pub fn name(&mut self, id: &oid, kind: ObjectKind) -> bool {
        match self.named.entry(id.to_owned()) {
            Entry::Occupied(mut kinds) => {
                kinds.get_mut().add(kind);
                false
            }
            Entry::Vacant(place) => {
                let mut kinds = Kinds::default();
                kinds.add(kind);
                place.insert(kinds);
                true
            }
        }
    }

    /// Notes a commit; its tree and parents still have to be [named](Self::name).
    pub fn add_commit(&mut self, commit: NewCommit) {
        self.commits.push(commit);
    }

    /// Notes that an object of the push cannot be read for its links. It is a fault only if a ref
    /// leads to it.
    pub fn add_malformed(&mut self) {
        self.malformed = true;
    }

    /// Whether the links of some object could not be read.
    pub fn has_malformed(&self) -> bool {
        self.malformed
    }

    /// Takes over what another worker noted.
    pub fn absorb(&mut self, other: Self) {
        self.kinds.extend(other.kinds);
        self.commits.extend(other.commits);
        self.malformed |= other.malformed;
        for (id, kinds) in other.named {
            self.named.entry(id).or_default().0 |= kinds.0;
        }
    }

    /// The kind of an object that the push brings.
    pub fn kind(&self, id: &oid) -> Option<ObjectKind> {
        self.kinds.get(id).copied()
    }

    /// How many different objects the push brings.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether it brings none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// How many different ids are named.
    pub fn named_len(&self) -> usize {
        self.named.len()
    }

    /// The ids of all objects the push brings, in no order.
    pub fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.kinds.keys()
    }

    /// The commits of the push, in no order.
    pub fn commits(&self) -> &[NewCommit] {
        &self.commits
    }

    /// The links that lead out of the push, in no order.
    pub fn boundary(&self) -> impl Iterator<Item = Link> {
        self.named
            .iter()
            .filter(|(id, _)| !self.kinds.contains_key(*id))
            .flat_map(|(id, kinds)| kinds.iter().map(|kind| Link { id: *id, kind }))
    }

    /// Whether every link inside the push names the kind that the object has.
    pub fn kinds_agree(&self) -> bool {
        self.named.iter().all(|(id, kinds)| {
            self.kinds.get(id).is_none_or(|actual| kinds.iter().all(|kind| kind == *actual))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: u8) -> ObjectId {
        ObjectId::from_bytes_or_panic(&[digit; 20])
    }

    #[test]
    fn what_is_named_and_not_brought_is_the_boundary() {
        let mut objects = NewObjects::new();
        objects.insert(id(1), ObjectKind::Tree);
        assert!(objects.name(&id(1), ObjectKind::Tree));
        assert!(objects.name(&id(2), ObjectKind::Blob));
        assert!(!objects.name(&id(2), ObjectKind::Blob));
        let boundary: Vec<_> = objects.boundary().collect();
        assert_eq!(boundary, [Link { id: id(2), kind: ObjectKind::Blob }]);
        assert!(objects.kinds_agree());
        assert_eq!(objects.named_len(), 2);
    }

    #[test]
    fn an_object_named_as_two_kinds_is_two_links() {
        let mut objects = NewObjects::new();
        objects.name(&id(2), ObjectKind::Blob);
        objects.name(&id(2), ObjectKind::Tree);
        let mut boundary: Vec<_> = objects.boundary().map(|link| link.kind).collect();
        boundary.sort();
        assert_eq!(boundary, [ObjectKind::Tree, ObjectKind::Blob]);
    }

    #[test]
    fn a_link_of_the_wrong_kind_inside_the_push_is_seen() {
        let mut objects = NewObjects::new();
        objects.insert(id(1), ObjectKind::Tree);
        objects.name(&id(1), ObjectKind::Blob);
        assert!(!objects.kinds_agree());
    }

    #[test]
    fn two_workers_add_up() {
        let mut one = NewObjects::new();
        one.insert(id(1), ObjectKind::Blob);
        one.name(&id(3), ObjectKind::Commit);
        let mut two = NewObjects::new();
        two.name(&id(1), ObjectKind::Blob);
        two.name(&id(3), ObjectKind::Tag);
        one.absorb(two);
        assert_eq!(one.boundary().count(), 2);
        assert_eq!(one.len(), 1);
    }
}
