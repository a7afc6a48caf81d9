//! A site with an engine of the test's own, for tests of the handlers.

use super::engine::Engine;
use super::environment::BaseEnvironment;
use super::locate::Root;
use super::router::{Peer, router};
use super::site::Site;
use super::stop::StopControl;
use crate::access::{Anonymous, Rules};
use crate::auth::{Authenticator, Ways};
use crate::model::{CancelToken, PushId};
use crate::receive::{Client, Push, PushOutcome, ReceiveError, Surplus, Target, Verdict};
use crate::repo::{Disk, Environment, FlushPolicy};
use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::http::{Request, Response};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

/// A site whose pushes, all to repositories that are not there, are taken by a closure.
pub(super) struct TestSite {
    pub(super) router: Router,
    pub(super) site: Arc<Site>,
    pub(super) stop: StopControl,
    _root: TempDir,
}

type Take = dyn Fn(Push<'_>) -> Result<Verdict, ReceiveError> + Send + Sync;

struct TestEngine {
    disk: Disk,
    take: Box<Take>,
}

impl TestSite {
    pub(super) fn new(
        take: impl Fn(Push<'_>) -> Result<Verdict, ReceiveError> + Send + Sync + 'static,
    ) -> Self {
        let rules = Rules { anonymous: Anonymous::Write, create_on_push: true, local_only: false };
        Self::with_rules(rules, take)
    }

    pub(super) fn with_rules(
        rules: Rules,
        take: impl Fn(Push<'_>) -> Result<Verdict, ReceiveError> + Send + Sync + 'static,
    ) -> Self {
        let root = tempfile::tempdir().unwrap();
        let stop = StopControl::new();
        let engine = TestEngine { disk: Disk::new(FlushPolicy::NONE), take: Box::new(take) };
        let site = Arc::new(Site {
            root: Root::open(root.path()).unwrap(),
            rules,
            authenticator: Authenticator::new(Ways::default()).unwrap(),
            access: None,
            engine: Arc::new(engine),
            environment: BaseEnvironment::new(Environment::empty()),
            pushes: Arc::new(Semaphore::new(1)),
            advertisements: Arc::new(Semaphore::new(1)),
            fetches: Arc::new(Semaphore::new(1)),
            idle: Duration::from_millis(500),
            fetch_request_bytes_max: 1 << 20,
            stop: stop.signal(),
        });
        let peer = Peer([127, 0, 0, 1].into());
        let router = router(Arc::clone(&site)).layer(Extension(peer));
        Self { router, site, stop, _root: root }
    }

    /// Sends a push of `body`.
    pub(super) async fn push(&self, body: Body) -> Response<Body> {
        self.router.clone().oneshot(post(body)).await.unwrap()
    }

    /// The same for a client that reads trailers.
    pub(super) async fn push_taking_trailers(&self, body: Body) -> Response<Body> {
        let mut request = post(body);
        request.headers_mut().insert("te", "trailers".parse().unwrap());
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Asks for the advertisement.
    pub(super) async fn discover(&self) -> Response<Body> {
        let uri = "/x.git/info/refs?service=git-receive-pack";
        let request = Request::get(uri).body(Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }
}

fn post(body: Body) -> Request<Body> {
    Request::post("/x.git/git-receive-pack")
        .header("content-type", "application/x-git-receive-pack-request")
        .body(body)
        .unwrap()
}

impl Engine for TestEngine {
    fn disk(&self) -> &Disk {
        &self.disk
    }

    /// What the closure sends is the advertisement.
    fn advertise(
        &self,
        target: &Target,
        environment: &Environment,
        output: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), ReceiveError> {
        let mut client = Output(output);
        let push = Push {
            id: PushId::new(0),
            target: target.clone(),
            environment: environment.clone(),
            nonce_terms: super::engine::nonce_terms(),
            input: &mut io::empty(),
            client: &mut client,
            ref_rules: None,
            surplus: Surplus::Refuse,
            completes_thin_packs: true,
            cancel: CancelToken::new(),
        };
        (self.take)(push).map(|_| ())
    }

    fn receive(&self, push: Push<'_>) -> PushOutcome {
        let id = push.id;
        let result = (self.take)(push);
        PushOutcome {
            id,
            result,
            commands: Vec::new(),
            objects: 0,
            bytes: 0,
            steps: vec![
                ("commands", Duration::from_micros(1500)),
                ("refs", Duration::from_micros(250)),
            ],
            answered: false,
            cleanup_fault: None,
        }
    }
}

struct Output<'a>(&'a mut (dyn FnMut(&[u8]) -> io::Result<()> + Send));

impl Client for Output<'_> {
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        (self.0)(bytes)
    }

    fn diagnose(&mut self, _: &[u8]) {}
}
