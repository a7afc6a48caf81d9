//! One server under load: its repositories, its pushers, their threads.

use super::connection::{Connection, Endpoint, EndpointError};
use super::discovery::Advertisement;
use super::health::Health;
use super::ledger::Ledger;
use super::pace::{Arrivals, Gate, State};
use super::parcel::Parcel;
use super::push::{self, Paths, PushError};
use super::pusher::{Habits, Memory, Place, Pusher, lock};
use super::recorder::{Recent, Recorder};
use super::settings::{Layout, Settings};
use super::supply::Supply;
use super::target::Target;
use crate::model::HashKind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server and everything that pushes to it.
pub(super) struct Side {
    pub(super) repositories: Vec<Repository>,
    pub(super) gate: Arc<Gate>,
    pub(super) health: Arc<Health>,
    recorders: Vec<Arc<Mutex<Recorder>>>,
    ledgers: Vec<Arc<Mutex<Ledger>>>,
    workers: Vec<JoinHandle<()>>,
    beginning: Arc<Beginning>,
    /// Set when pushes that do not end are to be left alone.
    abandon: Arc<AtomicBool>,
}

/// One repository that is pushed to.
#[derive(Clone)]
pub(super) struct Repository {
    pub(super) url: String,
    /// The name of its directory, where the server keeps all of them together.
    pub(super) directory: String,
    /// The path of its URL.
    pub(super) path: String,
    pub(super) paths: Arc<Paths>,
    pub(super) endpoint: Arc<Endpoint>,
}

/// How far the pushers are with what comes before the first push.
#[derive(Debug, Default)]
struct Beginning {
    left: AtomicUsize,
    failed: Mutex<Option<PushError>>,
}

/// Why a server cannot be pushed to.
#[derive(Debug, thiserror::Error)]
pub enum SideError {
    /// Its name does not lead anywhere.
    #[error("cannot find the host of '{url}'")]
    Resolve {
        /// The URL.
        url: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The way to it.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The first request failed.
    #[error("{url}: {source}")]
    Probe {
        /// The URL.
        url: String,
        /// What the server, or nobody, said.
        source: Box<PushError>,
    },
    /// Repositories of two hashes.
    #[error("the repositories have different object formats")]
    MixedHashes,
    /// No thread or no runtime.
    #[error("cannot start a pusher")]
    Thread(#[from] std::io::Error),
}

impl Side {
    /// The repositories of some URLs.
    pub(super) fn repositories(
        targets: &[Target],
        settings: &Settings,
    ) -> Result<Vec<Repository>, SideError> {
        let mut repositories = Vec::new();
        for target in targets {
            let url = || target.url().to_owned();
            let addresses =
                target.resolve().map_err(|source| SideError::Resolve { url: url(), source })?;
            let endpoint = Arc::new(Endpoint::new(
                target,
                addresses,
                &settings.trust,
                settings.credentials.as_ref(),
                settings.timeout,
            )?);
            let share = settings.pushers.div_ceil(targets.len());
            let many = settings.repositories.unwrap_or(share).max(1);
            for number in 0..if target.is_template() { many } else { 1 } {
                repositories.push(Repository {
                    url: target.repository_url(number),
                    directory: target.directory(number),
                    path: target.path(number),
                    paths: Arc::new(Paths::new(&target.path(number))),
                    endpoint: Arc::clone(&endpoint),
                });
            }
        }
        Ok(repositories)
    }

    /// Asks each server for the refs of a repository, so that one that is not there, or refuses,
    /// is told before anything else; gives the hash of the repositories.
    pub(super) fn probe(repositories: &[Repository]) -> Result<HashKind, SideError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut found: Option<HashKind> = None;
        let mut asked: Vec<&Arc<Endpoint>> = Vec::new();
        for repository in repositories {
            if asked.iter().any(|endpoint| Arc::ptr_eq(endpoint, &repository.endpoint)) {
                continue;
            }
            asked.push(&repository.endpoint);
            let mut connection = Connection::new(Arc::clone(&repository.endpoint));
            let path = &repository.paths.discover_push;
            let shown: Advertisement =
                runtime.block_on(push::discover(&mut connection, path)).map_err(|source| {
                    let url = repository.url.clone();
                    SideError::Probe { url, source: Box::new(source) }
                })?;
            if found.is_some_and(|hash| hash != shown.hash()) {
                return Err(SideError::MixedHashes);
            }
            found = Some(shown.hash());
        }
        Ok(found.unwrap_or(HashKind::Sha1))
    }

    /// Starts the pushers, which connect and wait at the gate.
    pub(super) fn start(
        repositories: Vec<Repository>,
        settings: &Settings,
        supply: &Supply,
        run: &Run,
        arrivals: Option<Arc<Arrivals>>,
    ) -> Result<Self, SideError> {
        let count = match settings.pace.end {
            super::settings::End::Pushes(count) => Some(count),
            super::settings::End::After(_) => None,
        };
        let mut side = Self {
            repositories,
            gate: Arc::new(Gate::new(count, arrivals)),
            health: Arc::new(Health::new(settings.pushers)),
            recorders: Vec::new(),
            ledgers: Vec::new(),
            workers: Vec::new(),
            beginning: Arc::new(Beginning::default()),
            abandon: Arc::default(),
        };
        side.beginning.left.store(settings.pushers, Ordering::SeqCst);
        let threads = settings.threads.clamp(1, settings.pushers);
        let seeds = Arc::new(supply.seeds());
        for thread in 0..threads {
            let recorder = Arc::new(Mutex::new(Recorder::new(run.begun)));
            side.recorders.push(Arc::clone(&recorder));
            let numbers = (thread..settings.pushers).step_by(threads);
            let pushers: Vec<Pusher> = numbers
                .map(|number| side.pusher(number, settings, supply, run, Arc::clone(&recorder)))
                .collect();
            side.spawn(pushers, Arc::clone(&seeds))?;
        }
        Ok(side)
    }

    /// Whether all pushers wait at the gate; an error if one of them could not get there.
    pub(super) fn has_begun(&self) -> Result<bool, SideError> {
        if let Some(source) = lock(&self.beginning.failed).take() {
            let url = self.repositories.first().map(|first| first.url.clone()).unwrap_or_default();
            return Err(SideError::Probe { url, source: Box::new(source) });
        }
        Ok(self.beginning.left.load(Ordering::SeqCst) == 0)
    }

    /// What has been counted since this was asked the last time, for the progress line.
    pub(super) fn recent(&self) -> Recent {
        let mut sum = Recent::new();
        for recorder in &self.recorders {
            let recent = std::mem::replace(&mut lock(recorder).recent, Recent::new());
            // A histogram that resizes itself takes any value of another.
            let _ = sum.latency.add(&recent.latency);
            sum.bytes += recent.bytes;
        }
        sum
    }

    /// Acknowledged pushes and failures so far, warm-up included.
    pub(super) fn tally(&self) -> (u64, u64) {
        self.recorders
            .iter()
            .map(|recorder| lock(recorder).totals)
            .fold((0, 0), |sum, totals| (sum.0 + totals.acknowledged, sum.1 + totals.failures))
    }

    /// Applies `look` to each thread's recorder.
    pub(super) fn each_recorder(&self, mut look: impl FnMut(&mut Recorder)) {
        for recorder in &self.recorders {
            look(&mut lock(recorder));
        }
    }

    /// Waits until no push is on its way, `patience` at the most; whether that came true.
    pub(super) fn drained(&self, patience: impl Fn() -> Duration) -> bool {
        let begun = Instant::now();
        while self.gate.busy() > 0 {
            if begun.elapsed() >= patience() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Ends all pushers and gives what they counted and what they were promised. Pushes that are
    /// on their way stay in doubt.
    pub(super) fn end(&mut self, run: &Run) -> (Recorder, Ledger) {
        self.gate.set(State::Over);
        self.abandon.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            // A pusher that panicked has said so; what the others counted is still true.
            drop(worker.join());
        }
        let mut recorder = Recorder::new(run.begun);
        for other in self.recorders.drain(..) {
            recorder.add(lock(&other).clone());
        }
        let mut ledger = Ledger::default();
        for other in self.ledgers.drain(..) {
            ledger.add(std::mem::take(&mut *lock(&other)));
        }
        (recorder, ledger)
    }

    fn pusher(
        &mut self,
        number: usize,
        settings: &Settings,
        supply: &Supply,
        run: &Run,
        recorder: Arc<Mutex<Recorder>>,
    ) -> Pusher {
        let place = number % self.repositories.len();
        let repository = &self.repositories[place];
        let own = format!("refs/heads/load/{:08x}/", run.id >> 32);
        let shared = settings.layout == Layout::OneBranch;
        let branch = match &settings.branch {
            Some(name) => format!("refs/heads/{}", name.trim_start_matches("refs/heads/")),
            None if shared => format!("{own}all"),
            None => format!("{own}{number}"),
        };
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        self.ledgers.push(Arc::clone(&ledger));
        Pusher {
            connection: Connection::new(Arc::clone(&repository.endpoint)),
            place: Place {
                repository: place,
                paths: Arc::clone(&repository.paths),
                branch: branch.into(),
                // Alone on a branch, nobody races.
                shared: shared && settings.pushers > self.repositories.len(),
                further: format!("{own}{number}-"),
                first: !shared || number < self.repositories.len(),
            },
            habits: Habits {
                discovery: settings.discovery,
                reconnect: settings.reconnect,
                seconds: run.seconds,
            },
            tap: supply.tap(),
            gate: Arc::clone(&self.gate),
            health: Arc::clone(&self.health),
            recorder,
            ledger,
            memory: Memory::default(),
        }
    }

    fn spawn(&mut self, pushers: Vec<Pusher>, seeds: Arc<Vec<Parcel>>) -> Result<(), SideError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (beginning, abandon) = (Arc::clone(&self.beginning), Arc::clone(&self.abandon));
        let worker = std::thread::Builder::new().name("pusher".into()).spawn(move || {
            runtime.block_on(async {
                let mut tasks = tokio::task::JoinSet::new();
                for mut pusher in pushers {
                    let (beginning, seeds) = (Arc::clone(&beginning), Arc::clone(&seeds));
                    tasks.spawn(async move {
                        // Of those that share a branch one brings the seeds.
                        let seeds = if pusher.place.first { &seeds[..] } else { &[] };
                        match pusher.begin(seeds).await {
                            Ok(()) => {
                                beginning.left.fetch_sub(1, Ordering::SeqCst);
                                pusher.run().await;
                            }
                            Err(error) => *lock(&beginning.failed) = Some(error),
                        }
                    });
                }
                let all = async { while tasks.join_next().await.is_some() {} };
                let abandoned = async {
                    while !abandon.load(Ordering::SeqCst) {
                        tokio::time::sleep(LOOK).await;
                    }
                };
                tokio::select! {
                    () = all => {}
                    () = abandoned => {}
                }
            });
        })?;
        self.workers.push(worker);
        Ok(())
    }
}

/// What the parts of a run share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Drawn for each run: its refs and objects are its own.
    pub(super) id: u64,
    /// When it began.
    pub(super) begun: Instant,
    /// The same, in seconds after 1970.
    pub(super) seconds: u64,
}

const LOOK: Duration = Duration::from_millis(20);
