//! Medians and ratios, as a Markdown table.

use super::small::Turn;
use super::support::statistics::{median, ratio};

/// One server's turns.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) turns: Vec<Turn>,
}

impl Row {
    fn median(&self, value: impl Fn(&Turn) -> f64) -> f64 {
        median(self.turns.iter().map(value).collect())
    }
}

/// Prints the table; ratios are to the first row, the median of those of each round.
pub(crate) fn print(rows: &[Row]) {
    println!("| server | pushes/s | × first | p50 ms | p99 ms | server CPU ms a push | failed |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for row in rows {
        let rates = |row: &Row| -> Vec<f64> {
            row.turns.iter().map(|turn| turn.pushes_per_second).collect()
        };
        println!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} |",
            row.name,
            row.median(|turn| turn.pushes_per_second),
            ratio(&rates(row), &rows.first().map(rates).unwrap_or_default()),
            row.median(|turn| turn.p50) * 1e3,
            row.median(|turn| turn.p99) * 1e3,
            row.median(|turn| turn.cpu_per_push) * 1e3,
            row.turns.iter().map(|turn| turn.failed).sum::<f64>(),
        );
    }
}
