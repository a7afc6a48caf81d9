//! Step 8: nothing is committed that the repository cannot give back whole.

use super::ReceiveError;
use super::alternate_refs::AlternateTips;
use super::session::{Session, cancelled};
use crate::connectivity::commit_graph::CommitGraph;
use crate::connectivity::{
    Ancestry, Connectivity, ConnectivityError, LazySource, RefValues, SourceError, Verdicts,
};
use crate::links::NewObjects;
use crate::model::{ObjectId, RefName, RejectReason};
use crate::refs::{HiddenRefs, RefStore, RefValue};
use crate::repo::object_directories;
use crate::report::Phase;
use bstr::ByteSlice;
use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::sync::Arc;

impl Session<'_> {
    /// Refuses the commands whose new value is not whole with what the push brought, and notes
    /// which objects of the repository the others rely on without a ref leading to them.
    pub(super) fn prove_connectivity(&mut self) -> Result<(), ReceiveError> {
        let places: Vec<usize> = self
            .request
            .commands
            .iter()
            .enumerate()
            .filter(|(_, command)| command.is_pending() && !command.new.is_null())
            .map(|(at, _)| at)
            .collect();
        if places.is_empty() {
            return Ok(());
        }
        let tips: Vec<ObjectId> = places
            .iter()
            .filter_map(|at| self.request.commands.get(*at))
            .map(|command| command.new)
            .collect();
        let border = self.border.of_all(places.iter().copied());
        let verdicts = self.judge_tips(&tips, border)?;
        self.unreferenced = verdicts.unreferenced;
        for (at, verdict) in places.into_iter().zip(verdicts.tips) {
            if let Err(missing) = verdict {
                self.channel.error(&missing.to_string());
                let with_border = self.border.is_needed_by(at);
                let reason =
                    if with_border { RejectReason::ShallowError } else { missing.reason() };
                self.reject(at, reason);
            }
        }
        Ok(())
    }

    /// The repository's commit-graph, if it has one.
    pub(super) fn commit_graph(&self) -> Option<Arc<CommitGraph>> {
        let directories = object_directories(&self.repository, self.environment()).ok()?;
        let directories: Vec<_> =
            std::iter::once(directories.own).chain(directories.alternates).collect();
        let disk = self.repository.disk();
        self.receiver.commit_graphs.load(disk, &directories, self.repository.hash())
    }

    /// Whether a ref that moves from `old` to `new` keeps its history; `None` if either is no
    /// commit. To be asked after the migration.
    pub(super) fn keeps_history(
        &self,
        old: &ObjectId,
        new: &ObjectId,
    ) -> Result<Option<bool>, ReceiveError> {
        let snapshot = if let Some(snapshot) = self.after_migration.get() {
            snapshot
        } else {
            let snapshot = self.receiver.snapshot(&self.repository, self.environment())?;
            self.after_migration.get_or_init(|| snapshot)
        };
        let shallow = self.shallow_commits()?;
        let ancestry = Ancestry {
            hash: self.repository.hash(),
            objects: snapshot,
            commit_graph: &|| self.commit_graph(),
            shallow: &shallow,
            metadata_bytes: self.receiver.limits().metadata_bytes(),
            metadata_memory: &self.receiver.metadata_memory,
            cancel: &self.cancel,
        };
        ancestry.is_ancestor(old, new).map_err(|error| self.walk_failed(error))
    }

    /// The commits at which the repository's history ends.
    pub(super) fn shallow_commits(&self) -> Result<HashSet<ObjectId>, ReceiveError> {
        let read = self.store.shallow();
        let read = read
            .map_err(|error| ReceiveError::internal(Phase::Commit, "reading 'shallow'", error))?;
        Ok(read.into_iter().collect())
    }

    fn walk_failed(&self, error: ConnectivityError) -> ReceiveError {
        match error {
            ConnectivityError::Cancelled => {
                let text = "the push was stopped before its commit; nothing was changed";
                ReceiveError::new(cancelled(&self.cancel), Phase::Commit, text)
            }
            error => ReceiveError::internal(Phase::Commit, "walking the history", error),
        }
    }

    /// Judges new values; history ends at `border` too.
    fn judge_tips(
        &self,
        tips: &[ObjectId],
        border: BTreeSet<ObjectId>,
    ) -> Result<Verdicts, ReceiveError> {
        let mut shallow = self.shallow_commits()?;
        shallow.extend(border);
        let mut values = Values {
            hidden: Some(&self.settings.hidden),
            alternates: Some(&|| {
                let (repository, settings) = (&self.repository, &self.settings);
                let environment = self.environment();
                self.receiver.alternate_tips(repository, environment, &self.store, settings)
            }),
            ..self.all_refs()
        };
        self.with_connectivity(&shallow, |connectivity| connectivity.check(tips, &mut values))
    }

    /// The values of all refs, hidden ones too, and of none of an alternate.
    pub(super) fn all_refs(&self) -> Values<'_> {
        let names = self.request.commands.iter().map(|command| self.full_name(command)).collect();
        Values { store: &self.store, hidden: None, names, alternates: None }
    }

    /// Has connectivity asked something, where history ends at `shallow`.
    pub(super) fn with_connectivity<T>(
        &self,
        shallow: &HashSet<ObjectId>,
        ask: impl FnOnce(&Connectivity<'_>) -> Result<T, ConnectivityError>,
    ) -> Result<T, ReceiveError> {
        let old = self.snapshot.refreshing();
        let nothing = NewObjects::new();
        let brought = LazySource::new(|| match &self.quarantine {
            None => Ok(Box::new(old.clone())),
            // Asked for where something is missing, so seldom that it may cost a directory.
            Some(quarantine) => {
                let directory = quarantine
                    .put_on_disk()
                    .map_err(|error| SourceError::Unavailable(error.into()))?;
                match old.with_quarantine(directory) {
                    Ok(both) => Ok(Box::new(both)),
                    Err(error) => Err(SourceError::Unavailable(error.into())),
                }
            }
        });
        let graph = || self.commit_graph();
        let connectivity = Connectivity {
            hash: self.repository.hash(),
            new: self.ingested.as_ref().map_or(&nothing, |ingested| &ingested.objects),
            old: &old,
            brought: &brought,
            commit_graph: &graph,
            shallow,
            metadata_bytes: self.receiver.limits().metadata_bytes(),
            metadata_memory: &self.receiver.metadata_memory,
            cancel: &self.cancel,
        };
        ask(&connectivity).map_err(|error| self.walk_failed(error))
    }
}

/// The values of refs that a client may build on.
pub(super) struct Values<'s> {
    store: &'s RefStore,
    /// Which refs do not count.
    hidden: Option<&'s HiddenRefs>,
    names: Vec<bstr::BString>,
    /// What the advertisement told as `.have`, so that clients build on it.
    alternates: Option<&'s dyn Fn() -> AlternateTips>,
}

impl Values<'_> {
    fn is_visible(&self, full: &bstr::BStr) -> bool {
        let shown = match &self.store.context().namespace {
            Some(namespace) => namespace.strip(full),
            None => Some(full),
        };
        !self.hidden.is_some_and(|hidden| hidden.hides(shown, full))
    }
}

impl RefValues for Values<'_> {
    fn old_values(&mut self) -> Vec<ObjectId> {
        let mut values = Vec::new();
        let mut names = Vec::new();
        for name in self.names.iter().filter(|name| self.is_visible(name.as_bstr())) {
            let Ok(name) = RefName::new(name.clone()) else { continue };
            values.extend(self.store.resolve(&name).ok().and_then(|resolved| resolved.id));
            names.push(name);
        }
        let of_head = match self.store.head() {
            // The usual push is to the branch of HEAD, whose value is known by now.
            Ok(Some(RefValue::Symbolic(target))) if names.iter().any(|n| n.as_bstr() == target) => {
                None
            }
            _ => self.store.resolve_head().ok(),
        };
        let of_head = of_head.filter(|head| self.is_visible(head.target()));
        values.extend(of_head.and_then(|head| head.id));
        values
    }

    fn visible(&mut self) -> Result<Vec<ObjectId>, Box<dyn Error + Send + Sync>> {
        let view = self.store.view()?;
        let mut values: Vec<ObjectId> =
            view.iter().filter(|r| self.is_visible(r.name)).map(|r| r.id.id()).collect();
        if let Some(alternates) = self.alternates {
            values.extend(alternates().all());
        }
        Ok(values)
    }
}
