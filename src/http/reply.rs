//! Answers: their headers, and what is said when there is nothing else to say.
//!
//! Guarantees that no answer is cached on the way, and that none is HTML: git shows its user a
//! refusal only if it is text/plain.

use crate::access::Denial;
use crate::report::{Phase, row};
use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, EXPIRES, PRAGMA, RETRY_AFTER, TRAILER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

/// A request that is answered with a status and a line of text.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Credentials are missing or wrong.
    Unauthenticated,
    /// The rules say no.
    Denied(Denial),
    /// The user is known and has no right to do this; the text names the rule.
    Forbidden(String),
    /// Too many wrong passwords came from this address; it may come again after this time.
    TooManyFailures(Duration),
    /// There is no such repository, or nothing at all at this path.
    NotFound,
    /// There is no such repository, and none can be made: others lie below its path.
    RepositoriesBelow,
    /// Git LFS, whose clients want JSON and take a 401 for a reason to forget passwords.
    NoLfs,
    /// The method is not one of those that are.
    Method(&'static str),
    /// A service that is neither of the two, or none named.
    Service {
        /// Whether any was named.
        named: bool,
    },
    /// The body is of a type or coding that is not understood.
    Media(String),
    /// The server is full or stops.
    Unavailable(&'static str),
    /// A push or an advertisement that failed before anything was answered.
    Failed {
        /// The status.
        status: StatusCode,
        /// What the client may read.
        text: String,
    },
}

impl Refusal {
    /// The refusal that the table of faults has for one.
    pub(super) fn fault(fault: crate::report::Fault, phase: Phase, text: String) -> Self {
        let status = StatusCode::from_u16(row(fault, phase).http_status);
        Self::Failed { status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), text }
    }

    /// What is said, to the client and in the log.
    pub(super) fn words(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Unauthenticated => "authentication required, or failed",
            Self::Denied(denial) => return denial.to_string().into(),
            Self::TooManyFailures(wait) => {
                let seconds = whole_seconds(*wait);
                let text = format!(
                    "too many failed logins from this address: try again in {seconds} seconds"
                );
                return text.into();
            }
            Self::NotFound => "repository not found",
            Self::RepositoriesBelow => {
                "repository not found, and none can be made here: repositories lie below this path"
            }
            Self::NoLfs => r#"{"message":"Git LFS is not served here"}"#,
            Self::Method(_) => "method not allowed",
            Self::Service { named: true } => "no such service",
            Self::Service { named: false } => "the dumb protocol is not served",
            Self::Unavailable(words) => words,
            Self::Media(words) | Self::Forbidden(words) | Self::Failed { text: words, .. } => {
                return words.clone().into();
            }
        })
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Denied(_) | Self::Forbidden(_) | Self::Service { .. } => StatusCode::FORBIDDEN,
            Self::TooManyFailures(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::NotFound | Self::RepositoriesBelow | Self::NoLfs => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Media(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed { status, .. } => *status,
        }
    }

    /// The whole answer.
    pub(super) fn into_response(self) -> Response<Body> {
        let status = self.status();
        let mut response = text(status, &self.words());
        let mut set = |name, value| drop(response.headers_mut().insert(name, value));
        match self {
            Self::Unauthenticated => set(WWW_AUTHENTICATE, CHALLENGE),
            Self::NoLfs => set(CONTENT_TYPE, LFS),
            Self::TooManyFailures(wait) => set(RETRY_AFTER, whole_seconds(wait).into()),
            Self::Method(allowed) => set(ALLOW, HeaderValue::from_static(allowed)),
            _ if status == StatusCode::SERVICE_UNAVAILABLE => {
                set(RETRY_AFTER, HeaderValue::from_static("10"));
            }
            _ => {}
        }
        response
    }
}

/// Seconds, none of them begun in vain.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(1)
}

/// A good answer of a service, about to be streamed.
pub(super) fn stream(media_type: &'static str, body: Body) -> Response<Body> {
    with_headers(StatusCode::OK, HeaderValue::from_static(media_type), body)
}

/// Says that the time by step comes as a trailer.
pub(super) fn announce_timing(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(TRAILER, HeaderValue::from_static("server-timing"));
    response
}

/// How long each step took, as W3C "Server Timing" has it: milliseconds after the step's name.
pub(super) fn timing(steps: &[(&'static str, Duration)]) -> HeaderMap {
    let mut text = String::new();
    for (name, time) in steps {
        let separator = if text.is_empty() { "" } else { ", " };
        let milliseconds = (time.as_secs_f64() * 1e6).round() / 1e3;
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}{name};dur={milliseconds}");
    }
    let value = HeaderValue::try_from(text);
    value.into_iter().map(|value| (SERVER_TIMING, value)).collect()
}

/// One line of plain text.
fn text(status: StatusCode, words: &str) -> Response<Body> {
    with_headers(status, HeaderValue::from_static(PLAIN), Body::from(format!("{words}\n")))
}

fn with_headers(status: StatusCode, media_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    // The three of git http-backend.
    headers.insert(EXPIRES, HeaderValue::from_static("Fri, 01 Jan 1980 00:00:00 GMT"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"));
    // A proxy that saves the answer up would swallow the keepalives.
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    headers.insert(CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
const PLAIN: &str = "text/plain; charset=utf-8";
const LFS: HeaderValue = HeaderValue::from_static("application/vnd.git-lfs+json");
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"packhouse\"");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Operation;
    use crate::report::Fault;

    #[test]
    fn every_refusal_is_plain_text_and_not_cached() {
        let refusals = [
            (Refusal::Unauthenticated, 401),
            (Refusal::Denied(Denial::RepositoryClosed(Operation::Push)), 403),
            (Refusal::Forbidden("no right".into()), 403),
            (Refusal::TooManyFailures(Duration::from_secs(9)), 429),
            (Refusal::NotFound, 404),
            (Refusal::RepositoriesBelow, 404),
            (Refusal::fault(Fault::Overloaded, Phase::Discovery, "full".into()), 503),
            (Refusal::Method("POST"), 405),
            (Refusal::Service { named: true }, 403),
            (Refusal::Service { named: false }, 403),
            (Refusal::Media("words".into()), 415),
            (Refusal::Unavailable("full"), 503),
            (Refusal::fault(Fault::Protocol, Phase::Request, "bad line".into()), 400),
        ];
        for (refusal, status) in refusals {
            let response = refusal.into_response();
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
            assert_eq!(response.headers()[EXPIRES], "Fri, 01 Jan 1980 00:00:00 GMT");
            assert_eq!(response.headers()[PRAGMA], "no-cache");
            let cache = &response.headers()[CACHE_CONTROL];
            assert_eq!(cache, "no-cache, max-age=0, must-revalidate");
        }
    }

    #[test]
    fn some_refusals_say_what_to_do() {
        let response = Refusal::Unauthenticated.into_response();
        assert_eq!(response.headers()[WWW_AUTHENTICATE], "Basic realm=\"packhouse\"");
        assert_eq!(Refusal::Method("GET, HEAD").into_response().headers()[ALLOW], "GET, HEAD");
        assert_eq!(Refusal::Unavailable("full").into_response().headers()[RETRY_AFTER], "10");
        let slowed = Refusal::TooManyFailures(Duration::from_millis(8500)).into_response();
        assert_eq!(slowed.headers()[RETRY_AFTER], "9");
        let lfs = Refusal::NoLfs.into_response();
        assert_eq!(lfs.status(), 404);
        assert_eq!(lfs.headers()[CONTENT_TYPE], "application/vnd.git-lfs+json");
    }
}
