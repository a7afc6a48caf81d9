//! The repositories, and the commits that are pushed to them.

use super::arguments::Arguments;
use super::support::Outcome;
use super::support::git::{copy, git, init_bare, run};
use super::support::objects::{
    Object, Wish, command_list, pack, small_commit, write_loose_blobs, write_pack,
};
use packhouse::model::ObjectId;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A repository to push to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) packs: usize,
    loose: usize,
    /// Whether all of it lies in an alternate.
    is_borrowed: bool,
}

/// The history, a pack each commit, and what is pushed on top of so many of them.
#[derive(Debug)]
pub(crate) struct Commits {
    history: Vec<Vec<Object>>,
    bodies: BTreeMap<usize, Vec<PathBuf>>,
}

impl Cell {
    /// Every repository, the smallest first.
    pub(crate) fn all(arguments: &Arguments) -> Vec<Self> {
        let packs = &arguments.packs;
        let own = |packs: usize| Self { packs, loose: 0, is_borrowed: false };
        let mut cells: Vec<Self> = packs.iter().map(|packs| own(*packs)).collect();
        let mut ends: Vec<usize> = packs.first().into_iter().chain(packs.last()).copied().collect();
        ends.dedup();
        for loose in &arguments.loose {
            cells.extend(ends.iter().map(|packs| Self { loose: *loose, ..own(*packs) }));
        }
        cells.extend(packs.iter().map(|packs| Self { is_borrowed: true, ..own(*packs) }));
        cells
    }

    pub(crate) fn name(&self) -> String {
        let end = if self.packs == 1 { "" } else { "s" };
        let loose = if self.loose > 0 { format!(", {} loose", self.loose) } else { String::new() };
        let place = if self.is_borrowed { " in an alternate" } else { "" };
        format!("{} pack{end}{loose}{place}", self.packs)
    }

    pub(crate) fn file_name(&self) -> String {
        self.name().replace(", ", "-").replace(' ', "-")
    }

    fn tip(&self, commits: &Commits) -> Outcome<ObjectId> {
        let last = commits.history.get(self.packs - 1).and_then(|objects| objects.last());
        Ok(last.ok_or("a history that is too short")?.id)
    }

    /// Makes the repository that receivers get copies of.
    pub(crate) fn make(
        &self,
        commits: &Commits,
        scratch: &Path,
        configuration: &[(String, String)],
    ) -> Outcome<()> {
        let place = scratch.join("originals").join(self.file_name());
        let holder =
            if self.is_borrowed { place.with_extension("alternate") } else { place.clone() };
        for repository in [&place, &holder] {
            if !repository.exists() {
                init_bare(repository)?;
                for (key, value) in configuration {
                    run(git(repository).args(["config", key, value]))?;
                }
            }
        }
        for objects in commits.history.iter().take(self.packs) {
            write_pack(&holder.join("objects/pack"), objects)?;
        }
        if self.loose > 0 {
            write_loose_blobs(&holder.join("objects"), self.loose)?;
        }
        if self.is_borrowed {
            let line = format!("{}\n", holder.join("objects").display());
            fs::write(place.join("objects/info/alternates"), line)?;
        }
        for repository in [&place, &holder] {
            fs::write(repository.join("refs/heads/main"), format!("{}\n", self.tip(commits)?))?;
        }
        Ok(())
    }

    /// Copies it for a receiver; an alternate is shared, since nobody changes it.
    pub(crate) fn copy_to(&self, repository: &Path, scratch: &Path) -> Outcome<()> {
        copy(&scratch.join("originals").join(self.file_name()), repository)
    }
}

impl Commits {
    /// Makes the history of the largest repository, and so many requests for each.
    pub(crate) fn make(cells: &[Cell], pushes: usize, scratch: &Path) -> Outcome<Self> {
        let longest = cells.iter().map(|cell| cell.packs).max().unwrap_or(0);
        let mut history: Vec<Vec<Object>> = Vec::new();
        let tip = |history: &[Vec<Object>]| Some(history.last()?.last()?.id);
        for number in 0..longest {
            history.push(small_commit(tip(&history), number));
        }
        let mut bodies = BTreeMap::new();
        for packs in cells.iter().map(|cell| cell.packs) {
            let mut old = tip(history.get(..packs).unwrap_or_default());
            let mut files = Vec::new();
            for number in 0..pushes {
                let objects = small_commit(old, longest + number);
                let new = objects.last().ok_or("a commit without objects")?.id;
                let wish = Wish { old, new, name: "refs/heads/main".into() };
                let file = scratch.join(format!("body-{packs}-{number}"));
                fs::write(&file, [command_list(&[wish]), pack(&objects)].concat())?;
                files.push(file);
                old = Some(new);
            }
            bodies.insert(packs, files);
        }
        Ok(Self { history, bodies })
    }

    /// The requests on top of so many packs, in order.
    pub(crate) fn bodies(&self, packs: usize) -> &[PathBuf] {
        self.bodies.get(&packs).map(Vec::as_slice).unwrap_or_default()
    }
}
