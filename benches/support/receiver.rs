//! What takes small pushes: a process for each, or a server that runs.

use super::Outcome;
use super::git::without_configuration;
use super::group::Group;
use super::process::{self, Spent, measure, require_accepted};
use super::served::Served;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// A receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Receiver<'a> {
    /// A process for each request, as stock git is run.
    Cold {
        /// The processes run in it.
        group: &'a Group,
        /// It knows `receive-pack`.
        program: &'a str,
    },
    /// A server; the repository is called by its file name.
    Warm(&'a Served),
}

/// Pushes of which the system calls of a server are counted.
pub(crate) const COUNTED_PUSHES: usize = 3;

impl Receiver<'_> {
    /// Has the refs advertised.
    pub(crate) fn advertise(&self, repository: &Path) -> Outcome<Spent> {
        match self {
            Self::Cold { group, program } => {
                let mut command = group.command(program);
                command.args(["receive-pack", "--http-backend-info-refs"]).arg(repository);
                without_configuration(&mut command);
                measure(group, command, Path::new("/dev/null"), false)
            }
            Self::Warm(served) => warm(served, || served.advertisement(&name(repository)?)),
        }
    }

    /// Sends a push that must be accepted.
    pub(crate) fn push(&self, repository: &Path, body: &Path) -> Outcome<Spent> {
        let spent = match self {
            Self::Cold { group, program } => {
                let command = receive_pack(group.command(program), repository);
                measure(group, command, body, false)?
            }
            Self::Warm(served) => {
                let body = fs::read(body)?;
                warm(served, || served.push(&name(repository)?, &body))?
            }
        };
        require_accepted(&spent.output)?;
        Ok(spent)
    }

    /// System calls of a push, if they can be counted. Sends the first of the bodies, or as many
    /// as a server needs for a mean.
    pub(crate) fn system_calls(
        &self,
        repository: &Path,
        bodies: &[std::path::PathBuf],
        scratch: &Path,
    ) -> Outcome<f64> {
        let (calls, pushes) = match self {
            Self::Cold { program, .. } => {
                let body = bodies.first().ok_or("no body to push")?;
                let command = receive_pack(Command::new(program), repository);
                (process::system_calls(&command, body, scratch)?, 1)
            }
            Self::Warm(served) => {
                let calls = served.system_calls(scratch, || {
                    bodies.iter().try_for_each(|body| self.push(repository, body).map(drop))
                })?;
                (calls, u32::try_from(bodies.len())?)
            }
        };
        let calls = calls.map(u32::try_from).transpose()?;
        Ok(calls.map_or(f64::NAN, |calls| f64::from(calls) / f64::from(pushes)))
    }
}

fn receive_pack(mut command: Command, repository: &Path) -> Command {
    command.args(["receive-pack", "--stateless-rpc"]).arg(repository);
    without_configuration(&mut command);
    command
}

fn name(repository: &Path) -> Outcome<String> {
    let name = repository.file_name().and_then(|name| name.to_str());
    Ok(name.ok_or("a repository without a name")?.to_owned())
}

fn warm(served: &Served, ask: impl FnOnce() -> Outcome<Vec<u8>>) -> Outcome<Spent> {
    let before = served.group.used()?;
    let begun = Instant::now();
    let output = ask()?;
    let wall = begun.elapsed().as_secs_f64();
    let cpu = served.group.used()?.saturating_sub(before).as_secs_f64();
    Ok(Spent { wall, cpu, peak_megabytes: f64::NAN, output })
}
