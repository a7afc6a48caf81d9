//! Objects that deltas have made, named: hashed, compared with existing ones, read for their links.

use super::collector::Collector;
use super::collision::CollisionCheck;
use super::context::Context;
use super::error::IngestError;
use super::object_hash::object_id;
use super::tree_starts::NewEntries;
use crate::model::{HashKind, ObjectId, ObjectKind, oid};

/// Names objects; one for each thread.
pub(super) struct Namer<'a> {
    context: Context<'a>,
    check: CollisionCheck<'a>,
    collector: Collector,
    named: Named,
    /// Memory of the tables of links that is accounted for.
    tables: u64,
}

/// Places with the objects that they hold.
///
/// The ids lie together, without what an [`ObjectId`] has to tell its hash by.
#[derive(Debug)]
pub(super) struct Named {
    id_bytes: usize,
    places: Vec<(u32, ObjectKind)>,
    ids: Vec<u8>,
}

impl<'a> Namer<'a> {
    /// Goes on with what `collector` has, for which memory was taken.
    pub(super) fn new(context: Context<'a>, collector: Collector) -> Self {
        Self {
            context,
            check: context.collision_check(),
            named: Named::new(context.options.hash),
            tables: collector.memory_bytes(),
            collector,
        }
    }

    /// Names the object of the entry at `place`. For a tree that was made from one whose links are
    /// all noted, `new` tells which of its own are not.
    pub(super) fn name(
        &mut self,
        place: u32,
        kind: ObjectKind,
        object: &[u8],
        new: Option<&NewEntries>,
    ) -> Result<ObjectId, IngestError> {
        let id = object_id(self.context.options.hash, kind, object)?;
        let collector = &mut self.collector;
        collector.inspect(&id, kind, object)?;
        collector.insert(&id, kind);
        match new {
            Some(new) => collector.note_new_entries(&id, object, new)?,
            None => collector.note_links(&id, kind, object)?,
        }
        self.account()?;
        self.check.check(&id, kind, object)?;
        self.named.push(place, kind, &id);
        Ok(id)
    }

    /// An error if somebody asked the push to stop.
    pub(super) fn check_on(&self) -> Result<(), IngestError> {
        self.context.check_on()
    }

    /// Notes what the object of the entry at `place` is called. It is compared by the caller.
    pub(super) fn note(&mut self, place: u32, kind: ObjectKind, id: &ObjectId) {
        self.named.push(place, kind, id);
    }

    /// Takes memory for what the tables have grown by.
    pub(super) fn account(&mut self) -> Result<(), IngestError> {
        let tables = self.collector.memory_bytes();
        if tables > self.tables {
            self.context.memory.add_tables(tables - self.tables)?;
            self.tables = tables;
        }
        Ok(())
    }

    pub(super) fn collector(&mut self) -> &mut Collector {
        &mut self.collector
    }

    pub(super) fn check(&self) -> CollisionCheck<'a> {
        self.check
    }

    /// How many objects it has named.
    pub(super) fn named_len(&self) -> u64 {
        self.named.places.len() as u64
    }

    pub(super) fn into_parts(self) -> (Named, Collector) {
        (self.named, self.collector)
    }
}

impl Named {
    /// Memory for each.
    pub(super) fn bytes(hash: HashKind) -> usize {
        size_of::<(u32, ObjectKind)>() + hash.len_in_bytes()
    }

    fn new(hash: HashKind) -> Self {
        Self { id_bytes: hash.len_in_bytes(), places: Vec::new(), ids: Vec::new() }
    }

    fn push(&mut self, place: u32, kind: ObjectKind, id: &ObjectId) {
        self.places.push((place, kind));
        self.ids.extend_from_slice(id.as_slice());
    }

    /// How many.
    pub(super) fn len(&self) -> u64 {
        self.places.len() as u64
    }

    /// Each with its place.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, ObjectKind, &oid)> {
        let ids = self.ids.chunks_exact(self.id_bytes);
        self.places
            .iter()
            .zip(ids)
            .filter_map(|(&(place, kind), id)| Some((place, kind, oid::try_from_bytes(id).ok()?)))
    }
}
