//! One thread of pass two: the objects of deltas, made and named tree by tree.

use super::bases::HeldBases;
use super::collector::Collector;
use super::content::{Content, ContentWriter};
use super::error::IngestError;
use super::existing_reader::Piece;
use super::maker::{Delta as Prepared, Maker};
use super::namer::{Named, Namer};
use super::object_hash::{ObjectHasher, object_id};
use super::resolve::Shared;
use super::spare::Spare;
use super::streamed::StreamedObject;
use super::tree_starts::{TreeChange, TreeStarts};
use crate::model::{ObjectId, ObjectKind};
use crate::pack::delta_tree::{Delta, Walk};
use std::ops::ControlFlow;

/// Resolves the deltas below one root after the other.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    maker: Maker<'a>,
    namer: Namer<'a>,
    bases: HeldBases,
    /// The object at hand.
    object: Vec<u8>,
    spare: Spare,
    used: Vec<usize>,
    base_error: Option<IngestError>,
    bytes_peak: usize,
    /// Bytes that were made again because their memory was needed.
    remade_bytes: u64,
}

/// What a worker has to tell.
#[derive(Debug)]
pub(super) struct Found {
    /// The objects of deltas.
    pub(super) named: Named,
    /// All objects that it met, with their links.
    pub(super) collector: Collector,
    /// The existing objects that it used as bases, by their number.
    pub(super) used: Vec<usize>,
    /// The first base that was there and could not be read.
    pub(super) base_error: Option<IngestError>,
    /// The most memory that contents took.
    pub(super) bytes_peak: usize,
}

/// From where a walk begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Root {
    /// From a whole object of the pack, at this place.
    InPack(u32),
    /// From an existing object, by its number.
    Existing(usize),
}

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, collector: Collector) -> Self {
        let plan = shared.plan;
        Self {
            shared,
            maker: shared.maker(),
            namer: Namer::new(shared.context, collector),
            bases: HeldBases::new(plan.held_bytes_max),
            object: Vec::new(),
            spare: Spare::new(plan.object_bytes_max),
            used: Vec::new(),
            base_error: None,
            bytes_peak: 0,
            remade_bytes: 0,
        }
    }

    /// How many deltas it has made into objects so far.
    pub(super) fn resolved(&self) -> u64 {
        self.namer.named_len()
    }

    pub(super) fn into_found(self) -> Found {
        let Self { namer, used, base_error, bytes_peak, .. } = self;
        let (named, collector) = namer.into_parts();
        Found { named, collector, used, base_error, bytes_peak }
    }

    /// Resolves everything below `root`, and stores the objects if they become loose.
    pub(super) fn run(&mut self, root: Root) -> Result<(), IngestError> {
        let tree = self.shared.tree;
        match root {
            Root::InPack(place) => {
                let table = self.shared.table;
                let (id, kind) = (table.id(place).to_owned(), table.kind(place));
                let kind = kind.ok_or(IngestError::Reread)?;
                let mut walk = Walk::below(tree, place, &id);
                let first = walk.next();
                if first.is_none() && self.shared.loose.is_none() {
                    return Ok(());
                }
                let content = self.maker.whole(place)?;
                if let (Some(loose), Some(bytes)) = (&self.shared.loose, content.in_memory()) {
                    loose.write(&id, kind, bytes)?;
                }
                let starts = match kind {
                    ObjectKind::Tree => self.starts(&content),
                    _ => None,
                };
                self.bases.push(place, content, starts);
                self.below(walk, first, kind)?;
            }
            Root::Existing(number) => {
                let (id, place) = self.shared.existing_base(number)?;
                let mut walk = Walk::below(tree, place, &id);
                let first = walk.next();
                if first.is_none() {
                    // Made from the pack meanwhile.
                    return Ok(());
                }
                match self.existing(&id) {
                    Ok((kind, content)) => {
                        self.used.push(number);
                        self.bases.push_pinned(place, content);
                        self.below(walk, first, kind)?;
                    }
                    // It counts if it is still needed in the end.
                    Err(error @ IngestError::Existing { .. }) => {
                        self.base_error.get_or_insert(error);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        self.bases.clear();
        Ok(())
    }

    fn below(
        &mut self,
        mut walk: Walk<'_>,
        first: Option<Delta>,
        kind: ObjectKind,
    ) -> Result<(), IngestError> {
        let mut next = first;
        while let Some(delta) = next {
            self.shared.check_on()?;
            self.resolve(&delta, kind, &mut walk)?;
            next = walk.next();
        }
        Ok(())
    }

    /// Makes the object of one delta, and holds it if something is made from it in turn.
    fn resolve(
        &mut self,
        delta: &Delta,
        kind: ObjectKind,
        walk: &mut Walk<'_>,
    ) -> Result<(), IngestError> {
        let depth = self.shared.depth;
        if delta.depth > depth.value {
            return Err(IngestError::DeltaTooDeep { limit: depth });
        }
        if self.bases.top(delta.base).is_none() {
            let content = self.make_again(delta.base)?;
            self.bases.restore(content);
        }
        if self.shared.table.kind(delta.place).is_some() {
            return self.make_named(delta, kind, walk);
        }
        let prepared = self.maker.prepare(delta.place)?;
        let (base, starts) = self.bases.top(delta.base).ok_or(IngestError::Reread)?;
        let result_size = prepared.result_size();
        self.shared.context.check_metadata(kind, result_size)?;
        let memory = self.shared.context.memory;
        if !self.shared.plan.fits(result_size)
            && !self.namer.collector().makes_room(kind, result_size, memory)?
        {
            return self.resolve_large(delta, prepared, kind, walk);
        }
        let starts = if let (Prepared::InMemory { .. }, Some(base)) = (prepared, base.in_memory()) {
            self.maker.apply(delta.place, base, result_size, &mut self.object)?;
            starts
        } else {
            self.object.clear();
            let object = &mut self.object;
            self.maker.stream(delta.place, prepared, base, |piece| {
                object.extend_from_slice(piece);
                Ok(())
            })?;
            None
        };
        let change = starts.map(|base| {
            let delta = self.maker.instructions(delta.place);
            base.change(&self.object, delta, self.shared.table.hash())
        });
        let (mut own_starts, new) = match change {
            Some(TreeChange { starts, new }) => (starts, Some(new)),
            None => (None, None),
        };
        let id = self.namer.name(delta.place, kind, &self.object, new.as_ref())?;
        if let Some(loose) = &self.shared.loose {
            loose.write(&id, kind, &self.object)?;
        }
        let is_base = walk.resolved(delta, &id);
        self.note_peak();
        self.release(delta);
        if is_base {
            let content = Content::Memory(std::mem::replace(&mut self.object, self.spare.take()));
            if own_starts.is_none() && kind == ObjectKind::Tree {
                own_starts = self.starts(&content);
            }
            self.bases.push(delta.place, content, own_starts);
        }
        Ok(())
    }

    /// As [`resolve`](Self::resolve), for an object that is too large for memory.
    fn resolve_large(
        &mut self,
        delta: &Delta,
        prepared: Prepared,
        kind: ObjectKind,
        walk: &mut Walk<'_>,
    ) -> Result<(), IngestError> {
        let size = prepared.result_size();
        let (base, _) = self.bases.top(delta.base).ok_or(IngestError::Reread)?;
        let mut object = StreamedObject::new(self.shared.table.hash(), kind, size);
        let (collector, shared) = (self.namer.collector(), self.shared);
        self.maker.stream(delta.place, prepared, base, |piece| {
            shared.check_on()?;
            object.piece(piece, collector)
        })?;
        let id = object.finish(collector)?;
        self.namer.account()?;
        self.namer.note(delta.place, kind, &id);
        self.note_peak();
        let is_base = walk.resolved(delta, &id);
        let is_there = self.namer.check().is_due(&id)?;
        let mut content = None;
        if is_base || is_there {
            // Only now it is known that the object is worth the disk.
            let (base, _) = self.bases.top(delta.base).ok_or(IngestError::Reread)?;
            let made = self.maker.content(delta.place, base)?;
            if is_there {
                self.namer.check().compare_content(&id, kind, &made)?;
            }
            content = Some(made);
        }
        self.release(delta);
        if let Some(content) = content.filter(|_| is_base) {
            self.bases.push(delta.place, content, None);
        }
        Ok(())
    }

    /// Makes the object of a delta that was made and named while the pack came, because others are
    /// made from it.
    fn make_named(
        &mut self,
        delta: &Delta,
        kind: ObjectKind,
        walk: &mut Walk<'_>,
    ) -> Result<(), IngestError> {
        let (base, _) = self.bases.top(delta.base).ok_or(IngestError::Reread)?;
        let content = self.maker.content(delta.place, base)?;
        let is_base = walk.resolved(delta, self.shared.table.id(delta.place));
        self.note_peak();
        self.release(delta);
        if is_base {
            let starts = if kind == ObjectKind::Tree { self.starts(&content) } else { None };
            self.bases.push(delta.place, content, starts);
        }
        Ok(())
    }

    /// Lets the base of `delta` go if nothing else is made from it.
    fn release(&mut self, delta: &Delta) {
        if delta.is_last_of_base
            && let Some(buffer) = self.bases.pop()
        {
            self.spare.put(buffer);
        }
    }

    /// Makes the content of a base whose memory was needed for something else.
    pub(super) fn make_again(&mut self, place: u32) -> Result<Content, IngestError> {
        let mut path = vec![place];
        let mut at = place;
        while let Some(base) = self.shared.tree.base_of(at) {
            path.push(base);
            at = base;
        }
        let (index, mut content) = match self.bases.nearest(&path) {
            Some((0, _)) | None => (path.len() - 1, self.root(at)?),
            Some((index, held)) => {
                let place = path.get(index - 1).copied().ok_or(IngestError::Reread)?;
                (index - 1, self.maker.content(place, held)?)
            }
        };
        for &place in path.get(..index).unwrap_or_default().iter().rev() {
            self.shared.check_on()?;
            let size = content.len();
            content = self.maker.content(place, &content)?;
            self.remade_bytes = self.remade_bytes.saturating_add(size);
            self.bytes_peak = self.bytes_peak.max(self.bytes() + content.memory_bytes());
        }
        self.remade_bytes = self.remade_bytes.saturating_add(content.len());
        self.shared.check_expansion(self.remade_bytes)?;
        Ok(content)
    }

    /// The object of `place` that is made from no other: of the pack, or of the repository if the
    /// place lies behind all entries.
    fn root(&mut self, place: u32) -> Result<Content, IngestError> {
        match (place as usize).checked_sub(self.shared.table.len()) {
            None => self.maker.whole(place),
            // It went when its last delta had been made.
            Some(number) => {
                let (id, _) = self.shared.existing_base(number)?;
                Ok(self.existing(&id)?.1)
            }
        }
    }

    /// The content of an existing object, which must be that of its id.
    ///
    /// It counts as if it had been made again: a push of a few bytes could ask for many large ones.
    pub(super) fn existing(&mut self, id: &ObjectId) -> Result<(ObjectKind, Content), IngestError> {
        let Shared { context, plan, table, .. } = self.shared;
        let failed = |source| IngestError::Existing { id: *id, source };
        let gone = || failed("it has gone since the push began".into());
        let damaged = || failed("its content is not that of its id".into());
        let info = context.existing.find(id, true).map_err(failed)?.ok_or_else(gone)?;
        self.remade_bytes = self.remade_bytes.saturating_add(info.size);
        self.shared.check_expansion(self.remade_bytes)?;
        if plan.fits(info.size) {
            let read = context.existing().read(id)?.map_err(failed)?;
            let (kind, content) = read.ok_or_else(gone)?;
            return match object_id(table.hash(), kind, &content) {
                Ok(actual) if actual == *id => Ok((kind, Content::Memory(content))),
                _ => Err(damaged()),
            };
        }
        let begin = || {
            let memory_max = plan.object_bytes_max;
            let writer = ContentWriter::new(info.size, memory_max, context.destination)?;
            Ok((ObjectHasher::new(table.hash(), info.kind, info.size), writer))
        };
        let mut made: Result<_, IngestError> = begin();
        let streamed = context.existing().stream(id, |piece| {
            let next = match (piece, &mut made) {
                (Piece::Start, _) => begin().map(|fresh| made = Ok(fresh)),
                (Piece::Bytes(bytes), Ok((hasher, writer))) => {
                    hasher.update(bytes);
                    self.shared.check_on().and_then(|()| writer.write(bytes))
                }
                (Piece::Bytes(_), Err(_)) => return ControlFlow::Break(()),
            };
            match next {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    made = Err(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        let (hasher, writer) = made?;
        let streamed = streamed.map_err(failed)?.ok_or_else(gone)?;
        match hasher.finish() {
            Ok(actual) if actual == *id && streamed == info => Ok((info.kind, writer.finish()?)),
            _ => Err(damaged()),
        }
    }

    /// Where the entries of a tree begin.
    fn starts(&self, content: &Content) -> Option<TreeStarts> {
        TreeStarts::of(content.in_memory()?, self.shared.table.hash())
    }

    fn bytes(&self) -> usize {
        self.bases.bytes() + self.object.capacity() + self.spare.bytes() + self.maker.bytes()
    }

    fn note_peak(&mut self) {
        self.bytes_peak = self.bytes_peak.max(self.bytes());
    }
}

impl std::fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("resolved", &self.resolved()).finish_non_exhaustive()
    }
}
