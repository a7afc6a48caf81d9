//! The crossing between sockets, which are asynchronous, and workers, which block: the only one.
//!
//! Guarantees that no body is ever held whole, in either direction: a few chunks are in flight,
//! then whoever is faster waits. A client that goes away fails the worker's next read or write and
//! sets its [`CancelToken`]; a worker that panics fails its own request and nothing else.
//!
//! Does not know what a worker does.

use super::patience::Patience;
use crate::model::CancelToken;
use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use hyper::body::{Body as HttpBody, Frame};
use std::io::{self, BufRead, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

/// Chunks in flight in one direction. Measured: with 4 a gigabyte costs 0.54 CPU seconds, with 64
/// 0.75, since the bytes have left the processor's cache by the time they are read.
const CHUNKS_IN_FLIGHT: usize = 4;

/// What comes to a worker.
#[derive(Debug)]
pub(super) enum Chunk {
    /// Bytes of the body.
    Data(Bytes),
    /// The body was whole, and this is its end.
    End,
    /// It was not.
    Failed(io::Error),
}

/// The two ends of a request body on its way to a worker.
pub(super) fn body_channel() -> (mpsc::Sender<Chunk>, BodyReader) {
    let (sender, chunks) = mpsc::channel(CHUNKS_IN_FLIGHT);
    (sender, BodyReader { chunks, current: Bytes::new(), ended: None })
}

/// A request body as a worker reads it. An end that is not announced is an error, and an error
/// stays.
#[derive(Debug)]
pub(super) struct BodyReader {
    chunks: mpsc::Receiver<Chunk>,
    current: Bytes,
    ended: Option<Result<(), io::ErrorKind>>,
}

impl BufRead for BodyReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.is_empty() {
            match self.ended {
                Some(Ok(())) => return Ok(&[]),
                Some(Err(kind)) => return Err(kind.into()),
                None => {}
            }
            match self.chunks.blocking_recv() {
                Some(Chunk::Data(bytes)) => self.current = bytes,
                Some(Chunk::End) => self.ended = Some(Ok(())),
                Some(Chunk::Failed(error)) => {
                    self.ended = Some(Err(error.kind()));
                    return Err(error);
                }
                None => self.ended = Some(Err(io::ErrorKind::ConnectionAborted)),
            }
        }
        Ok(&self.current)
    }

    fn consume(&mut self, amount: usize) {
        drop(self.current.split_to(amount.min(self.current.len())));
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let length = available.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

/// The way back from a worker.
#[derive(Debug)]
pub(super) struct ReplySender {
    begun: Option<oneshot::Sender<()>>,
    chunks: mpsc::Sender<io::Result<Frame<Bytes>>>,
    patience: Patience,
    runtime: Handle,
}

impl ReplySender {
    /// Has the status and the headers sent, if that was not done before.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        match self.begun.take() {
            Some(begun) => begun.send(()).map_err(|()| gone()),
            None => Ok(()),
        }
    }

    /// Sends bytes; blocks while the client is slower, as long as there is patience. The answer
    /// begins with the first of them.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.begin()?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.put(Ok(Frame::data(Bytes::copy_from_slice(bytes))))
    }

    /// Ends an answer that has begun with trailers; nothing may be sent after them.
    pub(super) fn trailers(&mut self, trailers: HeaderMap) {
        if self.begun.is_none() {
            // If that fails, nobody is left to read them.
            drop(self.put(Ok(Frame::trailers(trailers))));
        }
    }

    /// Breaks an answer that has begun off, in a way that no client takes for its end.
    pub(super) fn cut(&mut self) {
        if self.begun.is_some() {
            return;
        }
        let error = io::Error::other("the worker failed");
        // If that fails, the client has gone already.
        drop(self.put(Err(error)));
    }

    /// Puts a frame on its way, once there is room.
    fn put(&mut self, frame: io::Result<Frame<Bytes>>) -> io::Result<()> {
        let frame = match self.chunks.try_send(frame) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(frame)) => frame,
            Err(TrySendError::Closed(_)) => return Err(gone()),
        };
        let sent = self.runtime.block_on(self.patience.wait(self.chunks.send(frame)));
        match sent {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(gone()),
            None => {
                let text = "the client does not read its answer";
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
        }
    }
}

/// How a worker got going.
#[derive(Debug)]
pub(super) enum Start<T> {
    /// The answer has begun; this is its body.
    Begun(Body),
    /// It ended without having begun an answer.
    Ended(T),
    /// It panicked before it had begun one.
    Panicked,
}

/// Runs `work` on a thread that may block, until it begins an answer or ends. It runs to its end
/// even if nobody waits for it any more; `cancel` is set when that is so.
pub(super) async fn run<T: Send + 'static>(
    cancel: CancelToken,
    patience: Patience,
    work: impl FnOnce(&mut ReplySender) -> T + Send + 'static,
) -> Start<T> {
    let (begun, has_begun) = oneshot::channel();
    // Made before anything is awaited: if this future is dropped, so is the body's guard.
    let (sender, body) = reply_channel(cancel);
    let runtime = Handle::current();
    let worker = spawn_blocking(move || {
        let mut reply = ReplySender { begun: Some(begun), chunks: sender, patience, runtime };
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut reply)));
        if result.is_err() {
            reply.cut();
        }
        result.ok()
    });
    if has_begun.await.is_ok() {
        return Start::Begun(body);
    }
    match worker.await {
        Ok(Some(value)) => Start::Ended(value),
        _ => Start::Panicked,
    }
}

/// The two ends of an answer's body; `cancel` is set once the body is dropped.
pub(super) fn reply_channel(cancel: CancelToken) -> (mpsc::Sender<io::Result<Frame<Bytes>>>, Body) {
    let (sender, chunks) = mpsc::channel(CHUNKS_IN_FLIGHT);
    (sender, Body::new(ReplyBody { chunks, _guard: CancelOnDrop(cancel) }))
}

struct ReplyBody {
    chunks: mpsc::Receiver<io::Result<Frame<Bytes>>>,
    _guard: CancelOnDrop,
}

impl HttpBody for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.chunks.poll_recv(context)
    }
}

struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone")
}

#[cfg(test)]
mod tests {
    use super::super::stop::StopControl;
    use super::*;
    use axum::http::HeaderValue;
    use axum::http::header::TE;
    use http_body_util::BodyExt as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    fn patient() -> Patience {
        // It must outlive the signal, for which the end of the server is a stop.
        let control: &StopControl = Box::leak(Box::new(StopControl::new()));
        Patience::new(Duration::from_secs(3600), control.signal())
    }

    async fn read_all(reader: BodyReader) -> io::Result<Vec<u8>> {
        let read = move || {
            let mut reader = reader;
            let mut bytes = Vec::new();
            let first = reader.read_to_end(&mut bytes);
            // An end and an error both stay.
            assert_eq!(reader.read(&mut [0]).is_ok(), first.is_ok());
            first.map(|_| bytes)
        };
        spawn_blocking(read).await.unwrap()
    }

    #[tokio::test]
    async fn a_body_is_read_in_order_to_its_end() {
        let (sender, reader) = body_channel();
        let reading = tokio::spawn(read_all(reader));
        for part in ["ab", "", "c", "defg"] {
            sender.send(Chunk::Data(Bytes::from_static(part.as_bytes()))).await.unwrap();
        }
        sender.send(Chunk::End).await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), b"abcdefg");
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error_and_no_end() {
        let (sender, reader) = body_channel();
        sender.send(Chunk::Data(Bytes::from_static(b"ab"))).await.unwrap();
        drop(sender);
        let error = read_all(reader).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);

        let (sender, reader) = body_channel();
        sender.send(Chunk::Failed(io::ErrorKind::TimedOut.into())).await.unwrap();
        assert_eq!(read_all(reader).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_worker_that_answers_nothing_gives_its_value() {
        let start = run(CancelToken::new(), patient(), |_| 7).await;
        assert!(matches!(start, Start::Ended(7)));
    }

    #[tokio::test]
    async fn an_answer_begins_before_its_first_byte() {
        let start = run(CancelToken::new(), patient(), |reply| {
            reply.begin().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            reply.send(b"one ").unwrap();
            reply.send(b"two").unwrap();
        });
        let Start::Begun(body) = start.await else { panic!("not begun") };
        assert_eq!(body.collect().await.unwrap().to_bytes(), "one two");
    }

    #[tokio::test]
    async fn trailers_come_last_and_only_after_an_answer() {
        let trailers = || HeaderMap::from_iter([(TE, HeaderValue::from_static("x"))]);
        let start = run(CancelToken::new(), patient(), move |reply| {
            reply.send(b"one").unwrap();
            reply.trailers(trailers());
        });
        let Start::Begun(body) = start.await else { panic!("not begun") };
        let all = body.collect().await.unwrap();
        assert_eq!(all.trailers(), Some(&trailers()));
        assert_eq!(all.to_bytes(), "one");
        let start = run(CancelToken::new(), patient(), move |reply| reply.trailers(trailers()));
        assert!(matches!(start.await, Start::Ended(())));
    }

    #[tokio::test]
    async fn a_panic_before_the_answer_is_told_and_one_within_cuts_it() {
        let start = run(CancelToken::new(), patient(), |_| -> () { panic!("on purpose") }).await;
        assert!(matches!(start, Start::Panicked));
        let start = run(CancelToken::new(), patient(), |reply| -> () {
            reply.send(b"half").unwrap();
            panic!("on purpose")
        });
        let Start::Begun(body) = start.await else { panic!("not begun") };
        assert!(body.collect().await.is_err());
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_holds_the_worker_back() {
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let start = run(CancelToken::new(), patient(), move |reply| {
            for _ in 0..100 {
                reply.send(&[0; 1000]).unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        let Start::Begun(body) = start.await else { panic!("not begun") };
        sleep(Duration::from_millis(50)).await;
        assert!(sent.load(Ordering::Relaxed) <= CHUNKS_IN_FLIGHT);
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), 100_000);
    }

    #[tokio::test]
    async fn a_client_that_keeps_its_connection_and_reads_nothing_is_given_up() {
        let (tell, told) = std::sync::mpsc::channel();
        let control = StopControl::new();
        let short = Patience::new(Duration::from_millis(20), control.signal());
        let start = run(CancelToken::new(), short, move |reply| {
            let error = (0..).find_map(|_| reply.send(b"x").err()).unwrap();
            tell.send(error.kind()).unwrap();
        });
        let Start::Begun(_body) = start.await else { panic!("not begun") };
        let kind = spawn_blocking(move || told.recv_timeout(Duration::from_secs(5)).unwrap());
        assert_eq!(kind.await.unwrap(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_goes_away_sets_the_token_and_fails_the_next_write() {
        let cancel = CancelToken::new();
        let (tell, told) = std::sync::mpsc::channel();
        let start = run(cancel.clone(), patient(), move |reply| {
            reply.begin().unwrap();
            while reply.send(b"x").is_ok() {}
            tell.send(()).unwrap();
        });
        let Start::Begun(body) = start.await else { panic!("not begun") };
        assert!(!cancel.is_cancelled());
        drop(body);
        assert!(cancel.is_cancelled());
        spawn_blocking(move || told.recv_timeout(Duration::from_secs(5))).await.unwrap().unwrap();

        // Likewise while nobody has answered yet.
        let cancel = CancelToken::new();
        let waiting =
            run(cancel.clone(), patient(), |_| std::thread::sleep(Duration::from_millis(100)));
        assert!(timeout(Duration::from_millis(10), waiting).await.is_err());
        assert!(cancel.is_cancelled());
    }
}
