//! One edit made ready: its lock held, its ref compared, its name free.

use super::ahead::{Ahead, Value, write_value};
use super::edit::{Change, RefEdit};
use super::locking::create_lock;
use super::run::RefTransaction;
use super::temporary::Temporary;
use crate::model::{ObjectId, RefName};
use crate::refs::context::{LockTimeout, RefContext, parents_of};
use crate::refs::error::{Doing, RefError};
use crate::refs::lock::{Backoff, LockFile, LockNote, take_lock};
use crate::refs::name_conflict::{Cleared, Names, Obstacle, is_gone, prune_parents};
use crate::refs::packed::{PackedRefs, Peeled};
use crate::refs::store::{Loose, RefStore, RefValue, Resolved};
use bstr::{BStr, BString, ByteSlice};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An edit that only has to be carried out. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    pub(super) index: usize,
    pub(super) edit: &'a RefEdit,
    pub(super) resolved: Resolved,
    pub(super) target: RefName,
    pub(super) before: Option<ObjectId>,
    /// Whether the ref has a file.
    pub(super) is_loose: bool,
    pub(super) action: Action,
    /// packed-refs as it was when nothing in it was in the way of a creation.
    pub(super) seen: Option<Arc<PackedRefs>>,
    /// Last, so that it is let go of last.
    pub(super) lock: RefLock<'a>,
}

/// How an edit is carried out.
#[derive(Debug)]
pub(super) enum Action {
    /// By moving this file into place.
    SetLoose(Temporary),
    /// By a line in packed-refs.
    SetPacked(ObjectId, Peeled),
    /// By removing the line in packed-refs and the file.
    Delete,
}

/// The lock of a ref.
#[derive(Debug)]
pub(super) struct RefLock<'a> {
    context: &'a RefContext,
    target: BString,
    lock: Option<LockFile>,
    /// Whether directories were created for it.
    pub(super) created_directories: bool,
    /// Whether the ref has got its file, which keeps the directories from being empty.
    pub(super) filled: bool,
}

impl Drop for RefLock<'_> {
    fn drop(&mut self) {
        self.lock = None;
        if !self.filled {
            prune_parents(
                self.context,
                self.context.ref_path(self.target.as_bstr()),
                self.target.as_bstr(),
            );
        }
    }
}

/// What the look under the lock found.
enum Examined {
    Ready {
        before: Option<ObjectId>,
        is_loose: bool,
        seen: Option<Arc<PackedRefs>>,
    },
    /// The symbolic refs lead elsewhere now.
    Moved,
    /// Somebody is about to create a ref of which this one's directory is the name.
    ParentLocked,
}

/// As for [`Backoff`]: so many directories vanishing in a row mean something else.
pub(super) const ATTEMPTS_MAX: usize = 100;

/// How long to give way to the lock of a ref above. Its holder sees ours, too: after this time
/// it has failed, or never will answer, and must not block all names below for good.
const PARENT_LOCK_TIMEOUT: LockTimeout = LockTimeout::AtMost(Duration::from_millis(100));

impl<'a> Prepared<'a> {
    /// Makes one edit ready. Its lock is a second name of its value or, if there is none, of
    /// `blank`. `push` are the names of an atomic transaction.
    pub(super) fn new(
        transaction: &RefTransaction<'a>,
        index: usize,
        edit: &'a RefEdit,
        mut ahead: Ahead,
        blank: Option<&Temporary>,
        push: Option<&Names>,
    ) -> Result<Self, RefError> {
        let store = transaction.store;
        let mut parents = Backoff::new(PARENT_LOCK_TIMEOUT);
        // Not to ourselves: that conflict shows soon enough.
        let mut give_way = !push.is_some_and(|push| push.has_parent_of(ahead.target.as_bstr()));
        let mut moves = 0;
        loop {
            let target = ahead.target.as_bstr();
            let creates = ahead.resolved.id.is_none();
            if creates && give_way && parent_is_locked(store, target)? {
                give_way = parents.pause();
                ahead.look_again(store, edit)?;
                continue;
            }
            let note = ahead.lock_note(store, blank);
            let of = ahead.value_file().or(blank).map(|file| (file, &note));
            let lock = lock_ref(store, edit, ahead.target.as_bstr(), of)?;
            match examine(store, edit, &ahead.resolved, give_way, push)? {
                Examined::Ready { before, is_loose, seen } => {
                    let Ahead { resolved, target, value, .. } = ahead;
                    let action = match value {
                        Value::Nothing => Action::Delete,
                        Value::File(file) => Action::SetLoose(file),
                        // Created since we looked.
                        Value::Line(id, _) if before.is_some() => {
                            Action::SetLoose(write_value(store, target.as_bstr(), id)?)
                        }
                        Value::Line(id, peeled) => Action::SetPacked(id, peeled),
                    };
                    return Ok(Self {
                        index,
                        edit,
                        resolved,
                        target,
                        before,
                        is_loose,
                        action,
                        seen,
                        lock,
                    });
                }
                Examined::ParentLocked => {
                    drop(lock);
                    give_way = parents.pause();
                }
                Examined::Moved if moves < ATTEMPTS_MAX => moves += 1,
                Examined::Moved => {
                    return Err(RefError::SymrefTooDeep { name: edit.name.as_bstr().into() });
                }
            }
            ahead.look_again(store, edit)?;
        }
    }

    pub(super) fn name(&self) -> &'a BStr {
        self.edit.name.as_bstr()
    }

    /// Whether the ref comes into being.
    pub(super) fn creates(&self) -> bool {
        self.before.is_none() && self.edit.change != Change::Delete
    }

    pub(super) fn conflict(&self, obstacle: Obstacle) -> RefError {
        conflict(self.edit, self.target.as_bstr(), obstacle)
    }
}

/// Takes the lock, creating the directories above it.
fn lock_ref<'a>(
    store: &'a RefStore,
    edit: &RefEdit,
    target: &BStr,
    of: Option<(&Temporary, &LockNote)>,
) -> Result<RefLock<'a>, RefError> {
    let context = store.context();
    let (disk, settings) = (&context.disk, &context.settings);
    let name = edit.name.as_bstr();
    let path = context.lock_path(target);
    let home = context.home_of(target);
    let mut lock = RefLock {
        context,
        target: target.into(),
        lock: None,
        created_directories: false,
        filled: false,
    };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for _ in 0..ATTEMPTS_MAX {
        let parent = path.parent().unwrap_or(home);
        last = match disk.create_directories(home, parent, settings.directory_mode) {
            Ok(created) => {
                lock.created_directories |= !created.is_empty();
                let taken = take_lock(disk, path.clone(), settings.ref_lock_timeout, |path| {
                    create_lock(context, path, of)
                });
                match taken {
                    Ok(taken) => {
                        lock.lock = Some(taken);
                        return Ok(lock);
                    }
                    Err(error) => error,
                }
            }
            Err(error) if is_gone(&error) => error,
            Err(error) => {
                let (name, path) = (name.into(), context.ref_path(target));
                return Err(RefError::NoDirectory { name, path, source: Arc::new(error) });
            }
        };
        match last.kind() {
            // An empty directory was removed in between; its removal must be flushed with us.
            io::ErrorKind::NotFound => lock.created_directories = true,
            io::ErrorKind::NotADirectory => {
                if let Some(error) = file_in_the_way(store, edit, target, &path)? {
                    return Err(error);
                }
            }
            _ => break,
        }
    }
    Err(RefError::Locked { name: name.into(), path, reason: (&last).into() })
}

/// Why the directories above a ref cannot be created; `None` if the file has gone meanwhile.
fn file_in_the_way(
    store: &RefStore,
    edit: &RefEdit,
    target: &BStr,
    lock: &Path,
) -> Result<Option<RefError>, RefError> {
    if let Some(existing) = store.parent_that_exists(target)? {
        // What is missed is the ref itself, if it was to be there.
        edit.expected.check(edit.name.as_bstr(), target, None)?;
        return Ok(Some(conflict(edit, target, Obstacle::loose(existing))));
    }
    let is_below = store.is_below_a_file(target)?;
    let error = || RefError::FileInTheWay { name: edit.name.as_bstr().into(), path: lock.into() };
    Ok(is_below.then(error))
}

/// Compares the ref and looks whether its name is free. The lock is held.
fn examine(
    store: &RefStore,
    edit: &RefEdit,
    resolved: &Resolved,
    give_way: bool,
    push: Option<&Names>,
) -> Result<Examined, RefError> {
    let name = edit.name.as_bstr();
    let target = resolved.target();
    if resolved.is_symbolic() && store.follow(name)?.target() != target {
        return Ok(Examined::Moved);
    }
    let loose = store.read_loose(target)?;
    match loose {
        Loose::Value(RefValue::Id(id)) => {
            edit.expected.check(name, target, Some(id))?;
            return Ok(Examined::Ready { before: Some(id), is_loose: true, seen: None });
        }
        Loose::Value(RefValue::Symbolic(_)) => return Ok(Examined::Moved),
        Loose::Broken => {
            return Err(RefError::Broken { name: name.into(), target: target.into() });
        }
        Loose::Absent | Loose::Directory => {}
    }
    let mut packed = store.packed_refs()?;
    let before = packed.find(target)?;
    edit.expected.check(name, target, before)?;
    if before.is_none() && give_way && parent_is_locked(store, target)? {
        return Ok(Examined::ParentLocked);
    }
    if loose == Loose::Directory && (before.is_none() || edit.change != Change::Delete) {
        free_place(store, edit, target)?;
        // Read after the directory was looked at: what `git pack-refs` took from there is here.
        packed = store.packed_refs()?;
    }
    let mut seen = None;
    if before.is_none() {
        if let Some(obstacle) = RefStore::obstacle(target, &packed, push)? {
            return Err(conflict(edit, target, obstacle));
        }
        seen = Some(packed);
    }
    Ok(Examined::Ready { before, is_loose: false, seen })
}

/// Removes the empty directory at the place of a ref, waiting for those who hold locks in it.
pub(super) fn free_place(store: &RefStore, edit: &RefEdit, target: &BStr) -> Result<(), RefError> {
    let mut backoff = Backoff::new(store.context().settings.ref_lock_timeout);
    loop {
        match store.clear_directory(target)? {
            Cleared::Free => return Ok(()),
            Cleared::Ref(existing) => {
                return Err(conflict(edit, target, Obstacle::loose(existing)));
            }
            Cleared::Locks if backoff.pause() => {}
            Cleared::Locks | Cleared::Other => {
                return Err(RefError::DirectoryInTheWay {
                    name: edit.name.as_bstr().into(),
                    target: target.into(),
                    path: store.context().ref_path(target),
                });
            }
        }
    }
}

/// Whether a ref is locked of which the directory of `target` is the name. Who creates `a/b` and
/// who creates `a` each takes a lock and then looks for the other's, so that one sees the other;
/// he of `a/b` gives way.
fn parent_is_locked(store: &RefStore, target: &BStr) -> Result<bool, RefError> {
    let context = store.context();
    // Directories in every repository; no ref is ever called so.
    let always = |parent: &BStr| parent == "refs/heads" || parent == "refs/tags";
    for parent in parents_of(target).filter(|parent| !always(parent)) {
        let path = context.lock_path(parent);
        match context.disk.stat_link(&path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => {}
            result => {
                if result.doing("look at", &path)?.is_some() {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

fn conflict(edit: &RefEdit, target: &BStr, obstacle: Obstacle) -> RefError {
    let (name, target) = (edit.name.as_bstr().into(), target.into());
    match obstacle {
        Obstacle::Existing { name: existing, packed } => {
            RefError::NameConflict { name, target, existing, packed }
        }
        Obstacle::InPush(other) => RefError::NameConflictInPush { name, target, other },
    }
}
