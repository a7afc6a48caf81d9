//! A run as text, for a terminal.

use crate::load::numbers::{bytes_text, float, seconds_text};
use crate::load::summary::{Comparison, Latency, SideSummary, Summary, Verification};
use std::fmt::Write as _;

/// The run in some twenty lines.
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    if let Some(reason) = &summary.given_up {
        line(&mut out, &format!("given up: {}", reason.replace('\n', " / ")));
    }
    if summary.interrupted {
        line(&mut out, "interrupted: this is what there was until then");
    }
    for line_of_how in &summary.how {
        line(&mut out, &format!("  {line_of_how}"));
    }
    for (side, letter) in summary.sides.iter().zip(["A", "B"]) {
        let name = if summary.sides.len() > 1 { letter } else { "" };
        side_text(&mut out, name, side);
    }
    if let Some(comparison) = &summary.comparison {
        compared(&mut out, comparison);
    }
    if summary.generator_waits > 0 {
        let waits = summary.generator_waits;
        line(
            &mut out,
            &format!(
                "\npushers waited {waits} times for packs: the server may be faster than shown \
                 (more --ahead, or fewer and smaller blobs)"
            ),
        );
    }
    out
}

fn side_text(out: &mut String, name: &str, side: &SideSummary) {
    let separator = if name.is_empty() { "" } else { "  " };
    line(out, &format!("\n{name}{separator}{}", side.url));
    let (rate, bytes) = (side.pushes_per_second, side.megabytes_per_second * 1e6);
    line(
        out,
        &format!(
            "  {rate:.1} pushes/s   {}/s   ({} pushes in {:.2} s)",
            bytes_text(bytes),
            side.pushes,
            side.seconds
        ),
    );
    let _ = writeln!(
        out,
        "  {:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "p50", "p90", "p99", "p99.9", "max", "mean"
    );
    row(out, "push", &side.latency);
    if let Some(get) = &side.get {
        row(out, "  GET", get);
        row(out, "  POST", &side.post);
    }
    if let Some(fetch) = &side.fetch {
        row(out, "fetch", &fetch.latency);
        line(out, &format!("  {} fetches, {}", fetch.count, bytes_text(float(fetch.bytes))));
    }
    if !side.server_steps.is_empty() {
        line(out, "  by step, as the server tells:");
        for step in &side.server_steps {
            row(out, &format!("  {}", step.name), &step.latency);
        }
    }
    if side.ref_updates > side.pushes {
        line(out, &format!("  {} refs changed", side.ref_updates));
    }
    if side.lost_races > 0 {
        line(out, &format!("  {} attempts lost a race and were sent again", side.lost_races));
    }
    if side.unserved > 0 {
        line(
            out,
            &format!(
                "  {} pushes were due and never began: the server, or so few pushers, cannot keep \
                 this rate (no latency is known of them: those above are the lower bound)",
                side.unserved
            ),
        );
    }
    if side.connections > 0 {
        let mean = seconds_text(side.connect_seconds);
        line(out, &format!("  {} connections opened, {mean} each", side.connections));
    }
    if side.failures > 0 {
        line(out, &format!("  {} failed:", side.failures));
    }
    for error in &side.errors {
        // On one line, so that no server can write lines of ours.
        line(out, &format!("  {:>8} × {}", error.count, error.text.replace('\n', " / ")));
    }
    verified(out, &side.verification);
}

fn verified(out: &mut String, verification: &Verification) {
    list(out, "LOST: acknowledged, and not there", &verification.lost);
    list(out, "ACKNOWLEDGED TOO EARLY, or lost", &verification.early);
    if !verification.asked {
        return;
    }
    for skipped in &verification.skipped {
        line(out, &format!("  not verified: {skipped}"));
    }
    let Verification { commits, repositories, fetched, on_disk, .. } = verification;
    let verdict = if verification.lost.is_empty() { "all there" } else { "NOT all there" };
    line(
        out,
        &format!(
            "  verified: {commits} acknowledged commits in {repositories} repositories, {verdict} \
             (refs shown: {repositories}, fetched with git: {fetched}, fsck on disk: {on_disk})"
        ),
    );
}

fn list(out: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    line(out, &format!("  {title}: {}", items.len()));
    for item in items.iter().take(LISTED_MAX) {
        line(out, &format!("    {item}"));
    }
    if items.len() > LISTED_MAX {
        line(
            out,
            &format!("    … and {} more (all of them with --json)", items.len() - LISTED_MAX),
        );
    }
}

fn compared(out: &mut String, comparison: &Comparison) {
    let Comparison { throughput, throughput_range: (least, most), p50, p99 } = comparison;
    line(
        out,
        &format!(
            "\nB / A\n  pushes/s {throughput:.2} ({least:.2} to {most:.2} in neighbouring rounds)   \
             p50 {p50:.2}   p99 {p99:.2}"
        ),
    );
}

fn row(out: &mut String, name: &str, latency: &Latency) {
    let text = seconds_text;
    let _ = writeln!(
        out,
        "  {name:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        text(latency.p50),
        text(latency.p90),
        text(latency.p99),
        text(latency.p999),
        text(latency.max),
        text(latency.mean)
    );
}

/// A line, whatever a server put into it: control characters would move the terminal's cursor.
fn line(out: &mut String, text: &str) {
    let shown = |letter: char| {
        if letter.is_control() && letter != '\n' { char::REPLACEMENT_CHARACTER } else { letter }
    };
    out.extend(text.chars().map(shown));
    out.push('\n');
}

/// What is listed on a terminal of a long list.
const LISTED_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_moves_no_cursor() {
        let mut out = String::new();
        line(&mut out, "first\nsecond\u{1b}[2J\r\u{9b}");
        assert_eq!(out, "first\nsecond\u{fffd}[2J\u{fffd}\u{fffd}\n");
    }
}
