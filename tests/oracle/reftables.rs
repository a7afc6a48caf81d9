//! The ordinary pushes once more, to repositories that keep their refs as a reftable.

use super::Scenario;
use super::scenarios::{creations, deletions, hooks, names, policies, updates};

/// Those that make refs, or the HEAD of a work tree, by writing files.
const OF_FILES: &[&str] = &[
    "of a ref whose object is missing",
    "a branch that a linked work tree is rebasing",
    "a branch that a linked work tree is rebasing by mail",
    "a branch from which a linked work tree is bisecting",
];

pub fn all() -> Vec<Scenario> {
    [creations(), updates(), deletions(), names(), policies(), hooks()]
        .into_iter()
        .chain([super::transactions::all(), super::work_trees::all()])
        .flatten()
        .filter(|scenario| !OF_FILES.contains(&scenario.name.as_str()))
        .collect()
}
