//! An index file on disk: which file it is, and how to search it where it lies.
//!
//! An index that is large, or does not fit the memory budget, is searched with positioned reads:
//! its fan-out table is kept, ids are read in blocks. The file is opened when it is first asked,
//! and is one of a bounded number of open files. A large index that fits is read whole once it has
//! been asked so often that this pays: a process that is started for one small push never reads
//! the index of a big repository.

use super::descriptors::Descriptors;
use super::error::{IndexFault, SnapshotError};
use super::layout::{IndexError, Layout, Place, ReadAt, has_right_checksum};
use super::listed_multi::MULTI_KEY;
use super::multi_pack_index::MultiPackIndex;
use super::run::{PackFile, Run, next_number};
use crate::model::{HashKind, oid};
use crate::repo::{Disk, Stat};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Which file a path names: two files that had one name, one after the other, differ.
///
/// Together with the pack checksum inside the index, against which a pack is checked when it is
/// opened, this is what an index is known by. Its name is not: `git repack -f` of old git versions
/// gave a new pack the name of the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) inode: u64,
    pub(super) size: u64,
    modified: (i64, i64),
}

/// A pack index or a multi-pack-index.
#[derive(Debug)]
pub(super) struct IndexFile {
    /// Names the file among the open ones.
    number: u64,
    identity: Identity,
    covers: Covers,
    layout: OnceLock<Box<Layout>>,
    /// Whether there is memory for its table.
    may_load: AtomicBool,
    searches: AtomicU32,
    /// The table, once it has been read.
    table: OnceLock<Box<Run>>,
}

/// The packs of an index.
#[derive(Debug)]
enum Covers {
    /// The one beside it.
    One(Arc<PackFile>),
    /// Those that a multi-pack-index names.
    Many { index: PathBuf, packs: Vec<Arc<PackFile>> },
}

/// Bytes of an index that is read when it is met. A larger one is searched where it lies at first.
const LARGE_BYTES: u64 = 1 << 20;

/// A table is read after one search for so many of its objects: reading it takes about as long as
/// the searches have taken by then.
const OBJECTS_PER_SEARCH: u32 = 32;

/// An index that is not what it was when it was listed.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// It has gone, or another is in its place: what was listed is out of date.
    Gone(PathBuf),
    /// It is there and cannot be read.
    Error(SnapshotError),
}

/// Ids that are read at once. The place of an id is guessed from its bytes; among a million ids
/// beginning with one byte the guess is off by 500 at the most, nearly always.
const BLOCK_IDS: u32 = 256;

/// Guesses before the search falls back to halving, which no distribution of ids can slow down.
const GUESSES_MAX: u32 = 4;

impl Identity {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { inode: stat.inode, size: stat.size, modified: stat.modified }
    }

    pub(super) fn of_file(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    /// Bytes of memory that the index takes when merged into a run, by its size on disk: a run
    /// needs 12 bytes beside an id, an index 8.
    pub(super) fn memory_estimate(self) -> u64 {
        self.size.saturating_add(self.size / 7)
    }
}

impl IndexFile {
    /// The index of one pack. Nothing is opened.
    pub(super) fn new(identity: Identity, pack: Arc<PackFile>) -> Self {
        Self::with(identity, Covers::One(pack), OnceLock::new())
    }

    /// A multi-pack-index whose layout has been read.
    pub(super) fn new_multi(
        path: PathBuf,
        identity: Identity,
        packs: Vec<Arc<PackFile>>,
        layout: Layout,
    ) -> Self {
        Self::with(identity, Covers::Many { index: path, packs }, Box::new(layout).into())
    }

    fn with(identity: Identity, covers: Covers, layout: OnceLock<Box<Layout>>) -> Self {
        Self {
            number: next_number(),
            identity,
            covers,
            layout,
            may_load: AtomicBool::new(false),
            searches: AtomicU32::new(0),
            table: OnceLock::new(),
        }
    }

    /// Whether it is searched where it lies until that has been done often. A multi-pack-index is
    /// not: a damaged one is ignored, which must be known before anything is found in it.
    pub(super) fn is_large(&self) -> bool {
        !self.is_multi() && self.identity.size > LARGE_BYTES
    }

    /// Whether its table was read because it was searched often.
    pub(super) fn is_loaded(&self) -> bool {
        self.table.get().is_some()
    }

    /// Whether there is memory for the table of a large index.
    pub(super) fn may_load(&self) -> bool {
        self.may_load.load(Ordering::Relaxed)
    }

    /// Says whether there is memory for the table of a large index.
    pub(super) fn let_load(&self, may_load: bool) {
        self.may_load.store(may_load, Ordering::Relaxed);
    }

    /// The number under which the file is open when it is searched where it lies.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn path(&self) -> Cow<'_, Path> {
        match &self.covers {
            Covers::One(pack) => Cow::Owned(pack.path.with_extension("idx")),
            Covers::Many { index, .. } => Cow::Borrowed(index),
        }
    }

    /// What the index goes by among those of its directory: its name without `.idx`.
    pub(super) fn stem(&self) -> &OsStr {
        match &self.covers {
            Covers::One(pack) => pack.path.file_stem().unwrap_or_default(),
            Covers::Many { .. } => OsStr::new(MULTI_KEY),
        }
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn packs(&self) -> &[Arc<PackFile>] {
        match &self.covers {
            Covers::One(pack) => std::slice::from_ref(pack),
            Covers::Many { packs, .. } => packs,
        }
    }

    /// Reads the whole index into a table.
    pub(super) fn load(&self, file: &File, hash: HashKind) -> Result<Run, Unreadable> {
        let mut run = Run::new(hash.len_in_bytes());
        self.load_into(&mut run, file, hash, &mut Vec::new())?;
        run.sort();
        Ok(run)
    }

    /// The same into one that has others. `buffer` is used for the bytes.
    pub(super) fn load_into(
        &self,
        run: &mut Run,
        file: &File,
        hash: HashKind,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Unreadable> {
        let size = usize::try_from(self.identity.size)
            .map_err(|_| self.error(io::ErrorKind::OutOfMemory.into()))?;
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        let bytes = buffer.get_mut(..size).unwrap_or_default();
        file.read_exact_at(bytes, 0).map_err(|error| self.error(error))?;
        self.parse_into(run, bytes, hash).map_err(|error| self.unreadable(error))
    }

    /// Reads the index from its bytes.
    pub(super) fn parse(&self, bytes: &[u8], hash: HashKind) -> Result<Run, IndexError> {
        let mut run = Run::new(hash.len_in_bytes());
        self.parse_into(&mut run, bytes, hash)?;
        run.sort();
        Ok(run)
    }

    fn parse_into(&self, run: &mut Run, bytes: &[u8], hash: HashKind) -> Result<(), IndexError> {
        let layout = read_layout(bytes, bytes.len() as u64, hash, self.is_multi())?;
        let check = || has_right_checksum(bytes, hash);
        let is_right = if self.is_large() {
            // Alone in its table, which is of no use to anybody if the checksum is wrong.
            thread::scope(|scope| {
                let checked = thread::Builder::new().spawn_scoped(scope, check);
                run.add_index(&layout, bytes, self.packs())?;
                let checked = checked.ok().and_then(|checked| checked.join().ok());
                Ok::<_, IndexError>(checked.unwrap_or_else(check))
            })?
        } else {
            check()
        };
        if !is_right {
            return Err(IndexFault::Checksum.into());
        }
        self.note_checksum(&layout);
        if self.is_large() { Ok(()) } else { run.add_index(&layout, bytes, self.packs()) }
    }

    /// Looks an object up where the index lies, or in its table if that has been read.
    pub(super) fn find(
        &self,
        id: &oid,
        disk: &Disk,
        open: &Descriptors<File>,
        hash: HashKind,
    ) -> Result<Option<(&Arc<PackFile>, u64)>, Unreadable> {
        if let Some(table) = self.table.get() {
            return Ok(table.find(id).next());
        }
        let file = open.file(self.number, || self.open(disk))?;
        let layout = if let Some(layout) = self.layout.get() {
            layout
        } else {
            let layout = read_layout(&*file, self.identity.size, hash, self.is_multi())
                .map_err(|error| self.unreadable(error))?;
            self.note_checksum(&layout);
            self.layout.get_or_init(|| Box::new(layout))
        };
        if self.is_worth_loading(layout) {
            let table = Box::new(self.load(&file, hash)?);
            return Ok(self.table.get_or_init(|| table).find(id).next());
        }
        let place =
            search(layout, &*file, id.as_bytes()).map_err(|error| self.unreadable(error))?;
        match place {
            None => Ok(None),
            Some(Place { pack, offset }) => match self.packs().get(pack as usize) {
                Some(pack) => Ok(Some((pack, offset))),
                None => Err(self.unreadable(IndexFault::PackNames.into())),
            },
        }
    }

    /// Whether this is the search after which the table is read. One of all threads is told so,
    /// the others go on as before until it is done.
    fn is_worth_loading(&self, layout: &Layout) -> bool {
        self.may_load()
            && self.searches.fetch_add(1, Ordering::Relaxed) == layout.count() / OBJECTS_PER_SEARCH
    }

    fn note_checksum(&self, layout: &Layout) {
        if let ([pack], Some(checksum)) = (self.packs(), layout.pack_checksum()) {
            pack.checksum.get_or_init(|| checksum);
        }
    }

    /// Opens the file, if it still is the one that was listed.
    pub(super) fn open(&self, disk: &Disk) -> Result<File, Unreadable> {
        let path = self.path();
        let file = match disk.open(&path) {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Err(Unreadable::Gone(path.into_owned())),
            Err(error) => return Err(self.error(error)),
        };
        match Identity::of_file(&file) {
            Ok(identity) if identity == self.identity => Ok(file),
            Ok(_) => Err(Unreadable::Gone(path.into_owned())),
            Err(error) => Err(self.error(error)),
        }
    }

    fn is_multi(&self) -> bool {
        matches!(self.covers, Covers::Many { .. })
    }

    fn error(&self, error: io::Error) -> Unreadable {
        Unreadable::Error(SnapshotError::io(&self.path(), error))
    }

    fn unreadable(&self, error: IndexError) -> Unreadable {
        match error {
            IndexError::Io(error) => self.error(error),
            IndexError::Fault(fault) => {
                Unreadable::Error(SnapshotError::corrupt_index(&self.path(), fault))
            }
        }
    }
}

/// Whether a file is not there any more. ESTALE is how NFS says so of a file that was open.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::StaleNetworkFileHandle
    )
}

fn read_layout(
    source: &(impl ReadAt + ?Sized),
    size: u64,
    hash: HashKind,
    is_multi: bool,
) -> Result<Layout, IndexError> {
    if is_multi {
        MultiPackIndex::read(source, size, hash).map(|multi| multi.layout)
    } else {
        Layout::read(source, size, hash)
    }
}

/// Finds an id with few reads: the ids are hashes, so that an id's bytes tell about where it is.
fn search(
    layout: &Layout,
    source: &(impl ReadAt + ?Sized),
    id: &[u8],
) -> Result<Option<Place>, IndexError> {
    let Some(first) = id.first().filter(|_| id.len() == layout.id_bytes()) else {
        return Ok(None);
    };
    let mut bounds = layout.bucket(*first);
    let mut keys = 0..1u64 << 32;
    let mut block = Vec::new();
    for attempt in 0.. {
        if bounds.is_empty() {
            break;
        }
        let middle = if attempt < GUESSES_MAX {
            guess(&bounds, &keys, key_of(id))
        } else {
            bounds.start + (bounds.end - bounds.start) / 2
        };
        let start = middle.saturating_sub(BLOCK_IDS / 2).max(bounds.start);
        let end = start.saturating_add(BLOCK_IDS).min(bounds.end);
        layout.read_ids(source, start..end, &mut block)?;
        let count = (end - start) as usize;
        let (lowest, highest) = (layout.id_in(&block, 0), layout.id_in(&block, count - 1));
        if id < lowest {
            bounds.end = start;
            keys.end = key_of(lowest).saturating_add(1);
        } else if id > highest {
            bounds.start = end;
            keys.start = key_of(highest);
        } else {
            for (position, index) in (start..end).zip(0..count) {
                if layout.id_in(&block, index) == id {
                    return layout.place(source, position).map(Some);
                }
            }
            break;
        }
    }
    Ok(None)
}

/// The four bytes behind the first, as a number.
fn key_of(id: &[u8]) -> u64 {
    match *id {
        [_, b0, b1, b2, b3, ..] => u64::from(u32::from_be_bytes([b0, b1, b2, b3])),
        _ => 0,
    }
}

/// Where in `bounds` a key is, if the keys are spread evenly.
fn guess(bounds: &Range<u32>, keys: &Range<u64>, key: u64) -> u32 {
    let width = keys.end.saturating_sub(keys.start).max(1);
    let ahead = key.saturating_sub(keys.start).min(width);
    // 33 bits times 32 bits: cannot overflow 128.
    let count = u128::from(bounds.end - bounds.start);
    let offset = u128::from(ahead) * count / u128::from(width);
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    bounds.start.saturating_add(offset).min(bounds.end.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectId;
    use crate::snapshot::testing::{checksum, index_v1, index_v2};
    use proptest::prelude::*;
    use std::cell::Cell;

    /// Ids as hashes are, and ids that somebody chose to make guessing useless.
    fn any_ids() -> impl Strategy<Value = Vec<ObjectId>> {
        let id = prop_oneof![
            8 => any::<[u8; 20]>(),
            4 => (0..3u8, any::<[u8; 2]>()).prop_map(|(first, [a, b])| {
                let mut id = [0; 20];
                (id[0], id[1], id[19]) = (first, a, b);
                id
            }),
            1 => Just([0xff; 20]),
        ];
        prop::collection::btree_set(id, 0..3000)
            .prop_map(|ids| ids.into_iter().map(ObjectId::Sha1).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_search_where_it_lies_finds_what_is_there_and_nothing_else(ids in any_ids()) {
            let places: Vec<_> =
                ids.iter().enumerate().map(|(n, id)| (*id, 12 + 7 * n as u64)).collect();
            let pack = checksum(HashKind::Sha1, b"");
            for bytes in [
                index_v1(HashKind::Sha1, &places, &pack),
                index_v2(HashKind::Sha1, &places, &pack),
            ] {
                let layout = Layout::read(&bytes[..], bytes.len() as u64, HashKind::Sha1).unwrap();
                for (id, offset) in places.iter().step_by(1 + places.len() / 100) {
                    let found = search(&layout, &bytes[..], id.as_bytes()).unwrap();
                    prop_assert_eq!(found, Some(Place { pack: 0, offset: *offset }));
                    let mut other = *id.as_bytes().first_chunk::<20>().unwrap();
                    other[10] ^= 1;
                    if !ids.contains(&ObjectId::Sha1(other)) {
                        prop_assert_eq!(search(&layout, &bytes[..], &other).unwrap(), None);
                    }
                }
            }
        }
    }

    /// Counts reads.
    struct Counting<'a>(&'a [u8], Cell<u32>);

    impl ReadAt for Counting<'_> {
        fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            self.1.set(self.1.get() + 1);
            self.0.read_exact_at(buffer, offset)
        }
    }

    #[test]
    fn an_object_among_many_is_found_with_few_reads_even_if_the_ids_were_chosen() {
        let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for (chosen, reads_max) in [(false, 3), (true, 16)] {
            let ids = (0..100_000u64).map(|n| {
                let mut id = [0; 20];
                if chosen {
                    // All but one in a row at the end of the bucket's range of keys.
                    id[1..5].fill(if n == 0 { 0 } else { 0xff });
                    id[8..16].copy_from_slice(&n.to_be_bytes());
                } else {
                    id[1..9].copy_from_slice(&spread(n).to_be_bytes());
                }
                (ObjectId::Sha1(id), 12 + n)
            });
            let mut ids: Vec<_> = ids.collect();
            ids.sort();
            let bytes = index_v2(HashKind::Sha1, &ids, &checksum(HashKind::Sha1, b""));
            let layout = Layout::read(&bytes[..], bytes.len() as u64, HashKind::Sha1).unwrap();
            for (id, offset) in ids.iter().step_by(997) {
                let source = Counting(&bytes, Cell::new(0));
                let found = search(&layout, &source, id.as_bytes()).unwrap();
                assert_eq!(found, Some(Place { pack: 0, offset: *offset }));
                assert!(source.1.get() <= reads_max, "{}", source.1.get());
            }
        }
    }

    /// The file of an index of so many objects, and their ids.
    fn stored(directory: &Path, count: u64) -> (IndexFile, Vec<ObjectId>) {
        let mut places: Vec<_> = (0..count)
            .map(|n| {
                let mut id = [0; 20];
                id[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
                (ObjectId::Sha1(id), 12 + n)
            })
            .collect();
        places.sort();
        let path = directory.join("pack-1.idx");
        let bytes = index_v2(HashKind::Sha1, &places, &checksum(HashKind::Sha1, b""));
        std::fs::write(&path, bytes).unwrap();
        let identity = Identity::of_file(&File::open(&path).unwrap()).unwrap();
        let pack = Arc::new(PackFile::new(path.with_extension("pack")));
        let ids = places.into_iter().map(|(id, _)| id).collect();
        (IndexFile::new(identity, pack), ids)
    }

    #[test]
    fn a_large_index_is_read_whole_once_it_has_been_searched_often() {
        let directory = tempfile::tempdir().unwrap();
        let (index, ids) = stored(directory.path(), 40_000);
        assert!(index.is_large());
        let open = Descriptors::new(4);
        let find = |id: &ObjectId| index.find(id, &Disk::default(), &open, HashKind::Sha1);
        let searches = 40_000 / OBJECTS_PER_SEARCH as usize + 1;
        let mut offsets = Vec::new();
        for may_load in [false, true] {
            index.let_load(may_load);
            for id in &ids[..searches] {
                assert!(!index.is_loaded());
                offsets.push(find(id).unwrap_or_else(|_| panic!()).unwrap().1);
            }
        }
        assert!(index.is_loaded());
        let absent = ObjectId::Sha1([7; 20]);
        assert!(find(&absent).unwrap_or_else(|_| panic!()).is_none());
        let again = ids[..searches].iter().map(|id| find(id).unwrap_or_else(|_| panic!()));
        let again: Vec<_> = again.map(|found| found.unwrap().1).collect();
        assert_eq!([&again[..], &again].concat(), offsets);
    }

    #[test]
    fn a_damaged_large_index_is_an_error_when_it_is_read_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (index, ids) = stored(directory.path(), 40_000);
        let mut bytes = std::fs::read(index.path()).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(index.path(), &bytes).unwrap();
        let identity = Identity::of_file(&File::open(index.path()).unwrap()).unwrap();
        let index = IndexFile::new(identity, index.packs()[0].clone());
        index.let_load(true);
        let open = Descriptors::new(4);
        let searched =
            ids.iter().find_map(|id| index.find(id, &Disk::default(), &open, HashKind::Sha1).err());
        assert!(matches!(
            searched,
            Some(Unreadable::Error(SnapshotError::CorruptIndex {
                source: IndexFault::Checksum,
                ..
            }))
        ));
    }
}
