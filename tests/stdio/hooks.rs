//! Hooks that git's own receiver does not survive, or whose words go elsewhere.

use super::{packhouse, run, seeded};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{ZERO, two_commits};
use crate::support::request::Request;
use std::fs;

#[test]
fn a_transaction_that_its_hook_stops_is_reported_and_ends_the_push() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let text = "#!/bin/sh\necho heard >&2\ntest \"$1\" != prepared || ! grep -q refs/heads/b\n";
    git::hook(&repository, "reference-transaction", text);
    git::hook(&repository, "post-receive", "#!/bin/sh\ncat >told\n");
    let (_, second) = two_commits();
    let request = ["a", "b", "c"]
        .iter()
        .fold(Request::new(), |request, name| {
            request.command(ZERO, &second.id(), format!("refs/heads/{name}"))
        })
        .pack(second.pack())
        .bytes();
    let output = run(packhouse().arg("--stateless-rpc").arg(&repository), &request);
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
