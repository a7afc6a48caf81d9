//! The charts of a report, as SVG that needs nothing from outside and no style sheet.
//!
//! Lines have colours that stand out on white and on black; everything else takes the colour of
//! the text around it.

use super::axes::{Frame, Scale, Tick, grid};
use crate::load::numbers::{float, seconds_text};
use crate::load::summary::{Moment, SideSummary};
use std::fmt::Write as _;

/// Latency over time: median, 99th percentile and the slowest push of each slot.
pub(super) fn latency_over_time(sides: &[SideSummary]) -> String {
    let moments = || sides.iter().flat_map(|side| &side.timeline).filter(|at| at.pushes > 0);
    let least = moments().map(|at| at.p50).fold(f64::INFINITY, f64::min);
    let most = moments().map(|at| at.max).fold(0.0, f64::max);
    let (x, (_, top, _, bottom)) = (time_scale(sides), FRAME);
    let y = Scale::logarithmic(if least.is_finite() { least } else { 0.001 }, most, bottom, top);
    let mut out = begin("Latency over time");
    grid(&mut out, &x.numbers(), &y.durations(), FRAME);
    let mut legend = Vec::new();
    for (side, colours) in sides.iter().zip(COLOURS) {
        let name = side_name(sides, side);
        let lines: [Line; 3] = [
            ("max", |at| at.max, colours[2], 1.0),
            ("p99", |at| at.p99, colours[1], 2.0),
            ("p50", |at| at.p50, colours[0], 2.5),
        ];
        for (what, value, colour, width) in lines {
            let points = side.timeline.iter().filter(|at| at.pushes > 0);
            let points = points.map(|at| (x.place(middle(at)), y.place(value(at)), at.at));
            polyline(&mut out, points, gap(side), colour, width);
            legend.push((format!("{name}{what}"), colour));
        }
    }
    failures(&mut out, sides, &x);
    end(out, &legend, "seconds after the start of the run")
}

/// Pushes a second over time.
pub(super) fn rate_over_time(sides: &[SideSummary]) -> String {
    let per_second = |at: &Moment| if at.width > 0.0 { float(at.pushes) / at.width } else { 0.0 };
    let most = sides.iter().flat_map(whole).map(per_second).fold(0.0, f64::max);
    let (x, (_, top, _, bottom)) = (time_scale(sides), FRAME);
    let y = Scale::linear(0.0, most * 1.05, bottom, top);
    let mut out = begin("Pushes per second over time");
    grid(&mut out, &x.numbers(), &y.numbers(), FRAME);
    let mut legend = Vec::new();
    for (side, colours) in sides.iter().zip(COLOURS) {
        // Failures of the warm-up are marked; its pushes are not counted.
        let points = whole(side).iter().skip_while(|at| at.pushes == 0);
        let points = points.map(|at| (x.place(middle(at)), y.place(per_second(at)), at.at));
        polyline(&mut out, points, gap(side), colours[0], 2.5);
        legend.push((format!("{}pushes/s", side_name(sides, side)), colours[0]));
    }
    failures(&mut out, sides, &x);
    end(out, &legend, "seconds after the start of the run")
}

/// Latency by percentile: each step to the right is ten times rarer.
pub(super) fn percentiles(sides: &[SideSummary]) -> String {
    let nines = |quantile: f64| -(1.0 - quantile).max(1e-9).log10();
    let count = sides.iter().map(|side| side.latency.count).max().unwrap_or(0);
    // Beyond this there is less than one push.
    let rarest = float(count.max(10)).log10();
    let (left, top, right, bottom) = FRAME;
    let x = Scale::linear(0.0, rarest, left, right);
    let least = sides.iter().map(|side| side.histogram.min()).min().unwrap_or(1);
    let most = sides.iter().map(|side| side.latency.max).fold(0.0, f64::max);
    let y = Scale::logarithmic(float(least) / 1e9, most, bottom, top);
    let labels = [(0.0, "0 %"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %")];
    let rare = [(0.9999, "99.99 %"), (0.99999, "99.999 %"), (0.999_999, "99.9999 %")];
    let ticks: Vec<Tick> = labels
        .into_iter()
        .chain(rare)
        .filter(|(quantile, _)| nines(*quantile) <= rarest * 1.001)
        .map(|(quantile, label)| Tick { at: x.place(nines(quantile)), label: label.to_owned() })
        .collect();
    let mut out = begin("Latency by percentile");
    grid(&mut out, &ticks, &y.durations(), FRAME);
    let mut legend = Vec::new();
    for (side, colours) in sides.iter().zip(COLOURS) {
        let values = side.histogram.iter_quantiles(10).map(|value| {
            let place = x.place(nines(value.quantile_iterated_to()).min(rarest));
            (place, y.place(float(value.value_iterated_to()) / 1e9), 0.0)
        });
        polyline(&mut out, values, f64::INFINITY, colours[0], 2.5);
        legend.push((format!("{}push", side_name(sides, side)), colours[0]));
    }
    end(out, &legend, "pushes that took no longer")
}

/// A line of a chart: its name, its values, its colour, its width.
type Line = (&'static str, fn(&Moment) -> f64, &'static str, f64);

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 320.0;
const FRAME: Frame = (72.0, 40.0, WIDTH - 20.0, HEIGHT - 52.0);
/// For each side: median or only line, 99th percentile, slowest.
const COLOURS: [[&str; 3]; 2] =
    [["#2f7fe0", "#7b61d9", "#9aa5b1"], ["#e0701f", "#d4499b", "#b59f7c"]];
const FAILED: &str = "#e03131";

fn begin(title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{title}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" \
         fill=\"currentColor\">\n<title>{title}</title>\n"
    )
}

fn end(mut out: String, legend: &[(String, &str)], below: &str) -> String {
    let (left, top, right, bottom) = FRAME;
    let mut at = left;
    // Writing to a string does not fail.
    for (name, colour) in legend {
        let _ = writeln!(
            out,
            "<rect x=\"{at:.0}\" y=\"{:.0}\" width=\"18\" height=\"4\" rx=\"2\" fill=\"{colour}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
            top - 22.0,
            at + 24.0,
            top - 16.0
        );
        at += 48.0 + 7.5 * float(name.chars().count() as u64);
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\" opacity=\"0.75\">{below}</text>\n</svg>",
        f64::midpoint(left, right),
        bottom + 40.0
    );
    out
}

/// A line through points, broken where two of them are further apart in time than `gap`.
fn polyline(
    out: &mut String,
    points: impl Iterator<Item = (f64, f64, f64)>,
    gap: f64,
    colour: &str,
    width: f64,
) {
    let mut path = String::new();
    let mut last = f64::NEG_INFINITY;
    let mut alone = Vec::new();
    let mut length = 0;
    let mut previous = (0.0, 0.0);
    for (x, y, at) in points {
        let joined = length > 0 && at - last <= gap;
        if !joined && length == 1 {
            alone.push(previous);
        }
        length = if joined { length + 1 } else { 1 };
        let _ = write!(path, "{}{x:.1} {y:.1}", if joined { "L" } else { "M" });
        (last, previous) = (at, (x, y));
    }
    if length == 1 {
        alone.push(previous);
    }
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
         stroke-linejoin=\"round\"/>"
    );
    for (x, y) in alone {
        let _ =
            writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{width}\" fill=\"{colour}\"/>");
    }
}

/// A mark at the foot of each slot in which pushes failed.
fn failures(out: &mut String, sides: &[SideSummary], x: &Scale) {
    for moment in sides.iter().flat_map(|side| &side.timeline).filter(|at| at.failed > 0) {
        let (place, foot) = (x.place(middle(moment)), FRAME.3);
        let _ = writeln!(
            out,
            "<path d=\"M{:.1} {foot}l4 -8l4 8z\" fill=\"{FAILED}\"><title>{} failed at {}</title>\
             </path>",
            place - 4.0,
            moment.failed,
            seconds_text(moment.at)
        );
    }
}

/// The slots that the run filled: in the last one it ended, so that a rate would be too low.
fn whole(side: &SideSummary) -> &[Moment] {
    match side.timeline.split_last() {
        Some((_, whole)) if !whole.is_empty() => whole,
        _ => &side.timeline,
    }
}

fn time_scale(sides: &[SideSummary]) -> Scale {
    let moments = || sides.iter().flat_map(|side| &side.timeline);
    let least = moments().map(|at| at.at).fold(f64::INFINITY, f64::min);
    let most = moments().map(|at| at.at + at.width).fold(0.0, f64::max);
    let (left, _, right, _) = FRAME;
    Scale::linear(if least.is_finite() { least.floor() } else { 0.0 }, most, left, right)
}

/// A line of latencies does not lead over slots in which nothing was answered: the server stood
/// still, or in a comparison it was the other's turn.
fn gap(side: &SideSummary) -> f64 {
    side.timeline.first().map_or(f64::INFINITY, |at| at.width * 1.5)
}

fn middle(moment: &Moment) -> f64 {
    moment.at + moment.width / 2.0
}

fn side_name(sides: &[SideSummary], side: &SideSummary) -> &'static str {
    match sides {
        [first, _] if std::ptr::eq(first, side) => "A ",
        [_, _] => "B ",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: &[(f64, f64, f64)], gap: f64) -> String {
        let mut out = String::new();
        polyline(&mut out, points.iter().copied(), gap, "red", 2.0);
        out
    }

    #[test]
    fn a_line_begins_somewhere_and_is_broken_at_gaps() {
        let points = [(0.0, 1.0, 0.0), (1.0, 1.0, 1.0), (5.0, 1.0, 5.0)];
        assert!(drawn(&points, f64::INFINITY).contains("d=\"M0.0 1.0L1.0 1.0L5.0 1.0\""));
        let broken = drawn(&points, 1.5);
        assert!(broken.contains("d=\"M0.0 1.0L1.0 1.0M5.0 1.0\""), "{broken}");
        assert!(broken.contains("circle cx=\"5.0\""), "a point alone is drawn as one: {broken}");
    }
}
