//! Changing the refs of a reftable repository: `git update-ref --stdin -z`, with one transaction
//! after the other in one process.
//!
//! git checks, locks, logs and tells the `reference-transaction` hook itself. What it dies of is the
//! text of the ref transaction, which its receive-pack would show. Its tables are flushed as
//! `core.fsync` says, which is set to what this disk's policy is; the directory of the tables is
//! flushed here.

use super::listing::{Reftable, stacks_of};
use super::process::{Told, attend, git, start};
use crate::refs::context::{LockTimeout, RefContext, ReflogCreation};
use crate::refs::error::{Doing, RefError};
use crate::refs::transaction::{Applied, Change, Expected, RefEdit, Witness};
use crate::repo::Component;
use bstr::{BStr, BString, ByteSlice};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

/// Changes refs.
#[derive(Clone, Copy)]
pub(in crate::refs) struct ReftableWriter<'a> {
    pub(in crate::refs) context: &'a RefContext,
    pub(in crate::refs) reftable: &'a Reftable,
    /// Who hears what the `reference-transaction` hook says; none if it is not there.
    pub(in crate::refs) witness: Option<&'a dyn Witness>,
}

/// How often a transaction is tried again that met another one.
const TRIES_MAX: u32 = 10;

impl ReftableWriter<'_> {
    /// Applies the edits in order, each for itself.
    pub(in crate::refs) fn apply_each(&self, edits: &[RefEdit]) -> Vec<Result<Applied, RefError>> {
        // If all succeed together, each would have. One new table costs less than many.
        if edits.len() > 1 && self.witness.is_none() {
            match self.transact(&[edits]).1 {
                None => {
                    let results = edits.iter().map(|edit| Ok(applied(edit))).collect();
                    return self.made_durable(results, edits);
                }
                Some(error) if error.is_server_fault() => {
                    return edits.iter().map(|_| Err(error.clone())).collect();
                }
                // One of them was at fault.
                Some(_) => {}
            }
        }
        let mut results = Vec::with_capacity(edits.len());
        while let Some(rest) = edits.get(results.len()..).filter(|rest| !rest.is_empty()) {
            let each: Vec<&[RefEdit]> = rest.chunks(1).collect();
            let (done, error) = self.transact(&each);
            results.extend(rest.iter().take(done).map(|edit| Ok(applied(edit))));
            let Some(error) = error else { break };
            // Of what nobody could do anything about, the rest would die, too.
            let is_over = error.is_server_fault() || matches!(error, RefError::Vetoed);
            let left = rest.len().saturating_sub(done);
            let others = if is_over { left } else { left.min(1) };
            for at in 0..others {
                results.push(Err(if at == 0 { error.clone() } else { before_the_move(&error) }));
            }
        }
        self.made_durable(results, edits)
    }

    /// Applies all edits or none.
    pub(in crate::refs) fn apply_atomic(
        &self,
        edits: &[RefEdit],
    ) -> Result<Vec<Applied>, (usize, RefError)> {
        if edits.is_empty() && self.witness.is_none() {
            return Ok(Vec::new());
        }
        if let (_, Some(error)) = self.transact(&[edits]) {
            return Err((0, error));
        }
        let results = edits.iter().map(|edit| Ok(applied(edit))).collect();
        let results = self.made_durable(results, edits).into_iter().enumerate();
        results.map(|(at, result)| result.map_err(|error| (at, error))).collect()
    }

    /// Carries out transactions, one after the other, up to the first that fails; how many were
    /// carried out, and why the next was not.
    fn transact(&self, transactions: &[&[RefEdit]]) -> (usize, Option<RefError>) {
        let _guard = self.reftable.writing();
        let mut done = 0;
        for tries in 0.. {
            let rest = transactions.get(done..).unwrap_or_default();
            let name = rest.first().and_then(|edits| edits.first()).map(|edit| &edit.name);
            let name = name.map_or(BStr::new("HEAD"), |name| name.as_bstr());
            let told = match self.run(rest, name) {
                Ok(told) => told,
                Err(error) => return (done, Some(error)),
            };
            done = done.saturating_add(count(&told.output)).min(transactions.len());
            if told.is_success && done == transactions.len() {
                return (done, None);
            }
            let name = transactions.get(done).and_then(|edits| edits.first());
            let name = name.map_or(BStr::new("HEAD"), |edit| edit.name.as_bstr());
            let text = told.fatal.strip_prefix(b"commit: ").unwrap_or(&told.fatal).as_bstr();
            // Another process has put a table on top since git read the list.
            if tries < TRIES_MAX && text.contains_str("data concurrently modified") {
                continue;
            }
            return (done, Some(self.error(name, text)));
        }
        (done, None)
    }

    fn run(&self, transactions: &[&[RefEdit]], first: &BStr) -> Result<Told, RefError> {
        let mut input = Vec::new();
        for edits in transactions {
            input.extend_from_slice(b"start\0");
            for edit in *edits {
                instruct(&mut input, edit);
            }
            input.extend_from_slice(b"commit\0");
        }
        let mut command = git(self.context, self.reftable.environment());
        if self.witness.is_none() {
            // So that what it dies of can be told apart. A hook has the language of its own.
            command.env("LC_ALL", "C");
        }
        for setting in self.settings() {
            command.arg("-c").arg(setting);
        }
        // One reflog message serves all: they come of one push.
        let message = transactions.iter().flat_map(|edits| edits.iter()).next();
        let message = message.map_or(BStr::new("push"), |edit| edit.message.as_bstr());
        command.args(["update-ref", "-m"]).arg(OsStr::from_bytes(message)).args(["--stdin", "-z"]);
        let mut hear = |said: &[u8]| {
            if let Some(witness) = self.witness {
                witness.hear(said);
            }
        };
        let patience = self.witness.and_then(Witness::patience);
        let directory = &self.context.git_dir;
        let child = start(command).doing("run git update-ref in", directory)?;
        let told =
            attend(child, &input, patience, &mut hear).doing("hear git update-ref in", directory);
        told.map_err(|error| error.after_the_move(first))
    }

    fn settings(&self) -> [OsString; 5] {
        let logs = match self.context.settings.reflog {
            ReflogCreation::Never => "false",
            ReflogCreation::Normal => "true",
            ReflogCreation::Always => "always",
        };
        let flushes = self.context.disk.policy().flushes(Component::Reference);
        let timeout = match self.context.settings.reftable_lock_timeout {
            LockTimeout::Forever => "-1".to_owned(),
            LockTimeout::AtMost(time) => time.as_millis().to_string(),
        };
        [
            format!("reftable.lockTimeout={timeout}").into(),
            format!("core.logAllRefUpdates={logs}").into(),
            format!("core.fsync={}reference", if flushes { "" } else { "-" }).into(),
            "core.fsyncMethod=fsync".into(),
            // Who pushes was told once.
            "advice.ignoredHook=false".into(),
        ]
    }

    /// What git died of. Its words about a ref are told; a fault of its own is ours.
    fn error(&self, name: &BStr, text: &BStr) -> RefError {
        if text == "ref updates aborted by hook" {
            return RefError::Vetoed;
        }
        if is_refusal(text) {
            return RefError::Refused { text: text.into() };
        }
        let said = if text.is_empty() { "it ended without a word" } else { &text.to_str_lossy() };
        let source = Arc::new(io::Error::other(said.to_owned()));
        let path = self.context.git_dir.clone();
        let error = RefError::Io { action: "run git update-ref in", path, source };
        // Up to there nothing has changed.
        let is_early = text.starts_with(b"reftable: transaction prepare: ");
        if is_early { error } else { error.after_the_move(name) }
    }

    /// Flushes the directories of the tables.
    fn made_durable(
        &self,
        mut results: Vec<Result<Applied, RefError>>,
        edits: &[RefEdit],
    ) -> Vec<Result<Applied, RefError>> {
        if results.iter().all(Result::is_err) {
            return results;
        }
        let disk = &self.context.disk;
        for stack in stacks_of(self.context) {
            let flushed = disk.flush_directory(&stack, Component::Reference).doing("flush", &stack);
            if let Err(error) = flushed {
                for (result, edit) in results.iter_mut().zip(edits).filter(|(r, _)| r.is_ok()) {
                    *result = Err(error.clone().after_the_move(edit.name.as_bstr()));
                }
            }
        }
        results
    }
}

/// The same fault for edits that were not come to.
fn before_the_move(error: &RefError) -> RefError {
    match error.clone() {
        RefError::MayHaveMoved { action, path, source, .. } => {
            RefError::Io { action, path, source }
        }
        other => other,
    }
}

/// Whether the text says what is wrong with an edit, rather than with the repository.
fn is_refusal(text: &BStr) -> bool {
    const BEGINNINGS: [&str; 5] = [
        "cannot lock ref",
        "cannot process '",
        "multiple updates for ",
        "trying to write ",
        "refusing to update ref with bad name",
    ];
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning.as_bytes()))
        || text.contains_str("' exists; cannot create '")
}

fn applied(edit: &RefEdit) -> Applied {
    let before = match edit.expected {
        Expected::MustBe(id) => Some(id),
        Expected::MustNotExist | Expected::Any => None,
    };
    let after = match edit.change {
        Change::Set(id) => Some(id),
        Change::Delete => None,
    };
    Applied { name: edit.name.clone(), before, after }
}

/// Writes one edit as git-update-ref(1) reads it with `-z`. An empty old value asks for none.
fn instruct(input: &mut Vec<u8>, edit: &RefEdit) {
    let (verb, new) = match (edit.change, edit.expected) {
        (Change::Delete, Expected::MustNotExist) => ("verify", None),
        (Change::Delete, _) => ("delete", None),
        (Change::Set(id), Expected::MustNotExist) => ("create", Some(id)),
        (Change::Set(id), _) => ("update", Some(id)),
    };
    let old = match edit.expected {
        Expected::MustBe(id) => Some(id.to_string()),
        // `create` says it.
        Expected::MustNotExist if new.is_some() => None,
        Expected::MustNotExist | Expected::Any => Some(String::new()),
    };
    input.extend_from_slice(verb.as_bytes());
    input.push(b' ');
    let name: BString = edit.name.as_bstr().into();
    let fields = [Some(name), new.map(|id| id.to_string().into()), old.map(Into::into)];
    for field in fields.into_iter().flatten() {
        input.extend_from_slice(&field);
        input.push(0);
    }
}

/// How many transactions were carried out.
fn count(output: &[u8]) -> usize {
    output.lines().filter(|line| *line == b"commit: ok").count()
}
