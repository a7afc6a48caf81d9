//! `packhouse serve`: from settings to a running server, and to its end.

use super::config::{Durability, LogFormat, Settings};
use super::{sweep, who};
use crate::access::{Anonymous, Rules};
use crate::http::{Bounds, Reloader, Server, ServerSettings, Tls};
use crate::model::{Limits, UnpackLimit};
use crate::receive::{Receiver, ReceiverSettings};
use crate::repo::{Disk, Environment, FlushPolicy};
use crate::report::with_causes;
use clap::Args;
use std::error::Error;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Serves repositories over HTTP: git push, fetch and clone.
#[derive(Args, Clone, Debug)]
pub(super) struct Serve {
    /// Read settings from this TOML file
    #[arg(long, env = "PACKHOUSE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

type Failure = Box<dyn Error + Send + Sync>;

/// A server that is ready to listen, and the words to start with.
struct Prepared {
    addresses: Vec<SocketAddr>,
    settings: ServerSettings,
    who_may_push: String,
    log_format: LogFormat,
}

impl Serve {
    /// Serves until a signal says to stop. 0 after an orderly end, 1 if the server could not
    /// start.
    pub(super) fn run(self, environment: Environment) -> ExitCode {
        match self.serve(environment) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&format!("packhouse: error: {}", with_causes(error.as_ref())));
                ExitCode::FAILURE
            }
        }
    }

    fn serve(self, environment: Environment) -> Result<(), Failure> {
        let settings = match &self.config {
            Some(path) => self.settings.or(Settings::read(path)?),
            None => self.settings,
        };
        begin_log(&settings)?;
        let mut prepared = prepare(&settings, environment)?;
        fit_descriptors(&mut prepared.settings.bounds);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .max_blocking_threads(prepared.settings.bounds.threads_max())
            .thread_name("packhouse")
            .enable_all()
            .build()?;
        let result = runtime.block_on(listen(prepared));
        // Whoever is still busy now has nothing to do with a push.
        runtime.shutdown_timeout(Duration::from_secs(1));
        result
    }
}

fn prepare(settings: &Settings, environment: Environment) -> Result<Prepared, Failure> {
    let listen = settings.listen.as_deref().unwrap_or(DEFAULT_LISTEN);
    let addresses: Vec<SocketAddr> = listen
        .to_socket_addrs()
        .map_err(|error| format!("listen: '{listen}' is no address with a port: {error}"))?
        .collect();
    let authenticator = who::authenticator(settings)?;
    let is_public = addresses.iter().any(|address| !address.ip().to_canonical().is_loopback());
    let known = authenticator.is_configured();
    let (access, rules) = who::rules(settings, known, listen, !is_public)?;
    let tls = match (&settings.tls_cert, &settings.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::open(certificate, key)?),
        (None, None) => None,
        _ => return Err("tls_cert and tls_key go together: one of them is missing".into()),
    };
    let (mut limits, mut bounds) = (Limits::default(), settings.bounds());
    if let Some(set) = &settings.limits {
        set.apply(&mut limits, &mut bounds);
    }
    let disk = Disk::new(match settings.durability {
        Some(Durability::Git) => FlushPolicy::GIT,
        Some(Durability::Full) | None => FlushPolicy::FULL,
    });
    let packet_trace = super::packet_trace::packet_trace(&disk, &environment);
    let root = settings.root.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_ROOT));
    let root = open_root(&disk, &root)
        .map_err(|error| format!("root: cannot use '{}': {error}", root.display()))?;
    let state_dir = root.join(STATE_DIR);
    sweep::recover(&disk, &state_dir)?;
    let receiver = Receiver::new(ReceiverSettings {
        disk,
        limits,
        unpack_limit: settings.unpack_limit.map_or(UnpackLimit::DEFAULT, UnpackLimit),
        dialect: settings.dialect.unwrap_or_default(),
        agent: super::agent(),
        state_dir: Some(state_dir),
        hooks_apart: true,
        packet_trace,
    })?;
    let mut who_may_push = match &access {
        Some(_) => "the access file says who may push".to_owned(),
        None => who_may_push(rules, known),
    };
    let takes_secrets = settings.htpasswd.is_some() || settings.tokens.is_some();
    if takes_secrets && tls.is_none() && is_public {
        who_may_push.push_str(PLAIN_PASSWORDS);
    }
    let log_format = settings.log_format.unwrap_or(LogFormat::Text);
    let settings =
        ServerSettings { root, rules, authenticator, access, receiver, environment, tls, bounds };
    Ok(Prepared { addresses, settings, who_may_push, log_format })
}

/// The root, absolute; made if it is not there.
fn open_root(disk: &Disk, root: &Path) -> io::Result<PathBuf> {
    let root = std::path::absolute(root)?;
    disk.create_directories(Path::new("/"), &root, 0o777)?;
    let root = root.canonicalize()?;
    if root.is_dir() { Ok(root) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

async fn listen(prepared: Prepared) -> Result<(), Failure> {
    let Prepared { addresses, settings, who_may_push, log_format } = prepared;
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let root = settings.root.clone();
    let disk = settings.receiver.disk().clone();
    // Before the address is told: whoever reads it may send a signal next.
    let until = stop_signal()?;
    let hangups = signal(SignalKind::hangup())?;
    let server = Server::bind(&addresses, settings)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", listed(&addresses)))?;
    let url = format!("{scheme}://{}", server.local_address()?);
    match log_format {
        LogFormat::Text => {
            say(&format!("packhouse: listening on {url}, serving {}", root.display()));
            say(&format!("packhouse: {who_may_push}"));
        }
        LogFormat::Json => {
            tracing::info!(url, root = root.display().to_string(), who_may_push, "listening");
        }
    }
    sweep::begin(disk.clone(), root)?;
    tokio::spawn(remove_leftovers(disk));
    tokio::spawn(reload_at(hangups, server.reloader()));
    server.run(until).await;
    tracing::info!("stopped");
    Ok(())
}

/// Has the files of users and rules read again at each SIGHUP.
async fn reload_at(mut hangups: Signal, reloader: Reloader) {
    while hangups.recv().await.is_some() {
        tracing::info!("reading users and rules again");
        reloader.reload().await;
    }
}

/// Tries every now and then to remove what could not be removed when it was time.
async fn remove_leftovers(disk: Disk) {
    let mut tick = tokio::time::interval(LEFTOVERS_INTERVAL);
    loop {
        tick.tick().await;
        let disk = disk.clone();
        let left = tokio::task::spawn_blocking(move || disk.remove_leftovers()).await;
        if let Ok(left @ 1..) = left {
            tracing::warn!(left, "quarantines that cannot be removed yet");
        }
    }
}

/// Resolves at the first SIGTERM or SIGINT. The second ends the process at once.
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping; a second signal stops at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(1);
        });
    })
}

fn begin_log(settings: &Settings) -> Result<(), Failure> {
    let filter = settings.log_filter.as_deref().unwrap_or("info");
    let filter = EnvFilter::try_new(filter).map_err(|error| format!("log_filter: {error}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match settings.log_format {
        Some(LogFormat::Json) => builder.json().flatten_event(true).try_init()?,
        Some(LogFormat::Text) | None => {
            let terminal = io::IsTerminal::is_terminal(&io::stderr());
            builder.with_ansi(terminal).try_init()?;
        }
    }
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        let payload = panic.payload();
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        tracing::error!(location, message, "panic");
    }));
    Ok(())
}

/// Lowers the bounds, and says so, to what this process may have open.
fn fit_descriptors(bounds: &mut Bounds) {
    let Some(descriptors) = raise_descriptor_limit() else { return };
    let wanted = std::mem::replace(bounds, bounds.within_descriptors(descriptors));
    let Bounds { connections_max, pushes_max, advertisements_max, fetches_max, .. } = *bounds;
    if *bounds != wanted {
        tracing::warn!(
            descriptors,
            connections_max,
            pushes_max,
            advertisements_max,
            fetches_max,
            "taking on less at once than configured: the limit of open files is too low for it"
        );
    }
}

/// Allows this process as many descriptors as it may allow itself: the usual 1024 are fewer than
/// the connections that are taken on. Tells how many that are, if there is a bound.
fn raise_descriptor_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "cannot raise the limit of open files");
        return current;
    }
    maximum
}

/// Said of a server that takes passwords where others may listen.
const PLAIN_PASSWORDS: &str = "; passwords and tokens travel unencrypted: give --tls-cert and --tls-key, or put \
                               a proxy that speaks HTTPS in front";

/// What the rules come to, for whoever starts the server.
fn who_may_push(rules: Rules, authentication: bool) -> String {
    let users = if authentication { "known users may push" } else { "" };
    let unnamed = match rules.anonymous {
        Anonymous::Write if rules.local_only => {
            "you may push from this machine, and no other user: no authentication is configured"
        }
        Anonymous::Write => "anybody may push, known or not",
        Anonymous::Read if authentication => "anybody may fetch",
        Anonymous::Read => "anybody may fetch and nobody may push",
        Anonymous::Repository => "anybody may push where a repository's http.receivepack says so",
        Anonymous::None if authentication => "",
        Anonymous::None => "nobody may do anything: no authentication is configured",
    };
    let created = if rules.create_on_push { "a push makes the repository it names" } else { "" };
    let parts = [users, unnamed, created];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

const LEFTOVERS_INTERVAL: Duration = Duration::from_secs(10);
const DEFAULT_ROOT: &str = "./repos";
const DEFAULT_LISTEN: &str = "127.0.0.1:8417";
/// What is the server's own below the root. No URL leads to a name with a dot in front.
const STATE_DIR: &str = ".packhouse";

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Writes a line to standard error; nobody can be told if that fails.
fn say(line: &str) {
    drop(io::Write::write_all(&mut io::stderr().lock(), format!("{line}\n").as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(anonymous: Anonymous, create_on_push: bool, authentication: bool) -> String {
        who_may_push(Rules { anonymous, create_on_push, local_only: false }, authentication)
    }

    #[test]
    fn the_rules_are_told_in_words() {
        let local = Rules { anonymous: Anonymous::Write, create_on_push: true, local_only: true };
        assert_eq!(
            who_may_push(local, false),
            "you may push from this machine, and no other user: no authentication is configured; \
             a push makes the repository it names"
        );
        assert_eq!(told(Anonymous::None, false, true), "known users may push");
        assert_eq!(told(Anonymous::Read, false, true), "known users may push; anybody may fetch");
        assert_eq!(told(Anonymous::Read, false, false), "anybody may fetch and nobody may push");
    }

    fn prepared(settings: &Settings) -> Result<Prepared, String> {
        prepare(settings, Environment::empty()).map_err(|error| with_causes(error.as_ref()))
    }

    fn settings(root: &Path) -> Settings {
        Settings { root: Some(root.join("new/repos")), ..Settings::default() }
    }

    #[test]
    fn the_root_is_made_if_it_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let prepared = prepared(&settings(directory.path())).unwrap();
        assert!(directory.path().join("new/repos").is_dir());
        assert!(prepared.settings.root.is_absolute());
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let base = || settings(directory.path());
        let refused = |settings| prepared(&settings).err().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (settings, key) in [
            (Settings { listen: Some("nonsense".into()), ..base() }, "listen"),
            (Settings { listen: Some("0.0.0.0:0".into()), ..base() }, "listen"),
            (Settings { root: Some(file.clone()), ..base() }, "root"),
            (Settings { tls_cert: Some(file.clone()), ..base() }, "tls_key"),
            (Settings { htpasswd: Some("/nonexistent".into()), ..base() }, "password file"),
            (Settings { tokens: Some("/nonexistent".into()), ..base() }, "token file"),
            (Settings { access: Some("/nonexistent".into()), ..base() }, "access file"),
            (
                Settings { access: Some(file.clone()), anonymous: Some(Anonymous::Read), ..base() },
                "exclude each other",
            ),
            (Settings { trust_user_header: Some("a b".into()), ..base() }, "trust_user_header"),
            (Settings { trusted_proxies: Some(Vec::new()), ..base() }, "trusted_proxies"),
        ] {
            let error = refused(settings);
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn an_open_address_needs_a_rule_said_aloud() {
        let directory = tempfile::tempdir().unwrap();
        let open = |anonymous| {
            let listen = Some("0.0.0.0:0".into());
            prepared(&Settings { listen, anonymous, ..settings(directory.path()) })
        };
        assert!(open(None).err().unwrap().contains("refusing to listen"));
        assert!(open(Some(Anonymous::Write)).is_ok());
    }
}
