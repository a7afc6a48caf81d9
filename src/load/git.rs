//! Stock git, as the eyes of the check after a run.
//!
//! It sees no configuration but a repository's own and reaches servers directly, as the pushers
//! do; credentials reach it through the environment, never through its arguments. It always ends:
//! at a deadline, or when the run is interrupted, together with the processes that it started.

use super::settings::Settings;
use super::tls::Trust;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Git {
    configuration: Vec<(&'static str, String)>,
    /// How long a command may take that asks a server.
    patience: Duration,
}

/// Why git gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum GitError {
    /// There is none, or it cannot be run.
    #[error("cannot run git: {0}")]
    Run(String),
    /// It was not done in time, and was ended.
    #[error("git was not done after {} s", .0.as_secs_f64())]
    Deadline(Duration),
    /// The run is to end, so it was ended.
    #[error("interrupted")]
    Interrupted,
    /// It said no.
    #[error("{}", last_line(.0))]
    Failed(String),
}

impl Git {
    /// A git that reaches the servers of a run as its pushers do.
    pub(super) fn new(settings: &Settings) -> Self {
        // Less than a byte a second for so long is what the pushers call a timeout.
        let timeout = settings.timeout.as_secs_f64().ceil();
        let mut configuration = vec![
            ("safe.directory", "*".to_owned()),
            ("gc.auto", "0".to_owned()),
            // Set, and empty: no proxy, whatever the environment says.
            ("http.proxy", String::new()),
            ("http.followRedirects", "false".to_owned()),
            ("http.lowSpeedLimit", "1".to_owned()),
            ("http.lowSpeedTime", timeout.to_string()),
        ];
        let header = settings.credentials.as_ref().and_then(|credentials| {
            let value = credentials.header().ok()?;
            Some(format!("Authorization: {}", value.to_str().ok()?))
        });
        configuration.extend(header.map(|header| ("http.extraHeader", header)));
        match &settings.trust {
            Trust::System => {}
            Trust::Authorities(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                configuration.push(("http.sslCAInfo", path.display().to_string()));
            }
            Trust::Anybody => configuration.push(("http.sslVerify", "false".into())),
        }
        Self { configuration, patience: settings.timeout.max(SERVER_PATIENCE_MIN) }
    }

    /// Whether there is one.
    pub(super) fn is_there(&self) -> bool {
        self.run(Path::new("/"), &["--version"], &|| false).is_ok()
    }

    /// Runs it in a directory and gives what it printed; `interrupted` is asked all the while.
    pub(super) fn run(
        &self,
        directory: &Path,
        arguments: &[&str],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<String, GitError> {
        let asks_server = arguments.first() == Some(&"fetch");
        let patience = if asks_server { self.patience } else { DISK_PATIENCE };
        let unable = |error: io::Error| GitError::Run(error.to_string());
        let mut child = self.command(directory, arguments).spawn().map_err(unable)?;
        let out = collect(child.stdout.take());
        let complaint = collect(child.stderr.take());
        let status = wait(&mut child, patience, interrupted);
        if status.is_err() {
            end(&mut child);
        }
        let text = |thread: JoinHandle<Vec<u8>>| {
            let bytes = thread.join().unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        let (out, complaint) = (text(out), text(complaint));
        let status = status?;
        if status.success() {
            // `git fsck` complains and succeeds where it thinks that it can.
            let fsck = arguments.first() == Some(&"fsck");
            return Ok(if fsck { format!("{out}\n{complaint}") } else { out });
        }
        let silent = complaint.is_empty();
        Err(GitError::Failed(if silent { format!("{out} ({status})") } else { complaint }))
    }

    fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .current_dir(directory)
            .args(arguments)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_COUNT", self.configuration.len().to_string())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Those that it starts are ended with it.
            .process_group(0);
        for name in FOREIGN_VARIABLES {
            command.env_remove(name);
        }
        for (number, (key, value)) in self.configuration.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{number}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        command
    }
}

fn wait(
    child: &mut Child,
    patience: Duration,
    interrupted: &dyn Fn() -> bool,
) -> Result<ExitStatus, GitError> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => return Err(GitError::Run(error.to_string())),
        }
        if interrupted() {
            return Err(GitError::Interrupted);
        }
        if begun.elapsed() >= patience {
            return Err(GitError::Deadline(patience));
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends it and all that it started. It is still there to be ended: nobody has waited for it.
fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    drop(child.wait());
}

/// Reads a pipe to its end, so that its writer never waits.
fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came until it broke is all there is.
            drop(pipe.read_to_end(&mut bytes));
        }
        bytes
    })
}

fn last_line(complaint: &str) -> &str {
    complaint.lines().last().unwrap_or("it failed")
}

/// What would lead it to another repository, or to a proxy.
const FOREIGN_VARIABLES: [&str; 12] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_NAMESPACE",
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];
const SERVER_PATIENCE_MIN: Duration = Duration::from_secs(5 * 60);
/// For what reads a disk: a large repository takes its time, and no peer can hold it up.
const DISK_PATIENCE: Duration = Duration::from_secs(3600);
const LOOK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn git(patience: Duration) -> Git {
        Git { configuration: vec![("http.proxy", String::new())], patience }
    }

    /// A server that takes connections and never answers.
    fn silent() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/x.git", listener.local_addr().unwrap());
        (listener, url)
    }

    #[test]
    fn a_fetch_from_a_server_that_never_answers_ends_at_the_deadline() {
        let (_listener, url) = silent();
        let directory = tempfile::tempdir().unwrap();
        let patience = Duration::from_millis(300);
        let git = git(patience);
        git.run(directory.path(), &["init", "-q", "--bare", "."], &|| false).unwrap();
        let begun = Instant::now();
        let result = git.run(directory.path(), &["fetch", "-q", &url], &|| false);
        assert_eq!(result, Err(GitError::Deadline(patience)));
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn an_interrupt_ends_a_fetch() {
        let (_listener, url) = silent();
        let directory = tempfile::tempdir().unwrap();
        let git = git(Duration::from_secs(60));
        git.run(directory.path(), &["init", "-q", "--bare", "."], &|| false).unwrap();
        let asked = AtomicBool::new(false);
        // Set at the second look.
        let interrupted = || asked.swap(true, Ordering::SeqCst);
        let result = git.run(directory.path(), &["fetch", "-q", &url], &interrupted);
        assert_eq!(result, Err(GitError::Interrupted));
    }

    #[test]
    fn what_it_complained_of_is_told_by_its_last_line() {
        let git = git(Duration::from_secs(60));
        let error = git.run(Path::new("/"), &["rev-parse", "--nonsense-"], &|| false).unwrap_err();
        assert!(matches!(error, GitError::Failed(_)), "{error:?}");
        assert_eq!(GitError::Failed("a\nb".into()).to_string(), "b");
    }
}
