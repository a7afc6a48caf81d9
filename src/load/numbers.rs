//! Numbers as they are reckoned with and told to people.

use std::time::Duration;

/// How many in a second.
pub(super) fn rate(count: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { float(count) / seconds } else { 0.0 }
}

/// The time of one of them.
pub(super) fn mean(time: Duration, count: u64) -> f64 {
    if count > 0 { time.as_secs_f64() / float(count) } else { 0.0 }
}

/// The second over the first.
pub(super) fn ratio(second: f64, first: f64) -> f64 {
    if first > 0.0 { second / first } else { f64::NAN }
}

/// A count to reckon with.
#[expect(clippy::cast_precision_loss, reason = "a count of pushes is far below 2^53")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

/// Nanoseconds in seconds.
pub(super) fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

/// A duration in nanoseconds for people, in three digits.
pub(super) fn duration_text(nanoseconds: u64) -> String {
    seconds_text(seconds(nanoseconds))
}

/// A duration in seconds for people, in three digits.
pub(super) fn seconds_text(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 0.9995 => (s, "s"),
        s if s >= 0.000_999_5 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let digits = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// A number of bytes for people.
pub(super) fn bytes_text(bytes: f64) -> String {
    match bytes {
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kB", b / 1e3),
        b => format!("{b:.0} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_three_digits() {
        for (seconds, text) in [
            (0.0, "0.00 µs"),
            (0.000_123_4, "123 µs"),
            (0.001_5, "1.50 ms"),
            (0.045_67, "45.7 ms"),
            (0.999_9, "1.00 s"),
            (123.4, "123 s"),
        ] {
            assert_eq!(seconds_text(seconds), text);
        }
    }

    #[test]
    fn a_rate_over_no_time_is_no_number_to_print() {
        assert!(rate(5, Duration::ZERO).abs() < f64::EPSILON);
        assert!((rate(5, Duration::from_secs(2)) - 2.5).abs() < f64::EPSILON);
    }

    #[test]
    fn bytes_have_decimal_units() {
        assert_eq!(bytes_text(999.0), "999 B");
        assert_eq!(bytes_text(1_500_000.0), "1.5 MB");
    }
}
