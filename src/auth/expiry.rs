//! When a token ends: a moment in UTC.
//!
//! Pure. Written as `2027-01-31` (the whole day counts), `2027-01-31T12:00:00Z`, or `never`.

use std::fmt;

/// The moment from which a token counts no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expiry {
    /// Seconds since 1970.
    At(u64),
    /// There is none.
    Never,
}

/// A text that is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no date; permitted are 2027-01-31, 2027-01-31T12:00:00Z and never")]
pub struct ExpiryFault(pub String);

impl Expiry {
    /// Reads a date, a date with a time, or `never`.
    pub fn parse(text: &str) -> Result<Self, ExpiryFault> {
        if text == "never" {
            return Ok(Self::Never);
        }
        moment(text).map(Self::At).ok_or_else(|| ExpiryFault(text.to_owned()))
    }

    /// Whether it has come, `now` seconds after 1970.
    pub fn is_past(self, now: u64) -> bool {
        match self {
            Self::At(end) => end <= now,
            Self::Never => false,
        }
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::At(seconds) = self else { return f.write_str("never") };
        let (year, month, day) = date_of(seconds / DAY);
        let time = seconds % DAY;
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

const DAY: u64 = 86400;
/// The days of four hundred years, after which the calendar repeats.
const DAYS_OF_ERA: u64 = 146_097;

fn moment(text: &str) -> Option<u64> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, Some(time.strip_suffix('Z')?)),
        None => (text, None),
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let days = days_until(year, month, day)?;
    let seconds = match time {
        // The whole day counts.
        None => DAY,
        Some(time) => {
            let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
            if hour > 23 || minute > 59 || second > 59 {
                return None;
            }
            hour * 3600 + minute * 60 + second
        }
    };
    days.checked_mul(DAY)?.checked_add(seconds)
}

/// Three numbers of so many digits.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(separator);
    let mut found = [0; 3];
    for (number, digits) in found.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_plain = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_plain)?;
    }
    parts.next().is_none().then_some(found)
}

/// The days from 1970 to a date, if it is one.
fn days_until(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    let days = days_since_march(year, month).checked_add(day - 1)?.checked_sub(DAYS_TO_1970)?;
    // The 31st of April is the 1st of May, and no date.
    (date_of(days) == (year, month, day)).then_some(days)
}

/// The days from March of the year 0 to the first of a month. The year begins in March, so that
/// leap days come last.
fn days_since_march(year: u64, month: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5
}

const DAYS_TO_1970: u64 = 719_468;

/// The date so many days after 1970.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(DAYS_TO_1970);
    let (era, of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146_096) / 365;
    let of_year = of_era - (year_of_era * 365 + year_of_era / 4 - year_of_era / 100);
    let month = (of_year * 5 + 2) / 153;
    let day = of_year - (month * 153 + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_and_times_are_read_and_written() {
        for (text, seconds, written) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
            ("2000-02-29T12:34:56Z", 951_827_696, "2000-02-29T12:34:56Z"),
            ("2027-01-31", 1_801_440_000, "2027-02-01T00:00:00Z"),
            ("2024-12-31", 1_735_689_600, "2025-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", 253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Expiry::parse(text), Ok(Expiry::At(seconds)), "{text}");
            assert_eq!(Expiry::At(seconds).to_string(), written);
        }
        assert_eq!(Expiry::parse("never").unwrap().to_string(), "never");
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "2027",
            "2027-1-31",
            "2027-02-29",
            "2027-04-31",
            "2027-00-01",
            "2027-13-01",
            "2027-01-00",
            "1969-12-31",
            "2027-01-31T",
            "2027-01-31T12:00",
            "2027-01-31T24:00:00Z",
            "2027-01-31T12:60:00Z",
            "2027-01-31 12:00:00Z",
            "+027-01-31",
            "2027-01-31-01",
            "Never",
        ] {
            let error = Expiry::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is no date; permitted are")), "{error}");
        }
    }

    #[test]
    fn a_moment_is_past_when_it_has_come() {
        assert!(!Expiry::At(10).is_past(9) && Expiry::At(10).is_past(10));
        assert!(!Expiry::Never.is_past(u64::MAX));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(seconds in 0..253_402_300_799u64) {
            let expiry = Expiry::At(seconds);
            prop_assert_eq!(Expiry::parse(&expiry.to_string()), Ok(expiry));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,30}") {
            drop(Expiry::parse(&text));
        }
    }
}
