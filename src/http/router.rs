//! From a request to the handler it is for.

use super::headers::expects_continue;
use super::reply::Refusal;
use super::request_body::drain;
use super::route::Route;
use super::service::Service;
use super::site::Site;
use super::{info_refs, receive_pack, upload_pack};
use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{Method, Request, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// The address at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// The router of all requests. Paths of repositories are free and end in a fixed part, which is
/// the wrong way round for a table of routes, so they are taken apart by [`Route`].
pub(super) fn router(site: Arc<Site>) -> Router {
    Router::new().fallback(dispatch).with_state(site)
}

async fn dispatch(
    State(site): State<Arc<Site>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request<Body>,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let (method, target) = (parts.method.clone(), parts.uri.clone());
    let address = site.authenticator.client_address(&parts.headers, peer).to_string();
    // Before a client that waits for leave to send, nothing may be read.
    let may_drain = !expects_continue(&parts.headers);
    let result = match Route::parse(parts.uri.path()) {
        Route::InfoRefs(place) => {
            info_refs::handle(site, parts, peer, place).await.map_err(|refusal| (refusal, body))
        }
        Route::Rpc(..) if parts.method != Method::POST => Err((Refusal::Method("POST"), body)),
        Route::Rpc(place, Service::ReceivePack) => {
            receive_pack::handle(site, parts, body, peer, place).await
        }
        Route::Rpc(place, Service::UploadPack) => {
            upload_pack::handle(site, parts, body, peer, place).await
        }
        Route::Lfs => Err((Refusal::NoLfs, body)),
        Route::Unknown => Err((Refusal::NotFound, body)),
    };
    result.unwrap_or_else(|(refusal, body)| {
        if may_drain {
            tokio::spawn(drain(body));
        }
        let reason = refusal.words();
        let response = refusal.into_response();
        let status = response.status().as_u16();
        let (method, target) = (method.as_str(), target.to_string());
        tracing::info!(target: "packhouse::http", address, method, target, status, %reason, "refused");
        response
    })
}
