//! Objects that were made while the pack arrives, named by several threads.
//!
//! Threads of its own take what has been made, some objects at a time. Where they do not keep up,
//! the thread that reads the pack names objects itself rather than wait: the processors are busy
//! either way, and memory for what waits stays within a bound.

use super::collector::Collector;
use super::context::Context;
use super::error::IngestError;
use super::memory_plan::useful_threads;
use super::namer::{Named, Namer};
use super::tree_starts::NewEntries;
use crate::model::ObjectKind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

/// The threads that name the objects of one pack.
pub(super) struct Naming<'s, 'a> {
    queue: Offering,
    threads: Vec<ScopedJoinHandle<'s, Result<Done, IngestError>>>,
    /// What is not in the queue yet.
    batch: Batch,
    own: Namer<'a>,
}

/// An object to be named.
pub(super) struct Job {
    /// The place of its entry.
    pub(super) place: u32,
    /// Its kind.
    pub(super) kind: ObjectKind,
    /// Its bytes.
    pub(super) content: Arc<Vec<u8>>,
    /// Of a tree that was made from one whose links are all noted, the others.
    pub(super) new: Option<NewEntries>,
}

/// The end of the queue that batches are put into. Dropped, it is over: threads that wait for more
/// must not wait for ever, whatever went wrong.
struct Offering(Arc<Queue>);

/// What one thread has named, and collected.
pub(super) type Done = (Named, Collector);

#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    bytes: usize,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    has_changed: Condvar,
}

#[derive(Default)]
struct State {
    batches: Vec<Batch>,
    /// Of those, and of those that threads are at.
    bytes: usize,
    /// Something could not be named.
    has_failed: bool,
    /// Nothing more is going to come.
    is_over: bool,
}

/// More threads than this have nothing to do: what the reading thread does is a third of the work.
const THREADS_MAX: usize = 4;

/// Bytes from which a batch is handed on, so that threads are not woken for each object.
const BATCH_BYTES: usize = 128 << 10;

/// LIMIT: bytes that wait for a thread, or that one is at.
const QUEUE_BYTES_MAX: usize = 2 << 20;

/// Memory for those, and for the batch at hand: that ends with an object of a MiB, its slack and
/// where the entries of it begin.
const MEMORY_BYTES: usize = 2 * QUEUE_BYTES_MAX;

/// What an object takes beside its bytes. There are ones without any.
const JOB_BYTES: usize = 192;

impl<'s, 'a> Naming<'s, 'a> {
    /// Starts as many threads as are of use for a pack of `objects`, beside the one that reads it;
    /// none without memory for what waits.
    pub(super) fn start(
        scope: &'s Scope<'s, 'a>,
        context: Context<'a>,
        collector: &Collector,
        objects: u32,
    ) -> Self {
        let queue = Arc::new(Queue::default());
        let threads = context.options.threads.min(THREADS_MAX + 1);
        let mut others = useful_threads(threads, objects).saturating_sub(1);
        if others > 0 && !context.memory.add_contents(MEMORY_BYTES as u64) {
            others = 0;
        }
        let threads = (0..others).map_while(|_| {
            let (queue, namer) = (Arc::clone(&queue), Namer::new(context, collector.sibling()));
            // Where there is no thread to be had, this one does it all.
            thread::Builder::new().spawn_scoped(scope, move || work(&queue, namer)).ok()
        });
        let threads = threads.collect();
        let own = Namer::new(context, collector.sibling());
        Self { queue: Offering(queue), threads, batch: Batch::default(), own }
    }

    /// Memory that what waits may take.
    pub(super) fn bytes_max(&self) -> usize {
        if self.threads.is_empty() { 0 } else { MEMORY_BYTES }
    }

    /// Adds an object.
    pub(super) fn add(&mut self, job: Job) -> Result<(), IngestError> {
        if self.threads.is_empty() {
            return job.name(&mut self.own);
        }
        self.batch.bytes += job.bytes();
        self.batch.jobs.push(job);
        if self.batch.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Hands on what was added, or names it.
    pub(super) fn flush(&mut self) -> Result<(), IngestError> {
        if self.batch.jobs.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        match self.queue.0.offer(batch) {
            Ok(()) => Ok(()),
            Err(batch) => batch.name(&mut self.own).inspect_err(|_| self.queue.0.fail()),
        }
    }

    /// Names what is left, and waits for all threads.
    pub(super) fn finish(mut self) -> Result<Vec<Done>, IngestError> {
        let mut result = self.flush();
        while let (Ok(()), Some(batch)) = (&result, self.queue.0.take()) {
            result = batch.name(&mut self.own).inspect_err(|_| self.queue.0.fail());
        }
        drop(self.queue);
        let mut results = vec![result.map(|()| self.own.into_parts())];
        for thread in self.threads {
            match thread.join() {
                Ok(done) => results.push(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        super::resolve::join(results)
    }
}

fn work(queue: &Queue, mut namer: Namer<'_>) -> Result<Done, IngestError> {
    while let Some(batch) = queue.wait() {
        let bytes = batch.bytes;
        batch.name(&mut namer).inspect_err(|_| queue.fail())?;
        queue.note_done(bytes);
    }
    Ok(namer.into_parts())
}

impl Batch {
    fn name(self, namer: &mut Namer<'_>) -> Result<(), IngestError> {
        self.jobs.into_iter().try_for_each(|job| job.name(namer))
    }
}

impl Job {
    /// Memory that it takes.
    fn bytes(&self) -> usize {
        let new = self.new.as_ref().map_or(0, NewEntries::bytes);
        self.content.capacity() + new + JOB_BYTES
    }

    fn name(self, namer: &mut Namer<'_>) -> Result<(), IngestError> {
        let Self { place, kind, content, new } = self;
        namer.check_on()?;
        namer.name(place, kind, &content, new.as_ref()).map(drop)
    }
}

impl Queue {
    /// Adds a batch, unless too much waits already. After an error nobody asks for it.
    fn offer(&self, batch: Batch) -> Result<(), Batch> {
        let mut state = self.state();
        if state.has_failed {
            return Ok(());
        }
        if state.bytes + batch.bytes > QUEUE_BYTES_MAX {
            return Err(batch);
        }
        state.bytes += batch.bytes;
        state.batches.push(batch);
        drop(state);
        self.has_changed.notify_one();
        Ok(())
    }

    /// A batch, if one is there. The newest: it is nearest to the processor.
    fn take(&self) -> Option<Batch> {
        self.state().batches.pop()
    }

    /// Says that a batch of so many bytes is named.
    fn note_done(&self, bytes: usize) {
        self.state().bytes -= bytes;
    }

    /// Says that the push is lost: what waits need not be named.
    fn fail(&self) {
        let mut state = self.state();
        state.has_failed = true;
        state.batches.clear();
    }

    /// A batch, when there is one; `None` when nothing more is going to come.
    fn wait(&self) -> Option<Batch> {
        let mut state = self.state();
        loop {
            if let Some(batch) = state.batches.pop() {
                return Some(batch);
            }
            if state.is_over {
                return None;
            }
            state = self.has_changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        // There is nothing any more, unless the push is lost.
        state.batches.clear();
        drop(state);
        self.has_changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Offering {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        let job = || Job { place: 0, kind: ObjectKind::Blob, content: Arc::default(), new: None };
        let jobs: Vec<_> = std::iter::repeat_with(job).take(1000).collect();
        let bytes = jobs.iter().map(Job::bytes).sum();
        Batch { jobs, bytes }
    }

    #[test]
    fn objects_without_bytes_fill_the_queue_all_the_same() {
        let queue = Queue::default();
        let fit = std::iter::repeat_with(batch).take_while(|_| queue.offer(batch()).is_ok());
        assert_eq!(fit.count(), QUEUE_BYTES_MAX / (1000 * JOB_BYTES));
        let taken = queue.wait().unwrap();
        assert!(queue.offer(batch()).is_err(), "a thread is at it");
        queue.note_done(taken.bytes);
        assert!(queue.offer(batch()).is_ok());
    }

    #[test]
    fn after_an_error_nothing_waits_any_more() {
        let queue = Queue::default();
        queue.offer(batch()).ok().unwrap();
        queue.fail();
        assert!(queue.take().is_none());
        assert!(queue.offer(batch()).is_ok() && queue.take().is_none());
        queue.end();
        assert!(queue.wait().is_none());
    }

    #[test]
    fn what_was_left_behind_is_not_named() {
        let queue = Arc::new(Queue::default());
        queue.offer(batch()).ok().unwrap();
        drop(Offering(Arc::clone(&queue)));
        assert!(queue.wait().is_none());
    }
}
