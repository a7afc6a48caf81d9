//! The `proc-receive` hook: it carries out in its own way the commands that
//! `receive.procReceiveRefs` hands to it, and says what became of each.

use super::ReceiveError;
use super::packet_trace::{PacketTrace, Said};
use super::session::Session;
use crate::hooks::{Hook, HookVerdict};
use crate::model::{Command, RejectReason};
use crate::report::Phase;
use crate::wire::pkt_line::{Decoded, PktLine, PktLineStream, without_line_feed};
use crate::wire::proc_receive::{encode_commands, encode_greeting, encode_push_options};
use crate::wire::{HookAnswer, HookGreeting, HookReport};
use bstr::BString;
use std::io::{self, Read, Write};

/// LIMIT: bytes of what the hook says of the refs. A line of a few kilobytes for each of the most
/// commands that a push may have is less.
const REPORT_BYTES_MAX: usize = 256 << 20;

impl Session<'_> {
    /// Decides which commands are the hook's; before `pre-receive`, as git does.
    pub(super) fn hand_over_commands(&mut self) {
        let refs = &self.settings.proc_receive_refs;
        if refs.is_empty() {
            return;
        }
        let handed_over = |command: &Command| command.is_pending() && refs.hand_over(command);
        let answers = self.request.commands.iter().map(|command| HookAnswer {
            handed_over: handed_over(command),
            ..HookAnswer::default()
        });
        self.hook_answers = answers.collect();
    }

    /// Whether a command is the hook's, or was carried out by it.
    pub(super) fn is_handed_over(&self, at: usize) -> bool {
        self.hook_answers.get(at).is_some_and(|answer| answer.handed_over)
    }

    /// Runs the hook if it has been handed anything; `covered` names the commands that need no
    /// update of their own.
    pub(super) fn run_proc_receive(
        &mut self,
        covered: &[Option<usize>],
    ) -> Result<(), ReceiveError> {
        if !self.any_pending() || !self.hook_answers.iter().any(|answer| answer.handed_over) {
            return Ok(());
        }
        if self.talk_to_hook(covered)? {
            return Ok(());
        }
        let atomic = self.request.capabilities.atomic;
        for (command, answer) in self.request.commands.iter_mut().zip(&self.hook_answers) {
            let is_lost = !(answer.handed_over && answer.answered);
            if is_lost && (answer.handed_over || atomic) {
                command.reject(RejectReason::ProcReceiveNotRun);
            }
        }
        Ok(())
    }

    /// False if something was wrong with the hook or with what it said, or if it refused a ref.
    fn talk_to_hook(&mut self, covered: &[Option<usize>]) -> Result<bool, ReceiveError> {
        let hook = self
            .hooks
            .find("proc-receive")
            .map_err(|error| ReceiveError::internal(Phase::Commit, "looking for hooks", error))?;
        let path = match hook {
            Some(Hook::Executable(path)) => path,
            found => {
                if let Some(Hook::NotExecutable(path)) = found {
                    super::hook_calls::hint(&mut self.channel, &path);
                }
                self.channel.error("cannot find hook 'proc-receive'");
                return Ok(false);
            }
        };
        let talk = Talk {
            commands: &self.request.commands,
            answers: self.hook_answers.clone(),
            covered,
            atomic: self.request.capabilities.atomic,
            push_options: self.request.capabilities.push_options,
            options: &self.request.push_options,
            packet_trace: self.receiver.packet_trace(),
        };
        let channel = &mut self.channel;
        let outcome = self.hooks.converse(
            &path,
            |mut stdin, mut stdout| talk.run(&mut stdin, &mut stdout),
            &mut |said| channel.relay(said),
        );
        let (heard, verdict) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                self.channel.error(&error.to_string());
                return Ok(false);
            }
        };
        self.take_answers(heard.answers);
        for at in heard.silent {
            self.reject(at, RejectReason::ProcReceiveSilent);
        }
        if !heard.errors.is_empty() {
            // git says it in one message: only the first line has the word in front.
            self.channel.error(&heard.errors.join("\n"));
        }
        Ok(!heard.failed && verdict == HookVerdict::Accepted)
    }

    fn take_answers(&mut self, answers: Vec<HookAnswer>) {
        for (command, answer) in self.request.commands.iter_mut().zip(&answers) {
            if let Some(reason) = &answer.refused {
                command.reject(RejectReason::ProcReceiveRefused(reason.to_string()));
            }
        }
        self.hook_answers = answers;
    }

    /// Marks what the hook carried out as done, unless something has come up against it since.
    pub(super) fn finish_handed_over(&mut self) {
        for (command, answer) in self.request.commands.iter_mut().zip(&self.hook_answers) {
            if answer.handed_over {
                command.finish();
            }
        }
    }
}

/// What is said to the hook.
struct Talk<'a> {
    commands: &'a [Command],
    answers: Vec<HookAnswer>,
    covered: &'a [Option<usize>],
    atomic: bool,
    push_options: bool,
    options: &'a [BString],
    packet_trace: &'a PacketTrace,
}

/// What was heard.
struct Heard {
    answers: Vec<HookAnswer>,
    /// Commands that the hook should have spoken of, and did not.
    silent: Vec<usize>,
    errors: Vec<String>,
    failed: bool,
}

impl Talk<'_> {
    fn run(self, stdin: &mut dyn Write, stdout: &mut dyn Read) -> Heard {
        let mut lines = Lines::new(stdout, self.packet_trace);
        if let Err(text) = self.ask(stdin, &mut lines) {
            let errors = vec![text];
            return Heard { answers: self.answers, silent: Vec::new(), errors, failed: true };
        }
        let mut report = HookReport::new(self.commands, self.answers);
        let mut spoke = false;
        let ended = loop {
            match lines.next() {
                Some(Packet::Line(line)) => report.read_line(line),
                Some(Packet::End) => break true,
                None => break spoke,
            }
            spoke = true;
        };
        let silent = if ended {
            report.finish()
        } else {
            report.failed = true;
            report.errors.push("proc-receive exited abnormally".into());
            Vec::new()
        };
        let HookReport { answers, errors, failed, .. } = report;
        Heard { answers, silent, errors, failed }
    }

    /// Agrees on a version and sends the commands. A hook that does not read is told by what it
    /// does not answer.
    fn ask(&self, stdin: &mut dyn Write, lines: &mut Lines<'_>) -> Result<(), String> {
        let mut bytes = Vec::new();
        encode_greeting(&mut bytes, self.atomic, self.push_options);
        let negotiated = "fail to negotiate version with proc-receive hook";
        self.packet_trace.sent(&bytes);
        stdin.write_all(&bytes).map_err(|_| negotiated)?;
        let mut greeting = HookGreeting::default();
        loop {
            match lines.next() {
                Some(Packet::Line(line)) => greeting.read_line(line),
                Some(Packet::End) => break,
                None => return Err(negotiated.into()),
            }
        }
        if greeting.version > 1 {
            let version = greeting.version;
            return Err(format!("proc-receive version '{version}' is not supported"));
        }
        bytes.clear();
        encode_commands(&mut bytes, self.offered());
        self.packet_trace.sent(&bytes);
        let failed = "fail to write commands to proc-receive hook";
        stdin.write_all(&bytes).map_err(|_| failed)?;
        if greeting.push_options {
            bytes.clear();
            encode_push_options(&mut bytes, self.options);
            self.packet_trace.sent(&bytes);
            let failed = "fail to write push-options to proc-receive hook";
            stdin.write_all(&bytes).map_err(|_| failed)?;
        }
        Ok(())
    }

    fn offered(&self) -> impl Iterator<Item = &Command> {
        let is_covered = |at: usize| self.covered.get(at).is_some_and(Option::is_some);
        let all = self.commands.iter().zip(&self.answers).enumerate();
        all.filter(move |(at, (command, answer))| {
            answer.handed_over && command.is_pending() && !is_covered(*at)
        })
        .map(|(_, (command, _))| command)
    }
}

/// The packets that the hook sends.
struct Lines<'a> {
    stdout: &'a mut dyn Read,
    stream: PktLineStream,
    buffer: Vec<u8>,
    /// What of the buffer was not looked at.
    unread: std::ops::Range<usize>,
    bytes: usize,
    line: Vec<u8>,
    packet_trace: &'a PacketTrace,
}

enum Packet<'a> {
    Line(&'a [u8]),
    /// A flush, or a packet that has no place here, which ends a list as well.
    End,
}

impl<'a> Lines<'a> {
    fn new(stdout: &'a mut dyn Read, packet_trace: &'a PacketTrace) -> Self {
        Self {
            stdout,
            stream: PktLineStream::new(),
            buffer: vec![0; 16 * 1024],
            unread: 0..0,
            bytes: 0,
            line: Vec::new(),
            packet_trace,
        }
    }

    /// The next packet; `None` if the hook has closed its output, sends no packets, or too much.
    fn next(&mut self) -> Option<Packet<'_>> {
        loop {
            let input = self.buffer.get(self.unread.clone())?;
            match self.stream.next(input).ok()? {
                Decoded::Complete { line, consumed } => {
                    self.unread.start = self.unread.start.saturating_add(consumed);
                    self.packet_trace.packet(Said::ToUs, line);
                    let PktLine::Data(payload) = line else { return Some(Packet::End) };
                    self.line.clear();
                    self.line.extend_from_slice(without_line_feed(payload));
                    return Some(Packet::Line(&self.line));
                }
                Decoded::Incomplete { .. } => {}
            }
            let length = loop {
                match self.stdout.read(&mut self.buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    length => break length.ok().filter(|length| *length > 0)?,
                }
            };
            self.bytes = self.bytes.saturating_add(length);
            if self.bytes > REPORT_BYTES_MAX {
                return None;
            }
            self.unread = 0..length;
        }
    }
}
