//! Reflogs: one line for each move of a ref (git-reflog(1); git's `refs/files-backend.c`).
//!
//! A log that is there is written on whatever `core.logAllRefUpdates` says; a new one is begun as
//! it says. HEAD's log gets the moves of the branch that HEAD names. Lines are appended under the
//! lock of the ref, so that they come in the order of the moves.

use super::context::{RefContext, ReflogCreation};
use super::error::{Doing, RefError};
use super::name_conflict::{clear, prune_parents};
use super::store::{RefStore, RefValue, Resolved};
use crate::model::ObjectId;
use crate::repo::{DurableFile, EntryKind};
use bstr::{BStr, BString, ByteSlice};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The reflogs of one repository during one transaction.
#[derive(Debug)]
pub(super) struct Reflogs<'a> {
    context: &'a RefContext,
    /// Whether there can be any log to write on.
    any: bool,
    /// What HEAD names, if it is symbolic.
    head: Option<BString>,
}

/// A log that was written on and is not durable yet.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) file: DurableFile,
    /// The directories that got a new entry.
    pub(super) directories: Vec<PathBuf>,
}

/// One move of a ref.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move<'a> {
    pub(super) before: Option<ObjectId>,
    pub(super) after: Option<ObjectId>,
    pub(super) message: &'a BStr,
}

impl<'a> Reflogs<'a> {
    pub(super) fn new(store: &'a RefStore) -> Result<Self, RefError> {
        let context = store.context();
        let any = context.settings.reflog != ReflogCreation::Never || has_logs(context)?;
        let head = match any.then(|| store.head()).transpose() {
            Ok(Some(Some(RefValue::Symbolic(target)))) => Some(target),
            // A broken HEAD has no log; whoever reads HEAD for its own sake will say so.
            Ok(_) | Err(RefError::Broken { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { context, any, head })
    }

    /// Writes the move of a ref into its log, those of the symbolic refs that led to it, and
    /// HEAD's. The log of a deleted ref is not written on, since it goes.
    pub(super) fn append(
        &self,
        resolved: &Resolved,
        change: Move<'_>,
        mut written: impl FnMut(Written),
    ) -> Result<(), RefError> {
        if !self.any {
            return Ok(());
        }
        let target = resolved.target();
        let is_head = |name: &BString| self.head.as_ref() == Some(name);
        let via_head = resolved.chain.iter().any(is_head).then_some(BStr::new("HEAD"));
        for name in resolved.chain.iter().map(|name| name.as_bstr()).chain(via_head) {
            if name == target && (change.after.is_none() || change.after == change.before) {
                continue;
            }
            if let Some(log) = self.append_one(name, change)? {
                written(log);
            }
        }
        Ok(())
    }

    /// Removes the log of a ref that is gone, and tells in which directory that was.
    pub(super) fn remove(&self, name: &BStr) -> Result<Option<PathBuf>, RefError> {
        let path = self.context.log_path(name);
        if !self.any || !self.context.disk.unlink(&path).doing("remove", &path)? {
            return Ok(None);
        }
        prune_parents(self.context, path.clone(), name);
        Ok(path.parent().map(Path::to_owned))
    }

    fn append_one(&self, name: &BStr, change: Move<'_>) -> Result<Option<Written>, RefError> {
        let disk = &self.context.disk;
        let path = self.context.log_path(name);
        let stat = disk.stat(&path).doing("look at", &path)?;
        let is_there = stat.is_some_and(|stat| stat.kind == EntryKind::File);
        if !is_there && !self.context.settings.reflog.begins(name) {
            return Ok(None);
        }
        let mut log = self.open(name, &path).doing("write", &path)?;
        log.file.write_all(&self.line(change)).doing("write", &path)?;
        Ok(Some(log))
    }

    fn open(&self, name: &BStr, path: &Path) -> io::Result<Written> {
        let context = self.context;
        let settings = &context.settings;
        let home = context.home_of(name);
        let parent = path.parent().unwrap_or(home);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let opened = context
                .disk
                .create_directories(home, parent, settings.directory_mode)
                .and_then(|created| {
                    let file = context.disk.append_file(path, settings.file_mode)?;
                    Ok((file, created))
                });
            match opened {
                Ok((file, created)) => {
                    let mut directories: Vec<PathBuf> =
                        created.iter().filter_map(|new| new.parent()).map(Path::to_owned).collect();
                    if file.length() == 0 {
                        directories.push(parent.to_owned());
                    }
                    return Ok(Written { file, directories });
                }
                // Somebody removed an empty directory in between.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS_MAX => {}
                // The logs of deleted refs left their directory behind.
                Err(error)
                    if error.kind() == io::ErrorKind::IsADirectory && attempts < ATTEMPTS_MAX =>
                {
                    // What is left in it shows when the log is opened again.
                    let _ = clear(context, name, path, &|_| true);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn line(&self, change: Move<'_>) -> Vec<u8> {
        let null = ObjectId::null(self.context.hash);
        let (before, after) = (change.before.unwrap_or(null), change.after.unwrap_or(null));
        let mut line = format!("{before} {after} ").into_bytes();
        line.extend(one_line(self.context.settings.committer.ident()));
        let message = one_line(change.message);
        if !message.is_empty() {
            line.push(b'\t');
            line.extend(message);
        }
        line.push(b'\n');
        line
    }
}

/// Others remove directories only while they are empty, so each attempt means that somebody got
/// on; so many in a row mean something else.
const ATTEMPTS_MAX: usize = 100;

fn has_logs(context: &RefContext) -> Result<bool, RefError> {
    let own = (context.git_dir != context.common_dir).then_some(&context.git_dir);
    for home in std::iter::once(&context.common_dir).chain(own) {
        let path = home.join("logs");
        if context.disk.stat(&path).doing("look at", &path)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The words with single blanks between them: a line break would begin a second entry.
fn one_line(text: &[u8]) -> Vec<u8> {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    bstr::join(" ", words)
}
