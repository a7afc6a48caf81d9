//! fsck on receipt: every object is looked at, however it comes, and what it names must be there.

use super::history;
use crate::fsck::{Finding, Findings, Fsck, FsckOptions};
use crate::ingest::testing::*;
use crate::ingest::{IngestError, IngestOptions, Inspection};
use crate::model::{HashKind, Limits, ObjectId, ObjectKind};
use crate::pack::writer::{PackBuilder, encode_delta};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;

const HASH: HashKind = HashKind::Sha1;
const EVIL: &[u8] = b"[submodule \"a\"]\n\turl = -x\n";

fn entry(mode: &str, name: &str, id: &ObjectId) -> Vec<u8> {
    [mode.as_bytes(), b" ", name.as_bytes(), b"\0", id.as_slice()].concat()
}

fn commit(tree: &ObjectId, parents: &[ObjectId]) -> Vec<u8> {
    let parents: Vec<_> = parents.iter().map(|parent| format!("parent {parent}\n")).collect();
    let parents = parents.concat();
    let who = "a <a@b> 1 +0000";
    format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\nm\n").into_bytes()
}

/// What became of a pack: the lines of its findings, and those of its refusal.
fn inspect(
    pack: &[u8],
    store: &Store,
    options: &IngestOptions,
    shallow: &[ObjectId],
) -> (Vec<String>, Result<Taken, IngestError>) {
    let fsck = Fsck::new(FsckOptions::strict(options.hash));
    let inspection = Arc::new(Inspection::new(fsck, shallow.iter().copied().collect()));
    let options = IngestOptions { fsck: Some(Arc::clone(&inspection)), ..options.clone() };
    let taken = take(pack, store, &options);
    let findings = inspection.take_findings();
    (findings.iter().map(|finding| finding.line().to_string()).collect(), taken)
}

fn refused(result: Result<Taken, IngestError>) -> Vec<String> {
    match result {
        Err(IngestError::Refused(refusal)) => refusal.lines(),
        other => panic!("not refused: {other:?}"),
    }
}

fn both() -> [IngestOptions; 2] {
    [keeping(HASH), unpacking(HASH)]
}

#[test]
fn without_fsck_nothing_is_looked_at() {
    let mut pack = PackBuilder::new(HASH, 1);
    pack.whole(ObjectKind::Tree, &entry("100644", ".git", &id_of(HASH, ObjectKind::Blob, b"x")));
    let pack = pack.finish();
    for options in both() {
        take(&pack, &Store::default(), &options).unwrap();
        let (lines, taken) = inspect(&pack, &Store::default(), &options, &[]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(refused(taken), ["fatal: fsck error in packed object"]);
    }
}

#[test]
fn a_history_that_is_whole_and_well_made_is_taken_in_silence() {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let silent = |form: &[&str], options: &IngestOptions| {
            let pack = history::pack(hash, form, "");
            let (lines, taken) = inspect(&pack, &Store::default(), options, &[]);
            assert_eq!(lines, [""; 0]);
            taken.unwrap();
        };
        for threads in [1, 3] {
            silent(&["--delta-base-offset"], &IngestOptions { threads, ..keeping(hash) });
        }
        silent(&["--window=0"], &unpacking(hash));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_split_of_the_pack_is_told_the_same(
        sizes in prop::collection::vec(1usize..200, 1..8),
        flaw in 0usize..6,
        keeps in any::<bool>(),
    ) {
        let blob = id_of(HASH, ObjectKind::Blob, EVIL);
        let tree = entry("100644", ".gitmodules", &blob);
        let objects = [
            (ObjectKind::Tree, entry("100664", "f", &blob)),
            (ObjectKind::Blob, EVIL[..EVIL.len() - flaw.min(3)].to_vec()),
            (ObjectKind::Commit, commit(&id_of(HASH, ObjectKind::Tree, &tree), &[])),
            (ObjectKind::Tree, tree),
            (ObjectKind::Blob, if flaw == 4 { b"x".to_vec() } else { EVIL.to_vec() }),
            (ObjectKind::Tag, if flaw == 5 { b"x".to_vec() } else { b"".to_vec() }),
        ];
        let mut pack = PackBuilder::new(HASH, 1);
        for (kind, content) in objects.iter().take(if flaw == 5 { 6 } else { 5 }) {
            pack.whole(*kind, content);
        }
        let pack = pack.finish();
        let options = if keeps { keeping(HASH) } else { unpacking(HASH) };
        let inspect_from = |input: &mut dyn std::io::Read| {
            let fsck = Fsck::new(FsckOptions::strict(HASH));
            let inspection = Arc::new(Inspection::new(fsck, HashSet::new()));
            let options = IngestOptions { fsck: Some(Arc::clone(&inspection)), ..options.clone() };
            let error = take_from(input, &Store::default(), &options).unwrap_err().to_string();
            let findings = inspection.take_findings();
            (findings.iter().map(Finding::line).collect::<Vec<_>>(), error)
        };
        let at_once = inspect_from(&mut &pack[..]);
        let in_pieces = inspect_from(&mut Pieces { bytes: &pack, sizes, next: 0 });
        prop_assert_eq!(at_once, in_pieces);
    }
}

#[test]
fn a_tree_that_a_delta_makes_is_looked_at_whole() {
    // Both entries are copied whole, and only their order is wrong.
    let blob = id_of(HASH, ObjectKind::Blob, b"x");
    let (a, b) = (entry("100644", "a", &blob), entry("100644", "b", &blob));
    let (base, made) = ([a.clone(), b.clone()].concat(), [b, a].concat());
    let store = Store::with([(ObjectKind::Blob, b"x".to_vec())]);
    let mut pack = PackBuilder::new(HASH, 1);
    let offset = pack.whole(ObjectKind::Tree, &base);
    pack.ofs_delta(offset, &copies(base.len(), &[(29, 29), (0, 29)]));
    let pack = pack.finish();
    let id = id_of(HASH, ObjectKind::Tree, &made);
    for options in both() {
        let (lines, taken) = inspect(&pack, &store, &options, &[]);
        let line = format!("error: object {id}: treeNotSorted: not properly sorted");
        assert_eq!(lines, [line]);
        assert_eq!(refused(taken), ["fatal: fsck error in packed object"]);
    }
}

/// A delta that copies these parts of a base.
fn copies(base_len: usize, parts: &[(u8, u8)]) -> Vec<u8> {
    let len = u8::try_from(base_len).unwrap();
    let mut delta = vec![len, parts.iter().map(|(_, len)| len).sum()];
    for (offset, len) in parts {
        delta.extend_from_slice(&[0x91, *offset, *len]);
    }
    delta
}

#[test]
fn a_large_tree_is_looked_at_whole_whatever_memory_there_is() {
    let blob = id_of(HASH, ObjectKind::Blob, b"x");
    let store = Store::with([(ObjectKind::Blob, b"x".to_vec())]);
    let entries: Vec<u8> =
        (0..8000).flat_map(|n| entry("100644", &format!("f{n:05}"), &blob)).collect();
    let bad = [&entries[..], &entry("100644", "a", &blob)].concat();
    let mut pack = PackBuilder::new(HASH, 1);
    pack.whole(ObjectKind::Tree, &bad);
    let whole = pack.finish();
    let mut pack = PackBuilder::new(HASH, 1);
    let offset = pack.whole(ObjectKind::Tree, &entries);
    pack.ofs_delta(offset, &encode_delta(&entries, &bad).unwrap());
    let by_delta = pack.finish();
    for pack in [whole, by_delta] {
        for threads in [1, 3] {
            // An object of more than 64 KiB is made piece by piece where nothing looks at it.
            let limits = Limits { base_cache_bytes_max: 0, ..Limits::default() };
            let options = IngestOptions { limits, threads, ..keeping(HASH) };
            take(&pack, &store, &options).unwrap();
            let (lines, taken) = inspect(&pack, &store, &options, &[]);
            assert!(lines[0].ends_with("treeNotSorted: not properly sorted"), "{lines:?}");
            assert_eq!(refused(taken), ["fatal: fsck error in packed object"]);
            let good = Limits { metadata_bytes_max: 100_000, ..options.limits.clone() };
            let options = IngestOptions { limits: good, ..options };
            let (_, taken) = inspect(&pack, &store, &options, &[]);
            let error = taken.unwrap_err();
            assert!(error.to_string().contains("'metadata_bytes_max' of 100000"), "{error}");
        }
    }
}

#[test]
fn special_blobs_are_looked_at_wherever_they_are() {
    let evil = id_of(HASH, ObjectKind::Blob, EVIL);
    let tree = entry("100644", ".gitmodules", &evil);
    let fine = b"[submodule \"a\"]\n\turl = a\n".to_vec();
    let delta = encode_delta(&fine, EVIL).unwrap();
    let build = |make: &dyn Fn(&mut PackBuilder)| {
        let mut pack = PackBuilder::new(HASH, 1);
        make(&mut pack);
        pack.finish()
    };
    let there = Store::with([(ObjectKind::Blob, EVIL.to_vec())]);
    let base_there = Store::with([(ObjectKind::Blob, fine.clone())]);
    let base = id_of(HASH, ObjectKind::Blob, &fine);
    for (pack, store) in [
        (
            build(&|pack| {
                pack.whole(ObjectKind::Tree, &tree);
                pack.whole(ObjectKind::Blob, EVIL);
            }),
            &Store::default(),
        ),
        (
            build(&|pack| {
                pack.whole(ObjectKind::Blob, EVIL);
                pack.whole(ObjectKind::Tree, &tree);
            }),
            &Store::default(),
        ),
        (build(&|pack| _ = pack.whole(ObjectKind::Tree, &tree)), &there),
        (
            build(&|pack| {
                let offset = pack.whole(ObjectKind::Blob, &fine);
                pack.ofs_delta(offset, &delta);
                pack.whole(ObjectKind::Tree, &tree);
            }),
            &Store::default(),
        ),
        (
            build(&|pack| {
                pack.ref_delta(base, &delta);
                pack.whole(ObjectKind::Tree, &tree);
            }),
            &base_there,
        ),
    ] {
        for options in both() {
            for threads in [1, 3] {
                let options = IngestOptions { threads, ..options.clone() };
                let (lines, taken) = inspect(&pack, store, &options, &[]);
                let line =
                    format!("error: object {evil}: gitmodulesUrl: disallowed submodule url: -x");
                assert_eq!(lines, [line]);
                assert!(refused(taken)[0].starts_with("fatal: fsck error in pack"));
            }
        }
    }
}

#[test]
fn modules_that_are_a_gitlink_to_nowhere_are_missing() {
    // Some runs of git's index-pack let them in, and some end without a word.
    let mut pack = PackBuilder::new(HASH, 1);
    pack.whole(ObjectKind::Tree, &entry("160000", ".gitmodules", &ObjectId::null(HASH)));
    pack.whole(
        ObjectKind::Tree,
        &entry("160000", ".gitattributes", &ObjectId::from_bytes_or_panic(&[1; 20])),
    );
    let (lines, taken) = inspect(&pack.finish(), &Store::default(), &unpacking(HASH), &[]);
    assert!(lines.iter().any(|line| line.contains("nullSha1")), "{lines:?}");
    assert_eq!(refused(taken), ["fatal: fsck error in packed object"]);
    let mut pack = PackBuilder::new(HASH, 1);
    let gone = ObjectId::from_bytes_or_panic(&[1; 20]);
    pack.whole(ObjectKind::Tree, &entry("160000", ".gitmodules", &gone));
    let pack = pack.finish();
    for options in both() {
        let (lines, taken) = inspect(&pack, &Store::default(), &options, &[]);
        let line =
            format!("error: object {gone}: gitmodulesMissing: unable to read .gitmodules blob");
        assert_eq!(lines, [line]);
        assert_eq!(refused(taken), ["fatal: fsck error in pack objects"]);
    }
}

#[test]
fn special_names_are_held_to_the_limit_of_names() {
    let gone = |n: u8| ObjectId::from_bytes_or_panic(&[n; 20]);
    for (names, is_too_many) in [(9, false), (10, true)] {
        let mut pack = PackBuilder::new(HASH, 1);
        for n in 1..=names {
            pack.whole(ObjectKind::Tree, &entry("160000", ".gitmodules", &gone(n)));
        }
        let limits = Limits { named_objects_max: 9, ..Limits::default() };
        let options = IngestOptions { limits, ..keeping(HASH) };
        let (_, taken) = inspect(&pack.finish(), &Store::default(), &options, &[]);
        match taken.unwrap_err() {
            IngestError::TooManyNames { limit } => assert!(is_too_many && limit.value == 9),
            IngestError::Refused(_) => assert!(!is_too_many),
            error => panic!("{error}"),
        }
    }
}

#[test]
fn modules_beyond_the_bound_of_memory_are_too_large() {
    let mut large = EVIL.to_vec();
    large.extend(std::iter::repeat_n(b'\n', 300_000));
    let blob = id_of(HASH, ObjectKind::Blob, &large);
    let tree = entry("100644", ".gitmodules", &blob);
    let mut pack = PackBuilder::new(HASH, 1);
    pack.whole(ObjectKind::Blob, &large);
    pack.whole(ObjectKind::Tree, &tree);
    let together = pack.finish();
    let mut pack = PackBuilder::new(HASH, 1);
    pack.whole(ObjectKind::Tree, &tree);
    let alone = pack.finish();
    let there = Store::with([(ObjectKind::Blob, large)]);
    for (pack, store) in [(together, Store::default()), (alone, there)] {
        for (metadata_bytes_max, text) in [(1 << 20, "gitmodulesUrl"), (200_000, "gitmodulesLarge")]
        {
            let base_cache_bytes_max = 0;
            let limits = Limits { metadata_bytes_max, base_cache_bytes_max, ..Limits::default() };
            let options = IngestOptions { limits, ..keeping(HASH) };
            let (lines, taken) = inspect(&pack, &store, &options, &[]);
            assert!(lines[0].contains(text), "{lines:?}");
            refused(taken);
        }
    }
}

#[test]
fn special_files_that_are_here_already_are_not_read_without_end() {
    let content = |length| [EVIL, &vec![b'\n'; length - EVIL.len()]].concat();
    let blobs = [299_998, 299_999, 300_000].map(|length| (ObjectKind::Blob, content(length)));
    let store = Store::with(blobs.clone());
    let mut pack = PackBuilder::new(HASH, 1);
    for (kind, content) in &blobs {
        let tree = entry("100644", ".gitmodules", &id_of(HASH, *kind, content));
        pack.whole(ObjectKind::Tree, &tree);
    }
    let pack = pack.finish();
    for (metadata_bytes_max, expansion_free_bytes, limit) in [
        (1 << 20, 900_000, None),
        (1 << 20, 800_000, Some("expansion_ratio_max")),
        // Those that are too large are not read at all.
        (200_000, 100_000, None),
    ] {
        let limits = Limits {
            metadata_bytes_max,
            expansion_free_bytes,
            expansion_ratio_max: 1,
            base_cache_bytes_max: 0,
            ..Limits::default()
        };
        let options = IngestOptions { limits, ..keeping(HASH) };
        let error = inspect(&pack, &store, &options, &[]).1.unwrap_err();
        assert_eq!(error.limit().map(|limit| limit.name), limit, "{error}");
    }
}

#[test]
fn fsck_notes_no_more_parents_than_a_commit_may_have() {
    let [gone, empty] = [ObjectId::from_bytes_or_panic(&[1; 20]), ObjectId::empty_tree(HASH)];
    for (parents, is_too_many) in [(9, false), (10, true)] {
        let mut content = commit(&empty, &vec![gone; parents]);
        // fsck would refuse it, too.
        content.truncate(content.len() - 30);
        let mut pack = PackBuilder::new(HASH, 1);
        pack.whole(ObjectKind::Commit, &content);
        let limits = Limits { commit_parents_max: 9, ..Limits::default() };
        let options = IngestOptions { limits, ..keeping(HASH) };
        let error = inspect(&pack.finish(), &Store::default(), &options, &[gone]).1.unwrap_err();
        let told = error.limit().map(|limit| limit.name);
        assert_eq!(told, is_too_many.then_some("commit_parents_max"), "{error}");
    }
}

#[test]
fn what_is_named_must_be_there_and_be_what_it_is_named_as() {
    let blob = id_of(HASH, ObjectKind::Blob, b"x");
    let tree = entry("100644", "f", &blob);
    let tree_id = id_of(HASH, ObjectKind::Tree, &tree);
    let empty = ObjectId::empty_tree(HASH);
    let whole = |kind, content: &[u8]| {
        let mut pack = PackBuilder::new(HASH, 1);
        pack.whole(kind, content);
        pack.finish()
    };
    let mut late = Store::with([(ObjectKind::Blob, b"x".to_vec())]);
    late.late.insert(blob);
    let here = Store::with([(ObjectKind::Blob, b"x".to_vec())]);
    let nothing = Store::default();
    for (pack, store, kept, unpacked) in [
        (whole(ObjectKind::Tree, &tree), &here, None, None),
        (whole(ObjectKind::Tree, &tree), &late, None, None),
        (whole(ObjectKind::Commit, &commit(&empty, &[])), &nothing, None, None),
        (
            whole(ObjectKind::Tree, &tree),
            &nothing,
            Some(format!("fatal: did not receive expected object {blob}")),
            Some("fatal: object of unexpected type"),
        ),
        (
            whole(ObjectKind::Commit, &commit(&blob, &[])),
            &here,
            Some(format!("fatal: object {blob}: expected type tree, found blob")),
            Some("fatal: object of unexpected type"),
        ),
        (
            whole(ObjectKind::Commit, &commit(&empty, &[tree_id])),
            &nothing,
            Some(format!("fatal: did not receive expected object {tree_id}")),
            Some("fatal: object of unexpected type"),
        ),
    ] {
        for (options, expected) in both().into_iter().zip([kept, unpacked.map(Into::into)]) {
            let (lines, taken) = inspect(&pack, store, &options, &[]);
            assert_eq!(lines, [""; 0]);
            match expected {
                None => _ = taken.unwrap(),
                Some(line) => assert_eq!(refused(taken), [line]),
            }
        }
    }
}

#[test]
fn an_object_of_the_pack_that_is_named_as_another_kind_is_refused_in_any_order() {
    let blob = id_of(HASH, ObjectKind::Blob, b"x");
    let objects =
        [(ObjectKind::Tree, entry("40000", "d", &blob)), (ObjectKind::Blob, b"x".to_vec())];
    for order in [[0, 1], [1, 0]] {
        let mut pack = PackBuilder::new(HASH, 1);
        for at in order {
            pack.whole(objects[at].0, &objects[at].1);
        }
        let (_, taken) = inspect(&pack.finish(), &Store::default(), &keeping(HASH), &[]);
        let line = format!("fatal: object {blob}: expected type tree, found blob");
        assert_eq!(refused(taken), [line]);
    }
}

#[test]
fn a_store_that_cannot_be_read_is_no_fault_of_the_pack() {
    let mut store = Store::with([(ObjectKind::Blob, b"x".to_vec())]);
    let blob = id_of(HASH, ObjectKind::Blob, b"x");
    store.unreadable.insert(blob);
    let mut pack = PackBuilder::new(HASH, 1);
    pack.whole(ObjectKind::Tree, &entry("100644", "f", &blob));
    let (_, taken) = inspect(&pack.finish(), &store, &keeping(HASH), &[]);
    assert!(matches!(taken, Err(IngestError::Existing { id, .. }) if id == blob));
}

#[test]
fn parents_of_shallow_commits_need_not_be_there_unless_others_name_them() {
    let [gone, empty] = [ObjectId::from_bytes_or_panic(&[1; 20]), ObjectId::empty_tree(HASH)];
    let border = commit(&empty, &[gone]);
    let beside = commit(&empty, &[gone, id_of(HASH, ObjectKind::Commit, &border)]);
    let border_id = id_of(HASH, ObjectKind::Commit, &border);
    for options in both() {
        let mut pack = PackBuilder::new(HASH, 1);
        pack.whole(ObjectKind::Commit, &border);
        let alone = pack.finish();
        inspect(&alone, &Store::default(), &options, &[border_id]).1.unwrap();
        refused(inspect(&alone, &Store::default(), &options, &[]).1);
        refused(inspect(&alone, &Store::default(), &options, &[gone]).1);
        let mut pack = PackBuilder::new(HASH, 1);
        pack.whole(ObjectKind::Commit, &beside);
        pack.whole(ObjectKind::Commit, &border);
        refused(inspect(&pack.finish(), &Store::default(), &options, &[border_id]).1);
    }
}

#[test]
fn warnings_are_told_of_a_pack_that_fails_for_another_reason() {
    let blob = id_of(HASH, ObjectKind::Blob, b"x");
    let mut pack = PackBuilder::new(HASH, 1);
    pack.whole(ObjectKind::Tree, &entry("100664", "f", &blob));
    let mut pack = pack.finish();
    let (lines, taken) = inspect(&pack, &Store::default(), &keeping(HASH), &[]);
    assert!(lines[0].contains("badFilemode"), "{lines:?}");
    refused(taken);
    let last = pack.len() - 1;
    pack[last] ^= 1;
    let (lines, taken) = inspect(&pack, &Store::default(), &keeping(HASH), &[]);
    assert!(lines[0].contains("badFilemode"), "{lines:?}");
    assert!(matches!(taken, Err(IngestError::BadPack(_))));
}

#[test]
fn no_more_is_told_than_of_the_first_object_that_is_refused() {
    let blob = id_of(HASH, ObjectKind::Blob, b"x");
    let store = Store::with([(ObjectKind::Blob, b"x".to_vec())]);
    let base = [entry("100644", "b", &blob), entry("100644", "c", &blob)].concat();
    let mut pack = PackBuilder::new(HASH, 1);
    let offset = pack.whole(ObjectKind::Tree, &base);
    for _ in 0..3000 {
        pack.ofs_delta(offset, &copies(base.len(), &[(29, 29), (0, 29)]));
    }
    let pack = pack.finish();
    for threads in [1, 4] {
        let options = IngestOptions { threads, ..keeping(HASH) };
        let (lines, taken) = inspect(&pack, &store, &options, &[]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        refused(taken);
    }
}

#[test]
fn a_push_that_is_made_of_warnings_keeps_few() {
    let blob = id_of(HASH, ObjectKind::Blob, b"x");
    let store = Store::with([(ObjectKind::Blob, b"x".to_vec())]);
    let mut pack = PackBuilder::new(HASH, 1);
    for number in 0..1000 {
        pack.whole(ObjectKind::Tree, &entry("100664", &format!("f{number}"), &blob));
    }
    let (lines, taken) = inspect(&pack.finish(), &store, &keeping(HASH), &[]);
    assert_eq!(lines.len(), Findings::KEPT_MAX);
    let ids: HashSet<_> = taken.unwrap().ingested.objects.ids().map(ToOwned::to_owned).collect();
    assert_eq!(ids.len(), 1000);
}
