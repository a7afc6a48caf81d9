//! Whether a directory or a file has changed since it was read.

use super::disk::Stat;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What `stat` says of a directory or a file; another value means that its entries, its bytes or
/// who may read it can have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    /// The kernel sets it by its clock, also when something older is renamed into place.
    changed: (i64, i64),
    size: u64,
}

/// The age from which an unchanged stamp proves an unchanged directory or file.
///
/// A file system gives all changes within one grain of its clock the same time, so that an entry
/// that appears after a listing, but within the grain of the change before it, leaves the stamp as
/// it was. Linux stamps with the time of the last kernel tick (`ktime_get_coarse_real_ts64`): 10 ms
/// at the most, where the kernel ticks a hundred times a second, and mostly 4 or less. That is
/// doubled, since the tick that the time is from may be handled late.
///
/// On a network file system the time is the server's. A server whose clock is behind ours by more
/// than this can hide a change of another host until the next one; the clocks of hosts that share
/// repositories have to agree, as git's own racy checks want it.
const SETTLED_AFTER: Duration = Duration::from_millis(20);

/// The same for times without a fraction: such a file system counts in whole seconds (NFSv2,
/// HFS+, ext3) or in pairs of them (FAT).
const SETTLED_AFTER_COARSE: Duration = Duration::from_secs(3);

impl Stamp {
    /// The stamp that is in what `stat` said.
    pub fn of(stat: &Stat) -> Self {
        let Stat { device, inode, modified, changed, size, .. } = *stat;
        Self { device, inode, modified, changed, size }
    }

    /// The same for a directory whose entries alone matter.
    pub fn of_entries(stat: &Stat) -> Self {
        Self { changed: (0, 0), ..Self::of(stat) }
    }

    /// Whether a listing of a directory that begins at `now`, after this stamp was taken, can be
    /// trusted for as long as the stamp stays the same.
    ///
    /// A time in the future is never trusted: the clocks disagree.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        is_past(self.modified, now)
    }

    /// The same for what was read of a file since `now`, if the stamp was taken later. A file with
    /// an old time can have come there by a rename, which shows in the other time.
    pub fn is_settled_file(&self, now: SystemTime) -> bool {
        is_past(self.modified, now) && is_past(self.changed, now)
    }
}

/// Whether a time lies so far back that nothing else can happen in it.
fn is_past((seconds, nanoseconds): (i64, i64), now: SystemTime) -> bool {
    let grain = if nanoseconds == 0 { SETTLED_AFTER_COARSE } else { SETTLED_AFTER };
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
    else {
        return true; // Before 1970: a clock that is years off, but it is not running now.
    };
    UNIX_EPOCH
        .checked_add(Duration::new(seconds, nanoseconds))
        .and_then(|modified| now.duration_since(modified).ok())
        .is_some_and(|age| age >= grain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(modified: (i64, i64)) -> Stamp {
        Stamp { device: 1, inode: 2, modified, changed: modified, size: 3 }
    }

    fn at(milliseconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_stamp_younger_than_the_grain_is_not_trusted() {
        let young = stamp((100, 500_000_000));
        assert!(!young.is_settled(at(100_500)));
        assert!(!young.is_settled(at(100_519)));
        assert!(young.is_settled(at(100_520)));
    }

    #[test]
    fn a_time_in_whole_seconds_needs_longer() {
        let coarse = stamp((100, 0));
        assert!(!coarse.is_settled(at(102_999)));
        assert!(coarse.is_settled(at(103_000)));
    }

    #[test]
    fn a_time_in_the_future_is_never_trusted() {
        assert!(!stamp((200, 1)).is_settled(at(100_000)));
    }

    #[test]
    fn a_time_before_1970_is_old() {
        assert!(stamp((-5, 1)).is_settled(at(100_000)));
    }
}
