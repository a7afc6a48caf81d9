//! How a push ended, for the one line in the log.

use super::ReceiveError;
use crate::model::{Command, CommandStatus, PushId};
use std::time::{Duration, Instant};

/// How a push ended.
#[derive(Debug)]
pub struct PushOutcome {
    /// The name of the push.
    pub id: PushId,
    /// What became of it.
    pub result: Result<Verdict, ReceiveError>,
    /// The commands with their statuses; empty if the list was never read.
    pub commands: Vec<Command>,
    /// Objects in the pack.
    pub objects: u64,
    /// Bytes of the pack as received.
    pub bytes: u64,
    /// How long each step took, in order.
    pub steps: Vec<(&'static str, Duration)>,
    /// Whether the answer had begun: an edge that can still choose a status must know.
    pub answered: bool,
    /// Why a repository that the push made and did not fill could not be taken away again.
    pub cleanup_fault: Option<String>,
}

impl PushOutcome {
    pub(super) fn new(id: PushId) -> Self {
        Self {
            id,
            result: Ok(Verdict::Probe),
            commands: Vec::new(),
            objects: 0,
            bytes: 0,
            steps: Vec::new(),
            answered: false,
            cleanup_fault: None,
        }
    }
}

/// What became of a push that did not fail as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No commands: git's probe before a large push, or nothing to do.
    Probe,
    /// Every command has its verdict in the report.
    Reported {
        /// Refs that were changed as asked.
        done: usize,
        /// Refs that were refused.
        rejected: usize,
    },
}

impl Verdict {
    pub(super) fn of(commands: &[Command]) -> Self {
        let done = commands.iter().filter(|command| command.status == CommandStatus::Done).count();
        Self::Reported { done, rejected: commands.len() - done }
    }
}

/// Times the steps of a push.
#[derive(Debug)]
pub(super) struct StepClock {
    steps: Vec<(&'static str, Duration)>,
    began: Instant,
}

impl StepClock {
    pub(super) fn start() -> Self {
        Self { steps: Vec::new(), began: Instant::now() }
    }

    /// Ends a step and begins the next.
    pub(super) fn lap(&mut self, step: &'static str) {
        let now = Instant::now();
        self.steps.push((step, now - self.began));
        self.began = now;
    }

    pub(super) fn into_steps(self) -> Vec<(&'static str, Duration)> {
        self.steps
    }
}
