//! What `gpg` and `gpgsm` say of a signature on their status descriptor.
//!
//! The lines are those of GnuPG's doc/DETAILS, read as git 2.47 reads them (`gpg-interface.c`). More
//! than one verdict means more than one signature, which nobody makes in good faith: nothing of it
//! is believed.

use super::settings::TRUST_LEVELS;
use super::signature::{CheckedSignature, SignatureStatus};
use bstr::{BString, ByteSlice};

/// Reads the lines of the status descriptor.
pub(super) fn read_status(said: &[u8]) -> CheckedSignature {
    let mut checked = CheckedSignature::default();
    let mut is_decided = false;
    for line in said.split(|byte| *byte == b'\n') {
        let Some(line) = line.strip_prefix(b"[GNUPG:] ") else { continue };
        if let Some(level) = line.strip_prefix(b"TRUST_") {
            let level = level.split(|byte| *byte == b' ').next().unwrap_or_default();
            if !TRUST_LEVELS.contains(&level) {
                return CheckedSignature::unchecked();
            }
            continue;
        }
        let Some((verdict, rest)) = verdict(line) else { continue };
        if std::mem::replace(&mut is_decided, true) {
            return CheckedSignature::unchecked();
        }
        let (key, signer) = match rest.split_once_str(b" ") {
            Some((key, signer)) => (key, Some(signer)),
            None => (rest, None),
        };
        checked.status = verdict;
        checked.key = Some(key.into());
        // Behind the key of a signature that could not be checked stand numbers.
        if verdict != SignatureStatus::Unchecked {
            checked.signer = signer.map(BString::from);
        }
    }
    checked
}

/// The verdict in a line, and what stands behind it.
fn verdict(line: &[u8]) -> Option<(SignatureStatus, &[u8])> {
    let (word, rest) = line.split_once_str(b" ")?;
    let status = match word {
        b"GOODSIG" => SignatureStatus::Good,
        b"BADSIG" => SignatureStatus::Bad,
        b"ERRSIG" => SignatureStatus::Unchecked,
        b"EXPSIG" => SignatureStatus::Expired,
        b"EXPKEYSIG" => SignatureStatus::KeyExpired,
        b"REVKEYSIG" => SignatureStatus::KeyRevoked,
        _ => return None,
    };
    Some((status, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(said: &str) -> (char, Option<String>, Option<String>) {
        let CheckedSignature { status, signer, key } = read_status(said.as_bytes());
        let text = |text: Option<BString>| text.map(|text| text.to_string());
        (status.letter(), text(key), text(signer))
    }

    #[test]
    fn a_good_signature_has_a_key_and_a_signer() {
        let said = "[GNUPG:] NEWSIG\n[GNUPG:] KEY_CONSIDERED 73D7 0\n\
            [GNUPG:] SIG_ID x 2023-11-14 1700000000\n\
            [GNUPG:] GOODSIG 13B6F51ECDDE430D C O Mitter <committer@example.com>\n\
            [GNUPG:] VALIDSIG 73D758744BE721698EC54E8713B6F51ECDDE430D 2023-11-14 1700000000 0 4\n\
            [GNUPG:] TRUST_ULTIMATE 0 pgp\n";
        let signer = "C O Mitter <committer@example.com>".to_owned();
        assert_eq!(read(said), ('G', Some("13B6F51ECDDE430D".into()), Some(signer)));
    }

    #[test]
    fn every_verdict_has_its_letter() {
        for (word, letter) in [
            ("GOODSIG", 'G'),
            ("BADSIG", 'B'),
            ("EXPSIG", 'X'),
            ("EXPKEYSIG", 'Y'),
            ("REVKEYSIG", 'R'),
        ] {
            let said = format!("[GNUPG:] {word} K S T\n");
            assert_eq!(read(&said), (letter, Some("K".into()), Some("S T".into())), "{word}");
        }
        let said = "[GNUPG:] ERRSIG 61092E85B7227189 1 10 00 1700000000 9\n";
        assert_eq!(read(said), ('E', Some("61092E85B7227189".into()), None));
    }

    #[test]
    fn what_says_nothing_is_nothing() {
        for said in [
            "",
            "\n\n",
            "GOODSIG K S\n",
            " [GNUPG:] GOODSIG K S\n",
            "[GNUPG:]GOODSIG K S\n",
            "[GNUPG:] GOODSIG\n",
            "[GNUPG:] NODATA 4\n[GNUPG:] FAILURE verify 1\n",
            "[GNUPG:] TRUST_NEVER\n",
        ] {
            assert_eq!(read(said), ('N', None, None), "{said:?}");
        }
    }

    #[test]
    fn of_two_verdicts_none_is_believed() {
        let good = "[GNUPG:] GOODSIG K S\n";
        for other in ["GOODSIG K S", "BADSIG K S", "ERRSIG K"] {
            let other = format!("[GNUPG:] {other}\n");
            for said in [format!("{good}{other}"), format!("{other}{good}")] {
                assert_eq!(read(&said), ('E', None, None), "{said}");
            }
        }
    }

    #[test]
    fn a_trust_that_nobody_knows_is_not_believed() {
        let said = |level: &str| format!("[GNUPG:] GOODSIG K S\n[GNUPG:] TRUST_{level}\n");
        assert_eq!(read(&said("FULLY 0 pgp")).0, 'G');
        assert_eq!(read(&said("UNDEFINED")).0, 'G');
        for level in ["", "fully", "FULLYX", "TOTAL 0"] {
            assert_eq!(read(&said(level)), ('E', None, None), "{level}");
        }
    }

    #[test]
    fn a_last_line_needs_no_line_feed_and_a_signer_may_be_any_bytes() {
        assert_eq!(read("[GNUPG:] GOODSIG K S"), ('G', Some("K".into()), Some("S".into())));
        let checked = read_status(b"[GNUPG:] GOODSIG K \xff [GNUPG:] BADSIG\n");
        assert_eq!(checked.signer, Some(b"\xff [GNUPG:] BADSIG".into()));
        assert_eq!(read("[GNUPG:] GOODSIG K \n"), ('G', Some("K".into()), Some(String::new())));
    }

    proptest! {
        #[test]
        fn a_signer_says_nothing_of_his_own_signature(
            bytes in prop::collection::vec(any::<u8>().prop_filter("LF", |b| *b != b'\n'), 0..60),
        ) {
            let said = [b"[GNUPG:] BADSIG K ", &bytes[..], b"\n"].concat();
            prop_assert_eq!(read_status(&said).status, SignatureStatus::Bad);
        }
    }
}
