//! One small commit, pushed to repositories of many packs and many loose objects.
//!
//! `cargo bench --bench snapshot` runs it; `-- --help` tells what it takes. Each pack holds one
//! commit of the branch that is pushed to, with its tree and blobs, as if each had been pushed and
//! kept; there is no multi-pack-index, and nothing tidies up. Every receiver has its own copy of
//! every repository, and pushes the same commits to it, one on top of the other.

mod arguments;
mod in_a_row;
mod repositories;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use arguments::Arguments;
use repositories::{Cell, Commits};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use support::group::Group;
use support::options::{self, Common, exit};
use support::receiver::{COUNTED_PUSHES, Receiver};
use support::served::Served;
use support::statistics::{median, ratio};
use support::table::{figure, print};
use support::{Outcome, machine};

fn main() -> ExitCode {
    exit("snapshot", run())
}

fn run() -> Outcome<()> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else {
        print!("{}{}{}", arguments::HELP, options::CONFIG_HELP, options::HELP);
        return Ok(());
    };
    let scratch =
        tempfile::Builder::new().prefix("snapshot-").tempdir_in(&arguments.common.scratch)?;
    let root = scratch.path().join("repositories");
    std::fs::create_dir_all(&root)?;
    machine::print_facts(scratch.path(), &arguments.common.gits_to_tell());
    let group = Group::new(&format!("snapshot-{}", std::process::id()))?;
    let warm = Served::start(&root, &[])?;
    let keeping = Served::start(&root, &["--unpack-limit=1"])?;
    let packhouse = env!("CARGO_BIN_EXE_packhouse");
    let cold = |program| Receiver::Cold { group: &group, program };
    let mut receivers = vec![
        (String::from("git receive-pack"), cold("git")),
        (String::from("packhouse receive-pack"), cold(packhouse)),
        (String::from("packhouse serve"), Receiver::Warm(&warm)),
        (String::from("packhouse serve, unpack limit 1"), Receiver::Warm(&keeping)),
    ];
    for program in &arguments.common.gits {
        receivers.push((Common::git_name(program)?, cold(program)));
    }
    if arguments.in_a_row > 0 {
        return in_a_row::measure(&receivers, arguments.in_a_row, &root, scratch.path());
    }
    let cells = Cell::all(&arguments);
    // One push before the rounds, the rounds, and those whose system calls are counted.
    let pushes = 1 + arguments.common.rounds * arguments.pushes + COUNTED_PUSHES;
    let commits = Commits::make(&cells, pushes, scratch.path())?;
    for cell in &cells {
        cell.make(&commits, scratch.path(), &arguments.common.configuration)?;
    }
    let mut tracks = Vec::new();
    for cell in &cells {
        for (number, (name, receiver)) in receivers.iter().enumerate() {
            let repository = root.join(format!("{number}-{}.git", cell.file_name()));
            cell.copy_to(&repository, scratch.path())?;
            let bodies = commits.bodies(cell.packs);
            tracks.push(Track { name, receiver, repository, bodies, turns: Vec::new() });
        }
    }
    rustix::fs::sync();
    for track in &mut tracks {
        track.push()?;
    }
    for _ in 0..arguments.common.rounds {
        for track in &mut tracks {
            track.take_turn(arguments.pushes)?;
        }
    }
    println!(
        "\n### One commit with three blobs ({} rounds of {} pushes, medians of their means)",
        arguments.common.rounds, arguments.pushes
    );
    print_table(&cells, &mut tracks, receivers.len(), scratch.path())
}

/// A receiver on its copy of a repository.
struct Track<'a> {
    name: &'a str,
    receiver: &'a Receiver<'a>,
    repository: PathBuf,
    /// What is to be pushed, in order.
    bodies: &'a [PathBuf],
    turns: Vec<(f64, f64)>,
}

impl Track<'_> {
    fn push(&mut self) -> Outcome<(f64, f64)> {
        let (first, rest) = self.bodies.split_first().ok_or("no body is left")?;
        self.bodies = rest;
        let spent = self.receiver.push(&self.repository, first);
        let spent = spent.map_err(|error| format!("{}: {error}", self.name))?;
        Ok((spent.wall, spent.cpu))
    }

    fn take_turn(&mut self, pushes: usize) -> Outcome<()> {
        let count = f64::from(u32::try_from(pushes)?);
        let mut sum = (0.0, 0.0);
        for _ in 0..pushes {
            let (wall, cpu) = self.push()?;
            sum = (sum.0 + wall / count, sum.1 + cpu / count);
        }
        self.turns.push(sum);
        Ok(())
    }

    fn walls(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.0).collect()
    }

    fn cpus(&self) -> Vec<f64> {
        self.turns.iter().map(|turn| turn.1).collect()
    }
}

fn print_table(
    cells: &[Cell],
    tracks: &mut [Track],
    receivers: usize,
    scratch: &Path,
) -> Outcome<()> {
    let mut counts = Vec::new();
    for track in tracks.iter() {
        let bodies = track.bodies;
        counts.push(track.receiver.system_calls(&track.repository, bodies, scratch)?);
    }
    let mut rows = Vec::new();
    for (at, (track, calls)) in tracks.iter().zip(counts).enumerate() {
        let cell = cells.get(at / receivers).ok_or("a track without a repository")?;
        let git = tracks.get(at - at % receivers).ok_or("git is missing")?;
        let smallest = tracks.get(at % receivers).ok_or("the first repository is missing")?;
        let mut row = vec![cell.name(), track.name.to_owned()];
        for (own, git, smallest) in [
            (track.walls(), git.walls(), smallest.walls()),
            (track.cpus(), git.cpus(), smallest.cpus()),
        ] {
            row.push(figure(median(own.clone()) * 1e3));
            row.push(figure(ratio(&own, &git)));
            row.push(figure(ratio(&own, &smallest)));
        }
        row.push(figure(calls));
        rows.push(row);
    }
    let first = format!("× {}", cells.first().map(Cell::name).unwrap_or_default());
    print(
        2,
        &[
            "repository",
            "receiver",
            "wall ms",
            "× git",
            &first,
            "CPU ms",
            "× git",
            &first,
            "system calls",
        ],
        &rows,
    );
    Ok(())
}
