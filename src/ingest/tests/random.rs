//! Whatever is made early, and by whichever thread: the outcome is the one of making it last.

use crate::ingest::testing::*;
use crate::ingest::*;
use crate::model::{HashKind, Limits, ObjectId, ObjectKind};
use crate::pack::writer::{PackBuilder, encode_delta};
use proptest::prelude::*;
use std::collections::BTreeSet;

const HASH: HashKind = HashKind::Sha1;

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    fn id(&mut self) -> [u8; 20] {
        // Few, so that many are named more than once and as several kinds.
        let [low, high, ..] = self.below(700).to_le_bytes();
        let mut id = [9; 20];
        id[..2].copy_from_slice(&[low, high]);
        id
    }
}

/// An object, and which one it is made from.
struct Node {
    kind: ObjectKind,
    content: Vec<u8>,
    base: Option<usize>,
}

/// What goes wrong in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A delta was made against another base.
    WrongDelta,
    /// A base is nowhere.
    NoBase,
    /// A tree has more entries than may be.
    Entries,
    /// A chain is longer than may be.
    Depth,
    /// The objects name more than may be.
    Names,
    /// The objects have more bytes than may be, and a delta is wrong.
    Expansion,
}

fn entry(numbers: &mut Numbers) -> Vec<u8> {
    let mode = ["100644", "40000", "160000", "120000", "0"][numbers.below(5)];
    let name = "abcdefgh".repeat(2)[numbers.below(8)..][..=numbers.below(8)].to_owned();
    [format!("{mode} {name}\0").as_bytes(), &numbers.id()].concat()
}

fn whole(numbers: &mut Numbers) -> (ObjectKind, Vec<u8>) {
    match numbers.below(20) {
        0..=8 => (ObjectKind::Blob, (0..numbers.below(60)).flat_map(|_| numbers.id()).collect()),
        9..=17 => (ObjectKind::Tree, (0..numbers.below(40)).flat_map(|_| entry(numbers)).collect()),
        _ => {
            let tree = ObjectId::from_bytes_or_panic(&numbers.id());
            (ObjectKind::Commit, format!("tree {tree}\nauthor {tree}\n").into_bytes())
        }
    }
}

/// Something else at one place of an object, an entry more often than not.
fn changed(numbers: &mut Numbers, of: &Node) -> Vec<u8> {
    let content = &of.content;
    let mut start = numbers.below(content.len() + 1);
    let mut end = start + numbers.below(content.len() + 1 - start);
    let mut middle = numbers.id()[..numbers.below(4)].to_vec();
    if of.kind == ObjectKind::Tree && !numbers.one_in(12) {
        let mut entries = crate::links::tree(content, HASH);
        let mut starts = vec![0];
        while let Some(Ok(_)) = entries.next() {
            starts.push(content.len() - entries.rest().len());
        }
        let at = numbers.below(starts.len());
        start = starts[at];
        end = if numbers.one_in(3) { start } else { *starts.get(at + 1).unwrap_or(&start) };
        middle = if numbers.one_in(4) { Vec::new() } else { entry(numbers) };
    }
    [&content[..start], &middle, &content[end..]].concat()
}

fn nodes(numbers: &mut Numbers, count: usize) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    while nodes.len() < count {
        let base = match nodes.len() {
            0 => None,
            _ if numbers.one_in(6) => None,
            // Chains, bushes, and what is far away.
            len if numbers.one_in(3) => Some(numbers.below(len)),
            len => Some(len - 1 - numbers.below(len.min(3))),
        };
        let (kind, content) = match base {
            None => whole(numbers),
            Some(base) => (nodes[base].kind, changed(numbers, &nodes[base])),
        };
        nodes.push(Node { kind, content, base });
    }
    nodes
}

/// A pack of them, out of order, some of them twice.
fn pack(numbers: &mut Numbers, nodes: &[Node], fault: Fault) -> Vec<u8> {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    let swaps = [0, 20, nodes.len()][numbers.below(3)];
    for _ in 0..swaps {
        order.swap(numbers.below(nodes.len()), numbers.below(nodes.len()));
    }
    for _ in 0..numbers.below(60) {
        order.insert(numbers.below(order.len()), numbers.below(nodes.len()));
    }
    let ids: Vec<_> = nodes.iter().map(|node| id_of(HASH, node.kind, &node.content)).collect();
    let wrong_at = numbers.below(order.len());
    let by_id = [3, 50, 1000][numbers.below(3)];
    let mut offsets = vec![None; nodes.len()];
    let mut builder = PackBuilder::new(HASH, 1);
    for (at, &number) in order.iter().enumerate() {
        let node = &nodes[number];
        let delta = node.base.and_then(|base| encode_delta(&nodes[base].content, &node.content));
        let offset = match (node.base, delta) {
            // One that came before is whole now: nothing is made from itself.
            (Some(base), Some(delta)) if offsets[number].is_none() && ids[base] != ids[number] => {
                match offsets[base] {
                    Some(offset) if !numbers.one_in(by_id) => builder.ofs_delta(offset, &delta),
                    _ => builder.ref_delta(ids[base], &delta),
                }
            }
            _ => builder.whole(node.kind, &node.content),
        };
        if at == wrong_at && matches!(fault, Fault::WrongDelta | Fault::Expansion) {
            let delta = encode_delta(&[1; 70], &[2; 70]).unwrap();
            let base = builder.whole(ObjectKind::Blob, &[1; 71]);
            builder.ofs_delta(base, &delta);
        }
        if at == wrong_at && fault == Fault::NoBase {
            let delta = encode_delta(&[1; 70], &[2; 70]).unwrap();
            builder.ref_delta(ObjectId::from_bytes_or_panic(&[1; 20]), &delta);
        }
        offsets[number] = Some(offset);
    }
    builder.finish()
}

/// Everything that somebody could tell two outcomes apart by.
fn told(result: &Result<Taken, IngestError>) -> (String, Vec<u8>) {
    let taken = match result {
        // The numbers in an error are those of whichever fault was met first.
        Err(error) => return (format!("{:?}", std::mem::discriminant(error)), Vec::new()),
        Ok(taken) => taken,
    };
    let objects = &taken.ingested.objects;
    let boundary: BTreeSet<_> = objects.boundary().collect();
    let contradictions: BTreeSet<_> =
        objects.contradictions().map(|(link, kind)| (link, format!("{kind:?}"))).collect();
    let ids: BTreeSet<_> = objects.ids().map(|id| (id.to_owned(), objects.kind(id))).collect();
    let facts = format!(
        "{boundary:?} {contradictions:?} {ids:?} {} {} {:?} {} {}",
        objects.named_len(),
        objects.has_malformed(),
        objects.tree_names(),
        taken.ingested.inflated_bytes,
        taken.pack().appended_bases,
    );
    (facts, std::fs::read(taken.objects_dir().join(&taken.pack().index)).unwrap())
}

/// The index that git makes of a pack; none where objects that come twice are bases by id.
fn index_of_git(pack: &[u8]) -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.pack"), pack).unwrap();
    let output = git(directory.path(), &["index-pack", "-o", "a.idx", "a.pack"], b"");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("already resolved (duplicate base") {
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(std::fs::read(directory.path().join("a.idx")).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn what_is_made_early_makes_no_difference(
        seed in any::<u64>(),
        fault in prop::sample::select(vec![
            Fault::None, Fault::None, Fault::None, Fault::None, Fault::WrongDelta, Fault::NoBase,
            Fault::Entries, Fault::Depth, Fault::Names, Fault::Expansion,
        ]),
        sizes in prop::collection::vec(prop_oneof![100usize..2000, 10_000usize..100_000], 1..4),
    ) {
        let mut numbers = Numbers(seed);
        let nodes = nodes(&mut numbers, 1100);
        let bytes = pack(&mut numbers, &nodes, fault);
        let mut limits = Limits::default();
        match fault {
            Fault::Entries => limits.tree_entries_max = 30,
            Fault::Depth => limits.delta_depth_max = 8,
            Fault::Names => limits.named_objects_max = 500,
            Fault::Expansion => (limits.expansion_free_bytes, limits.expansion_ratio_max) = (1000, 1),
            _ => {}
        }
        // Too little to make anything early.
        let little = Limits { base_cache_bytes_max: 512 << 10, ..limits.clone() };
        let with = |threads, limits: &Limits| {
            let options = IngestOptions { threads, limits: limits.clone(), ..keeping(HASH) };
            let mut pieces = Pieces { bytes: &bytes, sizes: sizes.clone(), next: 0 };
            take_from(&mut pieces, &Store::default(), &options)
        };
        let result = with(1, &little);
        let expected = told(&result);
        prop_assert!(result.is_ok() || fault != Fault::None, "{:?}", result.err());
        for (threads, limits) in [(1, &limits), (2, &limits), (2, &little)] {
            let result = with(threads, limits);
            let found = told(&result);
            prop_assert!(found == expected, "{} {:?} {:?}", threads, found.0, expected.0);
        }
        if result.is_ok() {
            let git = index_of_git(&bytes);
            prop_assert!(git.is_none_or(|git| git == expected.1));
        }
    }
}
