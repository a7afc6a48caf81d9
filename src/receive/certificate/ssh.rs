//! What `ssh-keygen -Y` says of a signature (ssh-keygen(1)), read as git 2.47 reads it
//! (`gpg-interface.c`).

use super::signature::{CheckedSignature, SignatureStatus};
use bstr::ByteSlice;

/// The principals in what `find-principals` said, one a line.
pub(super) fn principals(said: &[u8]) -> impl Iterator<Item = &[u8]> {
    said.split_inclusive(|byte| *byte == b'\n')
        .map(|line| match line.strip_suffix(b"\n") {
            Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
            None => line,
        })
        .filter(|line| !line.is_empty())
}

/// Whether `verify` took the signature, going by what it said.
pub(super) fn is_taken(said: &[u8]) -> bool {
    said.starts_with(b"Good")
}

/// Reads the verdict, whose first line is
/// `Good "git" signature for PRINCIPAL with TYPE key FINGERPRINT`, or has no `for PRINCIPAL` if the
/// key is nobody's. A principal may be any words; what stands behind it may not.
pub(super) fn read_verdict(said: &[u8]) -> CheckedSignature {
    let bad = CheckedSignature { status: SignatureStatus::Bad, ..CheckedSignature::default() };
    let line = first_line(said);
    let (signer, rest) = if let Some(rest) = line.strip_prefix(b"Good \"git\" signature for ") {
        let Some(at) = rest.rfind(b" with ") else { return bad };
        (rest.get(..at), rest.get(at..).unwrap_or_default())
    } else if let Some(rest) = line.strip_prefix(b"Good \"git\" signature with ") {
        (None, rest)
    } else {
        return bad;
    };
    let Some((_, key)) = rest.split_once_str(b"key ") else {
        return CheckedSignature { signer: signer.map(Into::into), ..bad };
    };
    let signer = signer.map(Into::into);
    CheckedSignature { status: SignatureStatus::Good, signer, key: Some(key.into()) }
}

/// The first line that has something in it, without the blanks at its end.
fn first_line(said: &[u8]) -> &[u8] {
    let mut lines = said.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(said: &str) -> (char, Option<String>, Option<String>) {
        let CheckedSignature { status, signer, key } = read_verdict(said.as_bytes());
        (status.letter(), key.map(|key| key.to_string()), signer.map(|signer| signer.to_string()))
    }

    #[test]
    fn a_principal_may_have_any_words_in_it() {
        for principal in ["a", "principal with number 1", "with key x", "x with RSA key y"] {
            let said =
                format!("Good \"git\" signature for {principal} with ED25519 key SHA256:abc\n");
            let expected = ('G', Some("SHA256:abc".into()), Some(principal.to_owned()));
            assert_eq!(read(&said), expected);
        }
    }

    #[test]
    fn a_key_that_is_nobodys_makes_a_good_signature_of_nobody() {
        let said = "Good \"git\" signature with ED25519 key SHA256:abc\n";
        assert_eq!(read(said), ('G', Some("SHA256:abc".into()), None));
    }

    #[test]
    fn everything_else_is_bad() {
        for said in [
            "",
            "\n",
            "Could not verify signature.\n",
            "Good \"file\" signature for a with ED25519 key SHA256:abc\n",
            "Good \"git\" signature for a\n",
            "Could not\nGood \"git\" signature for a with ED25519 key SHA256:abc\n",
        ] {
            assert_eq!(read(said), ('B', None, None), "{said:?}");
        }
        let keyless = "Good \"git\" signature for a with ED25519\n";
        assert_eq!(read(keyless), ('B', None, Some("a".into())));
        assert_eq!(read("Good \"git\" signature with ED25519\n"), ('B', None, None));
    }

    #[test]
    fn blanks_around_the_verdict_are_none_of_it() {
        let said = "\n \nGood \"git\" signature for a with ED25519 key SHA256:abc \r\nmore\n";
        assert_eq!(read(said), ('G', Some("SHA256:abc".into()), Some("a".into())));
    }

    #[test]
    fn principals_stand_one_a_line() {
        let found: Vec<&[u8]> = principals(b"a b\n\nc\r\nd\re\n\r\nf").collect();
        assert_eq!(found, [&b"a b"[..], b"c", b"d\re", b"f"]);
    }
}
