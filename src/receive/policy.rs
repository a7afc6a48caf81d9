//! What the repository's settings say of one command: the checks that git makes for each ref after
//! `pre-receive` and before `update`, in git's order and words (`builtin/receive-pack.c`,
//! `update()`).

use super::settings::{Deny, PushSettings};
use super::worktrees::CheckedOut;
use crate::model::{Command, CommandKind, ObjectKind, RefName, RejectReason, oid};
use bstr::{BStr, BString, ByteSlice};

/// What the checks ask of the repository, so that they themselves touch nothing.
pub(super) trait Facts {
    /// What can go wrong while asking.
    type Error;
    /// The kind of an object; `None` if it is not there.
    fn kind(&self, id: &oid) -> Result<Option<ObjectKind>, Self::Error>;
    /// Whether `old` is an ancestor of `new`, or the same; `None` if one of them is no commit.
    fn is_fast_forward(&self, old: &oid, new: &oid) -> Result<Option<bool>, Self::Error>;
}

/// The outcome of the checks: a refusal, with lines for the client in either case.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) rejected: Option<RejectReason>,
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) advice: Vec<&'static str>,
}

impl Judgement {
    fn refuse(mut self, reason: RejectReason, error: String) -> Self {
        self.rejected = Some(reason);
        self.errors.push(error);
        self
    }
}

/// The name a command asks for, if git would let it: updates need two levels below `refs/`.
pub(super) fn ref_name(command: &Command) -> Result<RefName, RejectReason> {
    let name = command.name.clone();
    let parsed = match command.kind() {
        CommandKind::Delete => RefName::for_deletion(name),
        CommandKind::Create | CommandKind::Update => RefName::new(name),
    };
    parsed.map_err(|_| RejectReason::FunnyRefname)
}

/// Judges one command. `full_name` is the ref's name on disk, inside its namespace.
pub(super) fn judge<F: Facts>(
    command: &Command,
    full_name: &BStr,
    settings: &PushSettings,
    checked_out: &CheckedOut,
    facts: &F,
) -> Result<Judgement, F::Error> {
    let name = command.name.as_bstr();
    let mut judgement = Judgement::default();
    if ref_name(command).is_err() {
        let error = format!("refusing to update funny ref '{name}' remotely");
        return Ok(judgement.refuse(RejectReason::FunnyRefname, error));
    }
    if checked_out.work_tree_of(name).is_some() {
        match settings.deny_current_branch {
            // The work tree will have its say when the other checks have passed.
            Deny::Ignore | Deny::UpdateInstead => {}
            Deny::Warn => judgement.warnings.push("updating the current branch".into()),
            Deny::Unset | Deny::Refuse => {
                if settings.deny_current_branch == Deny::Unset {
                    judgement.advice.extend_from_slice(CURRENT_BRANCH_ADVICE);
                }
                let error = format!("refusing to update checked out branch: {name}");
                return Ok(judgement.refuse(RejectReason::CurrentBranch, error));
            }
        }
    }
    match command.kind() {
        CommandKind::Delete => {
            Ok(judge_deletion(judgement, command, full_name, settings, checked_out))
        }
        CommandKind::Create | CommandKind::Update => {
            judge_new_value(judgement, command, settings, facts)
        }
    }
}

fn judge_deletion(
    mut judgement: Judgement,
    command: &Command,
    full_name: &BStr,
    settings: &PushSettings,
    checked_out: &CheckedOut,
) -> Judgement {
    // git asks only for deletions that state an old value; without one it is the deletion of a
    // ref that, as far as the client knows, does not exist.
    if command.old.is_null() {
        return judgement;
    }
    let name = command.name.as_bstr();
    if settings.deny_deletes && name.starts_with(b"refs/heads/") {
        return judgement
            .refuse(RejectReason::DeletionProhibited, format!("denying ref deletion for {name}"));
    }
    if checked_out.is_current(full_name, name) {
        match settings.deny_delete_current {
            Deny::Ignore => {}
            Deny::Warn => judgement.warnings.push("deleting the current branch".into()),
            Deny::Unset | Deny::Refuse | Deny::UpdateInstead => {
                if settings.deny_delete_current == Deny::Unset {
                    judgement.advice.extend_from_slice(DELETE_CURRENT_ADVICE);
                }
                let error = format!("refusing to delete the current branch: {name}");
                return judgement.refuse(RejectReason::CurrentBranchDeletion, error);
            }
        }
    }
    judgement
}

fn judge_new_value<F: Facts>(
    judgement: Judgement,
    command: &Command,
    settings: &PushSettings,
    facts: &F,
) -> Result<Judgement, F::Error> {
    let name = command.name.as_bstr();
    if facts.kind(&command.new)?.is_none() {
        let error = format!("unpack should have generated {}, but I can't find it!", command.new);
        return Ok(judgement.refuse(RejectReason::BadPack, error));
    }
    if let Some(denied) = settings.forward_only.get(&command.name)
        && command.kind() == CommandKind::Update
        && (name.starts_with(b"refs/tags/")
            || facts.is_fast_forward(&command.old, &command.new)? != Some(true))
    {
        let reason = RejectReason::AccessDenied(denied.reason());
        return Ok(judgement.refuse(reason, denied.to_string()));
    }
    if settings.deny_non_fast_forwards
        && command.kind() == CommandKind::Update
        && name.starts_with(b"refs/heads/")
    {
        match facts.is_fast_forward(&command.old, &command.new)? {
            Some(true) => {}
            Some(false) => {
                let error = format!("denying non-fast-forward {name} (you should pull first)");
                return Ok(judgement.refuse(RejectReason::NonFastForward, error));
            }
            None => {
                let error =
                    format!("Bad sha1 objects {} and {} for {name}", command.old, command.new);
                return Ok(judgement.refuse(RejectReason::BadRef, error));
            }
        }
    }
    Ok(judgement)
}

/// git's rule for the value of a branch (`refs.c`, `ref_transaction_update`), asked when the ref is
/// to be written: nothing but a commit. The reason is the transaction's.
pub(super) fn check_value<F: Facts>(
    command: &Command,
    full_name: &BString,
    facts: &F,
) -> Result<Option<String>, F::Error> {
    if command.new.is_null() || !full_name.starts_with(b"refs/heads/") {
        return Ok(None);
    }
    let kind = facts.kind(&command.new)?;
    Ok((kind != Some(ObjectKind::Commit)).then(|| {
        format!("trying to write non-commit object {} to branch '{full_name}'", command.new)
    }))
}

const CURRENT_BRANCH_ADVICE: &[&str] = &[
    "By default, updating the current branch in a non-bare repository is refused: the index and",
    "the work tree would no longer match what was pushed. Push to another branch, or make the",
    "repository bare. The server's receive.denyCurrentBranch can be set to 'ignore' or 'warn' to",
    "allow it all the same, or to 'refuse' to go without this advice.",
];

const DELETE_CURRENT_ADVICE: &[&str] = &[
    "By default, deleting the current branch is refused: the next clone would have nothing to check",
    "out. The server's receive.denyDeleteCurrent can be set to 'ignore' or 'warn' to allow it, or to",
    "'refuse' to go without this advice.",
];
