//! Pushes in memory: what is accepted, what is refused and for what, and what each costs.

use super::corpus::{Push, Refs, SHA1, Store, absent};
use super::{ConnectivityError, Fault, LazySource, Missing, ObjectSource, SourceError};
use crate::connectivity::commit_graph::CommitGraph;
use crate::links::{Link, LinkError};
use crate::model::{ObjectId, ObjectKind, RejectReason};
use crate::repo::Disk;
use std::cell::Cell;
use std::process::Command;
use std::sync::Arc;

const DATE: u64 = 1_700_000_000;

/// A store with one commit, and the store that a pusher has after changing its file.
struct Simple {
    old: Store,
    brought: Store,
    base: ObjectId,
    tip: ObjectId,
}

fn simple() -> Simple {
    let mut old = Store::default();
    let (file, other) = (old.blob("file"), old.blob("other"));
    let dir = old.tree(&[("100644", "kept", other)]);
    let root = old.tree(&[("100644", "file", file), ("40000", "dir", dir)]);
    let base = old.commit(root, &[], DATE);
    let mut all = old.clone();
    let file = all.blob("changed");
    let root = all.tree(&[("100644", "file", file), ("40000", "dir", dir)]);
    let tip = all.commit(root, &[base], DATE + 1);
    Simple { brought: all.without(&old), old, base, tip }
}

fn missing(verdict: &Result<(), Missing>) -> (ObjectId, Option<ObjectKind>, Fault) {
    let missing = verdict.as_ref().unwrap_err();
    (missing.id, missing.kind, missing.fault)
}

#[test]
fn a_push_on_the_old_value_of_its_ref_is_connected_without_listing_refs() {
    let Simple { old, brought, base, tip } = simple();
    let mut refs = Refs::of(&[base], &[base]);
    let push = Push::new(&old, &brought);
    assert_eq!(push.judge(tip, &mut refs), (Ok(()), vec![]));
    assert_eq!(refs.listed, 0);
    assert_eq!(push.graph_loads.get(), 0);
}

#[test]
fn a_push_that_names_nothing_outside_itself_looks_at_nothing() {
    let mut brought = Store::default();
    let file = brought.blob("file");
    let root = brought.tree(&[("100644", "file", file), ("160000", "module", absent(9))]);
    let commit = brought.commit(root, &[], DATE);
    let tag = brought.tag(commit, ObjectKind::Commit, "v1");
    let old = Store::default();
    let mut refs = Refs::default();
    assert_eq!(Push::new(&old, &brought).judge(tag, &mut refs), (Ok(()), vec![]));
    assert_eq!((old.lookups.get(), old.reads(), brought.reads(), refs.listed), (0, 0, 0, 0));
}

#[test]
fn an_object_that_is_nowhere_is_named_with_what_names_it() {
    let Simple { old, mut brought, base, tip } = simple();
    let blob = *brought.objects.iter().find(|(_, (kind, _))| *kind == ObjectKind::Blob).unwrap().0;
    let tree = *brought.objects.iter().find(|(_, (kind, _))| *kind == ObjectKind::Tree).unwrap().0;
    brought.remove(&blob);
    let verdict = Push::new(&old, &brought).judge(tip, &mut Refs::of(&[base], &[base])).0;
    assert_eq!(
        verdict,
        Err(Missing {
            id: blob,
            kind: Some(ObjectKind::Blob),
            fault: Fault::Absent,
            named_by: Some(Link { id: tree, kind: ObjectKind::Tree }),
        })
    );
}

#[test]
fn a_new_value_that_is_nowhere_is_missing_and_the_others_go_on() {
    let Simple { old, brought, base, tip } = simple();
    let push = Push::new(&old, &brought);
    let verdicts =
        push.check(&[absent(1), tip, base, absent(2)], &mut Refs::of(&[], &[base])).unwrap();
    assert!(!verdicts.all_connected());
    assert_eq!(missing(&verdicts.tips[0]), (absent(1), None, Fault::Absent));
    assert_eq!(verdicts.tips[1..3], [Ok(()), Ok(())]);
    assert_eq!(missing(&verdicts.tips[3]), (absent(2), None, Fault::Absent));
}

#[test]
fn a_commit_in_the_store_whose_parents_are_missing_proves_nothing() {
    let Simple { mut old, base, .. } = simple();
    let tree = old.tree(&[]);
    let lost = old.commit(tree, &[absent(3)], DATE);
    let stray = old.commit(tree, &[lost], DATE + 1);
    let mut all = old.clone();
    let tip = all.commit(tree, &[stray], DATE + 2);
    let brought = all.without(&old);
    let push = Push::new(&old, &brought);
    let verdict = push.judge(tip, &mut Refs::of(&[base], &[base])).0;
    assert_eq!(missing(&verdict), (absent(3), Some(ObjectKind::Commit), Fault::Absent));
    // As a new value it does no better.
    let verdict = push.judge(stray, &mut Refs::of(&[base], &[base])).0;
    assert_eq!(missing(&verdict), (absent(3), Some(ObjectKind::Commit), Fault::Absent));
}

#[test]
fn a_tree_or_tag_in_the_store_that_is_not_complete_proves_nothing() {
    let Simple { mut old, base, .. } = simple();
    let inner = old.tree(&[("100644", "gone", absent(4))]);
    let outer = old.tree(&[("40000", "inner", inner)]);
    let tag = old.tag(outer, ObjectKind::Tree, "v1");
    let mut all = old.clone();
    let commit = all.commit(outer, &[base], DATE + 5);
    let tag_of_tag = all.tag(tag, ObjectKind::Tag, "v2");
    let brought = all.without(&old);
    for tip in [commit, tag_of_tag, tag, outer] {
        let verdict = Push::new(&old, &brought).judge(tip, &mut Refs::of(&[base], &[base])).0;
        assert_eq!(missing(&verdict), (absent(4), Some(ObjectKind::Blob), Fault::Absent));
    }
}

#[test]
fn what_is_complete_without_a_ref_is_accepted_and_reported() {
    let Simple { mut old, base, .. } = simple();
    let (a, b) = (old.blob("a"), old.blob("b"));
    let tree = old.tree(&[("100644", "a", a)]);
    let stray = old.commit(tree, &[base], DATE + 1);
    let tag = old.tag(stray, ObjectKind::Commit, "v1");
    let mut all = old.clone();
    let root = all.tree(&[("100644", "b", b)]);
    let tip = all.commit(root, &[stray, base], DATE + 2);
    let brought = all.without(&old);
    let push = Push::new(&old, &brought);
    let mut expected = vec![a, b, tree, stray];
    expected.sort();
    let mut refs = Refs::of(&[base], &[base]);
    assert_eq!(push.judge(tip, &mut refs), (Ok(()), expected.clone()));
    assert_eq!(refs.listed, 1);
    expected.retain(|id| *id != b);
    expected.push(tag);
    expected.sort();
    let nothing = Store::default();
    assert_eq!(Push::new(&old, &nothing).judge(tag, &mut refs), (Ok(()), expected));
}

#[test]
fn hidden_refs_prove_nothing_but_what_they_lead_to_may_be_complete() {
    let Simple { mut old, base, .. } = simple();
    let Simple { old: rest, tip: hidden, brought, .. } = simple();
    old.objects.extend(rest.objects);
    old.objects.extend(brought.objects);
    let mut all = old.clone();
    let tree = all.tree(&[]);
    let tip = all.commit(tree, &[hidden], DATE + 9);
    let brought = all.without(&old);
    let (verdict, unreferenced) = Push::new(&old, &brought).judge(tip, &mut Refs::of(&[], &[base]));
    assert_eq!(verdict, Ok(()));
    assert!(unreferenced.contains(&hidden) && !unreferenced.contains(&base));
}

#[test]
fn a_link_of_the_wrong_kind_is_no_link() {
    let Simple { old, base, .. } = simple();
    let by_kind = |kind| *old.objects.iter().find(|(_, (k, _))| *k == kind).unwrap().0;
    let (blob, tree) = (by_kind(ObjectKind::Blob), by_kind(ObjectKind::Tree));
    for (name, actual, expected) in [
        ("a blob as a tree", ObjectKind::Blob, ObjectKind::Tree),
        ("a tree as a blob", ObjectKind::Tree, ObjectKind::Blob),
        ("a tree as a parent", ObjectKind::Tree, ObjectKind::Commit),
        ("a commit as a tag", ObjectKind::Commit, ObjectKind::Tag),
    ] {
        let mut all = old.clone();
        let tip = match expected {
            ObjectKind::Tree => all.tree(&[("40000", "x", blob)]),
            ObjectKind::Blob => all.tree(&[("100644", "x", tree)]),
            ObjectKind::Commit => all.commit(tree, &[tree], DATE),
            ObjectKind::Tag => all.tag(base, ObjectKind::Tag, "x"),
        };
        let tip = match expected {
            ObjectKind::Tree | ObjectKind::Blob => all.commit(tip, &[base], DATE + 1),
            _ => tip,
        };
        let brought = all.without(&old);
        let verdict = Push::new(&old, &brought).judge(tip, &mut Refs::of(&[base], &[base])).0;
        let (_, kind, fault) = missing(&verdict);
        assert_eq!((kind, fault), (Some(expected), Fault::Kind(actual)), "{name}");
    }
}

#[test]
fn a_link_of_the_wrong_kind_inside_the_push_is_no_link() {
    let Simple { old, base, .. } = simple();
    let mut all = old.clone();
    let blob = all.blob("new");
    let root = all.tree(&[("40000", "x", blob)]);
    let tip = all.commit(root, &[base], DATE + 1);
    let brought = all.without(&old);
    let verdict = Push::new(&old, &brought).judge(tip, &mut Refs::of(&[base], &[base])).0;
    assert_eq!(missing(&verdict), (blob, Some(ObjectKind::Tree), Fault::Kind(ObjectKind::Blob)));
}

#[test]
fn an_entry_of_another_kind_at_the_same_path_is_no_proof() {
    // The parent has a gitlink with the id that the new tree names as a blob.
    let mut old = Store::default();
    let root = old.tree(&[("160000", "x", absent(5)), ("160000", "y", absent(6))]);
    let base = old.commit(root, &[], DATE);
    let mut all = old.clone();
    let root = all.tree(&[("100644", "x", absent(5)), ("40000", "y", absent(6))]);
    let tip = all.commit(root, &[base], DATE + 1);
    let brought = all.without(&old);
    let verdict = Push::new(&old, &brought).judge(tip, &mut Refs::of(&[base], &[base])).0;
    assert_eq!(missing(&verdict).0, absent(5));
}

#[test]
fn broken_objects_that_no_new_value_leads_to_do_no_harm() {
    let Simple { old, mut brought, base, tip } = simple();
    let wrong = brought.tree(&[("40000", "x", absent(7)), ("100644", "y", base)]);
    let broken = brought.commit(wrong, &[absent(8)], DATE);
    brought.put(SHA1, ObjectKind::Commit, b"not a commit".to_vec());
    brought.put(SHA1, ObjectKind::Tree, b"not a tree".to_vec());
    let push = Push::new(&old, &brought);
    let mut refs = Refs::of(&[base], &[base]);
    assert_eq!(push.judge(tip, &mut refs), (Ok(()), vec![]));
    let verdicts = push.check(&[tip, broken], &mut refs).unwrap();
    assert_eq!(verdicts.tips[0], Ok(()));
    assert!(verdicts.tips[1].is_err());
}

#[test]
fn an_object_that_cannot_be_read_for_its_links_is_named() {
    let Simple { old, mut brought, base, .. } = simple();
    let tree = brought.put(SHA1, ObjectKind::Tree, b"not a tree".to_vec());
    let tip = brought.commit(tree, &[base], DATE + 1);
    let verdict = Push::new(&old, &brought).judge(tip, &mut Refs::of(&[base], &[base])).0;
    let (id, kind, fault) = missing(&verdict);
    assert_eq!((id, kind), (tree, Some(ObjectKind::Tree)));
    assert!(matches!(fault, Fault::Malformed(LinkError::TreeTruncated)), "{fault:?}");
}

#[test]
fn a_damaged_object_is_missing_and_a_failing_disk_is_an_error() {
    let Simple { mut old, base, .. } = simple();
    let stray = old.blob("stray");
    old.damaged.insert(stray);
    let mut all = old.clone();
    let root = all.tree(&[("100644", "x", stray)]);
    let tip = all.commit(root, &[base], DATE + 1);
    let brought = all.without(&old);
    let mut refs = Refs::of(&[base], &[base]);
    let verdict = Push::new(&old, &brought).judge(tip, &mut refs).0;
    assert_eq!(missing(&verdict), (stray, Some(ObjectKind::Blob), Fault::Damaged));
    let failing = LazySource::new(|| Err(SourceError::Unavailable("the disk is on fire".into())));
    let error = Push::new(&failing, &brought).check(&[tip], &mut refs).unwrap_err();
    assert!(matches!(error, ConnectivityError::Object { .. }), "{error}");
}

#[test]
fn a_tree_that_must_be_read_may_be_as_large_as_the_limit_and_no_larger() {
    let Simple { mut old, base, .. } = simple();
    let file = old.blob("file of a stray tree");
    let stray = old.tree(&[("100644", "a name that makes this the largest", file)]);
    let len = old.objects[&stray].1.len() as u64;
    let mut all = old.clone();
    let tip = all.tag(stray, ObjectKind::Tree, "v1");
    let brought = all.without(&old);
    let mut push = Push::new(&old, &brought);
    push.bytes_max = len;
    let mut refs = Refs::of(&[], &[base]);
    assert_eq!(push.judge(tip, &mut refs).0, Ok(()));
    push.bytes_max = len - 1;
    let told = push.judge(stray, &mut refs).0.unwrap_err();
    let limit =
        format!("tree {stray} is larger than the limit 'metadata_bytes_max' of {}", len - 1);
    assert!(told.to_string().starts_with(&limit), "{told}");
    assert_eq!(told.reason(), RejectReason::Unsupported(told.to_string()));
}

#[test]
fn a_push_on_a_large_tree_that_refs_lead_to_reads_it_not() {
    let mut old = Store::default();
    let file = old.blob("file");
    let names: Vec<_> = (0..50).map(|number| format!("file{number}")).collect();
    let entries: Vec<_> = names.iter().map(|name| ("100644", &name[..], file)).collect();
    let large = old.tree(&entries);
    let base = old.commit(large, &[], DATE);
    let mut all = old.clone();
    let tip = all.commit(large, &[base], DATE + 1);
    let brought = all.without(&old);
    let mut push = Push::new(&old, &brought);
    push.bytes_max = old.objects[&large].1.len() as u64 - 1;
    assert_eq!(push.judge(tip, &mut Refs::of(&[base], &[base])).0, Ok(()));
}

#[test]
fn a_ref_whose_object_is_missing_proves_nothing() {
    let Simple { mut old, brought, base, tip } = simple();
    old.remove(&base);
    for mut refs in [Refs::of(&[base], &[]), Refs::of(&[], &[base])] {
        let verdict = Push::new(&old, &brought).judge(tip, &mut refs).0;
        assert_eq!(missing(&verdict), (base, Some(ObjectKind::Commit), Fault::Absent));
    }
}

#[test]
fn a_cancelled_check_ends_without_a_verdict() {
    let Simple { old, brought, base, tip } = simple();
    let push = Push::new(&old, &brought);
    push.cancel.cancel();
    let error = push.check(&[tip], &mut Refs::of(&[], &[base])).unwrap_err();
    assert!(matches!(error, ConnectivityError::Cancelled), "{error}");
}

#[test]
fn many_refs_with_one_value_cost_one_read() {
    let Simple { old, brought, base, tip } = simple();
    let mut all = old.clone();
    let tree = all.tree(&[]);
    let head = all.commit(tree, &[base], DATE + 3);
    let mut refs = Refs::of(&[], &vec![head; 1000]);
    assert_eq!(Push::new(&all, &brought).judge(tip, &mut refs).0, Ok(()));
    assert!(all.reads() < 10, "{}", all.reads());
    assert_eq!(old.reads(), 0);
}

#[test]
fn history_ends_at_shallow_commits() {
    let mut old = Store::default();
    let tree = old.tree(&[]);
    let base = old.commit(tree, &[absent(1)], DATE);
    let mut all = old.clone();
    let root = all.commit(tree, &[absent(2)], DATE + 1);
    let tip = all.commit(tree, &[root, base], DATE + 2);
    let brought = all.without(&old);
    let mut push = Push::new(&old, &brought);
    assert!(push.judge(tip, &mut Refs::default()).0.is_err());
    push.shallow.insert(base);
    assert_eq!(missing(&push.judge(tip, &mut Refs::default()).0).0, absent(2));
    push.shallow.insert(root);
    assert_eq!(push.judge(tip, &mut Refs::default()).0, Ok(()));
}

#[test]
fn the_empty_tree_need_not_be_there() {
    let old = Store::default();
    let mut brought = Store::default();
    let tip = brought.commit(ObjectId::empty_tree(SHA1), &[], DATE);
    let push = Push::new(&old, &brought);
    assert_eq!(push.judge(tip, &mut Refs::default()), (Ok(()), vec![]));
}

#[test]
fn a_source_is_opened_when_it_is_first_asked() {
    let opens = Cell::new(0);
    let source = LazySource::new(|| {
        opens.set(opens.get() + 1);
        if opens.get() == 1 {
            return Err(SourceError::Unavailable("not now".into()));
        }
        Ok(Box::new(Store::default()))
    });
    assert_eq!(opens.get(), 0);
    assert!(source.kind(&absent(1)).is_err());
    assert!(source.kind(&absent(1)).unwrap().is_none());
    assert!(source.read(&absent(1), 9).unwrap().is_none());
    assert_eq!(opens.get(), 2);
}

/// A hundred directories of a hundred files, and a line of commits that change nothing.
struct Big {
    old: Store,
    directories: Vec<ObjectId>,
    commits: Vec<ObjectId>,
}

fn name(prefix: char, n: usize) -> String {
    format!("{prefix}{n:03}")
}

fn directory(store: &mut Store, n: usize, changed: Option<ObjectId>) -> ObjectId {
    let files: Vec<_> = (0..100)
        .map(|file| {
            let id = store.blob(&format!("{n} {file}"));
            (name('f', file), if file == 7 { changed.unwrap_or(id) } else { id })
        })
        .collect();
    let entries: Vec<_> = files.iter().map(|(name, id)| ("100644", &name[..], *id)).collect();
    store.tree(&entries)
}

fn root(store: &mut Store, directories: &[ObjectId]) -> ObjectId {
    let names: Vec<_> = (0..directories.len()).map(|n| name('d', n)).collect();
    let entries: Vec<_> =
        names.iter().zip(directories).map(|(name, id)| ("40000", &name[..], *id)).collect();
    store.tree(&entries)
}

fn big() -> Big {
    let mut old = Store::default();
    let directories: Vec<_> = (0..100).map(|n| directory(&mut old, n, None)).collect();
    let tree = root(&mut old, &directories);
    let mut commits: Vec<ObjectId> = Vec::new();
    for n in 0..2000 {
        let parents: Vec<_> = commits.last().copied().into_iter().collect();
        commits.push(old.commit(tree, &parents, DATE + n));
    }
    Big { old, directories, commits }
}

impl Big {
    /// A commit that changes one file, on top of `parents`.
    fn change(&self, parents: &[ObjectId]) -> (Store, ObjectId) {
        let mut all = self.old.clone();
        let file = all.blob("changed");
        let mut directories = self.directories.clone();
        directories[42] = directory(&mut all, 42, Some(file));
        let root = root(&mut all, &directories);
        let tip = all.commit(root, parents, DATE + 5000);
        (all.without(&self.old), tip)
    }

    fn tip(&self) -> ObjectId {
        self.commits[1999]
    }
}

#[test]
fn one_small_commit_on_a_big_tree_reads_a_handful_of_objects() {
    let big = big();
    let (brought, tip) = big.change(&[big.tip()]);
    assert_eq!(brought.objects.len(), 4);
    let mut refs = Refs::of(&[big.tip()], &[big.tip()]);
    let push = Push::new(&big.old, &brought);
    assert_eq!(push.judge(tip, &mut refs), (Ok(()), vec![]));
    assert_eq!(big.old.reads(), 3, "the commit, its tree, and the directory");
    assert_eq!(brought.reads(), 0, "no tree is read again");
    assert!(big.old.lookups.get() <= 4, "{}", big.old.lookups.get());
    assert_eq!((refs.listed, push.graph_loads.get()), (0, 0));
}

#[test]
fn a_small_push_costs_the_same_whatever_refs_there_are() {
    let big = big();
    let (brought, tip) = big.change(&[big.tip()]);
    let mut refs = Refs::of(&[big.tip()], &big.commits);
    let push = Push::new(&big.old, &brought);
    assert_eq!(push.judge(tip, &mut refs).0, Ok(()));
    assert_eq!((refs.listed, big.old.reads()), (0, 3));
    // A branch whose start another ref has costs one listing, and no read of any other ref.
    big.old.reads.borrow_mut().clear();
    let mut refs = Refs::of(&[], &big.commits);
    assert_eq!(push.judge(tip, &mut refs).0, Ok(()));
    assert_eq!((refs.listed, big.old.reads()), (1, 4));
}

#[test]
fn a_branch_from_an_older_commit_costs_the_commits_between() {
    let big = big();
    let (brought, tip) = big.change(&[big.commits[1980]]);
    let mut refs = Refs::of(&[big.tip()], &[big.tip()]);
    let push = Push::new(&big.old, &brought);
    assert_eq!(push.judge(tip, &mut refs), (Ok(()), vec![]));
    assert!(big.old.reads() < 30, "{}", big.old.reads());
    assert_eq!((refs.listed, push.graph_loads.get()), (0, 0));
}

#[test]
fn a_commit_that_no_ref_leads_to_costs_what_refs_do_not_lead_to() {
    let mut big = big();
    let tree = big.old.tree(&[]);
    let stray = big.old.commit(tree, &[big.commits[1990]], DATE + 1991);
    let (brought, tip) = big.change(&[stray]);
    let mut refs = Refs::of(&[big.tip()], &[big.tip()]);
    let push = Push::new(&big.old, &brought);
    let (verdict, mut unreferenced) = push.judge(tip, &mut refs);
    assert_eq!(verdict, Ok(()));
    assert!(big.old.reads() < 200, "{}", big.old.reads());
    // The tree beside which the new one could be walked is not complete by a ref.
    assert!(unreferenced.contains(&stray));
    unreferenced.retain(|id| big.commits.contains(id));
    assert_eq!(unreferenced, Vec::<ObjectId>::new());
}

#[test]
fn clocks_that_went_wrong_cost_reads_and_no_verdict() {
    let mut old = Store::default();
    let tree = old.tree(&[]);
    let mut commits: Vec<ObjectId> = Vec::new();
    for n in 0..300u64 {
        let parents: Vec<_> = commits.last().copied().into_iter().collect();
        // Every seventh commit lies about its date, grossly.
        let date = if n % 7 == 0 { n } else { DATE + n };
        commits.push(old.commit(tree, &parents, date));
    }
    let tip = commits[299];
    for start in [290, 200, 100, 7, 0] {
        let mut all = old.clone();
        let new = all.commit(tree, &[commits[start]], DATE + 1000);
        let brought = all.without(&old);
        let push = Push::new(&old, &brought);
        old.reads.borrow_mut().clear();
        assert_eq!(push.judge(new, &mut Refs::of(&[tip], &[tip])), (Ok(()), vec![]), "{start}");
        assert!(old.reads() < 800, "{start}: {}", old.reads());
    }
}

#[test]
fn a_ref_whose_clock_is_behind_that_of_its_parent_costs_no_more() {
    let mut old = Store::default();
    let tree = old.tree(&[]);
    let mut commits: Vec<ObjectId> = Vec::new();
    for n in 0..300 {
        let parents: Vec<_> = commits.last().copied().into_iter().collect();
        commits.push(old.commit(tree, &parents, if n == 299 { 1 } else { DATE + n }));
    }
    let (brought, tip) = on_top_of(&old, commits[298]);
    let mut refs = Refs::of(&commits[299..], &commits[299..]);
    assert_eq!(Push::new(&old, &brought).judge(tip, &mut refs), (Ok(()), vec![]));
    assert!(old.reads() < 5, "{}", old.reads());
    assert_eq!(refs.listed, 0);
}

#[test]
fn a_rewritten_history_finds_its_files_in_the_old_value() {
    let big = big();
    // The old value and the new one both change directory 42 of an older commit.
    let (first, old_tip) = big.change(&[big.commits[1990]]);
    let mut old = big.old.clone();
    old.objects.extend(first.objects);
    let mut all = old.clone();
    let root = old.objects[&old_tip].1.clone();
    let tree = ObjectId::from_hex(&root[5..45]).unwrap();
    let amended = all.commit(tree, &[big.commits[1990]], DATE + 6000);
    let brought = all.without(&old);
    assert_eq!(brought.objects.len(), 1);
    let mut refs = Refs::of(&[old_tip], &[old_tip, big.tip()]);
    assert_eq!(Push::new(&old, &brought).judge(amended, &mut refs), (Ok(()), vec![]));
    assert_eq!(refs.listed, 0);
    assert!(old.reads() < 10, "{}", old.reads());
}

#[test]
fn of_many_new_commits_no_tree_is_read_again() {
    let big = big();
    let mut all = big.old.clone();
    let (mut directories, mut tip) = (big.directories.clone(), big.tip());
    for n in 0..20u64 {
        let file = all.blob(&format!("changed {n}"));
        let place = usize::try_from(n).unwrap() % 5;
        directories[place] = directory(&mut all, place, Some(file));
        let root = root(&mut all, &directories);
        tip = all.commit(root, &[tip], DATE + 5000 + n);
    }
    let brought = all.without(&big.old);
    let mut refs = Refs::of(&[big.tip()], &[big.tip()]);
    assert_eq!(Push::new(&big.old, &brought).judge(tip, &mut refs), (Ok(()), vec![]));
    assert_eq!(big.old.reads(), 1 + 1 + 5, "the commit, its tree, the directories that changed");
    assert_eq!(brought.reads(), 0);
}

#[test]
fn a_tree_that_stands_at_very_many_paths_is_looked_at_in_bounded_time() {
    // 2^40 paths lead to the innermost tree, of the push and of the repository alike.
    let nest = |store: &mut Store, innermost: ObjectId| {
        (0..40).fold(innermost, |tree, _| store.tree(&[("40000", "a", tree), ("40000", "b", tree)]))
    };
    let mut old = Store::default();
    let (x, y) = (old.blob("x"), old.blob("y"));
    let innermost = old.tree(&[("100644", "x", x)]);
    let root = nest(&mut old, innermost);
    let base = old.commit(root, &[], DATE);
    let mut all = old.clone();
    let innermost = all.tree(&[("100644", "x", x), ("100644", "y", y)]);
    let root = nest(&mut all, innermost);
    let tip = all.commit(root, &[base], DATE + 1);
    let brought = all.without(&old);
    let (verdict, unreferenced) =
        Push::new(&old, &brought).judge(tip, &mut Refs::of(&[base], &[base]));
    assert_eq!(verdict, Ok(()));
    assert!(unreferenced.contains(&y));
    assert!(brought.reads() + old.reads() < 10_000, "{} {}", brought.reads(), old.reads());
}

#[test]
fn very_long_histories_and_deep_trees_do_not_exhaust_the_stack() {
    let mut old = Store::default();
    let mut tree = old.tree(&[]);
    for _ in 0..20_000 {
        tree = old.tree(&[("40000", "d", tree)]);
    }
    let mut tip = old.commit(tree, &[], DATE);
    for n in 0..20_000 {
        tip = old.commit(tree, &[tip], DATE + n);
    }
    let (nothing, mut push) = (Store::default(), None);
    let verdict = push.insert(Push::new(&old, &nothing)).judge(tip, &mut Refs::default());
    assert_eq!(verdict.0, Ok(()));
    assert_eq!(verdict.1.len(), old.objects.len() - 1, "all but the empty tree");
    // The same as new objects, with the blame to be found at the very end.
    let mut brought = old.clone();
    let last = *brought
        .objects
        .iter()
        .find(|(_, (kind, data))| {
            *kind == ObjectKind::Commit && !data.windows(6).any(|w| w == b"parent")
        })
        .unwrap()
        .0;
    brought.remove(&last);
    let verdict = Push::new(&nothing, &brought).judge(tip, &mut Refs::default()).0;
    assert_eq!(missing(&verdict).0, last);
}

/// A repository on disk with a commit-graph, and the same objects in memory.
fn with_graph(big: &Big) -> Arc<CommitGraph> {
    let dir = tempfile::tempdir().unwrap();
    let git = |args: &[&str], input: String| {
        use std::io::Write;
        let mut child = Command::new("git")
            .args(args)
            .current_dir(dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    };
    git(&["init", "-q", "--bare"], String::new());
    let mut stream = String::new();
    for n in 0..big.commits.len() {
        use std::fmt::Write as _;
        let who = format!("A U Thor <a@example.com> {} +0000", DATE + n as u64);
        let _ = write!(stream, "commit refs/heads/main\nauthor {who}\ncommitter {who}\n");
        let _ = write!(stream, "data 8\nmessage\n\n");
    }
    git(&["fast-import", "--quiet"], stream);
    git(&["commit-graph", "write", "--reachable"], String::new());
    let objects = [dir.path().join("objects")];
    Arc::new(CommitGraph::load(&Disk::default(), &objects, SHA1, 1 << 20).unwrap())
}

/// A line of commits with empty trees, as git's fast-import makes them too.
fn plain_line() -> Big {
    let mut old = Store::default();
    let tree = old.tree(&[]);
    let mut commits: Vec<ObjectId> = Vec::new();
    for n in 0..2000 {
        let parents: Vec<_> = commits.last().copied().into_iter().collect();
        commits.push(old.commit(tree, &parents, DATE + n));
    }
    Big { old, directories: Vec::new(), commits }
}

fn on_top_of(old: &Store, parent: ObjectId) -> (Store, ObjectId) {
    let mut all = old.clone();
    let tree = ObjectId::empty_tree(SHA1);
    let tip = all.commit(tree, &[parent], DATE + 5000);
    (all.without(old), tip)
}

#[test]
fn a_long_walk_is_made_in_the_commit_graph() {
    let line = plain_line();
    let graph = with_graph(&line);
    assert!(line.commits.iter().all(|id| graph.contains(id)));
    let (brought, tip) = on_top_of(&line.old, line.commits[10]);
    let mut refs = Refs::of(&[line.tip()], &[line.tip()]);
    let mut push = Push::new(&line.old, &brought);
    push.graph = Some(Arc::clone(&graph));
    assert_eq!(push.judge(tip, &mut refs), (Ok(()), vec![]));
    assert!(line.old.reads() < 100, "{}", line.old.reads());
    assert_eq!((refs.listed, push.graph_loads.get()), (0, 1));
    // Without one, the walk gives way to the other refs in time.
    push.graph = None;
    line.old.reads.borrow_mut().clear();
    refs.visible.push(line.commits[10]);
    assert_eq!(push.judge(tip, &mut refs), (Ok(()), vec![]));
    assert!(line.old.reads() < 1200, "{}", line.old.reads());
    assert_eq!(refs.listed, 1);
}

#[test]
fn refs_that_the_commit_graph_knows_are_not_read() {
    let mut line = plain_line();
    let graph = with_graph(&line);
    // A ref that would have to be read, and two hundred that need not.
    let other = line.old.commit(ObjectId::empty_tree(SHA1), &[], DATE + 9000);
    let mut visible = line.commits[1800..].to_vec();
    visible.push(other);
    let (brought, tip) = on_top_of(&line.old, line.commits[100]);
    let mut push = Push::new(&line.old, &brought);
    push.graph = Some(graph);
    let mut refs = Refs::of(&[], &visible);
    assert_eq!(push.judge(tip, &mut refs), (Ok(()), vec![]));
    assert!(line.old.reads() < 5, "{}", line.old.reads());
    assert!(!line.old.reads.borrow().contains(&other));
}

#[test]
fn a_commit_that_only_the_commit_graph_knows_is_missing() {
    let mut line = plain_line();
    let graph = with_graph(&line);
    let lost = line.commits[500];
    line.old.remove(&lost);
    for start in [lost, line.commits[700]] {
        let (brought, tip) = on_top_of(&line.old, start);
        let mut push = Push::new(&line.old, &brought);
        push.graph = Some(Arc::clone(&graph));
        let verdict = push.judge(tip, &mut Refs::of(&[], &[line.tip()])).0;
        if start == lost {
            assert_eq!(missing(&verdict), (lost, Some(ObjectKind::Commit), Fault::Absent));
        } else {
            assert_eq!(verdict, Ok(()), "a visible ref vouches for what it leads to");
        }
    }
}

#[test]
fn a_commit_graph_is_not_asked_in_a_shallow_repository() {
    let line = plain_line();
    let (brought, tip) = on_top_of(&line.old, line.commits[10]);
    let mut push = Push::new(&line.old, &brought);
    push.graph = Some(with_graph(&line));
    push.shallow.insert(line.commits[0]);
    assert_eq!(push.judge(tip, &mut Refs::of(&[line.tip()], &[line.tip()])).0, Ok(()));
    assert_eq!(push.graph_loads.get(), 0);
}

#[test]
fn tags_vouch_for_what_they_lead_to() {
    let Simple { mut old, base, .. } = simple();
    let file = old.blob("tagged");
    let tree = old.tree(&[("100644", "x", file)]);
    let tagged = old.commit(tree, &[base], DATE + 1);
    let inner = old.tag(tagged, ObjectKind::Commit, "v1");
    let outer = old.tag(inner, ObjectKind::Tag, "v2");
    let (brought, tip) = on_top_of(&old, tagged);
    for mut refs in [Refs::of(&[outer], &[]), Refs::of(&[], &[base, outer])] {
        let push = Push::new(&old, &brought);
        assert_eq!(push.judge(tip, &mut refs), (Ok(()), vec![]));
        assert_eq!(push.judge(inner, &mut refs), (Ok(()), vec![]));
        assert_eq!(push.judge(outer, &mut refs), (Ok(()), vec![]));
    }
}
