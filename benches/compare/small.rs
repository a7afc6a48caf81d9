//! Small pushes: one commit with three blobs of a kilobyte.

use super::Outcome;
use super::arguments::Arguments;
use super::server::{Running, Server};
use super::table::{self, Row};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Which pusher pushes to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    OwnRepositories,
    OwnBranches,
    OneBranch,
}

/// One server's turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) pushes_per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Over all pushes of the turn: those that were under way at its end were served, too.
    pub(crate) cpu_per_push: f64,
    pub(crate) failed: f64,
}

impl Turn {
    /// A turn that came to nothing.
    const FAILED: Self = Self {
        pushes_per_second: f64::NAN,
        p50: f64::NAN,
        p99: f64::NAN,
        cpu_per_push: f64::NAN,
        failed: 1.0,
    };
}

/// Something acknowledged was not there: no peer is forgiven that.
#[derive(Debug, thiserror::Error)]
#[error("something acknowledged is not there:\n{0}")]
struct Loss(String);

fn is_loss(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<Loss>()
}

impl Layout {
    pub(crate) const ALL: [Self; 3] = [Self::OwnRepositories, Self::OwnBranches, Self::OneBranch];

    pub(crate) fn parse(name: &str) -> Outcome<Self> {
        let found = Self::ALL.into_iter().find(|layout| layout.name() == name);
        found.ok_or_else(|| format!("unknown layout '{name}'").into())
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OwnRepositories => "own-repositories",
            Self::OwnBranches => "own-branches",
            Self::OneBranch => "one-branch",
        }
    }
}

/// Compares all servers in one cell of the table, and prints it.
pub(crate) fn compare(
    servers: &[Server],
    layout: Layout,
    pushers: usize,
    scratch: &Path,
    arguments: &Arguments,
) -> Outcome<()> {
    let cell = Cell { layout, pushers, scratch, turn: arguments.turn };
    let take_turn = |server: &Server, verify: bool| match cell.take_turn(server, verify) {
        // A peer that breaks down under the load is a row of its own, and no end of the others.
        Err(error) if !server.is_packhouse() && !is_loss(&*error) => {
            eprintln!("{}: the turn failed: {error}", server.name);
            Ok(Turn::FAILED)
        }
        result => result.map_err(|error| format!("{}: {error}", server.name)),
    };
    for server in servers {
        take_turn(server, true)?;
    }
    let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); servers.len()];
    for _ in 0..arguments.rounds {
        for (server, turns) in servers.iter().zip(&mut turns) {
            turns.push(take_turn(server, false)?);
        }
    }
    let rows: Vec<Row> = servers
        .iter()
        .zip(turns)
        .map(|(server, turns)| Row { name: server.name.clone(), turns })
        .collect();
    println!(
        "\n### {} small pushers, {} ({} rounds of {:?}, medians)\n",
        pushers,
        layout.name(),
        arguments.rounds,
        arguments.turn
    );
    table::print(&rows);
    Ok(())
}

struct Cell<'a> {
    layout: Layout,
    pushers: usize,
    scratch: &'a Path,
    turn: Duration,
}

impl Cell<'_> {
    /// Lets one server take its turn. With `verify` all that was acknowledged is looked for.
    fn take_turn(&self, server: &Server, verify: bool) -> Outcome<Turn> {
        let directory = tempfile::Builder::new().prefix("turn-").tempdir_in(self.scratch)?;
        open_to_all(directory.path())?;
        let root = directory.path().join("repositories");
        self.make_repositories(&root)?;
        let running = server.start(&directory.path().join("server"), &root)?;
        self.push(&running, &["--count", "2", "--pushers", "1"])?;
        let seconds = self.turn.as_secs_f64().to_string();
        let pushers = self.pushers.to_string();
        let mut more = vec!["--duration", &seconds, "--pushers", &pushers];
        let root_text = root.display().to_string();
        if verify {
            more.extend(["--verify", "--root", &root_text]);
        }
        let before = running.group.used()?;
        let summary = self.push(&running, &more)?;
        let spent = running.group.used()?.saturating_sub(before);
        let side = summary.pointer("/sides/0").ok_or("the generator told nothing")?;
        let number = |path: &str| side.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let failed = number("/failures");
        if failed > 0.0 {
            eprintln!("{}: pushes failed: {}", server.name, side["errors"]);
        }
        Ok(Turn {
            pushes_per_second: number("/pushes_per_second"),
            p50: number("/latency/p50"),
            p99: number("/latency/p99"),
            cpu_per_push: spent.as_secs_f64() / number("/latency/count"),
            failed,
        })
    }

    /// Makes the repositories with git, writable for the users that Apache and nginx run as.
    fn make_repositories(&self, root: &Path) -> Outcome<()> {
        let names: Vec<String> = match self.layout {
            Layout::OwnRepositories => (0..self.pushers).map(|n| format!("r{n}.git")).collect(),
            Layout::OwnBranches | Layout::OneBranch => vec!["r.git".into()],
        };
        for name in names {
            run(Command::new("git").args(["init", "-q", "--bare"]).arg(root.join(name)))?;
        }
        run(Command::new("chmod").args(["-R", "a+rwX"]).arg(root))
    }

    fn push(&self, running: &Running, more: &[&str]) -> Outcome<Value> {
        let place = match self.layout {
            Layout::OwnRepositories => "r{repo}.git",
            Layout::OwnBranches | Layout::OneBranch => "r.git",
        };
        let mut flags = more.to_vec();
        if self.layout == Layout::OneBranch {
            flags.extend(["--layout", "one-branch"]);
        }
        generate(&format!("http://127.0.0.1:{}/{place}", running.port), &flags)
    }
}

/// Runs `packhouse load`; its summary.
pub(crate) fn generate(url: &str, flags: &[&str]) -> Outcome<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhouse"));
    // Enough for thousands of pushes, and made in a moment.
    command
        .args(["load", "--json", "--quiet", "--warmup", "0", "--ahead", "32M"])
        .args(flags)
        .arg(url);
    let output = command.output()?;
    // Pushes that fail are the server's doing, and are counted. What is lost is not forgiven.
    let summary: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    let is_lost = summary.as_ref().is_some_and(|summary| {
        let lost = |list: &str| summary.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
        lost("/sides/0/verification/lost") + lost("/sides/0/verification/early") > 0
    });
    if is_lost {
        return Err(Loss(String::from_utf8_lossy(&output.stdout).into_owned()).into());
    }
    if summary.is_none() || (!output.status.success() && output.status.code() != Some(1)) {
        let text = String::from_utf8_lossy(&output.stderr);
        let told = String::from_utf8_lossy(&output.stdout);
        return Err(format!("packhouse load: {} {text}\n{told}", output.status).into());
    }
    summary.ok_or_else(|| "packhouse load told nothing".into())
}

/// Runs a command that says nothing unless it fails.
pub(crate) fn run(command: &mut Command) -> Outcome<()> {
    let output =
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into())
}

/// Lets every user in: Apache and nginx run their workers as one of their own.
pub(crate) fn open_to_all(directory: &Path) -> Outcome<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs::set_permissions(directory, fs::Permissions::from_mode(0o777))?)
}
