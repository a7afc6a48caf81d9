//! Step 4: what the server's access file says of the refs of a push.
//!
//! Whether a ref may be made, deleted, or changed at all, its name tells; that is judged before
//! the pack is read. Whether a move loses history takes the objects: which refs must not is noted
//! here, for the policy to judge when git's own settings are.
//!
//! A symbolic ref is judged under its own name and under that of the ref it leads to, which is the
//! one that moves. Refs that the `proc-receive` hook takes over are judged by name alone: what
//! becomes of them is its business.

use super::policy;
use super::session::Session;
use crate::access::{AccessDenied, RefRules, Right};
use crate::model::{Command, CommandKind, RejectReason};
use crate::refs::Resolved;
use bstr::{BString, ByteSlice as _};

impl Session<'_> {
    /// Refuses the commands that the pusher has no right to; true if the push was refused whole,
    /// and nothing of it is of any use.
    pub(super) fn judge_access(&mut self) -> bool {
        let Some(rules) = self.ref_rules.clone() else { return false };
        let mut any_denied = false;
        for at in 0..self.request.commands.len() {
            let Some(command) = self.request.commands.get(at) else { continue };
            if !command.is_pending() {
                continue;
            }
            let names = self.names_of(command);
            if let Err(denied) = permit_all(&rules, rights_to(command), &names) {
                any_denied = true;
                self.channel.error(&denied.to_string());
                self.reject(at, RejectReason::AccessDenied(denied.reason()));
            } else if command.kind() == CommandKind::Update
                && let Err(denied) = permit_all(&rules, &[Right::Force], &names)
            {
                self.settings.forward_only.insert(command.name.clone(), denied);
            }
        }
        if any_denied && self.request.capabilities.atomic {
            self.reject_pending(&RejectReason::AtomicPushFailure);
        }
        any_denied && !self.any_pending()
    }

    /// The name of a command's ref, and that of the ref it leads to if it is symbolic.
    fn names_of(&self, command: &Command) -> Vec<BString> {
        let mut names = vec![command.name.clone()];
        let full = policy::ref_name(command).ok().and_then(|name| self.expand(name));
        // What cannot be resolved is refused later, or moves under its own name.
        let resolved = full.and_then(|full| self.store.resolve(&full).ok());
        if let Some(resolved) = resolved.filter(Resolved::is_symbolic) {
            let target = resolved.target();
            let namespace = self.store.context().namespace.as_ref();
            let shown = namespace.and_then(|namespace| namespace.strip(target));
            names.push(shown.unwrap_or(target).to_owned());
        }
        names
    }
}

/// What a command takes, whatever the objects.
fn rights_to(command: &Command) -> &'static [Right] {
    match command.kind() {
        CommandKind::Create => &[Right::Write, Right::Create],
        CommandKind::Update => &[Right::Write],
        CommandKind::Delete => &[Right::Write, Right::Delete],
    }
}

fn permit_all(rules: &RefRules, rights: &[Right], names: &[BString]) -> Result<(), AccessDenied> {
    for right in rights {
        for name in names {
            rules.permit(*right, name.as_bstr())?;
        }
    }
    Ok(())
}
