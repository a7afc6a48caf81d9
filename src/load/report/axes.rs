//! The frame of a chart: scales, grid lines, labels.

use crate::load::numbers::seconds_text;
use std::fmt::Write as _;

/// From values to places on the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

/// A place on a scale with its label.
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

impl Scale {
    /// Equal differences take equal room. `from` and `to` are the places of the two ends.
    pub(super) fn linear(least: f64, most: f64, from: f64, to: f64) -> Self {
        let most = if most > least { most } else { least + 1.0 };
        Self { least, most, from, to, logarithmic: false }
    }

    /// Equal ratios take equal room; the ends are widened to whole steps of 1, 2, 5, 10.
    pub(super) fn logarithmic(least: f64, most: f64, from: f64, to: f64) -> Self {
        let least = least.max(1e-7);
        let (least, most) = (step_below(least), step_above(most.max(least * 1.01)));
        Self { least, most, from, to, logarithmic: true }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.least).ln() - self.least.ln()) / (self.most.ln() - self.least.ln())
        } else {
            (value - self.least) / (self.most - self.least)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Ticks of a logarithmic scale of seconds: at each power of ten, between them too if there
    /// are few.
    pub(super) fn durations(&self) -> Vec<Tick> {
        let decades = (self.most / self.least).log10();
        let factors: &[f64] = if decades > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let mut ticks = Vec::new();
        for power in -7..6 {
            for factor in factors {
                let value = factor * 10_f64.powi(power);
                if value >= self.least * 0.999 && value <= self.most * 1.001 {
                    ticks.push(Tick { at: self.place(value), label: short(value) });
                }
            }
        }
        ticks
    }

    /// Ticks of a linear scale, some five of them.
    pub(super) fn numbers(&self) -> Vec<Tick> {
        let step = step_above((self.most - self.least) / 6.0);
        let mut ticks = Vec::new();
        let mut value = (self.least / step).ceil() * step;
        while value <= self.most * 1.000_001 && ticks.len() < 20 {
            let label = if step >= 1.0 { format!("{value:.0}") } else { format!("{value:.2}") };
            ticks.push(Tick { at: self.place(value), label });
            value += step;
        }
        ticks
    }
}

/// The grid with its labels: `x` below, `y` at the left.
pub(super) fn grid(out: &mut String, x: &[Tick], y: &[Tick], (left, top, right, bottom): Frame) {
    // Writing to a string does not fail.
    for tick in y {
        let (at, label) = (tick.at, &tick.label);
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"currentColor\" \
             stroke-opacity=\"0.15\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            left - 8.0,
            at + 4.0
        );
    }
    for tick in x {
        let (at, label) = (tick.at, &tick.label);
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{top}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"currentColor\" \
             stroke-opacity=\"0.15\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 18.0
        );
    }
    let _ = writeln!(
        out,
        "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"currentColor\" \
         stroke-opacity=\"0.5\"/>"
    );
}

/// Left, top, right, bottom.
pub(super) type Frame = (f64, f64, f64, f64);

fn short(seconds: f64) -> String {
    let text = seconds_text(seconds);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    };
    format!("{number} {unit}")
}

fn step_above(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-9).log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= value * 0.999_999);
    factor.unwrap_or(10.0) * power
}

fn step_below(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factors = [5.0, 2.0, 1.0].into_iter();
    factors.map(|factor| factor * power).find(|step| *step <= value * 1.000_001).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ends_are_widened_to_whole_steps() {
        let scale = Scale::logarithmic(0.0013, 0.043, 0.0, 100.0);
        assert_eq!(labels(&scale.durations()), ["1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms"]);
        assert!((scale.place(0.001) - 0.0).abs() < 1e-6);
        assert!((scale.place(0.05) - 100.0).abs() < 1e-6);
    }

    #[test]
    fn values_beyond_the_ends_stay_on_the_page() {
        let scale = Scale::linear(0.0, 10.0, 50.0, 150.0);
        assert!((scale.place(-5.0) - 50.0).abs() < 1e-9);
        assert!((scale.place(50.0) - 150.0).abs() < 1e-9);
        assert_eq!(labels(&scale.numbers()), ["0", "2", "4", "6", "8", "10"]);
    }

    #[test]
    fn a_scale_of_one_value_has_room_all_the_same() {
        assert!(Scale::linear(0.0, 0.0, 0.0, 1.0).place(0.0).is_finite());
        assert!(Scale::logarithmic(0.0, 0.0, 0.0, 1.0).place(0.0).is_finite());
        assert!(!Scale::logarithmic(0.02, 0.02, 0.0, 1.0).durations().is_empty());
    }
}
