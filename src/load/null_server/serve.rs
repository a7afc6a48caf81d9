//! The sockets of the null server: HTTP/1.1, a runtime of one thread for each of its threads.

use super::faults::{Fate, Fates, Faults};
use super::store::Store;
use crate::model::Limits;
use crate::wire::{
    Band, Feed, Request as Wish, RequestParser, UnpackStatus, encode_report_status, sideband,
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A null server that has its address.
#[derive(Debug)]
pub struct NullServer {
    listener: TcpListener,
    site: Arc<Site>,
    threads: usize,
}

/// Why a null server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum NullServerError {
    /// Its address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Its threads.
    #[error("cannot serve")]
    Serve(#[from] io::Error),
}

#[derive(Debug)]
struct Site {
    store: Store,
    faults: Faults,
    fates: Fates,
}

type Reply = Response<Full<Bytes>>;

impl NullServer {
    /// Listens; with port 0 on a port that is free.
    pub fn bind(
        address: SocketAddr,
        threads: usize,
        faults: Faults,
    ) -> Result<Self, NullServerError> {
        let listener = TcpListener::bind(address)
            .map_err(|source| NullServerError::Listen { address, source })?;
        let store = Store::new(concat!("packhouse-null/", env!("CARGO_PKG_VERSION")));
        let site = Arc::new(Site { store, faults, fates: Fates::default() });
        Ok(Self { listener, site, threads: threads.max(1) })
    }

    /// The address.
    pub fn local_address(&self) -> Result<SocketAddr, NullServerError> {
        Ok(self.listener.local_addr()?)
    }

    /// Serves until the process ends.
    pub fn run(self) -> Result<(), NullServerError> {
        let mut threads = Vec::new();
        for _ in 0..self.threads {
            threads.push(serve_on_a_thread(Arc::clone(&self.site))?);
        }
        let mut turns = (0..threads.len()).cycle();
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                // Out of descriptors, most likely: some will be given back.
                std::thread::sleep(std::time::Duration::from_millis(10));
                continue;
            };
            if let Some(thread) = turns.next().and_then(|turn| threads.get(turn)) {
                // The thread lives as long as the process.
                drop(thread.send(stream));
            }
        }
    }
}

fn serve_on_a_thread(site: Arc<Site>) -> io::Result<mpsc::UnboundedSender<TcpStream>> {
    let (sender, mut streams) = mpsc::unbounded_channel::<TcpStream>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("null".into()).spawn(move || {
        runtime.block_on(async move {
            while let Some(stream) = streams.recv().await {
                tokio::spawn(serve(stream, Arc::clone(&site)));
            }
        });
    })?;
    Ok(sender)
}

async fn serve(stream: TcpStream, site: Arc<Site>) {
    drop((stream.set_nonblocking(true), stream.set_nodelay(true)));
    let Ok(stream) = tokio::net::TcpStream::from_std(stream) else { return };
    let service = service_fn(move |request| {
        let site = Arc::clone(&site);
        async move { site.answer(request).await }
    });
    // A client that goes has nobody to be told.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

impl Site {
    async fn answer(&self, request: Request<Incoming>) -> Result<Reply, HungUp> {
        if let Some(delay) = self.faults.delay {
            tokio::time::sleep(delay).await;
        }
        if let Some(status) = self.faults.status {
            let mut reply = plain(status, "the null server was told to answer so\n");
            if status == StatusCode::TOO_MANY_REQUESTS {
                reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            return Ok(reply);
        }
        let path = request.uri().path().to_owned();
        if let Some(repository) = path.strip_suffix("/info/refs") {
            if request.uri().query() == Some("service=git-receive-pack") {
                let body = self.store.advertise(repository);
                return Ok(reply("application/x-git-receive-pack-advertisement", body));
            }
            return Ok(plain(StatusCode::FORBIDDEN, "the null server keeps no objects\n"));
        }
        match path.strip_suffix("/git-receive-pack") {
            Some(repository) if request.method() == Method::POST => {
                self.receive(repository, request.into_body()).await
            }
            _ => Ok(plain(StatusCode::NOT_FOUND, "nothing is here\n")),
        }
    }

    async fn receive(&self, repository: &str, mut body: Incoming) -> Result<Reply, HungUp> {
        let mut parser = RequestParser::new(self.store.offer(), &Limits::default());
        let mut complete = false;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Err(HungUp) };
            let Some(data) = frame.data_ref().filter(|_| !complete) else { continue };
            match parser.feed(data) {
                Ok(feed) => complete = matches!(feed, Feed::Complete { .. }),
                Err(error) => return Ok(plain(StatusCode::BAD_REQUEST, &format!("{error}\n"))),
            }
        }
        let mut push = match parser.finish() {
            Ok(Wish::Push(push)) => push,
            Ok(Wish::Probe) => return Ok(reply(RESULT, Vec::new())),
            Err(error) => return Ok(plain(StatusCode::BAD_REQUEST, &format!("{error}\n"))),
        };
        let fate = self.fates.next(&self.faults);
        let acknowledge = || self.fates.acknowledge(&self.faults);
        self.store.apply(repository, &mut push.commands, fate, &self.faults, acknowledge);
        if fate == Fate::HungUp {
            return Err(HungUp);
        }
        let mut report = Vec::with_capacity(256);
        let version = push.capabilities.report_status;
        encode_report_status(&mut report, version, &UnpackStatus::Ok, &push.commands);
        if push.capabilities.side_band_64k {
            let mut banded = Vec::with_capacity(report.len() + 16);
            sideband::encode(&mut banded, Band::Data, &report);
            sideband::encode_end(&mut banded);
            report = banded;
        }
        let mut reply = reply(RESULT, report);
        if self.faults.server_timing {
            let value = HeaderValue::from_static("read;dur=0.2, commit;dur=1.5;desc=\"flush\"");
            reply.headers_mut().insert("server-timing", value);
        }
        Ok(reply)
    }
}

/// Makes hyper close the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("hung up on purpose")]
struct HungUp;

const RESULT: &str = "application/x-git-receive-pack-result";

fn reply(media_type: &'static str, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}

fn plain(status: StatusCode, text: &str) -> Reply {
    let mut reply = Response::new(Full::new(text.to_owned().into()));
    *reply.status_mut() = status;
    reply
}
