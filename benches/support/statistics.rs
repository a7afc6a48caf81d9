//! Medians, and ratios round by round.

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

/// The median of the ratios of each round.
pub(crate) fn ratio(own: &[f64], other: &[f64]) -> f64 {
    median(own.iter().zip(other).map(|(own, other)| own / other).collect())
}
