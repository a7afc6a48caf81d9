//! Markdown tables, and figures in them.

/// Prints a table; the first `texts` columns hold text, the others figures.
pub(crate) fn print(texts: usize, head: &[&str], rows: &[Vec<String>]) {
    println!("\n| {} |", head.join(" | "));
    let line = |column| if column < texts { "---|" } else { "---:|" };
    println!("|{}", (0..head.len()).map(line).collect::<String>());
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
    println!();
}

/// A figure with three digits that count, or a dash for one that was not taken.
pub(crate) fn figure(value: f64) -> String {
    match value {
        value if value.is_nan() => String::from("–"),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
