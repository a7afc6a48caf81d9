//! Latencies as the HdrHistogram plotter reads them.

use crate::load::numbers::float;
use crate::load::summary::SideSummary;
use hdrhistogram::Histogram;
use std::fmt::Write as _;

/// The percentile distribution of a side's latencies in milliseconds: the text format of
/// HdrHistogram's `outputPercentileDistribution`, with five values to each halving.
pub fn distribution(side: &SideSummary) -> String {
    of(&side.histogram)
}

fn of(histogram: &Histogram<u64>) -> String {
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    // Writing to a string does not fail.
    let mut total = 0;
    for value in histogram.iter_quantiles(TICKS_PER_HALF) {
        total += value.count_since_last_iteration();
        let quantile = value.quantile();
        let milliseconds = float(value.value_iterated_to()) / 1e6;
        let _ = write!(out, "{milliseconds:>12.3} {quantile:>2.12} {total:>10}");
        let _ = if quantile < 1.0 {
            writeln!(out, " {:>14.2}", 1.0 / (1.0 - quantile))
        } else {
            writeln!(out)
        };
    }
    let _ = writeln!(
        out,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]",
        histogram.mean() / 1e6,
        histogram.stdev() / 1e6
    );
    let _ = writeln!(
        out,
        "#[Max     = {:>12.3}, Total count    = {:>12}]",
        float(histogram.max()) / 1e6,
        histogram.len()
    );
    let _ = writeln!(
        out,
        "#[Buckets = {:>12}, SubBuckets     = {:>12}]",
        histogram.buckets(),
        histogram.distinct_values() / usize::from(histogram.buckets()).max(1)
    );
    out
}

const TICKS_PER_HALF: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::series::{histogram, note};

    #[test]
    fn the_plotter_finds_four_columns_and_a_footer() {
        let mut latencies = histogram(3);
        for value in 1..=1000_u64 {
            note(&mut latencies, value * 1_000_000);
        }
        let text = of(&latencies);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().collect())
            .collect();
        let last = rows.last().unwrap();
        assert_eq!(last[2], "1000");
        assert_eq!(last[1], "1.000000000000");
        assert!(rows.iter().rev().skip(1).all(|row| row.len() == 4 || row[1].starts_with("1.0")));
        let median = rows.iter().find(|row| row[1].starts_with("0.5")).unwrap();
        assert!((499.0..502.0).contains(&median[0].parse::<f64>().unwrap()), "{median:?}");
        assert!(text.contains("#[Mean    =") && text.contains("Total count    =         1000]"));
    }
}
