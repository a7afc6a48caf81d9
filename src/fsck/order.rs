//! The order of a tree's entries, and names that stand in it twice.
//!
//! Names are ordered as bytes, a directory's as if it ended in a slash. A file and a directory of
//! one name need not be neighbours, then: `a`, `a.b`, `a/`.

use std::cmp::Ordering;

/// Follows the entries of a tree, one after the other.
#[derive(Debug, Default)]
pub(super) struct Order<'a> {
    before: Option<Place<'a>>,
    /// Files behind which the names went on with a byte below the slash: their directories may
    /// still come. Each is the beginning of those above it, as long as the tree is sorted.
    waiting: Vec<&'a [u8]>,
    is_unsorted: bool,
    has_duplicates: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    name: &'a [u8],
    is_directory: bool,
}

impl Place<'_> {
    /// What counts at an offset: a byte, the slash of a directory, or nothing, which is least.
    fn at(&self, offset: usize) -> Option<u8> {
        match self.name.get(offset) {
            Some(byte) => Some(*byte),
            None => self.is_directory.then_some(b'/'),
        }
    }
}

impl<'a> Order<'a> {
    /// Whether an entry came before one that it belongs behind.
    pub(super) fn is_unsorted(&self) -> bool {
        self.is_unsorted
    }

    /// Whether a name came twice.
    pub(super) fn has_duplicates(&self) -> bool {
        self.has_duplicates
    }

    /// Takes the next entry.
    pub(super) fn push(&mut self, name: &'a [u8], is_directory: bool) {
        let next = Place { name, is_directory };
        let Some(before) = self.before.replace(next) else { return };
        let shared = before.name.iter().zip(name).take_while(|(a, b)| a == b).count();
        let length = before.name.len().min(name.len());
        if shared < length {
            self.is_unsorted |= before.name.get(shared) > name.get(shared);
        } else if before.name.len() == name.len() {
            self.has_duplicates = true;
        } else {
            self.push_longer(before, next, length);
        }
    }

    /// Takes an entry whose name begins with that of the one before it, or the other way round.
    fn push_longer(&mut self, before: Place<'a>, next: Place<'a>, length: usize) {
        let (first, second) = (before.at(length), next.at(length));
        if first.is_none() && second.is_some_and(is_below_slash) {
            self.waiting.push(before.name);
        } else if second == Some(b'/')
            && first.is_some_and(is_below_slash)
            && self.was_waited_for(next.name)
        {
            self.has_duplicates = true;
            return;
        }
        self.is_unsorted |= first.cmp(&second) != Ordering::Less;
    }

    /// Whether a waiting file has this name. Those that it shows to wait in vain are forgotten.
    fn was_waited_for(&mut self, directory: &[u8]) -> bool {
        while let Some(file) = self.waiting.pop() {
            match directory.strip_prefix(file) {
                Some([]) => return true,
                Some([byte, ..]) if is_below_slash(*byte) => {
                    self.waiting.push(file);
                    return false;
                }
                _ => {}
            }
        }
        false
    }
}

fn is_below_slash(byte: u8) -> bool {
    byte < b'/'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(names: &[&str]) -> (bool, bool) {
        let mut order = Order::default();
        for name in names {
            let directory = name.strip_suffix('/');
            order.push(directory.unwrap_or(name).as_bytes(), directory.is_some());
        }
        (order.is_unsorted(), order.has_duplicates())
    }

    #[test]
    fn a_directory_is_sorted_as_if_it_ended_in_a_slash() {
        for names in [&["a", "b"][..], &["a-b", "a/", "a0"], &["a", "a-b/", "a.b"], &["a\u{e9}"]] {
            assert_eq!(order(names), (false, false), "{names:?}");
        }
        for names in [&["b", "a"][..], &["a/", "a-b"], &["a0", "a/"], &["a-b", "a"]] {
            assert_eq!(order(names), (true, false), "{names:?}");
        }
    }

    #[test]
    fn a_file_and_a_directory_of_one_name_are_found_however_far_apart() {
        for names in [
            &["a", "a"][..],
            &["a", "a/"],
            &["a/", "a/"],
            &["a", "a-b", "a/"],
            &["a", "a-b", "a-b-c", "a-b-d", "a-b/", "a.c"],
            &["a", "a.b", "a.b.c", "a.b/", "a/"],
            &["a", "a.b", "a.b.c", "a/"],
        ] {
            assert_eq!(order(names), (false, true), "{names:?}");
        }
        assert_eq!(order(&["a", "a-b", "a-b/", "ab", "b/"]), (false, true));
        assert_eq!(order(&["a", "a-b", "a.b/", "ab/"]), (false, false));
    }
}
