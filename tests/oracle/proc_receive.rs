//! Pushes of which the `proc-receive` hook carries out a part.

use super::Scenario;
use super::accepted::Accepted::{AtomicIsAtomic, Diagnostics};
use super::observe::write_hook;
use super::scenarios::{configure, first, scenario, second, seeded};
use crate::support::objects::{ZERO, pack};
use crate::support::request::Request;
use std::path::Path;

const V2: &str = "report-status-v2 side-band-64k agent=probe";
const V1: &str = "report-status side-band-64k agent=probe";
const ATOMIC: &str = "report-status-v2 side-band-64k atomic agent=probe";

fn packet(line: &str) -> String {
    format!("{:04x}{line}", line.len() + 4)
}

/// A hook that answers the greeting and says `lines` of the refs, whatever it is sent, which it
/// writes down.
fn hook(repository: &Path, greeting: &[&str], lines: &[&str], end: &str) {
    let packets = |lines: &[&str]| lines.iter().map(|line| packet(line)).collect::<String>();
    let said = packets(greeting) + "0000" + &packets(lines) + end;
    let said = said.replace('\\', "\\\\").replace('\0', "\\000").replace('\n', "\\n");
    let text = format!(
        "#!/bin/sh\nprintf '{}'\nexec >&-\necho aside >&2\ncat >>hook.log\necho >>hook.log\n",
        said.replace('\'', "'\\''")
    );
    write_hook(repository, "proc-receive", &text);
}

fn says(repository: &Path, lines: &[&str]) {
    seeded(repository);
    configure(repository, "receive.procReceiveRefs", "refs/for");
    hook(repository, &["version=1\n"], lines, "0000");
}

/// `refs/for/a` and `refs/for/b` for the hook, with `refs/heads/c` in between.
fn three(capabilities: &str) -> Vec<u8> {
    let id = second().id();
    Request::new()
        .capabilities(capabilities)
        .command(ZERO, &id, "refs/for/a")
        .command(ZERO, &id, "refs/heads/c")
        .command(ZERO, &id, "refs/for/b")
        .pack(second().pack())
        .bytes()
}

fn rewritten(repository: &Path) {
    let (old, new) = (first().id(), second().id());
    says(
        repository,
        &[
            "ok refs/for/b",
            "option refname refs/pull/1/head",
            &format!("option old-oid {old}"),
            &format!("option new-oid {new}\n"),
            "option forced-update",
            "ok refs/for/b",
            "option refname refs/pull/2/head",
            "option unheard of",
            "option old-oid nonsense",
            "ok refs/for/a \n",
        ],
    );
}

pub fn all() -> Vec<Scenario> {
    answers().into_iter().chain(faults()).chain(atomic()).chain(selection()).collect()
}

fn answers() -> Vec<Scenario> {
    vec![
        scenario(
            "the hook carries out two of three",
            |repository| says(repository, &["ok refs/for/a", "ok refs/for/b"]),
            |_| three(V2),
        ),
        scenario("the hook changes other refs instead", rewritten, |_| three(V2)),
        scenario(
            "the hook changes other refs, for a client that reads version 1",
            rewritten,
            |_| three(V1),
        ),
        scenario(
            "the hook refuses, with words and without",
            |repository| says(repository, &["ng refs/for/a no, not  now", "ng refs/for/b"]),
            |_| three(V2),
        ),
        scenario(
            "the hook hands a ref back",
            |repository| {
                says(repository, &["ok refs/for/a", "option fall-through", "ok refs/for/b"]);
            },
            |_| three(V2),
        ),
        scenario(
            "the hook ends badly after a good report",
            |repository| {
                says(repository, &["ok refs/for/a"]);
                let path = repository.join("hooks/proc-receive");
                let text = std::fs::read_to_string(path).unwrap();
                write_hook(repository, "proc-receive", &(text + "exit 7\n"));
            },
            |_| three(V2),
        ),
        scenario(
            "the hook wants the push options",
            |repository| {
                says(repository, &[]);
                configure(repository, "receive.advertisePushOptions", "true");
                let greeting = ["version=1\0push-options atomic\n"];
                hook(repository, &greeting, &["ok refs/for/a", "ok refs/for/b"], "0000");
            },
            with_options,
        ),
        scenario(
            "the hook leaves the push options alone",
            |repository| {
                says(repository, &["ok refs/for/a", "ok refs/for/b"]);
                configure(repository, "receive.advertisePushOptions", "true");
            },
            with_options,
        ),
        scenario(
            "a deletion, an update and a creation for the hook",
            |repository| {
                says(repository, &["ok refs/heads/main", "ok refs/heads/x", "ok refs/heads/y"]);
                configure(repository, "receive.procReceiveRefs", "refs/heads/");
            },
            |_| {
                let (one, two) = (first().id(), second().id());
                Request::new()
                    .capabilities(V2)
                    .command(&one, ZERO, "refs/heads/main")
                    .command(&one, &two, "refs/heads/x")
                    .command(ZERO, &two, "refs/heads/y")
                    .pack(second().pack())
                    .bytes()
            },
        ),
    ]
}

fn with_options(_: &Path) -> Vec<u8> {
    let id = second().id();
    Request::new()
        .capabilities("report-status-v2 side-band-64k push-options agent=probe")
        .command(ZERO, &id, "refs/for/a")
        .command(ZERO, &id, "refs/for/b")
        .options(&["topic=one", "with 'quotes' and blanks"])
        .pack(second().pack())
        .bytes()
}

fn faults() -> Vec<Scenario> {
    vec![
        scenario(
            "lines that mean nothing",
            |repository| {
                says(
                    repository,
                    &[
                        "ok",
                        "option refname early",
                        "option forced-update",
                        "fine refs/for/a",
                        "ok refs/heads/c",
                        "ok refs/heads/stranger",
                        "ok refs/for/b",
                        "ng refs/for/a because",
                        "option refname late",
                    ],
                );
            },
            |_| three(V2),
        ),
        scenario(
            "nothing is said of one ref",
            |repository| says(repository, &["ok refs/for/b"]),
            |_| three(V2),
        ),
        scenario("nothing is said at all", |repository| says(repository, &[]), |_| three(V2)),
        scenario(
            "the hook breaks off after the greeting",
            |repository| {
                says(repository, &[]);
                hook(repository, &["version=1"], &[], "");
            },
            |_| three(V2),
        ),
        scenario(
            "the hook breaks off after a line",
            |repository| {
                says(repository, &[]);
                hook(repository, &["version=1"], &["ok refs/for/b"], "");
            },
            |_| three(V2),
        ),
        scenario(
            "the hook ends without a word",
            |repository| {
                says(repository, &[]);
                write_hook(repository, "proc-receive", "#!/bin/sh\ncat >/dev/null &\nexit 0\n");
            },
            |_| three(V2),
        ),
        scenario(
            "the hook speaks version 2",
            |repository| {
                says(repository, &[]);
                hook(repository, &["version=2\n"], &["ok refs/for/a"], "0000");
            },
            |_| three(V2),
        ),
        scenario(
            "the hook names no version",
            |repository| {
                says(repository, &[]);
                hook(repository, &[], &["ok refs/for/a", "ok refs/for/b"], "0000");
            },
            |_| three(V2),
        ),
        scenario(
            "there is no hook",
            |repository| {
                says(repository, &[]);
                std::fs::remove_file(repository.join("hooks/proc-receive")).unwrap();
            },
            |_| three(V2),
        ),
        scenario(
            "the hook cannot be started",
            |repository| {
                says(repository, &[]);
                write_hook(repository, "proc-receive", "#!/no/such/thing\n");
            },
            |_| three(V2),
        )
        .accepting(&[Diagnostics]),
    ]
}

fn atomic() -> Vec<Scenario> {
    vec![
        scenario(
            "atomic, and the hook agrees",
            |repository| says(repository, &["ok refs/for/a", "ok refs/for/b"]),
            |_| three(ATOMIC),
        ),
        scenario(
            "atomic, and the hook refuses one",
            |repository| says(repository, &["ok refs/for/a", "ng refs/for/b no"]),
            |_| three(ATOMIC),
        ),
        scenario(
            "atomic, and there is no hook",
            |repository| {
                says(repository, &[]);
                std::fs::remove_file(repository.join("hooks/proc-receive")).unwrap();
            },
            |_| three(ATOMIC),
        ),
        scenario(
            "atomic, and another ref fails after the hook agreed",
            |repository| {
                says(repository, &["ok refs/for/a", "ok refs/for/b"]);
                write_hook(repository, "update", "#!/bin/sh\nexit 1\n");
            },
            |_| three(ATOMIC),
        ),
        scenario(
            "atomic, and a ref for the hook is hidden",
            |repository| {
                says(repository, &["ok refs/for/a", "ok refs/for/b"]);
                configure(repository, "receive.hideRefs", "refs/for/b");
            },
            |_| three(ATOMIC),
        )
        .accepting(&[AtomicIsAtomic]),
    ]
}

fn selection() -> Vec<Scenario> {
    vec![
        scenario(
            "creations alone are for the hook",
            |repository| {
                says(repository, &["ok refs/heads/c", "ok refs/for/b"]);
                configure(repository, "receive.procReceiveRefs", "a:refs/heads");
            },
            |_| {
                let id = second().id();
                Request::new()
                    .command(&first().id(), &id, "refs/heads/main")
                    .command(ZERO, &id, "refs/heads/c")
                    .command(ZERO, &id, "refs/for/b")
                    .pack(second().pack())
                    .bytes()
            },
        ),
        scenario(
            "all but branches are for the hook",
            |repository| {
                seeded(repository);
                configure(repository, "receive.procReceiveRefs", "adm!:refs/heads");
                hook(repository, &["version=1"], &["ok refs/for/a", "ng refs/for/b x"], "0000");
            },
            |_| three(V2),
        ),
        scenario(
            "a hidden ref is not for the hook",
            |repository| {
                says(repository, &["ok refs/for/a", "ok refs/for/b"]);
                configure(repository, "receive.hideRefs", "refs/for/b");
            },
            |_| three(V2),
        ),
        scenario(
            "one ref twice",
            |repository| says(repository, &["ok refs/for/a", "ng refs/for/a no"]),
            |_| {
                let id = second().id();
                Request::new()
                    .command(ZERO, &id, "refs/for/a")
                    .command(ZERO, &id, "refs/for/a")
                    .pack(second().pack())
                    .bytes()
            },
        ),
        scenario(
            "an alias and its target are for the hook",
            |repository| {
                says(repository, &["ok refs/for/real"]);
                let alias = repository.join("refs/for/alias");
                std::fs::create_dir_all(alias.parent().unwrap()).unwrap();
                std::fs::write(alias, "ref: refs/for/real\n").unwrap();
            },
            |_| {
                let id = first().id();
                Request::new()
                    .command(ZERO, &id, "refs/for/real")
                    .command(ZERO, &id, "refs/for/alias")
                    .pack(pack(&[]))
                    .bytes()
            },
        ),
        scenario("refs for review go in like any other where no hook is asked for", seeded, |_| {
            let id = second().id();
            Request::new()
                .command(ZERO, &id, "refs/for/main")
                .command(ZERO, &id, "refs/notes/commits")
                .command(ZERO, &id, "refs/wip/a")
                .pack(second().pack())
                .bytes()
        }),
    ]
}
