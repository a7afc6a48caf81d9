//! What a run is told: where to, how many, how long, how.

use super::mix::Mix;
use super::target::{Credentials, Target};
use super::tls::Trust;
use std::path::PathBuf;
use std::time::Duration;

/// A run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own, yes or no")]
pub struct Settings {
    /// The URLs, over which the pushers are spread.
    pub targets: Vec<Target>,
    /// A second server, which takes turns with the first.
    pub compare: Option<Target>,
    /// Connections that push.
    pub pushers: usize,
    /// Which pusher pushes to what.
    pub layout: Layout,
    /// Repositories behind a URL with a number in it; as many as pushers if not given.
    pub repositories: Option<usize>,
    /// The branch, if it is not to be one of this run's own.
    pub branch: Option<String>,
    /// What is pushed.
    pub mix: Mix,
    /// How long and how fast.
    pub pace: Pace,
    /// Whether each push asks for the refs first, as git does.
    pub discovery: bool,
    /// Whether each push has a connection of its own, as git has.
    pub reconnect: bool,
    /// Threads that push.
    pub threads: usize,
    /// Bytes of packs that may be made ahead.
    pub ahead_bytes: usize,
    /// How long a request may take.
    pub timeout: Duration,
    /// How long nothing may succeed before the run is given up.
    pub give_up: Duration,
    /// Whom TLS trusts.
    pub trust: Trust,
    /// Who pushes.
    pub credentials: Option<Credentials>,
    /// Where bare repositories are to be made before the run.
    pub prepare: Option<PathBuf>,
    /// Whether what was acknowledged is looked for after the run.
    pub verify: bool,
    /// Where the server's repositories lie on this machine.
    pub root: Option<PathBuf>,
    /// Whether a progress line is shown, if standard error is a terminal.
    pub progress: bool,
}

/// Which pusher pushes to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Each to a branch of its own, the branches spread over the repositories.
    OwnBranch,
    /// All pushers of a repository to one branch, racing each other.
    OneBranch,
}

/// How long and how fast.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long is pushed before the measured window begins.
    pub warmup: Duration,
    /// How the measured window ends.
    pub end: End,
    /// Pushes that are due each second; as fast as they are answered if not given.
    pub rate: Option<f64>,
    /// How long the servers of a comparison take turns for.
    pub round: Duration,
}

/// How the measured window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After a time.
    After(Duration),
    /// After a number of pushes.
    Pushes(u64),
}
