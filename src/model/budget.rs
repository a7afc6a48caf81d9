//! Bytes of memory that all pushes together may take for one purpose.
//!
//! Many large pushes wait for each other instead of adding up. What is waited for is bounded in
//! time, since those who hold bytes may ask for more: a circle of waiting ends with a refusal.

use super::Limit;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A number of bytes that is shared.
#[derive(Debug)]
pub struct ByteBudget {
    limit: Limit,
    left: Mutex<u64>,
    returned: Condvar,
}

/// What one push has of a budget; it goes back when this is dropped.
#[derive(Debug)]
pub struct Share<'a> {
    budget: &'a ByteBudget,
    bytes: u64,
}

impl ByteBudget {
    /// A budget of the limit's value.
    pub fn new(limit: Limit) -> Self {
        Self { limit, left: Mutex::new(limit.value), returned: Condvar::new() }
    }

    /// What it has when nobody has a share.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// A share of nothing, which can grow.
    pub fn share(&self) -> Share<'_> {
        Share { budget: self, bytes: 0 }
    }

    fn left(&self) -> MutexGuard<'_, u64> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share<'_> {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it `bytes` large, if it is not already, waiting until others have returned that much;
    /// the limit if that takes longer than `patience`, or can never be.
    pub fn grow_to(&mut self, bytes: u64, patience: Duration) -> Result<(), Limit> {
        let wanted = bytes.saturating_sub(self.bytes);
        if bytes > self.budget.limit.value {
            return Err(self.budget.limit);
        }
        let ByteBudget { limit, returned, .. } = self.budget;
        let result =
            returned.wait_timeout_while(self.budget.left(), patience, |left| *left < wanted);
        let mut left = result.unwrap_or_else(PoisonError::into_inner).0;
        *left = left.checked_sub(wanted).ok_or(*limit)?;
        self.bytes += wanted;
        Ok(())
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut left = self.budget.left();
        *left = left.saturating_add(self.bytes);
        drop(left);
        self.budget.returned.notify_all();
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
        assert_eq!(*budget.left(), 100);
    }
}
