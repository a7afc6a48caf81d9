//! Who did something, and when: the rest of an `author`, `committer` or `tagger` line.

use super::finding::{Refused, Report};
use super::message::FsckId;

/// Looks at `name <address> seconds zone`. At most one fault is told.
pub(super) fn check(line: &[u8], report: &mut Report<'_>) -> Result<(), Refused> {
    match fault(line) {
        Some((message, text)) => report.add(message, text),
        None => Ok(()),
    }
}

type Fault = (FsckId, &'static str);

fn fault(line: &[u8]) -> Option<Fault> {
    match person(line) {
        Err(fault) => Some(fault),
        Ok(rest) => date(rest).err(),
    }
}

/// Reads the name and the address, and returns what follows with the blank before it.
fn person(line: &[u8]) -> Result<&[u8], Fault> {
    let bracket = |bytes: &[u8]| bytes.iter().position(|byte| matches!(byte, b'<' | b'>'));
    let at = bracket(line).ok_or(MISSING_EMAIL)?;
    let (name, rest) = line.split_at(at);
    let Some(rest) = rest.strip_prefix(b"<") else { return Err(BAD_NAME) };
    match name.last() {
        None => return Err(MISSING_NAME),
        Some(b' ') => {}
        Some(_) => return Err(MISSING_SPACE_BEFORE_EMAIL),
    }
    let end = bracket(rest).ok_or(BAD_EMAIL)?;
    let (_, rest) = rest.split_at(end);
    rest.strip_prefix(b">").ok_or(BAD_EMAIL)
}

/// Reads the date and the time zone.
fn date(rest: &[u8]) -> Result<(), Fault> {
    let rest = rest.strip_prefix(b" ").ok_or(MISSING_SPACE_BEFORE_DATE)?;
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let (_, rest) = rest.split_at(blanks);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, zone) = rest.split_at(digits);
    if digits == 0 {
        return Err(BAD_DATE);
    }
    // A lone zero that no blank follows counts as padded too.
    if number.starts_with(b"0") && (digits > 1 || !zone.starts_with(b" ")) {
        return Err(ZERO_PADDED_DATE);
    }
    seconds(number).ok_or(BAD_DATE_OVERFLOW)?;
    let zone = zone.strip_prefix(b" ").ok_or(BAD_DATE)?;
    match zone {
        [b'+' | b'-', digits @ ..]
            if digits.len() == ZONE_DIGITS && digits.iter().all(u8::is_ascii_digit) =>
        {
            Ok(())
        }
        _ => Err(BAD_TIMEZONE),
    }
}

/// The number, if the clocks of all systems can hold it.
fn seconds(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0i64, |number, digit| {
        number.checked_mul(10)?.checked_add(i64::from(digit.wrapping_sub(b'0')))
    })
}

const ZONE_DIGITS: usize = 4;

macro_rules! invalid {
    ($id:ident, $what:literal) => {
        (FsckId::$id, concat!("invalid author/committer line - ", $what))
    };
}

const MISSING_NAME: Fault = invalid!(MissingNameBeforeEmail, "missing space before email");
const BAD_NAME: Fault = invalid!(BadName, "bad name");
const MISSING_EMAIL: Fault = invalid!(MissingEmail, "missing email");
const MISSING_SPACE_BEFORE_EMAIL: Fault =
    invalid!(MissingSpaceBeforeEmail, "missing space before email");
const BAD_EMAIL: Fault = invalid!(BadEmail, "bad email");
const MISSING_SPACE_BEFORE_DATE: Fault =
    invalid!(MissingSpaceBeforeDate, "missing space before date");
const BAD_DATE: Fault = invalid!(BadDate, "bad date");
const ZERO_PADDED_DATE: Fault = invalid!(ZeroPaddedDate, "zero-padded date");
const BAD_DATE_OVERFLOW: Fault = invalid!(BadDateOverflow, "date causes integer overflow");
const BAD_TIMEZONE: Fault = invalid!(BadTimezone, "bad time zone");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_told_by_its_id() {
        for (line, expected) in [
            ("A U <a@b> 1 +0000", None),
            (" <> 1 -1234", None),
            ("A <a> 0 +0000", None),
            ("A <a>  \t12 +0000", None),
            ("A <a> 9223372036854775807 +0000", None),
            ("<a@b> 1 +0000", Some("missingNameBeforeEmail")),
            ("A> <a@b> 1 +0000", Some("badName")),
            ("> 1 +0000", Some("badName")),
            ("A a@b 1 +0000", Some("missingEmail")),
            ("", Some("missingEmail")),
            ("A<a@b> 1 +0000", Some("missingSpaceBeforeEmail")),
            ("A <a@<b> 1 +0000", Some("badEmail")),
            ("A <a@b 1 +0000", Some("badEmail")),
            ("A <a@b>1 +0000", Some("missingSpaceBeforeDate")),
            ("A <a@b>", Some("missingSpaceBeforeDate")),
            ("A <a@b> ", Some("badDate")),
            ("A <a@b> -1 +0000", Some("badDate")),
            ("A <a@b> x +0000", Some("badDate")),
            ("A <a@b> 12", Some("badDate")),
            ("A <a@b> 1+0000", Some("badDate")),
            ("A <a@b> 01 +0000", Some("zeroPaddedDate")),
            ("A <a@b> 0", Some("zeroPaddedDate")),
            ("A <a@b> 9223372036854775808 +0000", Some("badDateOverflow")),
            ("A <a@b> 99999999999999999999999 +0000", Some("badDateOverflow")),
            ("A <a@b> 1 ", Some("badTimezone")),
            ("A <a@b> 1 0000", Some("badTimezone")),
            ("A <a@b> 1 +000", Some("badTimezone")),
            ("A <a@b> 1 +00000", Some("badTimezone")),
            ("A <a@b> 1 +000x", Some("badTimezone")),
            ("A <a@b> 1  +0000", Some("badTimezone")),
        ] {
            assert_eq!(fault(line.as_bytes()).map(|(id, _)| id.as_str()), expected, "{line:?}");
        }
    }
}
