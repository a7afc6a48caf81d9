//! What a run came to: the numbers of every report, whatever its form.

use super::ledger::{Ledger, Missing};
use super::numbers::{mean, rate, ratio, seconds};
use super::recorder::Recorder;
use super::run::Ended;
use super::series::Slot;
use super::settings::{End, Layout, Settings};
use super::side::{Repository, Run};
use super::target::Target;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Which program made it.
    pub generator: &'static str,
    /// When the run began, in seconds after 1970.
    pub begun: u64,
    /// How it was run, in words.
    pub how: Vec<String>,
    /// One server, or two that were compared.
    pub sides: Vec<SideSummary>,
    /// The second server's numbers over the first's.
    pub comparison: Option<Comparison>,
    /// How often a pusher had to wait for the generator, over the whole run.
    pub generator_waits: u64,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
    /// Why it ended before its time.
    pub given_up: Option<String>,
}

/// One server's numbers.
#[derive(Clone, Debug, Serialize)]
pub struct SideSummary {
    /// Its URLs.
    pub url: String,
    /// Length of the measured window.
    pub seconds: f64,
    /// Pushes that were acknowledged within it.
    pub pushes: u64,
    /// The same in a second.
    pub pushes_per_second: f64,
    /// Megabytes (10⁶) of request bodies in a second.
    pub megabytes_per_second: f64,
    /// Refs that they changed.
    pub ref_updates: u64,
    /// From the first byte of the GET to the last of the POST's answer; in open loop, from when
    /// the push was due.
    pub latency: Latency,
    /// The GET alone.
    pub get: Option<Latency>,
    /// The POST alone.
    pub post: Latency,
    /// Fetches and clones.
    pub fetch: Option<Fetches>,
    /// The time by step that the server told with `Server-Timing`.
    pub server_steps: Vec<Step>,
    /// Attempts that lost a race on a shared branch, and were sent again.
    pub lost_races: u64,
    /// Pushes that were due and that no pusher came to.
    pub unserved: u64,
    /// Connections opened while it ran, and the mean time of opening one.
    pub connections: u64,
    /// Mean time of opening one.
    pub connect_seconds: f64,
    /// Pushes and fetches that failed, warm-up included.
    pub failures: u64,
    /// What went wrong, the most common first.
    pub errors: Vec<ErrorCount>,
    /// What was looked for after the run.
    pub verification: Verification,
    /// The rounds of a comparison.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<Round>,
    /// What happened when.
    pub timeline: Vec<Moment>,
    /// Every latency, for the reports that draw it.
    #[serde(skip)]
    pub histogram: Histogram<u64>,
}

/// Percentiles, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// How many values.
    pub count: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// Half are below.
    pub p50: f64,
    /// Nine in ten are below.
    pub p90: f64,
    /// 99 in a hundred are below.
    pub p99: f64,
    /// 999 in a thousand are below.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

/// Fetches and clones.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fetches {
    /// How many ended in the window.
    pub count: u64,
    /// Bytes that they brought.
    pub bytes: u64,
    /// From the first request to the last byte.
    pub latency: Latency,
}

/// A step of the server's.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Its times.
    pub latency: Latency,
}

/// An error.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorCount {
    /// What was said.
    pub text: String,
    /// How often.
    pub count: u64,
}

/// A slot of the timeline.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Moment {
    /// When it begins, in seconds after the begin of the run.
    pub at: f64,
    /// How long it is.
    pub width: f64,
    /// Pushes that ended in it.
    pub pushes: u64,
    /// Pushes that failed in it.
    pub failed: u64,
    /// Half of the pushes took less.
    pub p50: f64,
    /// 99 in a hundred took less.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

/// One round of a comparison.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Round {
    /// Pushes a second.
    pub pushes_per_second: f64,
    /// The median latency.
    pub p50_seconds: f64,
    /// The 99th percentile.
    pub p99_seconds: f64,
}

/// Ratios of two servers: the second's number over the first's.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Comparison {
    /// Pushes a second, over the whole run.
    pub throughput: f64,
    /// The smallest and the largest ratio of neighbouring rounds.
    pub throughput_range: (f64, f64),
    /// The median latency.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// What was looked for, and not found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verification {
    /// Whether it was asked for; broken promises are noted in any case.
    pub asked: bool,
    /// Acknowledged commits that were looked for.
    pub commits: u64,
    /// Repositories whose refs were looked at.
    pub repositories: u64,
    /// Repositories that git has fetched.
    pub fetched: u64,
    /// Repositories that git has looked at on disk.
    pub on_disk: u64,
    /// What was acknowledged and is not there.
    pub lost: Vec<String>,
    /// What was acknowledged before it was there.
    pub early: Vec<String>,
    /// What could not be looked at, and why.
    pub skipped: Vec<String>,
}

/// What is known of a side besides its recorder and ledger.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) time: Duration,
    pub(super) unserved: u64,
    pub(super) rounds: Vec<Round>,
}

impl Summary {
    pub(super) fn new(
        settings: &Settings,
        run: &Run,
        sides: Vec<(Ended, Verification)>,
        generator_waits: u64,
        interrupted: bool,
        given_up: Option<String>,
    ) -> Self {
        let mut urls: Vec<String> =
            vec![settings.targets.iter().map(Target::url).collect::<Vec<_>>().join(", ")];
        urls.extend(settings.compare.as_ref().map(|target| target.url().to_owned()));
        let sides: Vec<SideSummary> = sides
            .into_iter()
            .zip(urls)
            .map(|((ended, verification), url)| SideSummary::new(url, ended, verification))
            .collect();
        let comparison = match &sides[..] {
            [first, second] => Some(Comparison::of(first, second)),
            _ => None,
        };
        Self {
            generator: concat!("packhouse ", env!("CARGO_PKG_VERSION")),
            begun: run.seconds,
            how: how(settings),
            sides,
            comparison,
            generator_waits,
            interrupted,
            given_up,
        }
    }

    /// Whether something was lost, or failed.
    pub fn has_failed(&self) -> bool {
        self.given_up.is_some()
            || self.sides.iter().any(|side| {
                let verification = &side.verification;
                side.failures > 0 || !verification.lost.is_empty() || !verification.early.is_empty()
            })
    }
}

impl SideSummary {
    fn new(url: String, ended: Ended, verification: Verification) -> Self {
        let Ended { recorder, measured, .. } = ended;
        let totals = recorder.totals;
        let takes_turns = !measured.rounds.is_empty();
        let mut errors: Vec<ErrorCount> = recorder
            .errors
            .iter()
            .map(|(text, count)| ErrorCount { text: text.clone(), count: *count })
            .collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.count));
        let steps = recorder
            .steps
            .iter()
            .map(|(name, step)| Step { name: name.clone(), latency: Latency::of(step) });
        let fetch = (!recorder.fetch.is_empty()).then(|| Fetches {
            count: totals.fetches,
            bytes: totals.fetched_bytes,
            latency: Latency::of(&recorder.fetch),
        });
        Self {
            url,
            seconds: measured.time.as_secs_f64(),
            pushes: totals.pushes,
            pushes_per_second: rate(totals.pushes, measured.time),
            megabytes_per_second: rate(totals.bytes, measured.time) / 1e6,
            ref_updates: totals.commands,
            latency: Latency::of(&recorder.latency),
            get: (!recorder.get.is_empty()).then(|| Latency::of(&recorder.get)),
            post: Latency::of(&recorder.post),
            fetch,
            server_steps: steps.collect(),
            lost_races: totals.lost_races,
            unserved: measured.unserved,
            connections: totals.connections,
            connect_seconds: mean(totals.connecting, totals.connections),
            failures: totals.failures,
            errors,
            verification,
            rounds: measured.rounds,
            timeline: timeline(&recorder, takes_turns),
            histogram: recorder.latency,
        }
    }
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let quantile = |quantile| seconds(histogram.value_at_quantile(quantile));
        Self {
            count: histogram.len(),
            mean: histogram.mean() / 1e9,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: seconds(histogram.max()),
        }
    }
}

impl Comparison {
    fn of(first: &SideSummary, second: &SideSummary) -> Self {
        let rounds = first.rounds.iter().zip(&second.rounds);
        let ratios = rounds.map(|(a, b)| ratio(b.pushes_per_second, a.pushes_per_second));
        let range = ratios
            .filter(|ratio| ratio.is_finite())
            .fold((f64::NAN, f64::NAN), |range, ratio| (range.0.min(ratio), range.1.max(ratio)));
        Self {
            throughput: ratio(second.pushes_per_second, first.pushes_per_second),
            throughput_range: range,
            p50: ratio(second.latency.p50, first.latency.p50),
            p99: ratio(second.latency.p99, first.latency.p99),
        }
    }
}

impl Verification {
    /// What the run itself has seen.
    pub(super) fn of_run(ledger: &Ledger, repositories: &[Repository]) -> Self {
        let mut verification = Self::default();
        for broken in ledger.broken() {
            let url = repositories.get(broken.repository).map_or("", |place| place.url.as_str());
            verification.early.push(format!(
                "{url}: {}: acknowledged {}, and the next request was shown {}",
                broken.name,
                id_text(broken.acknowledged),
                id_text(broken.shown),
            ));
        }
        verification
    }

    /// Notes what a look at the refs of a repository did not find.
    pub(super) fn miss(&mut self, missing: Vec<Missing>, repositories: &[Repository]) {
        let url = |number: usize| repositories.get(number).map_or("", |place| place.url.as_str());
        self.lost.extend(missing.into_iter().map(|missing| match missing {
            Missing::Ref(broken) => format!(
                "{}: {}: acknowledged {}, shown {}",
                url(broken.repository),
                broken.name,
                id_text(broken.acknowledged),
                id_text(broken.shown),
            ),
            Missing::Commit { repository, commit } => {
                format!("{}: {commit} is behind no ref", url(repository))
            }
        }));
    }
}

/// The slots of a run from the first in which something happened; of a comparison, whose sides are
/// still while the other has its turn, those alone in which something did.
fn timeline(recorder: &Recorder, takes_turns: bool) -> Vec<Moment> {
    let width = recorder.series.width().as_secs_f64();
    let slots = recorder.series.slots();
    let happened = |slot: &Slot| !slot.latency.is_empty() || slot.failed > 0;
    slots
        .skip_while(|(_, slot)| !happened(slot))
        .filter(|(_, slot)| !takes_turns || happened(slot))
        .map(|(at, slot)| Moment {
            at: at.as_secs_f64(),
            width,
            pushes: slot.latency.len(),
            failed: slot.failed,
            p50: seconds(slot.latency.value_at_quantile(0.5)),
            p99: seconds(slot.latency.value_at_quantile(0.99)),
            max: seconds(slot.latency.max()),
        })
        .collect()
}

fn how(settings: &Settings) -> Vec<String> {
    let pace = &settings.pace;
    let mut how = vec![match settings.pushers {
        1 => "one pusher, on one connection".into(),
        pushers => format!("{pushers} pushers, each on a connection of its own"),
    }];
    how.push(match settings.layout {
        Layout::OwnBranch => "each to a branch of its own".into(),
        Layout::OneBranch => "all of a repository to one branch".into(),
    });
    how.push(match pace.rate {
        Some(rate) => format!("open loop: {rate} pushes due each second"),
        None => "closed loop: each as soon as its last push is answered".into(),
    });
    let end = match pace.end {
        End::After(duration) => format!("{} s", duration.as_secs_f64()),
        End::Pushes(count) => format!("{count} pushes"),
    };
    how.push(format!("{end} after {} s of warm-up", pace.warmup.as_secs_f64()));
    how.push(if settings.discovery {
        "a push is a GET of the refs and a POST".into()
    } else {
        "a push is a POST alone (--no-discovery)".into()
    });
    if settings.reconnect {
        how.push("each push opens its own connection, and its time counts".into());
    }
    how.push(settings.mix.to_string());
    how
}

fn id_text(id: Option<crate::model::ObjectId>) -> String {
    id.map_or_else(|| "nothing".to_owned(), |id| id.to_string())
}
