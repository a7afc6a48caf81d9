//! The files, renames and flushes of a durable push.

use super::support::Outcome;
use super::support::statistics::median;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) struct Options {
    pub(crate) threads: Vec<usize>,
    pub(crate) turn: Duration,
    pub(crate) rounds: usize,
    pub(crate) scratch: PathBuf,
}

/// How the objects of a push of one commit, a tree and three blobs of a kilobyte are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A pack and its index.
    Pack,
    /// Five files in five directories.
    Loose,
}

/// Bytes of the pack and of its index, as such a push has them.
const PACK_BYTES: usize = 3400;
const INDEX_BYTES: usize = 1232;
/// Bytes of its loose objects.
const LOOSE_BYTES: [usize; 5] = [1040, 1040, 1040, 130, 170];

/// Measures every combination and prints the table.
pub(crate) fn measure(options: &Options) -> Outcome<()> {
    println!("| threads | directories | form | pushes/s | p50 ms |");
    println!("|---:|---|---|---:|---:|");
    for &threads in &options.threads {
        let mut cells = Vec::new();
        for own in [true, false] {
            for form in [Form::Pack, Form::Loose] {
                cells.push((own, form, Vec::new()));
            }
        }
        for _ in 0..options.rounds {
            for (own, form, turns) in &mut cells {
                turns.push(turn(threads, *own, *form, options)?);
            }
        }
        for (own, form, turns) in cells {
            let rates = turns.iter().map(|turn: &Turn| turn.rate).collect();
            let middles = turns.iter().map(|turn| turn.p50 * 1e3).collect();
            let place = if own { "own" } else { "one" };
            println!(
                "| {threads} | {place} | {form:?} | {:.0} | {:.2} |",
                median(rates),
                median(middles)
            );
        }
    }
    Ok(())
}

struct Turn {
    rate: f64,
    p50: f64,
}

fn turn(threads: usize, own: bool, form: Form, options: &Options) -> Outcome<Turn> {
    let scratch = tempfile::Builder::new().prefix("floor-").tempdir_in(&options.scratch)?;
    let places: Vec<PathBuf> = (0..threads)
        .map(|thread| scratch.path().join(if own { thread.to_string() } else { "one".into() }))
        .collect();
    for place in &places {
        fs::create_dir_all(place.join("pack"))?;
        fs::create_dir_all(place.join("refs"))?;
    }
    let begun = Instant::now();
    let times: Vec<io::Result<Vec<f64>>> = thread::scope(|scope| {
        let workers: Vec<_> = places
            .iter()
            .enumerate()
            .map(|(thread, place)| {
                scope.spawn(move || {
                    let mut times = Vec::new();
                    while begun.elapsed() < options.turn {
                        let start = Instant::now();
                        push(place, thread, times.len(), form)?;
                        times.push(start.elapsed().as_secs_f64());
                    }
                    Ok(times)
                })
            })
            .collect();
        let ended = workers.into_iter().map(|worker| worker.join().expect("no worker panics"));
        ended.collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let times: Vec<f64> = times.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    let pushes = f64::from(u32::try_from(times.len())?);
    Ok(Turn { rate: pushes / seconds, p50: median(times) })
}

/// One push: objects, their directories, the ref, its directory; each flushed before the next.
fn push(place: &Path, thread: usize, number: usize, form: Form) -> io::Result<()> {
    match form {
        Form::Pack => {
            let directory = place.join("pack");
            let name = |end: &str| directory.join(format!("{thread}-{number}.{end}"));
            let files = [("tmp-pack", "pack", PACK_BYTES), ("tmp-idx", "idx", INDEX_BYTES)];
            for (temporary, _, bytes) in files {
                write_durably(&name(temporary), bytes)?;
            }
            for (temporary, end, _) in files {
                fs::rename(name(temporary), name(end))?;
            }
            flush_directory(&directory)?;
        }
        Form::Loose => {
            let mut directories = Vec::new();
            for (object, bytes) in LOOSE_BYTES.into_iter().enumerate() {
                // Spread as ids are.
                let spread = thread.wrapping_mul(31).wrapping_add(number.wrapping_mul(5));
                let fan_out = spread.wrapping_add(object).wrapping_mul(2_654_435_761) % 256;
                let directory = place.join(format!("{fan_out:02x}"));
                let temporary = place.join(format!("tmp-{thread}-{object}"));
                write_durably(&temporary, bytes)?;
                match fs::create_dir(&directory) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    _ => {}
                }
                fs::rename(temporary, directory.join(format!("{thread}-{number}-{object}")))?;
                directories.push(directory);
            }
            for directory in directories {
                flush_directory(&directory)?;
            }
            flush_directory(place)?;
        }
    }
    let refs = place.join("refs");
    let temporary = refs.join(format!("tmp-{thread}"));
    write_durably(&temporary, 41)?;
    fs::rename(temporary, refs.join(thread.to_string()))?;
    flush_directory(&refs)
}

fn write_durably(path: &Path, bytes: usize) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(&vec![b'x'; bytes])?;
    file.sync_data()
}

fn flush_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
