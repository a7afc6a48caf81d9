//! Delta instructions that are kept from the time they arrive until they are applied.

use super::memory::PushMemory;

/// The instructions of some deltas, by the place of their entry.
///
/// They lie one behind the other in large blocks: most are a few dozen bytes long.
#[derive(Debug)]
pub(super) struct KeptDeltas {
    bytes_max: usize,
    blocks: Vec<Vec<u8>>,
    /// Memory of the blocks.
    bytes: usize,
    /// The part of it that is used.
    used: usize,
    /// For each place the block and the position in it; `NONE` if they were not kept. No longer
    /// than it has to be.
    positions: Vec<u32>,
}

const NONE: u32 = u32::MAX;
const BLOCK_BITS: u32 = 18;
const BLOCK_BYTES: usize = 1 << BLOCK_BITS;
const LENGTH_BYTES: usize = 4;

/// How many times its share one delta may take: most entries take less, whole ones nothing.
const SHARES_MAX: usize = 4;

impl KeptDeltas {
    /// Memory for each entry of a pack.
    pub(super) const ENTRY_BYTES: usize = size_of::<u32>();

    /// None yet; room for `bytes_max`.
    pub(super) fn new(bytes_max: u64) -> Self {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        Self { bytes_max, blocks: Vec::new(), bytes: 0, used: 0, positions: Vec::new() }
    }

    /// Memory that the instructions take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps the instructions of the entry at `place`, behind all others, if there is room.
    ///
    /// Where room is short it goes to short ones, which gain the most: reading one back costs the
    /// same for each. `entries_left` may still come. The first time that `memory` has nothing left
    /// is the last time that it is asked.
    pub(super) fn keep(
        &mut self,
        place: u32,
        instructions: &[u8],
        entries_left: u32,
        memory: &PushMemory,
    ) {
        let room = self.bytes_max.saturating_sub(self.used);
        let share = room / (entries_left as usize).max(1);
        if instructions.len() > share.saturating_mul(SHARES_MAX) {
            return;
        }
        let Some(position) = self.store(instructions, memory) else { return };
        self.positions.resize(place as usize, NONE);
        self.positions.push(position);
    }

    /// The instructions of the entry at `place`, if they were kept.
    pub(super) fn of(&self, place: u32) -> Option<&[u8]> {
        let position = *self.positions.get(place as usize).filter(|position| **position != NONE)?;
        let block = self.blocks.get((position >> BLOCK_BITS) as usize)?;
        let rest = block.get(position as usize & (BLOCK_BYTES - 1)..)?;
        let (len, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        rest.get(..u32::from_le_bytes(*len) as usize)
    }

    fn store(&mut self, instructions: &[u8], memory: &PushMemory) -> Option<u32> {
        let len = u32::try_from(instructions.len()).ok()?;
        let size = LENGTH_BYTES + instructions.len();
        let fits = self.blocks.last().is_some_and(|block| {
            block.len() < BLOCK_BYTES && block.capacity() - block.len() >= size
        });
        if !fits {
            let capacity = size.max(BLOCK_BYTES);
            let full = self.bytes.saturating_add(capacity) > self.bytes_max;
            if full || self.blocks.len() >= (NONE >> BLOCK_BITS) as usize {
                return None;
            }
            if !memory.add_contents(capacity as u64) {
                self.bytes_max = self.bytes;
                return None;
            }
            let block = Vec::with_capacity(capacity);
            self.bytes += block.capacity();
            self.blocks.push(block);
        }
        let number = u32::try_from(self.blocks.len() - 1).ok()?;
        let block = self.blocks.last_mut()?;
        let position = number << BLOCK_BITS | u32::try_from(block.len()).ok()?;
        self.used += size;
        block.extend_from_slice(&len.to_le_bytes());
        block.extend_from_slice(instructions);
        Some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::testing::memory;
    use crate::model::Limits;

    #[test]
    fn what_was_kept_is_found_and_what_was_not_is_not() {
        let memory = memory(&Limits::default());
        let mut kept = KeptDeltas::new(4 << 20);
        let large = vec![3; BLOCK_BYTES + 7];
        kept.keep(2, b"abc", 9, &memory);
        kept.keep(3, &large, 9, &memory);
        kept.keep(7, b"", 9, &memory);
        for place in 8..40_000u32 {
            kept.keep(place, &place.to_le_bytes(), 9, &memory);
        }
        assert_eq!(kept.of(2), Some(&b"abc"[..]));
        assert_eq!(kept.of(3), Some(&large[..]));
        assert_eq!(kept.of(7), Some(&b""[..]));
        for place in [0, 1, 4, 6, 40_000] {
            assert_eq!(kept.of(place), None);
        }
        for place in 8..40_000u32 {
            assert_eq!(kept.of(place), Some(&place.to_le_bytes()[..]));
        }
    }

    #[test]
    fn the_budget_is_kept() {
        let memory = memory(&Limits::default());
        let mut kept = KeptDeltas::new(BLOCK_BYTES as u64);
        let piece = vec![1; 1000];
        (0..400).for_each(|place| kept.keep(place, &piece, 1, &memory));
        assert_eq!(kept.of(0), Some(&piece[..]));
        assert_eq!(kept.of(399), None);
        assert!(kept.bytes() <= BLOCK_BYTES);
        let mut fair = KeptDeltas::new(1 << 20);
        fair.keep(0, &[1; 5], 1 << 20, &memory);
        fair.keep(1, &[1; 4], 1 << 20, &memory);
        assert_eq!((fair.of(0), fair.of(1)), (None, Some(&[1; 4][..])));
        let mut none = KeptDeltas::new(BLOCK_BYTES as u64 - 1);
        none.keep(0, b"abc", 1, &memory);
        assert_eq!(none.of(0), None);
    }

    #[test]
    fn without_memory_nothing_more_is_kept() {
        let bytes = BLOCK_BYTES as u64;
        let memory = memory(&Limits { base_cache_bytes_max: bytes, ..Limits::default() });
        let mut kept = KeptDeltas::new(4 * bytes);
        let piece = vec![1; 1000];
        (0..400).for_each(|place| kept.keep(place, &piece, 1, &memory));
        assert_eq!(kept.of(0), Some(&piece[..]));
        assert_eq!((kept.of(399), kept.bytes()), (None, BLOCK_BYTES));
    }
}
