//! HTTP by hand: requests as bytes, answers taken apart without leniency.

use super::server::Server;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// The type of a push request.
pub const PUSH_TYPE: &str = "application/x-git-receive-pack-request";
/// The type of the answer to one.
pub const PUSH_RESULT_TYPE: &str = "application/x-git-receive-pack-result";
/// The type of a fetch request.
pub const FETCH_TYPE: &str = "application/x-git-upload-pack-request";

/// A request about to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    target: String,
    version: &'static str,
    headers: Vec<(String, String)>,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    None,
    Whole(Vec<u8>),
    Chunked(Vec<Vec<u8>>),
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn new(method: &str, target: impl Into<String>) -> Self {
        Self {
            method: method.to_owned(),
            target: target.into(),
            version: "HTTP/1.1",
            headers: Vec::new(),
            body: Body::None,
        }
    }

    pub fn get(target: impl Into<String>) -> Self {
        Self::new("GET", target)
    }

    /// A push of `body` to a repository such as `/x.git`.
    pub fn push(repository: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("POST", format!("{repository}/git-receive-pack"))
            .header("Content-Type", PUSH_TYPE)
            .body(body)
    }

    /// The discovery of a push.
    pub fn discovery(repository: &str) -> Self {
        Self::get(format!("{repository}/info/refs?service=git-receive-pack"))
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Basic credentials.
    pub fn user(self, user: &str, password: &str) -> Self {
        use base64::Engine as _;
        let encoded = base64::prelude::BASE64_STANDARD.encode(format!("{user}:{password}"));
        self.header("Authorization", &format!("Basic {encoded}"))
    }

    pub fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// A body with its length in front.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Body::Whole(body.into());
        self
    }

    /// A chunked body, split after each of `sizes` bytes, the last of which repeats.
    pub fn chunked(mut self, body: &[u8], sizes: &[usize]) -> Self {
        let mut chunks = Vec::new();
        let mut rest = body;
        let mut sizes = sizes.iter().copied();
        let mut size = 1;
        while !rest.is_empty() {
            size = sizes.next().unwrap_or(size);
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            chunks.push(chunk.to_vec());
            rest = after;
        }
        self.body = Body::Chunked(chunks);
        self
    }

    /// Line and headers.
    pub fn head(&self, host: &str) -> Vec<u8> {
        let mut text = format!("{} {} {}\r\n", self.method, self.target, self.version);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text.extend(["Host: ", host, "\r\n"]);
        }
        for (name, value) in &self.headers {
            text.extend([name, ": ", value, "\r\n"]);
        }
        match &self.body {
            Body::None => {}
            Body::Whole(body) => {
                text.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
            }
            Body::Chunked(_) => text.push_str("Transfer-Encoding: chunked\r\n"),
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    /// The body as it goes over the wire, in the pieces it is sent in.
    pub fn wire_body(&self) -> Vec<Vec<u8>> {
        match &self.body {
            Body::None => Vec::new(),
            Body::Whole(body) => vec![body.clone()],
            Body::Chunked(chunks) => {
                let mut pieces: Vec<_> = chunks
                    .iter()
                    .map(|chunk| {
                        [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()
                    })
                    .collect();
                pieces.push(b"0\r\n\r\n".to_vec());
                pieces
            }
        }
    }

    /// Sends the request on a connection of its own and reads the answer.
    pub fn send(&self, server: &Server) -> Response {
        let mut connection = Connection::open(server);
        connection.write(&self.head(server.address())).unwrap();
        for piece in self.wire_body() {
            // An answer may come before the body is through.
            if connection.write(&piece).is_err() {
                break;
            }
        }
        connection.response(self.method == "HEAD")
    }
}

/// A connection to a server.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Says that nothing more will be sent.
    pub fn finish_writing(&mut self) {
        self.reader.get_mut().shutdown(Shutdown::Write).unwrap();
    }

    /// Fails a read that has to wait longer.
    pub fn patience(&mut self, patience: Duration) {
        self.reader.get_mut().set_read_timeout(Some(patience)).unwrap();
    }

    /// Reads the status line and the headers of the next answer.
    pub fn response_head(&mut self) -> Response {
        let line = self.line();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("'{line}'")).parse().unwrap();
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap();
            let earlier = headers.insert(name.to_lowercase(), value.trim().to_owned());
            assert_eq!(earlier, None, "'{name}' is there twice");
        }
        Response { status, headers, body: Vec::new() }
    }

    /// Reads the next answer; it must be whole.
    pub fn response(&mut self, head_only: bool) -> Response {
        let mut response = self.response_head();
        if !head_only && response.status >= 200 {
            response.body = self.body(&response).unwrap();
        }
        response
    }

    /// Reads the body that belongs to an answer.
    pub fn body(&mut self, response: &Response) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if response.headers.get("transfer-encoding").is_some_and(|value| value == "chunked") {
            while let Some(chunk) = self.chunk()? {
                body.extend_from_slice(&chunk);
            }
        } else if let Some(length) = response.headers.get("content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.reader.read_exact(&mut body)?;
        } else {
            self.reader.read_to_end(&mut body)?;
        }
        Ok(body)
    }

    /// Reads one chunk of a chunked body.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim_end(), 16)
            .map_err(|_| io::Error::new(io::ErrorKind::UnexpectedEof, format!("'{line}'")))?;
        let mut chunk = vec![0; length + 2];
        self.reader.read_exact(&mut chunk)?;
        assert!(chunk.ends_with(b"\r\n"));
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// Whether any of an answer comes within the patience.
    pub fn has_answer(&mut self) -> bool {
        self.reader.fill_buf().is_ok()
    }

    /// Whether the server has closed the connection, with everything read.
    pub fn is_closed(&mut self) -> bool {
        loop {
            match self.reader.fill_buf() {
                Ok(bytes) => return bytes.is_empty(),
                // A read with a deadline is not begun again by itself after a signal.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    eprintln!("not closed as it seems: {error}");
                    return error.kind() == io::ErrorKind::ConnectionReset;
                }
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        assert!(line.ends_with("\r\n"), "the answer breaks off after '{line}'");
        line.trim_end().to_owned()
    }
}

impl Response {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Asserts status and that the answer is a line of plain text that nobody caches.
    pub fn assert_refused(&self, status: u16) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), "text/plain; charset=utf-8", "{self:?}");
        assert!(self.text().ends_with('\n') && self.text().len() > 4, "{self:?}");
        self.assert_not_cached();
    }

    pub fn assert_not_cached(&self) {
        assert_eq!(self.header("expires"), "Fri, 01 Jan 1980 00:00:00 GMT", "{self:?}");
        assert_eq!(self.header("pragma"), "no-cache");
        assert_eq!(self.header("cache-control"), "no-cache, max-age=0, must-revalidate");
    }

    /// Asserts a good answer of `media_type`, and gives its body.
    pub fn good(&self, media_type: &str) -> &[u8] {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), media_type, "{self:?}");
        self.assert_not_cached();
        assert_eq!(self.header("x-accel-buffering"), "no");
        &self.body
    }
}
