//! Step 9, the refs: checks, `update`, and the transaction, for each command or for all at once.

use super::channel::Channel;
use super::policy::{self, Facts, Judgement};
use super::session::Session;
use super::transaction_hook::TransactionHook;
use super::{ReceiveError, aliases, hook_calls};
use crate::hooks::Hook;
use crate::model::{
    Command, CommandKind, CommandStatus, ObjectKind, RefName, RefRefusal, RejectReason, oid,
};
use crate::refs::{Applied, Change, Expected, Namespace, RefEdit, RefError, RefTransaction};
use crate::report::Phase;
use crate::snapshot::SnapshotError;
use bstr::ByteSlice;
use std::collections::HashSet;

impl Session<'_> {
    /// Carries out every command that is still pending.
    pub(super) fn update_refs(&mut self) -> Result<(), ReceiveError> {
        let updated = self.carry_out_commands();
        self.put_work_trees_back();
        updated
    }

    fn carry_out_commands(&mut self) -> Result<(), ReceiveError> {
        // Only now: HEAD may have moved while the pack came in.
        self.look_at_worktrees()?;
        let covered = self.resolve_aliases();
        self.store_border_for_hook();
        let atomic = self.request.capabilities.atomic;
        if atomic && self.request.commands.iter().any(|command| !command.is_pending()) {
            self.reject_pending(&RejectReason::AtomicPushFailure);
        }
        self.run_proc_receive(&covered)?;
        if !atomic {
            // Whatever becomes of the others.
            self.finish_handed_over();
        }
        let hook = self
            .hooks
            .find("update")
            .map_err(|error| ReceiveError::internal(Phase::Commit, "looking for hooks", error))?;
        let hook = match &hook {
            // Once, and not for each ref.
            Some(Hook::NotExecutable(path)) => {
                hook_calls::hint(&mut self.channel, path);
                None
            }
            found => found.as_ref(),
        };
        self.transaction_hook = TransactionHook::find(&self.hooks, &mut self.channel)
            .map_err(|error| ReceiveError::internal(Phase::Commit, "looking for hooks", error))?;
        if atomic {
            self.update_atomically(&covered, hook)?;
        } else if self.receiver.dialect().batches_refs() {
            self.update_in_batches(&covered, hook)?;
        } else if self.order_can_be_seen(hook) || self.moves_work_trees() {
            for at in 0..self.request.commands.len() {
                if let Some(edit) = self.approve(at, &covered, hook)? {
                    self.apply_each(vec![(at, edit)])?;
                }
                if self.is_vetoed {
                    break;
                }
            }
        } else {
            let mut edits = Vec::new();
            for at in 0..self.request.commands.len() {
                edits.extend(self.approve(at, &covered, hook)?.map(|edit| (at, edit)));
            }
            self.apply_each(edits)?;
        }
        if self.is_vetoed {
            // git would be dead by now: nothing changes after a veto.
            let reason = self.reason(RefRefusal::Unclassified);
            self.reject_pending(&reason);
        }
        self.finish_handed_over();
        for (at, target) in covered.into_iter().enumerate() {
            let status = target.and_then(|target| self.request.commands.get(target));
            match status.map(|target| target.status.clone()) {
                Some(CommandStatus::Rejected(reason)) => self.reject(at, reason),
                Some(_) => {
                    if let Some(command) = self.request.commands.get_mut(at) {
                        command.finish();
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    fn resolve_aliases(&mut self) -> Vec<Option<usize>> {
        let namespace = self.store.context().namespace.clone();
        aliases::resolve(
            &self.store,
            &mut self.request.commands,
            &mut self.channel,
            |command| {
                let name = policy::ref_name(command).ok()?;
                expand(namespace.as_ref(), name)
            },
            |full| match &namespace {
                Some(namespace) => namespace.strip(full).map(ToOwned::to_owned),
                None => Some(full.to_owned()),
            },
        )
    }

    /// Whether it can be told in which order the refs move: an `update` or `reference-transaction`
    /// hook looks at them in between, and of two commands for one ref the second sees the first's
    /// work.
    fn order_can_be_seen(&self, update: Option<&Hook>) -> bool {
        let mut names = HashSet::new();
        let twice = self.request.commands.iter().any(|command| !names.insert(&command.name));
        twice || matches!(update, Some(Hook::Executable(_))) || self.transaction_hook.is_there()
    }

    /// Judges a command and asks the `update` hook; the edit it comes to, or nothing if it was
    /// refused or is not to be carried out.
    pub(super) fn approve(
        &mut self,
        at: usize,
        covered: &[Option<usize>],
        hook: Option<&Hook>,
    ) -> Result<Option<RefEdit>, ReceiveError> {
        let Some(command) = self.request.commands.get(at).cloned() else { return Ok(None) };
        if !command.is_pending() || is_covered(covered, at) || self.is_handed_over(at) {
            return Ok(None);
        }
        let full_name = self.full_name(&command);
        let judgement =
            policy::judge(&command, full_name.as_bstr(), &self.settings, &self.checked_out, self)?;
        self.say(&judgement);
        if let Some(reason) = judgement.rejected {
            self.reject(at, reason);
            return Ok(None);
        }
        let accepted = |channel: &mut Channel<'_>, hook: &Hook| {
            hook_calls::update(&self.hooks, hook, channel, &command)
        };
        if !hook.is_none_or(|hook| accepted(&mut self.channel, hook)) {
            self.channel.error(&format!("hook declined to update {}", command.name));
            self.reject(at, RejectReason::HookDeclined);
            return Ok(None);
        }
        if let Some(mut text) = policy::check_value(&command, &full_name, self)? {
            // Since 2.51 git asks when it makes up the transaction, before it writes anything.
            if !self.receiver.dialect().batches_refs() {
                text = self.store.refusal(full_name.as_bstr(), &text);
            }
            self.channel.error(&text);
            let reason = self.reason(RefRefusal::BadValue);
            self.reject(at, reason);
            return Ok(None);
        }
        if let Some(reason) = self.move_work_tree(at, &command)? {
            self.reject(at, reason);
            return Ok(None);
        }
        self.edit(at, &command)
    }

    /// The name on disk.
    pub(super) fn expand(&self, name: RefName) -> Option<RefName> {
        expand(self.store.context().namespace.as_ref(), name)
    }

    fn edit(&mut self, at: usize, command: &Command) -> Result<Option<RefEdit>, ReceiveError> {
        let Ok(name) = policy::ref_name(command) else { return Ok(None) };
        let Some(name) = self.expand(name) else { return Ok(None) };
        let expected = match command.kind() {
            CommandKind::Create => Expected::MustNotExist,
            CommandKind::Update => Expected::MustBe(command.old),
            CommandKind::Delete if self.kind(&command.old)?.is_some() => {
                Expected::MustBe(command.old)
            }
            // git deletes a ref without asking for its value if the value the client states is no
            // object: a ref that is broken must be removable.
            CommandKind::Delete => {
                let there = !matches!(self.store.find(&name), Ok(None));
                self.channel.warning(if there {
                    "allowing deletion of corrupt ref"
                } else {
                    "deleting a non-existent ref"
                });
                if let (false, Some(existed)) = (there, self.existed.get_mut(at)) {
                    *existed = false;
                }
                Expected::Any
            }
        };
        let change = match command.kind() {
            CommandKind::Delete => Change::Delete,
            CommandKind::Create | CommandKind::Update => Change::Set(command.new),
        };
        Ok(Some(RefEdit { name, expected, change, message: "push".into() }))
    }

    fn apply_each(&mut self, edits: Vec<(usize, RefEdit)>) -> Result<(), ReceiveError> {
        let edits = self.refuse_vanished(edits)?;
        let edits = self.store_border(edits);
        let (places, edits): (Vec<usize>, Vec<RefEdit>) = edits.into_iter().unzip();
        if edits.is_empty() {
            return Ok(());
        }
        let results = self.transact(|transaction| transaction.apply_each(&edits));
        self.note_results(places, results);
        Ok(())
    }

    /// Notes what became of the commands at these places.
    pub(super) fn note_results(
        &mut self,
        places: Vec<usize>,
        results: Vec<Result<Applied, RefError>>,
    ) {
        for (at, result) in places.into_iter().zip(results) {
            match result {
                Ok(applied) => self.note_applied(at, applied),
                Err(error) => {
                    let reason = self.tell_refusal(&error);
                    self.reject(at, reason);
                }
            }
        }
    }

    fn update_atomically(
        &mut self,
        covered: &[Option<usize>],
        hook: Option<&Hook>,
    ) -> Result<(), ReceiveError> {
        let mut edits = Vec::new();
        for at in 0..self.request.commands.len() {
            let is_pending = |command: &Command| command.is_pending();
            let was_pending = self.request.commands.get(at).is_some_and(is_pending);
            if let Some(edit) = self.approve(at, covered, hook)? {
                edits.push((at, edit));
            }
            // The first that fails stops the loop: later `update` hooks are not run.
            if was_pending && !self.request.commands.get(at).is_some_and(is_pending) {
                self.reject_pending(&RejectReason::AtomicPushFailure);
                return Ok(());
            }
        }
        let wanted: Vec<usize> = edits.iter().map(|(at, _)| *at).collect();
        let edits = self.refuse_vanished(edits)?;
        if edits.len() < wanted.len() {
            let reason = || CommandStatus::Rejected(RejectReason::AtomicTransactionFailed);
            for (at, command) in self.request.commands.iter_mut().enumerate() {
                if command.is_pending() || wanted.contains(&at) {
                    command.status = reason();
                }
            }
            return Ok(());
        }
        let edits = self.store_border(edits);
        if edits.len() < wanted.len() {
            self.reject_pending(&RejectReason::AtomicPushFailure);
            return Ok(());
        }
        let (places, edits): (Vec<usize>, Vec<RefEdit>) = edits.into_iter().unzip();
        match self.transact(|transaction| transaction.apply_atomic(&edits)) {
            Ok(applied) => {
                for (at, applied) in places.into_iter().zip(applied) {
                    self.note_applied(at, applied);
                }
            }
            Err((_, error)) => {
                let reason = self.tell_ref_error(&error, RejectReason::AtomicTransactionFailed);
                self.reject_pending(&reason);
            }
        }
        Ok(())
    }

    pub(super) fn transact<T>(&mut self, apply: impl FnOnce(RefTransaction<'_>) -> T) -> T {
        let dialect = self.receiver.dialect();
        let transaction = RefTransaction::new(&self.store).in_dialect(dialect);
        match self.transaction_hook.witness(&self.hooks, &mut self.channel) {
            Some(hook) => apply(transaction.witnessed_by(&hook)),
            None => apply(transaction),
        }
    }

    fn note_applied(&mut self, at: usize, _applied: Applied) {
        if let Some(command) = self.request.commands.get_mut(at) {
            command.finish();
        }
    }

    /// Tells the pusher what is wrong with a ref, and gives the reason for its report. A fault of
    /// the disk goes to the log with its paths, and to the pusher by the push's name; whether the
    /// ref may have moved all the same, the pusher has to know.
    pub(super) fn tell_ref_error(
        &mut self,
        error: &RefError,
        refused: RejectReason,
    ) -> RejectReason {
        self.is_vetoed |= matches!(error, RefError::Vetoed);
        if !error.is_server_fault() {
            self.channel.error(&error.text(self.receiver.dialect()));
            return refused;
        }
        let fault = ReceiveError::internal(Phase::Commit, "updating a ref", error.clone());
        let text = fault.client_text(self.id);
        let (text, reason) = if error.may_have_moved() {
            let text = format!("the ref may have moved: {text}");
            (text.clone(), RejectReason::Internal(text))
        } else {
            (text, refused)
        };
        self.channel.error(&text);
        self.server_fault.get_or_insert(fault);
        reason
    }

    fn say(&mut self, judgement: &Judgement) {
        for warning in &judgement.warnings {
            self.channel.warning(warning);
        }
        for error in &judgement.errors {
            self.channel.error(error);
        }
        for line in &judgement.advice {
            self.channel.error(line);
        }
    }
}

/// Whether the target's command does what this one asks for.
fn is_covered(covered: &[Option<usize>], at: usize) -> bool {
    covered.get(at).is_some_and(Option::is_some)
}

/// The name on disk. A name that is good by itself is good inside a namespace.
fn expand(namespace: Option<&Namespace>, name: RefName) -> Option<RefName> {
    match namespace {
        Some(namespace) => namespace.expand(&name).ok(),
        None => Some(name),
    }
}

impl Facts for Session<'_> {
    type Error = ReceiveError;

    fn kind(&self, id: &oid) -> Result<Option<ObjectKind>, ReceiveError> {
        // What the push brought. That it is on the disk is asked right before the ref moves.
        if let Some(kind) = self.ingested.as_ref().and_then(|new| new.objects.kind(id)) {
            return Ok(Some(kind));
        }
        match self.snapshot.refreshing().kind_and_size(&id.to_owned()) {
            Ok(found) => Ok(found.map(|(kind, _)| kind)),
            // git takes it for missing: a ref at a damaged object must be removable.
            Err(SnapshotError::DamagedObject { .. }) => Ok(None),
            Err(error) => {
                Err(ReceiveError::internal(Phase::Commit, "looking for an object", error))
            }
        }
    }

    fn is_fast_forward(&self, old: &oid, new: &oid) -> Result<Option<bool>, ReceiveError> {
        self.keeps_history(&old.to_owned(), &new.to_owned())
    }
}
