//! Pushes that have lost already: whose old values are not the current ones, so that no ref of
//! theirs can move.
//!
//! git finds that out at the very end, when the objects are stored and the ref is locked. Here
//! refs are looked at before the pack is read, before connectivity, and before anything is
//! flushed; each look costs one read of each ref. A push of which a look says that every command is
//! bound to fail at its ref (or one of them, if it is atomic) is refused with the words that the ref
//! transaction has for it, and leaves nothing behind.
//!
//! The refusal is that of the moment of the look, which lies within the push: a ref that has its
//! old value again by the end of the push was another in between. What was refused stays refused.
//!
//! It is not done where somebody could tell: not if there is a `pre-receive`, `update` or
//! `reference-transaction` hook, which git runs over refs that it refuses later; not with a
//! certificate, for a shallow client, or for refs that are the `proc-receive` hook's; not if a
//! command would be refused, or remarked upon, for another reason that can be seen without its
//! objects. What cannot be looked at is left to the steps that need it. Hooks after the commit are
//! not run for refused refs, and do not matter.

use super::policy::{self, Facts, Judgement};
use super::ref_queue::{RefPlace, Turn};
use super::session::Session;
use crate::model::{Command, CommandKind, ObjectKind, RefName, RejectReason, oid};
use crate::refs::{Expected, Glance, RefError};
use bstr::ByteSlice;
use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

/// LIMIT: commands up to which a push is looked at in this way. A push of more does not race for
/// refs, and would read each of them three times more.
const COMMANDS_MAX: usize = 64;

/// How long a push whose pack has not been read waits for the one that is about to move its refs:
/// some flushes. No longer, since the client waits, too.
const WAIT_UNREAD: Duration = Duration::from_millis(250);

/// How long a push waits for its turn at its refs.
const WAIT_READ: Duration = Duration::from_secs(2);

/// What a push expects of its refs.
#[derive(Debug)]
pub(super) struct Contest {
    expectations: Vec<(usize, RefName, Expected)>,
    places: Vec<RefPlace>,
}

/// Why no ref of a push can move: what is wrong at which command.
#[derive(Debug)]
pub(super) struct LostRace(Vec<(usize, RefError)>);

impl<'a> Session<'a> {
    /// What this push expects of its refs, if it may be refused for that alone.
    pub(super) fn contest(&self) -> Option<Contest> {
        let request = &self.request;
        let is_plain = request.commands.len() <= COMMANDS_MAX
            && request.certificate.is_none()
            && request.shallow.is_empty();
        if !is_plain || self.hooks_can_tell() {
            return None;
        }
        let mut names = HashSet::new();
        let mut expectations = Vec::with_capacity(request.commands.len());
        for (at, command) in request.commands.iter().enumerate() {
            if !command.is_pending()
                || self.settings.proc_receive_refs.hand_over(command)
                || !names.insert(&command.name)
            {
                return None;
            }
            let full_name = self.full_name(command);
            if self.settings.hidden.hides(Some(command.name.as_bstr()), full_name.as_bstr()) {
                return None;
            }
            let name = policy::ref_name(command).ok();
            let name = name.and_then(|name| self.expand(name))?;
            let expected = match command.kind() {
                CommandKind::Create => Expected::MustNotExist,
                // One whose old value is no object deletes the ref whatever it holds.
                CommandKind::Delete if !matches!(self.kind(&command.old), Ok(Some(_))) => {
                    return None;
                }
                CommandKind::Update | CommandKind::Delete => Expected::MustBe(command.old),
            };
            expectations.push((at, name, expected));
        }
        let directory = self.store.context().common_dir.as_path();
        let place = |name: &RefName| (directory.to_owned(), name.as_bstr().to_owned());
        let places = expectations.iter().map(|(_, name, _)| place(name)).collect();
        Some(Contest { expectations, places })
    }

    /// Looks whether the push has lost, before its pack is read: if another push is about to move
    /// its refs, after that.
    pub(super) fn glance_before_pack(&mut self, contest: Option<&Contest>) -> Option<LostRace> {
        let contest = contest?;
        let lost = self.glance(contest);
        if lost.is_some() || !self.receiver.ref_queue.wait(&contest.places, WAIT_UNREAD) {
            return lost;
        }
        self.glance(contest)
    }

    /// Waits for the turn at the refs of a push. Without one it goes on, too.
    pub(super) fn wait_for_turn(&self, contest: Option<&Contest>) -> Option<Turn<'a>> {
        contest.and_then(|contest| self.receiver.ref_queue.take(&contest.places, WAIT_READ))
    }

    /// Looks whether the push has lost, and refuses it if so.
    pub(super) fn refuse_if_lost(&mut self, contest: Option<&Contest>) -> bool {
        let lost = contest.and_then(|contest| self.glance(contest));
        lost.map(|lost| self.refuse_lost(lost)).is_some()
    }

    /// Refuses a push that has lost, as the ref transaction would.
    pub(super) fn refuse_lost(&mut self, lost: LostRace) {
        let atomic = self.request.capabilities.atomic;
        for (at, error) in lost.0 {
            if atomic {
                let reason = self.tell_ref_error(&error, RejectReason::AtomicTransactionFailed);
                self.reject_pending(&reason);
            } else {
                let reason = self.tell_refusal(&error);
                self.reject(at, reason);
            }
        }
    }

    /// Looks at the refs; what is wrong, if that is the end of the push.
    fn glance(&mut self, contest: &Contest) -> Option<LostRace> {
        let atomic = self.request.capabilities.atomic;
        let mut refused = Vec::new();
        for (at, name, expected) in &contest.expectations {
            match self.store.glance(name, *expected) {
                Glance::Refused(error) => refused.push((*at, name, error)),
                Glance::Stands if atomic => {}
                Glance::Stands | Glance::Unclear => return None,
            }
        }
        if atomic {
            // Of an atomic push the transaction tells the first fault that it meets.
            refused.sort_by_key(|(_, name, _)| *name);
            refused.truncate(1);
        }
        if refused.is_empty() || !self.nothing_else_is_wrong() {
            return None;
        }
        Some(LostRace(refused.into_iter().map(|(at, _, error)| (at, error)).collect()))
    }

    /// Whether there is a hook that git would run before it looks at the refs. One that cannot be
    /// run counts: it is remarked upon.
    fn hooks_can_tell(&self) -> bool {
        let hooks = ["pre-receive", "update", "reference-transaction"];
        hooks.iter().any(|name| !matches!(self.hooks.find(name), Ok(None)))
    }

    /// Whether no setting of the repository has anything to say of these commands, if their
    /// objects are good.
    fn nothing_else_is_wrong(&mut self) -> bool {
        if self.look_at_worktrees().is_err() {
            return false;
        }
        let says_nothing = |command: &Command| {
            let full_name = self.full_name(command);
            let (settings, checked_out) = (&self.settings, &self.checked_out);
            let judged =
                policy::judge(command, full_name.as_bstr(), settings, checked_out, &GoodObjects);
            judged.is_ok_and(|judgement| judgement == Judgement::default())
        };
        self.request.commands.iter().all(says_nothing)
    }
}

/// New values that are there, are commits, and have the old ones in their history: whether they
/// have does not matter any more.
struct GoodObjects;

impl Facts for GoodObjects {
    type Error = Infallible;

    fn kind(&self, _: &oid) -> Result<Option<ObjectKind>, Infallible> {
        Ok(Some(ObjectKind::Commit))
    }

    fn is_fast_forward(&self, _: &oid, _: &oid) -> Result<Option<bool>, Infallible> {
        Ok(Some(true))
    }
}
