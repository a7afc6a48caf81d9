//! Hooks that git's own receiver does not survive, or whose words go elsewhere.

use super::{packhouse, run, seeded};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{ZERO, two_commits};
use crate::support::request::Request;
use std::fs;
use std::path::Path;
use std::process::Output;

#[test]
fn a_transaction_that_its_hook_stops_is_reported_and_ends_the_push() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let text = "#!/bin/sh\necho heard >&2\ntest \"$1\" != prepared || ! grep -q refs/heads/b\n";
    git::hook(&repository, "reference-transaction", text);
    git::hook(&repository, "post-receive", "#!/bin/sh\ncat >told\n");
    let (_, second) = two_commits();
    let output = push_second_to(&repository, &["a", "b", "c"]);
    let answer = Answer::from_bands(&output.stdout);
    assert_eq!(answer.of("refs/heads/a"), "ok refs/heads/a");
    assert_eq!(answer.of("refs/heads/b"), "ng refs/heads/b failed to update ref");
    assert_eq!(answer.of("refs/heads/c"), "ng refs/heads/c failed to update ref");
    assert_eq!(answer.messages, "error: ref updates aborted by hook\n");
    assert_eq!(output.status.code(), Some(0));
    // Prepared and committed for one, prepared and aborted for the other, nothing for the third.
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "heard\n".repeat(4));
    let told = fs::read_to_string(repository.join("told")).unwrap();
    assert_eq!(told, format!("{ZERO} {} refs/heads/a\n", second.id()));
}

#[test]
fn what_proc_receive_has_done_stands_when_a_transaction_is_stopped() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    git::run(&repository, &["config", "receive.procReceiveRefs", "refs/for"]);
    let text = "#!/bin/sh\nprintf '000eversion=1\\n00000014ok refs/for/main0000'\ncat >/dev/null\n";
    git::hook(&repository, "proc-receive", text);
    git::hook(&repository, "reference-transaction", "#!/bin/sh\nexit 1\n");
    let (_, second) = two_commits();
    let request = Request::new()
        .command(ZERO, &second.id(), "refs/heads/a")
        .command(ZERO, &second.id(), "refs/for/main")
        .pack(second.pack())
        .bytes();
    let output = run(packhouse().arg("--stateless-rpc").arg(&repository), &request);
    let answer = Answer::from_bands(&output.stdout);
    assert_eq!(answer.of("refs/heads/a"), "ng refs/heads/a failed to update ref");
    assert_eq!(answer.of("refs/for/main"), "ok refs/for/main");
}

/// Creates branches of these names at the second commit.
fn push_second_to(repository: &Path, names: &[&str]) -> Output {
    let (_, second) = two_commits();
    let request = names
        .iter()
        .fold(Request::new(), |request, name| {
            request.command(ZERO, &second.id(), format!("refs/heads/{name}"))
        })
        .pack(second.pack())
        .bytes();
    run(packhouse().arg("--stateless-rpc").arg(repository), &request)
}

/// Pushes the second commit to `refs/heads/next`.
fn push_second(repository: &Path) -> Answer {
    let (_, second) = two_commits();
    let request =
        Request::new().command(ZERO, &second.id(), "refs/heads/next").pack(second.pack()).bytes();
    let output = run(packhouse().arg("--stateless-rpc").arg(repository), &request);
    assert_eq!(output.status.code(), Some(0));
    let answer = Answer::from_bands(&output.stdout);
    answer.assert_all_ok();
    answer
}

#[test]
fn maintenance_runs_before_the_answer_ends_when_it_is_due_and_only_then() {
    for (limit, due) in [("1", true), ("2", false), ("0", false)] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = seeded(scratch.path());
        git::run(&repository, &["repack", "-adq"]);
        for (key, value) in
            [("gc.autoPackLimit", limit), ("gc.autoDetach", "false"), ("transfer.unpackLimit", "1")]
        {
            git::run(&repository, &["config", key, value]);
        }
        git::hook(&repository, "pre-auto-gc", "#!/bin/sh\necho tidying up\n");
        let answer = push_second(&repository);
        assert_eq!(answer.messages.contains("tidying up\n"), due, "{limit} {answer:?}");
        let packs = git::object_files(&repository);
        let packs = packs.iter().filter(|name| name.ends_with(".pack")).count();
        assert_eq!(packs, if due { 1 } else { 2 }, "{limit}");
        git::assert_sound(&repository);
    }
}

#[test]
fn maintenance_can_be_switched_off() {
    for (key, value) in [("receive.autogc", "false"), ("maintenance.auto", "false")] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = seeded(scratch.path());
        git::run(&repository, &["repack", "-adq"]);
        git::run(&repository, &["config", "gc.autoPackLimit", "1"]);
        git::run(&repository, &["config", "transfer.unpackLimit", "1"]);
        git::run(&repository, &["config", key, value]);
        git::hook(&repository, "pre-auto-gc", "#!/bin/sh\necho >ran\n");
        push_second(&repository);
        assert!(!repository.join("ran").exists());
    }
}

#[test]
fn the_files_for_dumb_transports_are_written_if_the_repository_wants_them() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    git::run(&repository, &["config", "receive.updateServerInfo", "true"]);
    push_second(&repository);
    let listed = fs::read_to_string(repository.join("info/refs")).unwrap();
    assert!(listed.contains("\trefs/heads/next\n"), "{listed}");
}

#[test]
fn sessions_of_both_sides_are_joined_if_that_is_asked_for() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let advertised = || {
        let output = run(packhouse().arg("--advertise-refs").arg(&repository), b"");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(!advertised().contains("session-id="));
    git::run(&repository, &["config", "transfer.advertiseSID", "true"]);
    assert!(advertised().contains(" session-id=packhouse-"));
    let (_, second) = two_commits();
    let request = Request::new()
        .capabilities("report-status side-band-64k session-id=theirs")
        .command(ZERO, &second.id(), "refs/heads/next")
        .pack(second.pack())
        .bytes();
    let events = scratch.path().join("events");
    let mut command = packhouse();
    command.env("GIT_TRACE2_EVENT", &events).arg("--stateless-rpc").arg(&repository);
    let output = run(&mut command, &request);
    Answer::from_bands(&output.stdout).assert_all_ok();
    let events = fs::read_to_string(events).unwrap();
    assert!(events.contains(r#""key":"client-sid""#) && events.contains(r#""value":"theirs""#));
}

#[test]
fn a_silent_hook_does_not_make_the_answer_look_dead() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    git::run(&repository, &["config", "receive.keepAlive", "1"]);
    git::hook(&repository, "post-receive", "#!/bin/sh\nsleep 2.5\n");
    let answer = push_second(&repository);
    assert!(answer.keepalives >= 1, "{answer:?}");
    assert_eq!(answer.messages, "");
}

#[test]
fn a_hook_that_cannot_be_executed_is_hinted_at_once_unless_that_is_not_wanted() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    for name in ["update", "reference-transaction"] {
        git::hook(&repository, name, "#!/bin/sh\nexit 1\n");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(repository.join("hooks").join(name), mode).unwrap();
    }
    for (names, hints) in [(["a", "b"], 2), (["c", "d"], 0)] {
        let output = push_second_to(&repository, &names);
        Answer::from_bands(&output.stdout).assert_all_ok();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.matches("hint: The 'hooks/").count(), hints, "{said}");
        git::run(&repository, &["config", "advice.ignoredHook", "false"]);
    }
}
