//! Requests that are taken.

use super::*;

#[test]
fn a_push_is_read_and_the_pack_is_left() {
    let mut bytes = packets(&[
        format!("shallow {OLD}").as_bytes(),
        format!("shallow {NEW}\n").as_bytes(),
        &command(OLD, NEW, "refs/heads/a\0 report-status-v2 side-band-64k agent=git/2\n"),
        &command(ZERO, NEW, "refs/heads/b\n"),
        &command(OLD, ZERO, "refs/heads/c"),
        b"",
    ]);
    let request_bytes = bytes.len();
    bytes.extend_from_slice(b"PACK\0\0\0\x02");
    let id = |hex: &str| ObjectId::from_hex(hex.as_bytes()).unwrap();
    let expected = PushRequest {
        certificate: None,
        shallow: vec![id(OLD), id(NEW)],
        commands: vec![
            Command::new(id(OLD), id(NEW), "refs/heads/a"),
            Command::new(id(ZERO), id(NEW), "refs/heads/b"),
            Command::new(id(OLD), id(ZERO), "refs/heads/c"),
        ],
        capabilities: ClientCapabilities {
            report_status: ReportStatusVersion::V2,
            side_band_64k: true,
            agent: Some("git/2".into()),
            ..ClientCapabilities::default()
        },
        push_options: vec![],
        expects_pack: true,
    };
    assert_eq!(parse(&bytes), Ok((Request::Push(expected), request_bytes)));
}

#[test]
fn a_lone_flush_is_a_probe_and_so_are_shallow_lines_without_commands() {
    assert_eq!(parse(b"0000PACK"), Ok((Request::Probe, 4)));
    let shallow = packets(&[format!("shallow {OLD}").as_bytes(), b""]);
    assert_eq!(parse(&shallow), Ok((Request::Probe, shallow.len())));
}

#[test]
fn shallow_lines_may_stand_anywhere_in_the_list() {
    let bytes = packets(&[
        &command(OLD, NEW, "refs/heads/a"),
        format!("shallow {OLD}").as_bytes(),
        &command(OLD, NEW, "refs/heads/b"),
        b"",
    ]);
    assert_eq!(push(&bytes).shallow.len(), 1);
    assert_eq!(push(&bytes).commands.len(), 2);
}

#[test]
fn only_deletions_expect_no_pack() {
    let deletion = command(OLD, ZERO, "refs/heads/a");
    let of_nothing = command(ZERO, ZERO, "refs/heads/b");
    assert!(!push(&packets(&[&deletion, &of_nothing, b""])).expects_pack);
    let creation = command(ZERO, NEW, "refs/heads/c");
    assert!(push(&packets(&[&deletion, &creation, b""])).expects_pack);
}

#[test]
fn hex_digits_may_have_either_case() {
    let upper = "ABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD";
    let bytes = packets(&[&command(upper, &upper.to_lowercase(), "refs/heads/a"), b""]);
    let command = &push(&bytes).commands[0];
    assert_eq!(command.old, command.new);
}

#[test]
fn names_are_kept_byte_for_byte() {
    for name in [
        &b"refs/heads/\xff\xfe\x80"[..],
        b"",
        b"HEAD",
        b" ",
        b"refs/heads/a b",
        b"refs/heads/a\nb",
        b"../../etc/passwd",
        b"shallow ",
        b"push-cert",
    ] {
        let line = [format!("{OLD} {NEW} ").as_bytes(), name].concat();
        assert_eq!(push(&packets(&[&line, b""])).commands[0].name, name, "{}", name.as_bstr());
    }
}

#[test]
fn one_trailing_line_feed_is_dropped() {
    let bytes = packets(&[&command(OLD, NEW, "refs/heads/a\n\n"), b""]);
    assert_eq!(push(&bytes).commands[0].name, "refs/heads/a\n");
}

#[test]
fn a_name_ends_at_a_nul() {
    let bytes = packets(&[
        &command(OLD, NEW, "refs/heads/a\0"),
        &command(OLD, NEW, "refs/heads/b\0refs/heads/c"),
        b"",
    ]);
    let names: Vec<_> = push(&bytes).commands.into_iter().map(|c| c.name).collect();
    assert_eq!(names, ["refs/heads/a", "refs/heads/b"]);
}

#[test]
fn capabilities_are_taken_from_any_command_and_add_up() {
    let bytes = packets(&[
        &command(OLD, NEW, "refs/heads/a"),
        &command(OLD, NEW, "refs/heads/b\0report-status-v2"),
        &command(OLD, NEW, "refs/heads/c\0quiet"),
        b"",
    ]);
    let capabilities = push(&bytes).capabilities;
    assert_eq!(capabilities.report_status, ReportStatusVersion::V2);
    assert!(capabilities.quiet);
}

#[test]
fn what_was_not_offered_cannot_be_chosen() {
    let offer =
        ServerCapabilities { atomic: false, push_options: false, ..offered(HashKind::Sha1) };
    let bytes = packets(&[&command(OLD, NEW, "r\0atomic push-options quiet"), b"", b"x", b""]);
    let (outcome, _) = run(RequestParser::new(&offer, &Limits::default()), [&bytes[..]]);
    let Ok((Request::Push(push), consumed)) = outcome else { panic!("{outcome:?}") };
    assert!(!push.capabilities.atomic && !push.capabilities.push_options);
    assert!(push.capabilities.quiet);
    assert_eq!(&bytes[consumed..], b"0005x0000", "options would be read as pack, as in git");
}

#[test]
fn duplicate_refs_stay_two_commands() {
    let bytes = packets(&[&command(ZERO, OLD, "r"), &command(ZERO, NEW, "r"), b""]);
    assert_eq!(push(&bytes).commands.len(), 2);
}
