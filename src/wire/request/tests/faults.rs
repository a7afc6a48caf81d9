//! Requests that are refused, and with which words.

use super::*;

#[test]
fn an_end_of_input_before_the_end_of_the_request_is_a_hang_up_at_every_byte() {
    let bytes = packets(&[&command(OLD, NEW, "r\0push-options\n"), b"", b"option", b""]);
    for length in 0..bytes.len() {
        let error = parse(&bytes[..length]).unwrap_err();
        assert_eq!(error.fault, RequestFault::HungUp);
        assert_eq!(error.offset, u64::try_from(length).unwrap());
    }
    assert!(parse(&bytes).is_ok());
    assert_eq!(
        RequestFault::HungUp.to_string(),
        "the remote end hung up unexpectedly",
        "git's own words"
    );
}

#[test]
fn framing_faults_are_told_where_they_are() {
    let first = packets(&[&command(OLD, NEW, "r")]);
    for (bad, error) in [
        (b"0003", PktLineError::TooShort(3)),
        (b"zzzz", PktLineError::BadDigits(*b"zzzz")),
        (b"00 5", PktLineError::BadDigits(*b"00 5")),
        (b"+005", PktLineError::BadDigits(*b"+005")),
        (b"PACK", PktLineError::BadDigits(*b"PACK")),
        (b"ffff", PktLineError::TooLong(65535)),
    ] {
        let offset = u64::try_from(first.len()).unwrap();
        let fault = RequestFault::PktLine(error);
        assert_eq!(parse(&[&first[..], bad].concat()), Err(RequestError { offset, fault }));
    }
}

#[test]
fn markers_of_version_two_end_nothing() {
    let list = packets(&[&command(OLD, NEW, "r\0push-options")]);
    for marker in [b"0001", b"0002"] {
        assert_eq!(fault(marker), RequestFault::UnexpectedPacket);
        assert_eq!(fault(&[&list[..], marker].concat()), RequestFault::UnexpectedPacket);
        assert_eq!(fault(&[&list[..], b"0000", marker].concat()), RequestFault::UnexpectedPacket);
    }
}

#[test]
fn lines_that_are_no_command_are_refused() {
    let short = &OLD[1..];
    for line in [
        format!("{OLD} {NEW}"),
        format!("{OLD} {NEW}refs/heads/a"),
        format!("{OLD}{NEW} refs/heads/a"),
        format!("{OLD} {NEW}\trefs/heads/a"),
        format!("{OLD}  {NEW} refs/heads/a"),
        format!(" {OLD} {NEW} refs/heads/a"),
        format!("{short} {NEW} refs/heads/a"),
        format!("{OLD} {short} refs/heads/a"),
        format!("1{OLD} {NEW} refs/heads/a"),
        format!("{OLD} {NEW}2 refs/heads/a"),
        format!("{OLD} {short}g refs/heads/a"),
        format!("{OLD} {short}\0 refs/heads/a"),
        format!("x{short} {NEW} refs/heads/a"),
        format!("{OLD}\0{NEW} refs/heads/a"),
        format!("{OLD} é{} refs/heads/a", &NEW[2..]),
        "shallow".into(),
        "push-cert x".into(),
        "\0report-status".into(),
        "\n".into(),
        "ERR no".into(),
    ] {
        let fault = fault(&packets(&[line.as_bytes(), b""]));
        assert!(matches!(fault, RequestFault::BadCommand(_)), "{line:?}: {fault}");
    }
    assert_eq!(
        fault(b"00040000").to_string(),
        "protocol error: expected old/new/ref, got ''",
        "git's own words for an empty packet"
    );
}

#[test]
fn shallow_lines_hold_an_id_and_nothing_else() {
    for rest in ["", " ", "x", &OLD[1..], &format!("{OLD} "), &format!("{OLD}\0quiet")] {
        let fault = fault(&packets(&[format!("shallow {rest}").as_bytes(), b""]));
        assert!(matches!(fault, RequestFault::BadShallow(_)), "{rest:?}: {fault}");
    }
}

#[test]
fn what_is_repeated_of_a_bad_line_is_short_and_printable() {
    let line = [&b"\x1b]0;\xff\n"[..], &vec![b'x'; 60_000]].concat();
    let message = fault(&packets(&[&line, b""])).to_string();
    assert!(message.len() < 300, "{}", message.len());
    assert!(message.starts_with(r"protocol error: expected old/new/ref, got '\x1b]0;\xff\nx"));
}

#[test]
fn ids_of_the_other_hash_are_named() {
    let long = "3".repeat(64);
    for line in [
        format!("{long} {long} refs/heads/a"),
        format!("{OLD} {long} refs/heads/a"),
        format!("shallow {long}"),
    ] {
        let fault = fault(&packets(&[line.as_bytes(), b""]));
        assert!(matches!(fault, RequestFault::ForeignObjectId { .. }), "{line}: {fault}");
        assert!(
            fault
                .to_string()
                .starts_with("protocol error: expected object ids of 40 hex digits (sha1), got '"),
            "{fault}"
        );
    }
}
