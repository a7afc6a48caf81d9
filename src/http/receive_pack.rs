//! `POST <repository>/git-receive-pack`: one push, carried between its client and the engine.
//!
//! Guarantees that credentials, rules and headers are settled before a byte of the body is asked
//! for, so that a client that waits for `100 Continue` never uploads what is refused; that the
//! headers of the answer go out as soon as the command list is read; and that a push is logged
//! once, whether or not anybody is left to be answered.

use super::bridge::{self, ReplySender, Start};
use super::engine::nonce_terms;
use super::headers::{self, Encoding};
use super::push_log::{self, AbandonNote, PanicNote, Subject};
use super::reply::{self, Refusal};
use super::request_body::{DecodedBody, IncomingBody};
use super::route::RepositoryPath;
use super::service::Service;
use super::site::{Opened, Site};
use crate::access::RefRules;
use crate::model::CancelToken;
use crate::receive::{Client, Push, PushOutcome, Surplus, Target};
use crate::repo::Environment;
use crate::report::{Fault, Phase};
use axum::body::Body;
use axum::http::Response;
use axum::http::request::Parts;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// What a push needs besides its body.
struct Job {
    site: Arc<Site>,
    subject: Subject,
    target: Target,
    ref_rules: Option<RefRules>,
    environment: Environment,
    encoding: Encoding,
    /// Whether the client wants to know how long each step took, and can read it.
    tells_timing: bool,
    cancel: CancelToken,
}

/// Answers a push. Hands `body` back if it was refused untouched.
pub(super) async fn handle(
    site: Arc<Site>,
    parts: Parts,
    body: Body,
    peer: IpAddr,
    place: RepositoryPath,
) -> Result<Response<Body>, (Refusal, Body)> {
    match prepare(&site, &parts, peer, &place).await {
        Ok(job) => run(job, body).await,
        Err(refusal) => Err((refusal, body)),
    }
}

async fn prepare(
    site: &Arc<Site>,
    parts: &Parts,
    peer: IpAddr,
    place: &RepositoryPath,
) -> Result<Job, Refusal> {
    let admitted = site.admit(parts, peer, Service::ReceivePack).await?;
    let Opened { target, ref_rules } = site.open(place, Service::ReceivePack, &admitted).await?;
    let encoding = headers::readable(&parts.headers, Service::ReceivePack)
        .map_err(|error| Refusal::Media(error.to_string()))?;
    Ok(Job {
        site: Arc::clone(site),
        subject: admitted.subject(place),
        target,
        ref_rules,
        environment: site.environment.of(&admitted.requester),
        encoding,
        tells_timing: headers::takes_trailers(&parts.headers),
        cancel: CancelToken::new(),
    })
}

async fn run(job: Job, body: Body) -> Result<Response<Body>, (Refusal, Body)> {
    let (cancel, subject) = (job.cancel.clone(), job.subject.clone());
    let (stop, idle) = (job.site.stop.clone(), job.site.idle);
    let (alive, tells_timing) = (stop.hold(), job.tells_timing);
    let patience = job.site.patience();
    let note = AbandonNote::new(subject.clone());
    let mut incoming = IncomingBody::new(body, cancel.clone(), stop, idle);
    // Whoever sends a few bytes and stops shall neither take a turn nor a thread.
    incoming.read_ahead().await;
    let turn = job.site.turn(&job.site.pushes).await;
    note.withdraw();
    let permit = match turn {
        Ok(permit) => permit,
        Err(refusal) => return Err((refusal, incoming.into_rest())),
    };
    let (chunks, reader) = bridge::body_channel();
    tokio::spawn(incoming.carry(chunks));
    let worker = move |reply: &mut ReplySender| {
        // Given back when the work is done, not when the client has gone.
        let _held = (permit, alive);
        job.take(reader, reply)
    };
    match bridge::run(cancel, patience, worker).await {
        Start::Begun(body) => {
            let response = reply::stream(Service::ReceivePack.result_type(), body);
            Ok(if tells_timing { reply::announce_timing(response) } else { response })
        }
        Start::Ended(outcome) => match outcome.result {
            Ok(_) => Ok(reply::stream(Service::ReceivePack.result_type(), Body::empty())),
            Err(error) => {
                let text = error.client_text(subject.id);
                Err((Refusal::fault(error.fault(), error.phase(), text), Body::empty()))
            }
        },
        Start::Panicked => {
            let text = format!("internal error (push {})", subject.id);
            Err((Refusal::fault(Fault::Internal, Phase::Request, text), Body::empty()))
        }
    }
}

impl Job {
    /// Takes the push on a thread that may block.
    fn take(self, reader: bridge::BodyReader, reply: &mut ReplySender) -> PushOutcome {
        let _note = PanicNote(self.subject.clone());
        let mut client = HttpClient { reply, subject: &self.subject };
        let outcome = self.site.engine.receive(Push {
            id: self.subject.id,
            target: self.target,
            environment: self.environment,
            nonce_terms: nonce_terms(),
            input: &mut DecodedBody::new(self.encoding, reader),
            client: &mut client,
            ref_rules: self.ref_rules,
            surplus: Surplus::Refuse,
            completes_thin_packs: true,
            cancel: self.cancel,
        });
        push_log::ended(&self.subject, &outcome);
        if self.tells_timing {
            reply.trailers(reply::timing(&outcome.steps));
        }
        outcome
    }
}

/// The client at the other end of the connection.
struct HttpClient<'a> {
    reply: &'a mut ReplySender,
    subject: &'a Subject,
}

impl Client for HttpClient<'_> {
    fn begin(&mut self) -> io::Result<()> {
        self.reply.begin()
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reply.send(bytes)
    }

    fn diagnose(&mut self, text: &[u8]) {
        push_log::diagnosed(self.subject, text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::stop::Stage;
    use super::super::testing::TestSite;
    use super::*;
    use crate::receive::{ReceiveError, Verdict};
    use axum::http::StatusCode;
    use http_body_util::BodyExt as _;
    use std::sync::mpsc;
    use std::time::Duration;
    use tokio::time::timeout;

    const DONE: Verdict = Verdict::Reported { done: 1, rejected: 0 };

    async fn text(response: Response<Body>) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn what_the_engine_sends_is_the_answer() {
        let site = TestSite::new(|push| {
            let mut body = Vec::new();
            push.input.read_to_end(&mut body).unwrap();
            push.client.begin().unwrap();
            push.client.send(b"got ").unwrap();
            push.client.send(&body).unwrap();
            Ok(DONE)
        });
        let response = site.push(Body::from("the push")).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(text(response).await, "got the push");
    }

    #[tokio::test]
    async fn the_time_by_step_is_told_to_those_who_take_trailers() {
        let site = TestSite::new(|push| {
            push.client.begin().unwrap();
            Ok(DONE)
        });
        let response = site.push(Body::from("x")).await;
        assert!(!response.headers().contains_key("trailer"));
        assert!(response.into_body().collect().await.unwrap().trailers().is_none());
        let response = site.push_taking_trailers(Body::from("x")).await;
        assert_eq!(response.headers()["trailer"], "server-timing");
        let all = response.into_body().collect().await.unwrap();
        let timing = all.trailers().unwrap()["server-timing"].to_str().unwrap();
        assert_eq!(timing, "commands;dur=1.5, refs;dur=0.25");
    }

    #[tokio::test]
    async fn a_probe_is_answered_with_nothing() {
        let site = TestSite::new(|_| Ok(Verdict::Probe));
        let response = site.push(Body::from("0000")).await;
        let result = "application/x-git-receive-pack-result";
        assert_eq!(response.headers()["content-type"], result);
        assert_eq!(text(response).await, "");
    }

    #[tokio::test]
    async fn a_fault_before_the_answer_has_its_status_and_its_words() {
        for (fault, status, words) in [
            (Fault::Protocol, 400, "the words"),
            (Fault::Limit, 413, "the words"),
            (Fault::Stopping, 503, "the words"),
            (Fault::Internal, 500, "internal error (push "),
        ] {
            let site =
                TestSite::new(move |_| Err(ReceiveError::new(fault, Phase::Request, "the words")));
            let response = site.push(Body::from("x")).await;
            assert_eq!(response.status(), status);
            assert!(text(response).await.starts_with(words));
        }
    }

    #[tokio::test]
    async fn a_panic_costs_its_own_push_and_nothing_else() {
        let site = TestSite::new(|push| {
            if push.environment.var("GIT_PROTOCOL").is_none() {
                push.client.begin().unwrap();
            }
            panic!("on purpose");
        });
        // After the answer has begun.
        let response = site.push(Body::from("x")).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.into_body().collect().await.is_err());
        let site = TestSite::new(|_| panic!("on purpose"));
        for _ in 0..3 {
            // The permit comes back: there is only one.
            let response = site.push(Body::from("x")).await;
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert!(text(response).await.starts_with("internal error (push "));
        }
        assert_eq!(site.discover().await.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[tokio::test]
    async fn a_client_that_goes_away_is_told_to_the_engine_which_ends_in_its_own_time() {
        let (tell, told) = mpsc::channel();
        let site = TestSite::new(move |push| {
            push.client.begin().unwrap();
            while !push.cancel.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            tell.send(push.client.send(b"x").is_err()).unwrap();
            Ok(DONE)
        });
        drop(site.push(Body::from("x")).await);
        let gone = tokio::task::spawn_blocking(move || told.recv_timeout(Duration::from_secs(5)));
        assert!(gone.await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn a_push_past_the_number_waits_and_is_told_to_come_again() {
        let site = TestSite::new(|_| Ok(Verdict::Probe));
        let held = site.site.turn(&site.site.pushes).await.unwrap();
        let response = site.push(Body::from("0000")).await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(held);
        assert_eq!(site.push(Body::from("0000")).await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn the_servers_stop_waits_for_a_push_and_reaches_it() {
        let site = TestSite::new(|push| {
            push.client.begin().unwrap();
            while !push.cancel.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(ReceiveError::new(Fault::Stopping, Phase::Commit, "stopped"))
        });
        let response = site.push(Body::from("x")).await;
        let short = Duration::from_millis(50);
        assert!(timeout(short, site.stop.all_gone()).await.is_err());
        site.stop.enter(Stage::Draining);
        assert!(timeout(short, site.stop.all_gone()).await.is_err());
        site.stop.enter(Stage::Cancelling);
        timeout(Duration::from_secs(5), site.stop.all_gone()).await.unwrap();
        assert_eq!(text(response).await, "");
    }
}
