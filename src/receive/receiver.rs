//! What all pushes of a process share, and what one push is given.

use super::maintenance::MaintenanceLedger;
use super::ref_queue::RefQueue;
use super::session::Opened;
use super::settings::PushSettings;
use super::{Client, NonceTerms, PacketTrace, ReceiveError, Surplus, advertise, identity, trace};
use crate::access::RefRules;
use crate::connectivity::commit_graph::CommitGraphCache;
use crate::model::{
    ByteBudget, CancelToken, Dialect, HashKind, Limits, PushId, RefName, RefNameError, UnpackLimit,
};
use crate::refs::{
    Namespace, PackedRefsCache, RefContext, RefSettings, RefStore, Reftable, ReftableCache,
};
use crate::repo::create::{CreateError, Creation, NewRepository, RepositoryHold, create};
use crate::repo::{Disk, Environment, GitConfig, InFlight, KeepRegistry, RefStorage, Repository};
use crate::report::{DISK_FAILED, Fault, Phase};
use crate::snapshot::SnapshotCache;
use crate::wire::{PushRequest, ServerCapabilities};
use bstr::ByteSlice;
use std::collections::HashMap;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// What all pushes of a process share: caches, registries and the server's own settings.
#[derive(Debug)]
pub struct Receiver {
    settings: ReceiverSettings,
    pub(super) snapshots: SnapshotCache,
    pub(super) commit_graphs: CommitGraphCache,
    pub(super) keeps: KeepRegistry,
    /// For requests that are read or carried out.
    pub(super) command_memory: ByteBudget,
    /// For large trees that are read for their links.
    pub(super) metadata_memory: ByteBudget,
    /// For what pushes are made of: bases, deltas, tables.
    pub(super) push_memory: Arc<ByteBudget>,
    packed_refs: Mutex<HashMap<PathBuf, Arc<PackedRefsCache>>>,
    reftables: Mutex<HashMap<PathBuf, Arc<ReftableCache>>>,
    pub(super) maintenance: MaintenanceLedger,
    /// Whose turn it is at which ref.
    pub(super) ref_queue: RefQueue,
}

/// The server's own settings.
#[derive(Clone, Debug)]
pub struct ReceiverSettings {
    /// The disk, with the server's flush policy.
    pub disk: Disk,
    /// The bounds on one push.
    pub limits: Limits,
    /// The unpack limit of repositories that set none.
    pub unpack_limit: UnpackLimit,
    /// The version of git whose words and steps pushes are answered with.
    pub dialect: Dialect,
    /// What is advertised as `agent=`.
    pub agent: String,
    /// The directory of the in-flight record, outside all repositories; none keeps no record, as
    /// befits a process of one push.
    pub state_dir: Option<PathBuf>,
    /// Whether hooks run in process groups of their own, as under a server, whose signals are not
    /// theirs; git's receive-pack shares its group with them.
    pub hooks_apart: bool,
    /// Where packets are written down.
    pub packet_trace: PacketTrace,
}

/// Where a push goes.
#[derive(Clone, Debug)]
pub enum Target {
    /// A repository that is there.
    Existing(Repository),
    /// A repository that the push creates; for an advertisement it is an empty one.
    Fresh {
        /// Where it will be.
        path: PathBuf,
        /// The directory below which repositories are created.
        root: PathBuf,
    },
}

/// One push.
pub struct Push<'a> {
    /// Its name in the log.
    pub id: PushId,
    /// Where it goes.
    pub target: Target,
    /// What hooks see, with `GIT_PROTOCOL` and whatever the edge knows of the client.
    pub environment: Environment,
    /// What the nonce for a signed push was made of when the refs were advertised, or would be now
    /// if another process did that.
    pub nonce_terms: NonceTerms,
    /// The request from its first byte, free of transfer encodings. An error or an early end is a
    /// client that has gone.
    pub input: &'a mut dyn Read,
    /// The way back.
    pub client: &'a mut dyn Client,
    /// What the pusher may do to which refs; none where only the repository has a say.
    pub ref_rules: Option<RefRules>,
    /// What to do about bytes after the pack.
    pub surplus: Surplus,
    /// Whether missing bases of a thin pack are looked for in the repository.
    pub completes_thin_packs: bool,
    /// Set when the push should stop before its commit.
    pub cancel: CancelToken,
}

/// Repositories whose packed-refs, or reftables, are kept parsed. More, and all are forgotten: that
/// costs one read each, and no bookkeeping.
const REF_CACHES_MAX: usize = 1024;

/// LIMIT: bytes of commit-graphs that are kept in memory.
const COMMIT_GRAPH_BYTES_MAX: u64 = 256 << 20;

/// Seconds for which a repository counts as new: the push that created it may still take it away,
/// or not have made its name durable yet.
const YOUNG_SECONDS: u64 = 60;

impl Receiver {
    /// Fails if the state directory cannot be used.
    pub fn new(settings: ReceiverSettings) -> io::Result<Self> {
        let (disk, bytes_max) = (settings.disk.clone(), settings.limits.index_cache_bytes_max);
        let (keeps, snapshots) = match &settings.state_dir {
            Some(directory) => {
                let in_flight = InFlight::open(&disk, directory)?;
                let keeps = KeepRegistry::with_template(&disk, in_flight, directory)?;
                (keeps, SnapshotCache::following(disk, bytes_max))
            }
            None => (KeepRegistry::default(), SnapshotCache::new(disk, bytes_max)),
        };
        Ok(Self {
            snapshots,
            commit_graphs: CommitGraphCache::new(COMMIT_GRAPH_BYTES_MAX),
            keeps,
            command_memory: ByteBudget::new(settings.limits.command_memory_bytes()),
            metadata_memory: ByteBudget::new(settings.limits.metadata_memory_bytes()),
            push_memory: Arc::new(ByteBudget::new(settings.limits.push_memory_bytes())),
            packed_refs: Mutex::default(),
            reftables: Mutex::default(),
            maintenance: MaintenanceLedger::default(),
            ref_queue: RefQueue::default(),
            settings,
        })
    }

    /// Writes the advertisement of `target` chunk by chunk, with `version 1` in front if
    /// `GIT_PROTOCOL` asks for it, and without the preamble of HTTP. `nonce_terms` are those of the
    /// push that this process may take next.
    pub fn advertise(
        &self,
        target: &Target,
        environment: &Environment,
        nonce_terms: &NonceTerms,
        output: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ReceiveError> {
        advertise::advertise(self, target, environment, nonce_terms, output)
    }

    /// The disk.
    pub fn disk(&self) -> &Disk {
        &self.settings.disk
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Fails if a flush has failed before: the kernel may hold what the disk has not, no later flush
    /// can tell, and a ref that "may have moved" would be taken for durable by the next push.
    pub(super) fn refuse_after_failed_flush(&self) -> Result<(), ReceiveError> {
        if self.disk().is_healthy() {
            return Ok(());
        }
        Err(ReceiveError::new(Fault::DiskFailed, Phase::Request, DISK_FAILED))
    }

    pub(super) fn runs_hooks_apart(&self) -> bool {
        self.settings.hooks_apart
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.settings.dialect
    }

    pub(super) fn packet_trace(&self) -> &PacketTrace {
        &self.settings.packet_trace
    }

    pub(super) fn agent(&self) -> &str {
        &self.settings.agent
    }

    pub(super) fn settings(&self, repository: &Repository) -> Result<PushSettings, ReceiveError> {
        PushSettings::read(repository.config(), repository.is_bare(), self.settings.unpack_limit)
            .map_err(|error| bad_configuration(&error))
    }

    /// What holds for a repository that is about to be created: it has no settings of its own.
    pub(super) fn fresh_settings(
        &self,
        environment: &Environment,
    ) -> Result<PushSettings, ReceiveError> {
        GitConfig::load_protected(self.disk(), environment)
            .and_then(|config| PushSettings::read(&config, true, self.settings.unpack_limit))
            .map_err(|error| bad_configuration(&error))
    }

    pub(super) fn offer(
        &self,
        hash: HashKind,
        settings: &PushSettings,
        environment: &Environment,
        nonce_terms: &NonceTerms,
    ) -> ServerCapabilities {
        ServerCapabilities {
            atomic: settings.offers_atomic,
            ofs_delta: settings.offers_ofs_delta,
            push_cert_nonce: settings.certificates.nonce(hash, nonce_terms),
            push_options: settings.offers_push_options,
            session_id: settings.offers_session_id.then(|| trace::session_id(environment)),
            ..ServerCapabilities::new(hash, self.agent())
        }
    }

    pub(super) fn offer_for(
        &self,
        target: &Target,
        environment: &Environment,
        nonce_terms: &NonceTerms,
    ) -> Result<ServerCapabilities, ReceiveError> {
        let (hash, settings) = match target {
            Target::Existing(repository) => (repository.hash(), self.settings(repository)?),
            Target::Fresh { .. } => (HashKind::Sha1, self.fresh_settings(environment)?),
        };
        Ok(self.offer(hash, &settings, environment, nonce_terms))
    }

    pub(super) fn ref_store(
        &self,
        repository: &Repository,
        settings: &PushSettings,
        environment: &Environment,
    ) -> Result<RefStore, ReceiveError> {
        let namespace = match environment.var("GIT_NAMESPACE") {
            Some(path) => Namespace::new(path.as_bytes()).map_err(|error| {
                ReceiveError::new(Fault::Protocol, Phase::Discovery, error.to_string())
            })?,
            None => None,
        };
        let committer = identity::committer(environment, repository.config())
            .map_err(|error| bad_configuration(&error))?;
        let context = RefContext {
            disk: repository.disk().clone(),
            git_dir: repository.git_dir().to_owned(),
            common_dir: repository.common_dir().to_owned(),
            hash: repository.hash(),
            namespace,
            settings: RefSettings {
                ref_lock_timeout: settings.ref_lock_timeout,
                packed_refs_timeout: settings.packed_refs_timeout,
                reftable_lock_timeout: settings.reftable_lock_timeout,
                reflog: settings.reflog,
                committer,
                shallow_file: environment.var("GIT_SHALLOW_FILE").map(PathBuf::from),
                file_mode: repository.file_mode(false),
                directory_mode: repository.directory_mode(),
            },
            in_flight: self.keeps.in_flight().clone(),
        };
        let common_dir = repository.common_dir();
        Ok(match repository.ref_storage() {
            RefStorage::Files => RefStore::with_cache(context, self.packed_refs_of(common_dir)),
            RefStorage::Reftable => {
                let reftable = Reftable::new(environment.clone(), self.reftable_of(common_dir));
                RefStore::with_reftable(context, reftable)
            }
        })
    }

    pub(super) fn packed_refs_of(&self, common_dir: &Path) -> Arc<PackedRefsCache> {
        cache_of(&self.packed_refs, common_dir)
    }

    pub(super) fn reftable_of(&self, common_dir: &Path) -> Arc<ReftableCache> {
        cache_of(&self.reftables, common_dir)
    }

    /// Opens the repository of a push, creating it if the push is to.
    pub(super) fn open_target(
        &self,
        target: Target,
        request: &PushRequest,
        environment: &Environment,
    ) -> Result<Opened, ReceiveError> {
        let (path, root) = match target {
            Target::Existing(repository) => {
                let hold = hold_if_young(&repository)?;
                return Ok(Opened { repository, hold });
            }
            Target::Fresh { path, root } => (path, root),
        };
        let head = head_for(request)
            .map_err(|error| ReceiveError::internal(Phase::Request, "naming HEAD", error))?;
        let new = NewRepository { root: &root, path: &path, hash: HashKind::Sha1, head: &head };
        let Creation { hold, .. } = create(self.disk(), &new).map_err(|error| match error {
            CreateError::Disk { .. } | CreateError::Unsettled { .. } => {
                ReceiveError::internal(Phase::Request, "creating the repository", error)
            }
            refused => {
                // Where a repository lies on the server's disk is nobody's business.
                let text = match &refused {
                    CreateError::Nested { .. } => "no repository can be made inside another one",
                    CreateError::Occupied { .. } => "something that is no repository is in the way",
                    _ => "no repository can be made here",
                };
                let text = format!("repository not found, and {text}");
                ReceiveError::new(Fault::NoRepository, Phase::Request, text).with_source(refused)
            }
        })?;
        match Repository::open_exact(self.disk(), &path, environment) {
            Ok(repository) => Ok(Opened { repository, hold: Some(hold) }),
            Err(error) => {
                // The first error is the one to tell.
                let _ = hold.remove_if_untouched();
                Err(ReceiveError::internal(Phase::Request, "opening it again", error))
            }
        }
    }
}

/// The cache of one repository, for all who work on it.
fn cache_of<T: Default>(caches: &Mutex<HashMap<PathBuf, Arc<T>>>, common_dir: &Path) -> Arc<T> {
    let mut caches = caches.lock().unwrap_or_else(PoisonError::into_inner);
    if caches.len() >= REF_CACHES_MAX && !caches.contains_key(common_dir) {
        caches.clear();
    }
    Arc::clone(caches.entry(common_dir.to_owned()).or_default())
}

/// Holds a repository that another push may have created a moment ago: until that one has ended it
/// can go again, and its name need not be durable.
fn hold_if_young(repository: &Repository) -> Result<Option<RepositoryHold>, ReceiveError> {
    let internal =
        |error| ReceiveError::internal(Phase::Request, "looking at the repository", error);
    let disk = repository.disk();
    let head = disk.stat(&repository.git_dir().join("HEAD")).map_err(internal)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let is_young = head.is_some_and(|head| {
        u64::try_from(head.modified.0)
            .is_ok_and(|modified| modified.saturating_add(YOUNG_SECONDS) > now.as_secs())
    });
    if !is_young {
        return Ok(None);
    }
    let hold = RepositoryHold::take(disk, repository.git_dir()).map_err(internal)?;
    if hold.is_none() {
        let text = "the repository went away when the push that created it failed";
        return Err(ReceiveError::new(Fault::NoRepository, Phase::Request, text));
    }
    Ok(hold)
}

/// Where HEAD of a created repository points, so that a clone checks something out: at `main` or
/// `master` if they are pushed, else at the first branch that is, else at `main`.
fn head_for(request: &PushRequest) -> Result<RefName, RefNameError> {
    let mut branches: Vec<RefName> = request
        .commands
        .iter()
        .filter(|command| !command.new.is_null())
        .filter_map(|command| RefName::new(command.name.clone()).ok())
        .filter(RefName::is_branch)
        .collect();
    // The sort is stable: among the others the first one pushed comes first.
    branches.sort_by_key(|name| match name.as_bstr().as_bytes() {
        b"refs/heads/main" => 0,
        b"refs/heads/master" => 1,
        _ => 2,
    });
    branches.into_iter().next().map_or_else(|| RefName::new("refs/heads/main"), Ok)
}

fn bad_configuration(error: &crate::repo::ConfigError) -> ReceiveError {
    ReceiveError::new(Fault::Unsupported, Phase::Discovery, error.to_string())
}
