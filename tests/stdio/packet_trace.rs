//! `GIT_TRACE_PACKET`: the lines of stock git for the same push, but for the time and the place in
//! front.

use super::{packhouse, run, seeded};
use crate::support::git;
use crate::support::objects::{ZERO, pack, two_commits};
use crate::support::request::{Request, pkt};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The two receivers, git first, each with a repository of its own that `prepare` has filled.
fn both(prepare: impl Fn(&Path), mut work: impl FnMut(&mut Command, &Path)) {
    let mut git = Command::new("git");
    git::isolate(&mut git);
    git.arg("receive-pack");
    for mut command in [git, packhouse()] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = seeded(scratch.path());
        prepare(&repository);
        // Both are at the same place for whoever reads what they say.
        command.current_dir(scratch.path()).arg("r.git");
        work(&mut command, scratch.path());
    }
}

/// What both write down of a push, and how they end.
fn traces(
    prepare: impl Fn(&Path),
    arguments: &[&str],
    variables: &[(&str, &str)],
    request: &[u8],
) -> [String; 2] {
    let mut found = Vec::new();
    both(prepare, |command, scratch| {
        let file = scratch.join("trace");
        command.args(arguments).env("GIT_TRACE_PACKET", &file);
        command.envs(variables.iter().copied());
        run(command, request);
        let text = std::fs::read_to_string(file).unwrap();
        found.push(text.lines().map(|line| normal(line) + "\n").collect());
    });
    found.try_into().unwrap()
}

/// The line without its time, its place and our agent's name.
fn normal(line: &str) -> String {
    let at = line.find("packet: ").unwrap_or_else(|| panic!("no packet in {line:?}"));
    let (front, said) = line.split_at(at);
    if !front.is_empty() {
        assert_eq!(front.len(), 40, "{line:?}");
        let time: Vec<bool> = front.bytes().take(15).map(|byte| byte.is_ascii_digit()).collect();
        assert_eq!(time.iter().filter(|digit| **digit).count(), 12, "{line:?}");
        let (_, place) = front[16..].trim_end().split_once(':').unwrap();
        assert!(place.parse::<u32>().is_ok(), "{line:?}");
    }
    let said = match said.find(" agent=") {
        Some(at) if said.contains(" delete-refs ") => &said[..at],
        _ => said,
    };
    format!("{}{said}", if front.is_empty() { "" } else { "(time and place) " })
}

fn assert_same(traces: &[String; 2]) {
    assert_eq!(traces[0], traces[1]);
    assert!(traces[0].contains("packet: receive-pack> "), "{}", traces[0]);
}

fn configure(repository: &Path, key: &str, value: &str) {
    git::run(repository, &["config", "--add", key, value]);
}

/// Two refs, one with a name that is not ASCII, and what `capabilities` say.
fn push(capabilities: &str) -> Request {
    let (first, second) = two_commits();
    Request::new()
        .capabilities(capabilities)
        .command(&first.id(), &second.id(), "refs/heads/main")
        .command(ZERO, &second.id(), "refs/heads/ä")
        .pack(second.pack())
}

#[test]
fn every_packet_of_a_push_is_a_line_as_with_git() {
    let options = |repository: &Path| configure(repository, "receive.advertisePushOptions", "1");
    let banded = push("report-status side-band-64k push-options agent=a")
        .options(&["a\"b\\c\td", "ö", ""])
        .bytes();
    let plain = push("report-status").bytes();
    let second = push("report-status-v2 side-band-64k object-format=sha1").bytes();
    let silent = push("side-band-64k").bytes();
    let (first, _) = two_commits();
    let deletion = Request::new().command(&first.id(), ZERO, "refs/heads/main").bytes();
    let line = format!("{ZERO} {} refs/heads/x\0report-status\n", first.id());
    let with_line_feed = [pkt(line.as_bytes()), b"0000".to_vec(), pack(&[])].concat();
    for request in [banded, plain, second, silent, deletion, with_line_feed, b"0000".to_vec()] {
        assert_same(&traces(options, &[], &[], &request));
        assert_same(&traces(options, &[], &[("GIT_PROTOCOL", "version=1")], &request));
        let traces = traces(options, &["--stateless-rpc"], &[], &request);
        assert_eq!(traces[0], traces[1]);
    }
    for flag in ["--advertise-refs", "--http-backend-info-refs"] {
        assert_same(&traces(options, &["--stateless-rpc", flag], &[], b""));
    }
}

#[test]
fn certificates_and_borders_are_packets_as_any() {
    let (first, second) = two_commits();
    let with_seed = |repository: &Path| configure(repository, "receive.certNonceSeed", "seed");
    let signed =
        push("report-status").signed("pusher a <a@b> 1 +0000\n", "-----BEGIN PGP SIGNATURE-----\n");
    let texts = traces(with_seed, &["--stateless-rpc"], &[], &signed.bytes());
    assert_eq!(texts[0], texts[1]);
    assert!(texts[0].contains("receive-pack< push-cert-end"), "{}", texts[0]);
    let shallow = Request::new()
        .shallow(&first.id())
        .command(&first.id(), &second.id(), "refs/heads/main")
        .pack(second.pack());
    assert_same(&traces(|_| {}, &[], &[], &shallow.bytes()));
    let is_shallow = |repository: &Path| {
        std::fs::write(repository.join("shallow"), format!("{}\n", first.id())).unwrap();
    };
    assert_same(&traces(is_shallow, &[], &[], b"0000"));
}

#[test]
fn the_talk_with_the_proc_receive_hook_is_in_it() {
    let handed_over = |repository: &Path| {
        configure(repository, "receive.procReceiveRefs", "refs/for");
        configure(repository, "receive.advertisePushOptions", "true");
        let said = "0022version=1\\000push-options atomic\\n0000\
                    0014ok refs/for/main0023option refname refs/pull/1/head0000";
        let script = format!("printf '{said}'\nexec >&-\ncat >/dev/null");
        git::hook(repository, "proc-receive", &script);
    };
    let (first, second) = two_commits();
    let request = Request::new()
        .capabilities("report-status-v2 side-band-64k push-options atomic")
        .command(ZERO, &second.id(), "refs/for/main")
        .command(ZERO, &first.id(), "refs/heads/x")
        .options(&["a", "b"])
        .pack(second.pack())
        .bytes();
    let texts = traces(handed_over, &[], &[], &request);
    assert_same(&texts);
    assert!(texts[0].contains("receive-pack< version=1\\0push-options"), "{}", texts[0]);
}

#[test]
fn a_request_that_is_wrong_is_shown_up_to_where_it_is() {
    let good = format!("{ZERO} {} refs/heads/x\0report-status", "1".repeat(40));
    let good = pkt(good.as_bytes());
    for wrong in [&b"zzzz"[..], b"0003", b"", b"0009hello", b"0009hello0009later0000", b"0009hel"] {
        let request = [&good, wrong].concat();
        assert_same(&traces(|_| {}, &[], &[], &request));
    }
}

#[test]
fn the_time_and_the_place_can_be_left_out() {
    for bare in ["1", "true", "0", ""] {
        let request = push("report-status side-band-64k").bytes();
        let texts = traces(|_| {}, &[], &[("GIT_TRACE_BARE", bare)], &request);
        assert_same(&texts);
        assert_eq!(texts[1].starts_with("packet: "), bare == "1" || bare == "true", "{}", texts[1]);
    }
}

/// What is said on standard error with the variable at `value`.
fn said(value: &str, prepare: impl Fn(&Path)) -> [String; 2] {
    let mut found = Vec::new();
    both(prepare, |command, _| {
        command.env("GIT_TRACE_PACKET", value).env("GIT_TRACE_BARE", "1");
        let Output { status, stderr, .. } = run(command, b"0000");
        assert_eq!(status.code(), Some(0), "{value}");
        let lines = String::from_utf8(stderr).unwrap();
        let is_packet = |line: &str| line.starts_with("packet: ");
        let normal = |line| if is_packet(line) { normal(line) } else { line.to_owned() };
        found.push(lines.lines().map(|line| normal(line) + "\n").collect());
    });
    found.try_into().unwrap()
}

#[test]
fn the_variable_means_what_it_means_to_git() {
    for value in ["", "0", "false", "1", "2", "TRUE", "10", "yes", "relative"] {
        let texts = said(value, |_| {});
        assert_eq!(texts[0], texts[1], "{value}");
    }
    for value in ["/nonexistent/trace", "/tmp", "/dev/full", "9"] {
        let texts = said(value, |_| {});
        assert!(texts[1].starts_with("warning: "), "{}", texts[1]);
        // Why a descriptor that is not there cannot be written is told by another call.
        if value != "9" {
            assert_eq!(texts[0], texts[1], "{value}");
        }
    }
}

#[test]
fn a_descriptor_can_be_named_by_its_number() {
    let mut found = Vec::new();
    both(
        |_| {},
        |command, scratch| {
            let file: PathBuf = scratch.join("trace");
            std::fs::write(&file, "before\n").unwrap();
            let script = scratch.join("script");
            std::fs::write(&script, "#!/bin/sh\nexec \"$@\" 7>>trace\n").unwrap();
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
            let mut shell = Command::new(script);
            git::isolate(&mut shell);
            shell.arg(command.get_program()).args(command.get_args()).current_dir(scratch);
            shell.env("GIT_TRACE_PACKET", "7").env("GIT_TRACE_BARE", "1");
            assert!(run(&mut shell, b"0000").status.success());
            let text = std::fs::read_to_string(file).unwrap();
            let text = text.strip_prefix("before\n").unwrap();
            found.push(text.lines().map(normal).collect::<Vec<_>>());
        },
    );
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].len(), 3);
}
