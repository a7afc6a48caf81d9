//! Bytes of memory that all pushes together may take for one purpose.
//!
//! Many large pushes wait for each other instead of adding up. What is waited for is bounded in
//! time, since those who hold bytes may ask for more: a circle of waiting ends with a refusal, or
//! does not come about where one share may go past the limit.

use super::Limit;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A number of bytes that is shared.
#[derive(Debug)]
pub struct ByteBudget {
    limit: Limit,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug)]
struct State {
    left: u64,
    /// Whether a share goes past what there is.
    is_overdrawn: bool,
    /// Shares that wait for the one that does.
    waiting: usize,
}

/// What one push has of a budget; it goes back when this is dropped.
#[derive(Debug)]
pub struct Share<B: Deref<Target = ByteBudget>> {
    budget: B,
    bytes: u64,
    /// Those of the bytes that the budget does not have.
    overdraft: u64,
}

impl ByteBudget {
    /// A budget of the limit's value.
    pub fn new(limit: Limit) -> Self {
        let state = Mutex::new(State { left: limit.value, is_overdrawn: false, waiting: 0 });
        Self { limit, state, returned: Condvar::new() }
    }

    /// What it has when nobody has a share.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// A share of nothing, which can grow.
    pub fn share(&self) -> Share<&Self> {
        Share { budget: self, bytes: 0, overdraft: 0 }
    }

    /// As [`share`](Self::share), of a budget that has no single owner.
    pub fn owned_share(self: &Arc<Self>) -> Share<Arc<Self>> {
        Share { budget: Arc::clone(self), bytes: 0, overdraft: 0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Deref<Target = ByteBudget>> Share<B> {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it `bytes` large, if it is not already, waiting until others have returned that much;
    /// the limit if that takes longer than `patience`, or can never be.
    pub fn grow_to(&mut self, bytes: u64, patience: Duration) -> Result<(), Limit> {
        let wanted = bytes.saturating_sub(self.bytes);
        let ByteBudget { limit, returned, .. } = &*self.budget;
        if bytes > limit.value {
            return Err(*limit);
        }
        let state = self.budget.state();
        let result = returned.wait_timeout_while(state, patience, |state| state.left < wanted);
        let mut state = result.unwrap_or_else(PoisonError::into_inner).0;
        state.left = state.left.checked_sub(wanted).ok_or(*limit)?;
        self.bytes += wanted;
        Ok(())
    }

    /// Makes it `bytes` large, if it is not already, where that leaves at least `reserve` for
    /// others; else as large as it can be so. Never waits. Returns its size.
    pub fn grow_up_to(&mut self, bytes: u64, reserve: u64) -> u64 {
        let wanted = bytes.saturating_sub(self.bytes);
        if wanted > 0 {
            let mut state = self.budget.state();
            let taken = wanted.min(state.left.saturating_sub(reserve));
            state.left -= taken;
            self.bytes += taken;
        }
        self.bytes
    }

    /// As [`grow_up_to`](Self::grow_up_to), but takes no more than half of what there is beyond the
    /// reserve: the next one shall have some, too.
    pub fn grow_fairly(&mut self, bytes: u64, reserve: u64) -> u64 {
        let wanted = bytes.saturating_sub(self.bytes);
        if wanted > 0 {
            let mut state = self.budget.state();
            let taken = wanted.min(state.left.saturating_sub(reserve) / 2);
            state.left -= taken;
            self.bytes += taken;
        }
        self.bytes
    }

    /// Makes it `bytes` large, if it is not already. What the budget does not have it takes all
    /// the same, unless another share does so already: then it waits for that one, or for others
    /// to return enough. The limit if that takes longer than `patience`.
    ///
    /// Whoever waits, waits for one that does not: however much all have in their hands while they
    /// wait, one of them goes on. Together they have the limit, and what that one has beyond it.
    pub fn grow_or_overdraw(&mut self, bytes: u64, patience: Duration) -> Result<(), Limit> {
        let wanted = bytes.saturating_sub(self.bytes);
        let ByteBudget { limit, returned, .. } = &*self.budget;
        let overdraws = self.overdraft > 0;
        let mut state = self.budget.state();
        state.waiting += 1;
        let result = returned.wait_timeout_while(state, patience, |state| {
            state.left < wanted && state.is_overdrawn && !overdraws
        });
        let mut state = result.unwrap_or_else(PoisonError::into_inner).0;
        state.waiting -= 1;
        let missing = wanted.saturating_sub(state.left);
        if missing > 0 {
            if state.is_overdrawn && !overdraws {
                return Err(*limit);
            }
            state.is_overdrawn = true;
        }
        state.left -= wanted - missing;
        self.overdraft = self.overdraft.saturating_add(missing);
        self.bytes = self.bytes.saturating_add(wanted);
        Ok(())
    }

    /// Whether it goes past what there is and another share waits for that in
    /// [`grow_or_overdraw`](Self::grow_or_overdraw).
    pub fn keeps_others_waiting(&self) -> bool {
        self.overdraft > 0 && self.budget.state().waiting > 0
    }

    /// Returns all but `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        if surplus == 0 {
            return;
        }
        self.bytes -= surplus;
        let unfounded = surplus.min(self.overdraft);
        self.overdraft -= unfounded;
        let mut state = self.budget.state();
        state.left = state.left.saturating_add(surplus - unfounded);
        if unfounded > 0 && self.overdraft == 0 {
            state.is_overdrawn = false;
        }
        drop(state);
        self.budget.returned.notify_all();
    }
}

impl<B: Deref<Target = ByteBudget>> Drop for Share<B> {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { name: "bytes_max", value: 100, unit: "bytes" };
    const SHORT: Duration = Duration::from_millis(10);

    #[test]
    fn shares_add_up_to_the_limit_and_no_more() {
        let budget = ByteBudget::new(LIMIT);
        let (mut one, mut two) = (budget.share(), budget.share());
        assert_eq!(one.grow_to(60, SHORT), Ok(()));
        assert_eq!(one.grow_to(50, SHORT), Ok(()));
        assert_eq!(two.grow_to(40, SHORT), Ok(()));
        assert_eq!(two.grow_to(41, SHORT), Err(LIMIT));
        assert_eq!((one.bytes(), two.bytes()), (60, 40));
        drop(one);
        assert_eq!(two.grow_to(100, SHORT), Ok(()));
        assert_eq!(two.grow_to(101, Duration::from_secs(100)), Err(LIMIT));
        drop(two);
        assert_eq!(budget.state().left, 100);
    }

    #[test]
    fn what_is_taken_without_waiting_leaves_the_reserve() {
        let budget = ByteBudget::new(LIMIT);
        let (mut one, mut two) = (budget.share(), budget.share());
        assert_eq!(one.grow_up_to(50, 30), 50);
        assert_eq!(two.grow_up_to(50, 30), 20);
        assert_eq!(one.grow_up_to(60, 30), 50);
        two.shrink_to(5);
        assert_eq!((two.bytes(), budget.state().left), (5, 45));
        two.shrink_to(10);
        assert_eq!((two.bytes(), budget.state().left), (5, 45));
        assert_eq!(two.grow_fairly(100, 25), 15);
        assert_eq!(two.grow_fairly(16, 25), 16);
    }

    #[test]
    fn one_share_may_overdraw_and_the_others_wait_for_it() {
        let budget = ByteBudget::new(LIMIT);
        let (mut one, mut two, mut three) = (budget.share(), budget.share(), budget.share());
        assert_eq!(one.grow_or_overdraw(60, SHORT), Ok(()));
        assert_eq!(two.grow_or_overdraw(30, SHORT), Ok(()));
        assert_eq!(one.grow_or_overdraw(500, SHORT), Ok(()));
        assert_eq!(one.grow_or_overdraw(1000, SHORT), Ok(()), "it may again");
        assert_eq!(two.grow_or_overdraw(31, SHORT), Err(LIMIT));
        assert_eq!(two.bytes(), 30);
        assert_eq!(three.grow_or_overdraw(0, SHORT), Ok(()));
        one.shrink_to(70);
        assert_eq!(budget.state().left, 0);
        assert_eq!(two.grow_or_overdraw(31, SHORT), Ok(()), "it is its turn");
        assert_eq!(three.grow_or_overdraw(1, SHORT), Err(LIMIT));
        drop(two);
        assert_eq!(three.grow_or_overdraw(30, SHORT), Ok(()));
        drop((one, three));
        let state = budget.state();
        assert_eq!((state.left, state.is_overdrawn), (100, false));
    }

    #[test]
    fn shares_that_grow_while_they_have_some_all_come_to_their_end() {
        let budget = Arc::new(ByteBudget::new(LIMIT));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut share = budget.owned_share();
                    for bytes in (0..150).step_by(10) {
                        share.grow_or_overdraw(bytes, Duration::from_secs(60)).unwrap();
                        std::thread::yield_now();
                    }
                });
            }
        });
        let state = budget.state();
        assert_eq!((state.left, state.is_overdrawn), (100, false));
    }
}
