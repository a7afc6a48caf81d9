//! A run, from settings to an outcome: make the packs, start the pushers, open the gate, watch.

use super::compare;
use super::files::{self, FilesError};
use super::git::Git;
use super::interrupt::Interrupt;
use super::ledger::Ledger;
use super::pace::{Arrivals, State};
use super::progress::Progress;
use super::recorder::{Recorder, Window};
use super::settings::{End, Settings};
use super::side::{Repository, Run, Side, SideError};
use super::summary::{Measured, Summary, Verification};
use super::supply::{Amount, Supply};
use super::verify::{self, Verified};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A server.
    #[error(transparent)]
    Side(#[from] SideError),
    /// The repositories could not be made.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// What the check after the run looks with is not there.
    #[error("--verify: there is no git on this machine to look with")]
    NoGit,
    /// The system gives no random numbers or no signals.
    #[error("cannot begin")]
    System(#[from] std::io::Error),
    /// It was ended before anything was pushed.
    #[error("interrupted before the first push")]
    Interrupted,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Outcome {
    /// What happened.
    pub summary: Summary,
    /// Whether a verification that was asked for could look at everything, so that it would have
    /// found what is lost. True if none was asked for.
    pub verified: bool,
}

/// One side at the end of its run.
pub(super) struct Ended {
    pub(super) repositories: Vec<Repository>,
    pub(super) recorder: Recorder,
    pub(super) ledger: Ledger,
    pub(super) measured: Measured,
}

/// Pushes as the settings say; ends at the first Ctrl-C with what there is.
pub fn run(settings: &Settings) -> Result<Outcome, RunError> {
    if settings.verify && !Git::new(settings).is_there() {
        return Err(RunError::NoGit);
    }
    let interrupt = Interrupt::listen()?;
    let run = begin()?;
    let progress = Progress::new(settings);
    let repositories = Side::repositories(&settings.targets, settings)?;
    let other = match &settings.compare {
        Some(target) => Some(Side::repositories(std::slice::from_ref(target), settings)?),
        None => None,
    };
    if let Some(directory) = &settings.prepare {
        files::prepare(directory, repositories.iter().chain(other.iter().flatten()))?;
    }
    let hash = Side::probe(&repositories)?;
    if let Some(other) = &other
        && Side::probe(other)? != hash
    {
        return Err(SideError::MixedHashes.into());
    }
    progress.stage("making packs");
    let supply = Supply::start(&settings.mix, hash, run.id, amount(settings));
    supply.fill(FILL_MAX, &|| interrupt.is_set());
    // The time of reports begins here: making packs is no part of the run.
    let run = Run { begun: Instant::now(), ..run };
    let (mut ended, reason) = match other {
        None => {
            let (ended, reason) =
                alone(settings, repositories, &supply, &run, &progress, &interrupt)?;
            (vec![ended], reason)
        }
        Some(other) => {
            let sides = [repositories, other];
            compare::run(settings, sides, &supply, &run, &progress, &interrupt)?
        }
    };
    let waits = supply.waits();
    drop(supply);
    let (mut verifications, mut verified) = (Vec::new(), true);
    for side in &ended {
        let (verification, complete) = look(settings, side, &progress, &interrupt);
        verifications.push(verification);
        verified &= complete;
    }
    progress.finish();
    let sides = ended.drain(..).zip(verifications).collect();
    let interrupted = interrupt.is_set();
    let summary = Summary::new(settings, &run, sides, waits, interrupted, reason);
    Ok(Outcome { summary, verified })
}

/// Looks for what was acknowledged, if that was asked for; whether all of it was looked at.
fn look(
    settings: &Settings,
    side: &Ended,
    progress: &Progress,
    interrupt: &Interrupt,
) -> (Verification, bool) {
    let Ended { repositories, ledger, .. } = side;
    if !settings.verify {
        return (Verification::of_run(ledger, repositories), true);
    }
    progress.stage("looking for what was acknowledged");
    let interrupted = || interrupt.is_set();
    let Verified { verification, complete } =
        verify::verify(settings, repositories, ledger, &interrupted);
    (verification, complete)
}

/// Runs one server alone.
fn alone(
    settings: &Settings,
    repositories: Vec<Repository>,
    supply: &Supply,
    run: &Run,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<(Ended, Option<String>), RunError> {
    let arrivals = settings.pace.rate.map(|rate| Arc::new(Arrivals::new(rate)));
    let mut side = Side::start(repositories, settings, supply, run, arrivals.clone())?;
    wait_for_begin(&[&side], settings, interrupt)?;
    let begin = Instant::now();
    let from = begin + settings.pace.warmup;
    let to = match settings.pace.end {
        End::After(duration) => Some(from + duration),
        End::Pushes(_) => None,
    };
    supply.reset_waits();
    side.health.restart();
    side.gate.set(State::Open(Window { from, to }));
    let dispatcher =
        arrivals.clone().map(|arrivals| std::thread::spawn(move || arrivals.dispatch(begin, to)));
    let reason = watch(&side, settings, to, progress, interrupt);
    let unserved = arrivals.map_or(0, |arrivals| arrivals.stop());
    side.gate.set(State::Over);
    if let Some(dispatcher) = dispatcher {
        drop(dispatcher.join());
    }
    side.drained(|| drain_patience(settings, interrupt));
    // Of a run that was cut short, what is answered now still counts: so does its time.
    let stopped = Instant::now();
    let repositories = side.repositories.clone();
    let (recorder, ledger) = side.end(run);
    let end = match to {
        Some(to) => to.min(stopped),
        None => recorder.last_end.unwrap_or(stopped),
    };
    let measured =
        Measured { time: end.saturating_duration_since(from), unserved, rounds: Vec::new() };
    Ok((Ended { repositories, recorder, ledger, measured }, reason))
}

/// Waits until the run is over; gives the reason if it ends before its time.
fn watch(
    side: &Side,
    settings: &Settings,
    to: Option<Instant>,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Option<String> {
    loop {
        std::thread::sleep(TICK);
        progress.tick(&[side]);
        if interrupt.is_set() || to.is_some_and(|to| Instant::now() >= to) {
            return None;
        }
        if side.gate.is_sold_out() && side.gate.busy() == 0 {
            return None;
        }
        if let Some(reason) = side.health.hopeless(settings.give_up) {
            return Some(reason);
        }
    }
}

/// Waits until all pushers are at the gate.
pub(super) fn wait_for_begin(
    sides: &[&Side],
    settings: &Settings,
    interrupt: &Interrupt,
) -> Result<(), RunError> {
    let deadline = Instant::now() + settings.timeout + settings.give_up;
    loop {
        let mut all = true;
        for side in sides {
            all &= side.has_begun()?;
        }
        if all {
            return Ok(());
        }
        if interrupt.is_set() {
            return Err(RunError::Interrupted);
        }
        if Instant::now() > deadline {
            return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How long pushes on their way are waited for: as long as they may take; after Ctrl-C, not long.
pub(super) fn drain_patience(settings: &Settings, interrupt: &Interrupt) -> Duration {
    let whole = settings.timeout * 2 + Duration::from_secs(1);
    if interrupt.is_set() { whole.min(Duration::from_secs(5)) } else { whole }
}

fn begin() -> Result<Run, RunError> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(std::io::Error::from)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Ok(Run { id: u64::from_ne_bytes(bytes), begun: Instant::now(), seconds })
}

fn amount(settings: &Settings) -> Amount {
    let sides = if settings.compare.is_some() { 2 } else { 1 };
    let bound = match settings.pace.end {
        // Pushes of the warm-up are not counted, and nobody knows how many there will be.
        End::Pushes(count) if settings.pace.warmup.is_zero() => {
            // One more for each pusher, which takes its step before it asks for a turn.
            Some(count.saturating_add(settings.pushers as u64).saturating_mul(sides))
        }
        _ => None,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Amount { steps: bound, bytes_max: settings.ahead_bytes.max(1), threads }
}

const TICK: Duration = Duration::from_millis(20);
const FILL_MAX: Duration = Duration::from_secs(10);
