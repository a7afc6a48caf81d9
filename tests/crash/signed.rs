//! What survives of a signed push: its certificate, too.

use super::{keep_packs, survive};
use crate::support::git;
use crate::support::objects::{ZERO, two_commits};
use crate::support::request::Request;
use crate::support::signing::{GOOD, OPENPGP, gpg_says};
use std::path::Path;

fn signed(request: Request) -> Vec<u8> {
    request.signed("pusher a\n", OPENPGP).bytes()
}

fn checked(repository: &Path, hook: &str) {
    gpg_says(repository, GOOD);
    git::hook(repository, hook, "cat >/dev/null");
}

#[test]
fn a_certificate_survives_once_its_push_is_acknowledged() {
    let (first, second) = two_commits();
    let push =
        Request::new().command(&first.id(), &second.id(), "refs/heads/main").pack(second.pack());
    let push = signed(push);
    survive(&push, |repository| checked(repository, "post-receive"));
    survive(&push, |repository| checked(repository, "pre-receive"));
    survive(&push, |repository| {
        checked(repository, "post-receive");
        keep_packs(repository);
    });
}

#[test]
fn a_certificate_survives_a_push_of_nothing_but_deletions() {
    let (first, _) = two_commits();
    let push = signed(Request::new().command(&first.id(), ZERO, "refs/heads/gone"));
    survive(&push, |repository| {
        checked(repository, "pre-receive");
        git::run(repository, &["update-ref", "refs/heads/gone", "refs/heads/main"]);
    });
}
