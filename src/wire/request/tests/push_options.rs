//! The list of push options after the commands.

use super::*;

fn with_options(options: &[&[u8]]) -> Vec<u8> {
    let mut out = packets(&[&command(OLD, NEW, "refs/heads/a\0push-options"), b""]);
    for option in options {
        encode_data(&mut out, &[option]).unwrap();
    }
    encode_flush(&mut out);
    out
}

#[test]
fn they_are_read_up_to_the_next_flush_if_the_client_chose_them() {
    let bytes =
        with_options(&[b"a=b", b"PACK x", b"with \"quotes\"\n", b"\xff", b"0000", b"ERR x"]);
    let (request, consumed) = parse(&[&bytes[..], b"PACK"].concat()).unwrap();
    let Request::Push(push) = request else { panic!("{request:?}") };
    let expected: [&[u8]; 6] = [b"a=b", b"PACK x", b"with \"quotes\"", b"\xff", b"0000", b"ERR x"];
    assert_eq!(push.push_options, expected);
    assert_eq!(consumed, bytes.len());
}

#[test]
fn there_may_be_none_or_empty_ones() {
    assert_eq!(push(&with_options(&[])).push_options, Vec::<BString>::new());
    assert_eq!(push(&with_options(&[b"", b"\n", b"x"])).push_options, ["", "", "x"]);
}

#[test]
fn they_come_with_a_deletion_too() {
    let mut bytes = packets(&[&command(OLD, ZERO, "r\0push-options"), b""]);
    bytes.extend(packets(&[b"x", b""]));
    let (request, consumed) = parse(&bytes).unwrap();
    let Request::Push(push) = request else { panic!("{request:?}") };
    assert_eq!(push.push_options, ["x"]);
    assert_eq!(consumed, bytes.len());
}

#[test]
fn a_client_that_did_not_choose_them_sends_none() {
    let commands = packets(&[&command(OLD, NEW, "refs/heads/a\0quiet"), b""]);
    let bytes = [&commands[..], &packets(&[b"x", b""])].concat();
    assert_eq!(parse(&bytes).unwrap().1, commands.len());
}

#[test]
fn they_hold_no_nul_and_no_line_feed() {
    for option in [&b"a\0b"[..], b"\0", b"a\nb", b"a\n\n"] {
        let error = parse(&with_options(&[b"x", option])).unwrap_err();
        assert!(matches!(error.fault, RequestFault::PushOptionByte(_)), "{error}");
        let commands = packets(&[&command(OLD, NEW, "refs/heads/a\0push-options"), b""]);
        assert_eq!(error.offset, u64::try_from(commands.len() + 5).unwrap());
    }
}

#[test]
fn what_the_client_chose_is_known_before_they_end() {
    let bytes = with_options(&[b"x"]);
    let commands = packets(&[&command(OLD, NEW, "refs/heads/a\0push-options"), b""]);
    let mut parser = parser();
    parser.feed(&bytes[..commands.len() - 1]).unwrap();
    assert_eq!(parser.capabilities(), None);
    parser.feed(&bytes[commands.len() - 1..commands.len()]).unwrap();
    assert!(parser.capabilities().unwrap().push_options);
}
