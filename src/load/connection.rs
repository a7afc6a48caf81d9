//! One connection to the server, opened when it is needed and kept as long as the server keeps it.
//!
//! Every request has a deadline. What went wrong is told in words that are the same for the same
//! fault, so that faults can be counted; what the server said stands in them, what is different
//! each time does not.

use super::target::{Credentials, Target, TargetError};
use super::tls::{TlsError, Trust, connector};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

/// How a server is reached: shared by all connections to it.
pub(super) struct Endpoint {
    addresses: Vec<SocketAddr>,
    host: String,
    tls: Option<TlsConnector>,
    headers: HeaderMap,
    timeout: Duration,
}

/// A connection, or the wish for one.
pub(super) struct Connection {
    endpoint: Arc<Endpoint>,
    sender: Option<SendRequest<Chunks>>,
    /// Whether the connection has answered before: only then can it have gone stale.
    used: bool,
    opened: Opened,
}

/// How many connections were opened, and the time it took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opened {
    pub(super) count: u64,
    pub(super) time: Duration,
}

/// A whole answer with status 200.
#[derive(Debug)]
pub(super) struct Answer {
    /// The body.
    pub(super) body: Bytes,
    /// What `Server-Timing` said in the header and in the trailer.
    pub(super) timing: Vec<HeaderValue>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nobody answers at the address.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// Somebody answers who cannot be trusted, or who speaks no TLS.
    #[error("TLS: {0}")]
    Tls(String),
    /// The answer did not come in time.
    #[error("no answer within {} s (--timeout)", .0.as_secs_f64())]
    Timeout(Duration),
    /// The connection broke before the answer was whole.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The server refused.
    #[error("{}", refusal(*status, detail))]
    Status {
        /// The status.
        status: StatusCode,
        /// The first line of what the server said.
        detail: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The answer is more than anybody can use.
    #[error("the answer has more than {0} MiB")]
    TooLong(usize),
}

impl Endpoint {
    /// The way to a target's server; its name is looked up once.
    pub(super) fn new(
        target: &Target,
        addresses: Vec<SocketAddr>,
        trust: &Trust,
        credentials: Option<&Credentials>,
        timeout: Duration,
    ) -> Result<Self, EndpointError> {
        let mut headers = HeaderMap::new();
        let host =
            HeaderValue::from_str(target.authority()).map_err(|_| TargetError::Credentials)?;
        headers.insert(header::HOST, host);
        headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        if let Some(credentials) = credentials {
            headers.insert(header::AUTHORIZATION, credentials.header()?);
        }
        let tls = if target.is_secure() { Some(connector(trust)?) } else { None };
        Ok(Self { addresses, host: target.host().to_owned(), tls, headers, timeout })
    }

    async fn open(&self) -> Result<SendRequest<Chunks>, RequestError> {
        let stream = TcpStream::connect(&*self.addresses)
            .await
            .map_err(|error| RequestError::Connect(error.to_string()))?;
        drop(stream.set_nodelay(true));
        let Some(tls) = &self.tls else { return handshake(stream).await };
        let name = ServerName::try_from(self.host.clone())
            .map_err(|error| RequestError::Tls(error.to_string()))?;
        let stream = tls.connect(name, stream).await.map_err(|error| {
            RequestError::Tls(match error.kind() {
                io::ErrorKind::UnexpectedEof => "the server hung up in the handshake".into(),
                _ => error.to_string(),
            })
        })?;
        handshake(stream).await
    }
}

/// Why a server cannot be reached at all.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Its name or the credentials.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Connection {
    /// A connection that is opened by its first request.
    pub(super) fn new(endpoint: Arc<Endpoint>) -> Self {
        Self { endpoint, sender: None, used: false, opened: Opened::default() }
    }

    /// Opens the connection if it is not open. Idempotent, and not needed before a request.
    pub(super) async fn open(&mut self) -> Result<(), RequestError> {
        if self.sender.as_ref().is_some_and(|sender| !sender.is_closed()) {
            return Ok(());
        }
        let begun = Instant::now();
        let patience = self.endpoint.timeout;
        let opening = tokio::time::timeout(patience, self.endpoint.open()).await;
        self.sender = Some(opening.map_err(|_| RequestError::Timeout(patience))??);
        self.used = false;
        self.opened.count += 1;
        self.opened.time += begun.elapsed();
        Ok(())
    }

    /// Closes the connection.
    pub(super) fn close(&mut self) {
        self.sender = None;
    }

    /// What was opened since the last call.
    pub(super) fn take_opened(&mut self) -> Opened {
        std::mem::take(&mut self.opened)
    }

    /// Asks with GET.
    pub(super) async fn get(&mut self, path: &str) -> Result<Answer, RequestError> {
        self.request(Method::GET, path, None, Vec::new()).await
    }

    /// Sends `body` with POST to a git service, whose media types go with its name.
    pub(super) async fn post(
        &mut self,
        path: &str,
        service: Service,
        body: Vec<Bytes>,
    ) -> Result<Answer, RequestError> {
        self.request(Method::POST, path, Some(service), body).await
    }

    async fn request(
        &mut self,
        method: Method,
        path: &str,
        service: Option<Service>,
        body: Vec<Bytes>,
    ) -> Result<Answer, RequestError> {
        self.open().await?;
        let stale = self.used;
        // A chunk is shared, not copied.
        match self.exchange(method.clone(), path, service, Chunks::new(body.clone())).await {
            // The server closed a connection that it had kept open, and read nothing of this.
            Err(Failure { sent: false, .. }) if stale => {
                self.close();
                self.open().await?;
                let again = self.exchange(method, path, service, Chunks::new(body)).await;
                again.map_err(|failure| failure.error)
            }
            result => result.map_err(|failure| failure.error),
        }
    }

    async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        service: Option<Service>,
        body: Chunks,
    ) -> Result<Answer, Failure> {
        let idempotent = method == Method::GET;
        let request = self.compose(method, path, service, body);
        let patience = self.endpoint.timeout;
        let Some(sender) = &mut self.sender else {
            return Err(Failure {
                error: RequestError::Broken("it is closed".into()),
                sent: false,
            });
        };
        let bytes_max = match service {
            Some(Service::ReceivePack) => REPORT_BYTES_MAX,
            _ => ANSWER_BYTES_MAX,
        };
        let exchange = async {
            if let Err(error) = sender.ready().await {
                return Err(Failure { error: broken(&error), sent: false });
            }
            let response = sender.send_request(request).await.map_err(|error| Failure {
                sent: !error.is_canceled() && !idempotent,
                error: broken(&error),
            })?;
            read(response, bytes_max).await.map_err(|error| Failure { error, sent: true })
        };
        let result = match tokio::time::timeout(patience, exchange).await {
            Ok(result) => result,
            Err(_) => Err(Failure { error: RequestError::Timeout(patience), sent: true }),
        };
        match &result {
            Ok(_) => self.used = true,
            // What remains of the exchange must not be taken for the next answer.
            Err(_) => self.close(),
        }
        result
    }

    fn compose(
        &self,
        method: Method,
        path: &str,
        service: Option<Service>,
        body: Chunks,
    ) -> Request<Chunks> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        headers.clone_from(&self.endpoint.headers);
        if let Some(service) = service {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(service.request_type()));
            headers.insert(header::ACCEPT, HeaderValue::from_static(service.result_type()));
            // Without this no server may send a trailer.
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        request
    }
}

/// The services of git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    ReceivePack,
    UploadPack,
}

impl Service {
    /// The name in paths and queries.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReceivePack => "git-receive-pack",
            Self::UploadPack => "git-upload-pack",
        }
    }

    fn request_type(self) -> &'static str {
        match self {
            Self::ReceivePack => "application/x-git-receive-pack-request",
            Self::UploadPack => "application/x-git-upload-pack-request",
        }
    }

    fn result_type(self) -> &'static str {
        match self {
            Self::ReceivePack => "application/x-git-receive-pack-result",
            Self::UploadPack => "application/x-git-upload-pack-result",
        }
    }
}

struct Failure {
    error: RequestError,
    /// Whether the server may have read, and done, what was asked.
    sent: bool,
}

/// A body in pieces that are all there, of known length.
pub(super) struct Chunks {
    chunks: std::vec::IntoIter<Bytes>,
    left: u64,
}

impl Chunks {
    fn new(chunks: Vec<Bytes>) -> Self {
        let left = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Self { chunks: chunks.into_iter(), left }
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.chunks.next();
        self.left -= chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Chunks>, RequestError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    // Its errors reach whoever waits for an answer.
    tokio::task::spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<Answer, RequestError> {
    let (head, mut body) = response.into_parts();
    let is_ok = head.status == StatusCode::OK;
    let mut timing: Vec<HeaderValue> = timings(&head.headers);
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        match frame.map_err(|error| broken(&error))?.into_data() {
            Ok(data) if first.is_empty() => first = data,
            Ok(data) => {
                if whole.is_empty() {
                    whole.extend_from_slice(&first);
                }
                whole.extend_from_slice(&data);
            }
            Err(frame) => timing.extend(frame.trailers_ref().map(timings).unwrap_or_default()),
        }
        if !is_ok && whole.len().max(first.len()) > DETAIL_BYTES_MAX {
            // More is never shown. Nor is the connection used again.
            break;
        }
        if whole.len() > bytes_max {
            return Err(RequestError::TooLong(bytes_max >> 20));
        }
    }
    let body = if whole.is_empty() { first } else { whole.into() };
    if is_ok {
        return Ok(Answer { body, timing });
    }
    let text = String::from_utf8_lossy(&body);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let html = line.starts_with('<');
    let detail = if html { String::new() } else { line.chars().take(DETAIL_CHARS_MAX).collect() };
    let seconds = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = seconds.and_then(|text| text.parse().ok()).map(Duration::from_secs);
    Err(RequestError::Status { status: head.status, detail, retry_after })
}

fn timings(headers: &HeaderMap) -> Vec<HeaderValue> {
    headers.get_all("server-timing").iter().cloned().collect()
}

/// An error of the connection with the causes that hyper keeps behind it.
fn broken(error: &hyper::Error) -> RequestError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    RequestError::Broken(text)
}

fn refusal(status: StatusCode, detail: &str) -> String {
    let hint = match status {
        StatusCode::UNAUTHORIZED => {
            "credentials are missing or wrong (--user and --password-file, or --token-file)"
        }
        StatusCode::FORBIDDEN => "the server does not allow it to this user",
        StatusCode::NOT_FOUND => {
            "no such repository, and the server does not make it (see --prepare)"
        }
        StatusCode::TOO_MANY_REQUESTS => "the server limits the rate of requests",
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => "it is elsewhere: redirects are not followed",
        _ => "",
    };
    let parts = [hint, detail].into_iter().filter(|part| !part.is_empty());
    let text = parts.collect::<Vec<_>>().join("; it said: ");
    if text.is_empty() { status.to_string() } else { format!("{status}: {text}") }
}

const AGENT: &str = concat!("git/2.47 (packhouse-load/", env!("CARGO_PKG_VERSION"), ")");
/// LIMIT: bytes of an advertisement or a fetched pack, for each pusher.
const ANSWER_BYTES_MAX: usize = 1 << 30;
/// LIMIT: bytes of the report of a push.
const REPORT_BYTES_MAX: usize = 16 << 20;
/// LIMIT: bytes that are read of an answer that refuses.
const DETAIL_BYTES_MAX: usize = 64 << 10;
const DETAIL_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do_about_it() {
        let text = |status: u16, detail: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            RequestError::Status { status, detail: detail.into(), retry_after: None }.to_string()
        };
        assert!(text(401, "").starts_with("401 Unauthorized: credentials are missing or wrong"));
        assert!(text(404, "gone").ends_with("(see --prepare); it said: gone"));
        assert_eq!(text(500, ""), "500 Internal Server Error");
        assert_eq!(text(503, "busy"), "503 Service Unavailable: busy");
    }

    #[test]
    fn a_body_in_pieces_knows_its_length() {
        let chunks = Chunks::new(vec![Bytes::from_static(b"abc"), Bytes::from_static(b"de")]);
        assert_eq!(chunks.size_hint().exact(), Some(5));
        assert!(!chunks.is_end_stream());
        assert!(Chunks::new(Vec::new()).is_end_stream());
    }
}
