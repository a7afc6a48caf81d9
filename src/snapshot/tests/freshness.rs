//! What is looked at on disk, how often, and when something new is seen.

use crate::model::HashKind;
use crate::snapshot::testing::{Done, MIB, PackBuilder, Store, id_of_hex, settle};
use crate::snapshot::{SnapshotCache, Sources};
use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A pack of one blob, different for each number.
pub(super) fn pack(number: usize) -> (PackBuilder, crate::model::ObjectId) {
    let mut pack = PackBuilder::new(HashKind::Sha1);
    let id = pack.blob(format!("blob {number}").as_bytes());
    (pack, id)
}

pub(super) fn put(store: &Store, number: usize) -> crate::model::ObjectId {
    let (pack, id) = pack(number);
    pack.store(&store.packs());
    id
}

#[test]
fn a_cold_snapshot_lists_once_and_opens_each_index_once() {
    let store = Store::bare();
    let ids: Vec<_> = (0..5).map(|number| put(&store, number)).collect();
    store.settle();
    let cache = store.cache();
    let (snapshot, done) = store.count(|| store.snapshot(&cache));
    assert_eq!(done, Done { stats: 2, listings: 1, opens: 5 });
    for id in ids {
        assert!(snapshot.contains(&id).unwrap());
    }
}

#[test]
fn a_warm_snapshot_costs_one_stat_for_each_objects_directory() {
    let (own, near, far) = (Store::bare(), Store::bare(), Store::bare());
    for (number, store) in [&own, &near, &far].into_iter().enumerate() {
        put(store, number);
        store.settle();
    }
    let sources = Sources { own: own.objects(), alternates: vec![near.objects(), far.objects()] };
    let cache = own.cache();
    cache.snapshot(&sources, own.hash).unwrap();
    let (_, done) = own.count(|| cache.snapshot(&sources, own.hash).unwrap());
    assert_eq!(done, Done { stats: 3, ..Done::default() });
}

#[test]
fn a_lookup_of_a_packed_object_touches_nothing() {
    let store = Store::bare();
    let ids: Vec<_> = (0..20).map(|number| put(&store, number)).collect();
    let snapshot = store.snapshot(&store.cache());
    let ((), done) = store.count(|| {
        for id in &ids {
            assert!(snapshot.contains(id).unwrap());
        }
    });
    assert_eq!(done, Done::default());
}

#[test]
fn one_new_pack_costs_one_listing_and_one_open() {
    let store = Store::bare();
    for number in 0..5 {
        put(&store, number);
    }
    store.settle();
    let cache = store.cache();
    let before = store.snapshot(&cache);
    let id = put(&store, 5);
    let (after, done) = store.count(|| store.snapshot(&cache));
    assert_eq!(done, Done { stats: 2 + 5, listings: 1, opens: 1 });
    assert!(after.contains(&id).unwrap());
    assert!(!before.contains(&id).unwrap(), "a snapshot is as of when it was taken");
}

#[test]
fn a_stamp_younger_than_the_clocks_grain_is_not_trusted() {
    let store = Store::bare();
    put(&store, 0);
    // However slow the machine, this is not in the past.
    let soon = FileTimes::new().set_modified(SystemTime::now() + Duration::from_secs(60));
    File::open(store.packs()).unwrap().set_times(soon).unwrap();
    let cache = store.cache();
    store.snapshot(&cache);
    let (_, done) = store.count(|| store.snapshot(&cache));
    assert_eq!(done, Done { stats: 2, listings: 1, opens: 0 }, "what is known is not looked at");
    store.settle();
    store.snapshot(&cache);
    let (_, done) = store.count(|| store.snapshot(&cache));
    assert_eq!(done, Done { stats: 1, ..Done::default() });
}

#[test]
fn our_own_pack_is_not_read_again_and_never_hides_a_foreign_one() {
    let store = Store::bare();
    put(&store, 0);
    store.settle();
    let cache = store.cache();
    let running = store.snapshot(&cache);

    let foreign = put(&store, 1);
    let (ours, our_id) = pack(2);
    let index = ours.store(&store.packs());
    let bytes = fs::read(&index).unwrap();
    let ((), done) = store.count(|| cache.note_pack(&store.objects(), &index, &bytes));
    assert_eq!((done.opens, done.listings), (0, 0));

    let (next, done) = store.count(|| store.snapshot(&cache));
    assert_eq!((done.opens, done.listings), (1, 1), "the foreign index, and only that");
    assert!(next.contains(&our_id).unwrap());
    assert!(next.contains(&foreign).unwrap());
    assert!(!running.contains(&our_id).unwrap());
}

#[test]
fn our_own_write_does_not_advance_the_stamp() {
    let store = Store::bare();
    put(&store, 0);
    store.settle();
    let cache = store.cache();
    store.snapshot(&cache);
    let (ours, _) = pack(1);
    let index = ours.store(&store.packs());
    cache.note_pack(&store.objects(), &index, &fs::read(&index).unwrap());
    let (_, done) = store.count(|| store.snapshot(&cache));
    assert_eq!((done.opens, done.listings), (0, 1));
}

#[test]
fn a_noted_index_that_is_not_one_is_left_to_the_listing() {
    let store = Store::bare();
    put(&store, 0);
    let cache = store.cache();
    store.snapshot(&cache);
    let (ours, id) = pack(1);
    let index = ours.store(&store.packs());
    cache.note_pack(&store.objects(), &index, b"nonsense");
    cache.note_pack(&store.objects(), Path::new("/nowhere/pack-1.idx"), b"nonsense");
    cache.note_pack(Path::new("/nowhere"), &index, b"nonsense");
    assert!(store.snapshot(&cache).contains(&id).unwrap());
}

#[test]
fn a_refresh_lists_whatever_the_stamp_says() {
    let store = Store::bare();
    put(&store, 0);
    let time = SystemTime::now() - Duration::from_secs(3600);
    let freeze = || {
        let times = FileTimes::new().set_modified(time);
        File::open(store.packs()).unwrap().set_times(times).unwrap();
    };
    freeze();
    let cache = store.cache();
    store.snapshot(&cache);
    let id = put(&store, 1);
    freeze();
    let snapshot = store.snapshot(&cache);
    assert!(!snapshot.contains(&id).unwrap(), "the stamp is the same");
    let (found, done) = store.count(|| snapshot.refreshing().contains(&id).unwrap());
    assert!(found);
    assert_eq!((done.listings, done.opens), (1, 1));
}

#[test]
fn a_miss_is_final_and_a_refreshing_miss_is_final_after_one_refresh_for_all_clones() {
    let store = Store::bare();
    put(&store, 0);
    let (_, first) = pack(1);
    let (_, second) = pack(2);
    let snapshot = store.snapshot(&store.cache());

    let ((), done) = store.count(|| assert!(!snapshot.contains(&first).unwrap()));
    assert_eq!(done, Done { stats: 1, ..Done::default() }, "the loose file");

    put(&store, 1);
    let refreshing = snapshot.refreshing();
    assert!(refreshing.contains(&first).unwrap());
    put(&store, 2);
    let ((), done) = store.count(|| {
        assert!(!refreshing.contains(&second).unwrap());
        assert!(!snapshot.refreshing().contains(&second).unwrap());
        assert_eq!(snapshot.refreshing().read(&second, MIB).unwrap(), None);
    });
    assert_eq!((done.listings, done.opens), (0, 0));
    assert!(snapshot.contains(&first).unwrap(), "clones see what the refresh found");
}

#[test]
fn threads_share_the_one_refresh() {
    let store = Store::bare();
    put(&store, 0);
    let snapshot = store.snapshot(&store.cache());
    let ids: Vec<_> = (1..9).map(|number| put(&store, number)).collect();
    let ((), done) = store.count(|| {
        std::thread::scope(|scope| {
            for id in &ids {
                let snapshot = snapshot.refreshing();
                scope.spawn(move || {
                    assert!(snapshot.contains(id).unwrap());
                    let object = snapshot.read_verified(id, MIB).unwrap().unwrap();
                    assert!(object.data.starts_with(b"blob "));
                });
            }
        });
    });
    assert_eq!(done.listings, 1);
}

#[test]
fn pushes_at_the_same_time_share_one_listing() {
    let store = Store::bare();
    for number in 0..20 {
        put(&store, number);
    }
    store.settle();
    let cache = store.cache();
    let ((), done) = store.count(|| {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| store.snapshot(&cache));
            }
        });
    });
    assert_eq!((done.listings, done.opens), (1, 20));
}

#[test]
fn a_directory_that_is_not_there_has_no_objects() {
    let store = Store::bare();
    let (_, id) = pack(0);
    let missing = store.root.path().join("missing/objects");
    let sources = Sources { own: store.objects(), alternates: vec![missing.clone()] };
    let cache = store.cache();
    let snapshot = cache.snapshot(&sources, store.hash).unwrap();
    assert!(!snapshot.contains(&id).unwrap());
    fs::create_dir_all(missing.join("pack")).unwrap();
    pack(0).0.store(&missing.join("pack"));
    assert!(cache.snapshot(&sources, store.hash).unwrap().contains(&id).unwrap());
    fs::remove_dir_all(&missing).unwrap();
    assert!(!cache.snapshot(&sources, store.hash).unwrap().contains(&id).unwrap());
}

#[test]
fn a_directory_that_was_moved_away_and_back_is_read_again() {
    let store = Store::bare();
    let id = put(&store, 0);
    store.settle();
    let cache = store.cache();
    store.snapshot(&cache);
    let aside = store.root.path().join("aside");
    fs::rename(store.packs(), &aside).unwrap();
    assert!(!store.snapshot(&cache).contains(&id).unwrap());
    fs::rename(&aside, store.packs()).unwrap();
    store.settle();
    assert!(store.snapshot(&cache).contains(&id).unwrap());
}

#[test]
fn the_holder_of_an_object_is_its_pack_or_its_loose_file() {
    let store = Store::git_init(HashKind::Sha1);
    let (pack, id) = pack(0);
    let index = pack.store(&store.packs());
    let loose = store.git_with(&["hash-object", "-w", "--stdin"], b"loose");
    let snapshot = store.snapshot(&store.cache());
    assert_eq!(snapshot.holder(&id).unwrap(), Some(index.with_extension("pack")));
    let path = store.objects().join(&loose[..2]).join(&loose[2..]);
    assert_eq!(snapshot.holder(&id_of_hex(&loose)).unwrap(), Some(path));
    assert_eq!(snapshot.holder(&HashKind::Sha1.null()).unwrap(), None);
}

#[test]
fn the_objects_of_alternates_are_seen_and_their_table_is_shared() {
    let (pool, fork, other) = (Store::bare(), Store::bare(), Store::bare());
    let id = put(&pool, 0);
    pool.settle();
    let cache = fork.cache();
    let of = |store: &Store| Sources { own: store.objects(), alternates: vec![pool.objects()] };
    assert!(cache.snapshot(&of(&fork), fork.hash).unwrap().contains(&id).unwrap());
    let (snapshot, done) = fork.count(|| cache.snapshot(&of(&other), fork.hash).unwrap());
    assert_eq!(done.opens, 0);
    assert!(snapshot.contains(&id).unwrap());
}

#[test]
fn the_refresh_asks_again_which_directories_there_are() {
    let (pool, fork) = (Store::bare(), Store::bare());
    let id = put(&pool, 0);
    let alone = fork.sources();
    let linked = Sources { own: fork.objects(), alternates: vec![pool.objects()] };
    let cache = fork.cache();
    let resolve = move || Ok(linked.clone());
    let snapshot = cache.snapshot_resolving(&alone, fork.hash, resolve).unwrap();
    assert!(!snapshot.contains(&id).unwrap());
    assert!(snapshot.refreshing().contains(&id).unwrap());

    let fail = || Err(std::io::ErrorKind::PermissionDenied.into());
    let snapshot = cache.snapshot_resolving(&alone, fork.hash, fail).unwrap();
    let error = snapshot.refreshing().contains(&id).unwrap_err();
    assert!(error.to_string().ends_with("objects/info/alternates'"), "{error}");
}

#[test]
fn the_directory_that_was_not_used_for_longest_is_forgotten_first() {
    let stores: Vec<Store> = (0..3).map(|_| Store::bare()).collect();
    for store in &stores {
        put(store, 0);
        store.settle();
    }
    let measure = stores[0].cache();
    stores[0].snapshot(&measure);
    let bytes_of_one = measure.bytes();

    let disk = stores[0].disk.clone();
    let cache = SnapshotCache::with_total(disk, MIB, 2 * bytes_of_one);
    let use_store = |number: usize| {
        let (_, done) = stores[0].count(|| stores[number].snapshot(&cache));
        assert!(cache.bytes() <= 2 * bytes_of_one);
        done.opens
    };
    assert_eq!([use_store(0), use_store(1), use_store(0)], [1, 1, 0]);
    assert_eq!(use_store(2), 1);
    assert_eq!(use_store(0), 0);
    assert_eq!(use_store(1), 1);
}

#[test]
fn a_hash_of_another_kind_is_missing() {
    let store = Store::bare();
    put(&store, 0);
    let mut other = PackBuilder::new(HashKind::Sha256);
    let id = other.blob(b"blob 0");
    for bytes_max in [MIB, 0] {
        let snapshot = store.snapshot(&SnapshotCache::new(store.disk.clone(), bytes_max));
        let (found, done) = store.count(|| snapshot.contains(&id).unwrap());
        assert!(!found);
        assert_eq!(done, Done::default());
    }
}

#[test]
fn a_thousand_small_packs_cost_a_lookup_what_one_costs() {
    let store = Store::bare();
    let ids: Vec<_> = (0..1000).map(|number| put(&store, number)).collect();
    settle(&store.packs());
    let cache = store.following_cache();
    let (_, done) = store.count(|| store.snapshot(&cache));
    assert_eq!((done.listings, done.opens), (1, 1000));
    let (snapshot, done) = store.count(|| store.snapshot(&cache));
    assert_eq!(done, Done { stats: 1, ..Done::default() });
    let ((), done) = store.count(|| {
        for id in &ids {
            assert!(snapshot.contains(id).unwrap());
        }
    });
    assert_eq!(done, Done::default());
    // 1,072 bytes of an index and 32 of an object: the tables must not keep the former.
    assert!(cache.bytes() < 1000 * 700, "{}", cache.bytes());

    for number in 1000..1020 {
        let id = put(&store, number);
        let (snapshot, done) = store.count(|| store.snapshot(&cache));
        assert_eq!((done.listings, done.opens), (0, 1));
        assert!(snapshot.contains(&id).unwrap() && snapshot.contains(&ids[0]).unwrap());
    }
}
