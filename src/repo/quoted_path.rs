//! Paths in lists that a separator divides: quoted the C way where they hold it.
//!
//! git's rules for `objects/info/alternates` and `GIT_ALTERNATE_OBJECT_DIRECTORIES`
//! (gitrepository-layout(5), git(1)).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Takes a list apart. Empty entries and comments, which start with `#`, are left out; an entry
/// whose quotes do not close is taken as it stands.
pub(super) fn split(list: &[u8], separator: u8) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let (entry, after) = unquote(rest).unwrap_or_else(|| {
            let end = rest.iter().position(|byte| *byte == separator).unwrap_or(rest.len());
            let (entry, after) = rest.split_at(end);
            let is_comment = entry.starts_with(b"#");
            (if is_comment { Vec::new() } else { entry.to_vec() }, after)
        });
        if !entry.is_empty() {
            paths.push(PathBuf::from(OsString::from_vec(entry)));
        }
        rest = after.get(1..).unwrap_or_default();
    }
    paths
}

/// A path as an entry of a list that colons divide; quoted only if it must be, since older
/// readers do not know quotes.
pub(super) fn entry(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    if !bytes.starts_with(b"\"") && !bytes.contains(&b':') {
        return path.as_os_str().to_owned();
    }
    let mut quoted = vec![b'"'];
    for byte in bytes {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b' '..=b'~' => quoted.push(*byte),
            _ => quoted.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}

/// Takes one quoted entry off the front; `None` if there is none that closes.
fn unquote(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut out = Vec::new();
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((out, rest)),
            b'\\' => {
                let (escape, after) = rest.split_first()?;
                rest = after;
                out.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => *escape,
                    b'0'..=b'3' => {
                        let digits = rest.get(..2)?;
                        rest = rest.get(2..)?;
                        let octal = [&[*escape], digits].concat();
                        u8::from_str_radix(std::str::from_utf8(&octal).ok()?, 8).ok()?
                    }
                    _ => return None,
                });
            }
            _ => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(list: &str, separator: u8) -> Vec<String> {
        let paths = split(list.as_bytes(), separator);
        paths.into_iter().map(|path| path.into_os_string().into_string().unwrap()).collect()
    }

    #[test]
    fn lists_are_taken_apart() {
        assert_eq!(parts("/a\n/b\n", b'\n'), ["/a", "/b"]);
        assert_eq!(parts("# /a\n\n\"/b\\tc\\\"\"\n/d#", b'\n'), ["/b\tc\"", "/d#"]);
        assert_eq!(parts("/a::\"/b:c\":/d", b':'), ["/a", "/b:c", "/d"]);
        assert_eq!(parts("\"\\141\\061\"", b':'), ["a1"]);
    }

    #[test]
    fn broken_quotes_are_taken_as_they_stand() {
        for broken in ["\"/a", "\"/a\\q\"", "\"\\4\"", "\"\\189\"", "\"\\"] {
            assert_eq!(parts(broken, b'\n'), [broken]);
        }
    }

    #[test]
    fn a_plain_path_stays_plain() {
        assert_eq!(entry(Path::new("/a \"b\"")), "/a \"b\"");
        assert_eq!(entry(Path::new("/a:b\"")), "\"/a:b\\\"\"");
    }

    proptest! {
        #[test]
        fn an_entry_is_read_back(bytes in proptest::collection::vec(any::<u8>(), 1..30)) {
            prop_assume!(bytes[0] != b'#' && !bytes.contains(&0));
            let path = PathBuf::from(OsString::from_vec(bytes));
            prop_assert_eq!(split(entry(&path).as_bytes(), b':'), [path]);
        }

        #[test]
        fn no_list_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            split(&bytes, b':');
        }
    }
}
