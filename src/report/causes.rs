//! An error with what led to it, for the log.

use std::error::Error;

/// The error's words, then those of each cause, on one line.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        // Some print their cause themselves, or take its words over.
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{words}")]
    struct Failure {
        words: &'static str,
        source: Option<Box<Failure>>,
    }

    fn failure(words: &'static str, source: Option<Failure>) -> Failure {
        Failure { words, source: source.map(Box::new) }
    }

    #[test]
    fn every_cause_is_named_once() {
        let inner = failure("no such file", None);
        let middle = failure("cannot read 'x': no such file", Some(inner));
        let outer = failure("cannot start", Some(middle));
        assert_eq!(with_causes(&outer), "cannot start: cannot read 'x': no such file");
        assert_eq!(with_causes(&failure("alone", None)), "alone");
    }
}
