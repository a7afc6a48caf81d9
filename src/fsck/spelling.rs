//! How file systems spell the names that git gives a meaning: `.git` and a few files.
//!
//! HFS+ does not tell case, and ignores code points that cannot be seen. NTFS does not tell case
//! either, has a short name of eight letters and three for every file, drops dots and blanks at
//! the end, and takes what stands behind a colon for the name of a stream; both slashes divide
//! there. What git would check out under one of these names on such a file system is that file.

/// A file that git gives a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpecialName {
    /// The name without its dot.
    word: &'static [u8],
    /// What NTFS makes of the name if its first short names are taken: two letters and a number
    /// that it computes from the name.
    hashed: &'static [u8; 6],
}

pub(super) const GITMODULES: SpecialName = SpecialName { word: b"gitmodules", hashed: b"gi7eba" };
pub(super) const GITATTRIBUTES: SpecialName =
    SpecialName { word: b"gitattributes", hashed: b"gi7d29" };
pub(super) const GITIGNORE: SpecialName = SpecialName { word: b"gitignore", hashed: b"gi250a" };
pub(super) const MAILMAP: SpecialName = SpecialName { word: b"mailmap", hashed: b"maba30" };

/// Whether any name of this module could be spelt so. Most names are none and need no other look.
pub(super) fn could_be_special(name: &[u8]) -> bool {
    // A tilde may begin a short name, and other bytes than ASCII may be ignored.
    let begins_so = name.first().is_some_and(|byte| {
        matches!(byte, b'.' | b'~' | b'g' | b'G' | b'm' | b'M') || !byte.is_ascii()
    });
    begins_so || name.contains(&b'\\')
}

/// Whether a name is `.git` somewhere, or a path that leads there.
pub(super) fn is_dot_git(name: &[u8]) -> bool {
    hfs_is(name, b"git") || ntfs_is_dot_git(name) || behind_backslashes(name).any(ntfs_is_dot_git)
}

impl SpecialName {
    /// Whether a name is that of the file somewhere.
    pub(super) fn is(&self, name: &[u8]) -> bool {
        hfs_is(name, self.word) || self.ntfs_is(name)
    }

    /// Whether a name is a path to the file where the backslash divides.
    pub(super) fn is_behind_backslash(&self, name: &[u8]) -> bool {
        behind_backslashes(name).any(|rest| self.ntfs_is(rest))
    }

    fn ntfs_is(&self, name: &[u8]) -> bool {
        let rest = self
            .ntfs_long(name)
            .or_else(|| self.ntfs_short(name))
            .or_else(|| self.ntfs_hashed(name));
        rest.is_some_and(|rest| matches!(ntfs_end(rest), None | Some(b':')))
    }

    fn ntfs_long<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        strip_any_case(name.strip_prefix(b".")?, self.word)
    }

    /// Six letters of the name and a number up to four, as the first that come get them.
    fn ntfs_short<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        let rest = strip_any_case(name, self.word.get(..6)?)?;
        match rest.strip_prefix(b"~")? {
            [b'1'..=b'4', rest @ ..] => Some(rest),
            _ => None,
        }
    }

    /// Eight bytes: the computed letters as far as there is room for a tilde and a number.
    fn ntfs_hashed<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        let (short, rest) = name.split_at_checked(8)?;
        let tilde = short.iter().position(|&byte| byte == b'~')?;
        let (letters, number) = short.split_at_checked(tilde)?;
        let begins = strip_any_case(self.hashed, letters).is_some();
        let is_number = match number {
            [b'~', b'1'..=b'9', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
            _ => false,
        };
        (begins && is_number).then_some(rest)
    }
}

/// What stands behind each backslash.
fn behind_backslashes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let places = name.iter().enumerate().filter(|(_, byte)| **byte == b'\\');
    places.filter_map(|(at, _)| name.get(at.checked_add(1)?..))
}

/// Its short name is always the first: git makes `.git` before anything else.
fn ntfs_is_dot_git(name: &[u8]) -> bool {
    let rest = strip_any_case(name, b".git").or_else(|| strip_any_case(name, b"git~1"));
    rest.is_some_and(|rest| matches!(ntfs_end(rest), None | Some(b':' | b'/' | b'\\')))
}

/// The first byte that is no dot and no blank.
fn ntfs_end(rest: &[u8]) -> Option<u8> {
    rest.iter().copied().find(|byte| !matches!(byte, b'.' | b' '))
}

fn strip_any_case<'a>(bytes: &'a [u8], word: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = bytes.split_at_checked(word.len())?;
    start.eq_ignore_ascii_case(word).then_some(rest)
}

/// Whether HFS+ takes a name for a dot and `word`, or for a path that begins so.
fn hfs_is(name: &[u8], word: &[u8]) -> bool {
    let mut letters = HfsLetters { rest: name };
    letters.next() == Some('.')
        && word.iter().all(|expected| {
            letters
                .next()
                .is_some_and(|letter| letter.to_ascii_lowercase() == char::from(*expected))
        })
        && matches!(letters.next(), None | Some('/'))
}

/// The letters of a name that HFS+ looks at, up to bytes that are not UTF-8: git takes a name that
/// goes on with such for one that ends there.
struct HfsLetters<'a> {
    rest: &'a [u8],
}

impl Iterator for HfsLetters<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            let (letter, length) = bstr::decode_utf8(self.rest);
            self.rest = self.rest.get(length..).unwrap_or_default();
            match letter {
                Some(
                    '\u{200c}'..='\u{200f}'
                    | '\u{202a}'..='\u{202e}'
                    | '\u{206a}'..='\u{206f}'
                    | '\u{feff}',
                ) => {}
                // No characters to git.
                None | Some('\u{fffe}' | '\u{ffff}') => {
                    self.rest = &[];
                    return None;
                }
                letter => return letter,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_git_is_known_in_every_spelling() {
        for name in [
            ".git",
            ".GIT",
            ".Git ",
            ".git.",
            ".git. . .",
            "git~1",
            "GIT~1",
            "git~1.",
            ".git:x",
            ".git::$INDEX_ALLOCATION",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{206f}T\u{200d}",
            ".git/x",
            ".git\\x",
            "a\\.git",
            "a\\b\\git~1",
            "..\\.GIT ",
            ".git\u{ffff}x",
        ] {
            assert!(is_dot_git(name.as_bytes()), "{name:?}");
            assert!(could_be_special(name.as_bytes()), "{name:?}");
        }
        assert!(is_dot_git(b".git\xff"));
        for name in ["git", ".gitx", ".git x", "git~2", "git~10", "x.git", ".g it", "a/.git", ""] {
            assert!(!is_dot_git(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn special_files_are_known_in_every_spelling() {
        for name in [
            ".gitmodules",
            ".GITModules",
            ".gitmodules .",
            ".gitmodules:$DATA",
            "GITMOD~1",
            "gitmod~4 . .",
            "gi7eba~1",
            "GI7EBA~9",
            "gi7eb~10",
            "gi7e~123",
            "gi~12345",
            "~1000000",
            "g~123456:x",
            ".gitmod\u{200c}ules",
            ".gitmodules\u{200c}",
        ] {
            assert!(GITMODULES.is(name.as_bytes()), "{name:?}");
            assert!(could_be_special(name.as_bytes()), "{name:?}");
        }
        for name in [
            ".gitmodule",
            ".gitmodules x",
            "gitmod~0",
            "gitmod~5",
            "gi7eba~0",
            "gi7eba~",
            "gi7d29~1",
            "gi7eba~1x",
            "gi7ebax~",
            "gi7eb~1",
            "~0000000",
            "~100000",
            "gitmod~11",
            ".gitmodules\\",
            "",
            "gitmodules",
            ".gitmodules,:$DATA",
        ] {
            assert!(!GITMODULES.is(name.as_bytes()), "{name:?}");
        }
        assert!(GITATTRIBUTES.is(b"gitatt~2") && GITATTRIBUTES.is(b"gi7d29~1"));
        assert!(GITIGNORE.is(b"GITIGN~1") && GITIGNORE.is(b"gi250a~3"));
        assert!(MAILMAP.is(b".mailMap") && MAILMAP.is(b"mailma~1") && MAILMAP.is(b"maba30~1"));
        assert!(GITMODULES.is_behind_backslash(b"a\\b\\.gitmodules"));
        assert!(!GITMODULES.is_behind_backslash(b".gitmodules\\b"));
    }
}
