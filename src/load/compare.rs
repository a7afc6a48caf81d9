//! Two servers in one run, which take turns in short rounds: A B A B …
//!
//! What disturbs the machine disturbs both alike, so that the ratios of neighbouring rounds say
//! more than two runs one after the other. The first round of each is the warm-up; no push of one
//! round is on its way in the next.

use super::interrupt::Interrupt;
use super::pace::State;
use super::progress::Progress;
use super::recorder::Window;
use super::run::{Ended, RunError, drain_patience, wait_for_begin};
use super::series::histogram;
use super::settings::{End, Settings};
use super::side::{Repository, Run, Side};
use super::summary::{Measured, Round};
use super::supply::Supply;
use std::time::{Duration, Instant};

/// Runs the two sides in turns; gives both, and the reason if it ended before its time.
pub(super) fn run(
    settings: &Settings,
    repositories: [Vec<Repository>; 2],
    supply: &Supply,
    run: &Run,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<(Vec<Ended>, Option<String>), RunError> {
    let mut sides = Vec::new();
    for (repositories, number) in repositories.into_iter().zip(0_u64..) {
        // Other names of branches for each side: both may be the same repository.
        let run = Run { id: run.id.wrapping_add(number << 32), ..*run };
        sides.push(Side::start(repositories, settings, supply, &run, None)?);
    }
    let both: Vec<&Side> = sides.iter().collect();
    wait_for_begin(&both, settings, interrupt)?;
    supply.reset_waits();
    let mut measured = [Measured::default(), Measured::default()];
    let mut reason = None;
    'rounds: for number in 0..=rounds(settings) {
        for (side, measured) in sides.iter().zip(&mut measured) {
            let warmup = number == 0;
            let length = if warmup { settings.pace.warmup } else { settings.pace.round };
            let (round, took) = one_round(side, settings, length, warmup, progress, interrupt);
            if !warmup {
                // Of a round that was cut short, as long as pushes of it were answered: these
                // are counted.
                measured.time += took;
                measured.rounds.push(round);
            }
            if interrupt.is_set() {
                break 'rounds;
            }
            reason = side.health.hopeless(settings.give_up);
            if reason.is_some() {
                break 'rounds;
            }
        }
    }
    let ended = sides.into_iter().zip(measured).map(|(mut side, measured)| {
        let repositories = side.repositories.clone();
        let (recorder, ledger) = side.end(run);
        Ended { repositories, recorder, ledger, measured }
    });
    Ok((ended.collect(), reason))
}

/// Opens the gate of one side for a while and waits until its last push is answered. Gives how
/// long the round was, too.
fn one_round(
    side: &Side,
    settings: &Settings,
    length: Duration,
    warmup: bool,
    progress: &Progress,
    interrupt: &Interrupt,
) -> (Round, Duration) {
    side.health.restart();
    let mut before = 0;
    side.each_recorder(|recorder| {
        before += recorder.totals.pushes;
        recorder.round.reset();
    });
    let now = Instant::now();
    let to = now + length;
    // A window without length: what is pushed in it is not measured.
    let from = if warmup { to } else { now };
    let window = Window { from, to: Some(to) };
    side.gate.set(State::Open(window));
    while Instant::now() < to
        && !interrupt.is_set()
        && side.health.hopeless(settings.give_up).is_none()
    {
        let left = to.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(Duration::from_millis(20)));
        progress.tick(&[side]);
    }
    side.gate.set(State::Shut);
    side.drained(|| drain_patience(settings, interrupt));
    let took = now.elapsed().min(length);
    let (mut after, mut latency) = (0, histogram::<u64>(3));
    side.each_recorder(|recorder| {
        after += recorder.totals.pushes;
        // A histogram that resizes itself takes any value of another.
        let _ = latency.add(&recorder.round);
    });
    let quantile =
        |quantile| Duration::from_nanos(latency.value_at_quantile(quantile)).as_secs_f64();
    let round = Round {
        pushes_per_second: super::numbers::rate(after - before, took),
        p50_seconds: quantile(0.5),
        p99_seconds: quantile(0.99),
    };
    (round, took)
}

/// Rounds of each side that are measured, one at least.
fn rounds(settings: &Settings) -> u32 {
    let whole = match settings.pace.end {
        End::After(duration) => duration,
        // The command line allows no number of pushes here.
        End::Pushes(_) => settings.pace.round,
    };
    let rounds = whole.as_secs_f64() / settings.pace.round.as_secs_f64().max(0.001);
    (1..=ROUNDS_MAX).find(|count| f64::from(*count) + 1e-9 >= rounds).unwrap_or(ROUNDS_MAX)
}

const ROUNDS_MAX: u32 = 100_000;
