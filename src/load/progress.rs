//! The line on a terminal that tells how it goes. Silent where standard error is no terminal.

use super::numbers::{bytes_text, duration_text, rate};
use super::settings::{End, Settings};
use super::side::Side;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::time::{Duration, Instant};

pub(super) struct Progress {
    bar: ProgressBar,
    end: End,
    warmup: Duration,
    begun: Cell<Option<Instant>>,
    looked: Cell<Instant>,
    comparing: bool,
}

impl Progress {
    /// A line that shows nothing yet.
    pub(super) fn new(settings: &Settings) -> Self {
        let target = if settings.progress {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{spinner} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let comparing = settings.compare.is_some();
        let looked = Cell::new(Instant::now());
        let (end, warmup) = (settings.pace.end, settings.pace.warmup);
        Self { bar, end, warmup, begun: Cell::new(None), looked, comparing }
    }

    /// Tells what is done before or after the pushes.
    pub(super) fn stage(&self, words: &'static str) {
        self.bar.set_message(words);
        self.bar.tick();
    }

    /// Tells how many pushes there were since the last time, if that is long enough ago.
    pub(super) fn tick(&self, sides: &[&Side]) {
        let now = Instant::now();
        let begun = self.begun.get().unwrap_or(now);
        self.begun.set(Some(begun));
        let past = now.saturating_duration_since(self.looked.get());
        if past < EVERY || self.bar.is_hidden() {
            return;
        }
        self.looked.set(now);
        for side in sides {
            let recent = side.recent();
            let (pushed, failed) = side.tally();
            let quantile = |q| duration_text(recent.latency.value_at_quantile(q));
            let elapsed = now.saturating_duration_since(begun).as_secs_f64();
            let far = match self.end {
                End::Pushes(count) => format!("{pushed} of {count}"),
                End::After(whole) if !self.comparing => {
                    format!("{elapsed:.0} of {:.0} s", (whole + self.warmup).as_secs_f64())
                }
                End::After(_) => format!("{elapsed:.0} s"),
            };
            let failures = if failed > 0 { format!("   {failed} failed") } else { String::new() };
            self.bar.set_message(format!(
                "{far}   {:.0} pushes/s   {}/s   p50 {}   p99 {}{failures}",
                rate(recent.latency.len(), past),
                bytes_text(rate(recent.bytes, past)),
                quantile(0.5),
                quantile(0.99),
            ));
            self.bar.tick();
        }
    }

    /// Takes the line away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

const EVERY: Duration = Duration::from_millis(250);
