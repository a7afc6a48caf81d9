//! Thousands of small pushes in a row to one repository, which nothing tidies up.

use super::support::Outcome;
use super::support::git::{git, init_bare, said};
use super::support::objects::{Wish, command_list, pack, small_commit};
use super::support::receiver::Receiver;
use super::support::statistics::median;
use super::support::table::{figure, print};
use std::fs;
use std::path::Path;

/// Pushes `count` commits to a repository of each receiver, and compares the last hundredth of them
/// with the second.
pub(crate) fn measure(
    receivers: &[(String, Receiver<'_>)],
    count: usize,
    root: &Path,
    scratch: &Path,
) -> Outcome<()> {
    let repositories: Vec<_> =
        (0..receivers.len()).map(|number| root.join(format!("row-{number}.git"))).collect();
    for repository in &repositories {
        init_bare(repository)?;
    }
    let mut walls = vec![Vec::with_capacity(count); receivers.len()];
    let mut old = None;
    let body = scratch.join("body");
    for number in 0..count {
        let objects = small_commit(old, number);
        let new = objects.last().ok_or("a commit without objects")?.id;
        let wish = Wish { old, new, name: "refs/heads/main".into() };
        fs::write(&body, [command_list(&[wish]), pack(&objects)].concat())?;
        old = Some(new);
        for (((_, receiver), repository), walls) in
            receivers.iter().zip(&repositories).zip(&mut walls)
        {
            walls.push(receiver.push(repository, &body)?.wall);
        }
    }
    println!("\n### {count} pushes in a row of one commit with three blobs, milliseconds");
    let hundredth = count.div_ceil(100);
    let mut rows = Vec::new();
    for (((name, _), repository), walls) in receivers.iter().zip(&repositories).zip(&walls) {
        let second = median(walls.iter().skip(hundredth).take(hundredth).copied().collect());
        let last = median(walls.iter().rev().take(hundredth).copied().collect());
        let mut row = vec![name.clone()];
        row.extend([second * 1e3, last * 1e3, last / second].map(figure));
        let counted = said(git(repository).args(["count-objects", "-v"]))?;
        for key in ["count", "packs"] {
            let value = counted.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            row.push(value.unwrap_or("–").to_owned());
        }
        rows.push(row);
    }
    let pushes = [format!("pushes {hundredth} to {}", 2 * hundredth), format!("last {hundredth}")];
    let head = ["receiver", &pushes[0], &pushes[1], "×", "loose objects", "packs"];
    print(1, &head, &rows);
    Ok(())
}
