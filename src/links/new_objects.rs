//! What a push brings, and what it names outside itself.
//!
//! Ingest fills one while the objects' bytes are in memory; connectivity asks it. It holds each
//! id once, however often it is named: some thirty bytes, and as much again where the table has
//! just grown. It does not judge: an object of the wrong kind is told apart from a missing one by
//! whoever asks.

use super::{Link, TreeEntry, TreeNames};
use crate::model::{ObjectId, ObjectKind, oid};
use std::collections::{HashMap, HashSet};

/// The objects of one push with their links.
#[derive(Clone, Debug, Default)]
pub struct NewObjects {
    /// Ids of twenty bytes. An [`ObjectId`] has room for the longer ones, and would take half as
    /// much again.
    short: HashMap<[u8; 20], Known>,
    /// Ids of 32 bytes.
    long: HashMap<[u8; 32], Known>,
    /// How many objects are brought.
    brought: usize,
    /// How many ids are named.
    named: usize,
    /// Further names of trees that stand under more than one.
    other_names: OtherNames,
    malformed: bool,
}

/// What is known of an id.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// What the push brings under it.
    brought: Option<ObjectKind>,
    /// What it is named as.
    named: Kinds,
    /// The name that it stands under, if it is a tree in a tree. Bytes, for a small table.
    name: Option<NameBytes>,
}

/// A name as [`TreeNames`] knows it, without alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameBytes([u8; 2]);

/// The names of trees that stand under several.
#[derive(Clone, Debug, Default)]
struct OtherNames {
    pairs: HashSet<(ObjectId, u16)>,
    /// There were too many to keep.
    is_full: bool,
}

/// LIMIT: further names that are kept; with more, every name is taken to be that of a new tree.
const OTHER_NAMES_MAX: usize = 1 << 16;

impl OtherNames {
    fn add(&mut self, id: ObjectId, name: u16) {
        self.is_full |= self.pairs.len() >= OTHER_NAMES_MAX;
        if !self.is_full {
            self.pairs.insert((id, name));
        }
    }
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
        let before = self.entry(&id).brought.replace(kind);
        self.brought += usize::from(before.is_none());
    }

    /// Notes that some object of the push names `id` and takes it for `kind`; true if that is
    /// news, so that the caller can hold the number of names to a limit.
    pub fn name(&mut self, id: &oid, kind: ObjectKind) -> bool {
        let mut kinds = Kinds::default();
        kinds.add(kind);
        self.note(id, kinds, None)
    }

    /// Notes what an entry of a tree of the push names, unless that is a gitlink.
    pub fn name_entry(&mut self, entry: &TreeEntry<'_>) {
        let Some(kind) = entry.kind() else { return };
        let name = (kind == ObjectKind::Tree).then(|| TreeNames::key(entry.name));
        let mut kinds = Kinds::default();
        kinds.add(kind);
        self.note(entry.id, kinds, name.map(|name| NameBytes(name.to_ne_bytes())));
    }

    fn note(&mut self, id: &oid, kinds: Kinds, name: Option<NameBytes>) -> bool {
        let known = self.entry(id);
        let is_new = known.named == Kinds::default();
        known.named.0 |= kinds.0;
        if let Some(name) = name
            && *known.name.get_or_insert(name) != name
        {
            self.other_names.add(id.to_owned(), u16::from_ne_bytes(name.0));
        }
        self.named += usize::from(is_new);
        is_new
    }

    fn entry(&mut self, id: &oid) -> &mut Known {
        match <[u8; 20]>::try_from(id.as_bytes()) {
            Ok(key) => self.short.entry(key).or_default(),
            Err(_) => self.long.entry(long_key(id)).or_default(),
        }
    }

    fn known(&self, id: &oid) -> Option<&Known> {
        match <&[u8; 20]>::try_from(id.as_bytes()) {
            Ok(key) => self.short.get(key),
            Err(_) => self.long.get(&long_key(id)),
        }
    }

    fn all(&self) -> impl Iterator<Item = (&oid, &Known)> {
        let short = self.short.iter().map(|(key, known)| (&key[..], known));
        let long = self.long.iter().map(|(key, known)| (&key[..], known));
        short.chain(long).map(|(key, known)| (oid::from_bytes_unchecked(key), known))
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
        self.malformed |= other.malformed;
        self.other_names.is_full |= other.other_names.is_full;
        for (id, theirs) in other.all() {
            if let Some(kind) = theirs.brought {
                self.insert(id.to_owned(), kind);
            }
            if theirs.named != Kinds::default() {
                self.note(id, theirs.named, theirs.name);
            }
        }
        for (id, name) in other.other_names.pairs {
            self.other_names.add(id, name);
        }
    }

    /// The names under which trees that the push brings stand in others that it brings.
    pub fn tree_names(&self) -> TreeNames {
        if self.other_names.is_full {
            return TreeNames::all();
        }
        let first = |(_, known): (&oid, &Known)| {
            let name = known.name.filter(|_| known.brought == Some(ObjectKind::Tree));
            name.map(|name| u16::from_ne_bytes(name.0))
        };
        let mut names = TreeNames::default();
        names.extend(self.all().filter_map(first));
        let is_tree = |id: &ObjectId| self.kind(id) == Some(ObjectKind::Tree);
        let others = self.other_names.pairs.iter();
        names.extend(others.filter(|(id, _)| is_tree(id)).map(|(_, name)| *name));
        names
    }

    /// The kind of an object that the push brings.
    pub fn kind(&self, id: &oid) -> Option<ObjectKind> {
        self.known(id)?.brought
    }

    /// How many different objects the push brings.
    pub fn len(&self) -> usize {
        self.brought
    }

    /// Whether it brings none.
    pub fn is_empty(&self) -> bool {
        self.brought == 0
    }

    /// How many different ids are named.
    pub fn named_len(&self) -> usize {
        self.named
    }

    /// Memory that the tables take.
    pub fn memory_bytes(&self) -> u64 {
        // The tables are made of powers of two, of which they leave an eighth free, with a byte of
        // the hash for each place.
        let table =
            |room: usize, size: usize| (room as u64).saturating_mul(size as u64 + 1) / 7 * 8;
        table(self.short.capacity(), size_of::<([u8; 20], Known)>())
            .saturating_add(table(self.long.capacity(), size_of::<([u8; 32], Known)>()))
            .saturating_add(table(self.other_names.pairs.capacity(), size_of::<(ObjectId, u16)>()))
    }

    /// The ids of all objects the push brings, in no order.
    pub fn ids(&self) -> impl Iterator<Item = &oid> {
        self.all().filter(|(_, known)| known.brought.is_some()).map(|(id, _)| id)
    }

    /// The links that lead out of the push, in no order.
    pub fn boundary(&self) -> impl Iterator<Item = Link> {
        self.all()
            .filter(|(_, known)| known.brought.is_none())
            .flat_map(|(id, known)| known.named.iter().map(|kind| Link { id: id.to_owned(), kind }))
    }

    /// The links inside the push that take an object for another kind than it has, each with that
    /// kind, in no order.
    pub fn contradictions(&self) -> impl Iterator<Item = (Link, ObjectKind)> {
        self.all().filter_map(|(id, known)| Some((id, known, known.brought?))).flat_map(
            |(id, known, actual)| {
                let others = known.named.iter().filter(move |kind| *kind != actual);
                others.map(move |kind| (Link { id: id.to_owned(), kind }, actual))
            },
        )
    }

    /// Whether every link inside the push names the kind that the object has.
    pub fn kinds_agree(&self) -> bool {
        self.contradictions().next().is_none()
    }
}

/// The key of an id of 32 bytes: there are no other lengths than the two.
fn long_key(id: &oid) -> [u8; 32] {
    let mut key = [0; 32];
    key.iter_mut().zip(id.as_bytes()).for_each(|(key, byte)| *key = *byte);
    key
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
        let link = Link { id: id(1), kind: ObjectKind::Blob };
        assert_eq!(objects.contradictions().collect::<Vec<_>>(), [(link, ObjectKind::Tree)]);
    }

    fn entry<'a>(id: &'a oid, mode: u32, name: &'a str) -> TreeEntry<'a> {
        TreeEntry { mode_digits: b"", mode, name: name.into(), id }
    }

    #[test]
    fn the_names_of_new_trees_are_known_and_no_others() {
        let (new, old, file) = (id(1), id(2), id(3));
        let mut objects = NewObjects::new();
        objects.name_entry(&entry(&new, 0o40_000, "new"));
        objects.name_entry(&entry(&old, 0o40_000, "old"));
        objects.name_entry(&entry(&file, 0o100_644, "file"));
        objects.insert(new, ObjectKind::Tree);
        objects.insert(file, ObjectKind::Blob);
        let mut other = NewObjects::new();
        other.name_entry(&entry(&new, 0o40_000, "also"));
        other.name_entry(&entry(&new, 0o40_000, "again"));
        objects.absorb(other);
        let names = objects.tree_names();
        let has = |name: &str| names.contains(name.into());
        assert!(has("new") && has("also") && has("again"));
        assert!(!has("old") && !has("file"));
    }

    #[test]
    fn with_too_many_names_of_trees_every_name_is_one() {
        let mut objects = NewObjects::new();
        let names: Vec<_> = (0..70_000).map(|n| format!("{n}")).collect();
        for tree in [1, 2] {
            for name in &names {
                let (mode_digits, mode) = (&b"40000"[..], 0o40_000);
                let (name, id) = (name.as_str().into(), &*id(tree));
                objects.name_entry(&TreeEntry { mode_digits, mode, name, id });
            }
        }
        assert!(objects.tree_names().contains("any".into()));
        assert!(objects.other_names.pairs.len() <= OTHER_NAMES_MAX);
        assert_eq!(objects.named_len(), 2);
    }

    #[test]
    fn the_tables_of_many_objects_take_as_much_as_they_say() {
        let mut objects = NewObjects::new();
        assert_eq!(objects.memory_bytes(), 0);
        for n in 0..100_000u32 {
            let mut bytes = [0; 20];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            objects.insert(ObjectId::from_bytes_or_panic(&bytes), ObjectKind::Blob);
            objects.name(&ObjectId::from_bytes_or_panic(&bytes), ObjectKind::Blob);
        }
        // 2^17 places of 25 bytes, with one of the hash for each.
        assert_eq!(size_of::<([u8; 20], Known)>(), 25);
        assert_eq!(objects.memory_bytes(), 26 << 17);
        assert_eq!((objects.len(), objects.named_len()), (100_000, 100_000));
    }

    #[test]
    fn ids_of_both_lengths_are_told_apart() {
        let mut objects = NewObjects::new();
        let long = ObjectId::from_bytes_or_panic(&[1; 32]);
        objects.insert(long, ObjectKind::Tree);
        objects.insert(long, ObjectKind::Tree);
        objects.name(&id(1), ObjectKind::Blob);
        assert_eq!((objects.kind(&long), objects.kind(&id(1))), (Some(ObjectKind::Tree), None));
        assert_eq!(objects.ids().collect::<Vec<_>>(), [&*long]);
        assert_eq!(objects.boundary().count(), 1);
        assert_eq!((objects.len(), objects.named_len()), (1, 1));
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
