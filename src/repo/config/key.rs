//! The form in which keys are compared: section and name in lower case, the subsection as it is.

use bstr::{BString, ByteSlice};

/// The comparable form of a key that is known to be well formed, such as one in our own source.
pub(super) fn fold(key: &[u8]) -> BString {
    let mut folded = BString::from(key);
    let first = key.find_byte(b'.').unwrap_or(key.len());
    let last = key.rfind_byte(b'.').unwrap_or(0);
    for (at, byte) in folded.iter_mut().enumerate() {
        if at < first || at > last {
            byte.make_ascii_lowercase();
        }
    }
    folded
}

/// The comparable form of a key that came from outside; `None` if git refuses it.
///
/// git's rule (git-config(1), "Syntax"): the section of letters, digits, `-` and `.`, a subsection
/// without newline, the name of letters, digits and `-` with a letter first.
pub(super) fn canonical(key: &[u8]) -> Option<BString> {
    let first = key.find_byte(b'.')?;
    let last = key.rfind_byte(b'.')?;
    let section = key.get(..first)?;
    let name = key.get(last.checked_add(1)?..)?;
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let valid = !section.is_empty()
        && section.iter().all(is_word)
        && name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(is_word)
        && !key.contains(&b'\n');
    valid.then(|| fold(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subsection_keeps_its_case() {
        assert_eq!(fold(b"Remote.My.Own.URL"), "remote.My.Own.url");
        assert_eq!(fold(b"CORE.Bare"), "core.bare");
        assert_eq!(fold(b"noDot"), "nodot");
    }

    #[test]
    fn keys_that_git_refuses_are_refused() {
        for key in ["", "core", ".bare", "core.", "core.1x", "co re.x", "core.a_b", "a.b\nc.d"] {
            assert_eq!(canonical(key.as_bytes()), None, "{key:?}");
        }
        assert_eq!(canonical(b"a.b c.D").unwrap(), "a.b c.d");
        assert_eq!(canonical(b"a..D").unwrap(), "a..d");
    }
}
