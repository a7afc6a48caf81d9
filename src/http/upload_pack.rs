//! Fetch and clone: requests handed to `git upload-pack`, which does the work.
//!
//! Guarantees that both directions are streamed with back-pressure, that no more than so many run
//! at once, and that the process and its children end when the client goes. The path it is given
//! was opened by [`super::locate`] before, so `safe.directory` is set for that path alone.
//!
//! Does not look into what is said.

use super::bridge::{self, BodyReader};
use super::environment::Requester;
use super::headers::{self, Encoding};
use super::reply::{self, Refusal};
use super::request_body::{DecodedBody, IncomingBody};
use super::route::RepositoryPath;
use super::service::Service;
use super::site::{Opened, Site};
use super::upload_pack_process::{First, UploadPack};
use crate::model::CancelToken;
use crate::receive::Target;
use crate::report::{Fault, Phase, with_causes};
use axum::body::{Body, Bytes};
use axum::http::Response;
use axum::http::request::Parts;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::task::{JoinHandle, spawn_blocking};

/// Answers the discovery request of a fetch.
pub(super) async fn advertise(
    site: Arc<Site>,
    target: Target,
    requester: &Requester,
) -> Result<Response<Body>, Refusal> {
    let permit = site.turn(&site.fetches).await?;
    let mut upload_pack = start(&site, &target, requester, true)?;
    // There is nothing to be said to it.
    drop(upload_pack.take_input());
    let preamble = if headers::wants_version_two(requester.git_protocol.as_ref()) {
        Bytes::new()
    } else {
        Bytes::from_static(PREAMBLE)
    };
    match upload_pack.run(preamble, permit, site.patience()).await {
        First::Output(body) => Ok(reply::stream(Service::UploadPack.advertisement_type(), body)),
        First::Ended { .. } => Err(internal()),
    }
}

/// Answers a request of a fetch. Hands `body` back if it was refused untouched.
pub(super) async fn handle(
    site: Arc<Site>,
    parts: Parts,
    body: Body,
    peer: IpAddr,
    place: RepositoryPath,
) -> Result<Response<Body>, (Refusal, Body)> {
    let prepared = async {
        let admitted = site.admit(&parts, peer, Service::UploadPack).await?;
        let Opened { target, .. } = site.open(&place, Service::UploadPack, &admitted).await?;
        let encoding = headers::readable(&parts.headers, Service::UploadPack)
            .map_err(|error| Refusal::Media(error.to_string()))?;
        Ok((target, admitted.requester, encoding))
    };
    let (target, requester, encoding) = match prepared.await {
        Ok(prepared) => prepared,
        Err(refusal) => return Err((refusal, body)),
    };
    let cancel = CancelToken::new();
    let mut incoming = IncomingBody::new(body, cancel, site.stop.clone(), site.idle);
    // Whoever sends a few bytes and stops shall not have a process wait for the rest.
    incoming.read_ahead().await;
    let started = async {
        let permit = site.turn(&site.fetches).await?;
        Ok((start(&site, &target, &requester, false)?, permit))
    };
    let (mut upload_pack, permit) = match started.await {
        Ok(started) => started,
        Err(refusal) => return Err((refusal, incoming.into_rest())),
    };
    let (chunks, reader) = bridge::body_channel();
    tokio::spawn(incoming.carry(chunks));
    let limit = site.fetch_request_bytes_max;
    let fed = upload_pack.take_input().map(|input| feed(reader, encoding, input, limit));
    match upload_pack.run(Bytes::new(), permit, site.patience()).await {
        First::Output(body) => Ok(reply::stream(Service::UploadPack.result_type(), body)),
        First::Ended { success } => match fault_of_input(fed).await {
            None if success => Ok(reply::stream(Service::UploadPack.result_type(), Body::empty())),
            fault => {
                let text = fault.unwrap_or_else(|| "git upload-pack took no part of this".into());
                let refusal = Refusal::fault(Fault::Protocol, Phase::Request, text);
                Err((refusal, Body::empty()))
            }
        },
    }
}

/// What git-http-backend puts in front of an advertisement, unless version 2 is spoken.
const PREAMBLE: &[u8] = b"001e# service=git-upload-pack\n0000";

fn start(
    site: &Site,
    target: &Target,
    requester: &Requester,
    advertise: bool,
) -> Result<UploadPack, Refusal> {
    let Target::Existing(repository) = target else { return Err(Refusal::NotFound) };
    let environment = site.environment.of(requester);
    UploadPack::spawn(repository.git_dir(), &environment, advertise).map_err(|error| {
        let error = with_causes(&error);
        tracing::error!(error, "cannot start 'git upload-pack'");
        internal()
    })
}

/// Writes a request body to the process, on a thread that may block. What it makes of half a
/// request is harmless: it only reads.
fn feed(
    reader: BodyReader,
    encoding: Encoding,
    mut input: File,
    bytes_max: u64,
) -> JoinHandle<Result<(), String>> {
    spawn_blocking(move || {
        let mut body = DecodedBody::new(encoding, reader);
        let mut buffer = vec![0; 32 << 10];
        let mut left = bytes_max;
        loop {
            let length = match body.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.to_string()),
            };
            let read = u64::try_from(length).unwrap_or(u64::MAX);
            left = left.checked_sub(read).ok_or_else(|| {
                format!("limit 'fetch_request_bytes_max' of {bytes_max} bytes exceeded")
            })?;
            // It may have heard enough.
            if input.write_all(buffer.get(..length).unwrap_or_default()).is_err() {
                return Ok(());
            }
        }
    })
}

async fn fault_of_input(fed: Option<JoinHandle<Result<(), String>>>) -> Option<String> {
    match fed?.await {
        Ok(result) => result.err(),
        Err(_) => Some("internal error".to_owned()),
    }
}

fn internal() -> Refusal {
    Refusal::fault(Fault::Internal, Phase::Discovery, "internal error".to_owned())
}
