//! `packhouse receive-pack`: a drop-in for `git receive-pack` on standard input and output.

use crate::model::{CancelToken, Dialect, Limits, UnpackLimit};
use crate::receive::{
    Client, NonceTerms, Push, PushOutcome, Receiver, ReceiverSettings, Surplus, Target,
};
use crate::repo::{Disk, Environment, FlushPolicy, Repository};
use crate::report::{row, with_causes};
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Receives a push on standard input, as `git receive-pack` does.
///
/// Flags are taken as git's `parse-options` takes them: repeated, negated with `--no-`, the last
/// one counts, and shortened as long as one flag alone begins so.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct ReceivePack {
    /// Say nothing but errors.
    #[arg(short, long, overrides_with = "no_quiet")]
    quiet: bool,
    /// Take one request without advertising the refs first, as HTTP servers ask for.
    #[arg(long, overrides_with = "no_stateless_rpc")]
    stateless_rpc: bool,
    /// Advertise the refs and end.
    #[arg(long, visible_alias = "advertise-refs", overrides_with = "no_http_backend_info_refs")]
    http_backend_info_refs: bool,
    /// Trust the pusher to send complete history; the check is made all the same.
    #[arg(long, hide = true, overrides_with = "no_skip_connectivity_check")]
    skip_connectivity_check: bool,
    /// Refuse packs whose deltas need objects that are not in them.
    #[arg(long, hide = true, overrides_with = "no_reject_thin_pack_for_testing")]
    reject_thin_pack_for_testing: bool,
    /// Answer in the words and with the steps of this version of git, where versions differ.
    #[arg(
        long,
        env = "PACKHOUSE_DIALECT",
        hide_env_values = true,
        default_value_t,
        value_name = "2.47|2.55"
    )]
    dialect: Dialect,
    #[command(flatten)]
    negated: Negated,
    /// The repository.
    // Not as a path: clap takes no empty one, and git looks for that, too.
    directory: OsString,
}

/// The flags that take the others back.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Negated {
    #[arg(long, hide = true, overrides_with = "quiet")]
    no_quiet: bool,
    #[arg(long, hide = true, overrides_with = "stateless_rpc")]
    no_stateless_rpc: bool,
    #[arg(
        long,
        hide = true,
        overrides_with = "http_backend_info_refs",
        alias = "no-advertise-refs"
    )]
    no_http_backend_info_refs: bool,
    #[arg(long, hide = true, overrides_with = "skip_connectivity_check")]
    no_skip_connectivity_check: bool,
    #[arg(long, hide = true, overrides_with = "reject_thin_pack_for_testing")]
    no_reject_thin_pack_for_testing: bool,
}

/// The flags that may be shortened; each may have `no-` in front.
const LONG_FLAGS: [&str; 6] = [
    "quiet",
    "skip-connectivity-check",
    "stateless-rpc",
    "http-backend-info-refs",
    "advertise-refs",
    "reject-thin-pack-for-testing",
];

/// The flag in full that one flag alone can be short for; of two, the parser takes the first.
pub(super) fn unabbreviated(argument: &OsStr) -> Option<OsString> {
    let short = argument.to_str()?.strip_prefix("--").filter(|short| !short.is_empty())?;
    let negated = LONG_FLAGS.iter().map(|flag| format!("no-{flag}"));
    let mut meant = LONG_FLAGS
        .iter()
        .map(|flag| (*flag).to_owned())
        .chain(negated)
        .filter(|flag| flag.starts_with(short));
    let flag = meant.next()?;
    meant.next().is_none().then(|| format!("--{flag}").into())
}

/// The exit status of anything fatal.
const FATAL: u8 = 128;

impl ReceivePack {
    /// Runs the command and gives its exit status: 0 once a report went out, whatever it says; 128
    /// if it could not be written, where git is ended by a SIGPIPE or does not notice.
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
        let packet_trace = super::packet_trace::packet_trace(&disk, &environment);
        let repository = Repository::enter(&disk, Path::new(&self.directory), &environment)
            .map_err(|error| error.to_string())?;
        let receiver = Receiver::new(ReceiverSettings {
            disk,
            limits: Limits::default(),
            unpack_limit: UnpackLimit::DEFAULT,
            dialect: self.dialect,
            agent: super::agent(),
            state_dir: None,
            hooks_apart: false,
            packet_trace,
        })
        .map_err(|error| error.to_string())?;
        let id = super::draw_push_id().map_err(|error| error.to_string())?;
        let target = Target::Existing(repository);
        let nonce_terms = NonceTerms::now(&self.directory, self.stateless_rpc);
        if self.http_backend_info_refs || !self.stateless_rpc {
            let advertised =
                receiver.advertise(&target, &environment, &nonce_terms, &mut |bytes| {
                    let mut output = io::stdout().lock();
                    output.write_all(bytes)?;
                    output.flush()
                });
            advertised.map_err(|error| error.client_text(id))?;
        }
        if self.http_backend_info_refs {
            return Ok(0);
        }
        let mut client = Stdio { failure: None };
        let mut stdin = io::stdin().lock();
        let outcome = receiver.receive(Push {
            id,
            target,
            environment,
            nonce_terms,
            input: &mut stdin,
            client: &mut client,
            ref_rules: None,
            surplus: Surplus::Leave,
            completes_thin_packs: !self.reject_thin_pack_for_testing,
            cancel: CancelToken::new(),
        });
        let status = Self::conclude(&outcome)?;
        match client.failure {
            Some(error) => Err(format!("cannot write the answer: {error}")),
            None => Ok(status),
        }
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
struct Stdio {
    /// Why the answer could not be written. What was done stands.
    failure: Option<io::Error>,
}

impl Client for Stdio {
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut output = io::stdout().lock();
        let sent = output.write_all(bytes).and_then(|()| output.flush());
        sent.map_err(|error| {
            let kind = error.kind();
            self.failure.get_or_insert(error);
            kind.into()
        })
    }

    fn diagnose(&mut self, text: &[u8]) {
        say(text);
    }
}

/// Writes to standard error; nobody can be told if that fails.
fn say(text: &[u8]) {
    drop(io::stderr().lock().write_all(text));
}
