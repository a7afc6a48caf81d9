//! The words of a line of an access file or a token file.
//!
//! Words are separated by blanks. `#` at the beginning of a word starts a comment. A word in double
//! quotes may hold blanks and anything else, with `\"` and `\\` for a quote and a backslash; it
//! stands for itself and is never a keyword or a group.

/// A word, and whether it was quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word without its quotes.
    pub text: String,
    /// Whether it stood in quotes.
    pub is_quoted: bool,
}

/// A line that has no words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordFault {
    /// It is not UTF-8.
    #[error("the line is not UTF-8")]
    NotUtf8,
    /// It holds a control character.
    #[error("the line holds a control character")]
    Control,
    /// A quote is open at its end.
    #[error("a quote is not closed")]
    OpenQuote,
    /// A quote begins or ends within a word.
    #[error("a quoted word needs a blank before and behind it")]
    QuoteInWord,
    /// A backslash that stands before something else.
    #[error(r#"in quotes a backslash stands before another one or a quote: \\ or \""#)]
    Escape,
}

impl Word {
    /// Whether it is this keyword.
    pub fn is(&self, keyword: &str) -> bool {
        !self.is_quoted && self.text == keyword
    }

    /// The word as it can stand in a file.
    pub fn quoted(text: &str) -> String {
        let is_plain = !text.is_empty()
            && !text.starts_with(['#', '@', '"'])
            && !text.contains(char::is_whitespace)
            && !text.contains('"');
        if is_plain {
            return text.to_owned();
        }
        format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
    }
}

/// Splits a line into its words.
pub fn words(line: &[u8]) -> Result<Vec<Word>, WordFault> {
    let line = std::str::from_utf8(line).map_err(|_| WordFault::NotUtf8)?;
    let mut rest = line.trim();
    if rest.chars().any(|letter| letter.is_control() && letter != '\t') {
        return Err(WordFault::Control);
    }
    let mut found = Vec::new();
    while !rest.is_empty() && !rest.starts_with('#') {
        let (word, after) = match rest.strip_prefix('"') {
            Some(inner) => quoted(inner)?,
            None => plain(rest)?,
        };
        found.push(word);
        rest = after.trim_start();
    }
    Ok(found)
}

fn plain(text: &str) -> Result<(Word, &str), WordFault> {
    let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    if word.contains('"') {
        return Err(WordFault::QuoteInWord);
    }
    Ok((Word { text: word.to_owned(), is_quoted: false }, rest))
}

fn quoted(inner: &str) -> Result<(Word, &str), WordFault> {
    let mut text = String::new();
    let mut letters = inner.chars();
    loop {
        match letters.next().ok_or(WordFault::OpenQuote)? {
            '"' => break,
            '\\' => match letters.next().ok_or(WordFault::OpenQuote)? {
                letter @ ('"' | '\\') => text.push(letter),
                _ => return Err(WordFault::Escape),
            },
            letter => text.push(letter),
        }
    }
    let rest = letters.as_str();
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return Err(WordFault::QuoteInWord);
    }
    Ok((Word { text, is_quoted: true }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(line: &str) -> Vec<String> {
        words(line.as_bytes()).unwrap().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_split_at_blanks_and_end_at_a_comment() {
        assert_eq!(texts("  allow read\tto  @all # all of them"), ["allow", "read", "to", "@all"]);
        assert_eq!(texts("c# x#y"), ["c#", "x#y"]);
        assert!(texts("").is_empty() && texts(" # x").is_empty() && texts("\r").is_empty());
    }

    #[test]
    fn a_quoted_word_is_what_it_says_and_no_keyword() {
        let found = words(br#""Ann Smith" "to" to "a\"b\\c" """#).unwrap();
        let texts: Vec<_> = found.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, ["Ann Smith", "to", "to", r#"a"b\c"#, ""]);
        let keywords: Vec<_> = found.iter().map(|word| word.is("to")).collect();
        assert_eq!(keywords, [false, false, true, false, false]);
    }

    #[test]
    fn what_is_no_word_is_refused() {
        for (line, fault) in [
            (&b"a \xff"[..], WordFault::NotUtf8),
            (b"a\0b", WordFault::Control),
            (b"a\x1bb", WordFault::Control),
            (b"\"a", WordFault::OpenQuote),
            (b"\"a\\", WordFault::OpenQuote),
            (b"a\"b\"", WordFault::QuoteInWord),
            (b"\"a\"b", WordFault::QuoteInWord),
            (b"\"a\\nb\"", WordFault::Escape),
        ] {
            assert_eq!(words(line), Err(fault), "{}", line.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(line in prop::collection::vec(any::<u8>(), 0..80)) {
            drop(words(&line));
        }

        #[test]
        fn what_was_quoted_is_read_back(text in "[ -~äß]{0,20}") {
            let found = words(format!("a {} b", Word::quoted(&text)).as_bytes()).unwrap();
            prop_assert_eq!(found.len(), 3);
            prop_assert_eq!(&found[1].text, &text);
        }
    }
}
