//! Pushes in memory from shallow clients: what each new value needs of the border, and what that
//! costs.

use super::*;
use crate::connectivity::corpus::{Push, Refs, SHA1, Store, absent};
use proptest::prelude::*;

/// What each tip needs of the border, by the push's objects and those of the repository.
fn needed(push: &Push<'_>, border: &[ObjectId], tips: &[ObjectId], refs: &mut Refs) -> Vec<Needed> {
    let border = border.iter().copied().collect();
    let needed = push.ask(|connectivity| connectivity.needed_border(&border, tips, refs)).unwrap();
    needed.into_iter().map(|needed| needed.iter().copied().collect()).collect()
}

type Needed = Vec<ObjectId>;

fn sorted(ids: &[ObjectId]) -> Needed {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids
}

/// A repository with one commit, and all that is there once a line of three commits was pushed,
/// whose first has a parent that nobody has.
struct Pushed {
    old: Store,
    all: Store,
    tree: ObjectId,
    base: ObjectId,
    line: [ObjectId; 3],
}

fn line() -> Pushed {
    let mut old = Store::default();
    let tree = old.tree(&[]);
    let base = old.commit(tree, &[], 1000);
    let mut all = old.clone();
    let first = all.commit(tree, &[absent(1)], 1001);
    let second = all.commit(tree, &[first], 1002);
    let third = all.commit(tree, &[second], 1003);
    Pushed { old, all, tree, base, line: [first, second, third] }
}

#[test]
fn what_leads_to_a_new_commit_of_the_border_needs_it() {
    let Pushed { old, mut all, tree, base, line: [first, second, third] } = line();
    let beside = all.commit(tree, &[base], 1004);
    let merge = all.commit(tree, &[beside, third], 1005);
    let tag = all.tag(third, ObjectKind::Commit, "v1");
    let tag_of_tag = all.tag(tag, ObjectKind::Tag, "v1-again");
    let tag_of_tree = all.tag(tree, ObjectKind::Tree, "tree");
    let brought = all.without(&old);
    let push = Push::new(&old, &brought);
    let null = ObjectId::null(SHA1);
    let tips = [first, second, beside, merge, tag_of_tag, tag_of_tree, base, tree, null];
    let needed = needed(&push, &[first], &tips, &mut Refs::of(&[base], &[base]));
    let of = |needs: bool| if needs { vec![first] } else { vec![] };
    let expected = [true, true, false, true, true, false, false, false, false].map(of);
    assert_eq!(needed, expected);
}

#[test]
fn nothing_is_needed_beyond_a_commit_of_the_border() {
    let Pushed { old, mut all, tree, line: [first, _, third], .. } = line();
    let other = all.commit(tree, &[absent(2)], 1001);
    let merge = all.commit(tree, &[third, other], 1006);
    let brought = all.without(&old);
    let push = Push::new(&old, &brought);
    let border = [first, third, other];
    let needed = needed(&push, &border, &[merge, third, first], &mut Refs::default());
    assert_eq!(needed, [sorted(&[third, other]), vec![third], vec![first]]);
}

#[test]
fn an_old_commit_of_the_border_is_needed_only_if_no_ref_leads_to_it() {
    let Pushed { all: old, tree, line: [first, second, third], .. } = line();
    let mut all = old.clone();
    // Clocks that run backwards must not hide what a ref leads to.
    let tip = all.commit(tree, &[second], 5);
    let mut again = all.without(&old);
    for refs in [vec![], vec![third], vec![second]] {
        let expected = if refs.is_empty() { vec![second] } else { vec![] };
        for sent_again in [false, true] {
            if sent_again {
                again.objects.insert(second, old.objects[&second].clone());
            }
            let push = Push::new(&old, &again);
            for mut refs in [Refs::of(&refs, &refs), Refs::of(&[], &refs)] {
                // An old commit that is a new value itself, too.
                let needed = needed(&push, &[second], &[tip, second, first], &mut refs);
                let old_first = vec![];
                assert_eq!(needed, [expected.clone(), expected.clone(), old_first]);
            }
        }
        again.objects.remove(&second);
    }
}

#[test]
fn clocks_that_lie_do_not_make_a_commit_needed() {
    let mut old = Store::default();
    let tree = old.tree(&[]);
    // Young at the bottom, then a hundred commits that seem to be older.
    let bottom = old.commit(tree, &[], 9000);
    let mut head = bottom;
    for date in 0..100 {
        head = old.commit(tree, &[head], date);
    }
    let mut all = old.clone();
    let tip = all.commit(tree, &[bottom], 9001);
    let brought = all.without(&old);
    let push = Push::new(&old, &brought);
    let found = needed(&push, &[bottom], &[tip], &mut Refs::of(&[head], &[head]));
    assert_eq!(found, [Needed::new()]);
    assert_eq!(needed(&push, &[bottom], &[tip], &mut Refs::default()), [vec![bottom]]);
}

#[test]
fn the_way_may_lead_through_old_commits_that_no_ref_leads_to() {
    let Pushed { all: old, tree, base, line: [first, _, third], .. } = line();
    let mut all = old.clone();
    let tip = all.commit(tree, &[third], 1004);
    let brought = all.without(&old);
    let push = Push::new(&old, &brought);
    let needed = needed(&push, &[first], &[tip, third], &mut Refs::of(&[base], &[base]));
    assert_eq!(needed, [vec![first], vec![first]]);
}

#[test]
fn history_that_ends_at_the_repository_s_own_border_leads_no_further() {
    let Pushed { all: old, tree, line: [first, second, third], .. } = line();
    let mut all = old.clone();
    let tip = all.commit(tree, &[third], 1004);
    let mut brought = all.without(&old);
    // Sent again, as its own border is.
    brought.objects.insert(second, old.objects[&second].clone());
    let mut push = Push::new(&old, &brought);
    push.shallow.insert(second);
    assert_eq!(needed(&push, &[first], &[tip], &mut Refs::default()), [Needed::new()]);
}

#[test]
fn lines_that_no_new_value_leads_to_cost_nothing() {
    let mut old = Store::default();
    let tree = old.tree(&[]);
    let mut commits = Vec::new();
    for date in 0..2000 {
        let parents: Vec<_> = commits.last().copied().into_iter().collect();
        commits.push(old.commit(tree, &parents, date));
    }
    let head = commits[1999];
    let mut all = old.clone();
    let tip = all.commit(tree, &[head], 3000);
    let brought = all.without(&old);
    let border: Vec<_> = commits.iter().copied().chain((0..2000).map(|_| absent(3))).collect();
    let push = Push::new(&old, &brought);
    let mut refs = Refs::of(&[head], &[head]);
    assert_eq!(needed(&push, &border, &[tip], &mut refs), [Needed::new()]);
    assert!(old.reads() < 10, "{}", old.reads());
    assert_eq!((brought.reads(), refs.listed), (0, 0));
}

#[test]
fn many_values_on_one_history_read_it_once() {
    let mut brought = Store::default();
    let tree = brought.tree(&[]);
    let border = brought.commit(tree, &[absent(1)], 0);
    let mut commits = vec![border];
    for date in 1..500 {
        commits.push(brought.commit(tree, &[commits[commits.len() - 1]], date));
    }
    let old = Store::default();
    let push = Push::new(&old, &brought);
    let needed = needed(&push, &[border], &commits, &mut Refs::default());
    assert!(needed.iter().all(|needed| *needed == [border]));
    assert_eq!(brought.reads(), 499);
}

#[test]
fn commits_with_many_parents_are_read_twice_and_wait_once() {
    let mut brought = Store::default();
    let tree = brought.tree(&[]);
    let border: Vec<_> = (0..40).map(|date| brought.commit(tree, &[absent(1)], date)).collect();
    let leaves: Vec<_> =
        border.iter().map(|commit| brought.commit(tree, &[*commit], 100)).collect();
    let mut tip = leaves[0];
    for date in 200..300 {
        // The deepest first.
        let parents: Vec<_> = std::iter::once(tip).chain(leaves.iter().copied()).collect();
        tip = brought.commit(tree, &parents, date);
    }
    let old = Store::default();
    let push = Push::new(&old, &brought);
    let needed = needed(&push, &border, &[tip], &mut Refs::default());
    assert_eq!(needed, [sorted(&border)]);
    assert_eq!(brought.reads(), 40 + 2 * 100);
}

#[test]
fn a_walk_that_is_cancelled_says_so() {
    let Pushed { old, all, line: [first, _, third], .. } = line();
    let brought = all.without(&old);
    let push = Push::new(&old, &brought);
    push.cancel.cancel();
    let border = HashSet::from([first]);
    let answer = push
        .ask(|connectivity| connectivity.needed_border(&border, &[third], &mut Refs::default()));
    assert!(matches!(answer, Err(ConnectivityError::Cancelled)));
}

#[test]
fn equal_sets_are_one_and_what_there_is_no_room_for_is_everything() {
    let mut sets = Sets::with_room_for(6);
    let [a, b, c] = [0, 1, 2].map(|place| sets.only(place));
    let ab = sets.union(a, b);
    assert_eq!(sets.union(b, a), ab);
    assert_eq!(sets.union(ab, a), ab);
    assert_eq!(sets.union(Sets::NOTHING, b), b);
    let members = |sets: &Sets, set| sets.members(set, 4).collect::<Vec<_>>();
    assert_eq!(members(&sets, ab), [0, 1]);
    assert_eq!(members(&sets, Sets::NOTHING), Vec::<usize>::new());
    // Five members are held; three more are too many.
    let all = sets.union(ab, c);
    assert_eq!(members(&sets, all), [0, 1, 2, 3]);
    assert_eq!(sets.union(all, a), all);
    assert_eq!(sets.union(Sets::NOTHING, all), all);
}

/// The answer of a walk from each tip that remembers nothing.
fn by_naive_walks(
    parents: &HashMap<ObjectId, Vec<ObjectId>>,
    complete: &HashSet<ObjectId>,
    border: &HashSet<ObjectId>,
    tip: ObjectId,
) -> Needed {
    let (mut open, mut seen, mut found) = (vec![tip], HashSet::new(), Vec::new());
    while let Some(id) = open.pop() {
        if complete.contains(&id) || !seen.insert(id) {
            continue;
        }
        if border.contains(&id) {
            found.push(id);
        } else {
            open.extend(parents.get(&id).into_iter().flatten());
        }
    }
    sorted(&found)
}

proptest! {
    /// Each commit has up to two of the ones before as parents; some are old, some values of refs,
    /// some the border, and all clocks lie.
    #[test]
    fn the_answer_is_that_of_naive_walks(
        shape in prop::collection::vec((any::<u8>(), any::<u8>(), 0u64..50), 2..40),
        old_count in any::<prop::sample::Index>(),
        border in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        heads in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        near in any::<bool>(),
    ) {
        let mut all = Store::default();
        let tree = all.tree(&[]);
        let old_count = old_count.index(shape.len());
        let (mut ids, mut old) = (Vec::<ObjectId>::new(), all.clone());
        let mut parents = HashMap::new();
        for (n, (one, two, date)) in shape.iter().enumerate() {
            let named: Vec<_> = [*one, *two]
                .iter()
                .filter(|_| n > 0)
                .map(|parent| ids[usize::from(*parent) % n])
                .collect();
            let id = all.commit(tree, &named, date * 100 + n as u64);
            parents.insert(id, named);
            ids.push(id);
            if n < old_count {
                old = all.clone();
            }
        }
        let border: HashSet<_> = border.iter().map(|at| ids[at.index(ids.len())]).collect();
        let heads: Vec<_> =
            heads.iter().filter(|_| old_count > 0).map(|at| ids[at.index(old_count)]).collect();
        let (mut complete, mut open) = (HashSet::new(), heads.clone());
        while let Some(id) = open.pop() {
            if complete.insert(id) {
                open.extend(&parents[&id]);
            }
        }
        let brought = all.without(&old);
        let push = Push::new(&old, &brought);
        let mut refs = Refs::of(if near { &heads } else { &[] }, &heads);
        let border_list: Vec<_> = border.iter().copied().collect();
        let needed = needed(&push, &border_list, &ids, &mut refs);
        for (id, needed) in ids.iter().zip(needed) {
            prop_assert_eq!(needed, by_naive_walks(&parents, &complete, &border, *id));
        }
    }
}
