//! Loose objects: a `stat` each, or directories read once.

use super::freshness::pack;
use crate::model::HashKind;
use crate::snapshot::testing::{Done, Store};

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
