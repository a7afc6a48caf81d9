//! One big push by git itself: `git push --mirror` of a history that the user names.

use super::Outcome;
use super::arguments::Arguments;
use super::server::Server;
use super::small::{open_to_all, run};
use super::support::statistics::median;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Pushes the history to every server in turn, and prints the table.
pub(crate) fn compare(
    servers: &[Server],
    history: &Path,
    scratch: &Path,
    arguments: &Arguments,
) -> Outcome<()> {
    let mut results: Vec<Vec<Push>> = vec![Vec::new(); servers.len()];
    for _ in 0..arguments.rounds {
        for (server, results) in servers.iter().zip(&mut results) {
            let push = push(server, history, scratch);
            results.push(push.map_err(|error| format!("{}: {error}", server.name))?);
        }
    }
    println!("\n### git push --mirror of a history ({} rounds, medians)\n", arguments.rounds);
    println!("| server | wall s | × first | server CPU s | × first | VmHWM MB |");
    println!("|---|---:|---:|---:|---:|---:|");
    let first: Vec<Push> = results.first().cloned().unwrap_or_default();
    for (server, pushes) in servers.iter().zip(results) {
        let of = |value: fn(&Push) -> f64| median(pushes.iter().map(value).collect());
        let ratio = |value: fn(&Push) -> f64| {
            let pairs = pushes.iter().zip(&first);
            median(pairs.map(|(own, first)| value(own) / value(first)).collect())
        };
        let memory = of(|push| push.peak_megabytes);
        let memory = if memory.is_nan() { String::from("–") } else { format!("{memory:.0}") };
        println!(
            "| {} | {:.1} | {:.2} | {:.1} | {:.2} | {memory} |",
            server.name,
            of(|push| push.wall),
            ratio(|push| push.wall),
            of(|push| push.cpu),
            ratio(|push| push.cpu),
        );
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
struct Push {
    wall: f64,
    cpu: f64,
    peak_megabytes: f64,
}

fn push(server: &Server, history: &Path, scratch: &Path) -> Outcome<Push> {
    let directory = tempfile::Builder::new().prefix("mirror-").tempdir_in(scratch)?;
    open_to_all(directory.path())?;
    let root = directory.path().join("repositories");
    let target = root.join("mirror.git");
    run(Command::new("git").args(["init", "-q", "--bare"]).arg(&target))?;
    run(Command::new("chmod").args(["-R", "a+rwX"]).arg(&root))?;
    let running = server.start(&directory.path().join("server"), &root)?;
    let before = running.group.used()?;
    let begun = Instant::now();
    let url = format!("http://127.0.0.1:{}/mirror.git", running.port);
    run(Command::new("git").current_dir(history).args(["push", "-q", "--mirror", &url]))?;
    let wall = begun.elapsed().as_secs_f64();
    let cpu = running.group.used()?.saturating_sub(before).as_secs_f64();
    let peak = server.is_packhouse().then(|| running.group.peak_kilobytes()).flatten();
    let refs = |place: &Path| {
        let output = Command::new("git").current_dir(place).arg("show-ref").output();
        output.map(|output| output.stdout)
    };
    if refs(history)? != refs(&target)? {
        return Err("the refs differ after the push".into());
    }
    let peak = peak.map(u32::try_from).transpose()?;
    Ok(Push { wall, cpu, peak_megabytes: peak.map_or(f64::NAN, |peak| f64::from(peak) / 1e3) })
}
