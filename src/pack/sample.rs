//! Random packs for the tests of this module: whole objects and deltas of every sort, in any
//! order that the format allows.

use super::checksum::Checksum;
use super::entry::{EntryHeader, EntryKind};
use super::writer::{PackBuilder, encode_delta};
use crate::model::{HashKind, ObjectId, ObjectKind};
use proptest::prelude::*;
use proptest::sample::Index;

/// A pack with what is known about it.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) hash: HashKind,
    pub(super) bytes: Vec<u8>,
    /// In the order of the pack.
    pub(super) entries: Vec<SampleEntry>,
}

/// One entry of a sample.
#[derive(Clone, Debug)]
pub(super) struct SampleEntry {
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) header: EntryHeader,
    /// What the entry's stream inflates to.
    pub(super) data: Vec<u8>,
    /// The object, deltas resolved.
    pub(super) kind: ObjectKind,
    pub(super) content: Vec<u8>,
    pub(super) id: ObjectId,
}

impl Sample {
    /// The bytes of an entry as they are in the pack.
    pub(super) fn raw(&self, entry: &SampleEntry) -> &[u8] {
        let place = |offset| usize::try_from(offset).unwrap();
        &self.bytes[place(entry.offset)..place(entry.end)]
    }

    /// git before 2.50 gives up where two entries hold an object that a delta names as its base
    /// by id, and `git index-pack` does for an empty pack.
    pub(super) fn is_read_by_git(&self) -> bool {
        let copies = |id: ObjectId| self.entries.iter().filter(|entry| entry.id == id).count();
        let mut kinds = self.entries.iter().map(|entry| entry.header.kind);
        !self.entries.is_empty()
            && kinds.all(|kind| match kind {
                EntryKind::RefDelta { base } => copies(base) == 1,
                _ => true,
            })
    }
}

/// An object and how it is to be told.
#[derive(Clone, Debug)]
struct Plan {
    kind: ObjectKind,
    /// The object, or for a delta what is put in the middle of its base.
    text: Vec<u8>,
    /// The object that a delta is made from, of those that come earlier in the plan.
    base: Option<Index>,
    by_offset: bool,
    /// Where in the pack: entries are sorted by this.
    place: u16,
}

/// The id of an object.
pub(super) fn object_id(hash: HashKind, kind: ObjectKind, content: &[u8]) -> ObjectId {
    let mut checksum = Checksum::new(hash);
    checksum.update(format!("{kind} {}\0", content.len()).as_bytes());
    checksum.update(content);
    checksum.finish()
}

/// Both hashes.
pub(super) fn hash_kind() -> impl Strategy<Value = HashKind> {
    prop_oneof![Just(HashKind::Sha1), Just(HashKind::Sha256)]
}

/// Packs of up to a dozen objects: whole ones, deltas by offset and by id, chains, bases behind
/// their deltas, duplicates now and then.
pub(super) fn sample() -> impl Strategy<Value = Sample> {
    let text = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(any::<u8>(), 0..3000),
        1 => (any::<u8>(), 0usize..300_000).prop_map(|(byte, len)| vec![byte; len]),
    ];
    let kind = prop_oneof![
        Just(ObjectKind::Commit),
        Just(ObjectKind::Tree),
        Just(ObjectKind::Blob),
        Just(ObjectKind::Tag),
    ];
    let base = prop::option::of(any::<Index>());
    let plan = (kind, text, base, any::<bool>(), any::<u16>()).prop_map(
        |(kind, text, base, by_offset, place)| Plan { kind, text, base, by_offset, place },
    );
    (hash_kind(), prop::collection::vec(plan, 0..12), 0u32..=9)
        .prop_map(|(hash, plans, level)| build(hash, &plans, level))
}

fn build(hash: HashKind, plans: &[Plan], level: u32) -> Sample {
    let mut objects: Vec<(ObjectKind, Vec<u8>, Option<usize>)> = Vec::new();
    for (n, plan) in plans.iter().enumerate() {
        let base = plan.base.filter(|_| n > 0).map(|base| base.index(n));
        let (kind, content) = match base {
            Some(base) => {
                let (kind, content, _) = &objects[base];
                let (start, end) = content.split_at(content.len() / 2);
                (*kind, [start, &plan.text, end].concat())
            }
            None => (plan.kind, plan.text.clone()),
        };
        objects.push((kind, content, base));
    }
    let mut order: Vec<usize> = (0..plans.len()).collect();
    order.sort_by_key(|&n| plans[n].place);

    let mut builder = PackBuilder::new(hash, level);
    let mut offsets = vec![None; plans.len()];
    let mut entries: Vec<SampleEntry> = Vec::new();
    for n in order {
        let (kind, content, base) = &objects[n];
        let delta = base.and_then(|b| Some((b, encode_delta(&objects[b].1, content)?)));
        let (entry, data) = match delta {
            None => (EntryKind::Whole(*kind), content.clone()),
            Some((base, delta)) => match offsets[base] {
                Some(base_offset) if plans[n].by_offset => {
                    (EntryKind::OfsDelta { base_offset }, delta)
                }
                _ => {
                    let base = object_id(hash, objects[base].0, &objects[base].1);
                    (EntryKind::RefDelta { base }, delta)
                }
            },
        };
        let offset = builder.entry(entry, &data);
        offsets[n] = Some(offset);
        if let Some(last) = entries.last_mut() {
            last.end = offset;
        }
        entries.push(SampleEntry {
            offset,
            end: 0,
            header: EntryHeader { kind: entry, size: data.len() as u64 },
            data,
            kind: *kind,
            content: content.clone(),
            id: object_id(hash, *kind, content),
        });
    }
    let bytes = builder.finish();
    if let Some(last) = entries.last_mut() {
        last.end = (bytes.len() - hash.len_in_bytes()) as u64;
    }
    Sample { hash, bytes, entries }
}

/// Cuts `bytes` at the given places.
pub(super) fn split<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}
