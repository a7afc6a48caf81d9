//! What the kernel tells of a directory stands for a listing, and never for less than one.

use super::freshness::{pack, put};
use crate::model::{HashKind, ObjectId};
use crate::snapshot::testing::{Done, MIB, PackBuilder, Store};
use crate::snapshot::{ObjectSnapshot, SnapshotCache};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Packs of a directory that others are at work in.
const MANY: usize = 64;

/// A store of many packs, and a cache that follows its directory.
fn followed() -> (Store, SnapshotCache) {
    let store = Store::bare();
    for number in 0..MANY {
        put(&store, number);
    }
    let cache = store.following_cache();
    follow(&store, &cache);
    (store, cache)
}

fn follow(store: &Store, cache: &SnapshotCache) {
    store.snapshot(cache);
    fs::write(store.packs().join("tmp_touch"), b"").unwrap();
    fs::remove_file(store.packs().join("tmp_touch")).unwrap();
    let (_, done) = store.count(|| store.snapshot(cache));
    assert_eq!(done, Done { stats: 1, ..Done::default() });
}

fn has(snapshot: &ObjectSnapshot, id: &ObjectId) -> bool {
    snapshot.contains(id).unwrap()
}

#[test]
fn a_directory_without_packs_is_followed_from_the_first_push() {
    let store = Store::bare();
    let cache = store.following_cache();
    follow(&store, &cache);
    let foreign = put(&store, 1);
    let (snapshot, done) = store.count(|| store.snapshot(&cache));
    assert_eq!((done.listings, done.opens), (0, 1));
    assert!(has(&snapshot, &foreign));
}

#[test]
fn a_pack_of_ours_costs_two_looks_and_a_foreign_one_an_open() {
    let (store, cache) = followed();
    for number in MANY..MANY + 20 {
        let (ours, our_id) = pack(2 * number);
        let index = ours.store(&store.packs());
        cache.note_pack(&store.objects(), &index, &fs::read(&index).unwrap());
        let (snapshot, done) = store.count(|| store.snapshot(&cache));
        assert_eq!(done, Done { stats: 3, ..Done::default() });
        assert!(has(&snapshot, &our_id));

        let foreign = put(&store, 2 * number + 1);
        let (next, done) = store.count(|| store.snapshot(&cache));
        assert_eq!(done, Done { stats: 3, opens: 1, ..Done::default() });
        assert!(has(&next, &foreign) && has(&next, &our_id));
        assert!(!has(&snapshot, &foreign), "a snapshot is as of when it was taken");
    }
}

#[test]
fn what_was_removed_is_no_longer_there_and_costs_no_listing() {
    let (store, cache) = followed();
    let (gone, id) = pack(1000);
    let index = gone.store(&store.packs());
    assert!(has(&store.snapshot(&cache), &id));
    for path in [&index, &index.with_extension("pack")] {
        let bytes = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        let (snapshot, done) = store.count(|| store.snapshot(&cache));
        assert_eq!((done.listings, done.opens), (0, 0));
        assert!(!has(&snapshot, &id) && has(&snapshot, &pack(3).1));
        fs::write(path, bytes).unwrap();
        assert!(has(&store.snapshot(&cache), &id));
    }
}

#[test]
fn an_index_that_was_removed_is_not_held_open() {
    let (store, cache) = followed();
    let mut large = PackBuilder::new(HashKind::Sha1);
    // Of which the index is large enough to be searched where it lies.
    let ids: Vec<_> =
        (0..40_000).map(|number| large.blob(format!("{number}").as_bytes())).collect();
    let index = large.store(&store.packs());
    assert!(has(&store.snapshot(&cache), &ids[0]));
    let held_open = || {
        let links = fs::read_dir("/proc/self/fd").unwrap();
        let links = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
        links.filter(|path| path.to_string_lossy().starts_with(&*index.to_string_lossy())).count()
    };
    assert_eq!(held_open(), 1);
    fs::remove_file(&index).unwrap();
    let (snapshot, done) = store.count(|| store.snapshot(&cache));
    assert!(!has(&snapshot, &ids[0]));
    assert_eq!((done.listings, held_open()), (0, 0));
}

#[test]
fn an_index_counts_from_when_its_pack_is_there_whichever_comes_first() {
    let (store, cache) = followed();
    let elsewhere = Store::bare();
    for (number, endings) in [(1000, ["idx", "pack"]), (1001, ["pack", "idx"])] {
        let (new, id) = pack(number);
        let from = new.store(&elsewhere.packs());
        for (ending, is_there) in endings.into_iter().zip([false, true]) {
            let from = from.with_extension(ending);
            fs::rename(&from, store.packs().join(from.file_name().unwrap())).unwrap();
            let (snapshot, done) = store.count(|| store.snapshot(&cache));
            assert_eq!(has(&snapshot, &id), is_there);
            assert_eq!(done.listings, 0);
        }
    }
}

#[test]
fn a_refresh_lists_a_directory_that_is_followed() {
    let (store, cache) = followed();
    let snapshot = store.snapshot(&cache);
    let id = put(&store, 1000);
    let (found, done) = store.count(|| has(&snapshot.refreshing(), &id));
    assert!(found);
    assert_eq!((done.listings, done.opens), (1, 1));
    let later = put(&store, 1001);
    let (snapshot, done) = store.count(|| store.snapshot(&cache));
    assert!(has(&snapshot, &later));
    assert_eq!((done.listings, done.opens), (0, 1));
}

#[test]
fn another_directory_in_the_place_of_the_one_that_is_followed_is_listed() {
    let (store, cache) = followed();
    let other = Store::bare();
    let id = put(&other, 1000);
    let aside = store.root.path().join("aside");
    // The whole store is moved: nothing happens to the directory that is watched itself.
    fs::rename(store.objects(), &aside).unwrap();
    fs::rename(other.objects(), store.objects()).unwrap();
    let snapshot = store.snapshot(&cache);
    assert!(has(&snapshot, &id) && !has(&snapshot, &pack(0).1));
    fs::remove_dir_all(store.objects()).unwrap();
    assert!(!has(&store.snapshot(&cache), &id));
    fs::rename(&aside, store.objects()).unwrap();
    assert!(has(&store.snapshot(&cache), &pack(0).1));
}

#[test]
fn a_damaged_index_fails_every_push_until_it_is_gone() {
    let (store, cache) = followed();
    let (new, id) = pack(1000);
    let index = new.store(&store.packs());
    let bytes = fs::read(&index).unwrap();
    fs::write(&index, b"nonsense").unwrap();
    for _ in 0..3 {
        assert!(cache.snapshot(&store.sources(), store.hash).is_err());
    }
    fs::write(&index, bytes).unwrap();
    assert!(has(&store.snapshot(&cache), &id));
    fs::write(store.packs().join("pack-1.pack"), b"").unwrap();
    std::os::unix::fs::symlink("nowhere", store.packs().join("pack-1.idx")).unwrap();
    assert!(cache.snapshot(&store.sources(), store.hash).is_err(), "an index that is never there");
}

#[test]
fn more_changes_than_are_looked_at_one_by_one_are_listed() {
    let (store, cache) = followed();
    let ids: Vec<_> = (1000..1300).map(|number| put(&store, number)).collect();
    let (snapshot, done) = store.count(|| store.snapshot(&cache));
    assert_eq!((done.listings, done.opens), (1, 300));
    assert!(ids.iter().all(|id| has(&snapshot, id)));
}

#[test]
fn a_new_multi_pack_index_and_a_repack_are_seen() {
    let store = Store::git_init(HashKind::Sha1);
    store.commit("a", 3, true);
    let ids: Vec<_> = store.all_objects().into_iter().map(|(id, ..)| id).collect();
    for number in 0..MANY {
        put(&store, number);
    }
    let cache = store.following_cache();
    follow(&store, &cache);
    let all = |snapshot: &ObjectSnapshot| ids.iter().all(|id| has(snapshot, id));
    for command in [&["multi-pack-index", "write"][..], &["repack", "-aq"], &["repack", "-adq"]] {
        store.git(command);
        assert!(all(&store.snapshot(&cache)), "{command:?}");
        let foreign = put(&store, 5000 + command.len());
        assert!(has(&store.snapshot(&cache), &foreign), "{command:?}");
    }
}

/// A little generator of numbers, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// What other programs do to a pack directory, and what is there by now.
struct Others<'a> {
    packs: PathBuf,
    aside: &'a Path,
    numbers: Numbers,
    there: BTreeMap<PathBuf, ObjectId>,
    made: usize,
}

impl Others<'_> {
    fn act(&mut self) {
        let chosen = self.numbers.below(self.there.len().max(1));
        let some = self.there.iter().nth(chosen).map(|(index, id)| (index.clone(), *id));
        match (self.numbers.below(8), some) {
            (0..=2, _) | (_, None) => self.add(),
            // As a repack does it: what replaces a pack is there before that goes.
            (3, Some(_)) => {
                self.add();
                self.remove(chosen);
            }
            (4, Some(_)) => self.remove(chosen),
            (5, Some((index, _))) => {
                // The same bytes in another file.
                fs::copy(&index, self.aside.join("copy")).unwrap();
                fs::rename(self.aside.join("copy"), &index).unwrap();
            }
            (6, Some((index, id))) => {
                let renamed = self.packs.join(format!("pack-again{}.idx", self.made));
                self.made += 1;
                fs::rename(index.with_extension("pack"), renamed.with_extension("pack")).unwrap();
                fs::rename(&index, &renamed).unwrap();
                self.there.remove(&index);
                self.there.insert(renamed, id);
            }
            (_, Some(_)) => {
                // Another directory with the same files.
                fs::rename(&self.packs, self.aside.join("packs")).unwrap();
                fs::create_dir(&self.packs).unwrap();
                for entry in fs::read_dir(self.aside.join("packs")).unwrap() {
                    let path = entry.unwrap().path();
                    fs::rename(&path, self.packs.join(path.file_name().unwrap())).unwrap();
                }
                fs::remove_dir(self.aside.join("packs")).unwrap();
            }
        }
    }

    fn add(&mut self) {
        self.made += 1;
        let (pack, id) = pack(100_000 + self.made);
        self.there.insert(pack.store(&self.packs), id);
    }

    fn remove(&mut self, chosen: usize) {
        let Some(index) = self.there.keys().nth(chosen).cloned() else { return };
        fs::remove_file(&index).unwrap();
        fs::remove_file(index.with_extension("pack")).unwrap();
        self.there.remove(&index);
    }
}

#[test]
fn whatever_others_do_between_two_pushes_the_view_is_that_of_a_fresh_listing() {
    let (mut listings, mut looks) = (0, 0);
    for (seed, bytes_max) in [(1, 64 * MIB), (2, 64 * MIB), (3, 64 * 1200)] {
        let store = Store::bare();
        let aside = tempfile::tempdir_in(store.root.path()).unwrap();
        let (packs, numbers) = (store.packs(), Numbers(seed));
        let there = BTreeMap::new();
        let mut others = Others { packs, aside: aside.path(), numbers, there, made: 0 };
        for _ in 0..MANY {
            others.add();
        }
        let cache = SnapshotCache::following(store.disk.clone(), bytes_max);
        let mut ever: Vec<ObjectId> = Vec::new();
        for _ in 0..40 {
            for _ in 0..others.numbers.below(4) {
                others.act();
            }
            let (snapshot, done) = store.count(|| store.snapshot(&cache));
            listings += done.listings;
            looks += 1;
            let fresh = store.snapshot(&SnapshotCache::new(store.disk.clone(), bytes_max));
            ever.extend(others.there.values());
            ever.sort_unstable();
            ever.dedup();
            for id in &ever {
                let is_there = others.there.values().any(|other| other == id);
                assert_eq!(has(&snapshot, id), is_there, "{id}");
                assert_eq!(has(&fresh, id), is_there, "{id}");
                let read = snapshot.read_verified(id, MIB).unwrap();
                assert_eq!(read.is_some(), is_there, "{id}");
            }
        }
    }
    assert!(listings < looks / 2, "{listings} listings in {looks} looks: nothing was followed");
}

#[test]
fn what_was_in_place_before_a_push_began_is_seen_while_others_write_and_repack() {
    let (store, cache) = followed();
    let written = AtomicUsize::new(1000);
    let (is_over, has_looked) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let elsewhere = tempfile::tempdir_in(store.root.path()).unwrap();
            let mut old: Vec<PathBuf> = Vec::new();
            let mut whole = PackBuilder::new(HashKind::Sha1);
            for _ in 0..1000 {
                if has_looked.load(Ordering::SeqCst) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            for number in 1000..1400 {
                let (new, _) = pack(number);
                whole.blob(format!("blob {number}").as_bytes());
                old.push(arrive(new, elsewhere.path(), &store.packs()));
                written.store(number + 1, Ordering::SeqCst);
                if old.len() == 40 {
                    let bigger = std::mem::replace(&mut whole, PackBuilder::new(HashKind::Sha1));
                    arrive(bigger, elsewhere.path(), &store.packs());
                    for index in old.drain(..) {
                        fs::remove_file(&index).unwrap();
                        fs::remove_file(index.with_extension("pack")).unwrap();
                    }
                }
            }
            is_over.store(true, Ordering::SeqCst);
        });
        while !is_over.load(Ordering::SeqCst) && !writer.is_finished() {
            let before = written.load(Ordering::SeqCst);
            let snapshot = store.snapshot(&cache);
            for number in (1000..before).rev().take(60) {
                let id = pack(number).1;
                assert!(has(&snapshot, &id), "{number} of {before}");
                assert!(snapshot.read(&id, MIB).unwrap().is_some(), "{number} of {before}");
            }
            has_looked.store(true, Ordering::SeqCst);
        }
    });
}

/// Puts a pack in place as git does: by renames, the index last.
fn arrive(pack: PackBuilder, elsewhere: &Path, packs: &Path) -> PathBuf {
    let from = pack.store(elsewhere);
    let to = packs.join(from.file_name().unwrap());
    for ending in ["pack", "idx"] {
        fs::rename(from.with_extension(ending), to.with_extension(ending)).unwrap();
    }
    to
}
