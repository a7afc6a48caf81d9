//! Pushes from and to repositories whose history ends somewhere.
//!
//! Where a repository takes borders over, at most one ref of a push needs one here, and it is the
//! last: git gets no further (see `border-of-each`).

use super::Scenario;
use super::accepted::Accepted::{AtomicIsAtomic, BorderOfEach, EmptyShallow};
use super::observe::write_hook;
use super::scenarios::{configure, first, scenario, second, seeded, store};
use crate::support::git;
use crate::support::objects::{Object, Snapshot, ZERO, commit, entry, pack, tag};
use crate::support::request::Request;
use std::fs;
use std::path::Path;

const ATOMIC: &str = "report-status side-band-64k atomic agent=probe";

/// A line of four commits that has nothing to do with the seeded one.
struct Line([Snapshot; 4]);

impl Line {
    fn named(name: &str) -> Self {
        let one = Snapshot::new(&format!("{name} 1\n"), &[]);
        let two = Snapshot::new(&format!("{name} 2\n"), &[&one.id()]);
        let three = Snapshot::new(&format!("{name} 3\n"), &[&two.id()]);
        let four = Snapshot::new(&format!("{name} 4\n"), &[&three.id()]);
        Self([one, two, three, four])
    }

    fn new() -> Self {
        Self::named("line")
    }

    /// The id of a commit, counted from one.
    fn id(&self, number: usize) -> String {
        self.0[number - 1].id()
    }

    fn objects(&self, numbers: &[usize]) -> Vec<&Object> {
        let of = |number: &usize| {
            let Snapshot { commit, tree, blob } = &self.0[number - 1];
            [blob, tree, commit]
        };
        numbers.iter().flat_map(of).collect()
    }

    fn pack(&self, numbers: &[usize]) -> Vec<u8> {
        pack(&self.objects(numbers).into_iter().map(entry).collect::<Vec<_>>())
    }

    /// Stores some of the commits, the repository's history ending at `border`, with a branch.
    fn store(&self, repository: &Path, numbers: &[usize], border: &[usize], branch: usize) {
        store(repository, &self.objects(numbers));
        if !border.is_empty() {
            let lines: String =
                border.iter().map(|number| format!("{}\n", self.id(*number))).collect();
            fs::write(repository.join("shallow"), lines).unwrap();
        }
        if branch > 0 {
            git::run(repository, &["update-ref", "refs/heads/line", &self.id(branch)]);
        }
    }
}

fn takes_borders(repository: &Path) {
    configure(repository, "receive.shallowUpdate", "true");
}

/// The seeded repository, which takes borders or does not.
fn seeded_and(takes: bool) -> impl Fn(&Path) + Send + Sync {
    move |repository| {
        seeded(repository);
        if takes {
            takes_borders(repository);
        }
    }
}

pub fn all() -> Vec<Scenario> {
    [into_full(), old_borders(), into_shallow(), many(), lines()]
        .into_iter()
        .flatten()
        .map(Scenario::sound)
        .collect()
}

/// The third commit on top of a border at the second, beside a ref that needs no border.
fn grafted() -> Request {
    let line = Line::new();
    Request::new()
        .shallow(&line.id(2))
        .command(ZERO, &first().id(), "refs/heads/whole")
        .command(ZERO, &line.id(3), "refs/heads/grafted")
        .pack(line.pack(&[2, 3]))
}

fn into_full() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (takes, does) in [(false, "does not take"), (true, "takes")] {
        all.extend([
            scenario(format!("a border that the repository {does}"), seeded_and(takes), |_| {
                grafted().bytes()
            }),
            scenario(
                format!("atomic, with a border that the repository {does}"),
                seeded_and(takes),
                |_| grafted().capabilities(ATOMIC).bytes(),
            )
            .accepting(if takes { &[] } else { &[AtomicIsAtomic] }),
            scenario(
                format!("a border that fsck looks at and the repository {does}"),
                move |repository| {
                    seeded_and(takes)(repository);
                    configure(repository, "transfer.fsckObjects", "true");
                },
                |_| grafted().bytes(),
            ),
            scenario(
                format!("a tag of a tag above a border that the repository {does}"),
                seeded_and(takes),
                |_| {
                    let line = Line::new();
                    let one = tag(&line.id(3), "commit", "v1");
                    let two = tag(&one.id(), "tag", "v2");
                    let objects = line.objects(&[2, 3]).into_iter().chain([&one, &two]);
                    Request::new()
                        .shallow(&line.id(2))
                        .command(ZERO, &two.id(), "refs/tags/v2")
                        .pack(pack(&objects.map(entry).collect::<Vec<_>>()))
                        .bytes()
                },
            ),
            scenario(
                format!("a border itself, which the repository {does}"),
                seeded_and(takes),
                |_| {
                    let line = Line::new();
                    Request::new()
                        .shallow(&line.id(2))
                        .command(ZERO, &line.id(2), "refs/heads/border")
                        .pack(line.pack(&[2]))
                        .bytes()
                },
            ),
            scenario(
                format!("a merge of what is here and a border that the repository {does}"),
                seeded_and(takes),
                |_| {
                    let line = Line::new();
                    let Snapshot { tree, .. } = first();
                    let merge = commit(&tree.id(), &[&first().id(), &line.id(3)], "merge");
                    let objects = line.objects(&[2, 3]).into_iter().chain([&merge]);
                    Request::new()
                        .shallow(&line.id(2))
                        .command(&first().id(), &merge.id(), "refs/heads/main")
                        .pack(pack(&objects.map(entry).collect::<Vec<_>>()))
                        .bytes()
                },
            ),
            scenario(
                format!("a ref is moved to a border that the repository {does}, another goes"),
                move |repository| {
                    seeded_and(takes)(repository);
                    git::run(repository, &["update-ref", "refs/heads/gone", "refs/heads/main"]);
                },
                |_| {
                    let line = Line::new();
                    let main = first().id();
                    Request::new()
                        .shallow(&line.id(2))
                        .command(&main, ZERO, "refs/heads/gone")
                        .command(&main, &line.id(3), "refs/heads/main")
                        .pack(line.pack(&[2, 3]))
                        .bytes()
                },
            ),
            scenario(
                format!("hidden, with a border that the repository {does}"),
                move |repository| {
                    seeded_and(takes)(repository);
                    configure(repository, "receive.hideRefs", "refs/heads/grafted");
                },
                |_| grafted().bytes(),
            ),
        ]);
    }
    all
}

fn old_borders() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (takes, does) in [(false, "does not take"), (true, "takes")] {
        // git leaves an empty file where it finds out late that there is nothing to add.
        let empty: &[_] = if takes { &[EmptyShallow] } else { &[] };
        for (sent, again) in [(&[4][..], ""), (&[2, 4], " and comes again")] {
            all.push(
                scenario(
                    format!("a border that a ref leads to{again}; the repository {does} others"),
                    move |repository| {
                        Line::new().store(repository, &[1, 2, 3], &[], 3);
                        seeded_and(takes)(repository);
                    },
                    move |_| {
                        let line = Line::new();
                        Request::new()
                            .shallow(&line.id(2))
                            .command(&line.id(3), &line.id(4), "refs/heads/line")
                            .pack(line.pack(sent))
                            .bytes()
                    },
                )
                .accepting(empty),
            );
        }
        all.extend([
            scenario(
                format!("a border that a hidden ref leads to; the repository {does} others"),
                move |repository| {
                    Line::new().store(repository, &[1, 2, 3], &[], 3);
                    seeded_and(takes)(repository);
                    configure(repository, "transfer.hideRefs", "refs/heads/line");
                },
                |_| {
                    let line = Line::new();
                    Request::new()
                        .shallow(&line.id(3))
                        .command(ZERO, &line.id(4), "refs/heads/x")
                        .pack(line.pack(&[4]))
                        .bytes()
                },
            )
            .accepting(empty),
            scenario(
                format!("a border that is here without a ref, which the repository {does}"),
                move |repository| {
                    Line::new().store(repository, &[1, 2], &[], 0);
                    seeded_and(takes)(repository);
                },
                |_| {
                    let line = Line::new();
                    Request::new()
                        .shallow(&line.id(2))
                        .command(ZERO, &line.id(3), "refs/heads/x")
                        .pack(line.pack(&[3]))
                        .bytes()
                },
            ),
            scenario(
                format!("a way to the border that is here without a ref; the repository {does} it"),
                move |repository| {
                    Line::new().store(repository, &[2, 3], &[], 0);
                    seeded_and(takes)(repository);
                },
                |_| {
                    let line = Line::new();
                    Request::new()
                        .shallow(&line.id(2))
                        .command(ZERO, &line.id(4), "refs/heads/x")
                        .pack(line.pack(&[4]))
                        .bytes()
                },
            ),
        ]);
    }
    all
}

fn into_shallow() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (takes, does) in [(false, "no others"), (true, "others")] {
        let empty: &[_] = if takes { &[EmptyShallow] } else { &[] };
        let prepare = move |repository: &Path| {
            Line::new().store(repository, &[2, 3], &[2], 3);
            seeded_and(takes)(repository);
        };
        for (border, who) in
            [(0, "a full client"), (2, "one with its border"), (3, "one with less")]
        {
            all.push(
                scenario(
                    format!("into a shallow repository that takes {does}, from {who}"),
                    prepare,
                    move |_| {
                        let line = Line::new();
                        let request = Request::new()
                            .command(&line.id(3), &line.id(4), "refs/heads/line")
                            .command(ZERO, &line.id(2), "refs/heads/border")
                            .pack(line.pack(&[4]));
                        let border = if border > 0 { Some(line.id(border)) } else { None };
                        border.iter().fold(request, |request, id| request.shallow(id)).bytes()
                    },
                )
                .accepting(empty),
            );
        }
        all.extend([
            scenario(
                format!("more history than a shallow repository has, which takes {does}"),
                move |repository| {
                    Line::new().store(repository, &[3, 4], &[3], 4);
                    seeded_and(takes)(repository);
                },
                |_| {
                    let line = Line::new();
                    let side = Snapshot::new("side\n", &[&line.id(2)]);
                    let objects = line.objects(&[2]).into_iter();
                    let objects = objects.chain([&side.blob, &side.tree, &side.commit]);
                    Request::new()
                        .shallow(&line.id(2))
                        .command(ZERO, &side.id(), "refs/heads/side")
                        .pack(pack(&objects.map(entry).collect::<Vec<_>>()))
                        .bytes()
                },
            ),
            scenario(
                format!("the whole history from a full client, into one that takes {does}"),
                prepare,
                |_| {
                    let line = Line::new();
                    Request::new()
                        .command(ZERO, &line.id(4), "refs/heads/x")
                        .pack(line.pack(&[1, 2, 3, 4]))
                        .bytes()
                },
            ),
            scenario(
                format!("an unrelated border, into a shallow repository that takes {does}"),
                prepare,
                |_| {
                    let (line, other) = (Line::new(), Line::named("other"));
                    Request::new()
                        .shallow(&other.id(3))
                        .shallow(&line.id(2))
                        .command(&line.id(3), &line.id(4), "refs/heads/line")
                        .command(ZERO, &other.id(4), "refs/heads/other")
                        .pack(pack(
                            &line
                                .objects(&[4])
                                .into_iter()
                                .chain(other.objects(&[3, 4]))
                                .map(entry)
                                .collect::<Vec<_>>(),
                        ))
                        .bytes()
                },
            ),
            scenario(
                format!("only a deletion from a shallow client; the repository takes {does}"),
                prepare,
                |_| {
                    let line = Line::new();
                    Request::new()
                        .shallow(&line.id(2))
                        .command(&line.id(3), ZERO, "refs/heads/line")
                        .bytes()
                },
            ),
        ]);
    }
    all
}

/// A ref that needs no border, and one that needs two borders.
fn merged() -> Request {
    let (line, other) = (Line::new(), Line::named("other"));
    let Snapshot { tree, .. } = first();
    let merge = commit(&tree.id(), &[&line.id(4), &other.id(4)], "merge");
    let objects = line.objects(&[3, 4]).into_iter().chain(other.objects(&[3, 4])).chain([&merge]);
    Request::new()
        .shallow(&line.id(3))
        .shallow(&other.id(3))
        .command(ZERO, &first().id(), "refs/heads/beside")
        .command(ZERO, &merge.id(), "refs/heads/merge")
        .pack(pack(&objects.map(entry).collect::<Vec<_>>()))
}

fn many() -> Vec<Scenario> {
    let refuse = |name: &str| {
        let text =
            format!("#!/bin/sh\nsort <shallow >>hook.log\n[ \"$1\" != refs/heads/{name} ]\n");
        move |repository: &Path| {
            seeded(repository);
            takes_borders(repository);
            fs::write(repository.join("shallow"), "").unwrap();
            write_hook(repository, "update", &text);
        }
    };
    let mut all = Vec::new();
    for refused in ["beside", "merge", "none"] {
        let name = format!("two borders, and the update hook refuses '{refused}'");
        let atomic = format!("atomic, {name}");
        all.push(scenario(name, refuse(refused), |_| merged().bytes()));
        all.push(scenario(atomic, refuse(refused), |_| merged().capabilities(ATOMIC).bytes()));
    }
    let hooks_that_look = |repository: &Path| {
        seeded(repository);
        takes_borders(repository);
        let text = "#!/bin/sh\n{\nsort \"$GIT_SHALLOW_FILE\"\nwhile read old new name; do\n\
                    git rev-list --topo-order --objects $new; done\n} >>hook.log 2>&1\n";
        write_hook(repository, "pre-receive", text);
        write_hook(repository, "post-receive", text);
    };
    all.extend([
        scenario("two borders, and hooks that want to see the history", hooks_that_look, |_| {
            merged().bytes()
        }),
        scenario("more than one ref on a border", seeded_and(true), |_| {
            let line = Line::new();
            grafted()
                .command(ZERO, &line.id(2), "refs/heads/border")
                .command(ZERO, &first().id(), "refs/heads/last")
                .bytes()
        })
        .accepting(&[BorderOfEach]),
        scenario(
            "a border for a ref that the proc-receive hook hands back",
            |repository| {
                seeded(repository);
                takes_borders(repository);
                configure(repository, "receive.procReceiveRefs", "refs/heads/grafted");
                let text = "#!/bin/sh\nprintf '000eversion=1\\n00000019ok refs/heads/grafted\
                            0017option fall-through0000'\ncat >/dev/null\n";
                write_hook(repository, "proc-receive", text);
            },
            |_| grafted().capabilities("report-status-v2 side-band-64k agent=probe").bytes(),
        ),
    ]);
    all
}

fn lines() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (takes, does) in [(false, "no borders"), (true, "borders")] {
        all.extend([
            scenario(
                format!("lines of what nobody has, into a repository that takes {does}"),
                seeded_and(takes),
                |_| {
                    let line = Line::new();
                    Request::new()
                        .shallow(&"1".repeat(40))
                        .shallow(&line.id(2))
                        .command(&first().id(), &second().id(), "refs/heads/main")
                        .pack(second().pack())
                        .bytes()
                },
            ),
            scenario(
                format!("one line many times, into a repository that takes {does}"),
                seeded_and(takes),
                |_| {
                    let id = Line::new().id(2);
                    grafted().shallow(&id).shallow(&"2".repeat(40)).shallow(&id).bytes()
                },
            ),
            scenario(
                format!(
                    "a line of a commit of the pack without a ref; the repository takes {does}"
                ),
                seeded_and(takes),
                |_| {
                    let line = Line::new();
                    let objects =
                        [&second().blob, &second().tree, &second().commit].map(entry).to_vec();
                    let others = line.objects(&[2]).into_iter().map(entry);
                    Request::new()
                        .shallow(&line.id(2))
                        .command(&first().id(), &second().id(), "refs/heads/main")
                        .pack(pack(&objects.into_iter().chain(others).collect::<Vec<_>>()))
                        .bytes()
                },
            )
            .accepting(if takes { &[EmptyShallow] } else { &[] }),
            scenario(
                format!("a border whose parents come too, into one that takes {does}"),
                seeded_and(takes),
                |_| {
                    let line = Line::new();
                    Request::new()
                        .shallow(&line.id(2))
                        .command(ZERO, &line.id(3), "refs/heads/x")
                        .pack(line.pack(&[1, 2, 3]))
                        .bytes()
                },
            ),
        ]);
    }
    all
}
