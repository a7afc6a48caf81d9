//! `packhouse receive-pack`: a drop-in for `git receive-pack` on standard input and output.

use crate::model::{CancelToken, Limits, PushId, UnpackLimit};
use crate::receive::{Client, Push, PushOutcome, Receiver, ReceiverSettings, Surplus, Target};
use crate::repo::{Disk, Environment, FlushPolicy, Repository};
use crate::report::{row, with_causes};
use clap::Args;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Receives a push on standard input, as `git receive-pack` does.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct ReceivePack {
    /// Say nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    /// Take one request without advertising the refs first, as HTTP servers ask for.
    #[arg(long)]
    stateless_rpc: bool,
    /// Advertise the refs and end.
    #[arg(long, visible_alias = "advertise-refs")]
    http_backend_info_refs: bool,
    /// Trust the pusher to send complete history; the check is made all the same.
    #[arg(long, hide = true)]
    skip_connectivity_check: bool,
    /// Refuse packs whose deltas need objects that are not in them.
    #[arg(long, hide = true)]
    reject_thin_pack_for_testing: bool,
    /// The repository.
    directory: PathBuf,
}

/// The exit status of anything fatal.
const FATAL: u8 = 128;

impl ReceivePack {
    /// Runs the command and gives its exit status: 0 once a report went out, whatever it says.
    pub(super) fn run(self, environment: Environment) -> ExitCode {
        match self.serve(environment) {
            Ok(status) => ExitCode::from(status),
            Err(text) => {
                say(format!("fatal: {text}\n").as_bytes());
                ExitCode::from(FATAL)
            }
        }
    }

    fn serve(self, environment: Environment) -> Result<u8, String> {
        let disk = Disk::new(FlushPolicy::FULL);
        let repository = Repository::enter(&disk, &self.directory, &environment)
            .map_err(|error| error.to_string())?;
        let receiver = Receiver::new(ReceiverSettings {
            disk,
            limits: Limits::default(),
            unpack_limit: UnpackLimit::DEFAULT,
            agent: super::agent(),
            state_dir: None,
            hooks_apart: false,
        })
        .map_err(|error| error.to_string())?;
        let id = super::draw_push_id().map_err(|error| error.to_string())?;
        let target = Target::Existing(repository);
        if self.http_backend_info_refs || !self.stateless_rpc {
            let advertised = receiver.advertise(&target, &environment, &mut |bytes| {
                let mut output = io::stdout().lock();
                output.write_all(bytes)?;
                output.flush()
            });
            advertised.map_err(|error| error.client_text(id))?;
        }
        if self.http_backend_info_refs {
            return Ok(0);
        }
        let outcome = self.receive(&receiver, id, target, environment);
        Self::conclude(&outcome)
    }

    fn receive(
        &self,
        receiver: &Receiver,
        id: PushId,
        target: Target,
        environment: Environment,
    ) -> PushOutcome {
        receiver.receive(Push {
            id,
            target,
            environment,
            input: &mut io::stdin().lock(),
            client: &mut Stdio,
            surplus: Surplus::Leave,
            completes_thin_packs: !self.reject_thin_pack_for_testing,
            cancel: CancelToken::new(),
        })
    }

    fn conclude(outcome: &PushOutcome) -> Result<u8, String> {
        let Err(error) = &outcome.result else { return Ok(0) };
        let row = row(error.fault(), error.phase());
        if !row.shows_cause {
            say(format!("error: push {}: {}\n", outcome.id, with_causes(error)).as_bytes());
        }
        // Past the command list the answer has said it already.
        if outcome.answered { Ok(row.exit_status) } else { Err(error.client_text(outcome.id)) }
    }
}

/// The client at the other end of standard input and output.
struct Stdio;

impl Client for Stdio {
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut output = io::stdout().lock();
        output.write_all(bytes)?;
        output.flush()
    }

    fn diagnose(&mut self, text: &[u8]) {
        say(text);
    }
}

/// Writes to standard error; nobody can be told if that fails.
fn say(text: &[u8]) {
    drop(io::stderr().lock().write_all(text));
}
