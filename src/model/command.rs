//! What a client asks of one ref, and what became of it.

use super::{ObjectId, RefRefusal};
use bstr::BString;
use std::fmt;

/// One line of a push's command list.
///
/// The name is kept as it came: a name that git calls funny is refused for that ref alone, with
/// the others going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The value the client believes the ref to have; null to create.
    pub old: ObjectId,
    /// The value it shall have; null to delete.
    pub new: ObjectId,
    /// The full name, unchecked.
    pub name: BString,
    /// How it stands.
    pub status: CommandStatus,
}

/// The kind of change a command asks for, by its null ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// From null to a value.
    Create,
    /// From one value to another.
    Update,
    /// To null. From null to null too: git calls that the deletion of a ref that does not exist.
    Delete,
}

impl Command {
    /// A command on which nothing has been decided.
    pub fn new(old: ObjectId, new: ObjectId, name: impl Into<BString>) -> Self {
        Self { old, new, name: name.into(), status: CommandStatus::Pending }
    }

    /// The kind of change.
    pub fn kind(&self) -> CommandKind {
        if self.new.is_null() {
            CommandKind::Delete
        } else if self.old.is_null() {
            CommandKind::Create
        } else {
            CommandKind::Update
        }
    }

    /// Whether nothing has been decided yet.
    pub fn is_pending(&self) -> bool {
        self.status == CommandStatus::Pending
    }

    /// Refuses the command for `reason`, unless something was decided before: a status is set
    /// once, and the first reason is the one the client reads.
    pub fn reject(&mut self, reason: RejectReason) {
        if self.is_pending() {
            self.status = CommandStatus::Rejected(reason);
        }
    }

    /// Marks the command as carried out, unless something was decided before.
    pub fn finish(&mut self) {
        if self.is_pending() {
            self.status = CommandStatus::Done;
        }
    }
}

/// How a command stands. A refused ref is a value, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandStatus {
    /// Not decided.
    Pending,
    /// Refused; the ref is as it was.
    Rejected(RejectReason),
    /// Carried out.
    Done,
}

/// Why a ref was refused; `Display` gives the text of the `ng` line.
///
/// The texts are those of git 2.47's `builtin/receive-pack.c`, which clients show and scripts
/// compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// The server's access file gives no right to it; the text names the rule.
    AccessDenied(String),
    /// Another command of an atomic push failed.
    AtomicPushFailure,
    /// The transaction of an atomic push failed.
    AtomicTransactionFailed,
    /// The new object is not there although the push was connected.
    BadPack,
    /// The old or the new value is no commit where a commit is needed.
    BadRef,
    /// A symref that leads nowhere.
    BrokenSymref,
    /// The branch is checked out in a work tree.
    CurrentBranch,
    /// HEAD's branch would go.
    CurrentBranchDeletion,
    /// `receive.denyDeletes`.
    DeletionProhibited,
    /// The ref could not be deleted.
    FailedToDelete,
    /// The ref could not be written: a lost race, a lock, a conflict of names.
    FailedToUpdateRef,
    /// The name breaks git's rules.
    FunnyRefname,
    /// The ref is hidden and would be deleted.
    HiddenDelete,
    /// The ref is hidden and would be updated.
    HiddenUpdate,
    /// The `update` hook said no.
    HookDeclined,
    /// A symref and its target were to get different values.
    InconsistentAlias,
    /// Other push options were signed than were sent.
    InconsistentPushOptions,
    /// The server failed; the text says so and names the push.
    Internal(String),
    /// The new objects could not be moved into the repository.
    MigrationFailed,
    /// An object that the new value needs is neither here nor in the pack.
    MissingNecessaryObjects,
    /// `receive.denyNonFastForwards`.
    NonFastForward,
    /// The `pre-receive` hook said no.
    PreReceiveDeclined,
    /// The ref transaction refused it, for this reason; only in dialects that tell reasons.
    RefRefused(RefRefusal),
    /// The `proc-receive` hook could not be run, or not to a good end.
    ProcReceiveNotRun,
    /// The `proc-receive` hook said no, in these words.
    ProcReceiveRefused(String),
    /// The `proc-receive` hook said nothing of it.
    ProcReceiveSilent,
    /// The border of a shallow client's history could not be stored, or the new value is not whole
    /// even with that.
    ShallowError,
    /// The push comes from a shallow repository and would make this one shallow.
    ShallowUpdate,
    /// The `push-to-checkout` hook said no.
    PushToCheckoutDeclined,
    /// The index of the work tree that should follow has changes.
    StagedChanges,
    /// The pack could not be unpacked.
    UnpackerError,
    /// The work tree that should follow has changes.
    UnstagedChanges,
    /// The index of the work tree that should follow could not be refreshed.
    WorkTreeNotRefreshed,
    /// The work tree that should follow could not be moved to the new value.
    WorkTreeNotUpdated,
    /// The repository is set up for something that this version does not do, or has an object that
    /// is too large for it; the text says what.
    Unsupported(String),
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtomicPushFailure => "atomic push failure",
            Self::AtomicTransactionFailed => "atomic transaction failed",
            Self::BadPack => "bad pack",
            Self::BadRef => "bad ref",
            Self::BrokenSymref => "broken symref",
            Self::CurrentBranch => "branch is currently checked out",
            Self::CurrentBranchDeletion => "deletion of the current branch prohibited",
            Self::DeletionProhibited => "deletion prohibited",
            Self::FailedToDelete => "failed to delete",
            Self::FailedToUpdateRef => "failed to update ref",
            Self::FunnyRefname => "funny refname",
            Self::HiddenDelete => "deny deleting a hidden ref",
            Self::HiddenUpdate => "deny updating a hidden ref",
            Self::HookDeclined => "hook declined",
            Self::InconsistentAlias => "inconsistent aliased update",
            Self::InconsistentPushOptions => "inconsistent push options",
            Self::MigrationFailed => "unable to migrate objects to permanent storage",
            Self::MissingNecessaryObjects => "missing necessary objects",
            Self::NonFastForward => "non-fast-forward",
            Self::PreReceiveDeclined => "pre-receive hook declined",
            Self::ProcReceiveNotRun => "fail to run proc-receive hook",
            Self::ProcReceiveSilent => "proc-receive failed to report status",
            Self::ShallowError => "shallow error",
            Self::ShallowUpdate => "shallow update not allowed",
            Self::PushToCheckoutDeclined => "push-to-checkout hook declined",
            Self::StagedChanges => "Working directory has staged changes",
            Self::UnpackerError => "unpacker error",
            Self::UnstagedChanges => "Working directory has unstaged changes",
            Self::WorkTreeNotRefreshed => "Up-to-date check failed",
            Self::WorkTreeNotUpdated => "Could not update working tree to new HEAD",
            Self::RefRefused(refusal) => return refusal.fmt(f),
            Self::AccessDenied(text)
            | Self::Internal(text)
            | Self::ProcReceiveRefused(text)
            | Self::Unsupported(text) => text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HashKind;

    #[test]
    fn the_first_decision_stands() {
        let null = ObjectId::null(HashKind::Sha1);
        let mut command = Command::new(null, null, "refs/heads/x");
        command.reject(RejectReason::HookDeclined);
        command.reject(RejectReason::UnpackerError);
        command.finish();
        assert_eq!(command.status, CommandStatus::Rejected(RejectReason::HookDeclined));
    }

    #[test]
    fn null_ids_tell_the_kind() {
        let null = ObjectId::null(HashKind::Sha1);
        let some = ObjectId::empty_tree(HashKind::Sha1);
        assert_eq!(Command::new(null, some, "r").kind(), CommandKind::Create);
        assert_eq!(Command::new(some, some, "r").kind(), CommandKind::Update);
        assert_eq!(Command::new(some, null, "r").kind(), CommandKind::Delete);
        assert_eq!(Command::new(null, null, "r").kind(), CommandKind::Delete);
    }
}
