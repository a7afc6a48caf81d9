//! A program that is run for its word alone, and not for longer than it may take.
//!
//! It starts as a hook does, in the git directory and with a hook's environment. Its outputs come
//! apart from one another and are bounded, and it is made to end when its time is up: whoever
//! waits for it holds a push, and with it a thread of the server.
//!
//! It has a process group of its own, so that what it started ends with it. Whoever has left that
//! group is not waited for.

use super::exec_path::path_with_exec_path;
use super::run::{Hooks, is_readable_or_writable, process_id, spawn_when_not_busy};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Signal, kill_process_group};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a program may take.
#[derive(Clone, Copy, Debug)]
pub struct ProgramBounds {
    /// When it must have ended.
    pub deadline: Instant,
    /// Bytes of each of its outputs.
    pub output_bytes_max: usize,
}

/// What a program said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// Whether it ended with status 0.
    pub is_success: bool,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

/// Why a program has nothing to say.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started, or not be listened to.
    #[error("cannot run '{name}': {source}")]
    NotRun {
        /// The program.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Its time was up.
    #[error("'{name}' did not end in time")]
    OutOfTime {
        /// The program.
        name: String,
    },
    /// It said more than anybody wants to hear.
    #[error("'{name}' said more than {output_bytes_max} bytes")]
    OutputTooLong {
        /// The program.
        name: String,
        /// The bound.
        output_bytes_max: usize,
    },
    /// Somebody asked for the end of whatever is run for the push.
    #[error("'{name}' was stopped")]
    Cancelled {
        /// The program.
        name: String,
    },
}

/// Why a program was made to end.
enum Cut {
    OutOfTime,
    OutputTooLong,
    Cancelled,
}

impl Hooks {
    /// Runs `program`, which is looked for as a shell looks for it, and gives it `input` to read;
    /// it need not read it. `silence` is called each time that nothing was heard for as long as
    /// [`noting_silence_of`](Self::noting_silence_of) says.
    pub fn run_program(
        &self,
        program: &OsStr,
        arguments: &[&OsStr],
        input: &[u8],
        bounds: ProgramBounds,
        silence: &mut dyn FnMut(),
    ) -> Result<ProgramOutput, ProgramError> {
        let name = program.display().to_string();
        let run = self.run_within(program, arguments, input, bounds, silence);
        match run {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(Cut::OutOfTime)) => Err(ProgramError::OutOfTime { name }),
            Ok(Err(Cut::Cancelled)) => Err(ProgramError::Cancelled { name }),
            Ok(Err(Cut::OutputTooLong)) => {
                let output_bytes_max = bounds.output_bytes_max;
                Err(ProgramError::OutputTooLong { name, output_bytes_max })
            }
            Err(source) => Err(ProgramError::NotRun { name, source }),
        }
    }

    fn run_within(
        &self,
        program: &OsStr,
        arguments: &[&OsStr],
        input: &[u8],
        bounds: ProgramBounds,
        silence: &mut dyn FnMut(),
    ) -> io::Result<Result<ProgramOutput, Cut>> {
        let mut command = self.command(Path::new(program), path_with_exec_path(self.environment()));
        command
            .args(arguments)
            .stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = spawn_when_not_busy(&mut command)?;
        let mut streams = match Streams::of(&mut child, input) {
            Ok(streams) => streams,
            Err(error) => {
                end(&mut child)?;
                return Err(error);
            }
        };
        let attended = self.hear(&mut child, &mut streams, bounds, silence);
        match attended {
            Ok(Ok(status)) => Ok(Ok(ProgramOutput {
                is_success: status.success(),
                stdout: streams.out.bytes,
                stderr: streams.err.bytes,
            })),
            Ok(Err(cut)) => {
                end(&mut child)?;
                Ok(Err(cut))
            }
            Err(error) => {
                end(&mut child)?;
                Err(error)
            }
        }
    }

    /// Carries the streams until they are closed and the program has ended.
    fn hear(
        &self,
        child: &mut Child,
        streams: &mut Streams<'_>,
        bounds: ProgramBounds,
        silence: &mut dyn FnMut(),
    ) -> io::Result<Result<ExitStatus, Cut>> {
        let mut heard = Instant::now();
        loop {
            if streams.carry(bounds.output_bytes_max)? {
                heard = Instant::now();
            }
            if streams.are_too_long {
                return Ok(Err(Cut::OutputTooLong));
            }
            if streams.are_closed()
                && let Some(status) = child.try_wait()?
            {
                return Ok(Ok(status));
            }
            if self.is_cancelled() {
                return Ok(Err(Cut::Cancelled));
            }
            if self.silence().is_some_and(|bound| heard.elapsed() >= bound) {
                silence();
                heard = Instant::now();
            }
            let left = bounds.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Err(Cut::OutOfTime));
            }
            streams.wait(left.min(LOOK_INTERVAL))?;
        }
    }
}

/// The streams of a program, none of which may be waited for alone.
struct Streams<'a> {
    stdin: Option<ChildStdin>,
    unwritten: &'a [u8],
    out: Output<std::process::ChildStdout>,
    err: Output<std::process::ChildStderr>,
    are_too_long: bool,
}

/// An output, and what came of it.
struct Output<R> {
    reader: Option<R>,
    bytes: Vec<u8>,
}

impl<'a> Streams<'a> {
    fn of(child: &mut Child, input: &'a [u8]) -> io::Result<Self> {
        let streams = Self {
            stdin: child.stdin.take(),
            unwritten: input,
            out: Output { reader: child.stdout.take(), bytes: Vec::new() },
            err: Output { reader: child.stderr.take(), bytes: Vec::new() },
            are_too_long: false,
        };
        streams.stdin.as_ref().map_or(Ok(()), never_wait_for)?;
        streams.out.reader.as_ref().map_or(Ok(()), never_wait_for)?;
        streams.err.reader.as_ref().map_or(Ok(()), never_wait_for)?;
        Ok(streams)
    }

    fn are_closed(&self) -> bool {
        self.out.reader.is_none() && self.err.reader.is_none()
    }

    /// Carries what can be carried now; whether anything was.
    fn carry(&mut self, output_bytes_max: usize) -> io::Result<bool> {
        let mut moved = self.write();
        moved |= self.out.read(output_bytes_max)?;
        moved |= self.err.read(output_bytes_max)?;
        let length = self.out.bytes.len().max(self.err.bytes.len());
        self.are_too_long = length > output_bytes_max;
        Ok(moved)
    }

    fn write(&mut self) -> bool {
        let Some(stdin) = &mut self.stdin else { return false };
        match stdin.write(self.unwritten) {
            Ok(count) => {
                self.unwritten = self.unwritten.get(count..).unwrap_or_default();
                if self.unwritten.is_empty() {
                    self.stdin = None;
                }
                true
            }
            Err(error) if is_for_later(&error) => false,
            // It need not read its input.
            Err(_) => {
                self.stdin = None;
                false
            }
        }
    }

    /// Waits until something can be carried.
    fn wait(&self, within: Duration) -> io::Result<()> {
        if self.are_closed() {
            // What it has still to do is to end.
            thread::sleep(within.min(END_INTERVAL));
            return Ok(());
        }
        let readers =
            [self.out.reader.as_ref().map(AsFd::as_fd), self.err.reader.as_ref().map(AsFd::as_fd)];
        let writer = self.stdin.as_ref().map(AsFd::as_fd);
        is_readable_or_writable(readers.into_iter().flatten(), writer, within).map(drop)
    }
}

impl<R: Read> Output<R> {
    /// Reads what there is, up to a byte more than the bound.
    fn read(&mut self, bytes_max: usize) -> io::Result<bool> {
        let Some(reader) = &mut self.reader else { return Ok(false) };
        let mut buffer = [0; 4096];
        let mut moved = false;
        while self.bytes.len() <= bytes_max {
            match reader.read(&mut buffer) {
                Ok(0) => {
                    self.reader = None;
                    return Ok(true);
                }
                Ok(count) => {
                    self.bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
                    moved = true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_for_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn never_wait_for(stream: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(stream)?;
    fcntl_setfl(stream, flags | OFlags::NONBLOCK)?;
    Ok(())
}

/// Makes the program end with all that is in its group: it is asked to, and a second later made
/// to.
fn end(child: &mut Child) -> io::Result<()> {
    let signal = |child: &Child, signal| {
        // It was not waited for yet, so that the number is still its own.
        process_id(child).map(|id| kill_process_group(id, signal))
    };
    let _ = signal(child, Signal::TERM);
    let since = Instant::now();
    while since.elapsed() < GRACE {
        if is_over(child)? {
            break;
        }
        thread::sleep(END_INTERVAL);
    }
    // Whoever of the group has not heeded the first; an error means that there is nobody.
    let _ = signal(child, Signal::KILL);
    child.wait().map(drop)
}

/// Whether it has ended, without giving up its number.
fn is_over(child: &Child) -> io::Result<bool> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let Some(id) = process_id(child) else { return Ok(true) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(id), options)?.is_some())
}

/// How often somebody is asked whether the program should end.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How often it is looked whether it has ended.
const END_INTERVAL: Duration = Duration::from_millis(2);
/// What it has to end in.
const GRACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::testing::scene;
    use super::*;
    use crate::model::CancelToken;

    fn run(
        hooks: &Hooks,
        script: &str,
        input: &[u8],
        allowed: Duration,
    ) -> Result<ProgramOutput, ProgramError> {
        let bounds =
            ProgramBounds { deadline: Instant::now() + allowed, output_bytes_max: 100_000 };
        let arguments = ["-c", script].map(OsStr::new);
        hooks.run_program(OsStr::new("sh"), &arguments, input, bounds, &mut || {})
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn outputs_come_apart_and_the_status_is_told() {
        let scene = scene();
        let script = "cat; echo aside >&2; pwd; echo $GIT_DIR; exit 3";
        let said = run(&scene.hooks, script, b"in\n", LONG).unwrap();
        let root = scene.root.path().canonicalize().unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), format!("in\n{}\n.\n", root.display()));
        assert_eq!((said.stderr, said.is_success), (b"aside\n".to_vec(), false));
        assert!(run(&scene.hooks, "true", b"", LONG).unwrap().is_success);
    }

    #[test]
    fn no_input_is_dev_null_and_input_need_not_be_read() {
        let scene = scene();
        let said = run(&scene.hooks, "readlink /proc/self/fd/0", b"", LONG).unwrap();
        assert_eq!(said.stdout, b"/dev/null\n");
        let much = vec![b'x'; 4 << 20];
        assert!(run(&scene.hooks, "exec <&-; echo done", &much, LONG).unwrap().is_success);
        let said = run(&scene.hooks, "echo first; wc -c", &much, LONG).unwrap();
        assert_eq!(said.stdout, b"first\n4194304\n");
    }

    #[test]
    fn a_program_that_takes_too_long_is_made_to_end_with_what_it_started() {
        let scene = scene();
        let marks = scene.root.path().join("pids");
        for script in [
            "trap '' TERM; sleep 1000 & echo $! >pids; wait; wait",
            "sleep 1000 & echo $! >pids; exec >&- 2>&-; wait",
            "sleep 1000 >/dev/null 2>&1 & echo $! >pids; cat; exec sleep 1000",
        ] {
            let begun = Instant::now();
            let ended = run(&scene.hooks, script, b"x", Duration::from_millis(400));
            assert!(matches!(ended, Err(ProgramError::OutOfTime { .. })), "{script}: {ended:?}");
            assert!(begun.elapsed() < Duration::from_secs(20), "{script}");
            let started = std::fs::read_to_string(&marks).unwrap();
            let state = Path::new("/proc").join(started.trim()).join("stat");
            let is_gone = || {
                let state = std::fs::read_to_string(&state).unwrap_or_default();
                state.is_empty() || state.contains(") Z ")
            };
            let since = Instant::now();
            while !is_gone() {
                assert!(since.elapsed() < Duration::from_secs(20), "{script}");
                thread::sleep(END_INTERVAL);
            }
        }
    }

    #[test]
    fn a_program_that_says_too_much_is_made_to_end() {
        let scene = scene();
        for script in ["yes", "yes >&2", "head -c 100001 /dev/zero; sleep 1000"] {
            let ended = run(&scene.hooks, script, b"", LONG);
            assert!(matches!(ended, Err(ProgramError::OutputTooLong { .. })), "{ended:?}");
        }
        let said = run(&scene.hooks, "head -c 100000 /dev/zero", b"", LONG).unwrap();
        assert_eq!(said.stdout.len(), 100_000);
    }

    #[test]
    fn a_program_ends_when_somebody_asks_for_it() {
        let scene = scene();
        let cancel = CancelToken::new();
        let hooks = scene.hooks.until(&cancel);
        cancel.stop();
        let ended = run(&hooks, "sleep 1000", b"", LONG);
        assert!(matches!(ended, Err(ProgramError::Cancelled { .. })), "{ended:?}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let bounds = ProgramBounds { deadline: Instant::now() + SHORT, output_bytes_max: 10 };
        let name = OsStr::new("no-such-program-here");
        let error = scene().hooks.run_program(name, &[], b"", bounds, &mut || {}).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("cannot run 'no-such-program-here': "), "{text}");
    }

    #[test]
    fn silence_is_noted() {
        let scene = scene();
        let hooks = scene.hooks.clone().noting_silence_of(Some(Duration::from_millis(50)));
        let bounds = ProgramBounds { deadline: Instant::now() + LONG, output_bytes_max: 10 };
        let mut silences = 0;
        let arguments = ["-c", "sleep 0.5"].map(OsStr::new);
        let said =
            hooks.run_program(OsStr::new("sh"), &arguments, b"", bounds, &mut || silences += 1);
        assert!(said.unwrap().is_success);
        assert!(silences >= 2, "{silences}");
    }
}
