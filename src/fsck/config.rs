//! Reading configuration as git does, from bytes that nobody vouches for.
//!
//! Variables come as they are read, so that those before a syntax error are heard of: git acts on
//! them too. The syntax is that of git-config(1), "Syntax", as leniently as git reads it. Names
//! and values may have any bytes; includes are not followed.

/// The bytes are no configuration, from some place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// What a configuration is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// Variables of this section follow: `section` or `section.Subsection`.
    ///
    /// It comes once and not with each variable: a name of a megabyte over a million variables of
    /// two bytes would be looked at a million times.
    Section(&'a [u8]),
    /// A variable of the last section; it has a value if there is an equals sign.
    Variable {
        /// Its name, in lower case.
        key: &'a [u8],
        /// What it is set to.
        value: Option<&'a [u8]>,
    },
}

/// Calls `each` with every section and variable.
pub(super) fn read(data: &[u8], mut each: impl FnMut(Item<'_>)) -> Result<(), Malformed> {
    let data = data.strip_prefix(BYTE_ORDER_MARK).unwrap_or(data);
    let mut reader = Reader { rest: data };
    let (mut name, mut value) = (Vec::new(), Vec::new());
    while let Some(byte) = reader.next() {
        name.clear();
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'#' | b';' => reader.skip_line(),
            b'[' => {
                reader.section(&mut name)?;
                if name.is_empty() {
                    return Err(Malformed);
                }
                each(Item::Section(&name));
            }
            letter if letter.is_ascii_alphabetic() => {
                name.push(letter.to_ascii_lowercase());
                let has_value = reader.variable(&mut name)?;
                if has_value {
                    value.clear();
                    reader.value(&mut value)?;
                }
                each(Item::Variable { key: &name, value: has_value.then_some(&value) });
            }
            _ => return Err(Malformed),
        }
    }
    Ok(())
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    /// The next byte; a carriage return before a line feed is none.
    fn next(&mut self) -> Option<u8> {
        if let Some(rest) = self.rest.strip_prefix(b"\r\n") {
            self.rest = rest;
            return Some(b'\n');
        }
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    /// The next byte, unless the line ends here.
    fn next_in_line(&mut self) -> Option<u8> {
        self.next().filter(|byte| *byte != b'\n')
    }

    fn skip_line(&mut self) {
        while self.next_in_line().is_some() {}
    }

    /// Reads `section]`, `section.subsection]` or `section "subsection"]`.
    fn section(&mut self, name: &mut Vec<u8>) -> Result<(), Malformed> {
        loop {
            match self.next_in_line().ok_or(Malformed)? {
                b']' => return Ok(()),
                b' ' | b'\t' | b'\r' => return self.subsection(name),
                byte if byte == b'.' || is_key_byte(byte) => name.push(byte.to_ascii_lowercase()),
                _ => return Err(Malformed),
            }
        }
    }

    fn subsection(&mut self, name: &mut Vec<u8>) -> Result<(), Malformed> {
        let first = loop {
            match self.next_in_line().ok_or(Malformed)? {
                b' ' | b'\t' | b'\r' => {}
                byte => break byte,
            }
        };
        if first != b'"' {
            return Err(Malformed);
        }
        name.push(b'.');
        loop {
            match self.next_in_line().ok_or(Malformed)? {
                b'"' => break,
                b'\\' => name.push(self.next_in_line().ok_or(Malformed)?),
                byte => name.push(byte),
            }
        }
        if self.next() == Some(b']') { Ok(()) } else { Err(Malformed) }
    }

    /// Reads the rest of a variable's name, and whether an equals sign follows.
    fn variable(&mut self, name: &mut Vec<u8>) -> Result<bool, Malformed> {
        let mut next = self.next_in_line();
        while let Some(byte) = next.filter(|byte| is_key_byte(*byte)) {
            name.push(byte.to_ascii_lowercase());
            next = self.next_in_line();
        }
        while matches!(next, Some(b' ' | b'\t')) {
            next = self.next_in_line();
        }
        match next {
            None => Ok(false),
            Some(b'=') => Ok(true),
            Some(_) => Err(Malformed),
        }
    }

    /// Reads a value to the end of its line. Blanks around it that are not quoted are no part of
    /// it.
    fn value(&mut self, value: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut is_quoted = false;
        // Where blanks began that nothing has followed yet.
        let mut trimmed = None;
        while let Some(byte) = self.next_in_line() {
            match byte {
                b' ' | b'\t' | b'\r' if !is_quoted => {
                    trimmed.get_or_insert(value.len());
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b'#' | b';' if !is_quoted => {
                    self.skip_line();
                    break;
                }
                b'"' => is_quoted = !is_quoted,
                b'\\' => match self.next() {
                    // The value goes on behind the end of the line.
                    None | Some(b'\n') => {}
                    Some(b't') => value.push(b'\t'),
                    Some(b'b') => value.push(b'\x08'),
                    Some(b'n') => value.push(b'\n'),
                    Some(byte @ (b'\\' | b'"')) => value.push(byte),
                    Some(_) => return Err(Malformed),
                },
                byte => value.push(byte),
            }
            trimmed = None;
        }
        if is_quoted {
            return Err(Malformed);
        }
        value.truncate(trimmed.unwrap_or(value.len()));
        Ok(())
    }
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;
    use bstr::ByteSlice;

    fn show(text: &[u8]) -> (Vec<String>, bool) {
        let mut all = Vec::new();
        let result = read(text, |item| {
            all.push(match item {
                Item::Section(name) => format!("[{}]", name.as_bstr()),
                Item::Variable { key, value: None } => key.as_bstr().to_string(),
                Item::Variable { key, value: Some(value) } => {
                    format!("{}={:?}", key.as_bstr(), value.as_bstr())
                }
            });
        });
        (all, result.is_ok())
    }

    #[test]
    fn sections_and_variables_are_read_as_git_does() {
        let text = b"\xef\xbb\xbf[Submodule \"A.b \\\"c\\q\"] Path = x # y\n  uRl=  \" z \" y  \n\
            flag\n[a.B]c-1 = d;e\r\n\te = f \\\n  g\nh\t=";
        let (all, ok) = show(text);
        assert!(ok);
        assert_eq!(
            all,
            [
                r#"[submodule.A.b "cq]"#,
                r#"path="x""#,
                r#"url=" z  y""#,
                "flag",
                "[a.b]",
                r#"c-1="d""#,
                r#"e="f   g""#,
                r#"h="""#,
            ]
        );
    }

    #[test]
    fn variables_before_a_fault_are_heard_of() {
        for bad in [
            "[",
            "[]",
            "[a",
            "[a \"b]",
            "[a \"b\" ]",
            "[a b]",
            "[a \"b\n\"]",
            "=",
            "[a]\n1 = 2",
            "c d",
            "c = \"d",
            "c = \\x",
            "c_d = 1",
            "[a\n]",
            "\u{e9}",
        ] {
            let (all, ok) = show(format!("[s]\nk = v\n{bad}").as_bytes());
            assert!(!ok, "{bad}");
            assert_eq!(all[1], "k=\"v\"", "{bad}");
        }
    }
}
