//! Running git for the refs of one repository.
//!
//! What it prints is bounded, what it says on standard error is handed on while it comes; only its
//! last word, if it is a fatal one, is kept back.

use crate::refs::context::RefContext;
use crate::repo::Environment;
use bstr::{BString, ByteSlice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

/// What git said, and how it ended.
#[derive(Debug)]
pub(super) struct Told {
    /// Whether it ended with status 0.
    pub(super) is_success: bool,
    /// Its standard output.
    pub(super) output: Vec<u8>,
    /// What it died of, without `fatal: `; empty if it did not say.
    pub(super) fatal: BString,
}

/// LIMIT: bytes of standard output; some ten million refs, as for packed-refs.
const OUTPUT_BYTES_MAX: u64 = 1 << 31;
/// LIMIT: bytes of a line of standard error that is kept until it is whole.
const LINE_BYTES_MAX: usize = 64 << 10;

const FATAL: &[u8] = b"fatal: ";

/// A command of git's in this repository. It has a process group of its own: a signal that ends this
/// process leaves it to finish what it has begun.
pub(super) fn git(context: &RefContext, environment: &Environment) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(&context.git_dir)
        .env_clear()
        .envs(environment.iter())
        .env("GIT_DIR", ".")
        .env_remove("GIT_WORK_TREE")
        .process_group(0);
    command
}

/// Starts a command that is to be attended to.
pub(super) fn start(mut command: Command) -> io::Result<Child> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// Attends to a command until its end. `hear` gets what it says on standard error, but for its last
/// word, and an empty piece whenever it has said nothing for as long as `patience`.
pub(super) fn attend(
    mut child: Child,
    input: &[u8],
    patience: Option<Duration>,
    hear: &mut dyn FnMut(&[u8]),
) -> io::Result<Told> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let attended: io::Result<_> = thread::scope(|scope| {
        if let Some(mut stdin) = stdin {
            // One that ends before it has read all says so.
            thread::Builder::new().spawn_scoped(scope, move || drop(stdin.write_all(input)))?;
        }
        let read = move || {
            let mut output = Vec::new();
            let Some(mut stdout) = stdout else { return Ok(output) };
            stdout.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut output)?;
            if stdout.read(&mut [0])? > 0 {
                let text = format!("more than {OUTPUT_BYTES_MAX} bytes of refs");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
            }
            Ok(output)
        };
        let reader = thread::Builder::new().spawn_scoped(scope, read)?;
        let fatal = match stderr {
            // Or the others would wait for it.
            Some(stderr) => listen(stderr, patience, hear).inspect_err(|_| drop(child.kill()))?,
            None => BString::default(),
        };
        let output = reader.join().map_err(|_| io::Error::other("a reader died"))??;
        Ok((output, fatal))
    });
    if attended.is_err() {
        // It may wait for somebody to read.
        drop(child.kill());
    }
    let status = child.wait()?;
    let (output, fatal) = attended?;
    Ok(Told { is_success: status.success(), output, fatal })
}

/// Hands on what comes, line by line, and gives what begins with the last fatal word.
fn listen(
    mut stderr: ChildStderr,
    patience: Option<Duration>,
    hear: &mut dyn FnMut(&[u8]),
) -> io::Result<BString> {
    let mut held: Vec<u8> = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if !is_heard(&stderr, patience)? {
            hear(&[]);
            continue;
        }
        let length = match stderr.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        held.extend_from_slice(buffer.get(..length).unwrap_or_default());
        let before = hand_on(&held);
        if before > 0 {
            hear(held.get(..before).unwrap_or_default());
            held.drain(..before);
        }
    }
    if let Some(fatal) = held.strip_prefix(FATAL) {
        return Ok(fatal.trim_end().into());
    }
    if !held.is_empty() {
        hear(&held);
    }
    Ok(BString::default())
}

/// Whether something is said, or the end is reached, before patience ends.
fn is_heard(stderr: &ChildStderr, patience: Option<Duration>) -> io::Result<bool> {
    let Some(patience) = patience else { return Ok(true) };
    let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
    let mut wanted = [PollFd::new(stderr, PollFlags::IN)];
    match poll(&mut wanted, Some(&patience)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// How much of what is held may be handed on: all before its last fatal line, or, where there is
/// none, all whole lines.
fn hand_on(held: &[u8]) -> usize {
    let starts = held
        .find_iter(FATAL)
        .filter(|at| at.checked_sub(1).is_none_or(|before| held.get(before) == Some(&b'\n')));
    let fatal = starts.last();
    match fatal {
        Some(at) if held.len().saturating_sub(at) <= LINE_BYTES_MAX => at,
        _ if held.len() > LINE_BYTES_MAX => held.len(),
        _ => held.rfind_byte(b'\n').map_or(0, |end| end.saturating_add(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(script: &str) -> (String, Told) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut heard = Vec::new();
        let hear = &mut |said: &[u8]| heard.extend_from_slice(said);
        let told = attend(start(command).unwrap(), b"in\n", None, hear).unwrap();
        (String::from_utf8(heard).unwrap(), told)
    }

    #[test]
    fn the_last_fatal_word_is_kept_and_all_else_handed_on() {
        let script = "echo a >&2; echo fatal: of the hook >&2; echo b >&2; cat; \
                      echo 'fatal: no' >&2; echo ' more' >&2; exit 128";
        let (heard, told) = heard(script);
        assert_eq!(heard, "a\nfatal: of the hook\nb\n");
        assert_eq!((told.is_success, told.output.as_slice()), (false, &b"in\n"[..]));
        assert_eq!(told.fatal, "no\n more");
    }

    #[test]
    fn silence_is_heard() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1; echo word >&2"]);
        let mut heard = Vec::new();
        let patience = Some(Duration::from_millis(200));
        let hear = &mut |said: &[u8]| heard.push(said.to_vec());
        attend(start(command).unwrap(), b"", patience, hear).unwrap();
        assert_eq!(heard.pop(), Some(b"word\n".to_vec()));
        assert!((1..=5).contains(&heard.len()) && heard.iter().all(Vec::is_empty), "{heard:?}");
    }

    #[test]
    fn words_without_a_line_feed_and_without_end_are_not_held() {
        let (text, told) = heard("printf 'not fatal: x' >&2");
        assert_eq!((text.as_str(), told.fatal.is_empty()), ("not fatal: x", true));
        let (text, _) = heard("head -c 300000 /dev/zero | tr '\\0' x >&2");
        assert_eq!(text.len(), 300_000);
    }
}
