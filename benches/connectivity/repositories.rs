//! The repositories, and the commits that are pushed to them.

use super::arguments::Arguments;
use super::support::Outcome;
use super::support::git::{git, init_bare, run};
use super::support::objects::{Wish, command_list, commit, pack, small_commit, write_pack};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// A repository to push to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    refs: usize,
    /// Whether those of pull requests, which are half of the refs, are hidden.
    hides_half: bool,
}

impl Cell {
    pub(crate) fn all(arguments: &Arguments) -> Vec<Self> {
        let pair = |&refs: &usize| [false, true].map(|hides_half| Self { refs, hides_half });
        arguments.refs.iter().flat_map(pair).collect()
    }

    pub(crate) fn name(self) -> String {
        let hidden = if self.hides_half { ", half of them hidden" } else { "" };
        format!("{}{hidden}", self.refs)
    }

    pub(crate) fn file_name(self) -> String {
        format!("{}-{}", self.refs, if self.hides_half { "hidden" } else { "visible" })
    }

    /// Refs that are advertised; `main` is one of them.
    pub(crate) fn visible(self) -> usize {
        if self.hides_half { self.refs - self.refs / 2 } else { self.refs }
    }

    /// Makes the repository, and the requests that are pushed to it in order.
    pub(crate) fn make(
        self,
        place: &Path,
        pushes: usize,
        configuration: &[(String, String)],
    ) -> Outcome<Vec<PathBuf>> {
        init_bare(place)?;
        for (key, value) in configuration {
            run(git(place).args(["config", key, value]))?;
        }
        if self.hides_half {
            run(git(place).args(["config", "transfer.hideRefs", "refs/pull"]))?;
        }
        let mut objects = small_commit(None, 0);
        let [.., tree, base] = &objects[..] else { return Err("a commit without a tree".into()) };
        let (tree, base) = (tree.id, base.id);
        let mut lines = vec![(String::from("refs/heads/main"), base)];
        for number in 1..self.refs {
            let commit = commit(tree, Some(base), number);
            let name = if number % 2 == 1 {
                format!("refs/pull/{number}/head")
            } else {
                format!("refs/heads/topic-{number}")
            };
            lines.push((name, commit.id));
            objects.push(commit);
        }
        write_pack(&place.join("objects/pack"), &objects)?;
        lines.sort();
        let mut packed = String::from("# pack-refs with: peeled fully-peeled sorted \n");
        for (name, id) in lines {
            writeln!(packed, "{id} {name}")?;
        }
        fs::write(place.join("packed-refs"), packed)?;
        let mut files = Vec::new();
        let mut old = base;
        for number in 0..pushes {
            let objects = small_commit(Some(old), self.refs + number);
            let new = objects.last().ok_or("a commit without objects")?.id;
            let wish = Wish { old: Some(old), new, name: "refs/heads/main".into() };
            let file = place.with_extension(format!("body-{number}"));
            fs::write(&file, [command_list(&[wish]), pack(&objects)].concat())?;
            files.push(file);
            old = new;
        }
        Ok(files)
    }
}
