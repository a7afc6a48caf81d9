//! The `git upload-pack` process behind one request.

use super::bridge;
use super::patience::Patience;
use super::push_log;
use crate::model::CancelToken;
use crate::repo::Environment;
use axum::body::{Body, Bytes};
use hyper::body::Frame;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

/// A running process.
pub(super) struct UploadPack {
    child: Child,
    input: Option<File>,
    output: ChildStdout,
    complaints: ChildStderr,
}

/// What a process does first.
pub(super) enum First {
    /// It answers.
    Output(Body),
    /// It ends without a word.
    Ended {
        /// Whether its exit status is 0.
        success: bool,
    },
}

impl UploadPack {
    /// Starts the process for the repository at `git_dir`, to advertise or to take one request.
    pub(super) fn spawn(
        git_dir: &Path,
        environment: &Environment,
        advertise: bool,
    ) -> io::Result<Self> {
        let mut trusted = OsString::from("safe.directory=");
        trusted.push(git_dir);
        let mut command = Command::new("git");
        command.arg("-c").arg(trusted).args(["upload-pack", "--strict", "--stateless-rpc"]);
        if advertise {
            command.arg("--http-backend-info-refs");
        }
        let mut child = command
            .arg(git_dir)
            .env_clear()
            .envs(environment.iter())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its children are to end with it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let input = child.stdin.take().ok_or_else(missing)?.into_owned_fd()?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let complaints = child.stderr.take().ok_or_else(missing)?;
        Ok(Self { child, input: Some(input.into()), output, complaints })
    }

    /// The process's standard input, which blocks. Dropping it is its end.
    pub(super) fn take_input(&mut self) -> Option<File> {
        self.input.take()
    }

    /// Follows the process in the background: from its first output, after `preamble`, to its
    /// end. If the answer's body is dropped, so is the process; `permit` lives as long as it.
    pub(super) async fn run(
        self,
        preamble: Bytes,
        permit: OwnedSemaphorePermit,
        patience: Patience,
    ) -> First {
        let (tell_first, first) = oneshot::channel();
        let (answer, body) = bridge::reply_channel(CancelToken::new());
        tokio::spawn(async move {
            let _held = (permit, patience.stop().hold());
            self.follow(preamble, tell_first, answer, patience).await;
        });
        match first.await {
            Ok(None) => First::Output(body),
            Ok(Some(success)) => First::Ended { success },
            Err(_) => First::Ended { success: false },
        }
    }

    async fn follow(
        mut self,
        preamble: Bytes,
        tell_first: oneshot::Sender<Option<bool>>,
        answer: mpsc::Sender<io::Result<Frame<Bytes>>>,
        patience: Patience,
    ) {
        let complaints = tokio::spawn(read_complaints(self.complaints));
        let mut stopped = patience.stop().clone();
        let carried = tokio::select! {
            carried = carry(&mut self.output, preamble, tell_first, &answer, patience.clone()) => {
                carried
            }
            () = answer.closed() => Carried::ClientGone,
            () = stopped.cancelling() => Carried::ClientGone,
        };
        if let Carried::ClientGone = carried {
            // Nobody takes what there is for the whole.
            drop(answer.try_send(Err(io::Error::other("stopped"))));
            terminate(self.child).await;
            return;
        }
        let status = self.child.wait().await;
        let success = status.as_ref().is_ok_and(ExitStatus::success);
        if !success {
            let complaints = complaints.await.unwrap_or_default();
            let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            tracing::info!(status, complaints, "git upload-pack failed");
        }
        if let Carried::Nothing(tell_first) = carried {
            let _ = tell_first.send(Some(success));
        }
    }
}

/// How the output of a process ended.
enum Carried {
    /// It was carried to its end.
    All,
    /// There was none; nobody was told anything yet.
    Nothing(oneshot::Sender<Option<bool>>),
    /// Nobody wants it.
    ClientGone,
}

async fn carry(
    output: &mut ChildStdout,
    preamble: Bytes,
    tell_first: oneshot::Sender<Option<bool>>,
    answer: &mpsc::Sender<io::Result<Frame<Bytes>>>,
    mut patience: Patience,
) -> Carried {
    let mut tell_first = Some(tell_first);
    let mut buffer = Vec::with_capacity(CHUNK_BYTES);
    loop {
        buffer.clear();
        match output.read_buf(&mut buffer).await {
            Ok(0) => return tell_first.map_or(Carried::All, Carried::Nothing),
            Ok(_) => {}
            Err(_) => return Carried::ClientGone,
        }
        if let Some(first) = tell_first.take() {
            let begun = first.send(None).is_ok();
            if !begun {
                return Carried::ClientGone;
            }
            if !preamble.is_empty() {
                let sent = answer.send(Ok(Frame::data(preamble.clone())));
                let Some(Ok(())) = patience.wait(sent).await else { return Carried::ClientGone };
            }
        }
        let sent = answer.send(Ok(Frame::data(Bytes::copy_from_slice(&buffer))));
        let Some(Ok(())) = patience.wait(sent).await else { return Carried::ClientGone };
    }
}

/// The first words on standard error; the rest is read too, so that nobody waits to be heard.
async fn read_complaints(mut pipe: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut buffer = Vec::with_capacity(COMPLAINT_BYTES_MAX);
    while let Ok(1..) = pipe.read_buf(&mut buffer).await {
        let room = COMPLAINT_BYTES_MAX.saturating_sub(kept.len());
        kept.extend(buffer.iter().take(room));
        buffer.clear();
    }
    push_log::escaped(kept.trim_ascii_end())
}

/// Asks the process and its children to end, then makes them.
async fn terminate(mut child: Child) {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    for signal in [Signal::TERM, Signal::KILL] {
        if let Some(group) = group {
            // An error means that they are gone already.
            let _ = kill_process_group(group, signal);
        }
        if timeout(GRACE, child.wait()).await.is_ok() {
            return;
        }
    }
}

const CHUNK_BYTES: usize = 64 << 10;
const COMPLAINT_BYTES_MAX: usize = 4 << 10;
const GRACE: Duration = Duration::from_secs(5);
