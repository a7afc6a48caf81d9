//! The pushes: a request in a file, its pack alone, and the sizes of its objects.

use super::arguments::Arguments;
use super::histories;
use super::support::Outcome;
use super::support::git::{git, init_bare, said, told};
use super::support::objects::{Wish, command_list};
use packhouse::model::ObjectId;
use std::fs;
use std::path::{Path, PathBuf};

/// Which push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One commit with three blobs of a kilobyte.
    Small,
    /// Some 100,000 objects.
    Mid,
    /// One blob that does not compress, larger than git has in memory.
    Blob,
    /// All branches and tags of a history.
    Big,
    /// A thousand commits on top of that.
    Thin,
}

/// A push, ready to be sent.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) kind: Kind,
    /// The request, with the pack.
    pub(crate) body: PathBuf,
    /// The pack alone.
    pub(crate) pack: PathBuf,
    /// The sizes of its objects, one a line.
    pub(crate) sizes: PathBuf,
    /// The repository it is pushed to.
    pub(crate) base: PathBuf,
    /// All refs after the push.
    pub(crate) refs: String,
    pub(crate) objects: usize,
    pub(crate) megabytes: f64,
}

/// Commits of the thin push; each has about four objects.
const THIN_COMMITS: usize = 1000;

/// More than `core.bigFileThreshold`.
const BLOB_BYTES: usize = 600 << 20;

impl Kind {
    const ALL: [Self; 5] = [Self::Small, Self::Mid, Self::Blob, Self::Big, Self::Thin];

    pub(crate) fn parse(name: &str) -> Outcome<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("unknown input '{name}'").into())
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Mid => "mid",
            Self::Blob => "blob",
            Self::Big => "big",
            Self::Thin => "thin",
        }
    }

    /// Pushes of a turn.
    pub(crate) fn repeats(self) -> u32 {
        if self == Self::Small { 20 } else { 1 }
    }
}

impl Input {
    /// Makes the input below `prepared`, unless it is there.
    pub(crate) fn prepare(kind: Kind, arguments: &Arguments, prepared: &Path) -> Outcome<Self> {
        let place = prepared.join(kind.name());
        if !place.join("complete").exists() {
            if place.exists() {
                fs::remove_dir_all(&place)?;
            }
            fs::create_dir_all(&place)?;
            let begun = std::time::Instant::now();
            Self::make(kind, arguments, prepared, &place)
                .map_err(|error| format!("making '{}': {error}", kind.name()))?;
            fs::write(place.join("complete"), "")?;
            eprintln!("ingest: made '{}' in {:.0?}", kind.name(), begun.elapsed());
        }
        Self::read(kind, &place)
    }

    fn read(kind: Kind, place: &Path) -> Outcome<Self> {
        let bytes = u32::try_from(fs::metadata(place.join("pack"))?.len())?;
        Ok(Self {
            kind,
            body: place.join("body"),
            pack: place.join("pack"),
            sizes: place.join("sizes"),
            base: place.join("base.git"),
            refs: fs::read_to_string(place.join("refs"))?,
            objects: fs::read_to_string(place.join("sizes"))?.lines().count(),
            megabytes: f64::from(bytes) / 1e6,
        })
    }

    fn make(kind: Kind, arguments: &Arguments, prepared: &Path, place: &Path) -> Outcome<()> {
        let history = arguments.history.as_deref();
        let source = place.join("source.git");
        let base = place.join("base.git");
        let named = || history.ok_or("it needs --history DIR");
        let one = |from: &Path, commit: &str| -> Outcome<String> {
            let id = said(git(from).args(["rev-parse", commit]))?;
            Ok(format!("{} refs/heads/main\n", id.trim()))
        };
        let (from, refs, known) = match (kind, history) {
            (Kind::Small, _) => {
                histories::make_up_small(&source)?;
                (&*source, one(&source, "main")?, String::new())
            }
            (Kind::Blob, _) => {
                histories::make_up_blob(&source, BLOB_BYTES)?;
                (&*source, one(&source, "main")?, String::new())
            }
            (Kind::Mid, None) => {
                histories::make_up(&source, arguments.mid_objects)?;
                (&*source, one(&source, "main")?, String::new())
            }
            (Kind::Mid, Some(history)) => {
                let commit = histories::oldest_part(history, arguments.mid_objects)?;
                (history, format!("{commit} refs/heads/main\n"), String::new())
            }
            (Kind::Big, _) => (named()?, branches_and_tags(named()?)?, String::new()),
            (Kind::Thin, _) => {
                let known = branches_and_tags(named()?)?;
                histories::continue_history(named()?, &source, THIN_COMMITS)?;
                let refs = one(&source, "main")?.replace("heads/main", "heads/a-thousand-later");
                let big = Input::prepare(Kind::Big, arguments, prepared)?;
                histories::after_push(&base, &big.pack, &known)?;
                (&*source, refs, known)
            }
        };
        if kind != Kind::Thin {
            init_bare(&base)?;
        }
        write(from, &refs, &known, place)
    }
}

/// Writes the pack of what `refs` reach and `known` does not, the request, and the sizes.
fn write(from: &Path, refs: &str, known: &str, place: &Path) -> Outcome<()> {
    let revisions = first_words(refs, "") + &first_words(known, "^");
    let mut pack = git(from);
    pack.args(["pack-objects", "--stdout", "--revs", "--delta-base-offset", "-q"]);
    if !known.is_empty() {
        pack.arg("--thin");
    }
    let pack = told(&mut pack, revisions.as_bytes())?;
    let mut wishes = Vec::new();
    for line in refs.lines() {
        let (id, name) = line.split_once(' ').ok_or("a ref without a name")?;
        let new = ObjectId::from_hex(id.as_bytes())?;
        wishes.push(Wish { old: None, new, name: name.to_owned() });
    }
    fs::write(place.join("body"), [&command_list(&wishes)[..], &pack].concat())?;
    fs::write(place.join("pack"), pack)?;
    let listed = told(git(from).args(["rev-list", "--objects", "--stdin"]), revisions.as_bytes())?;
    let ids = first_words(&String::from_utf8_lossy(&listed), "");
    let mut sizes = git(from);
    sizes.args(["cat-file", "--batch-check=%(objectsize)", "--buffer"]);
    fs::write(place.join("sizes"), told(&mut sizes, ids.as_bytes())?)?;
    let mut all: Vec<&str> = refs.lines().chain(known.lines()).collect();
    all.sort_by_key(|line| line.split_once(' ').map(|(_, name)| name));
    Ok(fs::write(place.join("refs"), all.join("\n") + "\n")?)
}

/// The first word of each line, marked.
fn first_words(text: &str, mark: &str) -> String {
    let mut words = String::new();
    for line in text.lines() {
        let word = line.split(' ').next().unwrap_or_default();
        words.extend([mark, word, "\n"]);
    }
    words
}

fn branches_and_tags(repository: &Path) -> Outcome<String> {
    let format = "--format=%(objectname) %(refname)";
    said(git(repository).args(["for-each-ref", format, "refs/heads", "refs/tags"]))
}
