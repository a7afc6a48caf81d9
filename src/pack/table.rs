//! The entries of one pack, in a table of some thirty bytes each.

use crate::model::{HashKind, ObjectId, ObjectKind, oid};

/// Offset, CRC-32, kind and id of every entry, in the order of the pack.
///
/// Entries are named by their place, counted from 0. Methods that take a place panic for one that
/// this table has not given out.
#[derive(Clone, Debug)]
pub struct EntryTable {
    hash: HashKind,
    offsets: Vec<u64>,
    crc32s: Vec<u32>,
    kinds: Vec<Option<ObjectKind>>,
    ids: Vec<u8>,
}

/// The table has as many entries as a pack can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pack cannot have more than {ENTRIES_MAX} entries")]
pub struct TableFull;

/// The entries of a table in the order of their ids, those of one id in the order of the pack.
///
/// A snapshot: entries that are pushed or named afterwards are not in it.
#[derive(Clone, Debug)]
pub struct IdOrder {
    places: Vec<u32>,
    /// Entries whose id begins with a byte up to this one.
    fanout: Vec<u32>,
}

/// As many as 32 bits count, less two values that delta trees keep for themselves.
pub(super) const ENTRIES_MAX: u32 = u32::MAX - 2;

impl EntryTable {
    /// Memory that each entry takes.
    pub fn entry_bytes(hash: HashKind) -> usize {
        let beside_the_id = size_of::<u64>() + size_of::<u32>() + size_of::<Option<ObjectKind>>();
        beside_the_id + hash.len_in_bytes()
    }

    /// An empty table for a repository of `hash`.
    pub fn new(hash: HashKind) -> Self {
        let (offsets, crc32s, kinds, ids) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { hash, offsets, crc32s, kinds, ids }
    }

    /// Adds the entry that begins at `offset`, which must lie behind all others, and returns its
    /// place. Its object is named later by [`set_object`](Self::set_object); until then its id is
    /// the null id.
    pub fn push(&mut self, offset: u64, crc32: u32) -> Result<u32, TableFull> {
        debug_assert!(self.offsets.last().is_none_or(|&last| last < offset));
        let place = u32::try_from(self.offsets.len()).map_err(|_| TableFull)?;
        if place >= ENTRIES_MAX {
            return Err(TableFull);
        }
        self.offsets.push(offset);
        self.crc32s.push(crc32);
        self.kinds.push(None);
        self.ids.resize(self.ids.len() + self.hash.len_in_bytes(), 0);
        Ok(place)
    }

    /// Says what object an entry holds.
    pub fn set_object(&mut self, place: u32, kind: ObjectKind, id: &oid) {
        let (start, len) = (place as usize * self.hash.len_in_bytes(), self.hash.len_in_bytes());
        self.kinds[place as usize] = Some(kind);
        self.ids[start..start + len].copy_from_slice(id.as_bytes());
    }

    /// The hash of the ids.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Where an entry begins.
    pub fn offset(&self, place: u32) -> u64 {
        self.offsets[place as usize]
    }

    /// The place of the entry that begins at `offset`, if one does.
    pub fn place_at(&self, offset: u64) -> Option<u32> {
        let place = self.offsets.binary_search(&offset).ok()?;
        u32::try_from(place).ok()
    }

    /// The CRC-32 of an entry's bytes.
    pub fn crc32(&self, place: u32) -> u32 {
        self.crc32s[place as usize]
    }

    /// The kind of an entry's object, once it is known.
    pub fn kind(&self, place: u32) -> Option<ObjectKind> {
        self.kinds[place as usize]
    }

    /// The id of an entry's object, once it is known; else the null id.
    pub fn id(&self, place: u32) -> &oid {
        oid::from_bytes_unchecked(self.id_bytes(place))
    }

    /// Sorts the entries by id.
    pub fn by_id(&self) -> IdOrder {
        // Sorting by the first eight bytes touches the table only where those are equal.
        let mut keys: Vec<(u64, u32)> = (0..)
            .zip(self.ids.chunks_exact(self.hash.len_in_bytes()))
            .map(|(place, id)| (prefix(id), place))
            .collect();
        keys.sort_unstable_by(|a, b| {
            let ids = || self.id_bytes(a.1).cmp(self.id_bytes(b.1));
            a.0.cmp(&b.0).then_with(ids).then(a.1.cmp(&b.1))
        });
        let mut fanout = vec![0u32; 256];
        for (key, _) in &keys {
            fanout[usize::from(key.to_be_bytes()[0])] += 1;
        }
        let mut sum = 0;
        for count in &mut fanout {
            sum += *count;
            *count = sum;
        }
        IdOrder { places: keys.into_iter().map(|(_, place)| place).collect(), fanout }
    }

    fn id_bytes(&self, place: u32) -> &[u8] {
        let (start, len) = (place as usize * self.hash.len_in_bytes(), self.hash.len_in_bytes());
        &self.ids[start..start + len]
    }
}

impl IdOrder {
    /// The places of the entries, in the order of their ids.
    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// For each value of a first byte, the number of ids that begin with it or a lower one.
    pub fn fanout(&self) -> &[u32] {
        &self.fanout
    }

    /// The first entry of the pack that holds `id`. `table` must be the one that was sorted.
    pub fn find(&self, table: &EntryTable, id: &oid) -> Option<u32> {
        let first = usize::from(id.first_byte());
        let start = first.checked_sub(1).map_or(0, |before| self.fanout[before] as usize);
        let bucket = &self.places[start..self.fanout[first] as usize];
        let at = bucket.partition_point(|&place| table.id_bytes(place) < id.as_bytes());
        bucket.get(at).copied().filter(|&place| table.id_bytes(place) == id.as_bytes())
    }

    /// An id that more than one entry holds, if there is one: legal, but refused where the
    /// repository checks objects strictly, as by `git index-pack --strict`.
    pub fn duplicate(&self, table: &EntryTable) -> Option<ObjectId> {
        self.places
            .windows(2)
            .find(|pair| table.id_bytes(pair[0]) == table.id_bytes(pair[1]))
            .map(|pair| table.id(pair[0]).to_owned())
    }
}

fn prefix(id: &[u8]) -> u64 {
    id.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(hash: HashKind, ids: &[ObjectId]) -> EntryTable {
        let mut table = EntryTable::new(hash);
        for (n, id) in ids.iter().enumerate() {
            let place = table.push(12 + 7 * n as u64, 0).unwrap();
            table.set_object(place, ObjectKind::Blob, id);
        }
        table
    }

    /// Ids that often share their beginning.
    fn ids() -> impl Strategy<Value = Vec<ObjectId>> {
        let id = (prop::collection::vec(0u8..3, 20), any::<u8>(), 0usize..20).prop_map(
            |(mut bytes, byte, at)| {
                bytes[at] = byte;
                bytes[1..9].fill(1);
                ObjectId::try_from(&bytes[..]).unwrap()
            },
        );
        prop::collection::vec(id, 0..60)
    }

    proptest! {
        #[test]
        fn entries_are_found_by_id_and_by_offset(mut ids in ids()) {
            ids.extend(ids.first().copied());
            let table = table(HashKind::Sha1, &ids);
            let order = table.by_id();
            let mut expected: Vec<_> = ids.iter().copied().zip(0u32..).collect();
            expected.sort_unstable();
            let sorted: Vec<_> = expected.iter().map(|(_, place)| *place).collect();
            prop_assert_eq!(order.places(), &sorted[..]);
            for (n, id) in ids.iter().enumerate() {
                let first = ids.iter().position(|other| other == id).unwrap();
                prop_assert_eq!(order.find(&table, id), u32::try_from(first).ok());
                let offset = 12 + 7 * n as u64;
                prop_assert_eq!(table.place_at(offset), u32::try_from(n).ok());
                prop_assert_eq!(table.place_at(offset + 1), None);
            }
            let missing = ObjectId::try_from(&[0xee; 20][..]).unwrap();
            prop_assert_eq!(order.find(&table, &missing).is_some(), ids.contains(&missing));
            prop_assert_eq!(order.duplicate(&table).is_some(), !ids.is_empty());
        }
    }

    #[test]
    fn an_entry_takes_some_thirty_bytes() {
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let beside_the_id = EntryTable::entry_bytes(hash) - hash.len_in_bytes();
            assert_eq!(beside_the_id, 13);
        }
    }

    #[test]
    fn an_entry_has_no_kind_before_it_is_named() {
        let mut table = EntryTable::new(HashKind::Sha256);
        let place = table.push(12, 1).unwrap();
        assert_eq!((table.kind(place), table.id(place).is_null()), (None, true));
        let id = ObjectId::empty_tree(HashKind::Sha256);
        table.set_object(place, ObjectKind::Tree, &id);
        assert_eq!((table.kind(place), table.id(place)), (Some(ObjectKind::Tree), id.as_ref()));
    }
}
