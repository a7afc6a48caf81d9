//! `packhouse load`: the load generator, and the null server to measure it with.

mod help;
mod null_server;

use crate::load::files;
use crate::load::mix::{Mix, MixError, PushKind, parse_bytes};
use crate::load::report;
use crate::load::run::{Outcome, RunError};
use crate::load::settings::{End, Layout, Pace, Settings};
use crate::load::summary::Summary;
use crate::load::target::{Credentials, Target, is_loopback};
use crate::load::tls::Trust;
use crate::report::with_causes;
use clap::{Args, Subcommand, ValueEnum};
use help::EXAMPLES;
use null_server::NullServerArguments;
use rustix::fs::{Access, access};
use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Puts load on any smart HTTP git server with many concurrent pushers, and proves that nothing
/// was lost.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(super) struct Load {
    #[command(subcommand)]
    command: Option<LoadCommand>,
    /// Repositories to push to; {repo} in a URL stands for their number, from 0
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,

    /// Pushers, each on a connection of its own
    #[arg(short = 'n', long, default_value_t = 8, value_name = "N", help_heading = WHAT)]
    pushers: usize,
    /// Which pusher pushes to what
    #[arg(long, value_enum, default_value_t = LayoutName::OwnBranch, help_heading = WHAT)]
    layout: LayoutName,
    /// Repositories that {repo} stands for [default: one for each pusher]
    #[arg(long, value_name = "N", help_heading = WHAT)]
    repositories: Option<usize>,
    /// Push to this branch rather than to new ones of this run's own (refs/heads/load/...)
    #[arg(long, value_name = "NAME", help_heading = WHAT)]
    branch: Option<String>,
    /// New blobs in each push
    #[arg(long, default_value_t = 3, value_name = "N", help_heading = WHAT)]
    blobs: usize,
    /// Size of each blob, such as 300, 64k or 10M
    #[arg(long, default_value = "1k", value_parser = parse_bytes, value_name = "BYTES", help_heading = WHAT)]
    size: usize,
    /// Read kinds of pushes and fetches with their weights from this TOML file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["blobs", "size"], help_heading = WHAT)]
    mix: Option<PathBuf>,

    /// Length of the measured window in seconds
    #[arg(short, long, default_value_t = 10.0, value_name = "SECONDS", help_heading = PACE)]
    duration: f64,
    /// End after this many pushes rather than after a time
    #[arg(short, long, value_name = "N", conflicts_with_all = ["duration", "compare"], help_heading = PACE)]
    count: Option<u64>,
    /// Push for so many seconds before measuring [default: 1; 0 with --count]
    #[arg(long, value_name = "SECONDS", help_heading = PACE)]
    warmup: Option<f64>,
    /// Open loop: this many pushes are due each second, and latency counts from then
    #[arg(long, value_name = "PER-SECOND", conflicts_with = "compare", help_heading = PACE)]
    rate: Option<f64>,
    /// Take turns with a second server, and tell the ratios
    #[arg(long, value_name = "URL", help_heading = PACE)]
    compare: Option<String>,
    /// Length of a turn in a comparison, in seconds
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS", help_heading = PACE)]
    round: f64,

    /// Push with a POST alone, without asking for the refs first (git always asks)
    #[arg(long, help_heading = CLIENT)]
    no_discovery: bool,
    /// Open a connection for each push, as git does, and count the time
    #[arg(long, help_heading = CLIENT)]
    reconnect: bool,
    /// Give up a request after so many seconds
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS", help_heading = CLIENT)]
    timeout: f64,
    /// End the run when nothing has succeeded for so many seconds
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS", help_heading = CLIENT)]
    give_up: f64,
    /// Threads that push [default: the processors, at most one for each pusher]
    #[arg(long, value_name = "N", help_heading = CLIENT)]
    threads: Option<usize>,
    /// Memory for packs that are made ahead
    #[arg(long, default_value = "256M", value_parser = parse_bytes, value_name = "BYTES", help_heading = CLIENT)]
    ahead: usize,
    /// Push to a host that is not this machine
    #[arg(long, help_heading = CLIENT)]
    yes: bool,

    /// Name of the user; the password is read from --password-file or PACKHOUSE_LOAD_PASSWORD.
    /// Credentials are sent to every URL given, the compared one too
    #[arg(long, value_name = "NAME", help_heading = WHO)]
    user: Option<String>,
    /// File whose first line is the password
    #[arg(long, value_name = "FILE", requires = "user", help_heading = WHO)]
    password_file: Option<PathBuf>,
    #[arg(long, env = "PACKHOUSE_LOAD_PASSWORD", hide = true, hide_env_values = true)]
    password: Option<String>,
    /// File whose first line is a bearer token (or PACKHOUSE_LOAD_TOKEN), sent to every URL
    /// given, the compared one too
    #[arg(long, value_name = "FILE", conflicts_with = "user", help_heading = WHO)]
    token_file: Option<PathBuf>,
    #[arg(long, env = "PACKHOUSE_LOAD_TOKEN", hide = true, hide_env_values = true)]
    token: Option<String>,
    /// Trust the certificate authorities in this PEM file rather than the system's
    #[arg(long, value_name = "FILE", help_heading = WHO)]
    cacert: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long, conflicts_with = "cacert", help_heading = WHO)]
    insecure: bool,

    /// Make bare repositories that are not there in this directory, each named after the last
    /// part of its URL, before the run
    #[arg(long, value_name = "DIR", help_heading = PROOF)]
    prepare: Option<PathBuf>,
    /// Look for everything that was acknowledged: refs shown, a fetch by git; status 1 if
    /// anything is lost, 2 if not all could be looked at (needs git)
    #[arg(long, help_heading = PROOF)]
    verify: bool,
    /// The directory of the server's repositories: git fsck and the refs on disk are verified too.
    /// Each lies there by the path of its URL, or by the end of it
    #[arg(long, value_name = "DIR", requires = "verify", help_heading = PROOF)]
    root: Option<PathBuf>,

    /// Print JSON rather than text
    #[arg(long, help_heading = REPORT)]
    json: bool,
    /// Write the percentile distribution for the HdrHistogram plotter
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    hdr: Option<PathBuf>,
    /// Write a page with charts
    #[arg(long, value_name = "FILE.html", help_heading = REPORT)]
    report: Option<PathBuf>,
    /// No progress line
    #[arg(short, long, help_heading = REPORT)]
    quiet: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum LoadCommand {
    NullServer(NullServerArguments),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LayoutName {
    /// Each pusher to a branch of its own, and to a repository of its own if the URL has {repo}
    OwnBranch,
    /// All pushers of a repository to one branch: lost races are sent again, and counted
    OneBranch,
}

type Failure = Box<dyn Error + Send + Sync>;

impl Load {
    /// Runs it; the exit statuses are told in its help.
    pub(super) fn run(self) -> ExitCode {
        if let Some(LoadCommand::NullServer(arguments)) = self.command {
            return told(arguments.run().map(|()| ExitCode::SUCCESS), CANNOT_RUN);
        }
        match self.settings() {
            Ok(settings) => told(self.push(&settings), CANNOT_RUN),
            // No server had a say in it, and a mix is quoted in lines of its own.
            Err(error) => {
                for line in format!("packhouse: error: {}", with_causes(error.as_ref())).lines() {
                    say(line);
                }
                ExitCode::from(super::USAGE)
            }
        }
    }

    fn push(&self, settings: &Settings) -> Result<ExitCode, Failure> {
        if !self.yes {
            for target in settings.targets.iter().chain(&settings.compare) {
                let addresses = target.resolve().map_err(|error| {
                    format!("cannot find the host of '{}': {error}", target.url())
                })?;
                if !is_loopback(&addresses) {
                    return Err(format!(
                        "'{}' is not this machine: say --yes if it is yours to put load on",
                        target.url()
                    )
                    .into());
                }
            }
        }
        for path in self.report.iter().chain(&self.hdr) {
            writable(path).map_err(|error| {
                format!("cannot write '{}' after the run: {error}", path.display())
            })?;
        }
        let outcome = match crate::load::run(settings) {
            Ok(outcome) => outcome,
            Err(error @ RunError::Interrupted) => {
                say(&format!("packhouse: {error}"));
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Err(error) => return Err(error.into()),
        };
        self.tell(&outcome.summary)?;
        Ok(status_of(&outcome))
    }

    fn tell(&self, summary: &Summary) -> Result<(), Failure> {
        // First what nobody could get again; the files after.
        let text = if self.json { report::json(summary) } else { report::text(summary) };
        io::stdout().lock().write_all(text.as_bytes())?;
        // Where nothing at all was verified the text has no verdict.
        let unseen = summary.sides.iter().map(|side| &side.verification);
        for verification in unseen.filter(|verification| self.verify && !verification.asked) {
            for reason in &verification.skipped {
                say(&format!("packhouse: not verified: {reason}"));
            }
        }
        if let Some(path) = &self.report {
            files::write(path, &report::page(summary))?;
        }
        if let Some(path) = &self.hdr {
            for (side, number) in summary.sides.iter().zip(0..) {
                files::write(&beside(path, number), &report::distribution(side))?;
            }
        }
        Ok(())
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let targets = self.urls.iter().map(|url| Target::parse(url));
        let targets: Vec<Target> = targets.collect::<Result<_, _>>()?;
        let compare = self.compare.as_deref().map(Target::parse).transpose()?;
        if self.pushers == 0 || self.pushers > PUSHERS_MAX {
            return Err(format!("--pushers: 1 to {PUSHERS_MAX}, not {}", self.pushers).into());
        }
        let layout = match self.layout {
            LayoutName::OwnBranch => Layout::OwnBranch,
            LayoutName::OneBranch => Layout::OneBranch,
        };
        let settings = Settings {
            targets,
            compare,
            pushers: self.pushers,
            layout,
            repositories: self.repositories,
            branch: self.branch.clone(),
            mix: self.read_mix()?,
            pace: self.pace()?,
            discovery: !self.no_discovery,
            reconnect: self.reconnect,
            threads: self.threads.unwrap_or_else(processors),
            ahead_bytes: self.ahead,
            timeout: seconds("--timeout", self.timeout)?,
            give_up: seconds("--give-up", self.give_up)?,
            trust: self.trust(),
            credentials: self.credentials()?,
            prepare: self.prepare.clone(),
            verify: self.verify,
            root: self.root.clone(),
            progress: !self.quiet,
        };
        if settings.branch.is_some() && layout == Layout::OwnBranch && shares(&settings) {
            return Err("--branch: several pushers to one branch are --layout one-branch".into());
        }
        Ok(settings)
    }

    fn read_mix(&self) -> Result<Mix, MixError> {
        match &self.mix {
            Some(path) => Mix::read(path),
            None => Mix::of(PushKind::plain(self.blobs, self.size)),
        }
    }

    fn pace(&self) -> Result<Pace, Failure> {
        if self.rate.is_some_and(|rate| !(RATE_MIN..=RATE_MAX).contains(&rate)) {
            return Err(format!("--rate: {RATE_MIN} to {RATE_MAX} pushes a second").into());
        }
        let end = match self.count {
            Some(0) => return Err("--count: at least one push".into()),
            Some(count) => End::Pushes(count),
            None => End::After(seconds("--duration", self.duration)?),
        };
        let warmup = self.warmup.unwrap_or(if self.count.is_some() { 0.0 } else { 1.0 });
        let warmup = match Duration::try_from_secs_f64(warmup) {
            Ok(duration) if duration <= SECONDS_MAX => duration,
            _ => return Err(out_of_range("--warmup", warmup)),
        };
        Ok(Pace { warmup, end, rate: self.rate, round: seconds("--round", self.round)? })
    }

    fn trust(&self) -> Trust {
        match &self.cacert {
            Some(path) => Trust::Authorities(path.clone()),
            None if self.insecure => Trust::Anybody,
            None => Trust::System,
        }
    }

    fn credentials(&self) -> Result<Option<Credentials>, Failure> {
        if let Some(user) = &self.user {
            let password = match &self.password_file {
                Some(path) => Some(first_line(path)?),
                None => self.password.clone(),
            };
            let password = password.ok_or(
                "--user: the password comes from --password-file or PACKHOUSE_LOAD_PASSWORD",
            )?;
            return Ok(Some(Credentials::Basic { user: user.clone(), password }));
        }
        let token = match &self.token_file {
            Some(path) => Some(first_line(path)?),
            None => self.token.clone(),
        };
        Ok(token.map(Credentials::Bearer))
    }
}

/// Tells an error. What of it a server said stays within its line.
fn told(result: Result<ExitCode, Failure>, otherwise: u8) -> ExitCode {
    result.unwrap_or_else(|error| {
        say(&format!("packhouse: error: {}", with_causes(error.as_ref())));
        ExitCode::from(otherwise)
    })
}

fn status_of(outcome: &Outcome) -> ExitCode {
    if outcome.summary.has_failed() {
        ExitCode::from(FAILED)
    } else if outcome.summary.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if !outcome.verified {
        say("packhouse: error: not everything that was acknowledged could be looked at");
        ExitCode::from(CANNOT_RUN)
    } else {
        ExitCode::SUCCESS
    }
}

/// Whether two pushers have the same repository.
fn shares(settings: &Settings) -> bool {
    let share = settings.pushers.div_ceil(settings.targets.len());
    let many = settings.repositories.unwrap_or(share).max(1);
    let counts = settings.targets.iter().map(|target| if target.is_template() { many } else { 1 });
    counts.sum::<usize>() < settings.pushers
}

/// Where the distribution of a side goes: of a second one, beside that of the first.
fn beside(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push("-b");
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn first_line(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read '{}': {error}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn seconds(flag: &str, seconds: f64) -> Result<Duration, Failure> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() && duration <= SECONDS_MAX => Ok(duration),
        _ => Err(out_of_range(flag, seconds)),
    }
}

fn out_of_range(flag: &str, seconds: f64) -> Failure {
    let most = SECONDS_MAX.as_secs();
    format!("{flag}: not a number of seconds up to {most}: {seconds}").into()
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether a file could be made, or written over; nothing is made.
fn writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if path.exists() {
        return Ok(access(path, Access::WRITE_OK)?);
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    if !std::fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Writes a line to standard error; nobody can be told if that fails.
fn say(line: &str) {
    drop(io::stderr().lock().write_all(format!("{}\n", printable(line)).as_bytes()));
}

/// One line that moves no cursor, whatever a server put into it.
fn printable(line: &str) -> String {
    line.replace(char::is_control, "\u{fffd}")
}

/// Pushes failed, or something was lost.
const FAILED: u8 = 1;
/// The run could not be made, or not be verified.
const CANNOT_RUN: u8 = 2;
/// Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;
const PUSHERS_MAX: usize = 100_000;
const RATE_MIN: f64 = 0.001;
const RATE_MAX: f64 = 1e6;
const SECONDS_MAX: Duration = Duration::from_secs(100 * 86_400);

const WHAT: &str = "What is pushed";
const PACE: &str = "How long, how fast";
const CLIENT: &str = "The client";
const WHO: &str = "Credentials and TLS";
const PROOF: &str = "Before and after";
const REPORT: &str = "Reports";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        load: Load,
    }

    fn settings(arguments: &[&str]) -> Result<Settings, String> {
        let line = Line::try_parse_from([&["load"], arguments].concat())
            .map_err(|error| error.to_string())?;
        line.load.settings().map_err(|error| error.to_string())
    }

    #[test]
    fn a_url_is_enough() {
        let settings = settings(&["http://127.0.0.1:1/x.git"]).unwrap();
        assert_eq!(settings.pushers, 8);
        assert_eq!(settings.pace.end, End::After(Duration::from_secs(10)));
        assert_eq!(settings.pace.warmup, Duration::from_secs(1));
        assert!(settings.discovery && !settings.reconnect && !settings.verify);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let url = "http://127.0.0.1:1/x.git";
        for (arguments, word) in [
            (&[][..], "URL"),
            (&["nonsense"], "nonsense"),
            (&[url, "--pushers=0"], "--pushers"),
            (&[url, "--count=0"], "--count"),
            (&[url, "--count=5", "--duration=5"], "--duration"),
            (&[url, "--duration=-1"], "--duration"),
            (&[url, "--duration=0"], "--duration"),
            (&[url, "--rate=0"], "--rate"),
            (&[url, "--rate=1e-30"], "--rate: 0.001 to"),
            (&[url, "--rate=NaN"], "--rate"),
            (&[url, "--warmup=1e19"], "--warmup: not a number of seconds up to 8640000"),
            (&[url, "--warmup=-1"], "--warmup"),
            (&[url, "--size=3"], "bytes"),
            (&[url, "--branch=main"], "--layout"),
            (&[url, "--user=me"], "PACKHOUSE_LOAD_PASSWORD"),
            (&[url, "--root=/x"], "--verify"),
            (&[url, "--compare=http://h/x", "--rate=5"], "--rate"),
            (&[url, "--insecure", "--cacert=x"], "--cacert"),
            (&[url, "--mix=/nonexistent"], "/nonexistent"),
        ] {
            let error = settings(arguments).unwrap_err();
            assert!(error.contains(word), "{arguments:?}: {error}");
        }
        assert!(settings(&["http://h/{repo}", "--branch=main"]).is_ok());
        assert!(settings(&[url, "-n1", "--branch=main"]).is_ok());
    }

    #[test]
    fn what_a_server_says_stays_within_its_line() {
        assert_eq!(printable("a\u{1b}[2J\nb\u{9b}é"), "a\u{fffd}[2J\u{fffd}b\u{fffd}é");
    }

    #[test]
    fn the_second_distribution_lies_beside_the_first() {
        assert_eq!(beside(Path::new("d/a.hgrm"), 0), Path::new("d/a.hgrm"));
        assert_eq!(beside(Path::new("d/a.hgrm"), 1), Path::new("d/a-b.hgrm"));
        assert_eq!(beside(Path::new("a"), 1), Path::new("a-b"));
    }
}
