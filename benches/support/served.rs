//! A `packhouse serve` that is asked over plain HTTP.

use super::Outcome;
use super::git::without_configuration;
use super::group::Group;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server that runs. Dropped, it is stopped.
#[derive(Debug)]
pub(crate) struct Served {
    port: u16,
    process: Child,
    /// Dropped after the process has ended.
    pub(crate) group: Group,
}

impl Served {
    /// Serves the repositories below `root`, its log beside them.
    pub(crate) fn start(root: &Path, more: &[&str]) -> Outcome<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let group = Group::new(&format!("served-{}-{port}", std::process::id()))?;
        let mut command = group.command(env!("CARGO_BIN_EXE_packhouse"));
        command.arg("serve").arg("--root").arg(root).arg("--anonymous=write").args(more);
        command.arg(format!("--listen=127.0.0.1:{port}"));
        without_configuration(&mut command);
        let log = File::create(root.with_extension("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let served = Self { port, process: command.spawn()?, group };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err("waited for ten seconds until packhouse listens".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(served)
    }

    /// The advertisement of a repository: `name/info/refs`.
    pub(crate) fn advertisement(&self, name: &str) -> Outcome<Vec<u8>> {
        let path = format!("/{name}/info/refs?service=git-receive-pack");
        self.ask(format!("GET {path} HTTP/1.1\r\n").as_bytes(), &[])
    }

    /// Sends a push; the answer.
    pub(crate) fn push(&self, name: &str, body: &[u8]) -> Outcome<Vec<u8>> {
        let head = format!(
            "POST /{name}/git-receive-pack HTTP/1.1\r\n\
             Content-Type: application/x-git-receive-pack-request\r\nContent-Length: {}\r\n",
            body.len()
        );
        self.ask(head.as_bytes(), body)
    }

    fn ask(&self, head: &[u8], body: &[u8]) -> Outcome<Vec<u8>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        let rest = format!("Host: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", self.port);
        stream.write_all(&[head, rest.as_bytes()].concat())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        if answer.starts_with(b"HTTP/1.1 200 ") {
            return Ok(answer);
        }
        let line = answer.split(|&byte| byte == b'\r').next().unwrap_or_default();
        Err(format!("the server answered '{}'", String::from_utf8_lossy(line)).into())
    }

    /// System calls of the server while `what` goes on, or `None` where there is no `strace`.
    pub(crate) fn system_calls(
        &self,
        scratch: &Path,
        what: impl FnOnce() -> Outcome<()>,
    ) -> Outcome<Option<u64>> {
        let counts = scratch.join("strace");
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-o"]).arg(&counts).arg("-p").arg(self.process.id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut tracer) = command.spawn() else { return Ok(None) };
        // Nothing says that it has attached to every thread.
        thread::sleep(Duration::from_millis(300));
        let done = what();
        if let Some(id) = rustix::process::Pid::from_raw(tracer.id().cast_signed()) {
            rustix::process::kill_process(id, rustix::process::Signal::INT)?;
        }
        tracer.wait()?;
        done?;
        super::process::total(&std::fs::read_to_string(counts)?).map(Some)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(id) = rustix::process::Pid::from_raw(self.process.id().cast_signed()) {
            // One that has ended already is as good.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
    }
}
