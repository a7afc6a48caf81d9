//! Processor time of a server and of everything it starts.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

/// A process as `/proc` has it (proc_pid_stat(5)).
struct Process {
    parent: u32,
    /// Clock ticks of its own, and of the children that it has waited for.
    ticks: u64,
}

/// User and system time used so far by `root` and its descendants, living or waited for.
pub(crate) fn of_tree(root: u32) -> Duration {
    let processes = processes();
    let mut members = HashSet::from([root]);
    loop {
        let below = processes.iter().filter(|(_, process)| members.contains(&process.parent));
        let below: Vec<u32> = below.map(|(id, _)| *id).filter(|id| !members.contains(id)).collect();
        if below.is_empty() {
            break;
        }
        members.extend(below);
    }
    let ticks: u64 = members.iter().filter_map(|id| processes.get(id)).map(|p| p.ticks).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

/// The most memory that a process held at once, in kilobytes.
pub(crate) fn peak_kilobytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// What the kernel counts in towards user space (`USER_HZ`): the same on all machines of today.
const TICKS_PER_SECOND: u64 = 100;

fn processes() -> HashMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| Some((id, read(id)?))).collect()
}

fn read(id: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name may hold anything, a parenthesis too.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let ticks = (11..15).map(number).sum::<Option<u64>>()?;
    Some(Process { parent: u32::try_from(number(1)?).ok()?, ticks })
}
