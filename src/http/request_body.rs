//! A request body on its way in: carried to a worker, decoded, or drained.
//!
//! Guarantees an end to every body: no bytes for a while, the client's departure and the server's
//! own stop all fail it. There is no bound on the time a body may take as a whole, since a slow
//! line is no fault. After a refusal a bounded part of what is left is read, because a client that
//! is cut off while it sends never sees the answer.

use super::bridge::{BodyReader, Chunk};
use super::headers::Encoding;
use super::stop::StopSignal;
use crate::model::CancelToken;
use axum::body::{Body, Bytes};
use flate2::bufread::GzDecoder;
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use std::io::{self, BufRead as _, Read};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

/// How long what is left of a body is read and thrown away after a refusal. Long enough for a
/// client near by to send a large push to its end and come to read the answer as it should; git
/// reads it meanwhile anyway, and only complains of a broken pipe as well if it is cut off.
/// Nobody is better off for sending: the same bytes in a good push would cost more.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(10);

/// A body that has not come yet.
pub(super) struct IncomingBody {
    body: Body,
    /// What was read ahead, and how it ended if it did.
    ahead: Vec<u8>,
    end: Option<Chunk>,
    /// Set when the client has gone or the server stops.
    cancel: CancelToken,
    stop: StopSignal,
    /// How long to wait for the next bytes.
    idle: Duration,
}

impl IncomingBody {
    pub(super) fn new(body: Body, cancel: CancelToken, stop: StopSignal, idle: Duration) -> Self {
        Self { body, ahead: Vec::new(), end: None, cancel, stop, idle }
    }

    /// Waits until the body has ended, well or badly, or until some of it is there: a client that
    /// sends little and stops costs no more than that little.
    pub(super) async fn read_ahead(&mut self) {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = self.fill() => {}
            // The carrier meets it again.
            () = stop.cancelling() => {}
        }
    }

    /// Carries the body to the reader at the other end of `chunks`, then stands by until that
    /// reader is dropped, so that the server's stop still reaches the worker.
    pub(super) async fn carry(self, chunks: mpsc::Sender<Chunk>) {
        let (cancel, mut stop) = (self.cancel.clone(), self.stop.clone());
        tokio::select! {
            () = self.carry_all(&chunks) => {}
            () = stop.cancelling() => {
                cancel.stop();
                let words = "the server is stopping";
                drop(chunks.send(Chunk::Failed(io::Error::other(words))).await);
            }
        }
    }

    /// What has not been read, for a refusal after all.
    pub(super) fn into_rest(self) -> Body {
        self.body
    }

    async fn fill(&mut self) {
        while self.ahead.len() < AHEAD_BYTES && self.end.is_none() {
            match self.next().await {
                Chunk::Data(bytes) => self.ahead.extend_from_slice(&bytes),
                end => self.end = Some(end),
            }
        }
    }

    async fn carry_all(mut self, chunks: &mpsc::Sender<Chunk>) {
        let mut ahead = Some(Bytes::from(std::mem::take(&mut self.ahead)));
        loop {
            let chunk = match (ahead.take(), self.end.take()) {
                (Some(bytes), end) if !bytes.is_empty() => {
                    self.end = end;
                    Chunk::Data(bytes)
                }
                (_, Some(end)) => end,
                (_, None) => self.next().await,
            };
            let is_last = !matches!(chunk, Chunk::Data(_));
            if chunks.send(chunk).await.is_err() {
                // The worker has seen enough.
                return drain(self.body).await;
            }
            if is_last {
                return chunks.closed().await;
            }
        }
    }

    async fn next(&mut self) -> Chunk {
        match timeout(self.idle, next_data(&mut self.body)).await {
            Ok(Some(Ok(bytes))) => Chunk::Data(bytes),
            Ok(None) => Chunk::End,
            Ok(Some(Err(error))) => {
                self.cancel.cancel();
                Chunk::Failed(io::Error::new(io::ErrorKind::ConnectionAborted, error))
            }
            Err(_) => {
                let words = format!("no bytes came for {} seconds", self.idle.as_secs());
                Chunk::Failed(io::Error::new(io::ErrorKind::TimedOut, words))
            }
        }
    }
}

/// Bytes read ahead: the whole of a small push, the beginning of any other.
const AHEAD_BYTES: usize = 16 << 10;

/// Reads what is left of a body that nobody wants, for a while.
pub(super) async fn drain(body: Body) {
    drain_until(body, Instant::now() + DRAIN_TIME_MAX).await;
}

async fn drain_until(mut body: Body, deadline: Instant) {
    while let Ok(Some(Ok(_))) = timeout_at(deadline, next_data(&mut body)).await {}
}

async fn next_data(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        match body.frame().await?.map(Frame::into_data) {
            Ok(Ok(bytes)) => return Some(Ok(bytes)),
            // Trailers say nothing to us.
            Ok(Err(_)) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

/// A body as a worker wants it: without its content coding.
pub(super) enum DecodedBody {
    /// As it came.
    Identity(BodyReader),
    /// To be inflated.
    Gzip(Box<GzDecoder<BodyReader>>),
}

impl DecodedBody {
    /// Reads the beginning of a gzip body, so it may block.
    pub(super) fn new(encoding: Encoding, reader: BodyReader) -> Self {
        match encoding {
            Encoding::Identity => Self::Identity(reader),
            Encoding::Gzip => Self::Gzip(Box::new(GzDecoder::new(reader))),
        }
    }
}

impl Read for DecodedBody {
    /// A gzip body that ends early, that is damaged, or that has anything behind it is an error:
    /// what is left of it is not what the client meant.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Identity(reader) => reader.read(buffer),
            Self::Gzip(decoder) => {
                let length = decoder.read(buffer).map_err(by_coding)?;
                if length == 0 && !buffer.is_empty() && !decoder.get_mut().fill_buf()?.is_empty() {
                    return Err(damaged_coding("there are bytes behind its end"));
                }
                Ok(length)
            }
        }
    }
}

/// Tells a fault of the coding from one of the connection, which has other kinds.
fn by_coding(error: io::Error) -> io::Error {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match error.kind() {
        UnexpectedEof => damaged_coding("it breaks off"),
        InvalidData | InvalidInput => damaged_coding(&error.to_string()),
        _ => error,
    }
}

fn damaged_coding(how: &str) -> io::Error {
    let words = format!("the gzip coding of the request is damaged: {how}");
    io::Error::new(io::ErrorKind::InvalidData, words)
}

#[cfg(test)]
mod tests {
    use super::super::bridge::body_channel;
    use super::super::stop::{Stage, StopControl};
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use parts::chunked;
    use std::io::Write as _;
    use tokio::task::spawn_blocking;

    /// Bodies made of parts, each of which comes after a pause.
    mod parts {
        use super::*;
        use hyper::body::Body as HttpBody;
        use std::collections::VecDeque;
        use std::pin::Pin;
        use std::task::{Context, Poll};

        pub(super) struct Parts(pub(super) VecDeque<io::Result<Bytes>>, pub(super) bool);

        impl HttpBody for Parts {
            type Data = Bytes;
            type Error = io::Error;

            fn poll_frame(
                mut self: Pin<&mut Self>,
                _: &mut Context<'_>,
            ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
                match self.0.pop_front() {
                    Some(part) => Poll::Ready(Some(part.map(Frame::data))),
                    None if self.1 => Poll::Pending,
                    None => Poll::Ready(None),
                }
            }
        }

        /// `bytes` in chunks of `size`; one that `hangs` never ends.
        pub(super) fn chunked(bytes: &[u8], size: usize, hangs: bool) -> Body {
            let parts = bytes.chunks(size).map(|part| Ok(Bytes::copy_from_slice(part)));
            Body::new(Parts(parts.collect(), hangs))
        }
    }

    const IDLE: Duration = Duration::from_millis(50);

    fn incoming(body: Body, control: &StopControl) -> IncomingBody {
        IncomingBody::new(body, CancelToken::new(), control.signal(), IDLE)
    }

    async fn read(body: Body, encoding: Encoding) -> io::Result<Vec<u8>> {
        let control = StopControl::new();
        let (chunks, reader) = body_channel();
        let mut incoming = incoming(body, &control);
        incoming.read_ahead().await;
        let carried = tokio::spawn(incoming.carry(chunks));
        let read = spawn_blocking(move || {
            let mut bytes = Vec::new();
            DecodedBody::new(encoding, reader).read_to_end(&mut bytes).map(|_| bytes)
        });
        let result = read.await.unwrap();
        carried.await.unwrap();
        result
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[tokio::test]
    async fn any_split_gives_the_same_bytes() {
        let plain: Vec<u8> = (0..2000_u16).flat_map(u16::to_le_bytes).collect();
        let packed = gzip(&plain);
        for size in [1, 3, 7, 1000, 5000] {
            let body = chunked(&plain, size, false);
            assert_eq!(read(body, Encoding::Identity).await.unwrap(), plain, "{size}");
            let body = chunked(&packed, size, false);
            assert_eq!(read(body, Encoding::Gzip).await.unwrap(), plain, "{size} gzip");
        }
    }

    #[tokio::test]
    async fn a_gzip_body_that_is_not_whole_is_an_error_wherever_it_breaks() {
        let packed = gzip(b"some bytes to be packed, some bytes to be packed");
        for length in 0..packed.len() {
            let body = chunked(&packed[..length], 5, false);
            let error = read(body, Encoding::Gzip).await.unwrap_err().to_string();
            assert_eq!(
                error, "the gzip coding of the request is damaged: it breaks off",
                "{length}"
            );
        }
        let mut damaged = packed.clone();
        let crc = damaged.len() - 6;
        damaged[crc] ^= 1;
        for damaged in [&damaged[..], b"no gzip at all, but long enough"] {
            let error = read(chunked(damaged, 5, false), Encoding::Gzip).await.unwrap_err();
            let words = "the gzip coding of the request is damaged: ";
            assert!(error.to_string().starts_with(words), "{error}");
        }
    }

    #[tokio::test]
    async fn bytes_behind_a_gzip_body_are_an_error_in_any_chunk() {
        for tail in [&b"x"[..], b"0000", &gzip(b"more")] {
            let packed = [&gzip(b"packed")[..], tail].concat();
            for size in [1, packed.len() - tail.len(), packed.len()] {
                let error = read(chunked(&packed, size, false), Encoding::Gzip).await.unwrap_err();
                assert_eq!(
                    error.to_string(),
                    "the gzip coding of the request is damaged: there are bytes behind its end"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_body_that_stops_coming_fails_after_the_idle_time() {
        let error = read(chunked(b"ab", 1, true), Encoding::Identity).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_goes_away_fails_the_reader_and_sets_the_token() {
        let parts = [Ok(Bytes::from_static(b"ab")), Err(io::ErrorKind::ConnectionReset.into())];
        let body = Body::new(parts::Parts(parts.into(), false));
        let control = StopControl::new();
        let incoming = incoming(body, &control);
        let cancel = incoming.cancel.clone();
        let (chunks, mut reader) = body_channel();
        tokio::spawn(incoming.carry(chunks));
        let read = spawn_blocking(move || io::copy(&mut reader, &mut io::sink()));
        assert_eq!(read.await.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        assert!(cancel.is_cancelled());
    }

    #[tokio::test]
    async fn the_servers_stop_reaches_a_worker_that_waits_and_one_that_has_read_all() {
        for hangs in [true, false] {
            let control = StopControl::new();
            let mut incoming = incoming(chunked(b"ab", 2, hangs), &control);
            incoming.idle = Duration::from_secs(60);
            let cancel = incoming.cancel.clone();
            let (chunks, mut reader) = body_channel();
            let carrying = tokio::spawn(incoming.carry(chunks));
            let read = spawn_blocking(move || {
                let result = io::copy(&mut reader, &mut io::sink());
                while !cancel.is_cancelled() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                result
            });
            tokio::time::sleep(IDLE).await;
            control.enter(Stage::Cancelling);
            assert_eq!(read.await.unwrap().is_err(), hangs);
            carrying.await.unwrap();
        }
    }

    #[tokio::test]
    async fn what_a_worker_leaves_is_drained_to_its_end() {
        let control = StopControl::new();
        let (chunks, reader) = body_channel();
        drop(reader);
        let megabytes = vec![0; 40 << 20];
        let carried = incoming(chunked(&megabytes, 1 << 20, false), &control).carry(chunks);
        timeout(DRAIN_TIME_MAX / 2, carried).await.unwrap();
    }

    #[tokio::test]
    async fn a_body_without_end_is_not_drained_for_ever() {
        let started = Instant::now();
        drain_until(chunked(b"x", 1, true), started + IDLE).await;
        assert!(started.elapsed() < 20 * IDLE);
    }

    #[tokio::test]
    async fn no_more_is_read_ahead_than_a_small_push_has() {
        let control = StopControl::new();
        let mut body = incoming(chunked(&vec![0; 1 << 20], 1000, true), &control);
        body.read_ahead().await;
        assert!((AHEAD_BYTES..AHEAD_BYTES + 1000).contains(&body.ahead.len()));
        assert!(body.end.is_none());
        let mut body = incoming(chunked(b"small", 2, false), &control);
        body.read_ahead().await;
        assert_eq!(body.ahead, b"small");
        assert!(matches!(body.end, Some(Chunk::End)));
    }
}
