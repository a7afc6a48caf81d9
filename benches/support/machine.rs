//! The facts that a table means nothing without.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Prints what the machine is and which versions are compared; each peer with the argument that
/// makes it tell its version.
pub(crate) fn print_facts(scratch: &Path, peers: &[(&str, &str)]) {
    let processor = first_value("/proc/cpuinfo", "model name").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = first_value("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let file_system = said(Command::new("stat").args(["-f", "-c", "%T"]).arg(scratch));
    println!("- processor: {processor}, {processors} of them; memory: {memory}");
    println!("- kernel {}, scratch directory on {file_system}", kernel.trim());
    println!("- {}", said(Command::new("git").arg("version")));
    for (program, argument) in peers {
        println!("- {}", said(Command::new(program).arg(argument)));
    }
    println!("- packhouse {}", env!("CARGO_PKG_VERSION"));
}

fn first_value(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The first line that a command says, on whichever stream.
fn said(command: &mut Command) -> String {
    let Ok(output) = command.output() else { return String::from("(not found)") };
    let bytes = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned()
}
