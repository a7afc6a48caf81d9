//! Building a fresh repository and putting it in its place.

use super::hold::{RepositoryHold, remove_parents, withdraw};
use super::layout::{DIRECTORY_MODE, TEMPORARY_PREFIX, fill, is_repository, take_apart};
use crate::model::{HashKind, RefName};
use crate::repo::path_lock::PathLock;
use crate::repo::{Component, Disk, EntryKind};
use std::io;
use std::path::{Component as PathPart, Path, PathBuf};

/// What is to be created.
#[derive(Clone, Copy, Debug)]
pub struct NewRepository<'a> {
    /// Everything is created below it. It must exist.
    pub root: &'a Path,
    /// Where the repository shall lie; missing directories in between are made.
    pub path: &'a Path,
    /// The hash of its object ids.
    pub hash: HashKind,
    /// What HEAD points to.
    pub head: &'a RefName,
}

/// A repository is there.
#[derive(Debug)]
pub struct Creation {
    /// Keeps it there for this push.
    pub hold: RepositoryHold,
    /// Whether it was made just now. False: another was faster, and theirs is as good; its hash
    /// may be another one.
    pub made: bool,
}

/// No repository could be created. What had been made for it is gone again.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The place is not below the root, or spelled with `..`.
    #[error("'{}' does not lie below '{}'", path.display(), root.display())]
    Outside {
        /// The place.
        path: PathBuf,
        /// The root.
        root: PathBuf,
    },
    /// A repository lies on the way: within it, ours would be taken for a part of it.
    #[error("'{}' lies inside the repository '{}'", path.display(), repository.display())]
    Nested {
        /// The place.
        path: PathBuf,
        /// The repository on the way to it.
        repository: PathBuf,
    },
    /// Something that is no repository has the name, or that of a directory on the way.
    #[error("'{}' is there and is no repository", path.display())]
    Occupied {
        /// What is there.
        path: PathBuf,
    },
    /// Others kept creating it and taking it away.
    #[error("'{}' came and went {attempts} times", path.display())]
    Unsettled {
        /// The place.
        path: PathBuf,
        /// How often it was tried.
        attempts: u32,
    },
    /// The disk failed.
    #[error("cannot create the repository '{}'", path.display())]
    Disk {
        /// The place.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
}

/// Creates a bare repository, or finds that another has just done so.
///
/// When this returns, the repository and every directory entry that leads to it from the root
/// are durable, whoever made them. On an error nothing is left, or, if the disk takes no removals
/// either, a temporary name that the sweep finds; the place itself names a whole repository or
/// nothing at every moment.
pub fn create(disk: &Disk, new: &NewRepository<'_>) -> Result<Creation, CreateError> {
    let site = Site::new(disk, new)?;
    let mut made_parents = Vec::new();
    let result = site.settle(&mut made_parents);
    match result {
        Ok((hold, made)) => Ok(Creation { hold: hold.with_parents(made_parents), made }),
        Err(error) => {
            remove_parents(disk, &made_parents);
            Err(error)
        }
    }
}

/// Where it is built.
struct Site<'a> {
    disk: &'a Disk,
    new: &'a NewRepository<'a>,
    path: PathBuf,
    /// The directory it lies in.
    parent: PathBuf,
    /// The directories between the root and the repository, outermost first.
    between: Vec<PathBuf>,
}

impl<'a> Site<'a> {
    fn new(disk: &'a Disk, new: &'a NewRepository<'a>) -> Result<Self, CreateError> {
        let mut between = Vec::new();
        let mut at = new.root.to_owned();
        let outside =
            || CreateError::Outside { path: new.path.to_owned(), root: new.root.to_owned() };
        for part in new.path.strip_prefix(new.root).map_err(|_| outside())?.components() {
            let PathPart::Normal(name) = part else { return Err(outside()) };
            at.push(name);
            between.push(at.clone());
        }
        let path = between.pop().ok_or_else(outside)?;
        let parent = between.last().map_or(new.root, PathBuf::as_path).to_owned();
        Ok(Self { disk, new, path, parent, between })
    }

    /// Creates the repository or takes what another created, until one of both holds.
    fn settle(&self, made: &mut Vec<PathBuf>) -> Result<(RepositoryHold, bool), CreateError> {
        for _ in 0..ATTEMPTS_MAX {
            self.refuse_nested()?;
            if self.disk.stat_link(&self.path).map_err(self.failed())?.is_some() {
                if let Some(hold) = self.take_theirs()? {
                    return Ok((hold, false));
                }
            } else if let Some(lock) = self.build(made)? {
                return Ok((RepositoryHold::new(self.disk, &self.path, lock), true));
            }
        }
        Err(CreateError::Unsettled { path: self.path.clone(), attempts: ATTEMPTS_MAX })
    }

    /// No repository may lie on the way. Above the root nothing is asked: a server may well run
    /// inside a work tree.
    fn refuse_nested(&self) -> Result<(), CreateError> {
        let nested = |repository: &Path| CreateError::Nested {
            path: self.path.clone(),
            repository: repository.to_owned(),
        };
        if is_repository(self.disk, self.new.root).map_err(self.failed())? {
            return Err(nested(self.new.root));
        }
        for directory in &self.between {
            let Some(stat) = self.disk.stat(directory).map_err(self.failed())? else { break };
            if stat.kind != EntryKind::Directory {
                return Err(CreateError::Occupied { path: directory.clone() });
            }
            let git = self.disk.stat_link(&directory.join(".git")).map_err(self.failed())?;
            if git.is_some() || is_repository(self.disk, directory).map_err(self.failed())? {
                return Err(nested(directory));
            }
        }
        Ok(())
    }

    /// Holds what another created; `None` if it went meanwhile.
    fn take_theirs(&self) -> Result<Option<RepositoryHold>, CreateError> {
        let occupied = || CreateError::Occupied { path: self.path.clone() };
        let found = self.disk.stat(&self.path).map_err(self.failed())?;
        // A symbolic link to nowhere is somebody's; anything else went meanwhile.
        if found.is_none() && self.disk.stat_link(&self.path).map_err(self.failed())?.is_none() {
            return Ok(None);
        }
        if found.is_none_or(|stat| stat.kind != EntryKind::Directory) {
            return Err(occupied());
        }
        let hold = RepositoryHold::take(self.disk, &self.path).map_err(self.failed())?;
        // Asked under the hold: nobody takes it away between the questions.
        if hold.is_some() {
            if !is_repository(self.disk, &self.path).map_err(self.failed())? {
                return Err(occupied());
            }
            self.flush_way().map_err(self.failed())?;
        }
        Ok(hold)
    }

    /// Builds it and puts it in its place; `None` if that, or something on the way, changed
    /// meanwhile. Nothing but `made` is left then, or on an error.
    fn build(&self, made: &mut Vec<PathBuf>) -> Result<Option<PathLock>, CreateError> {
        if !self.make_parents(made).map_err(self.failed())? {
            return Ok(None);
        }
        let Some((temporary, lock)) = self.temporary().map_err(self.failed())? else {
            return Ok(None);
        };
        let published = fill(self.disk, &temporary, self.new.hash, self.new.head)
            .map_err(self.failed())
            // Another push may have made a repository of a directory on the way, before our
            // temporary name was in it; from now on that cannot happen any more.
            .and_then(|()| self.refuse_nested())
            .and_then(|()| self.publish(&temporary, &lock).map_err(self.failed()));
        if !matches!(published, Ok(true)) {
            // What cannot be removed is left to the sweep; the error that led here matters more.
            drop(take_apart(self.disk, &temporary));
        }
        Ok(published?.then_some(lock))
    }

    /// False if one of them was taken away meanwhile.
    fn make_parents(&self, made: &mut Vec<PathBuf>) -> io::Result<bool> {
        for directory in &self.between {
            if self.disk.stat(directory)?.is_some() {
                continue;
            }
            match self.disk.create_directory(directory, DIRECTORY_MODE) {
                Ok(()) => made.push(directory.clone()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// An empty directory beside the final place, and the lock on it that tells the sweep that
    /// somebody alive works there. `None` if the parent or the new directory went.
    fn temporary(&self) -> io::Result<Option<(PathBuf, PathLock)>> {
        let created =
            self.disk.create_temporary_directory(&self.parent, TEMPORARY_PREFIX, DIRECTORY_MODE);
        let Some(temporary) = crate::repo::disk::absent_is_none(created)? else { return Ok(None) };
        match PathLock::exclusive(self.disk, &temporary) {
            Ok(Some(lock)) => Ok(Some((temporary, lock))),
            // A sweep saw it before it was locked.
            Ok(None) => Ok(None),
            Err(error) => {
                drop(self.disk.remove_directory(&temporary));
                Err(error)
            }
        }
    }

    /// Gives the repository its name and makes that durable; false if another has the name.
    fn publish(&self, temporary: &Path, lock: &PathLock) -> io::Result<bool> {
        self.flush_way()?;
        match self.disk.rename_to_free(temporary, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            result => result?,
        }
        self.disk.flush_directory(&self.parent, Component::Reference).inspect_err(|_| {
            // Whether the name will outlast a crash is unknown, so nobody shall count on it.
            drop(withdraw(self.disk, &self.path));
        })?;
        lock.make_shared()?;
        lock.is_at(self.disk, &self.path)
    }

    /// Makes the names durable that lead from the root to the directory the repository lies in.
    /// All of them: one that was there may be another push's that has not been flushed yet.
    fn flush_way(&self) -> io::Result<()> {
        let holders = std::iter::once(self.new.root)
            .chain(self.between.iter().map(PathBuf::as_path))
            .take(self.between.len());
        for directory in holders {
            self.disk.flush_directory(directory, Component::Reference)?;
        }
        Ok(())
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> CreateError + use<> {
        let path = self.path.clone();
        move |source| CreateError::Disk { path, source }
    }
}

/// Each attempt is lost only to another push that creates or removes just then.
const ATTEMPTS_MAX: u32 = 100;

#[cfg(test)]
mod tests;
