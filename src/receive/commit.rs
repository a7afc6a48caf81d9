//! Step 9, the objects: out of the quarantine and into the repository, durably, before any ref
//! names them.

use super::ReceiveError;
use super::session::Session;
use crate::model::RejectReason;
use crate::report::Phase;
use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::path::Path;

/// LIMIT: bytes of an index that is read back to spare the next push the reading.
const INDEX_BYTES_MAX: u64 = 16 << 20;

impl Session<'_> {
    /// Migrates whatever lies in the quarantine now that the hooks have run.
    ///
    /// Objects of the repository that the push relies on and no ref leads to are made young first,
    /// so that no prune takes them for garbage, and looked for again afterwards: a prune may have
    /// begun before.
    pub(super) fn migrate(&mut self) -> Result<(), ReceiveError> {
        self.freshen_unreferenced()?;
        if let Some(quarantine) = self.quarantine.take() {
            match quarantine.migrate(&self.receiver.keeps) {
                Ok(migrated) => {
                    for pack in &migrated.packs {
                        self.note_index(&pack.with_extension("idx"));
                    }
                    self.migrated = Some(migrated);
                }
                Err(error) => {
                    self.reject_pending(&RejectReason::MigrationFailed);
                    return Err(ReceiveError::internal(Phase::Commit, "the migration", error));
                }
            }
        }
        self.look_again()
    }

    /// Lets the repository's own maintenance have the pack, now that refs lead to its objects.
    pub(super) fn release_pack(&mut self) {
        self.migrated = None;
    }

    fn freshen_unreferenced(&self) -> Result<(), ReceiveError> {
        let internal = |error: Box<dyn Error + Send + Sync>| {
            ReceiveError::internal(Phase::Commit, "freshening objects", error)
        };
        let mut holders = BTreeSet::new();
        for id in &self.unreferenced {
            holders.extend(self.snapshot.holder(id).map_err(|error| internal(error.into()))?);
        }
        for holder in holders {
            // One that has gone meanwhile is found missing by the second look.
            match self.repository.disk().freshen(&holder) {
                // Another's object store may be read only; whoever owns it prunes it.
                Err(error)
                    if !matches!(
                        error.kind(),
                        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                    ) =>
                {
                    return Err(internal(error.into()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn look_again(&mut self) -> Result<(), ReceiveError> {
        if self.unreferenced.is_empty() {
            return Ok(());
        }
        let now = self.receiver.snapshot(&self.repository, self.environment())?;
        for id in &self.unreferenced {
            let there = now.contains(id).map_err(|error| {
                ReceiveError::internal(Phase::Commit, "looking for objects again", error)
            })?;
            if !there {
                self.channel.error(&format!("object {id} was pruned during the push"));
                for command in &mut self.request.commands {
                    if !command.new.is_null() {
                        command.reject(RejectReason::MissingNecessaryObjects);
                    }
                }
                break;
            }
        }
        Ok(())
    }

    fn note_index(&self, index: &Path) {
        // Only a help for the next push: without it, that opens the index itself.
        if let Ok(bytes) = self.repository.disk().read(index, INDEX_BYTES_MAX) {
            self.receiver.snapshots.note_pack(self.repository.objects_dir(), index, &bytes);
        }
    }
}
