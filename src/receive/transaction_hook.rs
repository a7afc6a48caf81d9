//! The `reference-transaction` hook (githooks(5)): it is told of every ref transaction, and can stop
//! one that is prepared.
//!
//! What it says does not go to the client but where `git receive-pack` has its standard error.

use super::channel::Channel;
use super::hook_calls;
use crate::hooks::{Feed, Hook, HookVerdict, Hooks};
use crate::refs::{ToldUpdate, TransactionState, Witness};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The hook of one push, if it can be run.
#[derive(Clone, Debug, Default)]
pub(super) struct TransactionHook(Option<PathBuf>);

impl TransactionHook {
    /// Looks for the hook, and says so if it is there and cannot be run.
    pub(super) fn find(hooks: &Hooks, channel: &mut Channel<'_>) -> io::Result<Self> {
        Ok(match hooks.find("reference-transaction")? {
            Some(Hook::Executable(path)) => Self(Some(path)),
            Some(Hook::NotExecutable(path)) => {
                hook_calls::hint(channel, &path);
                Self(None)
            }
            None => Self(None),
        })
    }

    /// Whether there is somebody to tell.
    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// The hook as the ref transactions know it.
    pub(super) fn witness<'w, 'c>(
        &'w self,
        hooks: &'w Hooks,
        channel: &'w mut Channel<'c>,
    ) -> Option<RunningHook<'w, 'c>> {
        let path = self.0.as_deref()?;
        Some(RunningHook { path, hooks, channel: RefCell::new(channel) })
    }
}

/// The hook with all that it needs to run.
pub(super) struct RunningHook<'w, 'c> {
    path: &'w Path,
    hooks: &'w Hooks,
    channel: RefCell<&'w mut Channel<'c>>,
}

impl Witness for RunningHook<'_, '_> {
    fn hear(&self, said: &[u8]) {
        self.channel.borrow_mut().relay_aside(said);
    }

    fn patience(&self) -> Option<Duration> {
        self.hooks.patience()
    }

    fn see(&self, state: TransactionState, updates: &[ToldUpdate]) -> bool {
        let mut feed = Vec::new();
        for update in updates {
            feed.extend_from_slice(format!("{} {} ", update.old, update.new).as_bytes());
            feed.extend_from_slice(&update.name);
            feed.push(b'\n');
        }
        let state = state.to_string();
        let mut channel = self.channel.borrow_mut();
        let arguments = [OsStr::new(&state)];
        let verdict = self.hooks.run(self.path, &arguments, Feed::Bytes(&feed), &[], &mut |said| {
            channel.relay_aside(said);
        });
        match verdict {
            Ok(verdict) => verdict == HookVerdict::Accepted,
            Err(error) => {
                channel.diagnose(format!("error: {error}\n").as_bytes());
                false
            }
        }
    }
}
