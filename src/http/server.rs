//! The server: its listener, its connections, its end.
//!
//! The accept loop is our own, over hyper: `axum::serve` installs no timer, so that a client that
//! sends half a header would be waited for as long as it likes.

use super::environment::BaseEnvironment;
use super::locate::Root;
use super::neighbour::Neighbour;
use super::reload::Reloader;
use super::router::{Peer, router};
use super::site::Site;
use super::stall::StallGuard;
use super::stop::{Stage, StopControl, StopSignal};
use super::tls::{HTTP_2, Tls};
use crate::access::{AccessFile, Rules};
use crate::auth::{Authenticator, FollowedFile};
use crate::receive::Receiver;
use crate::repo::Environment;
use axum::Router;
use axum::extract::Extension;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Everything that [`Server::bind`] wants to know.
pub struct ServerSettings {
    /// The directory below which repositories lie. It must be there.
    pub root: PathBuf,
    /// Who may do what.
    pub rules: Rules,
    /// Who is who.
    pub authenticator: Authenticator,
    /// Who may do what to which repository and ref; none for whatever the rules say.
    pub access: Option<FollowedFile<AccessFile>>,
    /// Takes the pushes.
    pub receiver: Receiver,
    /// The process's environment, which requests inherit in part.
    pub environment: Environment,
    /// Certificate and key, to serve HTTPS instead of HTTP.
    pub tls: Option<Tls>,
    /// Bounds.
    pub bounds: Bounds,
}

/// How much the server takes on at once, and how long it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections; more wait in the kernel's queue.
    pub connections_max: usize,
    /// Pushes; more wait their turn.
    pub pushes_max: usize,
    /// Advertisements for pushes that are being sent; more wait their turn.
    pub advertisements_max: usize,
    /// `git upload-pack` processes; more wait their turn.
    pub fetches_max: usize,
    /// Bytes of a fetch request, inflated.
    pub fetch_request_bytes_max: u64,
    /// How long the headers of a request may take.
    pub header_timeout: Duration,
    /// How long to wait for anything to move: bytes of a body, a client that reads, a turn.
    pub idle_timeout: Duration,
    /// How long running pushes may go on once the server is told to stop.
    pub shutdown_grace: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            pushes_max: 256,
            advertisements_max: 256,
            fetches_max: 64,
            // git http-backend's `http.maxRequestBuffer`.
            fetch_request_bytes_max: 10 << 20,
            header_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(300),
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

impl Bounds {
    /// These bounds, lowered to what a process that may have so many descriptors open can hold to.
    /// Half of them are for connections. Pushes, advertisements and fetches may each take the other
    /// half: they seldom need all that they may.
    #[must_use]
    pub fn within_descriptors(self, descriptors: u64) -> Self {
        let half = usize::try_from(descriptors / 2).unwrap_or(usize::MAX);
        let work = |each: usize, wanted: usize| wanted.min((half / each).max(1));
        Self {
            connections_max: self.connections_max.min(half.max(1)),
            pushes_max: work(DESCRIPTORS_OF_A_PUSH, self.pushes_max),
            advertisements_max: work(DESCRIPTORS_OF_AN_ADVERTISEMENT, self.advertisements_max),
            fetches_max: work(DESCRIPTORS_OF_A_FETCH, self.fetches_max),
            ..self
        }
    }

    /// How many threads that may block the server needs for all that it takes on at once.
    pub fn threads_max(&self) -> usize {
        [self.pushes_max, self.advertisements_max, self.fetches_max, SPARE_THREADS]
            .into_iter()
            .fold(0, usize::saturating_add)
    }
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    router: Router,
    reloader: Reloader,
    tls: Option<Tls>,
    bounds: Bounds,
    stop: StopControl,
}

impl Server {
    /// Listens on the first of `addresses` that is free. Requests are answered once
    /// [`run`](Self::run) is called.
    pub async fn bind(addresses: &[SocketAddr], settings: ServerSettings) -> io::Result<Self> {
        let listener = TcpListener::bind(addresses).await?;
        let stop = StopControl::new();
        let bounds = settings.bounds;
        let site = Site {
            root: Root::open(&settings.root)?,
            rules: settings.rules,
            authenticator: settings.authenticator,
            access: settings.access,
            engine: Arc::new(settings.receiver),
            environment: BaseEnvironment::new(settings.environment),
            pushes: Arc::new(Semaphore::new(bounds.pushes_max)),
            advertisements: Arc::new(Semaphore::new(bounds.advertisements_max)),
            fetches: Arc::new(Semaphore::new(bounds.fetches_max)),
            idle: bounds.idle_timeout,
            fetch_request_bytes_max: bounds.fetch_request_bytes_max,
            stop: stop.signal(),
        };
        let site = Arc::new(site);
        let reloader = Reloader(Arc::clone(&site));
        Ok(Self { listener, router: router(site), reloader, tls: settings.tls, bounds, stop })
    }

    /// What has the files of users and rules read again.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// The address it listens on, with the port that a wish for port 0 got.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `until` resolves, then ends in order: no new connections; running requests go
    /// on for [`Bounds::shutdown_grace`]; then pushes that have not reached their commit are
    /// stopped, and those that have are waited for.
    pub async fn run(self, until: impl Future<Output = ()>) {
        let Self { listener, router, tls, bounds, stop, .. } = self;
        let graceful = GracefulShutdown::new();
        let connections = Connections {
            router,
            tls,
            bounds,
            slots: Arc::new(Semaphore::new(bounds.connections_max)),
        };
        tokio::select! {
            () = connections.accept_all(&listener, &graceful, &stop) => {}
            () = until => {}
        }
        drop(listener);
        stop.enter(Stage::Draining);
        let ended = timeout(bounds.shutdown_grace, async {
            graceful.shutdown().await;
            stop.all_gone().await;
        });
        if ended.await.is_err() {
            tracing::info!("stopping what has not been committed");
            stop.enter(Stage::Cancelling);
            stop.all_gone().await;
            // The answers are on their way to whoever is still there.
            sleep(LAST_WORDS).await;
        }
    }
}

struct Connections {
    router: Router,
    tls: Option<Tls>,
    bounds: Bounds,
    slots: Arc<Semaphore>,
}

impl Connections {
    async fn accept_all(
        &self,
        listener: &TcpListener,
        graceful: &GracefulShutdown,
        stop: &StopControl,
    ) {
        let mut pause = FIRST_ACCEPT_PAUSE;
        loop {
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    pause = FIRST_ACCEPT_PAUSE;
                    self.begin(stream, peer.ip(), slot, graceful.watcher(), stop.signal());
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    // Out of descriptors, most likely: some will be given back.
                    tracing::error!(%error, "cannot accept connections");
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_ACCEPT_PAUSE);
                }
            }
        }
    }

    fn begin(
        &self,
        stream: TcpStream,
        peer: IpAddr,
        slot: OwnedSemaphorePermit,
        watcher: Watcher,
        stop: StopSignal,
    ) {
        // Small packets are progress that somebody waits for.
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
        let ends = stream.peer_addr().and_then(|peer| Ok((peer, stream.local_addr()?)));
        // Without both ends it is somebody who has gone already.
        let Ok((there, here)) = ends else { return };
        let neighbour = Arc::new(Neighbour::new(there, here));
        let stream = StallGuard::new(stream, self.bounds.idle_timeout);
        let router = self.router.clone().layer(Extension(Peer(peer))).layer(Extension(neighbour));
        let tls = self.tls.as_ref().map(Tls::acceptor);
        let bounds = self.bounds;
        tokio::spawn(async move {
            let _slot = slot;
            let Some(tls) = tls else {
                return serve(stream, router, bounds, false, watcher).await;
            };
            let mut stop = stop;
            let handshake = timeout(bounds.header_timeout, tls.accept(stream));
            let accepted = tokio::select! {
                accepted = handshake => accepted,
                () = stop.draining() => return,
            };
            // No TLS, or none that we speak, or not in time: there is nobody to tell.
            let Ok(Ok(stream)) = accepted else { return };
            let http_2 = stream.get_ref().1.alpn_protocol() == Some(HTTP_2);
            serve(stream, router, bounds, http_2, watcher).await;
        });
    }
}

/// Serves one connection to its end. HTTP/2 is spoken where TLS has agreed on it; finding out from
/// the first bytes would wait for them without a bound.
async fn serve<S>(stream: S, router: Router, bounds: Bounds, http_2: bool, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.header_timeout)
        .max_headers(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .adaptive_window(true)
        .keep_alive_interval(bounds.header_timeout)
        .keep_alive_timeout(bounds.header_timeout);
    let builder = if http_2 { builder.http2_only() } else { builder.http1_only() };
    let service = TowerToHyperService::new(router);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        // A client that goes away is no event; its push, if any, is logged elsewhere.
        tracing::debug!(error, "connection ended early");
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

/// The repository's files, the quarantine with a small push's objects, packs, a hook's pipes.
const DESCRIPTORS_OF_A_PUSH: usize = 32;
const DESCRIPTORS_OF_AN_ADVERTISEMENT: usize = 8;
/// The pipes of `git upload-pack`.
const DESCRIPTORS_OF_A_FETCH: usize = 8;
/// How long no connection is accepted after one could not be, at first and at most.
const FIRST_ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// For what is soon done: passwords, finding repositories.
const SPARE_THREADS: usize = 64;
const HEADERS_MAX: usize = 100;
const HEADER_BYTES_MAX: u32 = 64 << 10;
const STREAMS_MAX: u32 = 16;
const LAST_WORDS: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_lowered_to_the_descriptors_there_are_and_never_to_nothing() {
        let wanted = Bounds::default();
        assert_eq!(wanted.within_descriptors(1 << 19), wanted);
        let few = wanted.within_descriptors(1024);
        assert_eq!((few.connections_max, few.pushes_max, few.fetches_max), (512, 16, 64));
        let none = wanted.within_descriptors(0);
        assert_eq!((none.connections_max, none.pushes_max, none.fetches_max), (1, 1, 1));
    }
}
