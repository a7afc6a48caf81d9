//! What one push takes of the memory that all pushes share.
//!
//! Two things are counted. *Contents* (bases, deltas that wait for them, the object at hand) are
//! taken only while there is enough for everybody: nobody waits for them, what does not fit is made
//! piece by piece, from disk. *Tables* of entries and links have to be: a push waits for them while
//! it has some already, which is safe since one push at a time may go past the limit
//! (see [`Share::grow_or_overdraw`]).
//!
//! A small push takes nothing of what is shared, and meets no lock that others hold.

use super::error::IngestError;
use crate::model::{ByteBudget, CancelToken, Limits, Share};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The memory of one push.
#[derive(Debug)]
pub(super) struct PushMemory {
    state: Mutex<State>,
    /// `base_cache_bytes_max`.
    contents_max: u64,
    /// What contents leave for the tables of others.
    reserve: u64,
    /// What contents leave that only save time.
    luxury_reserve: u64,
    cancel: CancelToken,
}

#[derive(Debug)]
struct State {
    share: Share<Arc<ByteBudget>>,
    contents: u64,
    tables: u64,
    /// Its patience is over: other threads of it need not wait as long, one after the other.
    has_given_up: bool,
}

/// LIMIT: contents that each push has without asking.
const FREE_CONTENTS_BYTES: u64 = 4 << 20;

/// LIMIT: tables that each push has without asking, of some 5,000 objects.
const FREE_TABLES_BYTES: u64 = 1 << 20;

/// The part of the limit that is for tables alone.
const RESERVED_PARTS: u64 = 4;

/// The part of the limit of which contents that only save time are taken.
const LUXURY_PARTS: u64 = 8;

/// After what time a push that waits looks whether it shall go on.
const CANCEL_LOOK: Duration = Duration::from_millis(100);

/// How long a push waits for others to end.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

impl PushMemory {
    /// The memory of a push that has nothing yet.
    pub(super) fn new(
        share: Share<Arc<ByteBudget>>,
        limits: &Limits,
        cancel: &CancelToken,
    ) -> Self {
        Self {
            contents_max: limits.base_cache_bytes_max,
            reserve: limits.push_memory_bytes_max / RESERVED_PARTS,
            luxury_reserve: limits.push_memory_bytes_max
                - limits.push_memory_bytes_max / LUXURY_PARTS,
            state: Mutex::new(State { share, contents: 0, tables: 0, has_given_up: false }),
            cancel: cancel.clone(),
        }
    }

    /// What contents may take without asking.
    pub(super) fn free_contents(&self) -> u64 {
        FREE_CONTENTS_BYTES.min(self.contents_max)
    }

    /// Makes room for `bytes` more of contents, if there is some; never waits.
    pub(super) fn add_contents(&self, bytes: u64) -> bool {
        self.add_contents_leaving(bytes, self.reserve)
    }

    fn add_contents_leaving(&self, bytes: u64, reserve: u64) -> bool {
        let mut state = self.state();
        let contents = state.contents.saturating_add(bytes);
        if contents > self.contents_max {
            return false;
        }
        let before = state.share.bytes();
        let wanted = charge(contents, state.tables);
        if state.share.grow_up_to(wanted, reserve) < wanted {
            state.share.shrink_to(before);
            return false;
        }
        state.contents = contents;
        true
    }

    /// As [`add_contents`](Self::add_contents), for what only saves time: beyond what each push has
    /// without asking, it is taken while nearly all of the shared memory is left.
    pub(super) fn add_luxury(&self, bytes: u64) -> bool {
        self.add_contents_leaving(bytes, self.luxury_reserve)
    }

    /// Makes room for contents of `bytes` altogether, or for as much as is a fair part of what is
    /// left; never waits. Returns how much.
    pub(super) fn contents_up_to(&self, bytes: u64) -> u64 {
        let mut state = self.state();
        let bytes = bytes.min(self.contents_max).max(self.free_contents());
        let (without, wanted) = (charge(0, state.tables), charge(bytes, state.tables));
        let granted = state.share.grow_fairly(wanted, self.reserve);
        let granted = granted.saturating_sub(without).saturating_add(FREE_CONTENTS_BYTES);
        state.contents = granted.min(bytes).max(state.contents);
        state.contents
    }

    /// Gives contents back, all but `bytes`.
    pub(super) fn keep_contents(&self, bytes: u64) {
        let mut state = self.state();
        state.contents = state.contents.min(bytes);
        let charge = charge(state.contents, state.tables);
        state.share.shrink_to(charge);
    }

    /// Makes room for `bytes` more of tables, waiting for other pushes if it must.
    pub(super) fn add_tables(&self, bytes: u64) -> Result<(), IngestError> {
        let mut state = self.state();
        state.tables = state.tables.saturating_add(bytes);
        let wanted = charge(state.contents, state.tables);
        if wanted <= state.share.bytes() {
            return Ok(());
        }
        let began = Instant::now();
        while let Err(limit) = state.share.grow_or_overdraw(wanted, CANCEL_LOOK) {
            if self.cancel.is_cancelled() {
                return Err(IngestError::Cancelled);
            }
            if state.has_given_up || began.elapsed() > PATIENCE {
                state.has_given_up = true;
                return Err(IngestError::NoMemory { limit });
            }
        }
        Ok(())
    }

    /// Whether others wait for what this push takes beyond the limit.
    pub(super) fn keeps_others_waiting(&self) -> bool {
        self.state().share.keeps_others_waiting()
    }

    /// Gives tables back.
    pub(super) fn drop_tables(&self, bytes: u64) {
        let mut state = self.state();
        state.tables = state.tables.saturating_sub(bytes);
        let charge = charge(state.contents, state.tables);
        state.share.shrink_to(charge);
    }

    /// What of the shared memory is still needed for tables of `bytes`; all else goes back.
    pub(super) fn into_share(self, bytes: u64) -> Share<Arc<ByteBudget>> {
        let State { mut share, .. } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        share.shrink_to(charge(0, bytes));
        share
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be taken of the shared memory.
fn charge(contents: u64, tables: u64) -> u64 {
    let contents = contents.saturating_sub(FREE_CONTENTS_BYTES);
    contents.saturating_add(tables.saturating_sub(FREE_TABLES_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn scene(shared: u64) -> (Arc<ByteBudget>, impl Fn() -> PushMemory) {
        let limits = Limits { push_memory_bytes_max: shared * MIB, ..Limits::default() };
        let budget = Arc::new(ByteBudget::new(limits.push_memory_bytes()));
        let ours = Arc::clone(&budget);
        let push = move || PushMemory::new(ours.owned_share(), &limits, &CancelToken::new());
        (budget, push)
    }

    fn taken(push: &PushMemory) -> u64 {
        push.state().share.bytes() / MIB
    }

    #[test]
    fn a_small_push_takes_nothing_of_what_is_shared() {
        let (_budget, push) = scene(0);
        let push = push();
        assert!(push.add_contents(3 * MIB) && push.add_contents(MIB));
        assert!(!push.add_contents(1));
        assert_eq!(push.contents_up_to(9 * MIB), 4 * MIB);
        push.add_tables(MIB).unwrap();
        assert_eq!(taken(&push), 0);
    }

    #[test]
    fn large_pushes_take_a_fair_part_and_leave_the_reserve() {
        let (_budget, push) = scene(256);
        let pushes: Vec<_> = (0..16).map(|_| push()).collect();
        let granted: Vec<_> =
            pushes.iter().map(|push| push.contents_up_to(96 * MIB) / MIB).collect();
        assert_eq!(granted[..6], [96, 54, 29, 16, 10, 7]);
        assert!(granted.iter().all(|granted| *granted >= 4), "{granted:?}");
        assert!(pushes.iter().map(taken).sum::<u64>() <= 192);
        assert!(!pushes[15].add_contents(8 * MIB));
        pushes[15].add_tables(33 * MIB).unwrap();
        pushes[0].keep_contents(0);
        assert_eq!(taken(&pushes[0]), 0);
        assert_eq!(pushes[1].contents_up_to(96 * MIB) / MIB, 84);
    }

    #[test]
    fn what_only_saves_time_is_taken_of_a_small_part() {
        let (_budget, push) = scene(256);
        let pushes: Vec<_> = (0..16).map(|_| push()).collect();
        let granted: Vec<_> =
            pushes.iter().map(|push| (0..8).filter(|_| push.add_luxury(MIB)).count()).collect();
        assert_eq!(granted, [[8; 8], [4; 8]].concat());
        assert!(pushes[15].add_contents(8 * MIB));
    }

    #[test]
    fn tables_wait_for_others_and_one_goes_past_the_limit() {
        let (budget, push) = scene(64);
        let (one, two) = (push(), push());
        one.add_tables(41 * MIB).unwrap();
        two.add_tables(21 * MIB).unwrap();
        one.add_tables(100 * MIB).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| two.add_tables(20 * MIB));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waits.is_finished());
            // There is a moment between two looks.
            assert!((0..100).any(|_| one.keeps_others_waiting()));
            drop(one.into_share(0));
            waits.join().unwrap().unwrap();
        });
        let kept = two.into_share(11 * MIB);
        assert_eq!(kept.bytes(), 10 * MIB);
        assert_eq!(budget.owned_share().grow_up_to(u64::MAX, 0), 54 * MIB);
    }

    #[test]
    fn who_waits_can_be_called_off() {
        let (budget, push) = scene(8);
        let mut other = budget.owned_share();
        other.grow_or_overdraw(9 * MIB, Duration::ZERO).unwrap();
        let push = push();
        push.cancel.cancel();
        assert!(matches!(push.add_tables(2 * MIB), Err(IngestError::Cancelled)));
    }

    #[test]
    fn the_threads_of_a_push_wait_at_the_same_time_and_not_one_after_the_other() {
        let (budget, push) = scene(8);
        let mut other = budget.owned_share();
        other.grow_or_overdraw(9 * MIB, Duration::ZERO).unwrap();
        let push = push();
        push.state().has_given_up = true;
        assert!(matches!(push.add_tables(2 * MIB), Err(IngestError::NoMemory { .. })));
    }
}
