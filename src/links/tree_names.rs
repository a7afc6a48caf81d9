//! A set of names of directories, small whatever its members.
//!
//! It may take a name for a member that is none, never the other way round: names are told apart
//! by sixteen bits.

use bstr::BStr;

/// Names under which trees stand.
#[derive(Clone, Debug)]
pub struct TreeNames {
    bits: Box<[u64]>,
}

const WORDS: usize = (1 << 16) / 64;

impl TreeNames {
    /// The set of all names.
    pub fn all() -> Self {
        Self { bits: vec![u64::MAX; WORDS].into() }
    }

    /// What a name is known by.
    pub fn key(name: &BStr) -> u16 {
        let [.., high, low] = crc32fast::hash(name).to_be_bytes();
        u16::from_be_bytes([high, low])
    }

    /// Whether a name is a member, or looks like one.
    pub fn contains(&self, name: &BStr) -> bool {
        let (word, bit) = place(Self::key(name));
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }
}

impl Default for TreeNames {
    fn default() -> Self {
        Self { bits: vec![0; WORDS].into() }
    }
}

impl Extend<u16> for TreeNames {
    fn extend<T: IntoIterator<Item = u16>>(&mut self, keys: T) {
        for key in keys {
            let (word, bit) = place(key);
            if let Some(word) = self.bits.get_mut(word) {
                *word |= bit;
            }
        }
    }
}

/// The number of a key's word and its bit in there.
fn place(key: u16) -> (usize, u64) {
    (usize::from(key / 64), 1 << (key % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found() {
        let mut names = TreeNames::default();
        let members = ["src", "t", "", "\u{e9}", "a b"];
        names.extend(members.map(|name| TreeNames::key(name.into())));
        for name in members {
            assert!(names.contains(name.into()), "{name}");
        }
        assert!(!names.contains("docs".into()));
        assert!(TreeNames::all().contains("docs".into()));
    }
}
