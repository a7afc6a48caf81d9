//! Pass two: every delta is made into its object, on as many threads as there is memory for.
//!
//! Bases in the pack come first; what is left after that is looked for among the existing objects.
//! Whatever order the threads take, the objects are the same.

use super::collector::Collector;
use super::context::Context;
use super::entry_reader::EntryReader;
use super::error::IngestError;
use super::inspect_rest::inspect_rest;
use super::loose::LooseObjects;
use super::maker::Maker;
use super::memory_plan::MemoryPlan;
use super::receive::Received;
use super::visitor::Arrived;
use super::worker::{Found, Root, Worker};
use crate::model::{Limit, ObjectId};
use crate::pack::delta_tree::DeltaTree;
use crate::pack::table::EntryTable;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// What was found out beyond the objects themselves.
#[derive(Debug, Default)]
pub(super) struct Resolution {
    /// The existing objects that the pack needs and does not hold.
    pub(super) missing_bases: Vec<ObjectId>,
    /// The most memory that contents took, of all threads together.
    pub(super) bytes_peak: usize,
}

/// What the threads of a round share.
pub(super) struct Shared<'a> {
    pub(super) context: Context<'a>,
    pub(super) table: &'a EntryTable,
    pub(super) tree: &'a DeltaTree,
    pub(super) plan: MemoryPlan,
    /// Where objects are written loose, if they are.
    pub(super) loose: Option<&'a LooseObjects<'a>>,
    /// `delta_depth_max`.
    pub(super) depth: Limit,
    received: &'a Received<'a>,
    /// Existing objects that may be bases.
    candidates: &'a [ObjectId],
    /// Set when a thread has failed.
    stop: AtomicBool,
}

/// Makes the objects of all deltas of `received`, names them in its table and collects their links;
/// writes every object of the pack with `loose` if that is given.
pub(super) fn resolve(
    received: &mut Received<'_>,
    context: Context<'_>,
    loose: Option<&LooseObjects<'_>>,
) -> Result<Resolution, IngestError> {
    let mut tally = Tally { resolved: received.arrived.made, ..Tally::default() };
    let mut candidates = Vec::new();
    let roots = if loose.is_some() { all_whole(received) } else { parents(received) };
    let found = round(received, context, loose, &candidates, &roots)?;
    tally.add(received, found)?;
    for refresh in [false, true] {
        if tally.resolved == received.arrived.tree.deltas() || !context.options.thin {
            break;
        }
        let first = candidates.len();
        candidates.extend(existing_bases(received, context, refresh, &mut tally.base_error)?);
        let roots: Vec<_> = (first..candidates.len()).map(Root::Existing).collect();
        let found = round(received, context, loose, &candidates, &roots)?;
        tally.add(received, found)?;
    }
    if tally.resolved < received.arrived.tree.deltas() {
        return Err(match tally.base_error {
            Some(error) => error,
            None => unresolved(received, tally.resolved)?,
        });
    }
    for other in std::mem::take(&mut received.arrived.collectors) {
        received.arrived.collector.absorb(other)?;
    }
    inspect(received, context, &candidates)?;
    tally.used.sort_unstable();
    let used = tally.used.into_iter().filter_map(|number| candidates.get(number).copied());
    Ok(Resolution { missing_bases: used.collect(), bytes_peak: tally.bytes_peak })
}

/// What the rounds have found out together.
#[derive(Debug, Default)]
struct Tally {
    resolved: u64,
    used: Vec<usize>,
    /// The first base that is there and could not be read: it matters if deltas are left.
    base_error: Option<IngestError>,
    bytes_peak: usize,
}

impl Tally {
    fn add(&mut self, received: &mut Received<'_>, found: Vec<Found>) -> Result<(), IngestError> {
        let mut bytes_peak = 0;
        for found in found {
            self.resolved += found.named.len();
            for (place, kind, id) in found.named.iter() {
                received.arrived.table.set_object(place, kind, id);
            }
            received.arrived.collector.absorb(found.collector)?;
            self.used.extend(found.used);
            bytes_peak += found.bytes_peak;
            if self.base_error.is_none() {
                self.base_error = found.base_error;
            }
        }
        self.bytes_peak = self.bytes_peak.max(bytes_peak);
        Ok(())
    }
}

/// Walks below all `roots`, each thread taking the next one when it is done with one.
fn round(
    received: &mut Received<'_>,
    context: Context<'_>,
    loose: Option<&LooseObjects<'_>>,
    candidates: &[ObjectId],
    roots: &[Root],
) -> Result<Vec<Found>, IngestError> {
    let empty = received.arrived.collector.sibling();
    // The first thread goes on collecting where pass one has stopped: one thread alone merges
    // nothing.
    let own = std::mem::replace(&mut received.arrived.collector, empty);
    // The others go on where those of pass one have stopped.
    let collectors = Mutex::new(std::mem::take(&mut received.arrived.collectors));
    let received_now = &*received;
    let shared = Shared::new(received_now, context, loose, candidates);
    let next = AtomicUsize::new(0);
    let work = |collector: Option<Collector>| {
        let collector = collector
            .or_else(|| lock(&collectors).pop())
            .unwrap_or_else(|| received_now.arrived.collector.sibling());
        let mut worker = Worker::new(&shared, collector);
        let mut told = 0;
        while let Some(root) = roots.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = worker.run(*root) {
                shared.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            if let Some(progress) = &context.options.progress {
                let resolved = worker.resolved();
                progress.add_resolved(resolved - told);
                told = resolved;
            }
        }
        Ok(worker.into_found())
    };
    let threads = shared.plan.threads.min(roots.len());
    let results = thread::scope(|scope| {
        // Where there is no other thread to be had, this one does it all.
        let others: Vec<_> = (1..threads)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, || work(None)).ok())
            .collect();
        let mut results = vec![work(Some(own))];
        for other in others {
            match other.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    received.arrived.collectors = collectors.into_inner().unwrap_or_else(PoisonError::into_inner);
    join(results)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all threads of one job gave, or the error of one of them.
pub(super) fn join<T>(results: Vec<Result<T, IngestError>>) -> Result<Vec<T>, IngestError> {
    let mut found = Vec::new();
    let mut failed = None;
    for result in results {
        match result {
            Ok(one) => found.push(one),
            // A thread that another one stopped says that it was cancelled: only if all of them
            // do, somebody else asked for it.
            Err(error) if matches!(failed, None | Some(IngestError::Cancelled)) => {
                failed = Some(error);
            }
            Err(_) => {}
        }
    }
    failed.map_or(Ok(found), Err)
}

/// The whole objects that deltas are made from.
fn parents(received: &Received<'_>) -> Vec<Root> {
    received
        .arrived
        .tree
        .roots(&received.arrived.table)
        .map(|root| Root::InPack(root.place))
        .collect()
}

/// All whole objects.
fn all_whole(received: &Received<'_>) -> Vec<Root> {
    let places = 0..u32::try_from(received.arrived.table.len()).unwrap_or(u32::MAX);
    places.filter(|&place| !received.arrived.tree.is_delta(place)).map(Root::InPack).collect()
}

/// The existing ones of the objects that unresolved deltas name, in the order in which the pack
/// asks for them: git writes a base before its deltas, so that one which is itself made from an
/// existing object is often there before it is needed.
fn existing_bases(
    received: &Received<'_>,
    context: Context<'_>,
    refresh: bool,
    base_error: &mut Option<IngestError>,
) -> Result<Vec<ObjectId>, IngestError> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for_each_unclaimed(received, |base| {
        if seen.insert(base) {
            match context.existing.find(&base, refresh) {
                Ok(Some(_)) => found.push(base),
                Ok(None) => {}
                Err(source) => {
                    base_error.get_or_insert(IngestError::Existing { id: base, source });
                }
            }
        }
        context.check_on().map(|()| true)
    })?;
    Ok(found)
}

/// The error that deltas are left.
fn unresolved(received: &Received<'_>, resolved: u64) -> Result<IngestError, IngestError> {
    let mut first = None;
    for_each_unclaimed(received, |base| {
        first = Some(base);
        Ok(false)
    })?;
    let count = received.arrived.tree.deltas().saturating_sub(resolved);
    // Whatever is unresolved hangs on a delta that nobody claimed, or on a base that could not be
    // read; the latter is another error.
    Ok(match first {
        Some(base) => IngestError::UnresolvedDeltas { count, base },
        None => IngestError::Reread,
    })
}

/// Hands the bases of deltas by id that nobody has claimed to `visit`, in the order of the pack,
/// while it says to go on.
fn for_each_unclaimed(
    received: &Received<'_>,
    mut visit: impl FnMut(ObjectId) -> Result<bool, IngestError>,
) -> Result<(), IngestError> {
    let Arrived { table, tree, .. } = &received.arrived;
    let mut reader = EntryReader::new(&received.spool, table, received.body_end());
    let places = 0..u32::try_from(table.len()).unwrap_or(u32::MAX);
    for place in places.filter(|&place| tree.is_delta(place) && tree.base_of(place).is_none()) {
        if let Some(base) = reader.base_id(place)?
            && !visit(base)?
        {
            break;
        }
    }
    Ok(())
}

/// Has fsck look at what it could not look at while the objects came, if it looks at any.
fn inspect(
    received: &Received<'_>,
    context: Context<'_>,
    candidates: &[ObjectId],
) -> Result<(), IngestError> {
    let collector = &received.arrived.collector;
    let Some(inspector) = collector.inspector() else { return Ok(()) };
    let shared = Shared::new(received, context, None, candidates);
    let mut worker = Worker::new(&shared, collector.sibling());
    inspect_rest(inspector, received, context, &mut worker)
}

impl<'a> Shared<'a> {
    fn new(
        received: &'a Received<'a>,
        context: Context<'a>,
        loose: Option<&'a LooseObjects<'a>>,
        candidates: &'a [ObjectId],
    ) -> Self {
        let value = context.options.limits.delta_depth_max;
        Self {
            context,
            table: &received.arrived.table,
            tree: &received.arrived.tree,
            plan: received.arrived.plan,
            loose,
            depth: Limit { name: "delta_depth_max", value, unit: "deltas" },
            received,
            candidates,
            stop: AtomicBool::new(false),
        }
    }

    /// An error if so many bytes are more than the objects of the pack may have.
    pub(super) fn check_expansion(&self, bytes: u64) -> Result<(), IngestError> {
        self.received.check_expansion(bytes, &self.context.options.limits)
    }

    /// Makes contents from the pack.
    pub(super) fn maker(&self) -> Maker<'a> {
        let Received { spool, arrived, .. } = self.received;
        let Arrived { table, kept, .. } = arrived;
        let reader = EntryReader::new(spool, table, self.received.body_end());
        Maker::new(reader, table, kept, self.plan, self.context)
    }

    /// The existing object of this number, and the place that it is given: behind all entries.
    pub(super) fn existing_base(&self, number: usize) -> Result<(ObjectId, u32), IngestError> {
        let id = self.candidates.get(number).copied().ok_or(IngestError::Reread)?;
        let place = u32::try_from(self.table.len() + number).map_err(|_| IngestError::Reread)?;
        Ok((id, place))
    }

    /// An error if this thread shall not go on.
    pub(super) fn check_on(&self) -> Result<(), IngestError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(IngestError::Cancelled);
        }
        self.context.check_on()
    }
}
