//! Index files: whatever is in one, a lookup ends with an answer or an error.
//!
//! The bytes become the idx of a pack that is there; the reader is not public, so that each run
//! goes through a repository's directory and a snapshot of it.

use packhouse::model::{HashKind, ObjectId};
use packhouse::repo::{Disk, FlushPolicy};
use packhouse::snapshot::{SnapshotCache, Sources};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// Where ids begin in an index of version 2.
const IDS_AT: usize = 8 + 256 * 4;

/// The pack beside the index: two blobs, and a third as a delta. The corpus has the index that
/// belongs to it.
pub const PACK: &[u8] = include_bytes!("idx.pack");

/// More than enough for the indexes of a corpus; none at all.
const BUDGETS: [u64; 2] = [64 << 20, 0];

thread_local! {
    static PLACE: Place = Place::new();
}

struct Place {
    objects: PathBuf,
    index: PathBuf,
    // Dropped with the thread.
    _directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = TempDir::new().expect("there is room for a directory");
        let objects = directory.path().join("objects");
        let packs = objects.join("pack");
        fs::create_dir_all(&packs).expect("a new directory can be written");
        let name = packs.join("pack-0000000000000000000000000000000000000001");
        fs::write(name.with_extension("pack"), PACK).expect("a new directory can be written");
        Self { objects, index: name.with_extension("idx"), _directory: directory }
    }
}

pub fn run(bytes: &[u8]) {
    PLACE.with(|place| {
        look_up(place, bytes);
        look_up(place, &super::sealed(bytes));
    });
}

fn look_up(place: &Place, index: &[u8]) {
    // A new file each time: an index that is there is never written into.
    let _ = fs::remove_file(&place.index);
    fs::write(&place.index, index).expect("the directory can be written");
    let ids = index.get(IDS_AT..).unwrap_or_default().chunks_exact(20).take(5);
    let mut ids: Vec<ObjectId> = ids.filter_map(|id| ObjectId::try_from(id).ok()).collect();
    ids.push(ObjectId::null(HashKind::Sha1));
    let sources = Sources { own: place.objects.clone(), alternates: Vec::new() };
    for budget in BUDGETS {
        let cache = SnapshotCache::new(Disk::new(FlushPolicy::NONE), budget);
        let Ok(snapshot) = cache.snapshot(&sources, HashKind::Sha1) else { continue };
        for id in &ids {
            let Ok(is_there) = snapshot.contains(id) else { continue };
            let occurs = index.windows(20).any(|window| window == id.as_slice());
            assert!(occurs || !is_there, "{id} is nowhere in the index");
            let _ = snapshot.kind_and_size(id);
            if let Ok(object) = snapshot.read_verified(id, 1 << 20) {
                assert!(object.is_none() || is_there);
            }
        }
    }
}
