//! A hook that is talked to: it answers on its standard output, and only what it writes to standard
//! error is for the pusher.

use super::exec_path::path_with_exec_path;
use super::run::{HookError, HookVerdict, Hooks, spawn_when_not_busy};
use rustix::process::Signal;
use std::io;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::thread;

impl Hooks {
    /// Runs the hook at `path`, which [`find`](Self::find) gave, while `talk` writes to its standard
    /// input and reads its standard output. Ends when the hook has ended and closed its standard
    /// error, which goes to `said` in the pieces in which it arrives.
    ///
    /// `talk` must close both by dropping them; a hook that goes on after that is waited for.
    pub fn converse<T: Send>(
        &self,
        path: &Path,
        talk: impl FnOnce(ChildStdin, ChildStdout) -> T + Send,
        said: &mut dyn FnMut(&[u8]),
    ) -> Result<(T, HookVerdict), HookError> {
        let (result, status) =
            self.start_talking(path, talk, said).map_err(|source| HookError::new(path, source))?;
        let verdict = if status.success() { HookVerdict::Accepted } else { HookVerdict::Declined };
        Ok((result, verdict))
    }

    fn start_talking<T: Send>(
        &self,
        path: &Path,
        talk: impl FnOnce(ChildStdin, ChildStdout) -> T + Send,
        said: &mut dyn FnMut(&[u8]),
    ) -> io::Result<(T, ExitStatus)> {
        let (mut reader, writer) = io::pipe()?;
        let mut command = self.command(path, path_with_exec_path(self.environment()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(writer);
        let mut child = spawn_when_not_busy(&mut command)?;
        // It holds our copy of the writing end.
        drop(command);
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes"));
        };
        let talked = thread::scope(|scope| {
            let talking = thread::Builder::new()
                .spawn_scoped(scope, move || talk(stdin, stdout))
                .inspect_err(|_| self.signal(&child, Signal::KILL))?;
            let attended = self.attend(&child, &mut reader, said);
            let result = talking.join().map_err(|_| io::Error::other("the talk broke off"))?;
            attended.map(|()| result)
        });
        let status = child.wait()?;
        Ok((talked?, status))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scene;
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn output_is_the_talk_s_and_errors_are_the_pusher_s() {
        let scene = scene();
        let text = "#!/bin/sh\nread line\necho \"heard $line\"\necho aside >&2\nexit 3\n";
        scene.write("proc-receive", text, 0o755);
        let mut said = Vec::new();
        let talk = |mut stdin: ChildStdin, mut stdout: ChildStdout| {
            stdin.write_all(b"hello\n").unwrap();
            let mut answer = String::new();
            stdout.read_to_string(&mut answer).unwrap();
            answer
        };
        let path = Path::new("hooks/proc-receive");
        let (answer, verdict) =
            scene.hooks.converse(path, talk, &mut |bytes| said.extend_from_slice(bytes)).unwrap();
        assert_eq!((answer.as_str(), verdict), ("heard hello\n", HookVerdict::Declined));
        assert_eq!(said, b"aside\n");
    }

    #[test]
    fn a_hook_that_speaks_much_to_the_pusher_while_it_is_talked_to_does_not_wedge() {
        let scene = scene();
        let text = "#!/bin/sh\nhead -c 1000000 /dev/zero | tr '\\0' x >&2\ncat\n";
        scene.write("proc-receive", text, 0o755);
        let mut said = 0;
        let talk = |mut stdin: ChildStdin, mut stdout: ChildStdout| {
            stdin.write_all(b"bye").unwrap();
            drop(stdin);
            let mut answer = Vec::new();
            stdout.read_to_end(&mut answer).unwrap();
            answer
        };
        let path = Path::new("hooks/proc-receive");
        let (answer, _) =
            scene.hooks.converse(path, talk, &mut |bytes| said += bytes.len()).unwrap();
        assert_eq!((answer.as_slice(), said), (&b"bye"[..], 1_000_000));
    }
}
