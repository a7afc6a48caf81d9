//! All refs of a reftable repository, as one process of git's tells them, kept until they change.
//!
//! Every change of a ref puts a new `tables.list` in place of the old one. Every lookup looks at its
//! stamp first, and one that is younger than the clock is fine is not trusted; there is no time for
//! which an old answer may be given.

use super::process::{Told, attend, git, start};
use crate::model::{HexId, ObjectId};
use crate::refs::context::RefContext;
use crate::refs::error::{Doing, RefError};
use crate::refs::listing::{LooseRef, LooseValue};
use crate::refs::store::{RefValue, Resolved};
use crate::repo::{Environment, Stamp};
use bstr::{BStr, BString, ByteSlice};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The refs of a reftable repository, and how to get at them.
#[derive(Clone, Debug)]
pub struct Reftable {
    environment: Arc<Environment>,
    cache: Arc<ReftableCache>,
}

/// What is known of one repository's refs, for all who share it.
#[derive(Debug, Default)]
pub struct ReftableCache {
    /// For each git directory of the repository: the main one and those of linked work trees.
    known: Mutex<HashMap<PathBuf, Cached>>,
    /// Held while refs change: git fails when it meets another writer for too long.
    writing: Mutex<()>,
}

#[derive(Debug)]
struct Cached {
    stamps: Vec<Option<Stamp>>,
    trusted: bool,
    listing: Arc<Listing>,
}

/// All refs at one moment.
#[derive(Debug)]
pub(in crate::refs) struct Listing {
    refs: Arc<Vec<LooseRef>>,
    head: Resolved,
}

impl Reftable {
    /// The refs of the repository that `cache` belongs to. `environment` is what git's commands see,
    /// and the `reference-transaction` hook.
    pub fn new(environment: Environment, cache: Arc<ReftableCache>) -> Self {
        Self { environment: Arc::new(environment), cache }
    }

    pub(super) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Waits until nobody else in this process changes refs of the repository.
    pub(super) fn writing(&self) -> MutexGuard<'_, ()> {
        self.cache.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The refs as they are now.
    pub(in crate::refs) fn current(&self, context: &RefContext) -> Result<Arc<Listing>, RefError> {
        // Held while reading: who comes meanwhile wants the same refs.
        let mut known = self.cache.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now();
        // Before the refs are read: what changes meanwhile is read again.
        let stamps = tables_of(context)
            .map(|path| {
                let stat = context.disk.stat(&path).doing("look at", &path)?;
                Ok(stat.as_ref().map(Stamp::of))
            })
            .collect::<Result<Vec<_>, RefError>>()?;
        if let Some(cached) = known.get(&context.git_dir)
            && cached.trusted
            && cached.stamps == stamps
        {
            return Ok(Arc::clone(&cached.listing));
        }
        let listing = Arc::new(self.read(context)?);
        let trusted = stamps.iter().flatten().all(|stamp| stamp.is_settled_file(now));
        if known.len() >= GIT_DIRS_MAX {
            known.clear();
        }
        let cached = Cached { stamps, trusted, listing: Arc::clone(&listing) };
        known.insert(context.git_dir.clone(), cached);
        Ok(listing)
    }

    fn read(&self, context: &RefContext) -> Result<Listing, RefError> {
        let format = "--format=%(objectname) %(refname) %(symref)";
        let text = self.ask(context, &["for-each-ref", "--include-root-refs", format])?;
        let text = text.map_err(|told| context.not_read(&told))?;
        let mut refs = Vec::new();
        let mut head = None;
        for line in text.lines() {
            let mut words = line.splitn(3, |byte| *byte == b' ');
            let (Some(digits), Some(name)) = (words.next(), words.next()) else { continue };
            let target = words.next().filter(|target| !target.is_empty()).map(BString::from);
            let id = HexId::new(digits, context.hash);
            if name == b"HEAD" {
                let chain = std::iter::once(BString::from("HEAD")).chain(target).collect();
                head = Some(Resolved { chain, id: id.map(HexId::id) });
            } else if name.starts_with(b"refs/") {
                let value = match id {
                    Some(id) => {
                        LooseValue::Id { digits: id.id().to_string(), symbolic_target: target }
                    }
                    None => LooseValue::Broken,
                };
                refs.push(LooseRef { name: name.into(), value });
            }
        }
        let head = match head {
            Some(head) => head,
            None => self.unborn_head(context)?,
        };
        refs.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Listing { refs: Arc::new(refs), head })
    }

    /// HEAD where it leads to nothing yet, which is listed with no ref.
    fn unborn_head(&self, context: &RefContext) -> Result<Resolved, RefError> {
        let told = self.ask(context, &["symbolic-ref", "-q", "HEAD"])?;
        // A repository without HEAD is none: its tables are damaged, which git lists as no refs.
        let target = told.map_err(|told| context.not_read(&told))?;
        Ok(Resolved { chain: vec!["HEAD".into(), target.trim_end().into()], id: None })
    }

    fn ask(
        &self,
        context: &RefContext,
        arguments: &[&str],
    ) -> Result<Result<Vec<u8>, Told>, RefError> {
        let mut command = git(context, &self.environment);
        // Nothing that git says here is for anybody's eyes.
        command.env("LC_ALL", "C").args(arguments);
        let told = start(command).and_then(|child| attend(child, &[], None, &mut |_| ()));
        let told = told.doing("run git in", &context.git_dir)?;
        if told.is_success { Ok(Ok(told.output)) } else { Ok(Err(told)) }
    }
}

/// LIMIT: git directories of one repository whose refs are kept. More, and all are read again.
const GIT_DIRS_MAX: usize = 64;

impl RefContext {
    /// The error for what git could not read.
    fn not_read(&self, told: &Told) -> RefError {
        let said =
            if told.fatal.is_empty() { "git finds no HEAD".into() } else { told.fatal.to_string() };
        let source = Arc::new(io::Error::other(said));
        RefError::Io { action: "read the refs of", path: self.git_dir.clone(), source }
    }
}

/// The lists of tables on which the refs depend: those that all work trees share, and a linked one's
/// own.
fn tables_of(context: &RefContext) -> impl Iterator<Item = PathBuf> {
    stacks_of(context).map(|stack| stack.join("tables.list"))
}

/// The directories of these tables.
pub(super) fn stacks_of(context: &RefContext) -> impl Iterator<Item = PathBuf> {
    let (own, common): (&Path, &Path) = (&context.git_dir, &context.common_dir);
    let own = (own != common).then_some(own);
    std::iter::once(common).chain(own).map(|directory| directory.join("reftable"))
}

impl Listing {
    /// The refs in byte order of their names.
    pub(in crate::refs) fn refs(&self) -> Arc<Vec<LooseRef>> {
        Arc::clone(&self.refs)
    }

    /// What a name holds.
    pub(in crate::refs) fn find(&self, name: &BStr) -> Result<Option<RefValue>, RefError> {
        let resolved = self.follow(name)?;
        Ok(match resolved.chain.get(1) {
            Some(target) => Some(RefValue::Symbolic(target.clone())),
            None => resolved.id.map(RefValue::Id),
        })
    }

    /// Where a name leads.
    pub(in crate::refs) fn follow(&self, name: &BStr) -> Result<Resolved, RefError> {
        if name == "HEAD" {
            return Ok(self.head.clone());
        }
        let mut chain = vec![BString::from(name)];
        let found = self.refs.binary_search_by(|one| one.name.as_bstr().cmp(name));
        let Some(found) = found.ok().and_then(|at| self.refs.get(at)) else {
            return Ok(Resolved { chain, id: None });
        };
        match &found.value {
            LooseValue::Id { digits, symbolic_target } => {
                chain.extend(symbolic_target.clone());
                let id = ObjectId::from_hex(digits.as_bytes()).ok();
                Ok(Resolved { chain, id: id.filter(|id| !id.is_null()) })
            }
            LooseValue::Nothing => Ok(Resolved { chain, id: None }),
            LooseValue::Broken => Err(RefError::Broken { name: name.into(), target: name.into() }),
        }
    }
}
