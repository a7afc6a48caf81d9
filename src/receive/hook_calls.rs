//! The hooks of a push: what each is fed, and what its word means.

use super::channel::Channel;
use crate::hooks::{Feed, Hook, HookVerdict, Hooks};
use crate::model::{Command, CommandStatus, ObjectId};
use crate::wire::CommandVerdict;
use bstr::BString;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A command as the hooks after the commit see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    /// With what was changed in its place.
    pub(super) verdict: CommandVerdict<'a>,
    /// Git reports the deletion of a ref that was not there as done, and tells no later hook.
    pub(super) existed: bool,
}

impl Told<'_> {
    fn is_news(self) -> bool {
        self.existed && self.verdict.command.status == CommandStatus::Done
    }
}

/// Runs `pre-receive`, which was found, over all commands, refused ones included; false if it said
/// no.
pub(super) fn pre_receive(
    hooks: &Hooks,
    hook: &Hook,
    channel: &mut Channel<'_>,
    commands: &[Command],
    variables: Vec<(OsString, OsString)>,
    push_options: &[BString],
) -> bool {
    let mut more = variables;
    more.extend(push_option_variables(push_options));
    let feed = lines(commands.iter());
    run(hooks, channel, hook, &[], Feed::Bytes(&feed), &more)
}

/// Runs `update`, which was found, for one command; false if it said no.
pub(super) fn update(
    hooks: &Hooks,
    hook: &Hook,
    channel: &mut Channel<'_>,
    command: &Command,
) -> bool {
    let (old, new) = (command.old.to_string(), command.new.to_string());
    let arguments = [OsStr::from_bytes(&command.name), OsStr::new(&old), OsStr::new(&new)];
    run(hooks, channel, hook, &arguments, Feed::Nothing, &[])
}

/// Runs `push-to-checkout`, which was found, with the variables that lead it to the work tree; false
/// if it said no.
pub(super) fn push_to_checkout(
    hooks: &Hooks,
    hook: &Path,
    channel: &mut Channel<'_>,
    new: &OsStr,
    variables: &[(OsString, OsString)],
) -> bool {
    let hook = Hook::Executable(hook.to_owned());
    run(hooks, channel, &hook, &[new], Feed::Nothing, variables)
}

/// Runs `post-receive`, with `variables` for it alone, and `post-update` over what was done, if
/// anything was. Their word changes nothing.
pub(super) fn post(
    hooks: &Hooks,
    channel: &mut Channel<'_>,
    told: &[Told<'_>],
    variables: &[(OsString, OsString)],
) -> io::Result<()> {
    let news: Vec<CommandVerdict<'_>> =
        told.iter().filter(|told| told.is_news()).map(|told| told.verdict).collect();
    if news.is_empty() {
        return Ok(());
    }
    let feed = lines_of_what_changed(&news);
    call(hooks, channel, "post-receive", &[], Feed::Bytes(&feed), variables)?;
    let names: Vec<&OsStr> =
        news.iter().map(|verdict| OsStr::from_bytes(&verdict.command.name)).collect();
    call(hooks, channel, "post-update", &names, Feed::Nothing, &[])?;
    Ok(())
}

/// Runs a hook if it is there; true if it is not, or said yes.
fn call(
    hooks: &Hooks,
    channel: &mut Channel<'_>,
    name: &str,
    arguments: &[&OsStr],
    feed: Feed<'_>,
    more: &[(OsString, OsString)],
) -> io::Result<bool> {
    let hook = hooks.find(name)?;
    Ok(hook.is_none_or(|hook| run(hooks, channel, &hook, arguments, feed, more)))
}

/// Runs a hook that was found; true if it said yes, or is not to be run.
fn run(
    hooks: &Hooks,
    channel: &mut Channel<'_>,
    hook: &Hook,
    arguments: &[&OsStr],
    feed: Feed<'_>,
    more: &[(OsString, OsString)],
) -> bool {
    let path = match hook {
        Hook::NotExecutable(path) => {
            hint(channel, path);
            return true;
        }
        Hook::Executable(path) => path,
    };
    let verdict = hooks.run(path, arguments, feed, more, &mut |output| channel.relay(output));
    match verdict {
        Ok(verdict) => verdict == HookVerdict::Accepted,
        Err(error) => {
            channel.error(&error.to_string());
            false
        }
    }
}

/// Says that a hook is there and is not run.
pub(super) fn hint(channel: &mut Channel<'_>, path: &Path) {
    let path = path.display();
    let text = format!("hint: The '{path}' hook was ignored because it's not set as executable.\n");
    channel.diagnose(text.as_bytes());
}

fn lines<'a>(commands: impl Iterator<Item = &'a Command>) -> Vec<u8> {
    let mut text = Vec::new();
    for command in commands {
        add_line(&mut text, &command.old, &command.new, &command.name);
    }
    text
}

/// A line for each ref that was changed, which the `proc-receive` hook may have chosen.
fn lines_of_what_changed(verdicts: &[CommandVerdict<'_>]) -> Vec<u8> {
    let mut text = Vec::new();
    for CommandVerdict { command, reports } in verdicts {
        for report in *reports {
            let (old, new) = (report.old.as_ref(), report.new.as_ref());
            let (old, new) = (old.unwrap_or(&command.old), new.unwrap_or(&command.new));
            add_line(&mut text, old, new, report.ref_name.as_ref().unwrap_or(&command.name));
        }
        if reports.is_empty() {
            add_line(&mut text, &command.old, &command.new, &command.name);
        }
    }
    text
}

fn add_line(text: &mut Vec<u8>, old: &ObjectId, new: &ObjectId, name: &[u8]) {
    text.extend_from_slice(format!("{old} {new} ").as_bytes());
    text.extend_from_slice(name);
    text.push(b'\n');
}

/// git sets the count even when there are none (measured on 2.47).
pub(super) fn push_option_variables(options: &[BString]) -> Vec<(OsString, OsString)> {
    let count = ("GIT_PUSH_OPTION_COUNT".into(), options.len().to_string().into());
    let each = options.iter().enumerate().map(|(number, option)| {
        (format!("GIT_PUSH_OPTION_{number}").into(), OsStr::from_bytes(option).to_owned())
    });
    std::iter::once(count).chain(each).collect()
}
