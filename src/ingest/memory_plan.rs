//! How the memory that a push may take for contents is shared out.

/// The shares of the memory for contents, beside the deltas that wait for their bases.
///
/// It is shared by the threads; of each thread's part an eighth is the most that one object may
/// take. A larger one is made piece by piece, with its base on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryPlan {
    /// Threads that resolve deltas.
    pub(super) threads: usize,
    /// For one object or delta.
    pub(super) object_bytes_max: usize,
    /// For the bases that one thread holds, the one at hand included.
    pub(super) held_bytes_max: usize,
}

/// A thread for fewer objects than this would cost more than it brings.
const OBJECTS_PER_THREAD_MIN: u32 = 500;

/// With less than this for an object, every other one would go to disk. A smaller cache is
/// exceeded by the size of a few such objects.
pub(super) const OBJECT_BYTES_MIN: u64 = 64 << 10;

/// Threads are left out before their part falls below this.
const THREAD_BYTES_MIN: u64 = 8 << 20;

const PARTS: u64 = 8;
const HELD_PARTS: u64 = 3;

/// What all objects of a pack take that are in memory at once, the one that is made, and what is
/// made from the repository's, of which they are a part.
const ALL_PARTS: u64 = 4;

/// The part of `base_cache_bytes_max` that is for deltas that are kept until they are applied.
pub(super) const KEPT_PARTS: u64 = 4;

impl MemoryPlan {
    /// Shares `bytes` out for a pack of `objects` among up to `threads` threads.
    pub(super) fn new(bytes: u64, big_file_bytes: u64, threads: usize, objects: u32) -> Self {
        let useful = useful_threads(threads, objects);
        let threads = useful.min(bytes / THREAD_BYTES_MIN).max(1);
        let part = (bytes / threads / PARTS).max(OBJECT_BYTES_MIN);
        // What is as large as `big_file_bytes` is a stream already.
        let object = part.min(big_file_bytes.saturating_sub(1));
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            threads: size(threads),
            object_bytes_max: size(object),
            held_bytes_max: size(part.saturating_mul(HELD_PARTS)),
        }
    }

    /// Lets each of the objects be in memory where `bytes` are enough for all of them, with what is
    /// needed beside: then the parts say nothing.
    pub(super) fn for_all_of(
        mut self,
        inflated_bytes: u64,
        bytes: u64,
        big_file_bytes: u64,
    ) -> Self {
        if inflated_bytes.saturating_mul(ALL_PARTS) <= bytes {
            let object = inflated_bytes.min(big_file_bytes.saturating_sub(1));
            let object = usize::try_from(object).unwrap_or(usize::MAX);
            self.object_bytes_max = self.object_bytes_max.max(object);
            self.held_bytes_max = self.held_bytes_max.max(object);
        }
        self
    }

    /// What is of use for a pack of `objects` that have `inflated_bytes` together: what all of them
    /// need, or as many threads as are of use.
    pub(super) fn useful_bytes(inflated_bytes: u64, threads: usize, objects: u32) -> u64 {
        let threads = useful_threads(threads, objects);
        let for_threads = if threads > 1 { threads * THREAD_BYTES_MIN } else { 0 };
        inflated_bytes.saturating_mul(ALL_PARTS).max(for_threads)
    }

    /// Whether an object or delta of `size` bytes may be in memory.
    pub(super) fn fits(&self, size: u64) -> bool {
        usize::try_from(size).is_ok_and(|size| size <= self.object_bytes_max)
    }
}

/// As many of `threads` as are of use for a pack of `objects`.
pub(super) fn useful_threads(threads: usize, objects: u32) -> u64 {
    (threads as u64).min(u64::from(objects / OBJECTS_PER_THREAD_MIN)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 72 << 20;
    const BIG: u64 = 512 << 20;

    #[test]
    fn the_parts_are_no_more_than_the_whole() {
        for threads in [1, 2, 64] {
            let plan = MemoryPlan::new(BYTES, BIG, threads, 1_000_000);
            let contents = (plan.threads * plan.object_bytes_max) as u64 * PARTS;
            assert!(contents <= BYTES);
            assert!(plan.threads <= threads);
            assert!(plan.fits(3 << 20) == (threads < 3), "{threads}");
        }
    }

    #[test]
    fn a_small_pack_gets_one_thread() {
        assert_eq!(MemoryPlan::new(BYTES, BIG, 8, 999).threads, 1);
        assert_eq!(MemoryPlan::new(BYTES, BIG, 8, 1000).threads, 2);
        assert_eq!(MemoryPlan::new(BYTES, BIG, 0, 0).threads, 1);
        assert_eq!(MemoryPlan::useful_bytes(1000, 8, 999), 4000);
        assert_eq!(MemoryPlan::useful_bytes(1000, 8, 1000), 2 * THREAD_BYTES_MIN);
    }

    #[test]
    fn where_there_is_room_for_all_objects_there_is_for_each() {
        let plan = MemoryPlan::new(4 << 20, BIG, 1, 10);
        assert!(!plan.fits(1 << 20));
        assert!(plan.for_all_of(1 << 20, 4 << 20, BIG).fits(1 << 20));
        assert!(!plan.for_all_of((1 << 20) + 1, 4 << 20, BIG).fits(1 << 20));
        assert!(!plan.for_all_of(1 << 20, 4 << 20, 1 << 20).fits(1 << 20));
    }

    #[test]
    fn little_memory_is_enough_for_one_thread() {
        let plan = MemoryPlan::new(0, BIG, 8, 100_000);
        assert_eq!((plan.threads, plan.object_bytes_max), (1, 64 << 10));
    }

    #[test]
    fn a_big_file_is_never_in_memory() {
        let plan = MemoryPlan::new(BYTES, 1000, 1, 10);
        assert!(plan.fits(999));
        assert!(!plan.fits(1000));
    }
}
