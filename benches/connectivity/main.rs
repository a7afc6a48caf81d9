//! One small commit, pushed to repositories of many refs; and the refs advertised.
//!
//! `cargo bench --bench connectivity` runs it; `-- --help` tells what it takes. Every ref has a
//! commit of its own, all of them packed. Hidden refs prove nothing complete, for git and for
//! packhouse alike, and are not advertised. Every receiver has its own copy of every repository,
//! and pushes the same commits to it, one on top of the other.

mod arguments;
mod repositories;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use arguments::Arguments;
use repositories::Cell;
use std::path::PathBuf;
use std::process::ExitCode;
use support::group::Group;
use support::options::{self, Common, exit};
use support::process::Spent;
use support::receiver::Receiver;
use support::served::Served;
use support::statistics::{median, ratio};
use support::table::{figure, print};
use support::{Outcome, git, machine};

fn main() -> ExitCode {
    exit("connectivity", run())
}

fn run() -> Outcome<()> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else {
        print!("{}{}{}", arguments::HELP, options::CONFIG_HELP, options::HELP);
        return Ok(());
    };
    let scratch =
        tempfile::Builder::new().prefix("connectivity-").tempdir_in(&arguments.common.scratch)?;
    let root = scratch.path().join("repositories");
    std::fs::create_dir_all(&root)?;
    machine::print_facts(scratch.path(), &arguments.common.gits_to_tell());
    let pushes = 1 + arguments.common.rounds * arguments.pushes;
    let group = Group::new(&format!("connectivity-{}", std::process::id()))?;
    let warm = Served::start(&root, &[])?;
    let packhouse = env!("CARGO_BIN_EXE_packhouse");
    let cold = |program| Receiver::Cold { group: &group, program };
    let mut receivers = vec![
        (String::from("git receive-pack"), cold("git")),
        (String::from("packhouse receive-pack"), cold(packhouse)),
        (String::from("packhouse serve"), Receiver::Warm(&warm)),
    ];
    for program in &arguments.common.gits {
        receivers.push((Common::git_name(program)?, cold(program)));
    }
    let mut tracks = Vec::new();
    for cell in Cell::all(&arguments) {
        let original = scratch.path().join(format!("original-{}", cell.file_name()));
        let bodies = cell.make(&original, pushes, &arguments.common.configuration)?;
        for (number, (name, receiver)) in receivers.iter().enumerate() {
            let repository = root.join(format!("{number}-{}.git", cell.file_name()));
            git::copy(&original, &repository)?;
            let bodies = bodies.clone().into_iter();
            tracks.push(Track { cell, name, receiver, repository, bodies, turns: Vec::new() });
        }
    }
    rustix::fs::sync();
    for track in &mut tracks {
        track.take_turn(1)?;
        track.turns.clear();
    }
    for _ in 0..arguments.common.rounds {
        for track in &mut tracks {
            track.take_turn(arguments.pushes)?;
        }
    }
    println!(
        "\n### One commit with three blobs, and an advertisement ({} rounds of {} each, medians \
         of their means)",
        arguments.common.rounds, arguments.pushes
    );
    print_table(&tracks, receivers.len())
}

/// A receiver on its copy of a repository.
struct Track<'a> {
    cell: Cell,
    name: &'a str,
    receiver: &'a Receiver<'a>,
    repository: PathBuf,
    /// What is to be pushed, in order.
    bodies: std::vec::IntoIter<PathBuf>,
    turns: Vec<Turn>,
}

/// Means of a turn, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    advertise_wall: f64,
    advertise_cpu: f64,
    push_wall: f64,
    push_cpu: f64,
}

const COLUMNS: [fn(&Turn) -> f64; 4] = [
    |turn| turn.advertise_wall,
    |turn| turn.advertise_cpu,
    |turn| turn.push_wall,
    |turn| turn.push_cpu,
];

impl Track<'_> {
    fn take_turn(&mut self, pushes: usize) -> Outcome<()> {
        let count = f64::from(u32::try_from(pushes)?);
        let mut turn = Turn::default();
        for _ in 0..pushes {
            let Spent { wall, cpu, output, .. } = self.receiver.advertise(&self.repository)?;
            self.require_refs(&output)?;
            turn.advertise_wall += wall / count;
            turn.advertise_cpu += cpu / count;
            let body = self.bodies.next().ok_or("no body is left")?;
            let spent = self.receiver.push(&self.repository, &body);
            let Spent { wall, cpu, .. } =
                spent.map_err(|error| format!("{}: {error}", self.name))?;
            turn.push_wall += wall / count;
            turn.push_cpu += cpu / count;
        }
        self.turns.push(turn);
        Ok(())
    }

    fn require_refs(&self, advertisement: &[u8]) -> Outcome<()> {
        let lines = advertisement.split(|&byte| byte == b'\n');
        let count = lines.filter(|line| line.windows(6).any(|part| part == b" refs/")).count();
        if count == self.cell.visible() {
            return Ok(());
        }
        let expected = self.cell.visible();
        Err(format!("{}: advertised {count} refs, not {expected}", self.name).into())
    }

    fn values(&self, of: fn(&Turn) -> f64) -> Vec<f64> {
        self.turns.iter().map(of).collect()
    }
}

fn print_table(tracks: &[Track], receivers: usize) -> Outcome<()> {
    let mut rows = Vec::new();
    for (at, track) in tracks.iter().enumerate() {
        let git = tracks.get(at - at % receivers).ok_or("git is missing")?;
        let mut row = vec![track.cell.name(), track.name.to_owned()];
        for column in COLUMNS {
            let own = track.values(column);
            row.push(figure(median(own.clone()) * 1e3));
            row.push(figure(ratio(&own, &git.values(column))));
        }
        rows.push(row);
    }
    let head = [
        "refs",
        "receiver",
        "advertise: wall ms",
        "× git",
        "CPU ms",
        "× git",
        "push: wall ms",
        "× git",
        "CPU ms",
        "× git",
    ];
    print(2, &head, &rows);
    Ok(())
}
