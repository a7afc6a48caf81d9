//! Loose objects beside a repack: seeing to it that they are there once refs lead to them.
//!
//! Whoever repacks asks first what the refs reach, and removes the rest later. Loose objects of a
//! push whose refs had not moved by then can be packed as garbage, and the pack deleted. So once
//! the refs have moved it is looked whether the objects are where they were put, and whether
//! somebody is repacking; then they are stored once more, as a pack. That pack is safe: whoever
//! knows of it looked at the refs after they had moved.

use super::ReceiveError;
use super::session::Session;
use crate::ingest::{self, IngestOptions, Surplus};
use crate::model::{CancelToken, CommandStatus, ObjectId, RejectReason, UnpackLimit};
use crate::pack::stream::{PackStream, WholeObject};
use crate::repo::{LooseReader, Migrated, Quarantine, loose_path};
use crate::report::Phase;
use std::error::Error;
use std::io::{self, Cursor};
use std::time::SystemTime;

/// LIMIT: bytes of an object that is read from the pack into which somebody else has put it.
const PACKED_BYTES_MAX: u64 = 64 << 20;

/// The age at which git takes a `gc.pid` for that of a gc that died.
const GC_SECONDS_MAX: u64 = 12 * 60 * 60;

impl Session<'_> {
    /// Whether a `git gc` is at work here, as its `gc.pid` says, which git itself believes for
    /// twelve hours. It may prune loose objects that no ref led to when it looked, however new; a
    /// pack with a keep file it leaves alone.
    pub(super) fn gc_is_running(&self) -> bool {
        let path = self.repository.common_dir().join("gc.pid");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // It only makes a bad thing rarer: what cannot be looked at counts for nothing.
        self.repository.disk().stat(&path).ok().flatten().is_some_and(|stat| {
            u64::try_from(stat.modified.0)
                .is_ok_and(|began| began.saturating_add(GC_SECONDS_MAX) > now.as_secs())
        })
    }

    /// Called when the refs have moved. If objects of the push have gone for good, whoever pushed
    /// is told that of every ref that moved.
    pub(super) fn outlast_repacks(&mut self) {
        let moved = |status: &CommandStatus| *status == CommandStatus::Done;
        let has_loose = self.migrated.as_ref().is_some_and(|migrated| !migrated.loose.is_empty());
        if !has_loose || !self.request.commands.iter().any(|command| moved(&command.status)) {
            return;
        }
        let Err(error) = self.look_at_loose_objects() else { return };
        let text = format!(
            "the ref has moved, but its objects were taken away: {}",
            error.client_text(self.id)
        );
        self.channel.error(&text);
        for command in &mut self.request.commands {
            if moved(&command.status) && !command.new.is_null() {
                command.status = CommandStatus::Rejected(RejectReason::Internal(text.clone()));
            }
        }
        self.server_fault.get_or_insert(error);
    }

    fn look_at_loose_objects(&mut self) -> Result<(), ReceiveError> {
        let loose = self.migrated.iter().flat_map(|migrated| &migrated.loose).copied().collect();
        if self.not_in_place(loose)?.is_empty() && !self.gc_is_running() {
            return Ok(());
        }
        self.store_again_as_pack()
    }

    /// Stores the loose objects of the push as a pack, durably, with its keep file.
    pub(super) fn store_again_as_pack(&mut self) -> Result<(), ReceiveError> {
        let internal = |error: Box<dyn Error + Send + Sync>| {
            ReceiveError::internal(Phase::Commit, "storing loose objects again, as a pack", error)
        };
        let Some(migrated) = &self.migrated else { return Ok(()) };
        let count = u32::try_from(migrated.loose.len()).unwrap_or(u32::MAX);
        let objects = migrated.loose.iter().map(|id| self.whole_object(migrated, id));
        let mut pack = PackStream::new(self.repository.hash(), count, objects);

        let mut quarantine = Quarantine::new(&self.repository);
        let destination = self.destination(&quarantine, ingest::HELD_BYTES_MAX);
        let options = IngestOptions {
            // What the client sent was within its limit; this is not compressed.
            input_bytes_max: 0,
            surplus: Surplus::Refuse,
            threads: 1,
            ..self.ingest_options(UnpackLimit(1))
        };
        let share = self.receiver.push_memory.owned_share();
        let snapshot = &self.snapshot;
        // Not the push's: once a ref has moved, neither a client that has gone nor a server that is
        // to stop may leave it without its objects.
        let cancel = CancelToken::new();
        let ingested = ingest::ingest(&mut pack, snapshot, &destination, &options, &cancel, share)
            .map_err(|error| internal(error.into()))?;
        drop(pack);
        for file in ingested.files {
            quarantine.adopt(file).map_err(|error| internal(error.into()))?;
        }
        let again =
            quarantine.migrate(&self.receiver.keeps).map_err(|error| internal(error.into()))?;
        self.note_migrated(again);
        Ok(())
    }

    /// A loose object of the push: as it was in memory, as it lies there, or from wherever it has
    /// been put since.
    fn whole_object<'a>(
        &'a self,
        migrated: &'a Migrated,
        id: &ObjectId,
    ) -> io::Result<WholeObject<'a>> {
        let held = migrated.loose_files.binary_search_by_key(id, |(id, _)| *id);
        if let Some((_, bytes)) = held.ok().and_then(|at| migrated.loose_files.get(at)) {
            let reader = LooseReader::new(bytes.as_slice()).map_err(io::Error::other)?;
            let (kind, size) = (reader.kind(), reader.size());
            return Ok(WholeObject { kind, size, content: Box::new(reader) });
        }
        let path = loose_path(self.repository.objects_dir(), id);
        let there = LooseReader::open(self.repository.disk(), &path).map_err(io::Error::other)?;
        if let Some(reader) = there {
            let (kind, size) = (reader.kind(), reader.size());
            return Ok(WholeObject { kind, size, content: Box::new(reader) });
        }
        let now = self
            .receiver
            .snapshot(&self.repository, self.environment())
            .map_err(io::Error::other)?
            .refreshing();
        let Some(object) = now.read(id, PACKED_BYTES_MAX).map_err(io::Error::other)? else {
            let text = format!("object {id} has been removed, by a repack or a prune beside us");
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        };
        let (kind, size) = (object.kind, object.data.len() as u64);
        Ok(WholeObject { kind, size, content: Box::new(Cursor::new(object.data)) })
    }
}
