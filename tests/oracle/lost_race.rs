//! Pushes whose old values are out of date when they come.

use super::Scenario;
use super::accepted::Accepted::{Diagnostics, LostRace, UnpackReason};
use super::observe::write_hook;
use super::scenarios::{configure, first, scenario, second, seeded, seeded_and_packed, store};
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO, pack};
use crate::support::request::Request;
use std::path::Path;

/// A commit that builds on the first one and lost against the second.
fn late() -> Snapshot {
    Snapshot::new("late\n", &[&first().id()])
}

/// `refs/heads/main` and `refs/heads/next` at the second commit.
fn moved_on(repository: &Path) {
    seeded(repository);
    store(repository, &[&second().blob, &second().tree, &second().commit]);
    for name in ["refs/heads/main", "refs/heads/next"] {
        git::run(repository, &["update-ref", name, &second().id()]);
    }
}

/// Updates from the first commit to the late one.
fn updates(names: &[&str]) -> Request {
    let update = |request: Request, name: &&str| request.command(&first().id(), &late().id(), name);
    names.iter().fold(Request::new(), update).pack(late().pack())
}

fn main_alone(_: &Path) -> Vec<u8> {
    updates(&["refs/heads/main"]).bytes()
}

pub fn all() -> Vec<Scenario> {
    let lost = [
        scenario("a lost race for a ref", moved_on, main_alone),
        scenario(
            "a lost race for a packed ref",
            |repository| {
                moved_on(repository);
                git::run(repository, &["pack-refs", "--all"]);
            },
            main_alone,
        ),
        scenario("a lost race for a ref that was deleted", seeded, |_| {
            updates(&["refs/heads/gone"]).bytes()
        }),
        scenario("a lost race for several refs", moved_on, |_| {
            updates(&["refs/heads/next", "refs/heads/main", "refs/heads/gone"]).bytes()
        }),
        scenario("a lost race to create a ref", seeded_and_packed, |_| {
            let request = Request::new().command(ZERO, &late().id(), "refs/heads/main");
            request.pack(late().pack()).bytes()
        }),
        scenario("a lost race to delete refs", moved_on, |_| {
            let id = first().id();
            let request = Request::new().command(&id, ZERO, "refs/heads/next");
            request.command(&id, ZERO, "refs/heads/gone").bytes()
        }),
        scenario("a lost race, without bands", moved_on, |_| {
            updates(&["refs/heads/main"]).capabilities("report-status agent=probe").bytes()
        })
        .plain(),
        scenario("a lost race, atomic", moved_on, |_| {
            let request = updates(&["refs/heads/main", "refs/heads/next"]);
            let request = request.command(ZERO, &late().id(), "refs/heads/a");
            request.capabilities("report-status side-band-64k atomic agent=probe").bytes()
        }),
        scenario(
            "a lost race where fsck looks on",
            |repository| {
                moved_on(repository);
                configure(repository, "receive.fsckObjects", "true");
            },
            main_alone,
        ),
    ];
    let not_yet = [
        scenario("one of two races is lost", moved_on, |_| {
            let request = updates(&["refs/heads/main"]);
            request.command(ZERO, &late().id(), "refs/heads/won").bytes()
        }),
        scenario(
            "a lost race for a ref that is hidden",
            |repository| {
                moved_on(repository);
                configure(repository, "receive.hideRefs", "refs/heads/main");
            },
            main_alone,
        ),
        scenario("a lost race with a damaged pack", moved_on, |_| {
            let mut request = main_alone(Path::new(""));
            let last = request.len() - 1;
            request[last] ^= 1;
            request
        })
        .accepting(&[UnpackReason, Diagnostics]),
        scenario("a lost race to delete what is prohibited", moved_on_and_kept, |_| {
            Request::new().command(&first().id(), ZERO, "refs/heads/next").bytes()
        }),
        scenario("a lost race with two commands for one ref", moved_on, |_| {
            let twice = updates(&["refs/heads/main", "refs/heads/main"]);
            twice.pack(pack(&[])).bytes()
        })
        .accepting(&[Diagnostics]),
    ];
    let lost = lost.into_iter().map(|scenario| scenario.accepting(&[LostRace]));
    lost.chain(not_yet).chain(hooks()).collect()
}

fn moved_on_and_kept(repository: &Path) {
    moved_on(repository);
    configure(repository, "receive.denyDeletes", "true");
}

/// Each hook that git runs over refs before it looks at their values: what it hears is the same,
/// and so is what is stored.
fn hooks() -> impl Iterator<Item = Scenario> {
    ["pre-receive", "update", "reference-transaction"].into_iter().map(|hook| {
        let prepare = move |repository: &Path| {
            moved_on(repository);
            let text = "#!/bin/sh\n{ echo \"$0 $*\"; cat; } >>hook.log\n";
            write_hook(repository, hook, text);
        };
        scenario(format!("a lost race before {hook}"), prepare, main_alone)
    })
}
