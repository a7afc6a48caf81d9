//! One pack, from its first byte to its files: the order of the parts.

use super::context::Context;
use super::entry_reader::EntryReader;
use super::error::IngestError;
use super::existing::ExistingObjects;
use super::loose::LooseObjects;
use super::maker::Maker;
use super::memory::PushMemory;
use super::memory_plan::MemoryPlan;
use super::options::{Destination, IngestOptions};
use super::outcome::{Ingested, Stored, Timings};
use super::receive::{Received, receive};
use super::resolve::{Resolution, resolve};
use super::store::store;
use super::thin::complete;
use crate::model::{ByteBudget, CancelToken, Share};
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

/// Takes a pack from `input` into a quarantine. If it is small nothing is written: its files are
/// handed over in memory.
///
/// Fewer objects than the unpack limit become loose, unless they are large; more are kept as the
/// pack that came, byte for byte, with an index beside it. Bases that the pack misses are appended
/// to a kept pack, and left where they are for loose objects. Every object is hashed, with
/// detection of collision attacks, and compared with an existing one of its id; none is left out
/// because it exists. An empty pack leaves nothing.
///
/// What it takes of the memory that pushes share it takes into `share`.
///
/// Nothing is flushed. With an error, whatever was written is left for the owner of the quarantine
/// to remove with it.
pub fn ingest(
    input: &mut dyn Read,
    existing: &dyn ExistingObjects,
    destination: &Destination,
    options: &IngestOptions,
    cancel: &CancelToken,
    share: Share<Arc<ByteBudget>>,
) -> Result<Ingested, IngestError> {
    let memory = PushMemory::new(share, &options.limits, cancel);
    let context = Context { existing, destination, options, cancel, memory: &memory };
    let started = Instant::now();
    let mut received = receive(input, context)?;
    let has_come = Instant::now();
    if let Some(progress) = &options.progress {
        progress.note_arrival(received.arrived.tree.deltas());
        progress.add_resolved(received.arrived.made);
    }
    received.check_expansion(received.arrived.inflated_bytes, &options.limits)?;
    plan(&mut received, context);
    compare_streamed(&received, context)?;
    received.arrived.failed.take().map_or(Ok(()), Err)?;
    let is_empty = received.end.entries == 0;
    let in_memory = received.spool.is_in_memory()
        && received.arrived.inflated_bytes <= destination.held_bytes_max;
    let loose =
        becomes_loose(&received, options).then(|| LooseObjects::new(destination, in_memory));
    let resolution = resolve(&mut received, context, loose.as_ref())?;
    let is_resolved = Instant::now();

    let Received { spool, end, mut arrived } = received;
    let body_end = end.bytes.saturating_sub(options.hash.len_in_bytes() as u64);
    let (stored, files) = if is_empty {
        (Stored::Nothing, Vec::new())
    } else if let Some(loose) = loose {
        spool.discard()?;
        let files = loose.into_files();
        (Stored::Loose { objects: u32::try_from(files.len()).unwrap_or(u32::MAX) }, files)
    } else {
        let mut body = spool.into_body()?;
        let Resolution { missing_bases, .. } = &resolution;
        let mut checksum = end.checksum;
        if !missing_bases.is_empty() {
            let missing = missing_bases;
            checksum = complete(&mut body, &mut arrived, &end, body_end, missing, context)?;
        }
        let appended = u32::try_from(missing_bases.len()).unwrap_or(u32::MAX);
        let (pack, files) = store(body, &arrived.table, checksum, appended, context)?;
        (Stored::Pack(pack), files)
    };
    let kept_bytes = arrived.kept.bytes() as u64;
    let in_memory = arrived.largest_bytes.min(arrived.plan.object_bytes_max as u64);
    let in_memory = in_memory + arrived.bytes_peak as u64;
    let objects = arrived.collector.into_objects();
    Ok(Ingested {
        stored,
        files,
        memory: memory.into_share(objects.memory_bytes()),
        objects,
        object_count: end.entries,
        received_bytes: end.bytes,
        inflated_bytes: arrived.inflated_bytes,
        received_pack_checksum: end.checksum,
        content_bytes_peak: kept_bytes + in_memory.max(resolution.bytes_peak as u64),
        timings: Timings {
            receive: has_come - started,
            resolve: is_resolved - has_come,
            store: is_resolved.elapsed(),
        },
    })
}

/// Shares out what memory there is for resolving the pack.
fn plan(received: &mut Received<'_>, context: Context<'_>) {
    let Received { arrived, end, .. } = received;
    let (options, kept) = (context.options, arrived.kept.bytes() as u64);
    let useful = MemoryPlan::useful_bytes(arrived.inflated_bytes, options.threads, end.entries);
    context.memory.keep_contents(kept);
    let granted = context.memory.contents_up_to(kept.saturating_add(useful));
    let (rest, big) = (granted.saturating_sub(kept), options.limits.big_file_bytes);
    arrived.plan = MemoryPlan::new(rest, big, options.threads, end.entries).for_all_of(
        arrived.inflated_bytes,
        rest,
        big,
    );
}

/// Whether the objects of a pack are few and small enough to become loose.
///
/// What an object takes is known before it is made: whole ones and deltas tell their size.
fn becomes_loose(received: &Received<'_>, options: &IngestOptions) -> bool {
    let Received { end, arrived, .. } = received;
    !options.unpack_limit.keeps(end.entries.into())
        && u64::from(end.entries) < options.limits.unpack_objects_max
        && arrived.inflated_bytes <= options.limits.unpack_bytes_max
        && arrived.plan.fits(arrived.largest_bytes)
}

/// Compares the objects that were not in memory when they came with the existing ones.
fn compare_streamed(received: &Received<'_>, context: Context<'_>) -> Result<(), IngestError> {
    let Received { spool, arrived, .. } = received;
    let table = &arrived.table;
    let reader = EntryReader::new(spool, table, received.body_end());
    let mut maker = Maker::new(reader, table, &arrived.kept, arrived.plan, context);
    let check = context.collision_check();
    for &place in &arrived.uncompared {
        context.check_on()?;
        let object = maker.whole(place)?;
        let kind = table.kind(place).ok_or(IngestError::Reread)?;
        check.compare_content(&table.id(place).to_owned(), kind, &object)?;
    }
    Ok(())
}
