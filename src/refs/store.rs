//! One ref, read: its file first, then packed-refs as it is after that.
//!
//! In the other order a ref would be lost that `git pack-refs` moves in between: it puts the ref
//! into packed-refs before it removes the file (git's `refs/files-backend.c`).
//!
//! Nothing is cached but packed-refs, and that is checked at each lookup. Whether the objects
//! exist is not asked.

use super::SYMREF_DEPTH_MAX;
use super::context::{RefContext, is_per_worktree};
use super::error::{Doing, RefError};
use super::packed::PackedRefs;
use super::packed_cache::PackedRefsCache;
use super::reftable::Reftable;
use crate::model::{ObjectId, RefName};
use crate::repo::EntryKind;
use bstr::{BStr, BString, ByteSlice};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The refs of one repository.
#[derive(Clone, Debug)]
pub struct RefStore {
    context: RefContext,
    backend: Backend,
    packed: Arc<PackedRefsCache>,
    /// Whether `refs` is on another file system than the git directory; asked for once.
    refs_are_elsewhere: OnceLock<bool>,
}

/// How the repository keeps its refs.
#[derive(Clone, Debug)]
pub(super) enum Backend {
    /// In files, which all of this module but `reftable` is about.
    Files,
    /// As a reftable.
    Reftable(Reftable),
}

/// What a ref holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefValue {
    /// An id.
    Id(ObjectId),
    /// The name of another ref.
    Symbolic(BString),
}

/// Where a name leads through symbolic refs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The names on the way, the one asked for first, the ref that holds the id last.
    pub chain: Vec<BString>,
    /// The id; `None` if the last ref does not exist.
    pub id: Option<ObjectId>,
}

impl Resolved {
    /// The ref that holds the id, or would.
    pub fn target(&self) -> &BStr {
        self.chain.last().map_or(BStr::new(""), |name| name.as_bstr())
    }

    /// Whether the name asked for is a symbolic ref.
    pub fn is_symbolic(&self) -> bool {
        self.chain.len() > 1
    }
}

/// What lies at the place of a ref's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loose {
    Absent,
    Directory,
    Value(RefValue),
    Broken,
}

/// A directory, and what the names of temporary files in it begin with.
#[derive(Clone, Debug)]
pub(super) struct TemporaryPlace {
    pub(super) directory: PathBuf,
    pub(super) prefix: &'static str,
}

/// LIMIT: bytes of a ref's file. An id or a path, with blanks around.
const REF_FILE_BYTES_MAX: u64 = 1 << 16;

impl RefStore {
    /// The refs of a repository, with a cache of their own.
    pub fn new(context: RefContext) -> Self {
        Self::with_cache(context, Arc::default())
    }

    /// The refs of a repository; all who work on it share `packed`.
    pub fn with_cache(context: RefContext, packed: Arc<PackedRefsCache>) -> Self {
        Self { context, backend: Backend::Files, packed, refs_are_elsewhere: OnceLock::new() }
    }

    /// The refs of a repository that keeps them as a reftable.
    pub fn with_reftable(context: RefContext, reftable: Reftable) -> Self {
        Self { backend: Backend::Reftable(reftable), ..Self::new(context) }
    }

    pub(super) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The repository.
    pub fn context(&self) -> &RefContext {
        &self.context
    }

    /// The same refs as the work tree with this git directory sees them: with its own HEAD.
    #[must_use]
    pub fn of_work_tree(&self, git_dir: &Path) -> Self {
        let context = RefContext { git_dir: git_dir.to_owned(), ..self.context.clone() };
        Self { context, ..self.clone() }
    }

    /// What git says of a new value that it refuses to write, by the way refs are kept.
    pub fn refusal(&self, name: &BStr, reason: &str) -> String {
        match self.backend {
            Backend::Files => format!("cannot update ref '{name}': {reason}"),
            Backend::Reftable(_) => reason.to_owned(),
        }
    }

    /// What a ref holds; `None` if there is none.
    pub fn find(&self, name: &RefName) -> Result<Option<RefValue>, RefError> {
        self.find_named(name.as_bstr())
    }

    /// What HEAD holds; `None` if there is none.
    pub fn head(&self) -> Result<Option<RefValue>, RefError> {
        self.find_named("HEAD".into())
    }

    /// Where a ref leads.
    pub fn resolve(&self, name: &RefName) -> Result<Resolved, RefError> {
        self.follow(name.as_bstr())
    }

    /// Where HEAD leads: itself if it is detached, else its branch, which need not exist.
    pub fn resolve_head(&self) -> Result<Resolved, RefError> {
        self.follow("HEAD".into())
    }

    fn find_named(&self, name: &BStr) -> Result<Option<RefValue>, RefError> {
        if let Backend::Reftable(reftable) = &self.backend {
            return reftable.current(&self.context)?.find(name);
        }
        match self.read_loose(name)? {
            Loose::Value(value) => Ok(Some(value)),
            Loose::Broken => Err(RefError::Broken { name: name.into(), target: name.into() }),
            Loose::Absent | Loose::Directory => {
                Ok(self.packed_refs()?.find(name)?.map(RefValue::Id))
            }
        }
    }

    /// Follows symbolic refs.
    pub(super) fn follow(&self, name: &BStr) -> Result<Resolved, RefError> {
        if let Backend::Reftable(reftable) = &self.backend {
            return reftable.current(&self.context)?.follow(name);
        }
        let mut chain = vec![BString::from(name)];
        let mut at = BString::from(name);
        for _ in 0..SYMREF_DEPTH_MAX {
            match self.read_loose(at.as_bstr())? {
                Loose::Value(RefValue::Id(id)) => return Ok(Resolved { chain, id: Some(id) }),
                Loose::Value(RefValue::Symbolic(next)) => {
                    chain.push(next.clone());
                    at = next;
                }
                Loose::Broken => {
                    return Err(RefError::Broken { name: name.into(), target: at });
                }
                Loose::Absent | Loose::Directory => {
                    let id = self.packed_refs()?.find(at.as_bstr())?;
                    return Ok(Resolved { chain, id });
                }
            }
        }
        Err(RefError::SymrefTooDeep { name: name.into() })
    }

    pub(super) fn packed_refs(&self) -> Result<Arc<PackedRefs>, RefError> {
        let context = &self.context;
        self.packed.current(&context.disk, &context.packed_refs_path(), context.hash)
    }

    /// Where a file is to be written that will be renamed to the file of a ref: in the git
    /// directory, where nobody takes it for a ref, if that will do.
    pub(super) fn temporary_place(&self, name: &BStr) -> TemporaryPlace {
        let context = &self.context;
        let refs = context.common_dir.join("refs");
        let elsewhere = self.refs_are_elsewhere.get_or_init(|| {
            let device = |path: &Path| context.disk.stat(path).ok().flatten().map(|s| s.device);
            matches!((device(&context.common_dir), device(&refs)), (Some(a), Some(b)) if a != b)
        });
        if *elsewhere && !is_per_worktree(name) {
            TemporaryPlace { directory: refs, prefix: ".tmp_ref_" }
        } else {
            TemporaryPlace { directory: context.home_of(name).to_owned(), prefix: "tmp_ref_" }
        }
    }

    /// Reads the file of a ref.
    pub(super) fn read_loose(&self, name: &BStr) -> Result<Loose, RefError> {
        let disk = &self.context.disk;
        let path = self.context.ref_path(name);
        let stat = match disk.stat_link(&path) {
            // Such a file cannot be. What is to be done with it will fail for that reason.
            Err(error) if error.kind() == io::ErrorKind::InvalidFilename => None,
            result => result.doing("look at", &path)?,
        };
        match stat.map(|stat| stat.kind) {
            None => return Ok(Loose::Absent),
            Some(EntryKind::Directory) => return Ok(Loose::Directory),
            Some(EntryKind::Symlink) => {
                if let Some(target) = self.read_symlink(&path)? {
                    return Ok(Loose::Value(RefValue::Symbolic(target)));
                }
            }
            Some(EntryKind::File) => {}
            Some(EntryKind::Other) => return Ok(Loose::Broken),
        }
        match disk.read_if_there(&path, REF_FILE_BYTES_MAX) {
            Ok(Some(bytes)) => Ok(self.parse(&bytes)),
            Ok(None) => Ok(Loose::Absent),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(Loose::Directory),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(Loose::Broken),
            Err(error) => Err(error).doing("read", &path),
        }
    }

    /// A symbolic link that holds the name of a ref is how git once wrote symbolic refs; any
    /// other is read through.
    fn read_symlink(&self, path: &Path) -> Result<Option<BString>, RefError> {
        let target = self.context.disk.read_link(path).doing("read", path)?;
        let target = target.as_ref().map(|target| target.as_os_str().as_bytes());
        Ok(target
            .filter(|target| target.starts_with(b"refs/") && is_safe_name(target.as_bstr()))
            .map(BString::from))
    }

    fn parse(&self, bytes: &[u8]) -> Loose {
        let text = bytes.trim_end_with(|char| char.is_ascii_whitespace());
        if let Some(target) = text.strip_prefix(b"ref:") {
            let target = target.trim_start_with(|char| char.is_ascii_whitespace()).as_bstr();
            return if is_safe_name(target) {
                Loose::Value(RefValue::Symbolic(target.into()))
            } else {
                Loose::Broken
            };
        }
        let Some((hex, rest)) = text.split_at_checked(self.context.hash.len_in_hex()) else {
            return Loose::Broken;
        };
        match ObjectId::from_hex(hex) {
            // git takes the null id for damage; nothing else could name it.
            Ok(id) if !id.is_null() && rest.first().is_none_or(u8::is_ascii_whitespace) => {
                Loose::Value(RefValue::Id(id))
            }
            _ => Loose::Broken,
        }
    }
}

/// Whether a name found in a file leads to a ref and nowhere else: below refs and well formed, or
/// like HEAD.
fn is_safe_name(name: &BStr) -> bool {
    let is_root =
        || !name.is_empty() && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    is_root() || RefName::for_deletion(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HashKind;
    use crate::refs::testing::{TestRepository, commit, name};
    use std::os::unix::fs::symlink;

    const X: &str = "refs/heads/x";

    fn id_in(repository: &TestRepository, text: &str) -> Option<ObjectId> {
        repository.store().resolve(&name(text)).unwrap().id
    }

    #[test]
    fn a_file_wins_over_packed_refs() {
        let repository = TestRepository::new();
        let store = repository.store();
        assert_eq!(store.find(&name(X)).unwrap(), None);
        repository.write("packed-refs", format!("{} {X}\n", commit(0)));
        assert_eq!(store.find(&name(X)).unwrap(), Some(RefValue::Id(commit(0))));
        repository.set(X, commit(1));
        assert_eq!(store.find(&name(X)).unwrap(), Some(RefValue::Id(commit(1))));
    }

    #[test]
    fn a_directory_at_the_place_of_a_ref_hides_no_packed_ref() {
        let repository = TestRepository::new();
        repository.write("packed-refs", format!("{} {X}\n", commit(0)));
        std::fs::create_dir_all(repository.path("refs/heads/x/empty")).unwrap();
        assert_eq!(id_in(&repository, X), Some(commit(0)));
        assert_eq!(id_in(&repository, "refs/heads/x/empty"), None);
        assert_eq!(id_in(&repository, "refs/heads/x/empty/below"), None);
    }

    #[test]
    fn values_are_read_as_git_reads_them() {
        let id = commit(0);
        for (content, good) in [
            (format!("{id}\n"), true),
            (format!("{id}"), true),
            (format!("{id} \r\n\n"), true),
            (format!("{id} and words\n"), true),
            (format!("{id}\tand words\n"), true),
            (format!("{id}x\n"), false),
            (format!(" {id}\n"), false),
            (String::new(), false),
            ("\n".to_owned(), false),
            (id.to_string()[..39].to_owned(), false),
            (format!("{id}000000000000000000000000\n"), false),
            ("ref:refs/heads/good".to_owned(), true),
            ("ref: \t refs/heads/good \n".to_owned(), true),
            ("ref: refs/heads/../heads/good\n".to_owned(), false),
            ("ref: ../../etc/passwd\n".to_owned(), false),
            ("ref: /etc/passwd\n".to_owned(), false),
            ("ref:\n".to_owned(), false),
            ("ref: \n".to_owned(), false),
            ("reference\n".to_owned(), false),
        ] {
            let repository = TestRepository::new();
            repository.set("refs/heads/good", id);
            repository.write(X, &content);
            let theirs = repository.try_git(&["rev-parse", "--verify", "-q", X], b"");
            assert_eq!(theirs.is_ok(), good, "{content:?} {theirs:?}");
            match repository.store().resolve(&name(X)) {
                Ok(resolved) => assert!(good && resolved.id == Some(id), "{content:?}"),
                Err(RefError::Broken { .. }) => assert!(!good, "{content:?}"),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_file_without_bound_is_broken_and_not_read_to_the_end() {
        let repository = TestRepository::new();
        repository.write(X, vec![b'0'; 1 << 17]);
        assert!(matches!(repository.store().find(&name(X)), Err(RefError::Broken { .. })));
    }

    #[test]
    fn symbolic_refs_are_followed_as_far_as_git_does() {
        let repository = TestRepository::new();
        repository.set("refs/heads/s0", commit(0));
        for number in 1..=5 {
            let before = number - 1;
            repository
                .write(&format!("refs/heads/s{number}"), format!("ref: refs/heads/s{before}\n"));
        }
        let fine = repository.store().resolve(&name("refs/heads/s4")).unwrap();
        assert_eq!((fine.id, fine.chain.len()), (Some(commit(0)), 5));
        assert_eq!(fine.target(), "refs/heads/s0");
        assert!(fine.is_symbolic());
        let deep = repository.store().resolve(&name("refs/heads/s5"));
        assert!(matches!(deep, Err(RefError::SymrefTooDeep { .. })));
        let git = |name| repository.try_git(&["rev-parse", "--verify", "-q", name], b"");
        assert!(git("refs/heads/s4").is_ok());
        assert!(git("refs/heads/s5").is_err());
        repository.write(X, format!("ref: {X}\n"));
        let circle = repository.store().resolve(&name(X));
        assert!(matches!(circle, Err(RefError::SymrefTooDeep { .. })));
    }

    #[test]
    fn a_symbolic_ref_to_nothing_leads_there() {
        let repository = TestRepository::new();
        repository.write(X, "ref: refs/heads/none\n");
        let resolved = repository.store().resolve(&name(X)).unwrap();
        assert_eq!((resolved.target(), resolved.id), ("refs/heads/none".into(), None));
    }

    #[test]
    fn head_is_read_symbolic_detached_and_missing() {
        let repository = TestRepository::new();
        let store = repository.store();
        assert_eq!(store.head().unwrap(), Some(RefValue::Symbolic("refs/heads/main".into())));
        assert_eq!(store.resolve_head().unwrap().id, None);
        repository.set("refs/heads/main", commit(0));
        assert_eq!(store.resolve_head().unwrap().id, Some(commit(0)));
        repository.set("HEAD", commit(1));
        assert_eq!(store.head().unwrap(), Some(RefValue::Id(commit(1))));
        assert_eq!(store.resolve_head().unwrap().target(), "HEAD");
        std::fs::remove_file(repository.path("HEAD")).unwrap();
        assert_eq!(store.head().unwrap(), None);
    }

    #[test]
    fn symbolic_links_are_symbolic_refs_if_they_name_one() {
        let repository = TestRepository::new();
        repository.set("refs/heads/main", commit(0));
        symlink("refs/heads/main", repository.path(X)).unwrap();
        symlink("main", repository.path("refs/heads/y")).unwrap();
        symlink("refs/heads/none", repository.path("refs/heads/z")).unwrap();
        symlink("nowhere", repository.path("refs/heads/w")).unwrap();
        let store = repository.store();
        let symbolic = RefValue::Symbolic("refs/heads/main".into());
        assert_eq!(store.find(&name(X)).unwrap(), Some(symbolic));
        assert_eq!(store.find(&name("refs/heads/y")).unwrap(), Some(RefValue::Id(commit(0))));
        assert_eq!(id_in(&repository, "refs/heads/z"), None);
        assert_eq!(store.find(&name("refs/heads/w")).unwrap(), None);
    }

    #[test]
    fn a_linked_worktree_has_its_own_head_and_shares_branches() {
        let repository = TestRepository::new();
        repository.set("refs/heads/main", commit(0));
        let worktree = repository.path("../w");
        repository.git(&["worktree", "add", "-q", "--detach", worktree.to_str().unwrap(), "main"]);
        let git_dir = repository.path("worktrees/w");
        repository.set("worktrees/w/refs/bisect/bad", commit(1));
        repository.set("refs/bisect/bad", commit(2));
        let context = RefContext { git_dir, ..repository.context() };
        let store = RefStore::new(context);
        assert_eq!(store.head().unwrap(), Some(RefValue::Id(commit(0))));
        let id = |text: &str| store.resolve(&name(text)).unwrap().id;
        assert_eq!(id("refs/heads/main"), Some(commit(0)));
        assert_eq!(id("refs/bisect/bad"), Some(commit(1)));
        assert_eq!(id_in(&repository, "refs/bisect/bad"), Some(commit(2)));
        let listed: Vec<_> = store.list().unwrap().refs.into_iter().map(|one| one.id).collect();
        assert_eq!(listed, [commit(1), commit(0)]);
    }

    #[test]
    fn ids_are_as_long_as_the_repositorys() {
        let repository = TestRepository::new();
        repository.set(X, commit(0));
        let context = RefContext { hash: HashKind::Sha256, ..repository.context() };
        let store = RefStore::new(context);
        assert!(matches!(store.find(&name(X)), Err(RefError::Broken { .. })));
        let long = ObjectId::null(HashKind::Sha256).to_string().replace('0', "a");
        repository.write(X, format!("{long}\n"));
        assert_eq!(store.resolve(&name(X)).unwrap().id.unwrap().to_string(), long);
    }
}
