//! One push, from the advertisement to the last hook, in ten steps.
//!
//! The steps are those of docs/ARCHITECTURE.md. They are taken on a thread that may block; the
//! edges bring bytes and carry the answer back through [`Client`]. Nothing here logs: what is worth
//! a line is in the [`PushOutcome`].

mod advertise;
mod aliases;
mod alternate_refs;
mod beside_repack;
mod certificate;
mod channel;
mod client;
mod commit;
mod connectivity;
mod error;
mod fsck;
mod hook_calls;
mod identity;
mod lost_race;
mod maintenance;
mod outcome;
mod packet_trace;
mod policy;
mod proc_receive;
mod proc_receive_refs;
mod receiver;
mod ref_access;
mod ref_batches;
mod ref_queue;
mod ref_updates;
mod request;
mod session;
mod settings;
mod shallow;
mod signs_of_life;
mod trace;
mod transaction_hook;
mod unpack;
mod work_tree_update;
mod worktrees;

pub use certificate::NonceTerms;
pub use client::Client;
pub use error::ReceiveError;
pub use ingest::Surplus;
pub use outcome::{PushOutcome, Verdict};
pub use packet_trace::PacketTrace;
pub use receiver::{Push, Receiver, ReceiverSettings, Target};

use crate::ingest;
use crate::model::RejectReason;
use crate::repo::create::RepositoryHold;
use crate::report::Phase;
use crate::wire::Request;
use bstr::ByteSlice;
use channel::Channel;
use lost_race::{Contest, LostRace};
use outcome::StepClock;
use request::PackInput;
use session::Session;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Receiver {
    /// Takes one push, steps 3 to 10. Blocks until the last hook has ended.
    ///
    /// Whatever the bytes are, the answer is a [`PushOutcome`]; a broken invariant of ours fails
    /// this push and no other.
    pub fn receive(&self, push: Push<'_>) -> PushOutcome {
        let mut outcome = PushOutcome::new(push.id);
        let mut clock = StepClock::start();
        outcome.result = self.take(push, &mut clock, &mut outcome);
        outcome.steps = clock.into_steps();
        outcome
    }

    fn take(
        &self,
        push: Push<'_>,
        clock: &mut StepClock,
        outcome: &mut PushOutcome,
    ) -> Result<Verdict, ReceiveError> {
        // 3. Read the commands.
        let offered = self.offer_for(&push.target, &push.environment, &push.nonce_terms)?;
        let mut packets = self.packet_trace().received();
        // The memory of the request is the push's to its end.
        let mut memory = self.command_memory.share();
        let (request, mut input) =
            request::read_request(push.input, &offered, self.limits(), &mut memory, &mut packets)?;
        clock.lap("commands");
        let Request::Push(request) = request else { return Ok(Verdict::Probe) };
        let client = request.capabilities.session_id.as_ref().map(|id| id.as_bstr());
        // A trace that cannot be written is nobody's fault who pushes; git goes on, too.
        let _ = trace::trace_client_session(self.disk(), &push.environment, client);

        // 4. Judge early what the server's own rules refuse.
        self.refuse_after_failed_flush()?;
        request::refuse_unspeakable(&request)?;
        let opened = self.open_target(push.target, &request, &push.environment)?;
        let channel = Channel::new(push.client, request.capabilities.side_band_64k)
            .traced(self.packet_trace());
        let session::Opened { repository, hold } = opened;
        let session = Session::open(
            self,
            repository,
            request,
            channel,
            session::Circumstances {
                id: push.id,
                environment: push.environment,
                nonce_terms: push.nonce_terms,
                ref_rules: push.ref_rules,
                surplus: push.surplus,
                completes_thin_packs: push.completes_thin_packs,
                cancel: push.cancel,
            },
        );
        let mut session = match session {
            Ok(session) => session,
            Err(error) => {
                // A repository that this push made must not outlive it.
                let removal = hold.map(RepositoryHold::remove_if_untouched).transpose();
                outcome.cleanup_fault = removal.err().map(|error| error.to_string());
                return Err(error);
            }
        };
        session.hold = hold;
        session.channel.begin();
        outcome.answered = true;
        let result = catch_unwind(AssertUnwindSafe(|| session.run(&mut input, clock)));
        let result = result.unwrap_or_else(|_| {
            let error = ReceiveError::internal(Phase::Commit, "the push", "a bug: see the log");
            session.channel.fatal(&error.client_text(push.id));
            Err(error)
        });
        session.tell(outcome);
        result
    }
}

impl Session<'_> {
    fn run(
        &mut self,
        input: &mut PackInput<'_>,
        clock: &mut StepClock,
    ) -> Result<Verdict, ReceiveError> {
        self.compare_push_options();
        let is_refused = self.judge_access();
        let contest = self.contest();
        let lost = self.glance_before_pack(contest.as_ref());
        clock.lap("queue");
        if self.request.expects_pack {
            // 5. Quarantine and snapshot; 6. and 7. both passes over the pack.
            let is_of_use = !is_refused && (lost.is_none() || self.settings.fsck.is_on());
            let unpacked = if is_of_use { self.unpack(input) } else { self.skim(input) };
            clock.lap("unpack");
            if let Err(error) = unpacked {
                self.reject_all(&RejectReason::UnpackerError);
                self.report(Some(&error));
                self.channel.finish();
                return Err(error);
            }
        }

        let committed =
            if is_refused { Ok(()) } else { self.judge_and_commit(contest.as_ref(), lost, clock) };
        if let Err(error) = &committed {
            let text = error.client_text(self.id);
            self.channel.error(&text);
            self.reject_pending(&RejectReason::Internal(text));
        }

        // 10. Report, then the hooks that come after. A client that has gone changes nothing.
        self.release_pack();
        self.report(None);
        clock.lap("report");
        let hooked = self.run_post_hooks();
        clock.lap("post-hooks");
        let maintained = self.maintain();
        self.channel.finish();
        clock.lap("maintenance");
        committed?;
        hooked?;
        maintained?;
        match self.server_fault.take() {
            Some(error) => Err(error),
            None => Ok(Verdict::of(&self.request.commands)),
        }
    }

    fn judge_and_commit(
        &mut self,
        contest: Option<&Contest>,
        lost: Option<LostRace>,
        clock: &mut StepClock,
    ) -> Result<(), ReceiveError> {
        if let Some(lost) = lost {
            self.refuse_lost(lost);
            return Ok(());
        }
        let _turn = self.wait_for_turn(contest);
        let is_lost = self.refuse_if_lost(contest);
        clock.lap("turn");
        if is_lost {
            return Ok(());
        }
        // 8. Connectivity, hidden refs, the certificate, `pre-receive`.
        self.judge_border()?;
        self.prove_connectivity()?;
        clock.lap("connectivity");
        self.reject_hidden();
        self.hand_over_commands();
        self.judge_certificate()?;
        let accepted = self.run_pre_receive()?;
        clock.lap("pre-receive");
        if !accepted || !self.any_pending() {
            return Ok(());
        }
        self.stop_if_asked()?;
        if self.refuse_if_lost(contest) {
            return Ok(());
        }

        // 9. Commit: objects first, then refs.
        self.migrate()?;
        clock.lap("migrate");
        let updated = self.update_refs();
        // Whatever became of the others.
        self.outlast_repacks();
        clock.lap("refs");
        updated
    }
}
