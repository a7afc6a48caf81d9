//! Symbolic refs in a push: a symref and its target are one ref under two names.

use super::channel::Channel;
use crate::model::{Command, ObjectId, RejectReason};
use crate::refs::{RefError, RefStore};
use bstr::{BString, ByteSlice};
use std::collections::HashMap;

/// Refuses symrefs that lead nowhere and pairs that contradict each other, and tells which
/// commands need no update of their own because the target's command does it (git's
/// `check_aliased_updates`).
pub(super) fn resolve(
    store: &RefStore,
    commands: &mut [Command],
    channel: &mut Channel<'_>,
    full_name: impl Fn(&Command) -> Option<crate::model::RefName>,
    shown_name: impl Fn(&bstr::BStr) -> Option<BString>,
) -> Vec<Option<usize>> {
    let mut covered = vec![None; commands.len()];
    let by_name: HashMap<BString, usize> = commands
        .iter()
        .enumerate()
        .filter(|(_, command)| command.is_pending())
        .map(|(at, command)| (command.name.clone(), at))
        .collect();
    for at in 0..commands.len() {
        let Some(name) =
            commands.get(at).filter(|command| command.is_pending()).and_then(&full_name)
        else {
            continue;
        };
        let resolved = match store.resolve(&name) {
            Ok(resolved) if resolved.is_symbolic() => resolved,
            Err(RefError::SymrefTooDeep { .. }) => {
                break_symref(commands, at, channel);
                continue;
            }
            // The transaction meets whatever else is wrong with it.
            Ok(_) | Err(_) => continue,
        };
        let target = shown_name(resolved.target());
        if let Some(other) = target.and_then(|target| by_name.get(&target).copied()) {
            if let Some(covered) = covered.get_mut(at) {
                *covered = Some(other);
            }
            compare(commands, at, other, channel);
        }
    }
    covered
}

fn break_symref(commands: &mut [Command], at: usize, channel: &mut Channel<'_>) {
    if let Some(command) = commands.get_mut(at) {
        channel.error(&format!("refusing update to broken symref '{}'", command.name));
        command.reject(RejectReason::BrokenSymref);
    }
}

fn compare(commands: &mut [Command], alias: usize, target: usize, channel: &mut Channel<'_>) {
    let (Some(one), Some(two)) = (commands.get(alias), commands.get(target)) else { return };
    if alias == target || (one.old == two.old && one.new == two.new) {
        return;
    }
    channel.error(&format!(
        "refusing inconsistent update between symref '{}' ({}..{}) and its target '{}' ({}..{})",
        one.name.as_bstr(),
        short(&one.old),
        short(&one.new),
        two.name.as_bstr(),
        short(&two.old),
        short(&two.new),
    ));
    for at in [alias, target] {
        if let Some(command) = commands.get_mut(at) {
            command.reject(RejectReason::InconsistentAlias);
        }
    }
}

/// Seven digits, git's shortest abbreviation.
fn short(id: &ObjectId) -> String {
    id.to_hex_with_len(7).to_string()
}
