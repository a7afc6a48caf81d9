//! Finding a hook and running it.

use super::exec_path::path_with_exec_path;
use crate::model::CancelToken;
use crate::repo::{Disk, EntryKind, Environment};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The hooks of one repository, for one push.
#[derive(Clone, Debug)]
pub struct Hooks {
    disk: Disk,
    git_dir: PathBuf,
    directory: PathBuf,
    start_dir: PathBuf,
    environment: Environment,
    own_groups: bool,
    until: Option<CancelToken>,
    silence: Option<Duration>,
    tells_ignored: bool,
}

/// A hook that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hook {
    /// It can be run.
    Executable(PathBuf),
    /// A file without permission to execute: git skips it with a hint, and so do we.
    NotExecutable(PathBuf),
}

/// What is written to a hook's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed<'a> {
    /// `/dev/null`.
    Nothing,
    /// These bytes. A hook that does not read them all is as good as one that does.
    Bytes(&'a [u8]),
}

/// What a hook said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    /// It ended with status 0.
    Accepted,
    /// It ended with another status, or by a signal.
    Declined,
}

/// A hook could not be run at all. git counts that as a refusal.
#[derive(Debug, thiserror::Error)]
#[error("cannot run hook '{name}': {source}")]
pub struct HookError {
    name: String,
    source: io::Error,
}

impl HookError {
    pub(super) fn new(path: &Path, source: io::Error) -> Self {
        Self { name: path.display().to_string(), source }
    }
}

impl Hooks {
    /// The hooks of the repository at `git_dir`, looked for in `hooks_path` (`core.hooksPath` as
    /// configured, else `hooks`; relative to the git directory). `environment` is what the server
    /// or the caller of `receive-pack` provides; the variables git itself sets are added here.
    pub fn new(
        disk: Disk,
        git_dir: PathBuf,
        hooks_path: Option<PathBuf>,
        mut environment: Environment,
    ) -> Self {
        environment.set("GIT_DIR", ".");
        environment.remove("GIT_WORK_TREE");
        let directory = hooks_path.unwrap_or_else(|| "hooks".into());
        Self {
            start_dir: git_dir.clone(),
            disk,
            git_dir,
            directory,
            environment,
            own_groups: false,
            until: None,
            silence: None,
            tells_ignored: true,
        }
    }

    /// The same hooks, each in a process group of its own: a signal to the group of this process,
    /// such as Ctrl-C, is then not theirs.
    #[must_use]
    pub fn in_own_groups(self) -> Self {
        Self { own_groups: true, ..self }
    }

    /// The same hooks, which are asked to end (SIGTERM), and after some seconds made to, once
    /// somebody asks for it.
    #[must_use]
    pub fn until(&self, cancel: &CancelToken) -> Self {
        Self { until: Some(cancel.clone()), ..self.clone() }
    }

    /// The same hooks, whose output is given as an empty piece each time that they have said
    /// nothing for so long.
    #[must_use]
    pub fn noting_silence_of(self, silence: Option<Duration>) -> Self {
        Self { silence, ..self }
    }

    /// The same hooks; `tells` says whether one that cannot be executed is told from one that is not
    /// there (`advice.ignoredHook`).
    #[must_use]
    pub fn telling_ignored(self, tells: bool) -> Self {
        Self { tells_ignored: tells, ..self }
    }

    /// The same hooks, with one variable more.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.set(name, value);
        self
    }

    /// The same for commands of git's that start in another directory, with these variables besides.
    /// Hooks are run in the git directory: their paths begin there.
    #[must_use]
    pub fn starting_in(&self, directory: &Path, variables: Vec<(OsString, OsString)>) -> Self {
        let mut environment = self.environment.clone();
        for (name, value) in variables {
            environment.set(name, value);
        }
        Self { start_dir: directory.to_owned(), environment, ..self.clone() }
    }

    /// After how much silence of a hook an empty piece is given.
    pub fn patience(&self) -> Option<Duration> {
        self.silence
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.until.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    pub(super) fn silence(&self) -> Option<Duration> {
        self.silence
    }

    /// Whether there is something at a path that is relative to the git directory, as whatever is run
    /// there would find it.
    pub fn is_there(&self, path: &Path) -> bool {
        matches!(self.disk.stat(&self.git_dir.join(path)), Ok(Some(_)))
    }

    /// Looks for a hook by name. One `stat`; nothing is started.
    pub fn find(&self, name: &str) -> io::Result<Option<Hook>> {
        let path = self.directory.join(name);
        let Some(stat) = self.disk.stat(&self.git_dir.join(&path))? else { return Ok(None) };
        if stat.kind != EntryKind::File {
            return Ok(None);
        }
        let executable = rustix::fs::access(self.git_dir.join(&path), rustix::fs::Access::EXEC_OK);
        Ok(match executable {
            Ok(()) => Some(Hook::Executable(path)),
            Err(_) => self.tells_ignored.then_some(Hook::NotExecutable(path)),
        })
    }

    /// Runs the hook at `path`, which [`find`](Self::find) gave, until it has ended and its output
    /// is closed. Output goes to `output` in the pieces in which it arrives.
    ///
    /// `more` are variables for this hook alone, such as those of the quarantine.
    pub fn run(
        &self,
        path: &Path,
        arguments: &[&OsStr],
        feed: Feed<'_>,
        more: &[(OsString, OsString)],
        output: &mut dyn FnMut(&[u8]),
    ) -> Result<HookVerdict, HookError> {
        let status = self.start(path, arguments, feed, more, output);
        match status {
            Ok(status) if status.success() => Ok(HookVerdict::Accepted),
            Ok(_) => Ok(HookVerdict::Declined),
            Err(source) => Err(HookError::new(path, source)),
        }
    }

    /// Runs a command of git's in the git directory, with nothing to read, as a hook is run.
    pub fn run_git(
        &self,
        arguments: &[&str],
        output: &mut dyn FnMut(&[u8]),
    ) -> Result<HookVerdict, HookError> {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        self.run(Path::new("git"), &arguments, Feed::Nothing, &[], output)
    }

    /// Whether the git that [`run_git`](Self::run_git) runs is of this version or a later one; not
    /// if it does not say.
    pub fn git_is_at_least(&self, version: (u32, u32)) -> bool {
        let mut said = Vec::new();
        let run = self.run_git(&["version"], &mut |piece| said.extend_from_slice(piece));
        run.is_ok() && git_version(&said).is_some_and(|found| found >= version)
    }

    fn start(
        &self,
        path: &Path,
        arguments: &[&OsStr],
        feed: Feed<'_>,
        more: &[(OsString, OsString)],
        output: &mut dyn FnMut(&[u8]),
    ) -> io::Result<ExitStatus> {
        let (mut reader, writer) = io::pipe()?;
        let stdin = if feed == Feed::Nothing { Stdio::null() } else { Stdio::piped() };
        let mut command = self.command(path, path_with_exec_path(&self.environment));
        command
            .args(arguments)
            .envs(more.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(writer.try_clone()?)
            .stderr(writer);
        let mut child = spawn_when_not_busy(&mut command)?;
        // The command holds our copies of the pipe's writing end; without this the reader would
        // never see its end.
        drop(command);
        let stdin = child.stdin.take();
        let attended = thread::scope(|scope| {
            if let (Some(mut stdin), Feed::Bytes(bytes)) = (stdin, feed) {
                // A hook need not read its input: a broken pipe is no fault of anybody's.
                thread::Builder::new()
                    .spawn_scoped(scope, move || drop(stdin.write_all(bytes)))
                    .inspect_err(|_| self.signal(&child, Signal::KILL))?;
            }
            self.attend(&child, &mut reader, output)
        });
        let status = child.wait()?;
        attended?;
        Ok(status)
    }

    /// A program that is started as a hook is. Its path is given as it stands, relative to the
    /// directory it starts in: a script sees it as `$0`, and git's own tests look at that.
    pub(super) fn command(&self, path: &Path, search: OsString) -> Command {
        let mut command = Command::new(path);
        command
            .current_dir(&self.start_dir)
            .env_clear()
            .envs(self.environment.iter())
            .env("PATH", search);
        if self.own_groups {
            command.process_group(0);
        }
        command
    }

    /// Copies until the end of the output, and goes on looking after a hook that has closed it,
    /// until it has ended or was made to. It is to be waited for then.
    pub(super) fn attend(
        &self,
        child: &Child,
        reader: &mut PipeReader,
        output: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut attention = Attention { asked: None, heard: Instant::now() };
        let waits = self.until.as_ref().map(|_| LOOK_INTERVAL).into_iter().chain(self.silence);
        let wait = waits.min();
        loop {
            let ready = match wait {
                Some(wait) => is_readable(reader, wait)?,
                None => true,
            };
            if ready {
                match reader.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => output(buffer.get(..length).unwrap_or_default()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
                attention.heard = Instant::now();
            }
            if self.has_made_end(child, &mut attention, output) {
                return Ok(());
            }
        }
        let (Some(wait), Some(id)) = (wait, process_id(child)) else { return Ok(()) };
        // Where the kernel has no such descriptors, the hook is only waited for.
        let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { return Ok(()) };
        while !is_readable(&process, wait)? && !self.has_made_end(child, &mut attention, output) {}
        Ok(())
    }

    /// Notes silence, and sees to it that the hook ends if somebody asks for it. Whether it was
    /// made to.
    fn has_made_end(
        &self,
        child: &Child,
        attention: &mut Attention,
        output: &mut dyn FnMut(&[u8]),
    ) -> bool {
        if self.silence.is_some_and(|silence| attention.heard.elapsed() >= silence) {
            output(&[]);
            attention.heard = Instant::now();
        }
        match attention.asked {
            None if self.is_cancelled() => {
                self.signal(child, Signal::TERM);
                attention.asked = Some(Instant::now());
                false
            }
            Some(since) if since.elapsed() > GRACE => {
                // Whoever still holds the output is none of the hook's group.
                self.signal(child, Signal::KILL);
                true
            }
            _ => false,
        }
    }

    pub(super) fn signal(&self, child: &Child, signal: Signal) {
        let Some(id) = process_id(child) else { return };
        // It was not waited for yet, so that the number is still its own; an error means that it
        // has ended.
        let _ =
            if self.own_groups { kill_process_group(id, signal) } else { kill_process(id, signal) };
    }
}

/// Major and minor number in `git version 2.47.3`, whatever may follow.
fn git_version(said: &[u8]) -> Option<(u32, u32)> {
    let mut numbers = std::str::from_utf8(said).ok()?.strip_prefix("git version ")?.split('.');
    let minor = |text: &str| text.trim_end().parse().ok();
    Some((numbers.next()?.parse().ok()?, numbers.next().and_then(minor)?))
}

/// What is remembered of a hook while it runs.
struct Attention {
    /// When it was asked to end.
    asked: Option<Instant>,
    /// When it last said something, or its silence was noted.
    heard: Instant,
}

pub(super) fn process_id(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// How often somebody is asked whether a hook should end.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// What a hook has to end in.
const GRACE: Duration = Duration::from_secs(5);
const BUFFER_BYTES: usize = 16 * 1024;

/// Whether there is something to read, or the end, within this time.
fn is_readable(reader: &impl AsFd, within: Duration) -> io::Result<bool> {
    is_readable_or_writable([reader.as_fd()], None, within)
}

/// Whether there is something to read from any of these, or their end, or room to write, within
/// this time.
pub(super) fn is_readable_or_writable<'a>(
    readers: impl IntoIterator<Item = BorrowedFd<'a>>,
    writer: Option<BorrowedFd<'a>>,
    within: Duration,
) -> io::Result<bool> {
    let readers = readers.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let writer = writer.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT));
    let mut wanted: Vec<PollFd<'_>> = readers.chain(writer).collect();
    let within = Timespec::try_from(within).map_err(io::Error::other)?;
    match poll(&mut wanted, Some(&within)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Starts the hook, waiting up to a fifth of a second for one that is just being written: the
/// kernel refuses to execute a file that somebody holds open for writing, and another thread's
/// fork holds a hook's installer's descriptor for a moment.
pub(super) fn spawn_when_not_busy(command: &mut Command) -> io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < 20 => {
                tries += 1;
                thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scene;
    use super::*;
    use std::fs;

    #[test]
    fn a_hook_sees_its_name_arguments_input_and_directory() {
        let scene = scene();
        let text =
            "#!/bin/sh\necho \"$0 $1 $2\"; cat; echo dir=$GIT_DIR tree=$GIT_WORK_TREE; pwd\n";
        scene.write("update", text, 0o755);
        let (verdict, output) = scene.run("update", &["refs/heads/a b", "x"], Feed::Bytes(b"in\n"));
        assert_eq!(verdict.unwrap(), HookVerdict::Accepted);
        let root = scene.root.path().canonicalize().unwrap();
        let expected =
            format!("hooks/update refs/heads/a b x\nin\ndir=. tree=\n{}\n", root.display());
        assert_eq!(output, expected);
    }

    #[test]
    fn output_and_errors_arrive_in_the_order_they_were_written() {
        let scene = scene();
        scene.write("pre-receive", "#!/bin/sh\necho a; echo b >&2; echo c; exit 3\n", 0o755);
        let (verdict, output) = scene.run("pre-receive", &[], Feed::Nothing);
        assert_eq!(verdict.unwrap(), HookVerdict::Declined);
        assert_eq!(output, "a\nb\nc\n");
    }

    #[test]
    fn a_hook_that_reads_nothing_is_fine() {
        let scene = scene();
        scene.write("pre-receive", "#!/bin/sh\nexit 0\n", 0o755);
        let much = vec![b'x'; 4 << 20];
        let (verdict, _) = scene.run("pre-receive", &[], Feed::Bytes(&much));
        assert_eq!(verdict.unwrap(), HookVerdict::Accepted);
    }

    #[test]
    fn a_hook_that_writes_much_before_it_reads_does_not_wedge() {
        let scene = scene();
        let text = "#!/bin/sh\nhead -c 1000000 /dev/zero | tr '\\0' x\ncat >/dev/null\n";
        scene.write("pre-receive", text, 0o755);
        let much = vec![b'x'; 1 << 20];
        let (verdict, output) = scene.run("pre-receive", &[], Feed::Bytes(&much));
        assert_eq!(verdict.unwrap(), HookVerdict::Accepted);
        assert_eq!(output.len(), 1_000_000);
    }

    #[test]
    fn a_hook_ends_when_it_is_asked_to_and_so_does_what_it_started() {
        let scene = scene();
        scene.write("pre-receive", "#!/bin/sh\necho begun; sleep 1000 & wait\n", 0o755);
        let cancel = CancelToken::new();
        let hooks = scene.hooks.clone().in_own_groups().until(&cancel);
        let verdict = hooks.run(
            Path::new("hooks/pre-receive"),
            &[],
            Feed::Nothing,
            &[],
            // The background process holds the output open: it must end too.
            &mut |_| cancel.stop(),
        );
        assert_eq!(verdict.unwrap(), HookVerdict::Declined);
    }

    #[test]
    fn a_hook_in_a_group_of_its_own_is_not_in_ours() {
        let scene = scene();
        scene.write("pre-receive", "#!/bin/sh\ncut -d' ' -f5 /proc/$$/stat; echo $$\n", 0o755);
        let mut text = Vec::new();
        let hooks = scene.hooks.clone().in_own_groups().until(&CancelToken::new());
        let path = Path::new("hooks/pre-receive");
        let verdict = hooks.run(path, &[], Feed::Nothing, &[], &mut |bytes| {
            text.extend_from_slice(bytes);
        });
        assert_eq!(verdict.unwrap(), HookVerdict::Accepted);
        let text = String::from_utf8(text).unwrap();
        let (group, process) = text.trim().split_once('\n').unwrap();
        assert_eq!(group, process);
    }

    #[test]
    fn silence_is_noted_as_often_as_it_has_lasted_so_long() {
        let scene = scene();
        scene.write("pre-receive", "#!/bin/sh\nsleep 0.5\necho done\n", 0o755);
        let hooks = scene.hooks.clone().noting_silence_of(Some(Duration::from_millis(150)));
        let mut pieces = Vec::new();
        let path = Path::new("hooks/pre-receive");
        hooks.run(path, &[], Feed::Nothing, &[], &mut |piece| pieces.push(piece.len())).unwrap();
        assert!(pieces.len() >= 3, "{pieces:?}");
        assert_eq!(pieces.iter().filter(|length| **length > 0).count(), 1, "{pieces:?}");
    }

    #[test]
    fn a_hook_that_has_closed_its_output_is_looked_after_until_it_ends() {
        let scene = scene();
        scene.write("pre-receive", "#!/bin/sh\nexec >&- 2>&-\nsleep 0.5\nexit 3\n", 0o755);
        let hooks = scene.hooks.clone().noting_silence_of(Some(Duration::from_millis(100)));
        let path = Path::new("hooks/pre-receive");
        let mut silences = 0;
        let mut note = |_: &[u8]| silences += 1;
        let verdict = hooks.run(path, &[], Feed::Bytes(b"unread"), &[], &mut note);
        assert_eq!(verdict.unwrap(), HookVerdict::Declined);
        assert!(silences > 0);

        scene.write("pre-receive", "#!/bin/sh\nexec >&- 2>&-\nsleep 1000 & wait\n", 0o755);
        let cancel = CancelToken::new();
        let hooks = hooks.in_own_groups().until(&cancel);
        let verdict = hooks.run(path, &[], Feed::Nothing, &[], &mut |_| cancel.stop());
        assert_eq!(verdict.unwrap(), HookVerdict::Declined);
    }

    #[test]
    fn versions_of_git_are_told_from_its_words() {
        assert_eq!(git_version(b"git version 2.47.3\n"), Some((2, 47)));
        assert_eq!(git_version(b"git version 2.39.5 (Apple Git-154)\n"), Some((2, 39)));
        assert_eq!(git_version(b"git version 3.0\n"), Some((3, 0)));
        for nothing in ["", "git version ", "git version 2", "sh: git: not found\n"] {
            assert_eq!(git_version(nothing.as_bytes()), None, "{nothing}");
        }
    }

    #[test]
    fn no_feed_is_dev_null() {
        let scene = scene();
        scene.write("update", "#!/bin/sh\nreadlink /proc/self/fd/0\n", 0o755);
        assert_eq!(scene.run("update", &[], Feed::Nothing).1, "/dev/null\n");
    }

    #[test]
    fn what_cannot_be_executed_is_told_apart_from_what_is_not_there() {
        let scene = scene();
        scene.write("update", "#!/bin/sh\n", 0o644);
        let found = scene.hooks.find("update").unwrap();
        assert_eq!(found, Some(Hook::NotExecutable("hooks/update".into())));
        assert_eq!(scene.hooks.clone().telling_ignored(false).find("update").unwrap(), None);
        assert_eq!(scene.hooks.find("post-update").unwrap(), None);
        fs::create_dir(scene.root.path().join("hooks/post-update")).unwrap();
        assert_eq!(scene.hooks.find("post-update").unwrap(), None);
    }

    #[test]
    fn a_hook_whose_interpreter_is_missing_is_an_error() {
        let scene = scene();
        scene.write("pre-receive", "#!/no/such/interpreter\n", 0o755);
        let (verdict, _) = scene.run("pre-receive", &[], Feed::Nothing);
        let text = verdict.unwrap_err().to_string();
        assert!(text.starts_with("cannot run hook 'hooks/pre-receive': "), "{text}");
    }
}
