//! Steps 5 to 7: the quarantine, the snapshot, and the pack.

use super::ReceiveError;
use super::fsck::abnormal_exit;
use super::receiver::Receiver;
use super::session::{Session, cancelled};
use super::signs_of_life::SignsOfLife;
use crate::hooks::Hook;
use crate::ingest::{self, Blame, Destination, HELD_BYTES_MAX, IngestError, IngestOptions};
use crate::model::{CancelToken, Limits, UnpackLimit, UnpackProgress};
use crate::pack::parser::PackParser;
use crate::repo::{Environment, Quarantine, Repository, object_directories};
use crate::report::{Fault, Phase};
use crate::snapshot::{ObjectSnapshot, Sources};
use std::error::Error;
use std::io::{self, Read};
use std::sync::Arc;

impl Receiver {
    /// What the repository has now.
    pub(super) fn snapshot(
        &self,
        repository: &Repository,
        environment: &Environment,
    ) -> Result<ObjectSnapshot, ReceiveError> {
        let internal = |error: Box<dyn Error + Send + Sync>| {
            ReceiveError::internal(Phase::Request, "listing the objects", error)
        };
        let resolve = {
            let (repository, environment) = (repository.clone(), environment.clone());
            move || {
                let directories = object_directories(&repository, &environment)?;
                Ok(Sources { own: directories.own, alternates: directories.alternates })
            }
        };
        let sources = resolve().map_err(|error: io::Error| internal(error.into()))?;
        self.snapshots
            .snapshot_resolving(&sources, repository.hash(), resolve)
            .map_err(|error| internal(error.into()))
    }
}

impl Session<'_> {
    /// Reads the pack into a new quarantine.
    pub(super) fn unpack(&mut self, input: &mut dyn Read) -> Result<(), ReceiveError> {
        let unpack_limit =
            if self.gc_is_running() { UnpackLimit(1) } else { self.settings.unpack_limit };
        let fsck = self.inspection(unpack_limit, input)?;
        let mut quarantine = Quarantine::new(&self.repository);
        let held_bytes_max = if self.pre_receive_is_there()? { 0 } else { HELD_BYTES_MAX };
        let destination = self.destination(&quarantine, held_bytes_max);
        let progress = Arc::new(UnpackProgress::default());
        let options = IngestOptions {
            fsck,
            progress: Some(Arc::clone(&progress)),
            ..self.ingest_options(unpack_limit)
        };
        let share = self.receiver.push_memory.owned_share();
        let signs = SignsOfLife {
            keep_alive: self.settings.keep_alive,
            shows_progress: !self.request.capabilities.quiet,
        };
        let ingested = signs.during(&mut self.channel, &progress, input, |input| {
            ingest::ingest(input, &self.snapshot, &destination, &options, &self.cancel, share)
        });
        if let Some(inspection) = &options.fsck {
            self.tell_findings(inspection, ingested.as_ref().err());
        }
        let mut ingested = ingested.map_err(|error| unpack_failed(error, &self.cancel))?;
        for file in ingested.files.drain(..) {
            quarantine.adopt(file).map_err(|error| {
                ReceiveError::internal(Phase::Unpack, "storing the pack", error)
            })?;
        }
        self.quarantine = Some(quarantine);
        self.ingested = Some(ingested);
        Ok(())
    }

    /// Where the objects of a quarantine go.
    pub(super) fn destination(&self, to: &Quarantine, held_bytes_max: u64) -> Destination {
        Destination {
            disk: self.repository.disk().clone(),
            directory: to.directory().clone(),
            permissions: self.repository.permissions(),
            compression: self.repository.loose_compression(),
            held_bytes_max,
        }
    }

    /// What holds for every pack that is stored here, without fsck or progress.
    pub(super) fn ingest_options(&self, unpack_limit: UnpackLimit) -> IngestOptions {
        IngestOptions {
            hash: self.repository.hash(),
            unpack_limit,
            limits: Limits {
                big_file_bytes: self.repository.big_file_bytes(),
                ..self.receiver.limits().clone()
            },
            input_bytes_max: self.settings.pack_bytes_max.map_or(0, |limit| limit.value),
            thin: self.completes_thin_packs,
            surplus: self.surplus,
            reverse_index_from: self.settings.writes_reverse_index.then_some(REVERSE_INDEX_FROM),
            // Migration gives every pack its keep file.
            keep: None,
            threads: self.settings.threads,
            fsck: None,
            progress: None,
        }
    }

    /// Whether `pre-receive` will want to see the objects. One that appears later does, too; then
    /// they are written later.
    fn pre_receive_is_there(&self) -> Result<bool, ReceiveError> {
        let hook = self
            .hooks
            .find("pre-receive")
            .map_err(|error| ReceiveError::internal(Phase::Unpack, "looking for hooks", error))?;
        Ok(matches!(hook, Some(Hook::Executable(_))))
    }

    /// Reads the pack of a push that has lost, and keeps nothing of it.
    pub(super) fn skim(&self, input: &mut dyn Read) -> Result<(), ReceiveError> {
        let mut parser = PackParser::new(self.repository.hash(), self.receiver.limits());
        if let Some(limit) = self.settings.pack_bytes_max {
            parser = parser.with_pack_limit(limit);
        }
        ingest::skim(input, parser, self.surplus, &self.cancel)
            .map_err(|error| unpack_failed(error, &self.cancel))
    }
}

/// Objects of a pack from which it gets a reverse index. It costs a small push a file and a flush
/// more; whoever has none makes it in memory, which takes microseconds for so few.
const REVERSE_INDEX_FROM: u32 = 1000;

/// How it is told that a pack was not taken.
fn unpack_failed(error: IngestError, cancel: &CancelToken) -> ReceiveError {
    // The bytes came and mean nothing: the content coding around the pack is damaged.
    if let IngestError::Input(source) = &error
        && source.kind() == io::ErrorKind::InvalidData
    {
        let text = source.to_string();
        return ReceiveError::new(Fault::Protocol, Phase::Unpack, text).with_source(error);
    }
    if let IngestError::Refused(refusal) = &error {
        let text = abnormal_exit(refusal.unpacks());
        return ReceiveError::new(Fault::BadPack, Phase::Unpack, text).with_source(error);
    }
    let fault = match error.blame() {
        Blame::BadPack => Fault::BadPack,
        Blame::Disconnected => Fault::Disconnected,
        Blame::Limit => Fault::Limit,
        Blame::Cancelled => cancelled(cancel),
        Blame::NoSpace | Blame::Server => {
            return ReceiveError::internal(Phase::Unpack, "storing the pack", error);
        }
    };
    ReceiveError::new(fault, Phase::Unpack, error.to_string()).with_source(error)
}
