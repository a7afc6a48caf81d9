//! What git itself says to the same bytes, and what its client sends.

use super::*;
use crate::wire::testing::{git, git_ok};
use std::path::Path;

fn line_of(dir: &Path, arguments: &[&str], input: &[u8]) -> String {
    String::from_utf8(git_ok(dir, "", arguments, input)).unwrap().trim().into()
}

#[test]
fn git_refuses_the_same_requests_in_the_same_words() {
    let dir = tempfile::tempdir().unwrap();
    line_of(dir.path(), &["init", "-q", "--bare", "r.git"], b"");
    line_of(dir.path(), &["init", "-q", "--bare", "--object-format=sha256", "s.git"], b"");
    let good = packets(&[&command(OLD, ZERO, "refs/heads/a\0report-status")]);
    for (repository, hash, bytes) in [
        ("r.git", HashKind::Sha1, b"zzzz".to_vec()),
        ("r.git", HashKind::Sha1, b"0003".to_vec()),
        ("r.git", HashKind::Sha1, b"+005".to_vec()),
        ("r.git", HashKind::Sha1, b"".to_vec()),
        ("r.git", HashKind::Sha1, b"00".to_vec()),
        ("r.git", HashKind::Sha1, good.clone()),
        ("r.git", HashKind::Sha1, good[..30].to_vec()),
        ("r.git", HashKind::Sha1, b"00040000".to_vec()),
        ("r.git", HashKind::Sha1, packets(&[b"nonsense", b""])),
        ("r.git", HashKind::Sha1, packets(&[b"shallow nonsense", b""])),
        ("r.git", HashKind::Sha1, packets(&[format!("{OLD} {ZERO}").as_bytes(), b""])),
        ("s.git", HashKind::Sha256, good.clone()),
    ] {
        let output = git(dir.path(), "", &["receive-pack", "--stateless-rpc", repository], &bytes);
        assert!(!output.status.success());
        let parser = RequestParser::new(&offered(hash), &Limits::default());
        let ours = run(parser, [&bytes[..]]).0.unwrap_err().to_string();
        assert!(
            output.stderr.contains_str(&ours),
            "git: {}\nours: {ours}",
            output.stderr.as_bstr()
        );
    }
}

#[test]
fn git_takes_the_same_odd_requests() {
    let dir = tempfile::tempdir().unwrap();
    line_of(dir.path(), &["init", "-q", "--bare", "r.git"], b"");
    let capabilities = "\0report-status";
    for lines in [
        &[&b""[..]][..],
        &[format!("shallow {OLD}").as_bytes(), b""],
        &[&command(ZERO, ZERO, &format!("{capabilities} delete-refs nonsense x=y\n")), b""],
        &[&command(ZERO, ZERO, "refs/heads/a\n"), &command(ZERO, ZERO, "r\0report-status"), b""],
    ] {
        let bytes = packets(lines);
        let output = git(dir.path(), "", &["receive-pack", "--stateless-rpc", "r.git"], &bytes);
        assert!(output.status.success(), "{}", output.stderr.as_bstr());
        let (request, consumed) = parse(&bytes).unwrap();
        assert_eq!(consumed, bytes.len());
        match request {
            Request::Probe => assert_eq!(output.stdout, b""),
            Request::Push(push) => {
                assert_eq!(push.capabilities.report_status, ReportStatusVersion::V1);
                assert!(output.stdout.starts_with(b"000eunpack ok\n"));
            }
        }
    }
}

/// A push of git's own client, from our advertisement to our report.
#[test]
fn git_send_pack_reads_what_we_write_and_we_read_what_it_writes() {
    use crate::model::CommandStatus;
    use crate::wire::advertisement::AdvertisementEncoder;
    use crate::wire::pkt_line::{Decoded, PktLine, decode};
    use crate::wire::protocol_version::ProtocolVersion;
    use crate::wire::report_status::{UnpackStatus, encode_report_status};
    use crate::wire::sideband::{self, Band};

    let dir = tempfile::tempdir().unwrap();
    line_of(dir.path(), &["init", "-q", "."], b"");
    let tree = line_of(dir.path(), &["mktree"], b"");
    let commit = line_of(dir.path(), &["commit-tree", "-m", "x", &tree], b"");
    line_of(dir.path(), &["update-ref", "refs/heads/main", &commit], b"");
    let id = ObjectId::from_hex(commit.as_bytes()).unwrap();

    let offer = offered(HashKind::Sha1);
    let mut input = Vec::new();
    let mut encoder = AdvertisementEncoder::begin(&mut input, ProtocolVersion::V1, &offer);
    encoder.reference(&mut input, &id, "refs/heads/old".into()).unwrap();
    encoder.finish(&mut input, []);
    let null = ObjectId::null(HashKind::Sha1);
    let mut commands =
        [Command::new(id, null, "refs/heads/old"), Command::new(null, id, "refs/heads/new")];
    commands[0].status = CommandStatus::Done;
    commands[1].reject(crate::model::RejectReason::HookDeclined);
    let mut report = Vec::new();
    encode_report_status(&mut report, ReportStatusVersion::V2, &UnpackStatus::Ok, &commands);
    sideband::encode(&mut input, Band::Progress, b"text of a hook\n");
    sideband::encode_keepalive(&mut input);
    sideband::encode(&mut input, Band::Data, &report);
    sideband::encode_end(&mut input);

    let output = git(
        dir.path(),
        "",
        &[
            "send-pack",
            "--stateless-rpc",
            "--atomic",
            "--push-option=key=a b",
            "--push-option=",
            "ignored",
            ":refs/heads/old",
            "refs/heads/main:refs/heads/new",
        ],
        &input,
    );
    let printed = output.stderr.to_str_lossy();
    for text in ["remote: text of a hook", "[deleted]", "(hook declined)"] {
        assert!(printed.contains(text), "{printed}");
    }

    // Without HTTP around it the client wraps what it would send into packets of its own,
    // each of its requests ended by a flush.
    let mut sent = Vec::new();
    let mut rest = &output.stdout[..];
    while let Decoded::Complete { line: PktLine::Data(payload), consumed } = decode(rest).unwrap() {
        sent.extend_from_slice(payload);
        rest = &rest[consumed..];
    }
    let mut parser = RequestParser::new(&offer, &Limits::default());
    let Ok(Feed::Complete { consumed }) = parser.feed(&sent) else {
        panic!("{}", sent.as_bstr());
    };
    let Ok(Request::Push(push)) = parser.finish() else { panic!("{}", sent.as_bstr()) };
    assert_eq!(push.push_options, ["key=a b", ""]);
    assert!(push.capabilities.atomic && push.capabilities.side_band_64k);
    assert_eq!(push.capabilities.report_status, ReportStatusVersion::V2);
    assert!(push.capabilities.agent.is_some_and(|agent| agent.starts_with(b"git/")));
    let asked: Vec<_> = push.commands.iter().map(|c| (c.old, c.new, c.name.to_string())).collect();
    assert_eq!(
        asked,
        [(id, null, "refs/heads/old".to_owned()), (null, id, "refs/heads/new".to_owned())]
    );
    assert!(push.expects_pack);
    assert!(sent[consumed..].starts_with(b"PACK"));
}
