//! The conversation with the `proc-receive` hook (githooks(5), "proc-receive").
//!
//! We greet with version 1 and the features of this push; the hook answers with its own, an empty
//! answer meaning version 0. It is sent the commands that are handed to it and, if it asks for
//! them, the push options. What it says of each ref comes back as lines like those of a report,
//! with options. Here are the lines and what they mean, in git's words where they are wrong;
//! running the hook is others' business.

use super::pkt_line::{encode_data, encode_flush};
use super::report_status::RefReport;
use crate::model::{Command, ObjectId};
use bstr::{BStr, BString, ByteSlice};

/// Appends our greeting, with the features of this push.
pub fn encode_greeting(out: &mut Vec<u8>, atomic: bool, push_options: bool) {
    let features: &[u8] = match (atomic, push_options) {
        (true, true) => b"\0atomic push-options",
        (true, false) => b"\0atomic",
        (false, true) => b"\0push-options",
        (false, false) => b"",
    };
    // Far shorter than a packet may be.
    let _ = encode_data(out, &[b"version=1", features, b"\n"]);
    encode_flush(out);
}

/// Appends the commands that the hook is to carry out.
pub fn encode_commands<'a>(out: &mut Vec<u8>, commands: impl IntoIterator<Item = &'a Command>) {
    for command in commands {
        let ids = format!("{} {} ", command.old, command.new);
        // They came in packets that were longer.
        let _ = encode_data(out, &[ids.as_bytes(), &command.name]);
    }
    encode_flush(out);
}

/// Appends the push options.
pub fn encode_push_options(out: &mut Vec<u8>, options: &[BString]) {
    for option in options {
        let _ = encode_data(out, &[option]);
    }
    encode_flush(out);
}

/// How the hook answers the greeting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookGreeting {
    /// The version that it speaks; 0 if it says none.
    pub version: u32,
    /// Whether it wants the push options.
    pub push_options: bool,
}

impl HookGreeting {
    /// Takes in one line of the answer.
    pub fn read_line(&mut self, line: &[u8]) {
        let (text, features) = line.split_once_str(b"\0").unwrap_or((line, b""));
        let Some(version) = text.strip_prefix(b"version=").filter(|version| !version.is_empty())
        else {
            return;
        };
        let digits = version.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = version.get(..digits).and_then(|digits| digits.to_str().ok());
        // What does not fit is none that we speak.
        self.version = match digits {
            Some("") | None => 0,
            Some(digits) => digits.parse().unwrap_or(u32::MAX),
        };
        self.push_options |= features.fields().any(|feature| feature == b"push-options");
    }
}

/// What the hook said of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// Whether it is the hook's to carry out. Taken back by `option fall-through`.
    pub handed_over: bool,
    /// Whether the hook said anything of it.
    pub answered: bool,
    /// Why the hook refused it.
    pub refused: Option<BString>,
    /// What the hook changed in its place.
    pub reports: Vec<RefReport>,
}

/// LIMIT: faults of the lines that are told. Each can be five bytes of what the hook says.
const ERRORS_MAX: usize = 1024;

/// Reads what the hook says, line by line.
#[derive(Debug)]
pub struct HookReport<'a> {
    commands: &'a [Command],
    /// One for each command.
    pub answers: Vec<HookAnswer>,
    /// What was wrong with the lines.
    pub errors: Vec<String>,
    /// Whether anything was wrong, or refused.
    pub failed: bool,
    /// The command that the last line spoke of.
    at: Option<usize>,
    record: Record,
    misplaced_option: bool,
}

/// Whether an option can come now, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    None,
    /// Into a new record.
    New,
    /// Into the last one.
    Last,
}

impl<'a> HookReport<'a> {
    /// A report on `commands`; `answers` tells which of them the hook was given.
    pub fn new(commands: &'a [Command], answers: Vec<HookAnswer>) -> Self {
        Self {
            commands,
            answers,
            errors: Vec::new(),
            failed: false,
            at: None,
            record: Record::None,
            misplaced_option: false,
        }
    }

    /// Takes in one line, without its line feed.
    pub fn read_line(&mut self, line: &[u8]) {
        // As for git, a line ends at a NUL.
        let line = line.split_once_str(b"\0").map_or(line, |(line, _)| line);
        let Some((verb, rest)) = line.split_once_str(b" ") else {
            let line = line.as_bstr();
            self.fault(format!("proc-receive reported incomplete status line: '{line}'"));
            return;
        };
        if verb == b"option" {
            self.read_option(rest);
            return;
        }
        self.record = Record::None;
        let (name, text) = rest.split_once_str(b" ").map_or((rest, None), |(n, t)| (n, Some(t)));
        let shown = name.as_bstr();
        if verb != b"ok" && verb != b"ng" {
            let verb = verb.as_bstr();
            self.fault(format!("proc-receive reported bad status '{verb}' on ref '{shown}'"));
            return;
        }
        self.at = self.find(shown);
        let Some(answer) = self.at.and_then(|at| self.answers.get_mut(at)) else {
            self.fault(format!("proc-receive reported status on unknown ref: {shown}"));
            return;
        };
        if !answer.handed_over {
            self.fault(format!("proc-receive reported status on unexpected ref: {shown}"));
            return;
        }
        answer.answered = true;
        if verb == b"ng" {
            answer.refused = Some(text.unwrap_or(b"failed").into());
            self.failed = true;
        } else {
            self.record = Record::New;
        }
    }

    /// Ends the report: what the hook was given and said nothing of has failed. Returns those.
    pub fn finish(&mut self) -> Vec<usize> {
        let silent = |answer: &HookAnswer| answer.handed_over && !answer.answered;
        let silent: Vec<usize> = self
            .answers
            .iter()
            .zip(self.commands)
            .enumerate()
            .filter(|(_, (answer, command))| silent(answer) && command.is_pending())
            .map(|(at, _)| at)
            .collect();
        self.failed |= !silent.is_empty();
        silent
    }

    /// From the command spoken of last to the end, then from the beginning: of two with one name
    /// the second is meant once the first has been passed.
    fn find(&self, name: &BStr) -> Option<usize> {
        let is_named = |at: &usize| self.commands.get(*at).is_some_and(|one| one.name == name);
        let all = 0..self.commands.len();
        (self.at.unwrap_or_default()..self.commands.len()).chain(all).find(is_named)
    }

    fn read_option(&mut self, option: &[u8]) {
        let answer = self.at.and_then(|at| self.answers.get_mut(at));
        let (Some(answer), Record::New | Record::Last) = (answer, self.record) else {
            self.failed = true;
            if !std::mem::replace(&mut self.misplaced_option, true) {
                let text = "proc-receive reported 'option' without a matching 'ok/ng' directive";
                self.errors.push(text.into());
            }
            return;
        };
        if self.record == Record::New {
            answer.reports.push(RefReport::default());
            self.record = Record::Last;
        }
        let Some(report) = answer.reports.last_mut() else { return };
        let (key, value) =
            option.split_once_str(b" ").map_or((option, None), |(key, value)| (key, Some(value)));
        // An id that cannot be read is as good as none.
        let digits = self.commands.first().map_or(0, |command| command.old.kind().len_in_hex());
        let id = || ObjectId::from_hex(value?.get(..digits)?).ok();
        match key {
            b"refname" => report.ref_name = value.map(BString::from),
            b"old-oid" => report.old = id().or(report.old),
            b"new-oid" => report.new = id().or(report.new),
            b"forced-update" => report.forced_update = true,
            b"fall-through" => answer.handed_over = false,
            // git skips what it does not know.
            _ => {}
        }
    }

    fn fault(&mut self, text: String) {
        self.failed = true;
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{HashKind, RejectReason};
    use proptest::prelude::*;

    fn commands(names: &[&str]) -> Vec<Command> {
        let (null, id) = (ObjectId::null(HashKind::Sha1), ObjectId::empty_tree(HashKind::Sha1));
        names.iter().map(|name| Command::new(null, id, *name)).collect()
    }

    fn all_handed_over(commands: &[Command]) -> Vec<HookAnswer> {
        let answer = HookAnswer { handed_over: true, ..HookAnswer::default() };
        vec![answer; commands.len()]
    }

    #[test]
    fn faults_without_end_are_told_up_to_a_limit_and_refuse() {
        let commands = commands(&["refs/for/main"]);
        let mut report = HookReport::new(&commands, all_handed_over(&commands));
        for _ in 0..=ERRORS_MAX {
            report.read_line(b"x");
        }
        assert!(report.failed);
        assert_eq!(report.errors.len(), ERRORS_MAX);
    }

    fn read<'a>(commands: &'a [Command], lines: &[&str]) -> HookReport<'a> {
        let mut report = HookReport::new(commands, all_handed_over(commands));
        for line in lines {
            report.read_line(line.as_bytes());
        }
        report
    }

    #[test]
    fn the_greeting_names_the_features_of_the_push() {
        let greeting = |atomic, options| {
            let mut out = Vec::new();
            encode_greeting(&mut out, atomic, options);
            BString::from(out)
        };
        assert_eq!(greeting(false, false), "000eversion=1\n0000");
        assert_eq!(greeting(true, false), "0015version=1\0atomic\n0000");
        assert_eq!(greeting(false, true), "001bversion=1\0push-options\n0000");
        assert_eq!(greeting(true, true), "0022version=1\0atomic push-options\n0000");
    }

    #[test]
    fn commands_and_options_are_packets_without_a_line_feed() {
        let commands = commands(&["refs/for/a"]);
        let mut out = Vec::new();
        encode_commands(&mut out, &commands);
        let line = format!("{} {} refs/for/a", commands[0].old, commands[0].new);
        assert_eq!(BString::from(out), format!("{:04x}{line}0000", line.len() + 4));
        let mut out = Vec::new();
        encode_push_options(&mut out, &["a b".into(), "".into()]);
        assert_eq!(BString::from(out), "0007a b00040000");
    }

    #[test]
    fn the_answer_to_the_greeting_may_come_in_any_shape() {
        let read = |lines: &[&[u8]]| {
            let mut greeting = HookGreeting::default();
            for line in lines {
                greeting.read_line(line);
            }
            (greeting.version, greeting.push_options)
        };
        assert_eq!(read(&[]), (0, false));
        assert_eq!(read(&[b"version=1"]), (1, false));
        assert_eq!(read(&[b"version=1\0push-options"]), (1, true));
        assert_eq!(read(&[b"version=1\0atomic push-options x"]), (1, true));
        assert_eq!(read(&[b"version=1\0no-push-options"]), (1, false));
        assert_eq!(read(&[b"something else", b"version=2x"]), (2, false));
        assert_eq!(read(&[b"version=99999999999999"]), (u32::MAX, false));
        assert_eq!(read(&[b"version="]), (0, false));
    }

    #[test]
    fn records_belong_to_the_ok_before_them() {
        let commands = commands(&["refs/for/a", "refs/for/b"]);
        let id = ObjectId::empty_blob(HashKind::Sha1);
        let new = format!("option new-oid {id}");
        let lines = [
            "ok refs/for/b",
            "option refname x",
            &new,
            "ok refs/for/b",
            "option forced-update",
            "ok refs/for/a",
        ];
        let mut report = read(&commands, &lines);
        assert_eq!(report.finish(), [] as [usize; 0]);
        assert!(!report.failed && report.errors.is_empty());
        assert!(report.answers[0].reports.is_empty());
        let expected = [
            RefReport { ref_name: Some("x".into()), new: Some(id), ..RefReport::default() },
            RefReport { forced_update: true, ..RefReport::default() },
        ];
        assert_eq!(report.answers[1].reports, expected);
    }

    #[test]
    fn faults_are_named_and_the_rest_counts() {
        let commands = commands(&["refs/for/a", "refs/for/b"]);
        let lines = [
            "ok",
            "option x",
            "option y",
            "so refs/for/a",
            "ok refs/heads/no",
            "ng refs/for/b no way",
            "option refname z",
        ];
        let mut report = read(&commands, &lines);
        assert_eq!(report.finish(), [0]);
        assert!(report.failed);
        let expected = [
            "proc-receive reported incomplete status line: 'ok'",
            "proc-receive reported 'option' without a matching 'ok/ng' directive",
            "proc-receive reported bad status 'so' on ref 'refs/for/a'",
            "proc-receive reported status on unknown ref: refs/heads/no",
        ];
        assert_eq!(report.errors, expected);
        assert_eq!(report.answers[1].refused, Some("no way".into()));
    }

    #[test]
    fn a_ref_that_was_handed_back_is_not_the_hook_s_any_more() {
        let commands = commands(&["refs/for/a"]);
        let report = read(&commands, &["ok refs/for/a", "option fall-through", "ok refs/for/a"]);
        assert_eq!(report.errors, ["proc-receive reported status on unexpected ref: refs/for/a"]);
        assert!(!report.answers[0].handed_over);
    }

    #[test]
    fn what_was_refused_before_needs_no_word() {
        let mut commands = commands(&["refs/for/a"]);
        commands[0].reject(RejectReason::InconsistentAlias);
        assert_eq!(read(&commands, &[]).finish(), [] as [usize; 0]);
    }

    proptest! {
        #[test]
        fn no_lines_panic_and_each_command_keeps_one_answer(
            lines in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..30),
                    "(ok|ng|option|x)( (refs/for/[ab]|refname|old-oid|fall-through)){0,2}( [0-9a-f]{0,41})?"
                        .prop_map(String::into_bytes),
                ],
                0..12,
            ),
        ) {
            let commands = commands(&["refs/for/a", "refs/for/b", "refs/for/a"]);
            let mut report = HookReport::new(&commands, all_handed_over(&commands));
            for line in &lines {
                report.read_line(line);
            }
            report.finish();
            prop_assert_eq!(report.answers.len(), commands.len());
        }
    }
}
