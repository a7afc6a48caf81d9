//! Pushes to repositories with a `reference-transaction` hook. The hooked variants of all other
//! scenarios have one, too, which writes down what it is told.

use super::Scenario;
use super::accepted::Accepted::VetoIsReported;
use super::observe::write_hook;
use super::scenarios::{
    configure, empty, ordinary, scenario, second, seeded, seeded_and_packed, three_branches,
};
use crate::support::objects::{ZERO, pack};
use crate::support::request::Request;
use std::path::Path;

/// Says no as soon as a transaction with `refs/heads/b` is prepared.
fn no_to_b(repository: &Path) {
    seeded(repository);
    let text = "#!/bin/sh\ntest \"$1\" != prepared || ! grep -q refs/heads/b\n";
    write_hook(repository, "reference-transaction", text);
}

pub fn all() -> Vec<Scenario> {
    vec![
        scenario("the second of three transactions is stopped", no_to_b, three_branches)
            .accepting(&[VetoIsReported]),
        scenario("an atomic transaction is stopped", no_to_b, |_| {
            let id = second().id();
            Request::new()
                .capabilities("report-status side-band-64k atomic agent=probe")
                .command(ZERO, &id, "refs/heads/a")
                .command(ZERO, &id, "refs/heads/b")
                .pack(second().pack())
                .bytes()
        })
        .accepting(&[VetoIsReported]),
        scenario(
            "a deletion is stopped in packed-refs",
            |repository| {
                seeded_and_packed(repository);
                configure(repository, "receive.denyDeleteCurrent", "ignore");
                let text = "#!/bin/sh\ntest \"$1\" != prepared\n";
                write_hook(repository, "reference-transaction", text);
            },
            |_| {
                let id = super::scenarios::first().id();
                Request::new().command(&id, ZERO, "refs/heads/main").bytes()
            },
        )
        .accepting(&[VetoIsReported]),
        scenario(
            "what the hook says goes not to the client, and its last word counts for nothing",
            |repository| {
                seeded(repository);
                let text = "#!/bin/sh\necho out; echo err >&2\ntest \"$1\" = prepared\n";
                write_hook(repository, "reference-transaction", text);
            },
            |_| ordinary().bytes(),
        ),
        scenario(
            "a transaction hook that cannot be started stops everything",
            |repository| {
                seeded(repository);
                write_hook(repository, "reference-transaction", "#!/no/such/thing\n");
            },
            |_| ordinary().bytes(),
        )
        .accepting(&[VetoIsReported]),
        scenario("no refs, no transaction", empty, |_| {
            Request::new().command(ZERO, ZERO, "refs/heads/none").pack(pack(&[])).bytes()
        }),
    ]
}
