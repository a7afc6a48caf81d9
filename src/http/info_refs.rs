//! `GET <repository>/info/refs`: step 1 of a push, and of a fetch.

use super::bridge::{self, ReplySender, Start};
use super::push_log::{self, PanicNote, Subject};
use super::query::{Asked, asked_service};
use super::reply::{self, Refusal};
use super::route::RepositoryPath;
use super::service::Service;
use super::site::{Opened, Site};
use super::upload_pack;
use crate::model::CancelToken;
use crate::receive::{ReceiveError, Target};
use crate::repo::Environment;
use crate::report::{Fault, Phase};
use crate::wire::encode_service_preamble;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// Answers a discovery request.
pub(super) async fn handle(
    site: Arc<Site>,
    parts: Parts,
    peer: IpAddr,
    place: RepositoryPath,
) -> Result<Response<Body>, Refusal> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(Refusal::Method("GET, HEAD"));
    }
    let service = match asked_service(parts.uri.query()) {
        Asked::Known(service) => service,
        Asked::Other => return Err(Refusal::Service { named: true }),
        Asked::Nothing => return Err(Refusal::Service { named: false }),
    };
    let admitted = site.admit(&parts, peer, service).await?;
    let Opened { target, .. } = site.open(&place, service, &admitted).await?;
    if parts.method == Method::HEAD {
        return Ok(reply::stream(service.advertisement_type(), Body::empty()));
    }
    match service {
        Service::ReceivePack => {
            let subject = admitted.subject(&place);
            let environment = site.environment.of(&admitted.requester);
            advertise(site, target, environment, subject).await
        }
        Service::UploadPack => upload_pack::advertise(site, target, &admitted.requester).await,
    }
}

async fn advertise(
    site: Arc<Site>,
    target: Target,
    environment: Environment,
    subject: Subject,
) -> Result<Response<Body>, Refusal> {
    let permit = site.turn(&site.advertisements).await?;
    let patience = site.patience();
    let worker = {
        let (site, subject) = (Arc::clone(&site), subject.clone());
        move |reply: &mut ReplySender| -> Result<(), ReceiveError> {
            let _permit = permit;
            let _note = PanicNote(subject.clone());
            let advertised = write_advertisement(&site, &target, &environment, reply);
            if let Err(error) = &advertised {
                push_log::advertisement_failed(&subject, error);
                // If it has begun, nobody shall take what there is for the whole.
                reply.cut();
            }
            advertised
        }
    };
    match bridge::run(CancelToken::new(), patience, worker).await {
        Start::Begun(body) => Ok(reply::stream(Service::ReceivePack.advertisement_type(), body)),
        Start::Ended(Ok(())) => {
            Ok(reply::stream(Service::ReceivePack.advertisement_type(), Body::empty()))
        }
        Start::Ended(Err(error)) => {
            let text = error.client_text(subject.id);
            Err(Refusal::fault(error.fault(), error.phase(), text))
        }
        Start::Panicked => {
            let text = format!("internal error (request {})", subject.id);
            Err(Refusal::fault(Fault::Internal, Phase::Discovery, text))
        }
    }
}

fn write_advertisement(
    site: &Site,
    target: &Target,
    environment: &Environment,
    reply: &mut ReplySender,
) -> Result<(), ReceiveError> {
    // The preamble waits for the first chunk, so that an early fault still chooses its status.
    let mut preamble = Vec::new();
    encode_service_preamble(&mut preamble);
    let mut preamble = Some(preamble);
    site.engine.advertise(target, environment, &mut |bytes| match preamble.take() {
        Some(mut first) => {
            first.extend_from_slice(bytes);
            reply.send(&first)
        }
        None => reply.send(bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::TestSite;
    use super::*;
    use crate::receive::Verdict;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn the_preamble_comes_first_and_once() {
        let site = TestSite::new(|push| {
            push.client.send(b"one ").unwrap();
            push.client.send(b"two").unwrap();
            Ok(Verdict::Probe)
        });
        let body = site.discover().await.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "001f# service=git-receive-pack\n0000one two");
    }

    #[tokio::test]
    async fn a_fault_has_its_status_until_the_first_byte_and_cuts_the_answer_after_it() {
        let fail = || Err(ReceiveError::new(Fault::Unsupported, Phase::Discovery, "not this"));
        let response = TestSite::new(move |_| fail()).discover().await;
        assert_eq!(response.status(), 403);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "not this\n");
        let site = TestSite::new(move |push| {
            push.client.send(b"half").unwrap();
            fail()
        });
        let response = site.discover().await;
        assert_eq!(response.status(), 200);
        assert!(response.into_body().collect().await.is_err());
    }
}
