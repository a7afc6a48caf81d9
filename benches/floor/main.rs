//! What the disk and the processor allow with no git in the way.
//!
//! `cargo bench --bench floor -- disk` makes the files, renames and flushes that one durable push
//! needs, and nothing else; `-- pack FILE` inflates and hashes the objects of a pack, and nothing
//! else. A server can come near these figures and not below them.

mod disk;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each benchmark uses a part of it")]
mod support;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use support::{Outcome, inflate_and_hash};

const HELP: &str = "\
Usage: cargo bench --bench floor -- disk [OPTIONS]
       cargo bench --bench floor -- pack FILE

disk: pushes a second, kept as a pack or as five loose objects, by so many threads
  --threads N,N,...   [default: 1,16,64]
  --seconds S         length of a turn [default: 3]
  --rounds N          turns of each, interleaved; medians are printed [default: 5]
  --scratch DIR       where files are made [default: the system's temporary directory]

pack: processor seconds to inflate every entry of a pack once, and to hash as many bytes as its
objects have, in pieces of their sizes; git is asked for the sizes, so FILE has its .idx beside it
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    // cargo says --bench to every benchmark.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    match words.next().as_deref() {
        // cargo bench runs every benchmark: this one without arguments.
        Some("disk") | None => disk::measure(&disk_options(words)?),
        Some("pack") => {
            inflate_and_hash::measure(&PathBuf::from(words.next().ok_or("which pack?")?))
        }
        Some("-h" | "--help") => {
            print!("{HELP}");
            Ok(())
        }
        Some(word) => Err(format!("unknown word '{word}'; --help tells them").into()),
    }
}

fn disk_options(mut words: impl Iterator<Item = String>) -> Outcome<disk::Options> {
    let mut options = disk::Options {
        threads: vec![1, 16, 64],
        turn: Duration::from_secs(3),
        rounds: 5,
        scratch: std::env::temp_dir(),
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("'{word}' needs a value"))?;
        match word.as_str() {
            "--threads" => {
                let numbers = value.split(',').map(str::parse);
                options.threads = numbers.collect::<Result<_, _>>()?;
            }
            "--seconds" => options.turn = Duration::try_from_secs_f64(value.parse()?)?,
            "--rounds" => options.rounds = value.parse::<usize>()?.max(1),
            "--scratch" => options.scratch = value.into(),
            _ => return Err(format!("unknown option '{word}'; --help tells them").into()),
        }
    }
    Ok(options)
}
