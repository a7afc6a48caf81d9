//! A bounded number of open files, opened when they are first needed.

use std::sync::{Arc, Mutex, PoisonError};

/// The open files of a snapshot or of the cache, the least recently used closed first.
///
/// A file in use stays open whatever is closed here: its user holds it too.
#[derive(Debug)]
pub(super) struct Descriptors<F> {
    open: Mutex<Vec<(u64, Arc<F>)>>,
    max: usize,
}

impl<F> Descriptors<F> {
    /// Keeps at most `max` files open.
    pub(super) fn new(max: usize) -> Self {
        Self { open: Mutex::new(Vec::new()), max }
    }

    /// The open file of this number, or what `open` gives.
    pub(super) fn file<E>(
        &self,
        number: u64,
        open: impl FnOnce() -> Result<F, E>,
    ) -> Result<Arc<F>, E> {
        if let Some(file) = self.take_if_open(number) {
            return Ok(file);
        }
        // Not under the lock: a slow disk must not stop the other threads. Two threads may open
        // one file twice; one of them is closed again.
        let file = Arc::new(open()?);
        let mut files = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= self.max && !files.is_empty() {
            files.remove(0);
        }
        files.retain(|(other, _)| *other != number);
        files.push((number, Arc::clone(&file)));
        Ok(file)
    }

    /// Closes the file of this number, if it is open.
    pub(super) fn close(&self, number: u64) {
        let mut files = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|(other, _)| *other != number);
    }

    fn take_if_open(&self, number: u64) -> Option<Arc<F>> {
        let mut files = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // From the end: the most recently used is asked for most often.
        let place = files.iter().rposition(|(other, _)| *other == number)?;
        if place + 1 < files.len() {
            let found = files.remove(place);
            files.push(found);
        }
        files.last().map(|(_, file)| Arc::clone(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn the_least_recently_used_file_is_closed_first() {
        let files = Descriptors::new(2);
        let open = |number: u64| {
            let mut opened = false;
            files
                .file(number, || {
                    opened = true;
                    Ok::<_, Infallible>(number)
                })
                .unwrap();
            opened
        };
        assert!(open(1));
        assert!(open(2));
        assert!(!open(1));
        assert!(open(3));
        assert!(!open(1));
        assert!(open(2));
    }

    #[test]
    fn a_failure_to_open_leaves_nothing_behind() {
        let files = Descriptors::<u8>::new(2);
        assert_eq!(files.file(1, || Err("no")).unwrap_err(), "no");
        assert_eq!(*files.file(1, || Ok::<_, &str>(7)).unwrap(), 7);
    }
}
