//! `receive.denyCurrentBranch=updateInstead`: the work tree that has a pushed branch checked out
//! follows it (git-config(1); githooks(5), `push-to-checkout`).
//!
//! As in git, the work tree changes after the `update` hook and before the ref: by the
//! `push-to-checkout` hook if there is one, else by git's own commands, and only if it is as clean
//! as they want it. The objects of the push are in place by then. What the hook and the commands say
//! goes to the pusher.
//!
//! If the ref does not move after all, the work tree is put back as far as git's commands can do that
//! safely; git leaves it ahead of its branch, where every later push finds it changed. What a hook has
//! done is not undone. Nothing of a work tree is flushed: it can be checked out again.

use super::session::Session;
use super::settings::Deny;
use super::worktrees::WorkTree;
use super::{ReceiveError, hook_calls};
use crate::hooks::{Hook, HookVerdict};
use crate::model::{Command, CommandStatus, ObjectId, RejectReason};
use crate::report::Phase;
use bstr::ByteSlice;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A work tree that was moved for a command.
#[derive(Clone, Debug)]
pub(super) struct MovedWorkTree {
    command: usize,
    work_tree: WorkTree,
}

impl Session<'_> {
    /// Whether a work tree has to follow one of the refs of the push.
    pub(super) fn moves_work_trees(&self) -> bool {
        self.settings.deny_current_branch == Deny::UpdateInstead
            && self.request.commands.iter().any(|command| self.work_tree_of(command).is_some())
    }

    fn work_tree_of(&self, command: &Command) -> Option<&WorkTree> {
        self.checked_out.work_tree_of(command.name.as_bstr())
    }

    /// Moves the work tree that has the branch of a command checked out, if the repository wants
    /// that; the reason why it could not be moved.
    pub(super) fn move_work_tree(
        &mut self,
        at: usize,
        command: &Command,
    ) -> Result<Option<RejectReason>, ReceiveError> {
        if self.settings.deny_current_branch != Deny::UpdateInstead {
            return Ok(None);
        }
        let Some(work_tree) = self.work_tree_of(command).cloned() else { return Ok(None) };
        let hook = self
            .hooks
            .find("push-to-checkout")
            .map_err(|error| ReceiveError::internal(Phase::Commit, "looking for hooks", error))?;
        match hook {
            Some(Hook::Executable(path)) => {
                return Ok(self.call_push_to_checkout(&path, &work_tree, &command.new));
            }
            Some(Hook::NotExecutable(path)) => hook_calls::hint(&mut self.channel, &path),
            None => {}
        }
        let refusal = self.check_out(&work_tree, &command.new);
        if refusal.is_none() {
            self.moved_work_trees.push(MovedWorkTree { command: at, work_tree });
        }
        Ok(refusal)
    }

    fn call_push_to_checkout(
        &mut self,
        hook: &Path,
        work_tree: &WorkTree,
        new: &ObjectId,
    ) -> Option<RejectReason> {
        let variables = variables_of(work_tree);
        let argument = new.to_string();
        let accepted = hook_calls::push_to_checkout(
            &self.hooks,
            hook,
            &mut self.channel,
            OsStr::new(&argument),
            &variables,
        );
        (!accepted).then_some(RejectReason::PushToCheckoutDeclined)
    }

    /// What git does where there is no hook.
    fn check_out(&mut self, work_tree: &WorkTree, new: &ObjectId) -> Option<RejectReason> {
        let head = self.tree_of_head(work_tree);
        let new = new.to_string();
        let steps: [(&[&str], RejectReason); 4] = [
            (
                &["update-index", "-q", "--ignore-submodules", "--refresh"],
                RejectReason::WorkTreeNotRefreshed,
            ),
            (
                &["diff-files", "--quiet", "--ignore-submodules", "--"],
                RejectReason::UnstagedChanges,
            ),
            (
                &["diff-index", "--quiet", "--cached", "--ignore-submodules", &head, "--"],
                RejectReason::StagedChanges,
            ),
            (&["read-tree", "-u", "-m", &new], RejectReason::WorkTreeNotUpdated),
        ];
        steps
            .into_iter()
            .find(|(arguments, _)| !self.run_in(work_tree, arguments))
            .map(|(_, refusal)| refusal)
    }

    /// `HEAD` of the work tree, or the tree without entries if its branch is not born yet.
    fn tree_of_head(&self, work_tree: &WorkTree) -> String {
        let head = self.store.of_work_tree(&work_tree.git_dir).resolve_head();
        match head {
            Ok(resolved) if resolved.id.is_none() => {
                ObjectId::empty_tree(self.repository.hash()).to_string()
            }
            // What is damaged is told by the command.
            _ => "HEAD".to_owned(),
        }
    }

    fn run_in(&mut self, work_tree: &WorkTree, arguments: &[&str]) -> bool {
        let hooks = self.hooks.starting_in(&work_tree.path, variables_of(work_tree));
        let channel = &mut self.channel;
        match hooks.run_git(arguments, &mut |said| channel.relay(said)) {
            Ok(verdict) => verdict == HookVerdict::Accepted,
            Err(error) => {
                channel.error(&error.to_string());
                false
            }
        }
    }

    /// Puts those work trees back whose refs have not moved.
    pub(super) fn put_work_trees_back(&mut self) {
        for moved in std::mem::take(&mut self.moved_work_trees) {
            let Some(command) = self.request.commands.get(moved.command) else { continue };
            if command.status == CommandStatus::Done {
                continue;
            }
            let (new, name) = (command.new.to_string(), command.name.clone());
            // Somebody else may have moved the branch meanwhile; if it was this push after all,
            // there is nothing to do.
            let head = self.tree_of_head(&moved.work_tree);
            if !self.run_in(&moved.work_tree, &["read-tree", "-u", "-m", &new, &head]) {
                self.channel
                    .warning(&format!("the work tree of '{name}' was updated, its branch was not"));
            }
        }
    }
}

/// How git is led to a work tree: by absolute paths, whatever `core.worktree` says.
fn variables_of(work_tree: &WorkTree) -> Vec<(OsString, OsString)> {
    let of = |name: &str, path: &Path| (name.into(), path.as_os_str().to_owned());
    vec![of("GIT_DIR", &work_tree.git_dir), of("GIT_WORK_TREE", &work_tree.path)]
}
