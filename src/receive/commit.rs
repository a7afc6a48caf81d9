//! Step 9, the objects: out of the quarantine and into the repository, durably, before any ref
//! names them.

use super::ReceiveError;
use super::maintenance::Added;
use super::session::Session;
use crate::model::{Command, ObjectId, RefRefusal, RejectReason};
use crate::refs::RefEdit;
use crate::repo::{MigrateError, Migrated, MigratedPack, loose_path};
use crate::report::Phase;
use std::collections::BTreeSet;
use std::error::Error;
use std::io;

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
                    self.added = Added::by(&migrated);
                    self.note_migrated(migrated);
                }
                Err(error @ (MigrateError::Altered { .. } | MigrateError::Replaced { .. })) => {
                    self.refuse_altered(error);
                    return Ok(());
                }
                Err(error) => {
                    self.reject_pending(&RejectReason::MigrationFailed);
                    return Err(ReceiveError::internal(Phase::Commit, "the migration", error));
                }
            }
        }
        self.look_again()
    }

    /// Refuses a push whose objects were taken away or changed after they had been proved, by a
    /// hook or by somebody else's prune. git looks for each new value only, and says so in these
    /// words; it would go on without the objects below.
    fn refuse_altered(&mut self, error: MigrateError) {
        let brought = |command: &Command| {
            let new = self.ingested.as_ref();
            new.is_some_and(|new| new.objects.kind(&command.new).is_some())
        };
        let lost: Vec<bool> = self.request.commands.iter().map(brought).collect();
        let pending = |command: &Command| command.is_pending();
        for (at, is_lost) in lost.into_iter().enumerate() {
            if !self.request.commands.get(at).is_some_and(pending) {
                continue;
            }
            if is_lost {
                self.refuse_absent(at);
            }
            self.reject(at, RejectReason::MigrationFailed);
        }
        self.channel.error("what was received was removed or changed before it could be stored");
        self.server_fault.get_or_insert(ReceiveError::internal(
            Phase::Commit,
            "the migration",
            error,
        ));
    }

    fn refuse_absent(&mut self, at: usize) {
        let Some(command) = self.request.commands.get_mut(at) else { return };
        command.reject(RejectReason::BadPack);
        let id = command.new;
        self.channel.error(&format!("unpack should have generated {id}, but I can't find it!"));
    }

    /// Looks once more on the disk, right before refs move, for those of their new values that
    /// this push brought, and refuses the refs whose values have gone: a prune beside us knows
    /// nothing of refs that are about to be. One look at the pack, or at each loose object.
    ///
    /// The words are those of git's ref transaction, which looks at the same time.
    ///
    /// A prune that began before can still remove them after this look; see docs/ARCHITECTURE.md.
    pub(super) fn refuse_vanished(
        &mut self,
        edits: Vec<(usize, RefEdit)>,
    ) -> Result<Vec<(usize, RefEdit)>, ReceiveError> {
        let brought = |id: &ObjectId| {
            self.ingested.as_ref().is_some_and(|new| new.objects.kind(id).is_some())
        };
        let values: BTreeSet<ObjectId> = edits
            .iter()
            .filter_map(|(at, _)| self.request.commands.get(*at))
            .map(|command| command.new)
            .filter(brought)
            .collect();
        let mut absent = self.not_in_place(values)?;
        let was_loose = self.migrated.as_ref().is_some_and(|migrated| {
            absent.iter().any(|id| migrated.loose.binary_search(id).is_ok())
        });
        if was_loose && self.store_again_as_pack().is_ok() {
            absent = self.not_in_place(absent)?;
        }
        if !absent.is_empty() {
            // Not where it was put: a repack may have put it elsewhere since.
            let now = self.receiver.snapshot(&self.repository, self.environment())?.refreshing();
            let mut gone = BTreeSet::new();
            for id in absent {
                let there = now.contains(&id).map_err(|error| {
                    ReceiveError::internal(Phase::Commit, "looking for a new value", error)
                })?;
                if !there {
                    gone.insert(id);
                }
            }
            absent = gone;
        }
        let mut kept = Vec::with_capacity(edits.len());
        for (at, edit) in edits {
            let new = self.request.commands.get(at).map(|command| command.new);
            if let Some(new) = new.filter(|new| absent.contains(new)) {
                let name = edit.name.as_bstr();
                let reason = format!("trying to write ref '{name}' with nonexistent object {new}");
                self.channel.error(&self.store.refusal(name, &reason));
                let reason = self.reason(RefRefusal::BadValue);
                self.reject(at, reason);
            } else {
                kept.push((at, edit));
            }
        }
        Ok(kept)
    }

    /// Those of the ids that are not where the migration put them.
    pub(super) fn not_in_place(
        &self,
        ids: BTreeSet<ObjectId>,
    ) -> Result<BTreeSet<ObjectId>, ReceiveError> {
        let internal =
            |error| ReceiveError::internal(Phase::Commit, "looking for a new value", error);
        let nothing = Migrated::default();
        let migrated = self.migrated.as_ref().unwrap_or(&nothing);
        let (disk, objects_dir) = (self.repository.disk(), self.repository.objects_dir());
        let mut packs_are_there = None;
        let mut absent = BTreeSet::new();
        for id in ids {
            let is_there = if migrated.loose.binary_search(&id).is_ok() {
                disk.stat(&loose_path(objects_dir, &id)).map_err(internal)?.is_some()
            } else if let Some(known) = packs_are_there {
                known
            } else {
                let mut all = !migrated.packs.is_empty();
                for MigratedPack { path, .. } in &migrated.packs {
                    let index = disk.stat(&path.with_extension("idx")).map_err(internal)?;
                    all &= index.is_some() && disk.stat(path).map_err(internal)?.is_some();
                }
                packs_are_there = Some(all);
                all
            };
            if !is_there {
                absent.insert(id);
            }
        }
        Ok(absent)
    }

    /// Keeps what is to be known of objects that are among the repository's now. Stored again as a
    /// pack, they are loose no longer.
    pub(super) fn note_migrated(&mut self, mut migrated: Migrated) {
        for pack in &mut migrated.packs {
            self.note_index(pack);
        }
        if let Some(before) = self.migrated.take() {
            migrated.packs.extend(before.packs);
            migrated.keeps.extend(before.keeps);
        }
        self.migrated = Some(migrated);
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

    fn note_index(&self, pack: &mut MigratedPack) {
        let index = pack.path.with_extension("idx");
        // Only a help for the next push: without it, that opens the index itself.
        let bytes = match pack.index.take() {
            Some(bytes) => Ok(bytes),
            None => self.repository.disk().read(&index, INDEX_BYTES_MAX),
        };
        if let Ok(bytes) = bytes {
            self.receiver.snapshots.note_pack(self.repository.objects_dir(), &index, &bytes);
        }
    }
}
