//! Push certificates: what is read from them, and which are none.

use super::*;
use crate::wire::testing::{git, git_ok};

const SSH: &[u8] = b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n";

/// A certificate of these commands, under headers as git's client writes them.
fn certificate(commands: &[&str]) -> Vec<u8> {
    let mut text = b"certificate version 0.1\npusher C O Mitter 1700000000 +0000\n\
        pushee /srv/r.git\nnonce 1700000000-ab\n\n"
        .to_vec();
    for command in commands {
        text.extend(format!("{OLD} {NEW} {command}\n").into_bytes());
    }
    text.extend(SSH);
    text
}

/// A request whose certificate comes in a packet for each line.
fn signed(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let front = [&b"push-cert\0report-status"[..]].into_iter();
    packets(&front.chain(lines).chain([&b"push-cert-end\n"[..], b""]).collect::<Vec<_>>())
}

fn certificate_of(text: &[u8]) -> PushCertificate {
    push(&signed(text)).certificate.unwrap()
}

#[test]
fn the_commands_are_those_that_were_signed() {
    let text = certificate(&["refs/heads/a", "refs/heads/b c"]);
    let push = push(&signed(&text));
    let names: Vec<_> = push.commands.iter().map(|command| command.name.clone()).collect();
    assert_eq!(names, ["refs/heads/a", "refs/heads/b c"]);
    assert_eq!(push.capabilities.report_status, ReportStatusVersion::V1);
    let certificate = push.certificate.unwrap();
    assert_eq!(certificate.text(), text.as_bstr());
    assert_eq!(certificate.signature().as_bstr(), SSH.as_bstr());
    assert_eq!([certificate.payload(), certificate.signature()].concat(), text);
    assert_eq!(certificate.format(), SignatureFormat::Ssh);
    assert_eq!(certificate.nonce(), Some("1700000000-ab".into()));
}

#[test]
fn how_a_certificate_is_cut_into_packets_makes_no_difference() {
    let text = certificate(&["refs/heads/a", "refs/heads/b"]);
    let whole = certificate_of(&text);
    for size in [1, 2, 7, 1000] {
        let pieces: Vec<&[u8]> = [&b"push-cert"[..]]
            .into_iter()
            .chain(text.chunks(size))
            .chain([&b"push-cert-end\n"[..], b""])
            .collect();
        assert_eq!(push(&packets(&pieces)).certificate, Some(whole.clone()));
    }
    // An empty packet is no flush.
    let bytes = packets(&[b"push-cert", &text, b"push-cert-end\n", b""]);
    let with_empty = bytes.replacen("push-cert", "push-cert0004", 1);
    assert_eq!(push(&with_empty).certificate, Some(whole));
}

#[test]
fn a_signature_is_known_by_its_armour() {
    for (armour, format) in [
        ("-----BEGIN PGP SIGNATURE-----", SignatureFormat::OpenPgp),
        ("-----BEGIN PGP MESSAGE-----", SignatureFormat::OpenPgp),
        ("-----BEGIN SIGNED MESSAGE-----", SignatureFormat::X509),
        ("-----BEGIN SSH SIGNATURE-----", SignatureFormat::Ssh),
    ] {
        for end in ["", "\n", "\nVersion: 1\n\nAAAA\n"] {
            let text = format!("nonce a\n\n{OLD} {NEW} r\n{armour}{end}");
            assert_eq!(certificate_of(text.as_bytes()).format(), format, "{text}");
        }
    }
}

#[test]
fn of_several_signatures_the_last_one_counts() {
    let armour = "-----BEGIN PGP SIGNATURE-----";
    let text = format!("{armour}\n\n{OLD} {NEW} r\n{armour}\n");
    let certificate = certificate_of(text.as_bytes());
    assert_eq!(certificate.payload(), format!("{armour}\n\n{OLD} {NEW} r\n").as_bytes());
    // As in git, one among the commands is a command that cannot be read.
    let text = format!("x\n\n{armour}\n{OLD} {NEW} r\n{armour}\n");
    assert!(matches!(fault(&signed(text.as_bytes())), RequestFault::BadCommand(_)));
}

#[test]
fn headers_end_at_the_first_empty_line_and_the_first_of_two_counts() {
    let read = |headers: &str| {
        let text = format!("{headers}\n{OLD} {NEW} r\n-----BEGIN SSH SIGNATURE-----\n");
        let certificate = certificate_of(text.as_bytes());
        let options: Vec<_> = certificate.push_options().map(ToString::to_string).collect();
        (certificate.nonce().map(ToString::to_string), options.join("|"))
    };
    assert_eq!(read("x\n"), (None, String::new()));
    assert_eq!(read("nonce a\nnonce b\n"), (Some("a".into()), String::new()));
    assert_eq!(read("nonce\n"), (None, String::new()));
    assert_eq!(read("nonces a\n nonce b\nNonce c\n"), (None, String::new()));
    assert_eq!(read("nonce \n"), (Some(String::new()), String::new()));
    assert_eq!(read("\nnonce a\n").0, None, "nothing stands before the empty line");
    let options = "push-option a b\nnonce n\npush-option \npush-option c\n";
    assert_eq!(read(options), (Some("n".into()), "a b||c".into()));
}

#[test]
fn what_is_no_certificate_is_refused() {
    let command = format!("{OLD} {NEW} r\n");
    let armour = "-----BEGIN SSH SIGNATURE-----\n";
    for text in [
        format!("x\n{command}{armour}"),
        format!("x\n\n{armour}"),
        format!("x\n{armour}\n{command}"),
        armour.to_owned(),
    ] {
        let fault = fault(&signed(text.as_bytes()));
        assert!(matches!(fault, RequestFault::MalformedCertificate(_)), "{text:?}: {fault}");
    }
    for text in [String::new(), format!("x\n\n{command}"), format!("x\n\n{command} {armour}")] {
        assert_eq!(fault(&signed(text.as_bytes())), RequestFault::UnsignedCertificate, "{text:?}");
    }
    for commands in ["\n", "nonsense\n", &format!("{command}\n"), "push-cert-end\r\n"] {
        let text = format!("x\n\n{commands}{armour}");
        assert!(matches!(fault(&signed(text.as_bytes())), RequestFault::BadCommand(_)), "{text:?}");
    }
    let nul = format!("x\n\n{OLD} {NEW} r\0report-status\n{armour}");
    assert!(matches!(fault(&signed(nul.as_bytes())), RequestFault::CertificateByte(_)));
    let other = format!("x\n\n{OLD} {} r\n{armour}", "3".repeat(64));
    assert!(matches!(fault(&signed(other.as_bytes())), RequestFault::ForeignObjectId { .. }));
}

#[test]
fn a_certificate_ends_where_it_says_so() {
    let text = certificate(&["r"]);
    for end in [&b"push-cert-end"[..], b"push-cert-end \n", b"push-cert-end\n\n", b"x"] {
        let bytes = packets(&[b"push-cert", &text, end, b""]);
        assert_eq!(fault(&bytes), RequestFault::UnendedCertificate, "{}", end.as_bstr());
    }
    let open = packets(&[b"push-cert", &text]);
    assert_eq!(fault(&open), RequestFault::HungUp);
    for marker in [b"0001", b"0002"] {
        let bytes = [&open[..], marker].concat();
        assert_eq!(fault(&bytes), RequestFault::UnexpectedPacket);
    }
}

#[test]
fn a_certificate_stands_alone_but_for_shallow_lines() {
    let text = certificate(&["r"]);
    let lines: [&[u8]; 3] = [b"push-cert", &text, b"push-cert-end\n"];
    let command = command(OLD, NEW, "s");
    let shallow = format!("shallow {OLD}").into_bytes();
    let with =
        |before: &[&[u8]], after: &[&[u8]]| packets(&[before, &lines[..], after, &[b""]].concat());
    assert_eq!(push(&with(&[&shallow], &[&shallow])).shallow.len(), 2);
    for mixed in [with(&[&command], &[]), with(&[], &[&command])] {
        assert_eq!(fault(&mixed), RequestFault::UnsignedCommands);
    }
    assert_eq!(fault(&with(&lines, &[])), RequestFault::RepeatedCertificate);
    assert_eq!(fault(&with(&[], &[b"push-cert"])), RequestFault::RepeatedCertificate);
    assert_eq!(
        fault(&packets(&[b"push-cert", b"push-cert-end\n", &command, b""])),
        RequestFault::UnsignedCommands
    );
}

#[test]
fn a_certificate_is_held_to_the_limits_of_the_command_list() {
    let text = certificate(&["a", "b", "c"]);
    let bytes = signed(&text);
    let run_with =
        |limits: Limits| run(RequestParser::new(&offered(HashKind::Sha1), &limits), [&bytes[..]]).0;
    let size = u64::try_from(bytes.len() - "0000".len()).unwrap();
    assert!(run_with(Limits { command_bytes_max: size, ..Limits::default() }).is_ok());
    let small = run_with(Limits { command_bytes_max: size - 20, ..Limits::default() });
    assert!(matches!(small.unwrap_err().fault, RequestFault::LimitExceeded(_)));
    assert!(run_with(Limits { commands_max: 3, ..Limits::default() }).is_ok());
    let few = run_with(Limits { commands_max: 2, ..Limits::default() });
    assert!(matches!(few.unwrap_err().fault, RequestFault::LimitExceeded(_)));
}

#[test]
fn the_memory_of_a_certificate_is_counted_while_it_comes() {
    let mut parser = parser();
    parser.feed(&packets(&[b"push-cert"])).unwrap();
    let line = [vec![b'x'; 60_000], b"\n".to_vec()].concat();
    for count in 1..20_u64 {
        parser.feed(&packets(&[&line])).unwrap();
        assert!(parser.memory_bytes() >= count * 60_000);
    }
}

#[test]
fn git_refuses_the_same_certificates_in_the_same_words() {
    let dir = tempfile::tempdir().unwrap();
    git_ok(dir.path(), "", &["init", "-q", "--bare", "r.git"], b"");
    let armour = "-----BEGIN SSH SIGNATURE-----\n";
    for (text, words) in [
        (format!("x\n{OLD} {ZERO} r\n{armour}"), "malformed push certificate"),
        (format!("x\n\nnonsense\n{armour}"), "expected old/new/ref, got 'nonsense"),
        (format!("x\n\n{OLD} {ZERO} r\n\n{armour}"), "expected old/new/ref, got '"),
    ] {
        let bytes = signed(text.as_bytes());
        let output = git(dir.path(), "", &["receive-pack", "--stateless-rpc", "r.git"], &bytes);
        assert!(!output.status.success());
        assert!(output.stderr.contains_str(words), "{}", output.stderr.as_bstr());
        let ours = fault(&bytes).to_string();
        assert!(ours.contains(words), "{ours}");
    }
}
