//! All refs below `refs/`, as git's ref iteration gives them to receive-pack.
//!
//! Files are read before packed-refs, so that a ref that `git pack-refs` moves meanwhile is seen
//! in one of them. The list is not a snapshot of one moment: refs moved while it is made may show
//! either value, as with git.

use super::context::PER_WORKTREE;
use super::error::{Doing, RefError};
use super::name_conflict::is_gone;
use super::packed::{PackedRef, PackedRefs};
use super::store::{Backend, Loose, RefStore, RefValue};
use crate::model::{HexId, ObjectId, RefName};
use crate::repo::EntryKind;
use bstr::{BStr, BString, ByteSlice};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// One ref that leads to an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    /// Its full name.
    pub name: RefName,
    /// The id it holds, or that the ref holds to which it leads. The object need not exist.
    pub id: ObjectId,
    /// The ref to which it leads at once, if it is symbolic.
    pub symbolic_target: Option<BString>,
}

/// All refs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefList {
    /// In byte order of their names.
    pub refs: Vec<Ref>,
    /// What is named like a ref below `refs/` and is none: files without a value, names that
    /// break git's rules, symbolic refs in a circle. Symbolic refs to nothing are not among them.
    pub broken: Vec<BString>,
}

/// All refs, to be gone through one by one.
///
/// Memory is taken for those that have files. What packed-refs holds is shared with all who read
/// that file: any number of listings of a large repository cost little more than one.
#[derive(Debug)]
pub struct RefView {
    loose: Arc<Vec<LooseRef>>,
    packed: Arc<PackedRefs>,
}

/// A ref of a [`RefView`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefEntry<'a> {
    /// As in [`Ref`].
    pub name: &'a BStr,
    /// As in [`Ref`].
    pub id: HexId<'a>,
    /// As in [`Ref`].
    pub symbolic_target: Option<&'a BStr>,
}

/// A ref that has a file, or a symbolic link; in a reftable, any.
#[derive(Debug)]
pub(super) struct LooseRef {
    pub(super) name: BString,
    pub(super) value: LooseValue,
}

#[derive(Debug)]
pub(super) enum LooseValue {
    /// It leads to an id, here in its digits.
    Id { digits: String, symbolic_target: Option<BString> },
    /// It leads to a ref that does not exist.
    Nothing,
    /// It is none.
    Broken,
}

impl RefStore {
    /// Lists all refs in byte order: files over packed-refs, symbolic refs with their target's
    /// value, those that lead to nothing left out.
    pub fn list(&self) -> Result<RefList, RefError> {
        let view = self.view()?;
        let mut list = RefList::default();
        for entry in view.all() {
            match entry {
                Ok(RefEntry { name, id, symbolic_target }) => {
                    // It has been looked at.
                    if let Ok(name) = RefName::for_deletion(name) {
                        let symbolic_target = symbolic_target.map(BString::from);
                        list.refs.push(Ref { name, id: id.id(), symbolic_target });
                    }
                }
                Err(name) => list.broken.push(name.into()),
            }
        }
        Ok(list)
    }

    /// All refs as [`list`](Self::list) has them, without a list of them.
    pub fn view(&self) -> Result<RefView, RefError> {
        if let Backend::Reftable(reftable) = self.backend() {
            let loose = reftable.current(self.context())?.refs();
            return Ok(RefView { loose, packed: Arc::new(PackedRefs::empty(self.context().hash)) });
        }
        let loose = self.list_loose()?;
        // Before symbolic refs are followed: what they lead to is looked up in a file that is as
        // new, or newer.
        let packed = self.packed_refs()?;
        packed.check()?;
        let loose = loose.into_iter().map(|(name, value)| {
            let value = self.loose_value(name.as_bstr(), value)?;
            Ok(LooseRef { name, value })
        });
        Ok(RefView { loose: Arc::new(loose.collect::<Result<_, _>>()?), packed })
    }

    fn loose_value(&self, name: &BStr, value: Option<RefValue>) -> Result<LooseValue, RefError> {
        Ok(match value {
            Some(RefValue::Id(id)) => {
                LooseValue::Id { digits: id.to_string(), symbolic_target: None }
            }
            Some(RefValue::Symbolic(target)) => match self.follow(name) {
                Ok(resolved) => match resolved.id {
                    Some(id) => {
                        let digits = id.to_string();
                        LooseValue::Id { digits, symbolic_target: Some(target) }
                    }
                    None => LooseValue::Nothing,
                },
                Err(RefError::Broken { .. } | RefError::SymrefTooDeep { .. }) => LooseValue::Broken,
                Err(error) => return Err(error),
            },
            None => LooseValue::Broken,
        })
    }

    /// The refs that have files, sorted by name; with `None` those whose file has no value.
    fn list_loose(&self) -> Result<Vec<(BString, Option<RefValue>)>, RefError> {
        let context = self.context();
        let mut names = Vec::new();
        self.collect(context.common_dir.join("refs"), "refs".into(), false, &mut names)?;
        if context.git_dir != context.common_dir {
            names.retain(|name| !super::context::is_per_worktree(name.as_bstr()));
            for directory in PER_WORKTREE {
                let path = context.git_dir.join(directory);
                self.collect(path, directory.into(), false, &mut names)?;
            }
        }
        names.sort();
        let mut loose = Vec::with_capacity(names.len());
        for name in names {
            match self.read_loose(name.as_bstr())? {
                Loose::Value(value) => loose.push((name, Some(value))),
                Loose::Broken => loose.push((name, None)),
                // Gone since the directory was listed: deleted, or in packed-refs, which is read
                // after this.
                Loose::Absent | Loose::Directory => {}
            }
        }
        Ok(loose)
    }

    /// Collects the names of files below a directory. Symbolic links to directories are followed
    /// once on a path, so that they cannot make a circle.
    fn collect(
        &self,
        directory: PathBuf,
        prefix: BString,
        through_link: bool,
        names: &mut Vec<BString>,
    ) -> Result<(), RefError> {
        let disk = &self.context().disk;
        let mut pending = vec![(directory, prefix, through_link)];
        while let Some((directory, prefix, through_link)) = pending.pop() {
            let entries = match disk.list(&directory) {
                Err(error) if is_gone(&error) => continue,
                result => result.doing("list", &directory)?,
            };
            for entry in entries {
                let name = entry.name.as_bytes();
                if name.starts_with(b".") || name.ends_with(b".lock") {
                    continue;
                }
                let mut full = prefix.clone();
                full.push(b'/');
                full.extend_from_slice(name);
                let path = directory.join(&entry.name);
                let (kind, linked) = match entry.kind {
                    EntryKind::Symlink if !through_link => {
                        let stat = disk.stat(&path).doing("look at", &path)?;
                        (stat.map_or(EntryKind::Symlink, |stat| stat.kind), true)
                    }
                    kind => (kind, through_link),
                };
                match kind {
                    EntryKind::Directory => pending.push((path, full, linked)),
                    EntryKind::File | EntryKind::Symlink | EntryKind::Other => names.push(full),
                }
            }
        }
        Ok(())
    }
}

impl RefView {
    /// The refs in byte order of their names, without what is none.
    pub fn iter(&self) -> impl Iterator<Item = RefEntry<'_>> {
        self.all().flatten()
    }

    #[cfg(test)]
    pub(super) fn shares_packed_refs_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.packed, &other.packed)
    }

    #[cfg(test)]
    pub(super) fn files(&self) -> usize {
        self.loose.len()
    }

    /// The refs in byte order of their names; of what is none, the name.
    fn all(&self) -> impl Iterator<Item = Result<RefEntry<'_>, &BStr>> {
        let mut loose = self.loose.iter().peekable();
        // Every line was looked at when the view was made.
        let mut packed = self.packed.iter().map_while(Result::ok).peekable();
        std::iter::from_fn(move || {
            loop {
                let next_packed = packed.peek().map(|record| record.name);
                let is_loose = match (loose.peek(), next_packed) {
                    (Some(loose), Some(packed)) => loose.name.as_bstr() <= packed,
                    (next_loose, _) => next_loose.is_some(),
                };
                if !is_loose {
                    let record = packed.next()?;
                    let PackedRef { name, id, .. } = record;
                    let entry = RefEntry { name, id, symbolic_target: None };
                    return Some(if self.packed.has_sound(&record) {
                        Ok(entry)
                    } else {
                        Err(name)
                    });
                }
                let LooseRef { name, value } = loose.next()?;
                let name = name.as_bstr();
                packed.next_if(|record| record.name == name);
                match value {
                    LooseValue::Id { digits, symbolic_target } => {
                        let symbolic_target = symbolic_target.as_ref().map(|it| it.as_bstr());
                        let id = HexId::known(digits.as_bytes());
                        let is_sound = RefName::is_deletable(name) && !id.is_null();
                        let entry = RefEntry { name, id, symbolic_target };
                        return Some(if is_sound { Ok(entry) } else { Err(name) });
                    }
                    LooseValue::Broken => return Some(Err(name)),
                    LooseValue::Nothing => {}
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::testing::{TestRepository, commit, id_of};

    fn listed(list: &RefList) -> Vec<(String, ObjectId)> {
        list.refs.iter().map(|one| (one.name.to_string(), one.id)).collect()
    }

    fn by_git(repository: &TestRepository) -> Vec<(String, ObjectId)> {
        let text = repository.git(&["show-ref"]);
        let line = |line: &str| (line[41..].to_owned(), id_of(&line[..40]));
        text.lines().map(line).collect()
    }

    #[test]
    fn loose_and_packed_refs_come_in_byte_order_as_with_git() {
        let repository = TestRepository::new();
        for name in ["a/b", "a-b", "a.b", "b", "дом", "A"] {
            repository.set(&format!("refs/heads/{name}"), commit(0));
            repository.set(&format!("refs/tags/{name}"), commit(1));
        }
        repository.set("refs/onelevel", commit(2));
        repository.git(&["pack-refs", "--all"]);
        for name in ["a/a", "a0", "b", "zz"] {
            repository.set(&format!("refs/heads/{name}"), commit(3));
        }
        let list = repository.store().list().unwrap();
        assert_eq!(listed(&list), by_git(&repository));
        assert_eq!(list.refs.len(), 16);
        assert!(list.broken.is_empty());
    }

    #[test]
    fn a_repository_without_refs_lists_none() {
        let repository = TestRepository::new();
        assert_eq!(repository.store().list().unwrap(), RefList::default());
        std::fs::remove_dir_all(repository.path("refs")).unwrap();
        assert_eq!(repository.store().list().unwrap(), RefList::default());
    }

    #[test]
    fn symbolic_refs_have_their_targets_value_and_those_to_nothing_are_left_out() {
        let repository = TestRepository::new();
        repository.set("refs/heads/main", commit(0));
        repository.git(&["pack-refs", "--all"]);
        repository.write("refs/remotes/origin/HEAD", "ref: refs/heads/main\n");
        repository.write("refs/heads/dangling", "ref: refs/heads/none\n");
        repository.write("refs/heads/circle", "ref: refs/heads/circle\n");
        let list = repository.store().list().unwrap();
        assert_eq!(listed(&list), by_git(&repository));
        assert_eq!(list.refs[1].name.as_bstr(), "refs/remotes/origin/HEAD");
        assert_eq!(list.refs[1].symbolic_target, Some("refs/heads/main".into()));
        assert_eq!(list.refs[0].symbolic_target, None);
        assert_eq!(list.broken, ["refs/heads/circle"]);
    }

    #[test]
    fn what_is_broken_or_badly_named_is_left_out_and_told() {
        let repository = TestRepository::new();
        repository.set("refs/heads/good", commit(0));
        repository.write("refs/heads/empty", "");
        repository.write("refs/heads/junk", "junk\n");
        repository.write("refs/heads/null", "0".repeat(40));
        repository.set("refs/heads/a b", commit(0));
        repository.set("refs/heads/x.lock", commit(0));
        repository.set("refs/heads/.hidden", commit(0));
        let packed = format!("{0} refs/heads/a..b\n{0} refs/heads/junk\n", commit(1));
        repository.write("packed-refs", packed);
        let list = repository.store().list().unwrap();
        assert_eq!(listed(&list), [("refs/heads/good".to_owned(), commit(0))]);
        let broken =
            ["a b", "a..b", "empty", "junk", "null"].map(|name| format!("refs/heads/{name}"));
        assert_eq!(list.broken, broken);
    }

    #[test]
    fn a_ref_whose_object_is_missing_is_listed() {
        let repository = TestRepository::new();
        let gone = ObjectId::from_bytes_or_panic(&[7; 20]);
        repository.set("refs/heads/gone", gone);
        let list = repository.store().list().unwrap();
        assert_eq!(listed(&list), [("refs/heads/gone".to_owned(), gone)]);
    }

    #[test]
    fn a_directory_reached_by_a_link_is_listed_and_a_circle_of_links_ends() {
        let repository = TestRepository::new();
        repository.set("refs/heads/main", commit(0));
        std::os::unix::fs::symlink("heads", repository.path("refs/branches")).unwrap();
        std::os::unix::fs::symlink(".", repository.path("refs/circle")).unwrap();
        let list = repository.store().list().unwrap();
        let names: Vec<_> = list.refs.iter().map(|one| one.name.to_string()).collect();
        let [there, linked] = ["refs/heads/main", "refs/branches/main"].map(str::to_owned);
        assert!(names.contains(&there) && names.contains(&linked), "{names:?}");
    }
}
