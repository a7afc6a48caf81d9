//! What is done about each entry as it arrives: whole objects are hashed, compared and read for
//! their links; deltas are kept for later, if there is room.

use super::collector::Collector;
use super::collision::CollisionCheck;
use super::context::Context;
use super::early::Early;
use super::error::IngestError;
use super::kept_deltas::KeptDeltas;
use super::maker::DELTA_HEADER_BYTES_MAX;
use super::memory_plan::{KEPT_PARTS, MemoryPlan, OBJECT_BYTES_MIN};
use super::namer::Named;
use super::naming::Naming;
use super::object_hash::object_id;
use super::streamed::StreamedObject;
use crate::model::{HashKind, Limit, ObjectId, ObjectKind};
use crate::pack::delta;
use crate::pack::delta_tree::{DeltaTree, DeltaTreeBuilder};
use crate::pack::entry::EntryKind;
use crate::pack::header::PackHeader;
use crate::pack::parser::{Delivery, EntryEnd, EntryStart, PackVisitor};
use crate::pack::table::EntryTable;
use std::thread::Scope;

/// Everything about a pack but its bytes.
#[derive(Debug)]
pub(super) struct Arrived {
    /// The entries; whole objects are named.
    pub(super) table: EntryTable,
    /// Which is made from which.
    pub(super) tree: DeltaTree,
    /// Instructions that are at hand.
    pub(super) kept: KeptDeltas,
    /// The whole objects and their links.
    pub(super) collector: Collector,
    /// Objects of deltas that are made already, and named in the table.
    pub(super) made: u64,
    /// The same with their links, as they were collected.
    pub(super) collectors: Vec<Collector>,
    /// What is wrong with one of them. It is told after what is wrong with the pack.
    pub(super) failed: Option<IngestError>,
    /// The most memory that contents took that were held meanwhile.
    pub(super) bytes_peak: usize,
    /// Whole objects that were not in memory when they could have been compared with the existing
    /// ones of their ids.
    pub(super) uncompared: Vec<u32>,
    /// Bytes of all objects, deltas resolved, as their instructions declare.
    pub(super) inflated_bytes: u64,
    /// Bytes of the largest object or delta.
    pub(super) largest_bytes: u64,
    /// The version that the pack's header has.
    pub(super) version: u32,
    /// How memory is shared out.
    pub(super) plan: MemoryPlan,
}

/// Hears of each entry.
pub(super) struct Arrivals<'s, 'a> {
    context: Context<'a>,
    /// Where threads are started.
    scope: &'s Scope<'s, 'a>,
    early: Option<Early<'s, 'a>>,
    check: CollisionCheck<'a>,
    table: EntryTable,
    builder: DeltaTreeBuilder,
    kept: KeptDeltas,
    collector: Collector,
    uncompared: Vec<u32>,
    inflated_bytes: u64,
    largest_bytes: u64,
    version: u32,
    /// Entries that the pack announces.
    count: u32,
    plan: MemoryPlan,
    kind: EntryKind,
    offset: u64,
    content: Content,
    /// Bytes of an object for which there is memory.
    object_room: u64,
    /// Deltas that name their bases by id.
    ref_deltas: u64,
    /// Memory of the tables that is accounted for.
    tables: u64,
}

/// By how much memory for tables is taken beyond what is needed, so that it is seldom asked for.
const TABLES_STEP_BYTES: u64 = 256 << 10;

/// What has come of the entry at hand.
enum Content {
    /// Nothing.
    None,
    /// All of an object, and it is dealt with.
    Object(ObjectKind, ObjectId),
    /// Part of an object.
    Streamed(ObjectKind, StreamedObject),
    /// All of a delta, and it is dealt with.
    Delta,
    /// The beginning of a delta that is too large for memory.
    Beginning(Vec<u8>),
}

impl<'s, 'a> Arrivals<'s, 'a> {
    pub(super) fn new(context: Context<'a>, scope: &'s Scope<'s, 'a>) -> Self {
        let (hash, limits) = (context.options.hash, &context.options.limits);
        Self {
            context,
            scope,
            early: None,
            check: context.collision_check(),
            table: EntryTable::new(hash),
            builder: DeltaTreeBuilder::new(hash),
            kept: KeptDeltas::new(0),
            collector: Collector::new(hash, limits).inspected(context.options.fsck.as_ref()),
            uncompared: Vec::new(),
            inflated_bytes: 0,
            largest_bytes: 0,
            version: 2,
            count: 0,
            plan: MemoryPlan::new(0, limits.big_file_bytes, 1, 0),
            kind: EntryKind::Whole(ObjectKind::Blob),
            offset: 0,
            content: Content::None,
            object_room: OBJECT_BYTES_MIN,
            ref_deltas: 0,
            tables: 0,
        }
    }

    /// What has arrived, once all of it has.
    pub(super) fn finish(mut self) -> Result<Arrived, IngestError> {
        self.account()?;
        let (mut tree, mut table) = (self.builder.build(), self.table);
        let bytes_peak = self.early.as_ref().map_or(0, Early::bytes_peak);
        let (done, failed) = match self.early.map(Early::finish).transpose() {
            Ok(done) => (done.unwrap_or_default(), None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let (mut made, mut collectors) = (0, Vec::new());
        for (named, collector) in done {
            made += named.len();
            for (place, kind, id) in named.iter() {
                table.set_object(place, kind, id);
            }
            collectors.push(collector);
        }
        if made > 0 {
            tree.leave_out_named(&table);
        }
        Ok(Arrived {
            tree,
            table,
            kept: self.kept,
            collector: self.collector,
            made,
            collectors,
            failed,
            bytes_peak,
            uncompared: self.uncompared,
            inflated_bytes: self.inflated_bytes,
            largest_bytes: self.largest_bytes,
            version: self.version,
            plan: self.plan,
        })
    }

    /// Hands on what waits to be handed on. To be called when nothing more is there for now.
    pub(super) fn flush(&mut self) {
        if let Some(early) = &mut self.early {
            early.flush();
        }
    }

    /// Has the object of the delta at hand made at once, if that can be.
    fn make(&mut self, place: u32, delta: &[u8], result_size: u64) -> bool {
        let (Some(early), EntryKind::OfsDelta { base_offset }) = (&mut self.early, self.kind)
        else {
            return false;
        };
        // What the pack may expand to is known when it has come; until then, by what has come.
        let limits = &self.context.options.limits;
        self.inflated_bytes <= limits.expanded_bytes_max(self.offset)
            && early.make((place, self.offset), base_offset, delta, result_size)
    }

    /// Whether there is memory for an object or delta of `size` bytes.
    fn fits(&mut self, size: u64) -> bool {
        if !self.plan.fits(size) {
            return false;
        }
        if size > self.object_room {
            // Somewhat larger ones follow.
            let room = size.saturating_add(size / 4).min(self.plan.object_bytes_max as u64);
            if !self.context.memory.add_contents(room.saturating_sub(self.object_room)) {
                return false;
            }
            self.object_room = room;
        }
        true
    }

    /// Takes memory for what the tables have grown by, with what resolving is going to need.
    fn account(&mut self) -> Result<(), IngestError> {
        let hash = self.context.options.hash;
        let needed = (self.table.len() as u64)
            .saturating_mul(entry_bytes(hash) as u64)
            .saturating_add(
                self.ref_deltas * DeltaTree::ref_delta_bytes(hash.len_in_bytes()) as u64,
            )
            .saturating_add(self.collector.memory_bytes());
        if needed > self.tables {
            let tables = needed.saturating_add(TABLES_STEP_BYTES);
            self.context.memory.add_tables(tables - self.tables)?;
            self.tables = tables;
        }
        Ok(())
    }

    /// The place that the entry at hand is going to have.
    fn place(&self) -> u32 {
        u32::try_from(self.table.len()).unwrap_or(u32::MAX)
    }

    /// Counts the bytes of an object.
    fn count_bytes(&mut self, size: u64) -> Result<(), IngestError> {
        let limits = &self.context.options.limits;
        let bytes = |name, value| Limit { name, value, unit: "bytes" };
        if size > limits.object_bytes_max {
            let limit = bytes("object_bytes_max", limits.object_bytes_max);
            return Err(IngestError::ObjectTooLarge { size, limit });
        }
        self.largest_bytes = self.largest_bytes.max(size);
        self.inflated_bytes = self.inflated_bytes.saturating_add(size);
        if self.inflated_bytes > limits.inflated_bytes_max {
            let limit = bytes("inflated_bytes_max", limits.inflated_bytes_max);
            return Err(IngestError::InflatedTooLarge { limit });
        }
        Ok(())
    }

    /// Counts the object that a delta makes, of which `beginning` is enough to tell the size.
    fn count_result(&mut self, beginning: &[u8]) -> Result<u64, IngestError> {
        let offset = self.offset;
        match delta::header(beginning) {
            Ok(header) => self.count_bytes(header.result_size).map(|()| header.result_size),
            Err(fault) => Err(IngestError::BadDelta { offset, fault }),
        }
    }
}

impl PackVisitor for Arrivals<'_, '_> {
    type Error = IngestError;

    fn header(&mut self, header: PackHeader) -> Result<(), IngestError> {
        let options = self.context.options;
        (self.version, self.count) = (header.version, header.count);
        let cache = options.limits.base_cache_bytes_max;
        let kept = cache / KEPT_PARTS;
        self.plan = MemoryPlan::new(cache - kept, options.limits.big_file_bytes, 1, header.count);
        self.kept = KeptDeltas::new(kept);
        let unpacks = !options.unpack_limit.keeps(header.count.into());
        self.collector.set_unpacks(unpacks);
        // fsck looks at objects in their order.
        if !unpacks && options.fsck.is_none() {
            let naming = Naming::start(self.scope, self.context, &self.collector, header.count);
            self.early = Some(Early::new(self.context, naming, self.plan.object_bytes_max));
        }
        Ok(())
    }

    fn entry(&mut self, start: &EntryStart) -> Result<Delivery, IngestError> {
        self.context.check_on()?;
        (self.kind, self.offset) = (start.header.kind, start.offset);
        let size = start.header.size;
        let mut fits = self.fits(size);
        self.content = match self.kind {
            EntryKind::Whole(kind) => {
                self.count_bytes(size)?;
                self.context.check_metadata(kind, size)?;
                fits = fits || self.collector.makes_room(kind, size, self.context.memory)?;
                if fits {
                    Content::None
                } else {
                    let hash = self.context.options.hash;
                    Content::Streamed(kind, StreamedObject::new(hash, kind, size))
                }
            }
            _ if fits => Content::None,
            _ => Content::Beginning(Vec::new()),
        };
        Ok(if fits { Delivery::Whole } else { Delivery::Chunks })
    }

    fn whole(&mut self, content: &[u8]) -> Result<(), IngestError> {
        if let EntryKind::Whole(kind) = self.kind {
            let id = object_id(self.context.options.hash, kind, content)?;
            self.collector.inspect(&id, kind, content)?;
            self.collector.note(&id, kind, content)?;
            self.check.check(&id, kind, content)?;
            self.content = Content::Object(kind, id);
            if let Some(early) = &mut self.early {
                early.hold(self.offset, kind, content);
            }
        } else {
            let (place, result_size) = (self.place(), self.count_result(content)?);
            self.content = Content::Delta;
            if self.make(place, content, result_size) {
                return Ok(());
            }
            self.kept.keep(place, content, self.count.saturating_sub(place), self.context.memory);
        }
        Ok(())
    }

    fn chunk(&mut self, piece: &[u8]) -> Result<(), IngestError> {
        self.context.check_on()?;
        match &mut self.content {
            Content::Streamed(_, object) => object.piece(piece, &mut self.collector),
            Content::Beginning(bytes) => {
                let room = DELTA_HEADER_BYTES_MAX - bytes.len();
                bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
                Ok(())
            }
            Content::None | Content::Object(..) | Content::Delta => Ok(()),
        }
    }

    fn end(&mut self, end: &EntryEnd) -> Result<(), IngestError> {
        let object = match std::mem::replace(&mut self.content, Content::None) {
            Content::Object(kind, id) => Some((kind, id)),
            Content::Streamed(kind, object) => {
                let id = object.finish(&mut self.collector)?;
                if self.check.is_due(&id)? {
                    self.uncompared.push(self.place());
                }
                Some((kind, id))
            }
            Content::Beginning(bytes) => {
                self.largest_bytes = u64::MAX;
                self.count_result(&bytes)?;
                None
            }
            Content::Delta | Content::None => None,
        };
        let place = self.table.push(end.offset, end.crc32)?;
        self.builder.push(&self.table, &self.kind).map_err(IngestError::NoSuchBase)?;
        if let Some((kind, id)) = object {
            self.table.set_object(place, kind, &id);
        }
        if let EntryKind::RefDelta { .. } = self.kind {
            self.ref_deltas += 1;
        }
        self.account()
    }
}

/// Memory for an entry: in its table, in the tree of deltas, among the deltas that are kept, and
/// while it is named or sorted.
fn entry_bytes(hash: HashKind) -> usize {
    EntryTable::entry_bytes(hash)
        + DeltaTree::ENTRY_BYTES
        + KeptDeltas::ENTRY_BYTES
        + Named::bytes(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_an_entry_take_less_than_eighty_bytes() {
        let for_good = entry_bytes(HashKind::Sha1) - Named::bytes(HashKind::Sha1);
        assert_eq!((for_good, entry_bytes(HashKind::Sha1)), (49, 77));
        assert_eq!(DeltaTree::ref_delta_bytes(20), 25);
    }
}
