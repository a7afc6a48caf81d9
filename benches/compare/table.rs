//! Medians and ratios, as a Markdown table.

use super::small::Turn;

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
        let ratios = row.turns.iter().zip(rows.first().into_iter().flat_map(|row| &row.turns));
        let ratios = ratios.map(|(own, first)| own.pushes_per_second / first.pushes_per_second);
        println!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} |",
            row.name,
            row.median(|turn| turn.pushes_per_second),
            median(ratios.collect()),
            row.median(|turn| turn.p50) * 1e3,
            row.median(|turn| turn.p99) * 1e3,
            row.median(|turn| turn.cpu_per_push) * 1e3,
            row.turns.iter().map(|turn| turn.failed).sum::<f64>(),
        );
    }
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), middle.checked_sub(1).and_then(|below| values.get(below))) {
        (Some(upper), Some(lower)) if values.len().is_multiple_of(2) => {
            f64::midpoint(*upper, *lower)
        }
        (Some(upper), _) => *upper,
        (None, _) => f64::NAN,
    }
}
