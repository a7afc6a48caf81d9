//! Packs resolved by walking, against what is known of them.

use super::*;
use crate::model::{HashKind, ObjectId, ObjectKind, oid};
use crate::pack::delta;
use crate::pack::entry::EntryKind;
use crate::pack::sample::{Sample, object_id, sample};
use crate::pack::table::EntryTable;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::{BTreeMap, HashMap};

/// A table and a tree from nothing but the kinds of entries; offsets are 12, 13, and so on.
fn tree_of(hash: HashKind, kinds: &[EntryKind]) -> (EntryTable, DeltaTree) {
    let mut table = EntryTable::new(hash);
    let mut builder = DeltaTreeBuilder::new(hash);
    for (n, kind) in kinds.iter().enumerate() {
        table.push(12 + n as u64, 0).unwrap();
        builder.push(&table, kind).unwrap();
    }
    (table, builder.build())
}

fn id(n: u32) -> ObjectId {
    ObjectId::try_from(&[&[0; 16][..], &n.to_be_bytes()].concat()[..]).unwrap()
}

const WHOLE: EntryKind = EntryKind::Whole(ObjectKind::Blob);

fn ofs(place: u64) -> EntryKind {
    EntryKind::OfsDelta { base_offset: 12 + place }
}

fn by_id(n: u32) -> EntryKind {
    EntryKind::RefDelta { base: id(n) }
}

/// Walks below every root, the object at place n having the id n. Returns the places in the order
/// of the walk.
fn walk_all(table: &mut EntryTable, tree: &DeltaTree) -> Vec<Delta> {
    for place in 0..u32::try_from(table.len()).unwrap() {
        if !tree.is_delta(place) {
            table.set_object(place, ObjectKind::Blob, &id(place));
        }
    }
    let mut all = Vec::new();
    for root in tree.roots(table) {
        let mut walk = Walk::below(tree, root.place, table.id(root.place));
        while let Some(delta) = walk.next() {
            walk.resolved(&delta, &id(delta.place));
            all.push(delta);
        }
    }
    all
}

/// Resolves a sample; the objects by the offsets of their entries.
fn resolve(sample: &Sample) -> HashMap<u64, (ObjectKind, ObjectId, Vec<u8>)> {
    let mut table = EntryTable::new(sample.hash);
    let mut builder = DeltaTreeBuilder::new(sample.hash);
    let mut made = HashMap::new();
    for entry in &sample.entries {
        let place = table.push(entry.offset, 0).unwrap();
        builder.push(&table, &entry.header.kind).unwrap();
        if let EntryKind::Whole(kind) = entry.header.kind {
            table.set_object(place, kind, &object_id(sample.hash, kind, &entry.data));
            made.insert(place, (kind, entry.id, entry.data.clone()));
        }
    }
    let tree = builder.build();
    let mut resolved = 0;
    let roots: Vec<_> = tree.roots(&table).collect();
    for root in roots {
        let (kind, root_id, _) = made[&root.place].clone();
        let mut walk = Walk::below(&tree, root.place, &root_id);
        while let Some(delta) = walk.next() {
            let mut content = Vec::new();
            let instructions = &sample.entries[delta.place as usize].data;
            let base = &made[&delta.base].2;
            delta::apply(base, instructions, u64::MAX, &mut content).unwrap();
            let id = object_id(sample.hash, kind, &content);
            walk.resolved(&delta, &id);
            assert_eq!(tree.base_of(delta.place), Some(delta.base));
            assert!(made.insert(delta.place, (kind, id, content)).is_none());
            resolved += 1;
        }
    }
    assert_eq!(resolved, tree.deltas());
    assert_eq!(tree.unclaimed_bases().count(), 0);
    made.into_iter().map(|(place, object)| (table.offset(place), object)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_delta_of_a_pack_is_resolved_once(sample in sample()) {
        let made = resolve(&sample);
        prop_assert_eq!(made.len(), sample.entries.len());
        for entry in sample.entries {
            prop_assert_eq!(&made[&entry.offset], &(entry.kind, entry.id, entry.content));
        }
    }

    #[test]
    fn few_bases_are_alive_at_a_time_whatever_the_tree(
        bases in prop::collection::vec(any::<Index>(), 1..600),
        lean in 1usize..600,
    ) {
        // Bases among the last `lean` entries: 1 is a chain, many are a bush.
        let mut kinds = vec![WHOLE];
        for base in bases {
            let from = kinds.len().saturating_sub(lean);
            kinds.push(ofs((from + base.index(kinds.len() - from)) as u64));
        }
        let (mut table, tree) = tree_of(HashKind::Sha1, &kinds);
        let deltas = walk_all(&mut table, &tree);
        prop_assert_eq!(deltas.len() as u64, tree.deltas());
        let root = tree.roots(&table).next().unwrap();
        prop_assert_eq!(u64::from(root.descendants), tree.deltas());

        let mut alive = BTreeMap::from([(0, 0)]);
        let mut most = 0;
        for delta in deltas {
            let depth = alive[&delta.base] + 1;
            prop_assert_eq!(delta.depth, depth);
            if delta.is_last_of_base {
                alive.remove(&delta.base);
            }
            most = most.max(alive.len());
            if !tree.children_of_entry(delta.place).is_empty() {
                alive.insert(delta.place, depth);
            }
        }
        prop_assert!(alive.is_empty());
        prop_assert!(most <= tree.deltas().ilog2() as usize + 1, "{} of {}", most, tree.deltas());
    }
}

#[test]
fn a_chain_of_a_hundred_thousand_is_walked_without_recursion() {
    let mut kinds = vec![WHOLE];
    kinds.extend((0..50_000).map(ofs));
    kinds.extend((50_000..100_000).map(by_id));
    let (mut table, tree) = tree_of(HashKind::Sha1, &kinds);
    let deltas = walk_all(&mut table, &tree);
    assert_eq!(deltas.len(), 100_000);
    assert!(deltas.iter().all(|delta| delta.is_last_of_base));
    assert_eq!(deltas.last().unwrap().depth, 100_000);
}

#[test]
fn bases_by_id_may_lie_behind_their_deltas() {
    let (mut table, tree) = tree_of(HashKind::Sha1, &[by_id(1), by_id(3), ofs(1), WHOLE, by_id(0)]);
    let places: Vec<_> = walk_all(&mut table, &tree).iter().map(|delta| delta.place).collect();
    assert_eq!(places, [1, 0, 4, 2]);
}

#[test]
fn deltas_that_name_each_other_or_themselves_never_come() {
    let (mut table, tree) = tree_of(HashKind::Sha1, &[by_id(1), by_id(0), by_id(2), WHOLE, ofs(3)]);
    assert_eq!(walk_all(&mut table, &tree).len(), 1);
    assert_eq!(tree.deltas(), 4);
    let unclaimed: Vec<_> = tree.unclaimed_bases().collect();
    assert_eq!(unclaimed, [id(0), id(1), id(2)]);
    assert_eq!(tree.base_of(0), None);
}

#[test]
fn what_a_thin_pack_misses_is_named_once_and_walked_from_behind() {
    let (mut table, tree) =
        tree_of(HashKind::Sha1, &[by_id(77), by_id(77), by_id(0), WHOLE, ofs(0)]);
    assert_eq!(walk_all(&mut table, &tree).len(), 0);
    let missing: Vec<_> = tree.unclaimed_bases().collect();
    assert_eq!(missing, [id(0), id(77)]);
    let place = table.push(1000, 0).unwrap();
    assert!(tree.children_of_entry(place).is_empty());
    let mut walk = Walk::below(&tree, place, &id(77));
    let mut places = Vec::new();
    while let Some(delta) = walk.next() {
        walk.resolved(&delta, &id(delta.place));
        places.push((delta.place, delta.base));
    }
    places.sort_unstable();
    assert_eq!(places, [(0, place), (1, place), (2, 0), (4, 0)]);
    assert_eq!(tree.unclaimed_bases().count(), 0);
}

#[test]
fn deltas_by_id_go_to_the_first_of_two_entries_with_one_object() {
    let (_, tree) = tree_of(HashKind::Sha1, &[WHOLE, WHOLE, by_id(9), ofs(1)]);
    let places = |root| {
        let walk = Walk::below(&tree, root, &id(9));
        walk.map(|delta| delta.place).collect::<Vec<_>>()
    };
    assert_eq!(places(0), [2]);
    assert_eq!(places(1), [3]);
    assert!(tree.is_named(&id(9)));
}

#[test]
fn threads_that_claim_one_id_get_its_deltas_once() {
    let mut kinds = vec![WHOLE; 2];
    kinds.extend((0..1000).map(by_id));
    let (_, tree) = tree_of(HashKind::Sha1, &kinds);
    let claimed: usize = std::thread::scope(|scope| {
        let claim = |base| (0..1000).map(|n| tree.claim_children_of_id(&id(n), base).len()).sum();
        let threads = [0, 1].map(|base| scope.spawn(move || -> usize { claim(base) }));
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(claimed, 1000);
}

#[test]
fn a_base_offset_at_which_no_entry_begins_is_refused() {
    let mut table = EntryTable::new(HashKind::Sha1);
    let mut builder = DeltaTreeBuilder::new(HashKind::Sha1);
    table.push(12, 0).unwrap();
    builder.push(&table, &WHOLE).unwrap();
    table.push(50, 0).unwrap();
    let kind = EntryKind::OfsDelta { base_offset: 13 };
    let expected = NoSuchBase { offset: 50, base_offset: 13 };
    assert_eq!(builder.push(&table, &kind), Err(expected));
}

#[test]
fn an_empty_pack_has_no_roots() {
    let (table, tree) = tree_of(HashKind::Sha256, &[]);
    assert_eq!((tree.roots(&table).count(), tree.deltas()), (0, 0));
    let null: &oid = &ObjectId::null(HashKind::Sha256);
    assert!(tree.claim_children_of_id(null, 0).is_empty());
}

#[test]
fn deltas_that_are_named_are_left_out_unless_others_need_them() {
    // 0 is whole; 1 to 3 are a chain, 4 a twig of 1, 5 hangs on 3 by id, 6 on 2, 7 on 4.
    let kinds = [WHOLE, ofs(0), ofs(1), ofs(2), ofs(1), by_id(3), ofs(2), ofs(4)];
    let walked = |named: &[u32]| {
        let (mut table, mut tree) = tree_of(HashKind::Sha1, &kinds);
        for &place in named {
            table.set_object(place, ObjectKind::Blob, &id(place));
        }
        table.set_object(0, ObjectKind::Blob, &id(0));
        tree.leave_out_named(&table);
        assert_eq!(tree.deltas(), 7);
        let mut places: Vec<_> =
            walk_all(&mut table, &tree).into_iter().map(|delta| delta.place).collect();
        places.sort_unstable();
        places
    };
    assert_eq!(walked(&[]), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(walked(&[4, 7]), [1, 2, 3, 5, 6]);
    assert_eq!(walked(&[1, 4]), [1, 2, 3, 4, 5, 6, 7]);
    // Something is made from 3, whatever it is called.
    assert_eq!(walked(&[1, 2, 3, 4, 6, 7]), [1, 2, 3, 5]);
}
