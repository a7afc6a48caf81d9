//! Patterns for names of repositories and refs.
//!
//! A pattern is a path. Within one segment `*` stands for any characters, none among them, and `?`
//! for one; a segment that is `**` stands for any number of segments, none among them, and at the
//! end of a pattern for one at least: `a/**` is everything below `a`, and not `a`. `{user}` stands
//! for the user's name, letter for letter. Everything else stands for itself, upper and lower case
//! apart.
//!
//! Matching takes no longer than the product of both lengths, whatever the pattern.

use std::fmt;

/// A pattern.
#[derive(Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    segments: Vec<Segment>,
}

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobFault {
    /// Segments must be names.
    #[error("'{0}' has a segment that is empty, '.' or '..'")]
    Segment(String),
    /// `**` stands for whole segments.
    #[error("in '{0}' a '**' is only part of a segment; it must stand alone between slashes")]
    Stars(String),
    /// Braces hold nothing but `user`.
    #[error("'{0}' has braces that are not '{{user}}'")]
    Placeholder(String),
    /// It is too long.
    #[error("a pattern of {0} bytes; at most {BYTES_MAX} are permitted")]
    TooLong(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// `**`.
    Any,
    /// What one segment looks like.
    Like(Vec<Piece>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Byte(u8),
    One,
    Star,
    User,
}

impl Glob {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, GlobFault> {
        if text.len() > BYTES_MAX {
            return Err(GlobFault::TooLong(text.len()));
        }
        let mut segments = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." | ".." => return Err(GlobFault::Segment(text.to_owned())),
                "**" if segments.last() == Some(&Segment::Any) => {}
                "**" => segments.push(Segment::Any),
                name if name.contains("**") => return Err(GlobFault::Stars(text.to_owned())),
                name => {
                    let pieces = pieces(name);
                    let pieces = pieces.ok_or_else(|| GlobFault::Placeholder(text.to_owned()))?;
                    segments.push(Segment::Like(pieces));
                }
            }
        }
        if segments.last() == Some(&Segment::Any) {
            segments.push(Segment::Like(vec![Piece::Star]));
        }
        Ok(Self { text: text.to_owned(), segments })
    }

    /// Whether `path` is of this pattern, for this user. Nobody has no name: `{user}` matches
    /// nothing then, nor does it if the name holds a slash.
    pub fn matches(&self, path: &[u8], user: Option<&str>) -> bool {
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let user = user.filter(|user| !user.is_empty() && !user.contains('/'));
        let (mut segments, mut rest) = (self.segments.as_slice(), names.as_slice());
        let mut retry: Option<(&[Segment], &[&[u8]])> = None;
        loop {
            match (segments.split_first(), rest.split_first()) {
                (Some((Segment::Any, after)), _) => {
                    retry = Some((after, rest));
                    segments = after;
                    continue;
                }
                (Some((Segment::Like(pieces), after)), Some((name, left)))
                    if is_like(pieces, name, user) =>
                {
                    (segments, rest) = (after, left);
                    continue;
                }
                (None, None) => return true,
                _ => {}
            }
            // The last `**` takes one segment more.
            let Some((after, from)) = retry else { return false };
            let Some((_, shorter)) = from.split_first() else { return false };
            retry = Some((after, shorter));
            (segments, rest) = (after, shorter);
        }
    }

    /// Whether every name that begins with `prefix` is of this pattern, as far as it shows.
    pub fn covers_all_below(&self, prefix: &str) -> bool {
        self.text == "**"
            || self
                .text
                .strip_suffix("**")
                .is_some_and(|start| prefix.starts_with(start) && !start.contains(['*', '?', '{']))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Glob({})", self.text)
    }
}

/// LIMIT: bytes of a pattern.
const BYTES_MAX: usize = 1024;
const USER: &str = "{user}";

fn pieces(name: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = name;
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix(USER) {
            pieces.push(Piece::User);
            rest = after;
            continue;
        }
        let (head, after) = rest.split_at(letter.len_utf8());
        rest = after;
        match letter {
            '{' | '}' => return None,
            '*' => pieces.push(Piece::Star),
            '?' => pieces.push(Piece::One),
            _ => pieces.extend(head.bytes().map(Piece::Byte)),
        }
    }
    Some(pieces)
}

/// Whether one segment looks as it should.
fn is_like(pieces: &[Piece], name: &[u8], user: Option<&str>) -> bool {
    if !pieces.contains(&Piece::User) {
        return is_like_plain(pieces, name);
    }
    let Some(user) = user else { return false };
    let spelled = |piece: &Piece| match piece {
        Piece::User => user.bytes().map(Piece::Byte).collect(),
        piece => vec![*piece],
    };
    let pieces: Vec<Piece> = pieces.iter().flat_map(spelled).collect();
    is_like_plain(&pieces, name)
}

fn is_like_plain(pieces: &[Piece], name: &[u8]) -> bool {
    let (mut pieces, mut rest) = (pieces, name);
    let mut retry: Option<(&[Piece], &[u8])> = None;
    loop {
        match (pieces.split_first(), rest.split_first()) {
            (Some((Piece::Star, after)), _) => {
                retry = Some((after, rest));
                pieces = after;
                continue;
            }
            (Some((Piece::Byte(wanted), after)), Some((byte, left))) if wanted == byte => {
                (pieces, rest) = (after, left);
                continue;
            }
            (Some((Piece::One, after)), Some(_)) => {
                (pieces, rest) = (after, without_first_letter(rest));
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        // The last `*` takes one letter more.
        let Some((after, from)) = retry else { return false };
        if from.is_empty() {
            return false;
        }
        let shorter = without_first_letter(from);
        retry = Some((after, shorter));
        (pieces, rest) = (after, shorter);
    }
}

/// A letter is a character of UTF-8, or a byte that is part of none.
fn without_first_letter(bytes: &[u8]) -> &[u8] {
    let first = bytes.utf8_chunks().next();
    let letter = first.and_then(|chunk| chunk.valid().chars().next());
    bytes.get(letter.map_or(1, char::len_utf8)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Glob::parse(pattern).unwrap().matches(path.as_bytes(), Some("ann"))
    }

    #[test]
    fn one_star_stays_within_a_segment() {
        for (pattern, path) in [
            ("a", "a"),
            ("*", "a"),
            ("a*", "a"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*c", "ac"),
            ("a*b*c", "aXbYbZc"),
            ("x/*", "x/y"),
            ("*/y", "x/y"),
            ("v?.*", "v1.2"),
            ("?", "é"),
            ("a[b]", "a[b]"),
            ("refs/heads/*", "refs/heads/main"),
            ("*a*a*a*", "banana"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("a", "A"),
            ("a", "ab"),
            ("*", "a/b"),
            ("a*c", "a/c"),
            ("x/*", "x"),
            ("x/*", "x/y/z"),
            ("?", ""),
            ("?", "ab"),
            ("a?c", "ac"),
            ("refs/heads/*", "refs/heads/a/b"),
            ("*/y", "y"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn two_stars_cross_segments() {
        for (pattern, path) in [
            ("**", "a"),
            ("**", "a/b/c"),
            ("a/**", "a/b"),
            ("a/**", "a/b/c"),
            ("**/c", "c"),
            ("**/c", "a/b/c"),
            ("a/**/c", "a/c"),
            ("a/**/c", "a/x/y/c"),
            ("a/**/b*/**", "a/b1/c"),
            ("**/a/**/a/**", "a/a/a"),
            ("a/**/**", "a/b"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("a/**", "a"),
            ("a/**", "ab"),
            ("a/**", "b/a/c"),
            ("**/c", "a/cc"),
            ("a/**/c", "ac"),
            ("**/a/**/a/**", "a/a"),
            ("a/**/**", "a"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_users_name_stands_for_itself_and_is_no_pattern() {
        let glob = Glob::parse("refs/heads/{user}/**").unwrap();
        let matches = |user, path: &str| glob.matches(path.as_bytes(), user);
        assert!(matches(Some("ann"), "refs/heads/ann/x"));
        assert!(!matches(Some("ann"), "refs/heads/bob/x"));
        assert!(!matches(None, "refs/heads/ann/x") && !matches(None, "refs/heads//x"));
        for trick in ["*", "?", "**", "a*", "", "ann/x"] {
            assert!(!matches(Some(trick), "refs/heads/ann/x/y"), "{trick}");
        }
        assert!(matches(Some("*"), "refs/heads/*/x"));
        assert!(Glob::parse("u-{user}-*").unwrap().matches(b"u-ann-1", Some("ann")));
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_a_reason() {
        let fault = |text: &str| Glob::parse(text).unwrap_err().to_string();
        for text in ["", "/a", "a/", "a//b", "./a", "a/..", "a/./b"] {
            assert!(fault(text).contains("segment that is empty, '.' or '..'"), "{text}");
        }
        assert!(fault("a/b**").contains("must stand alone"));
        assert!(fault("***").contains("must stand alone"));
        for text in ["{", "a}", "{User}", "{group}", "{user"] {
            assert!(fault(text).contains("not '{user}'"), "{text}");
        }
        assert!(fault(&"a".repeat(1025)).contains("at most 1024"));
    }

    #[test]
    fn a_pattern_that_covers_everything_is_known() {
        let covers = |text| Glob::parse(text).unwrap().covers_all_below("refs/");
        assert!(covers("**") && covers("refs/**"));
        assert!(!covers("refs/heads/**") && !covers("*/**") && !covers("refs/*"));
    }

    #[test]
    fn matching_takes_no_longer_than_it_should() {
        let pattern = format!("{}b", "a*".repeat(500));
        assert!(!matches(&pattern, &"a".repeat(3000)));
        let pattern = format!("{}b", "**/a/".repeat(200));
        assert!(!matches(&pattern, &"a/".repeat(1000)));
    }

    /// The same, by trying everything.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => {
                naive(rest, text)
                    || text.split_first().is_some_and(|(_, left)| naive(pattern, left))
            }
            Some((b'?', rest)) => text.split_first().is_some_and(|(_, left)| naive(rest, left)),
            Some((byte, rest)) => {
                text.split_first().is_some_and(|(first, left)| first == byte && naive(rest, left))
            }
        }
    }

    proptest! {
        #[test]
        fn within_a_segment_it_finds_what_trying_everything_finds(
            pattern in "[ab?*]{1,8}",
            text in "[ab]{1,10}",
        ) {
            if let Ok(glob) = Glob::parse(&pattern) {
                let expected = naive(pattern.as_bytes(), text.as_bytes());
                prop_assert_eq!(glob.matches(text.as_bytes(), None), expected);
            }
        }

        #[test]
        fn segments_are_to_paths_what_letters_are_to_a_segment(
            pattern in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "**"]), 1..6),
            path in prop::collection::vec(prop::sample::select(vec!["a", "b"]), 1..7),
        ) {
            // `*` is any one name, `**` any number of them, and one at least at the end.
            let mut letters: String = pattern.iter().map(|part| match *part {
                "*" => "?", "**" => "*", name => name,
            }).collect();
            if letters.ends_with('*') {
                letters.push('?');
            }
            let glob = Glob::parse(&pattern.join("/")).unwrap();
            let expected = naive(letters.as_bytes(), path.concat().as_bytes());
            prop_assert_eq!(glob.matches(path.join("/").as_bytes(), None), expected);
        }

        #[test]
        fn no_bytes_make_it_panic(pattern in ".{0,30}", path in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(glob) = Glob::parse(&pattern) {
                glob.matches(&path, Some("ann"));
            }
        }
    }
}
