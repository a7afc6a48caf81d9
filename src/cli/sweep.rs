//! The sweep at the start of a server: what killed pushes left below the root.
//!
//! Runs beside the server, on a thread of its own: ten thousand repositories must not delay the
//! first request, and a push that comes meanwhile is told from a dead one by its locks. What is
//! removed and what stays for the operator to look at is in the log. A second sweep a quarter of an
//! hour later takes what a killed push left that has no lock to tell it by.

use crate::repo::sweep::{Finding, OWN_AGE, Sweep, SweepReport};
use crate::repo::{Disk, InFlight};
use crate::report::with_causes;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Removes the locks that a killed server of this root has noted. Done before anything is served:
/// they would refuse pushes.
pub(super) fn recover(disk: &Disk, state_dir: &Path) -> io::Result<()> {
    let recovered = InFlight::recover(disk, state_dir)?;
    for path in recovered.removed {
        tracing::info!(path = shown(&path), "removed what a killed push had locked");
    }
    for path in recovered.passed_over {
        tracing::debug!(path = shown(&path), "noted by a killed push, and another's by now");
    }
    for (record, error) in recovered.failed {
        tracing::warn!(
            record = shown(&record),
            error,
            "cannot remove what a killed push had locked"
        );
    }
    Ok(())
}

/// Begins the sweep of everything below `root`.
pub(super) fn begin(disk: Disk, root: PathBuf) -> io::Result<()> {
    let run = move || {
        sweep_all(&disk, &root);
        // What was killed a moment before the start is told from what is at work only by now.
        std::thread::sleep(OWN_AGE + OWN_AGE / 2);
        sweep_all(&disk, &root);
    };
    std::thread::Builder::new().name("packhouse-sweep".into()).spawn(run).map(drop)
}

/// Temporary files of others are left alone for a day: no push is idle for so long.
const FOREIGN_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// A lock that is younger is somebody's who is at work.
const LOCK_AGE: Duration = Duration::from_secs(60);

fn sweep_all(disk: &Disk, root: &Path) {
    let started = Instant::now();
    let (mut places, mut removed) = (0_u64, 0_usize);
    for report in Sweep::new(disk, SystemTime::now(), FOREIGN_AGE).below(root) {
        places = places.saturating_add(1);
        removed = removed.saturating_add(report.removed.len());
        tell(&report);
    }
    tracing::info!(places, removed, seconds = started.elapsed().as_secs_f64(), "swept");
}

fn tell(report: &SweepReport) {
    for path in &report.removed {
        tracing::info!(path = shown(path), "removed what a killed push left");
    }
    for reported in &report.reported {
        let is_young = matches!(reported.finding, Finding::Lock { age } if age < LOCK_AGE);
        if !is_young {
            let finding = with_causes(&reported.finding);
            tracing::warn!(path = shown(&reported.path), finding, "left for you to look at");
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
