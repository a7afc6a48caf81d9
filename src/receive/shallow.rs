//! Pushes of histories that end at a shallow client's border, and pushes into a repository whose
//! own history ends somewhere (gitprotocol-pack(5), "shallow"; git-config(1),
//! `receive.shallowUpdate`).
//!
//! A line of the client counts only if the repository does not say the same of itself, and the
//! object was here or came with the push. A ref that needs such a commit would make the repository
//! shallow: it is refused unless the repository takes that. If it does, the ref is judged with its
//! border, like every other before `pre-receive`, and the border is in the `shallow` file, durably,
//! before the ref moves.
//!
//! git judges such a ref after the migration, when its `update` hook has agreed, and gives up if
//! the file has changed since it was read. Here nothing is stored of a ref that is not whole, and
//! lines are added to what the file holds by then.

use super::ReceiveError;
use super::session::Session;
use crate::hooks::Hooks;
use crate::model::{Command, ObjectId, RejectReason};
use crate::refs::{Change, RefEdit, shallow_lines};
use crate::repo::Disk;
use crate::report::Phase;
use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// What the commands of a push need of its client's border.
#[derive(Debug, Default)]
pub(super) struct Border {
    /// For each command; empty if none needs anything.
    needed: Vec<Arc<BTreeSet<ObjectId>>>,
    /// Whether the client and the repository say the same of some commit. Who wrote that may not
    /// have flushed it yet.
    relies_on_shared: bool,
    /// What this push has stored.
    stored: BTreeSet<ObjectId>,
    shown: Option<ShownToHooks>,
}

/// A file in place of `shallow` for the hooks, which see refs that need more than is in there. It
/// is removed when this is dropped.
#[derive(Debug)]
struct ShownToHooks {
    disk: Disk,
    path: PathBuf,
    /// The hooks as they are without.
    hooks: Hooks,
}

impl Drop for ShownToHooks {
    fn drop(&mut self) {
        // One that stays says nothing to anybody; the sweep takes it.
        let _ = self.disk.unlink(&self.path);
    }
}

impl Border {
    /// Whether a command would make the repository shallow, or more so.
    pub(super) fn is_needed_by(&self, at: usize) -> bool {
        self.needed.get(at).is_some_and(|needed| !needed.is_empty())
    }

    /// What these commands need together.
    pub(super) fn of_all(&self, places: impl IntoIterator<Item = usize>) -> BTreeSet<ObjectId> {
        // Thousands of commands may share what they need.
        let mut seen = HashSet::new();
        let all = places.into_iter().filter_map(|at| self.needed.get(at));
        all.filter(|needed| seen.insert(Arc::as_ptr(needed)))
            .flat_map(|needed| needed.iter().copied())
            .collect()
    }

    /// The hooks as maintenance is to see them: with the file that is the repository's own.
    pub(super) fn hooks_without<'h>(&'h self, hooks: &'h Hooks) -> &'h Hooks {
        self.shown.as_ref().map_or(hooks, |shown| &shown.hooks)
    }
}

impl Session<'_> {
    /// Finds out which commands need the client's border, and refuses them unless the repository
    /// takes it over.
    pub(super) fn judge_border(&mut self) -> Result<(), ReceiveError> {
        let Some(ingested) = self.ingested.as_ref().filter(|_| !self.request.shallow.is_empty())
        else {
            return Ok(());
        };
        let own = self.shallow_commits()?;
        let is_own = |id: &&ObjectId| own.contains(*id);
        self.border.relies_on_shared = self.request.shallow.iter().any(|id| is_own(&id));
        let mut border = HashSet::new();
        for &id in self.request.shallow.iter().filter(|id| !is_own(id)) {
            let is_here = || self.snapshot.contains(&id).map_err(internal);
            if ingested.objects.kind(&id).is_some() || is_here()? {
                border.insert(id);
            }
        }
        if border.is_empty() {
            return Ok(());
        }
        let tips: Vec<ObjectId> = self.request.commands.iter().map(|command| command.new).collect();
        let mut refs = self.all_refs();
        let needed = self.with_connectivity(&own, |connectivity| {
            connectivity.needed_border(&border, &tips, &mut refs)
        })?;
        if self.settings.takes_borders {
            self.border.needed = needed;
            return self.show_border_to_hooks(&own);
        }
        for (command, needed) in self.request.commands.iter_mut().zip(needed) {
            if !needed.is_empty() {
                command.reject(RejectReason::ShallowUpdate);
            }
        }
        Ok(())
    }

    /// Writes what hooks are to take for `shallow` (`GIT_SHALLOW_FILE`): all that either side says.
    fn show_border_to_hooks(&mut self, own: &HashSet<ObjectId>) -> Result<(), ReceiveError> {
        let disk = self.repository.disk();
        let write = || {
            let directory = disk.canonicalize(self.repository.git_dir())?;
            let mut file = disk.create_temporary(&directory, "shallow_", 0o600)?;
            let path = file.path().to_owned();
            let shown = ShownToHooks { disk: disk.clone(), path, hooks: self.hooks.clone() };
            let all: BTreeSet<&ObjectId> = own.iter().chain(&self.request.shallow).collect();
            file.write_all(&shallow_lines(all))?;
            Ok(shown)
        };
        let shown = write().map_err(|error: io::Error| internal(error))?;
        self.hooks = self.hooks.clone().with_variable("GIT_SHALLOW_FILE", &shown.path);
        self.border.shown = Some(shown);
        Ok(())
    }

    /// Makes the repository shallow where these refs need it, durably; those for which that fails
    /// are refused. To be called right before they move.
    pub(super) fn store_border(&mut self, edits: Vec<(usize, RefEdit)>) -> Vec<(usize, RefEdit)> {
        let has_news = |(_, edit): &&(usize, RefEdit)| edit.change != Change::Delete;
        let moving: Vec<usize> = edits.iter().filter(has_news).map(|(at, _)| *at).collect();
        let Err(reason) = self.write_border(&moving) else { return edits };
        // Whatever builds on the client's border, or on one that both sides have.
        let stays = |(at, edit): &(usize, RefEdit)| {
            edit.change == Change::Delete
                || !self.border.relies_on_shared && !self.border.is_needed_by(*at)
        };
        let (staying, refused): (Vec<_>, Vec<_>) = edits.into_iter().partition(stays);
        for (at, _) in refused {
            self.reject(at, reason.clone());
        }
        staying
    }

    /// The same for the refs that the `proc-receive` hook carries out, before it is run: what it
    /// stores under whatever name has to be whole by then.
    pub(super) fn store_border_for_hook(&mut self) {
        let is_of_hook = |at: &usize| {
            let is_pending = self.request.commands.get(*at).is_some_and(Command::is_pending);
            is_pending && self.is_handed_over(*at) && self.border.is_needed_by(*at)
        };
        let places: Vec<usize> = (0..self.request.commands.len()).filter(is_of_hook).collect();
        if let Err(reason) = self.write_border(&places) {
            for at in places {
                self.reject(at, reason.clone());
            }
        }
    }

    fn write_border(&mut self, places: &[usize]) -> Result<(), RejectReason> {
        let mut lines = self.border.of_all(places.iter().copied());
        lines.retain(|id| !self.border.stored.contains(id));
        if places.is_empty() || lines.is_empty() && !self.border.relies_on_shared {
            return Ok(());
        }
        self.store
            .make_shallow(&lines)
            .map_err(|error| self.tell_ref_error(&error, RejectReason::ShallowError))?;
        self.border.stored.append(&mut lines);
        self.border.relies_on_shared = false;
        Ok(())
    }
}

fn internal(error: impl Into<Box<dyn Error + Send + Sync>>) -> ReceiveError {
    ReceiveError::internal(Phase::Commit, "looking at the client's border", error)
}
