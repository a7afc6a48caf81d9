//! How the memory that a push may take for contents is shared out.

use crate::model::Limits;

/// The shares of `base_cache_bytes_max`.
///
/// A quarter is for deltas that wait for their bases. The rest is shared by the threads; of each
/// thread's part an eighth is the most that one object may take. A larger one is made piece by
/// piece, with its base on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryPlan {
    /// Threads that resolve deltas.
    pub(super) threads: usize,
    /// For deltas that are kept until they are applied.
    pub(super) kept_bytes_max: u64,
    /// For one object or delta.
    pub(super) object_bytes_max: usize,
    /// For the bases that one thread holds, the one at hand included.
    pub(super) held_bytes_max: usize,
}

/// A thread for fewer objects than this would cost more than it brings.
const OBJECTS_PER_THREAD_MIN: u32 = 500;

/// With less than this for an object, every other one would go to disk. A smaller cache is
/// exceeded by the size of a few such objects.
const OBJECT_BYTES_MIN: u64 = 64 << 10;

/// Threads are left out before their part falls below this.
const THREAD_BYTES_MIN: u64 = 8 << 20;

const PARTS: u64 = 8;
const HELD_PARTS: u64 = 3;

impl MemoryPlan {
    /// Shares memory out for a pack of `objects` among up to `threads` threads.
    pub(super) fn new(limits: &Limits, threads: usize, objects: u32) -> Self {
        let kept_bytes_max = limits.base_cache_bytes_max / 4;
        let rest = limits.base_cache_bytes_max - kept_bytes_max;
        let useful = u64::from(objects / OBJECTS_PER_THREAD_MIN).min(rest / THREAD_BYTES_MIN);
        let threads = (threads as u64).min(useful).max(1);
        let part = (rest / threads / PARTS).max(OBJECT_BYTES_MIN);
        // What is as large as `big_file_bytes` is a stream already.
        let object = part.min(limits.big_file_bytes.saturating_sub(1));
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            threads: size(threads),
            kept_bytes_max,
            object_bytes_max: size(object),
            held_bytes_max: size(part.saturating_mul(HELD_PARTS)),
        }
    }

    /// Whether an object or delta of `size` bytes may be in memory.
    pub(super) fn fits(&self, size: u64) -> bool {
        usize::try_from(size).is_ok_and(|size| size <= self.object_bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_no_more_than_the_whole() {
        for threads in [1, 2, 64] {
            let limits = Limits::default();
            let plan = MemoryPlan::new(&limits, threads, 1_000_000);
            let contents = (plan.threads * plan.object_bytes_max) as u64 * PARTS;
            assert!(plan.kept_bytes_max + contents <= limits.base_cache_bytes_max);
            assert!(plan.threads <= threads);
            assert!(plan.fits(3 << 20) == (threads < 3), "{threads}");
        }
    }

    #[test]
    fn a_small_pack_gets_one_thread() {
        assert_eq!(MemoryPlan::new(&Limits::default(), 8, 999).threads, 1);
        assert_eq!(MemoryPlan::new(&Limits::default(), 8, 1000).threads, 2);
        assert_eq!(MemoryPlan::new(&Limits::default(), 0, 0).threads, 1);
    }

    #[test]
    fn a_big_file_is_never_in_memory() {
        let limits = Limits { big_file_bytes: 1000, ..Limits::default() };
        let plan = MemoryPlan::new(&limits, 1, 10);
        assert!(plan.fits(999));
        assert!(!plan.fits(1000));
    }
}
