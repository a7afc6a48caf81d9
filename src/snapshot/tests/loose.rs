//! Loose objects: a `stat` each, or directories read once.

use super::freshness::pack;
use crate::model::{HashKind, ObjectId};
use crate::snapshot::SnapshotCache;
use crate::snapshot::testing::{Done, Store, settle};
use std::fs;

#[test]
fn few_loose_lookups_cost_a_stat_each_and_many_a_listing_each_directory() {
    let store = Store::git_init(HashKind::Sha1);
    store.commit("main", 200, false);
    let objects = store.all_objects();
    assert_eq!(objects.len(), 800);
    let cache = store.cache();
    let snapshot = store.snapshot(&cache);
    let ((), done) = store.count(|| {
        for (id, ..) in &objects[..10] {
            assert!(snapshot.contains(id).unwrap());
        }
    });
    assert_eq!(done, Done { stats: 10, ..Done::default() });

    let missing = |number: usize| pack(number).1;
    let ((), done) = store.count(|| {
        for (id, ..) in &objects {
            assert!(snapshot.contains(id).unwrap());
        }
        for number in 0..20_000 {
            assert!(!snapshot.contains(&missing(number)).unwrap());
        }
    });
    assert!(done.listings <= 1 + 256, "{done:?}");
    assert!(done.stats <= 16 + 8 * 256, "{done:?}");
    assert_eq!(done.opens, 0);

    let ((), done) = store.count(|| {
        for number in 20_000..30_000 {
            assert!(!snapshot.contains(&missing(number)).unwrap());
        }
    });
    assert_eq!(done, Done::default(), "by now everything is known");
}

#[test]
fn a_store_without_loose_objects_answers_many_lookups_with_one_listing() {
    let store = Store::bare();
    let snapshot = store.snapshot(&store.cache());
    let ((), done) = store.count(|| {
        for number in 0..1000 {
            assert!(!snapshot.contains(&pack(number).1).unwrap());
        }
    });
    assert_eq!(done, Done { stats: 16, listings: 1, opens: 0 });
}

/// Asks for so many missing objects that every fan-out directory is looked at.
fn ask_for_many(store: &Store, cache: &SnapshotCache) -> Done {
    let snapshot = store.snapshot(cache);
    let ask = || (0..6000).all(|number| !snapshot.contains(&pack(number).1).unwrap());
    let (missing, done) = store.count(ask);
    assert!(missing);
    done
}

#[test]
fn what_one_push_has_listed_serves_the_next_and_hides_nothing() {
    let store = Store::git_init(HashKind::Sha1);
    store.commit("main", 200, false);
    let objects = store.all_objects();
    let fan_outs: Vec<_> = (0..256)
        .map(|first| store.objects().join(format!("{first:02x}")))
        .filter(|directory| directory.exists())
        .collect();
    for directory in &fan_outs {
        settle(directory);
    }
    let cache = store.cache();
    let bytes = cache.bytes();
    assert_eq!(ask_for_many(&store, &cache).listings, 1 + fan_outs.len() as u64);
    let done = ask_for_many(&store, &cache);
    assert_eq!((done.listings, done.opens), (0, 0));
    assert!(done.stats <= 16 + 256, "{done:?}");
    assert!(cache.bytes() >= bytes + 800 * 20, "what is kept is counted");

    // In a directory that was listed, and in one that was not there.
    let (listed, absent) = (0..5000)
        .map(|number| pack(10_000 + number).1)
        .partition::<Vec<_>, _>(|id| store.objects().join(&id.to_string()[..2]).exists());
    for id in listed.iter().take(1).chain(absent.iter().take(1)) {
        let path = store.objects().join(&id.to_string()[..2]).join(&id.to_string()[2..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"").unwrap();
        ask_for_many(&store, &cache);
        let snapshot = store.snapshot(&cache);
        assert!((0..100).all(|number| !snapshot.contains(&pack(number).1).unwrap()));
        assert!(snapshot.contains(id).unwrap(), "{id}");
        fs::remove_file(&path).unwrap();
        let snapshot = store.snapshot(&cache);
        assert!((0..100).all(|number| !snapshot.contains(&pack(number).1).unwrap()));
        assert!(!snapshot.contains(id).unwrap(), "{id}");
    }
    let snapshot = store.snapshot(&cache);
    assert!(objects.iter().all(|(id, ..)| snapshot.contains(id).unwrap()));
}

#[test]
fn a_refresh_lists_anew_whatever_the_stamps_of_the_directories_say() {
    let store = Store::git_init(HashKind::Sha1);
    store.commit("main", 200, false);
    let fan_out = |id: &ObjectId| store.objects().join(&id.to_string()[..2]);
    let ids = (0..5000).map(|number| pack(10_000 + number).1);
    let id = ids.into_iter().find(|id| fan_out(id).exists()).unwrap();
    settle(&fan_out(&id));
    let modified = fs::metadata(fan_out(&id)).unwrap().modified().unwrap();
    let cache = store.cache();
    ask_for_many(&store, &cache);
    // As a network file system may answer, which knows no better for a while.
    fs::write(fan_out(&id).join(&id.to_string()[2..]), b"").unwrap();
    let times = fs::FileTimes::new().set_modified(modified);
    fs::File::open(fan_out(&id)).unwrap().set_times(times).unwrap();
    let snapshot = store.snapshot(&cache);
    assert!((0..100).all(|number| !snapshot.contains(&pack(number).1).unwrap()));
    assert!(!snapshot.contains(&id).unwrap(), "the stamp is believed");
    let refreshing = snapshot.refreshing();
    assert!((0..100).all(|number| !refreshing.contains(&pack(number).1).unwrap()));
    assert!(refreshing.contains(&id).unwrap());
}
