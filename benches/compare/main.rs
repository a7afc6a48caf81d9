//! Small pushes, and one big one, to packhouse and to the chains it replaces, in one interleaved
//! run on loopback.
//!
//! `cargo bench --bench compare` runs it; `-- --help` tells what it takes. It installs nothing and
//! says what it needs. Each cell of the table is the median of several rounds; in a round every
//! server has its turn, on repositories made for that turn. One turn before the rounds is not
//! measured: in that, everything that was acknowledged is looked for, and `git fsck` must be clean.

mod arguments;
mod mirror;
mod server;
mod small;
mod stock;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each benchmark uses a part of it")]
mod support;
mod table;

use std::process::ExitCode;
use support::Outcome;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let Some(arguments) = arguments::Arguments::parse(std::env::args().skip(1))? else {
        print!("{}", arguments::HELP);
        return Ok(());
    };
    server::require_programs()?;
    let scratch = tempfile::Builder::new().prefix("compare-").tempdir_in(&arguments.scratch)?;
    small::open_to_all(scratch.path())?;
    support::machine::print_facts(scratch.path(), &[("apache2", "-v"), ("nginx", "-v")]);
    let servers = server::all(&arguments.servers);
    if servers.is_empty() {
        return Err("no server has such a name".into());
    }
    for server in &servers {
        server.print_configuration(scratch.path())?;
    }
    if let Some(history) = &arguments.mirror {
        mirror::compare(&servers, history, scratch.path(), &arguments)?;
    }
    if arguments.stock {
        stock::compare(&servers, scratch.path(), &arguments)?;
    }
    if arguments.no_table {
        return Ok(());
    }
    for layout in &arguments.layouts {
        for pushers in &arguments.pushers {
            small::compare(&servers, *layout, *pushers, scratch.path(), &arguments)?;
        }
    }
    Ok(())
}
