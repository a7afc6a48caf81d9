//! The tips of alternates: what a client need not send to a fork although no ref of the fork
//! leads to it.
//!
//! As git's `transport.c` (`refs_from_alternate_cb`) and git-config(1) (`core.alternateRefsCommand`,
//! `core.alternateRefsPrefixes`) have it: every ref of every repository that objects are borrowed
//! from, in the order in which the alternates are named. The refs are read here where git starts
//! a process for each alternate; a process is started for a configured command.
//!
//! Tips only save bytes on the wire and walks of old history. So nothing in here fails a push: an
//! alternate whose refs cannot be read has none.

use super::Receiver;
use super::settings::PushSettings;
use crate::model::{HashKind, ObjectId};
use crate::refs::{RefContext, RefStore, RefView, Reftable};
use crate::repo::{Environment, LOCAL_VARIABLES, Repository, object_directories};
use bstr::{BStr, BString, ByteSlice};
use gix_glob::wildmatch::Mode;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// LIMIT: tips of alternates that an advertisement tells. Those after them are sent again by a
/// client that has nothing else in common with the fork.
const TIPS_MAX: usize = 50_000;

/// What is asked of an alternate's refs.
#[derive(Clone, Debug, Default)]
pub(super) struct AlternateSettings {
    /// `core.alternateRefsCommand`.
    pub(super) command: Option<BString>,
    /// The words of `core.alternateRefsPrefixes`; none means all refs.
    pub(super) prefixes: Vec<BString>,
}

/// The tips of all alternates of a repository, as they were when they were looked at.
#[derive(Debug)]
pub(super) struct AlternateTips {
    sources: Vec<Source>,
    prefixes: Vec<BString>,
}

#[derive(Debug)]
enum Source {
    Refs(RefView),
    Told(Vec<ObjectId>),
}

impl Receiver {
    /// Looks at the refs of the alternates of `repository`, whose own refs are `store`.
    pub(super) fn alternate_tips(
        &self,
        repository: &Repository,
        environment: &Environment,
        store: &RefStore,
        settings: &PushSettings,
    ) -> AlternateTips {
        let asked = &settings.alternate_refs;
        let directories = object_directories(repository, environment);
        let alternates = directories.map(|found| found.alternates).unwrap_or_default();
        let sources = alternates.iter().filter_map(|objects| repository_of(repository, objects));
        let sources = sources.filter_map(|home| match &asked.command {
            Some(command) => {
                let command = shell(command.as_bstr(), &home);
                let told = run(command, repository, environment, repository.hash());
                Some(Source::Told(told))
            }
            None => self.refs_of(home, store, environment).map(Source::Refs),
        });
        AlternateTips { sources: sources.collect(), prefixes: asked.prefixes.clone() }
    }

    fn refs_of(
        &self,
        home: PathBuf,
        store: &RefStore,
        environment: &Environment,
    ) -> Option<RefView> {
        let packed = self.packed_refs_of(&home);
        let reftable = home.join("reftable").is_dir().then(|| self.reftable_of(&home));
        let context = RefContext {
            git_dir: home.clone(),
            common_dir: home,
            namespace: None,
            ..store.context().clone()
        };
        let store = match reftable {
            Some(cache) => {
                // What names this repository must not name the alternate's.
                let elsewhere = environment.iter().filter(|(name, _)| !is_of_one_repository(name));
                RefStore::with_reftable(context, Reftable::new(elsewhere.collect(), cache))
            }
            None => RefStore::with_cache(context, packed),
        };
        store.view().ok()
    }
}

impl AlternateTips {
    /// Whether there is no alternate that could have any.
    pub(super) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// All tips, an id as often as refs lead to it.
    pub(super) fn all(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.sources.iter().flat_map(|source| {
            let refs = match source {
                Source::Refs(view) => Some(view.iter()),
                Source::Told(_) => None,
            };
            let told = match source {
                Source::Refs(_) => None,
                Source::Told(ids) => Some(ids.iter().copied()),
            };
            let refs = refs.into_iter().flatten();
            let refs =
                refs.filter(|entry| self.is_asked_for(entry.name)).map(|entry| entry.id.id());
            refs.chain(told.into_iter().flatten())
        })
    }

    /// The tips that are not in `known` yet, each once, as many as an advertisement tells; they are
    /// added to it.
    pub(super) fn news<'s>(
        &'s self,
        known: &'s mut HashSet<ObjectId>,
    ) -> impl Iterator<Item = ObjectId> + 's {
        self.all().filter(|id| known.insert(*id)).take(TIPS_MAX)
    }

    /// Whether git-for-each-ref(1) would list a ref: a pattern matches the whole name, or stands
    /// at its beginning up to a slash.
    fn is_asked_for(&self, name: &BStr) -> bool {
        let matches = |pattern: &BString| {
            let begins = name.strip_prefix(pattern.as_slice()).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(b"/") || pattern.ends_with(b"/")
            });
            let mode = Mode::NO_MATCH_SLASH_LITERAL;
            begins || gix_glob::wildmatch(pattern.as_bstr(), name, mode)
        };
        self.prefixes.is_empty() || self.prefixes.iter().any(matches)
    }
}

/// The repository that an objects directory belongs to; `None` for one that stands alone, which has
/// no refs.
fn repository_of(repository: &Repository, objects: &Path) -> Option<PathBuf> {
    let home = objects.parent().filter(|_| objects.file_name() == Some(OsStr::new("objects")))?;
    let refs = repository.disk().stat(&home.join("refs")).ok().flatten()?;
    (refs.kind == crate::repo::EntryKind::Directory).then(|| home.to_owned())
}

/// The configured command, with the repository as its argument.
fn shell(command: &BStr, home: &Path) -> Command {
    let mut script = command.to_vec();
    script.extend_from_slice(b" \"$@\"");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(OsStr::from_bytes(&script)).arg(OsStr::from_bytes(command)).arg(home);
    shell
}

/// What a command says, an id a line, up to the first line that is none.
fn run(
    mut command: Command,
    repository: &Repository,
    environment: &Environment,
    hash: HashKind,
) -> Vec<ObjectId> {
    command.current_dir(repository.git_dir()).env_clear();
    // What names this repository must not name the alternate's.
    command.envs(environment.iter().filter(|(name, _)| !is_of_one_repository(name)));
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return Vec::new() };
    let mut text = Vec::new();
    if let Some(output) = child.stdout.take() {
        let bytes_max = (TIPS_MAX * (hash.len_in_hex() + 1)) as u64;
        // What came before an error counts.
        let _ = output.take(bytes_max).read_to_end(&mut text);
    }
    // It has ended, or has said more than is wanted; and its status says nothing, as with git.
    let _ = child.kill();
    let _ = child.wait();
    let id = |line| ObjectId::from_hex(line).ok().filter(|id| id.kind() == hash);
    text.split(|byte| *byte == b'\n').map_while(id).collect()
}

/// The variables of `git rev-parse --local-env-vars`, configuration included.
fn is_of_one_repository(name: &OsStr) -> bool {
    const CONFIGURATION: [&str; 3] = ["GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"];
    LOCAL_VARIABLES.iter().chain(&CONFIGURATION).any(|one| name == *one)
}
