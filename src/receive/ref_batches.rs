//! The refs of a push that is not atomic, in the two transactions in which git moves them since
//! 2.51: deletions first, so that what they make room for can be created.
//!
//! A ref that its transaction refuses is told for which reason, and keeps no other from moving. What
//! is wrong with a whole transaction refuses all its refs, and those of the next one; what moved
//! before has moved, and is told so, where git calls that failed as well.

use super::ReceiveError;
use super::session::Session;
use crate::hooks::Hook;
use crate::model::{CommandKind, RefRefusal, RejectReason};
use crate::refs::{RefEdit, RefError};

impl Session<'_> {
    pub(super) fn update_in_batches(
        &mut self,
        covered: &[Option<usize>],
        hook: Option<&Hook>,
    ) -> Result<(), ReceiveError> {
        for deletes in [true, false] {
            let places: Vec<usize> = (0..self.request.commands.len())
                .filter(|at| self.is_of_batch(*at, covered, deletes))
                .collect();
            if places.is_empty() {
                continue;
            }
            let mut edits = Vec::with_capacity(places.len());
            for at in places {
                edits.extend(self.approve(at, covered, hook)?.map(|edit| (at, edit)));
            }
            // Of a batch of which nothing is left the hook is told all the same.
            if !self.apply_batch(edits)? {
                break;
            }
        }
        Ok(())
    }

    fn is_of_batch(&self, at: usize, covered: &[Option<usize>], deletes: bool) -> bool {
        let command = self.request.commands.get(at);
        command.is_some_and(|command| {
            command.is_pending() && (command.kind() == CommandKind::Delete) == deletes
        }) && !self.is_handed_over(at)
            && covered.get(at).is_none_or(Option::is_none)
    }

    /// Moves refs in one transaction; false if that failed as a whole.
    fn apply_batch(&mut self, edits: Vec<(usize, RefEdit)>) -> Result<bool, ReceiveError> {
        let edits = self.refuse_vanished(edits)?;
        let edits = self.store_border(edits);
        let (places, edits): (Vec<usize>, Vec<RefEdit>) = edits.into_iter().unzip();
        match self.transact(|transaction| transaction.apply_batch(&edits)) {
            Ok(results) => {
                self.note_results(places, results);
                Ok(true)
            }
            Err(error) => {
                let refused = self.reason(RefRefusal::Unclassified);
                let reason = self.tell_ref_error(&error, refused);
                self.reject_pending(&reason);
                Ok(false)
            }
        }
    }

    /// The reason for the report of a ref that a transaction refused for this.
    pub(super) fn reason(&self, refusal: RefRefusal) -> RejectReason {
        self.receiver.dialect().reason(refusal)
    }

    /// Tells the pusher what is wrong with a ref that moves for itself, and gives the reason for its
    /// report.
    pub(super) fn tell_refusal(&mut self, error: &RefError) -> RejectReason {
        let reason = self.reason(error.refusal());
        self.tell_ref_error(error, reason)
    }
}
