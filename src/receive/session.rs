//! The state of one push after its commands have been read.

use super::channel::Channel;
use super::hook_calls::{self, Told};
use super::maintenance::{Added, maintain, update_server_info};
use super::outcome::PushOutcome;
use super::settings::PushSettings;
use super::shallow::Border;
use super::transaction_hook::TransactionHook;
use super::work_tree_update::MovedWorkTree;
use super::worktrees::CheckedOut;
use super::{NonceTerms, ReceiveError, Receiver, Surplus, policy, worktrees};
use crate::access::RefRules;
use crate::hooks::{Hook, Hooks};
use crate::ingest::Ingested;
use crate::model::{CancelToken, Command, CommandStatus, ObjectId, PushId, RejectReason};
use crate::refs::RefStore;
use crate::repo::create::RepositoryHold;
use crate::repo::{Environment, Migrated, Quarantine, Repository};
use crate::report::{Fault, Phase};
use crate::snapshot::ObjectSnapshot;
use crate::wire::{CommandVerdict, HookAnswer, PushRequest, UnpackStatus, encode_report_status};
use bstr::{BString, ByteSlice};
use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};

/// One push, between its commands and its report.
pub(super) struct Session<'a> {
    pub(super) receiver: &'a Receiver,
    pub(super) id: PushId,
    pub(super) repository: Repository,
    pub(super) settings: PushSettings,
    pub(super) store: RefStore,
    pub(super) hooks: Hooks,
    pub(super) checked_out: CheckedOut,
    /// Work trees that follow refs which have still to move.
    pub(super) moved_work_trees: Vec<MovedWorkTree>,
    pub(super) request: PushRequest,
    /// Whether each command's ref was there; git keeps the deletion of one that was not from
    /// later hooks.
    pub(super) existed: Vec<bool>,
    pub(super) channel: Channel<'a>,
    pub(super) ref_rules: Option<RefRules>,
    pub(super) surplus: Surplus,
    pub(super) completes_thin_packs: bool,
    pub(super) cancel: CancelToken,
    pub(super) snapshot: ObjectSnapshot,
    /// The repository with what the push brought, taken when first asked for.
    pub(super) after_migration: OnceCell<ObjectSnapshot>,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) ingested: Option<Ingested>,
    pub(super) unreferenced: Vec<ObjectId>,
    /// What the commands need of a shallow client's border.
    pub(super) border: Border,
    /// What was migrated, whose packs are kept from repacks until refs lead to their objects.
    pub(super) migrated: Option<Migrated>,
    /// For each command, whether it is the `proc-receive` hook's and what that said of it; empty
    /// before it is decided.
    pub(super) hook_answers: Vec<HookAnswer>,
    /// What the nonce of this push is made of.
    pub(super) nonce_terms: NonceTerms,
    /// What `pre-receive` and `post-receive` are told of the certificate.
    pub(super) certificate_variables: Vec<(OsString, OsString)>,
    /// Who is told of every ref transaction.
    pub(super) transaction_hook: TransactionHook,
    /// Whether it stopped one.
    pub(super) is_vetoed: bool,
    /// What was added to the repository, for whoever tidies it up.
    pub(super) added: Added,
    /// The first fault of our own that refused a ref, for the log.
    pub(super) server_fault: Option<ReceiveError>,
    environment: Environment,
    pub(super) hold: Option<RepositoryHold>,
}

/// The repository of a push, held if it might go away otherwise.
pub(super) struct Opened {
    pub(super) repository: Repository,
    pub(super) hold: Option<RepositoryHold>,
}

/// What a push is told by its edge.
pub(super) struct Circumstances {
    pub(super) id: PushId,
    pub(super) environment: Environment,
    pub(super) nonce_terms: NonceTerms,
    pub(super) ref_rules: Option<RefRules>,
    pub(super) surplus: Surplus,
    pub(super) completes_thin_packs: bool,
    pub(super) cancel: CancelToken,
}

impl<'a> Session<'a> {
    pub(super) fn open(
        receiver: &'a Receiver,
        repository: Repository,
        request: PushRequest,
        mut channel: Channel<'a>,
        circumstances: Circumstances,
    ) -> Result<Self, ReceiveError> {
        let Circumstances { id, environment, nonce_terms, .. } = circumstances;
        let Circumstances { ref_rules, surplus, completes_thin_packs, cancel, .. } = circumstances;
        let settings = receiver.settings(&repository)?;
        settings.refuse_unsupported(Phase::Request)?;
        for warning in &settings.fsck.warnings {
            channel.diagnose(format!("warning: {warning}\n").as_bytes());
        }
        let store = receiver.ref_store(&repository, &settings, &environment)?;
        let hooks = Hooks::new(
            repository.disk().clone(),
            repository.git_dir().to_owned(),
            settings.hooks_path.clone(),
            environment.clone(),
        );
        let hooks = if receiver.runs_hooks_apart() { hooks.in_own_groups() } else { hooks };
        let hooks = hooks
            .telling_ignored(settings.hints_at_ignored_hooks)
            .noting_silence_of(settings.keep_alive.filter(|_| channel.is_banded()));
        let snapshot = receiver.snapshot(&repository, &environment)?;
        let existed = vec![true; request.commands.len()];
        Ok(Self {
            receiver,
            id,
            repository,
            settings,
            store,
            hooks,
            checked_out: CheckedOut::default(),
            moved_work_trees: Vec::new(),
            request,
            existed,
            channel,
            ref_rules,
            surplus,
            completes_thin_packs,
            cancel,
            snapshot,
            after_migration: OnceCell::new(),
            quarantine: None,
            ingested: None,
            unreferenced: Vec::new(),
            border: Border::default(),
            migrated: None,
            hook_answers: Vec::new(),
            nonce_terms,
            certificate_variables: Vec::new(),
            transaction_hook: TransactionHook::default(),
            is_vetoed: false,
            added: Added::default(),
            server_fault: None,
            environment,
            hold: None,
        })
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Looks which branches are checked out.
    pub(super) fn look_at_worktrees(&mut self) -> Result<(), ReceiveError> {
        let repository = &self.repository;
        let main = worktrees::main_of(repository, self.receiver.dialect())
            .map_err(|error| ReceiveError::internal(Phase::Commit, "reading settings", error))?;
        let deletes = self.request.commands.iter().any(|command| command.new.is_null());
        self.checked_out = CheckedOut::look(repository.disk(), &self.store, main, deletes)
            .map_err(|error| ReceiveError::internal(Phase::Commit, "reading HEAD", error))?;
        Ok(())
    }

    /// The ref's name on disk. A funny name stands for itself: it never gets that far.
    pub(super) fn full_name(&self, command: &Command) -> BString {
        let namespace = self.store.context().namespace.as_ref();
        policy::ref_name(command)
            .ok()
            .and_then(|name| namespace?.expand(&name).ok())
            .map_or_else(|| command.name.clone(), |name| name.as_bstr().to_owned())
    }

    pub(super) fn reject(&mut self, at: usize, reason: RejectReason) {
        if let Some(command) = self.request.commands.get_mut(at) {
            command.reject(reason);
        }
    }

    /// Refuses all commands that nothing has been decided on.
    pub(super) fn reject_pending(&mut self, reason: &RejectReason) {
        for command in &mut self.request.commands {
            command.reject(reason.clone());
        }
    }

    /// Refuses all commands, whatever was decided: nothing was carried out yet.
    pub(super) fn reject_all(&mut self, reason: &RejectReason) {
        for command in &mut self.request.commands {
            command.status = CommandStatus::Rejected(reason.clone());
        }
    }

    pub(super) fn any_pending(&self) -> bool {
        self.request.commands.iter().any(Command::is_pending)
    }

    /// Refuses commands for refs that the client may not see.
    pub(super) fn reject_hidden(&mut self) {
        for at in 0..self.request.commands.len() {
            let Some(command) = self.request.commands.get(at) else { continue };
            let full_name = self.full_name(command);
            if self.settings.hidden.hides(Some(command.name.as_bstr()), full_name.as_bstr()) {
                let deletion = command.new.is_null();
                self.reject(
                    at,
                    if deletion { RejectReason::HiddenDelete } else { RejectReason::HiddenUpdate },
                );
            }
        }
    }

    /// Runs `pre-receive`; false if it said no.
    pub(super) fn run_pre_receive(&mut self) -> Result<bool, ReceiveError> {
        let internal =
            |error| ReceiveError::internal(Phase::Commit, "running 'pre-receive'", error);
        let Some(hook) = self.hooks.find("pre-receive").map_err(internal)? else {
            return Ok(true);
        };
        let mut variables = self.certificate_variables.clone();
        if let (Hook::Executable(_), Some(quarantine)) = (&hook, &mut self.quarantine) {
            quarantine.seal().map_err(internal)?;
            let environment = quarantine.environment().map_err(internal)?;
            let owned = |(name, value): (&OsStr, &OsStr)| (name.to_owned(), value.to_owned());
            variables.extend(environment.iter().map(owned));
        }
        let accepted = hook_calls::pre_receive(
            &self.hooks.until(&self.cancel),
            &hook,
            &mut self.channel,
            &self.request.commands,
            variables,
            &self.request.push_options,
        );
        if !accepted {
            // A hook that was made to end has declined nothing.
            self.stop_if_asked()?;
            self.reject_pending(&RejectReason::PreReceiveDeclined);
        }
        Ok(accepted)
    }

    /// Runs `post-receive` and `post-update`.
    pub(super) fn run_post_hooks(&mut self) -> Result<(), ReceiveError> {
        let told: Vec<Told<'_>> = verdicts(&self.request.commands, &self.hook_answers)
            .zip(&self.existed)
            .map(|(verdict, existed)| Told { verdict, existed: *existed })
            .collect();
        let mut variables = hook_calls::push_option_variables(&self.request.push_options);
        variables.extend_from_slice(&self.certificate_variables);
        hook_calls::post(&self.hooks, &mut self.channel, &told, &variables)
            .map_err(|error| ReceiveError::internal(Phase::Commit, "running the last hooks", error))
    }

    /// Has the repository tidied up if that is due, and the files for dumb transports rewritten if
    /// it wants them.
    pub(super) fn maintain(&mut self) -> Result<(), ReceiveError> {
        if !self.request.commands.iter().any(|command| command.status == CommandStatus::Done) {
            return Ok(());
        }
        let settings = &self.settings.maintenance;
        let due = self.receiver.maintenance.is_due(&self.repository, settings, self.added);
        let due = due.map_err(|error| {
            ReceiveError::internal(Phase::Commit, "looking whether maintenance is due", error)
        })?;
        let hooks = self.border.hooks_without(&self.hooks);
        if due {
            maintain(hooks, settings, &mut self.channel);
        }
        update_server_info(hooks, settings, &mut self.channel);
        Ok(())
    }

    /// Sends the report, if the client asked for one.
    pub(super) fn report(&mut self, unpack: Option<&ReceiveError>) {
        let status = match unpack {
            None => UnpackStatus::Ok,
            Some(error) => UnpackStatus::Failed(error.client_text(self.id).into()),
        };
        let mut report = Vec::new();
        let version = self.request.capabilities.report_status;
        let verdicts = verdicts(&self.request.commands, &self.hook_answers);
        encode_report_status(&mut report, version, &status, verdicts);
        if !report.is_empty() {
            self.channel.report(&report);
        }
    }

    /// Stops before the commit if the client has gone or the server stops.
    pub(super) fn stop_if_asked(&self) -> Result<(), ReceiveError> {
        if self.channel.is_gone() {
            let text = "the client went away before the commit";
            return Err(ReceiveError::new(Fault::Disconnected, Phase::Commit, text));
        }
        if self.cancel.is_cancelled() {
            let text = "the push was stopped before its commit; nothing was changed";
            return Err(ReceiveError::new(cancelled(&self.cancel), Phase::Commit, text));
        }
        Ok(())
    }

    /// Hands what the log wants to know to the outcome, and takes a repository away again that
    /// this push made and nothing landed in.
    pub(super) fn tell(mut self, outcome: &mut PushOutcome) {
        if let Some(ingested) = &self.ingested {
            outcome.objects = ingested.object_count.into();
            outcome.bytes = ingested.received_bytes;
        }
        let has_landed =
            |command: &Command| command.status == CommandStatus::Done && !command.new.is_null();
        let landed = self.request.commands.iter().any(has_landed);
        drop(self.quarantine.take());
        // A repository that goes again has to be empty.
        drop(std::mem::take(&mut self.border));
        if let (Some(hold), false) = (self.hold.take(), landed) {
            outcome.cleanup_fault = hold.remove_if_untouched().err().map(|e| e.to_string());
        }
        outcome.commands = self.request.commands;
    }
}

/// Each command with what the `proc-receive` hook did in its place.
fn verdicts<'a>(
    commands: &'a [Command],
    answers: &'a [HookAnswer],
) -> impl Iterator<Item = CommandVerdict<'a>> {
    commands.iter().enumerate().map(|(at, command)| {
        let reports = answers.get(at).map(|answer| answer.reports.as_slice());
        CommandVerdict { command, reports: reports.unwrap_or_default() }
    })
}

/// Whose doing it is that a push was cancelled.
pub(super) fn cancelled(cancel: &CancelToken) -> Fault {
    if cancel.is_server_stopping() { Fault::Stopping } else { Fault::Disconnected }
}
