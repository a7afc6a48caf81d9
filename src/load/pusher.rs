//! A pusher: one connection that pushes again and again, as the gate lets it.
//!
//! What it was promised goes to its ledger before the next push. A push that loses a race on a
//! shared branch is sent again on top of the winner; a push that fails is counted and left: the
//! next one stands on what the server shows, so one failure does not become many.

mod promises;

use super::connection::{Connection, Service};
use super::health::Health;
use super::ledger::Ledger;
use super::mix::{FetchKind, PushKind};
use super::pace::{Gate, State, Turn};
use super::parcel::Parcel;
use super::push::{self, Agreement, Change, Paths, PushError, since};
use super::recorder::{Pushed, Recorder, Window};
use super::supply::{Step, Tap};
use super::timing;
use crate::model::ObjectId;
use bstr::BString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What one pusher pushes to, and where it writes down what happened.
pub(super) struct Pusher {
    pub(super) connection: Connection,
    pub(super) place: Place,
    pub(super) habits: Habits,
    pub(super) tap: Tap,
    pub(super) gate: Arc<Gate>,
    pub(super) health: Arc<Health>,
    pub(super) recorder: Arc<Mutex<Recorder>>,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) memory: Memory,
}

/// The repository and the refs of a pusher.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) repository: usize,
    pub(super) paths: Arc<Paths>,
    pub(super) branch: BString,
    /// Whether others push to the branch too.
    pub(super) shared: bool,
    /// What the names of further refs begin with.
    pub(super) further: String,
    /// Whether no pusher before it has the same branch.
    pub(super) first: bool,
}

/// How a pusher goes about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Whether each push asks for the refs first.
    pub(super) discovery: bool,
    /// Whether each push has a connection of its own.
    pub(super) reconnect: bool,
    /// The date of all commits, in seconds after 1970.
    pub(super) seconds: u64,
}

/// What a pusher knows from its last push.
#[derive(Debug, Default)]
pub(super) struct Memory {
    agreement: Option<Agreement>,
    /// Whether the ledger may be behind the server.
    uncertain: bool,
    /// Refs besides the branch that were set at some time.
    further: Vec<BString>,
    fetched: Option<ObjectId>,
    failures: u32,
}

/// What the refs are before a push.
struct Look {
    agreement: Agreement,
    values: Vec<Option<ObjectId>>,
    took: Option<Duration>,
}

/// One push, sent and answered.
struct Sent {
    took: Duration,
    ended: Instant,
    bytes: u64,
    steps: Vec<(String, Duration)>,
    verdicts: Vec<Result<(), PushError>>,
}

impl Pusher {
    /// Connects, and pushes what later pushes take for granted.
    pub(super) async fn begin(&mut self, seeds: &[Parcel]) -> Result<(), PushError> {
        self.connection.open().await?;
        for seed in seeds {
            let names = [self.place.branch.clone()];
            let look = self.look(&names).await?;
            let changes = [(names[0].clone(), look.values[0])];
            for verdict in self.send(&look, &changes, Some(seed), false).await?.verdicts {
                verdict?;
            }
        }
        Ok(())
    }

    /// Pushes until the gate is shut for good or there is nothing left to push.
    pub(super) async fn run(mut self) {
        let gate = Arc::clone(&self.gate);
        let mut watch = gate.watch();
        loop {
            // Before the clock of this push: waiting for a pack is not the server's doing.
            let Some(step) = self.tap.next().await else { return };
            let Some(turn) = gate.turn(&mut watch).await else { return };
            let result = self.take(step, &turn, &watch).await;
            let open_loop = turn.due.is_some();
            drop(turn);
            self.note_connections();
            let Err(error) = result else {
                self.memory.failures = 0;
                continue;
            };
            self.memory.uncertain = true;
            self.health.failed(&error.to_string());
            lock(&self.recorder).failed(error.to_string());
            if !open_loop {
                self.rest(&error, &mut watch).await;
            }
        }
    }

    async fn take(
        &mut self,
        step: Step,
        turn: &Turn<'_>,
        watch: &watch::Receiver<State>,
    ) -> Result<(), PushError> {
        if self.habits.reconnect {
            self.connection.close();
        } else if turn.due.is_none() {
            self.connection.open().await?;
        }
        let begun = turn.due.unwrap_or_else(Instant::now);
        match step {
            Step::Push(parcel, kind) => self.push(&parcel, &kind, turn, begun, watch).await,
            Step::Delete(parcel, kind) => {
                let doomed = self.doomed();
                if doomed.is_empty() {
                    self.push(&parcel, &kind, turn, begun, watch).await
                } else {
                    self.delete(&doomed, &kind, turn, begun).await
                }
            }
            Step::Fetch(kind) => self.fetch(kind, turn.window, begun).await,
        }
    }

    async fn push(
        &mut self,
        parcel: &Parcel,
        kind: &PushKind,
        turn: &Turn<'_>,
        begun: Instant,
        watch: &watch::Receiver<State>,
    ) -> Result<(), PushError> {
        let names = self.names(kind.refs);
        // On a shared branch all or nothing: further refs that moved although the race was lost
        // would move again with the next attempt, and away from what was acknowledged.
        let atomic = kind.atomic || self.place.shared;
        let mut unmoved = 0;
        // The value that the branch had when a push was refused, and the refusal.
        let mut refused: Option<(Option<ObjectId>, PushError)> = None;
        loop {
            let look = self.look(&names).await?;
            if let Some((old, error)) = refused.take() {
                unmoved = if old == look.values[0] { unmoved + 1 } else { 0 };
                if unmoved > 0 && (!speaks_of_a_lock(&error) || unmoved > LOCKED_TIMES_MAX) {
                    return Err(error);
                }
                lock(&self.recorder).totals.lost_races += 1;
                if *watch.borrow() == State::Over {
                    return Ok(());
                }
                if unmoved > 0 {
                    // Whoever holds the lock needs a moment, and no further requests.
                    tokio::time::sleep(REST_MIN).await;
                }
            }
            // A server without atomic pushes gets the branch alone.
            let count = if self.place.shared && !look.agreement.atomic { 1 } else { names.len() };
            let changes = names.iter().cloned().zip(look.values.iter().copied()).take(count);
            let changes: Vec<_> = changes.collect();
            let sent = self.send(&look, &changes, Some(parcel), atomic).await?;
            match sent.verdicts.iter().find_map(|verdict| verdict.as_ref().err()) {
                None => {
                    self.pushed(turn.window, begun, &look, sent);
                    return Ok(());
                }
                Some(error) if self.place.shared => {
                    self.memory.uncertain = true;
                    refused = Some((look.values[0], error.clone()));
                }
                Some(error) => return Err(error.clone()),
            }
        }
    }

    async fn delete(
        &mut self,
        doomed: &[BString],
        kind: &PushKind,
        turn: &Turn<'_>,
        begun: Instant,
    ) -> Result<(), PushError> {
        let look = self.look(doomed).await?;
        let changes: Vec<_> = doomed.iter().cloned().zip(look.values.iter().copied()).collect();
        let sent = self.send(&look, &changes, None, kind.atomic).await?;
        if let Some(error) = sent.verdicts.iter().find_map(|verdict| verdict.as_ref().err()) {
            return Err(error.clone());
        }
        self.pushed(turn.window, begun, &look, sent);
        Ok(())
    }

    async fn fetch(
        &mut self,
        kind: FetchKind,
        window: Window,
        begun: Instant,
    ) -> Result<(), PushError> {
        let Place { repository, branch, paths, .. } = self.place.clone();
        if lock(&self.ledger).state(repository, &branch).is_none_or(|state| state.value.is_none()) {
            // Nothing is there yet, perhaps not even the repository.
            return Ok(());
        }
        let bytes = match kind {
            FetchKind::LsRemote => {
                push::discover(&mut self.connection, &paths.discover_fetch).await?;
                0
            }
            FetchKind::Fetch | FetchKind::Clone => {
                let have = self.memory.fetched.filter(|_| kind == FetchKind::Fetch);
                let (tip, bytes) = push::fetch(&mut self.connection, &paths, &branch, have).await?;
                self.memory.fetched = tip;
                bytes
            }
        };
        self.health.succeeded();
        lock(&self.recorder).fetched(window, begun, Instant::now(), bytes);
        Ok(())
    }

    /// Sends a push that sets refs to a new commit, or deletes them where there is no parcel, and
    /// writes down what became of it.
    async fn send(
        &mut self,
        look: &Look,
        refs: &[(BString, Option<ObjectId>)],
        parcel: Option<&Parcel>,
        atomic: bool,
    ) -> Result<Sent, PushError> {
        let parent = refs.first().and_then(|(_, old)| *old);
        let sealed = parcel.map(|parcel| parcel.seal(parent.as_ref(), self.habits.seconds));
        let commit = sealed.as_ref().map(|sealed| sealed.commit);
        let change = |(name, old): &(BString, Option<ObjectId>)| Change {
            name: name.clone(),
            old: *old,
            new: commit,
        };
        let changes: Vec<Change> = refs.iter().map(change).collect();
        let pack = parcel.map(Parcel::bytes).zip(sealed);
        let body = push::compose(&changes, look.agreement, atomic, pack)?;
        let bytes = body.iter().map(|chunk| chunk.len() as u64).sum();
        let repository = self.place.repository;
        {
            let mut ledger = lock(&self.ledger);
            for change in &changes {
                ledger.attempt(repository, &change.name, change.new);
            }
        }
        let begun = Instant::now();
        let answered =
            self.connection.post(&self.place.paths.push, Service::ReceivePack, body).await;
        let (took, ended) = since(begun);
        let result = answered.map_err(PushError::from).and_then(|answer| {
            let steps = answer.timing.iter().flat_map(|value| timing::parse(value.as_bytes()));
            let steps = steps.collect();
            let verdicts = push::verdicts(&answer, look.agreement, &changes)?;
            Ok(Sent { took, ended, bytes, steps, verdicts })
        });
        self.write_down(&changes, parent, &result);
        result
    }

    fn pushed(&mut self, window: Window, begun: Instant, look: &Look, sent: Sent) {
        self.health.succeeded();
        let pushed = Pushed {
            begun,
            ended: sent.ended,
            get: look.took,
            post: sent.took,
            bytes: sent.bytes,
            commands: sent.verdicts.len() as u64,
        };
        let mut recorder = lock(&self.recorder);
        recorder.pushed(window, &pushed);
        if !sent.steps.is_empty() {
            recorder.told(window, begun, sent.steps);
        }
    }

    /// The refs that a push of so many sets, the branch first.
    fn names(&mut self, refs: usize) -> Vec<BString> {
        while self.memory.further.len() + 1 < refs {
            let number = self.memory.further.len();
            self.memory.further.push(format!("{}{number}", self.place.further).into());
        }
        let further = self.memory.further.iter().take(refs.saturating_sub(1)).cloned();
        std::iter::once(self.place.branch.clone()).chain(further).collect()
    }

    /// The refs besides the branch that are there.
    fn doomed(&self) -> Vec<BString> {
        let (ledger, repository) = (lock(&self.ledger), self.place.repository);
        let there = |name: &&BString| {
            ledger.state(repository, name).is_some_and(|state| state.value.is_some())
        };
        self.memory.further.iter().filter(there).cloned().collect()
    }

    /// Rests after a failure, longer after each, until the run is over.
    async fn rest(&mut self, error: &PushError, watch: &mut watch::Receiver<State>) {
        let doublings = self.memory.failures.min(10);
        self.memory.failures += 1;
        let own = (REST_MIN * 2_u32.pow(doublings)).min(REST_MAX);
        // A server that refused in words is alive: it is asked at the pace it can bear.
        let rest = match error {
            PushError::Rejected(_) => REST_MIN,
            _ => error.retry_after().unwrap_or(own).min(RETRY_AFTER_MAX),
        };
        let over = async {
            while *watch.borrow_and_update() != State::Over && watch.changed().await.is_ok() {}
        };
        drop(tokio::time::timeout(rest, over).await);
    }

    fn note_connections(&mut self) {
        let opened = self.connection.take_opened();
        if opened.count > 0 {
            let mut recorder = lock(&self.recorder);
            recorder.totals.connections += opened.count;
            recorder.totals.connecting += opened.time;
        }
    }
}

/// Whether a refusal is that of a ref that another push holds at this moment.
fn speaks_of_a_lock(error: &PushError) -> bool {
    matches!(error, PushError::Rejected(text) if text.contains("lock") || text.contains("failed to update ref"))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How often a push meets a lock on a ref that does not move before it counts as refused: a lock
/// that somebody left behind stays for ever.
const LOCKED_TIMES_MAX: u32 = 100;
const REST_MIN: Duration = Duration::from_millis(5);
const REST_MAX: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);
