//! A run as one page for people: numbers, charts, errors. It needs nothing from outside.

use super::chart;
use crate::load::numbers::{bytes_text, seconds_text};
use crate::load::summary::{Comparison, Latency, SideSummary, Summary, Verification};
use std::fmt::Write as _;

/// The page.
pub fn page(summary: &Summary) -> String {
    let mut body = String::new();
    notices(&mut body, summary);
    for (side, letter) in summary.sides.iter().zip(["A", "B"]) {
        let letter = if summary.sides.len() > 1 { letter } else { "" };
        headline(&mut body, letter, side);
    }
    if let Some(comparison) = &summary.comparison {
        compared(&mut body, comparison);
    }
    let charts = [
        ("Latency over time", chart::latency_over_time(&summary.sides)),
        ("Pushes per second", chart::rate_over_time(&summary.sides)),
        ("Latency by percentile", chart::percentiles(&summary.sides)),
    ];
    for (title, svg) in charts {
        let _ = write!(body, "<h2>{title}</h2>\n<figure>{svg}</figure>\n");
    }
    for (side, letter) in summary.sides.iter().zip(["A", "B"]) {
        let letter = if summary.sides.len() > 1 { letter } else { "" };
        latencies(&mut body, letter, side);
        errors(&mut body, side);
        verified(&mut body, &side.verification);
    }
    body.push_str("<h2>How it was measured</h2>\n<ul>\n");
    for line in &summary.how {
        let _ = writeln!(body, "<li>{}</li>", escape(line));
    }
    body.push_str("</ul>\n");
    let generator = escape(summary.generator);
    let begun = summary.begun;
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>Load report</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Load report</h1>\n{body}\
         <p class=\"small\">{generator}, begun {}</p>\n</body>\n</html>\n",
        date(begun)
    )
}

/// Text that no markup hides in.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control bytes have no place in a page, nor in XML.
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

fn notices(out: &mut String, summary: &Summary) {
    if let Some(reason) = &summary.given_up {
        notice(out, &format!("Given up: {reason}"));
    }
    if summary.interrupted {
        notice(out, "Interrupted: this is what there was until then.");
    }
    for side in &summary.sides {
        let Verification { lost, early, .. } = &side.verification;
        if !lost.is_empty() {
            notice(
                out,
                &format!("{}: {} times acknowledged, and not there.", side.url, lost.len()),
            );
        }
        if !early.is_empty() {
            let count = early.len();
            notice(out, &format!("{}: {count} times acknowledged, and not shown next.", side.url));
        }
    }
    if summary.generator_waits > 0 {
        let waits = summary.generator_waits;
        notice(out, &format!("Pushers waited {waits} times for packs: the server may be faster."));
    }
}

fn notice(out: &mut String, text: &str) {
    let _ = writeln!(out, "<p class=\"notice\">{}</p>", escape(text));
}

fn headline(out: &mut String, letter: &str, side: &SideSummary) {
    let failed = if side.failures > 0 { " bad" } else { "" };
    let tiles = [
        ("pushes per second", format!("{:.1}", side.pushes_per_second), ""),
        ("sent per second", bytes_text(side.megabytes_per_second * 1e6), ""),
        ("median", seconds_text(side.latency.p50), ""),
        ("99th percentile", seconds_text(side.latency.p99), ""),
        ("slowest", seconds_text(side.latency.max), ""),
        ("failed", side.failures.to_string(), failed),
    ];
    let separator = if letter.is_empty() { "" } else { " " };
    let _ = writeln!(out, "<h2>{letter}{separator}<code>{}</code></h2>", escape(&side.url));
    out.push_str("<dl class=\"tiles\">\n");
    for (name, value, class) in tiles {
        let _ = writeln!(out, "<div class=\"tile{class}\"><dt>{name}</dt><dd>{value}</dd></div>");
    }
    out.push_str("</dl>\n");
    let _ = writeln!(
        out,
        "<p>{} pushes in {:.2} s{}{}{}.</p>",
        side.pushes,
        side.seconds,
        counted(side.lost_races, "attempts that lost a race"),
        counted(side.unserved, "pushes that were due and never began"),
        counted(side.connections, "connections opened"),
    );
}

fn counted(count: u64, what: &str) -> String {
    if count > 0 { format!(", {count} {what}") } else { String::new() }
}

fn compared(out: &mut String, comparison: &Comparison) {
    let Comparison { throughput, throughput_range: (least, most), p50, p99 } = comparison;
    let _ = writeln!(
        out,
        "<h2>B over A</h2>\n<p>Pushes per second <b>{throughput:.2}</b> ({least:.2} to {most:.2} in \
         neighbouring rounds), median latency <b>{p50:.2}</b>, 99th percentile <b>{p99:.2}</b>.</p>"
    );
}

fn latencies(out: &mut String, letter: &str, side: &SideSummary) {
    let separator = if letter.is_empty() { "" } else { ": " };
    let _ = writeln!(
        out,
        "<h2>{letter}{separator}Latencies</h2>\n<div class=\"wide\"><table>\n<tr><th></th><th>count</th>\
         <th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th><th>mean</th></tr>"
    );
    row(out, "push", &side.latency);
    if let Some(get) = &side.get {
        row(out, "its GET", get);
        row(out, "its POST", &side.post);
    }
    if let Some(fetch) = &side.fetch {
        row(out, "fetch", &fetch.latency);
    }
    for step in &side.server_steps {
        row(out, &format!("server: {}", step.name), &step.latency);
    }
    out.push_str("</table></div>\n");
}

fn row(out: &mut String, name: &str, latency: &Latency) {
    let _ = write!(out, "<tr><th>{}</th><td>{}</td>", escape(name), latency.count);
    let Latency { p50, p90, p99, p999, max, mean, .. } = *latency;
    for seconds in [p50, p90, p99, p999, max, mean] {
        let _ = write!(out, "<td>{}</td>", seconds_text(seconds));
    }
    out.push_str("</tr>\n");
}

fn errors(out: &mut String, side: &SideSummary) {
    if side.errors.is_empty() {
        return;
    }
    out.push_str("<h2>Errors</h2>\n<div class=\"wide\"><table>\n");
    for error in &side.errors {
        let text = escape(&error.text);
        let _ = writeln!(out, "<tr><td>{}</td><td class=\"text\">{text}</td></tr>", error.count);
    }
    out.push_str("</table></div>\n");
}

fn verified(out: &mut String, verification: &Verification) {
    for (title, items) in [
        ("Acknowledged, and not there", &verification.lost),
        ("Acknowledged, and not shown next", &verification.early),
        ("Not verified", &verification.skipped),
    ] {
        if items.is_empty() {
            continue;
        }
        let _ = writeln!(out, "<h2>{title}</h2>\n<ul class=\"wide\">");
        for item in items.iter().take(LISTED_MAX) {
            let _ = writeln!(out, "<li><code>{}</code></li>", escape(item));
        }
        if items.len() > LISTED_MAX {
            let _ = writeln!(out, "<li>… and {} more</li>", items.len() - LISTED_MAX);
        }
        out.push_str("</ul>\n");
    }
    if verification.asked && verification.lost.is_empty() {
        let Verification { commits, repositories, fetched, on_disk, .. } = verification;
        let _ = writeln!(
            out,
            "<p>Verified: {commits} acknowledged commits in {repositories} repositories are all \
             there (fetched with git: {fetched}, looked at on disk: {on_disk}).</p>"
        );
    }
}

/// Seconds after 1970 as a date of UTC.
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // The civil calendar, counted from 1 March of year 0 in eras of 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

const LISTED_MAX: usize = 200;

const STYLE: &str = "
:root{color-scheme:light dark;--line:#8884;--tile:#8881}
body{font:15px/1.5 system-ui,sans-serif;max-width:920px;margin:2rem auto;padding:0 1rem;
background:Canvas;color:CanvasText}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}
code{overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:.6rem;margin:0}
.tile{background:var(--tile);border-radius:8px;padding:.6rem .8rem}
.tile dt{font-size:.8rem;opacity:.75}.tile dd{margin:0;font-size:1.3rem;font-weight:600}
.bad dd{color:#e03131}
figure{margin:0}svg{width:100%;height:auto}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .8rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
td.text{text-align:left;white-space:normal}
.notice{border-left:4px solid #e03131;padding:.4rem .8rem;background:var(--tile)}
.small{opacity:.7;font-size:.85rem}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_markup_hides_in_what_a_server_says() {
        assert_eq!(
            escape("<script>alert('x' & \"y\")</script>\u{1b}"),
            "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt; "
        );
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_700_000_000), "2023-11-14 22:13:20 UTC");
    }
}
