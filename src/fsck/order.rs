//! The order of a tree's entries, and names that stand in it twice.
//!
//! The rule (git-fsck(1), `treeNotSorted` and `duplicateEntries`): entries are sorted by their names
//! as bytes, a directory's as if a slash followed, and a name stands in a tree once, be it a file's
//! or a directory's.
//!
//! Two entries of one name need not be neighbours: what begins with the name and goes on with a
//! byte below the slash, such as `a.b`, has its place between the file `a` and the directory `a`.
//! And nothing else has, so that only a file whose next entry is such a one has to be remembered.

use std::collections::HashSet;

/// Follows the entries of a tree, one after the other.
#[derive(Debug, Default)]
pub(super) struct Order<'a> {
    last: Option<Entry<'a>>,
    /// Names of files that a longer name stands behind, where a directory of the name may follow.
    remembered: HashSet<&'a [u8]>,
    is_unsorted: bool,
    has_duplicates: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    name: &'a [u8],
    is_directory: bool,
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
        let entry = Entry { name, is_directory };
        let Some(last) = self.last.replace(entry) else { return };
        if !last.is_directory && entry.stands_between_both(last.name) {
            self.remembered.insert(last.name);
        }
        let comes_again = is_directory && last.stands_between_both(name);
        if name == last.name || comes_again && self.remembered.contains(name) {
            // The places of two entries of one name are no question of order.
            self.has_duplicates = true;
        } else {
            self.is_unsorted |= !last.is_before(entry);
        }
    }
}

impl Entry<'_> {
    /// Whether its place is between a file and a directory of this name.
    fn stands_between_both(&self, name: &[u8]) -> bool {
        let rest = self.name.strip_prefix(name);
        rest.and_then(<[u8]>::first).is_some_and(|next| *next < b'/')
    }

    /// Whether it belongs before `other`. What stands behind the shorter of the two names, or the
    /// slash that is taken to, decides if nothing before does.
    fn is_before(&self, other: Entry<'_>) -> bool {
        let length = self.name.len().min(other.name.len());
        (self.name.get(..length), self.at(length)) < (other.name.get(..length), other.at(length))
    }

    /// The byte at an offset no farther than the end of the name, where nothing is least.
    fn at(&self, offset: usize) -> Option<u8> {
        let slash = self.is_directory.then_some(b'/');
        self.name.get(offset).copied().or(slash)
    }
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
    fn in_a_sorted_tree_every_name_that_comes_twice_is_found() {
        // Every sorted tree of a few names, told by a plain count.
        let names = ["a", "a-", "a--", "a-0", "a.", "a0", "b"];
        for picked in 0..1u32 << (2 * names.len()) {
            let mut all: Vec<String> = Vec::new();
            for (at, name) in names.iter().enumerate() {
                all.extend((picked >> (2 * at) & 1 == 1).then(|| (*name).to_owned()));
                all.extend((picked >> (2 * at + 1) & 1 == 1).then(|| format!("{name}/")));
            }
            all.sort();
            let single: HashSet<_> = all.iter().map(|name| name.trim_end_matches('/')).collect();
            let has_duplicates = single.len() < all.len();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            assert_eq!(order(&all), (false, has_duplicates), "{all:?}");
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
        assert_eq!(order(&["a", "a-", "a--", "a--/", "a-/", "a/"]), (false, true));
        assert_eq!(order(&["a/", "a"]), (false, true));
        assert_eq!(order(&["a", "a-b", "a.b/", "ab/"]), (false, false));
    }
}
