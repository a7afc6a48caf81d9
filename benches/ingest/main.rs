//! Whole pushes, from the first byte of the request to the report: packhouse and git, and beside
//! them what only takes the pack in.
//!
//! `cargo bench --bench ingest` runs it; `-- --help` tells what it takes. In a round every peer has
//! its turn, on a fresh copy of the repository. After a push the refs must be those that were
//! pushed. Nothing is deflated, sent or negotiated here: the request lies in a file.

mod arguments;
mod at_once;
mod histories;
mod inputs;
mod peers;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use arguments::Arguments;
use inputs::Input;
use peers::{Peer, Turn};
use std::path::Path;
use std::process::ExitCode;
use support::group::Group;
use support::options::{self, exit};
use support::statistics::{median, ratio};
use support::table::{figure, print};
use support::{Outcome, machine};

fn main() -> ExitCode {
    exit("ingest", run())
}

fn run() -> Outcome<()> {
    // cargo says --bench to every benchmark.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    // Peers that are functions run in a process of their own, so that all are counted alike.
    if let Some((peer, rest)) = words.split_first()
        && peers::run_as_process(peer, rest)?
    {
        return Ok(());
    }
    let Some(arguments) = Arguments::parse(words.into_iter())? else {
        print!("{}{}", arguments::HELP, options::HELP);
        return Ok(());
    };
    let scratch =
        tempfile::Builder::new().prefix("ingest-").tempdir_in(&arguments.common.scratch)?;
    let prepared = arguments.prepared.clone().unwrap_or_else(|| scratch.path().join("inputs"));
    let mut inputs = Vec::new();
    for kind in &arguments.inputs {
        inputs.push(Input::prepare(*kind, &arguments, &prepared)?);
    }
    if arguments.only_prepare {
        return Ok(());
    }
    machine::print_facts(scratch.path(), &arguments.common.gits_to_tell());
    println!("- gix-pack 0.77, both with as many threads as there are processors");
    let group = Group::new(&format!("ingest-{}", std::process::id()))?;
    for input in inputs.iter().filter(|_| !arguments.at_once.is_empty()) {
        at_once::measure(input, &arguments.at_once, scratch.path())?;
    }
    for input in inputs.iter().filter(|_| arguments.at_once.is_empty()) {
        compare(input, &group, scratch.path(), &arguments)?;
    }
    Ok(())
}

fn compare(input: &Input, group: &Group, scratch: &Path, arguments: &Arguments) -> Outcome<()> {
    let mut peers = Peer::all(&arguments.common.gits)?;
    peers.retain(|peer| arguments.wants(peer.name()) && peer.can_take(input));
    let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); peers.len()];
    for round in 0..arguments.common.rounds {
        for (peer, turns) in peers.iter().zip(&mut turns) {
            let checked = arguments.fsck && round == 0;
            let turn = peer.take_turn(input, group, scratch, checked);
            turns.push(turn.map_err(|error| format!("{}: {error}", peer.name()))?);
        }
    }
    let repeated = input.kind.repeats();
    let of_each = if repeated > 1 { format!(", means of {repeated} each") } else { String::new() };
    println!(
        "\n### {}: {} objects in {:.1} MB ({} rounds, medians{of_each})",
        input.kind.name(),
        input.objects,
        input.megabytes,
        arguments.common.rounds
    );
    let unit = if repeated > 1 { "ms" } else { "s" };
    let factor = if repeated > 1 { 1e3 } else { 1.0 };
    let of =
        |turns: &[Turn], value: fn(&Turn) -> f64| -> Vec<f64> { turns.iter().map(value).collect() };
    let git = peers.iter().position(|peer| matches!(peer, Peer::Git)).and_then(|at| turns.get(at));
    let mut rows = Vec::new();
    for (peer, turns) in peers.iter().zip(&turns) {
        let mut row = vec![peer.name().to_owned()];
        for value in [|turn: &Turn| turn.wall, |turn: &Turn| turn.cpu] {
            let own = of(turns, value);
            row.push(figure(median(own.clone()) * factor));
            row.push(figure(git.map_or(f64::NAN, |git| ratio(&own, &of(git, value)))));
        }
        row.push(figure(median(of(turns, |turn| turn.peak_megabytes))));
        rows.push(row);
    }
    let (wall, cpu) = (format!("wall {unit}"), format!("CPU {unit}"));
    print(1, &["peer", &wall, "× git", &cpu, "× git", "VmHWM MB"], &rows);
    Ok(())
}
