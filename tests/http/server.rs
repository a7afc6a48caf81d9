//! A `packhouse serve` of the test's own, on a port of its own.

use crate::support::git;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running server; killed when it is dropped.
pub struct Server {
    child: Child,
    address: String,
    scheme: String,
    log: Arc<Log>,
    directory: TempDir,
}

/// What a server has written to standard error.
#[derive(Default)]
struct Log {
    text: Mutex<(String, bool)>,
    grown: Condvar,
}

/// How long anything may take that should take no time. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

impl Server {
    /// A server with nothing configured.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A server with these flags.
    pub fn with(flags: &[&str]) -> Self {
        Self::prepared(|_| {}, flags)
    }

    /// A server that lets anybody push, without creating anything.
    pub fn open() -> Self {
        Self::with(&["--anonymous=write"])
    }

    /// A server with these users and `extra` flags.
    pub fn with_users(users: &[(&str, &str)], extra: &[&str]) -> Self {
        let mut lines = String::new();
        for (user, password) in users {
            // The lowest cost: tests are not attacked.
            let hash = bcrypt::hash(password, 4).unwrap();
            lines.extend([user, ":", &hash, "\n"]);
        }
        let write = move |directory: &Path| fs::write(directory.join("users"), &lines).unwrap();
        Self::prepared(write, &[&["--htpasswd=users"], extra].concat())
    }

    /// A server whose directory `prepare` has filled; it is started there, with its root in
    /// `repos`.
    pub fn prepared(prepare: impl FnOnce(&Path), flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        let mut command = Self::command(directory.path());
        command.args(["--root=repos", "--listen=127.0.0.1:0"]).args(flags);
        Self::begin(command, directory)
    }

    /// A server that runs under a limit of sh(1)'s `ulimit`.
    pub fn limited(limit: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let served = Self::command(directory.path());
        let mut command = Command::new("sh");
        let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(served.get_program()).args(served.get_args());
        command.args(["--root=repos", "--listen=127.0.0.1:0"]).args(flags);
        git::isolate(&mut command);
        command.current_dir(directory.path()).stdin(Stdio::null());
        Self::begin(command, directory)
    }

    /// `packhouse serve` in `directory`, shut off from the configuration of the machine.
    pub fn command(directory: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_packhouse"));
        git::isolate(&mut command);
        // The server's own committer would stand in every reflog.
        for name in ["AUTHOR", "COMMITTER"] {
            for part in ["NAME", "EMAIL", "DATE"] {
                command.env_remove(format!("GIT_{name}_{part}"));
            }
        }
        command.arg("serve").current_dir(directory).stdin(Stdio::null());
        command
    }

    /// Starts the command and waits until it listens.
    pub fn begin(mut command: Command, directory: TempDir) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Log::default());
        let stderr = child.stderr.take().unwrap();
        let follow = Arc::clone(&log);
        std::thread::spawn(move || follow.follow(stderr));
        let mut server =
            Self { child, address: String::new(), scheme: String::new(), log, directory };
        let text = server.wait_for_log("listening");
        let url = text.get(text.find("http").unwrap()..).unwrap();
        let url = url.split([',', ' ', '"']).next().unwrap();
        let (scheme, address) = url.split_once("://").unwrap();
        scheme.clone_into(&mut server.scheme);
        address.clone_into(&mut server.address);
        server
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The URL of a repository.
    pub fn url(&self, repository: &str) -> String {
        format!("{}://{}/{repository}", self.scheme, self.address)
    }

    /// The URL of a repository with credentials in it.
    pub fn url_as(&self, user: &str, password: &str, repository: &str) -> String {
        format!("{}://{user}:{password}@{}/{repository}", self.scheme, self.address)
    }

    /// Where the server's own files lie.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where a repository lies on the disk.
    pub fn path(&self, repository: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join("repos").join(repository)
    }

    /// Makes an empty repository.
    pub fn init(&self, repository: &str) -> PathBuf {
        let path = self.path(repository);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        git::init_bare(&path)
    }

    /// What the server has logged so far.
    pub fn log(&self) -> String {
        self.log.text.lock().unwrap().0.clone()
    }

    /// Waits until the log contains `words`, and gives all of it.
    pub fn wait_for_log(&self, words: &str) -> String {
        self.wait_for_log_beyond(0, words)
    }

    /// Has the server read its files again, waits until the log contains `words` once more, and
    /// gives all of it.
    pub fn hang_up(&self, words: &str) -> String {
        let before = self.log().matches(words).count();
        self.signal(Signal::HUP);
        self.wait_for_log_beyond(before, words)
    }

    /// Waits until the log contains `words` more often than `before`.
    fn wait_for_log_beyond(&self, before: usize, words: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut text = self.log.text.lock().unwrap();
        while text.0.matches(words).count() <= before {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !text.1, "no '{words}' in the log:\n{}", text.0);
            text = self.log.grown.wait_timeout(text, left).unwrap().0;
        }
        text.0.clone()
    }

    /// The most memory that the server has had at once, in bytes (proc(5), `VmHWM`).
    pub fn memory_peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Waits for the end; gives the status and the whole log.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the server does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut text = self.log.text.lock().unwrap();
        while !text.1 {
            text = self.log.grown.wait(text).unwrap();
        }
        let log = text.0.clone();
        drop(text);
        (status, log)
    }

    /// Asserts that the server is alive and well.
    pub fn assert_alive(&mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "the server ended:\n{}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Log {
    fn follow(&self, stderr: impl std::io::Read) {
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let mut text = self.text.lock().unwrap();
            text.0.push_str(&String::from_utf8_lossy(&line));
            text.0.push('\n');
            self.grown.notify_all();
        }
        self.text.lock().unwrap().1 = true;
        self.grown.notify_all();
    }
}
