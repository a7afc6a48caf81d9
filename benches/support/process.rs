//! What one process and everything it starts cost.

use super::Outcome;
use super::group::Group;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What a process cost.
#[derive(Clone, Debug)]
pub(crate) struct Spent {
    /// Seconds.
    pub(crate) wall: f64,
    /// Seconds of user and system time, of all its processes.
    pub(crate) cpu: f64,
    /// The most that one of its processes held, with the files it mapped.
    pub(crate) peak_megabytes: f64,
    /// What it said.
    pub(crate) output: Vec<u8>,
}

/// How often memory is looked at. The kernel keeps the maximum: only what a process takes in its
/// last moments can be missed.
const INTERVAL: Duration = Duration::from_millis(10);

/// Runs a command of the group on a file, and waits for it.
///
/// Memory is looked at only if `watches_memory`: that takes time from small ones.
pub(crate) fn measure(
    group: &Group,
    mut command: Command,
    input: &Path,
    watches_memory: bool,
) -> Outcome<Spent> {
    command.stdin(File::open(input)?).stdout(Stdio::piped()).stderr(Stdio::piped());
    let before = group.used()?;
    let ended = AtomicBool::new(false);
    let (output, wall, peak) = thread::scope(|scope| {
        let watcher = watches_memory.then(|| {
            scope.spawn(|| {
                let mut peak = 0;
                while !ended.load(Ordering::Relaxed) {
                    peak = peak.max(group.peak_kilobytes().unwrap_or(0));
                    thread::sleep(INTERVAL);
                }
                peak
            })
        });
        let begun = Instant::now();
        let output = command.output();
        let wall = begun.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        let peak = watcher.map(|watcher| watcher.join().expect("the watcher does not panic"));
        (output, wall, peak)
    });
    let output = output?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {} {}", output.status, text.trim()).into());
    }
    let cpu = group.used()?.saturating_sub(before).as_secs_f64();
    let peak = peak.map(u32::try_from).transpose()?;
    let peak_megabytes = peak.map_or(f64::NAN, |peak| f64::from(peak) / 1e3);
    Ok(Spent { wall, cpu, peak_megabytes, output: output.stdout })
}

/// Fails unless an answer says that a push was taken whole.
pub(crate) fn require_accepted(answer: &[u8]) -> Outcome<()> {
    let has = |text: &[u8]| answer.windows(text.len()).any(|window| window == text);
    if has(b"unpack ok\n") && !has(b"ng refs/") {
        return Ok(());
    }
    let end = answer.get(answer.len().saturating_sub(500)..).unwrap_or(answer);
    Err(format!("the push was refused: {}", String::from_utf8_lossy(end)).into())
}

/// System calls of a command and of all it starts, or `None` where there is no `strace`.
pub(crate) fn system_calls(
    command: &Command,
    input: &Path,
    scratch: &Path,
) -> Outcome<Option<u64>> {
    let counts = scratch.join("strace");
    let mut traced = Command::new("strace");
    traced.args(["-f", "-c", "-o"]).arg(&counts);
    traced.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        traced.env(name, value.unwrap_or_default());
    }
    traced.stdin(File::open(input)?).stdout(Stdio::null()).stderr(Stdio::null());
    match traced.status() {
        Err(_) => Ok(None),
        Ok(status) if status.success() => total(&std::fs::read_to_string(counts)?).map(Some),
        Ok(status) => Err(format!("{traced:?}: {status}").into()),
    }
}

/// The sum that `strace -c` ends with.
pub(crate) fn total(counts: &str) -> Outcome<u64> {
    let line = counts.lines().find(|line| line.trim_end().ends_with(" total"));
    let calls = line.and_then(|line| line.split_whitespace().nth(3));
    Ok(calls.ok_or("strace told no total")?.parse()?)
}
