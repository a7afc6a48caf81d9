//! The same push to many repositories of one server at once: what it costs the server.

use super::inputs::Input;
use super::support::Outcome;
use super::support::git::{copy, refs};
use super::support::process::require_accepted;
use super::support::served::Served;
use super::support::table::{figure, print};
use std::path::Path;
use std::thread;
use std::time::Instant;

/// Lets a server with its defaults take the push so many times at once, for each of `counts`.
pub(crate) fn measure(input: &Input, counts: &[usize], scratch: &Path) -> Outcome<()> {
    let body = std::fs::read(&input.body)?;
    let mut rows = Vec::new();
    for &count in counts {
        let directory = tempfile::Builder::new().prefix("at-once-").tempdir_in(scratch)?;
        let root = directory.path().join("repositories");
        let names: Vec<String> = (0..count).map(|number| format!("{number}.git")).collect();
        for name in &names {
            copy(&input.base, &root.join(name))?;
        }
        rustix::fs::sync();
        let served = Served::start(&root, &[])?;
        let before = served.group.used()?;
        let begun = Instant::now();
        let push = |name: &String| -> Result<(), String> {
            let answer = served.push(name, &body).map_err(|error| error.to_string())?;
            require_accepted(&answer).map_err(|error| error.to_string())
        };
        thread::scope(|scope| -> Outcome<()> {
            let pushes: Vec<_> = names.iter().map(|name| scope.spawn(|| push(name))).collect();
            for pushed in pushes {
                pushed.join().map_err(|_| "a pusher has panicked")??;
            }
            Ok(())
        })?;
        let wall = begun.elapsed().as_secs_f64();
        let cpu = served.group.used()?.saturating_sub(before).as_secs_f64();
        let peak = served.group.peak_kilobytes().map(u32::try_from).transpose()?;
        for name in &names {
            if refs(&root.join(name))? != input.refs {
                return Err("the refs are not those that were pushed".into());
            }
        }
        let peak = peak.map_or(f64::NAN, |peak| f64::from(peak) / 1e3);
        rows.push(vec![count.to_string(), figure(wall), figure(cpu), figure(peak)]);
    }
    println!(
        "\n### {} at once to one server: {} objects in {:.1} MB each",
        input.kind.name(),
        input.objects,
        input.megabytes
    );
    print(0, &["pushes", "wall s", "CPU s", "VmHWM MB of the server"], &rows);
    Ok(())
}
