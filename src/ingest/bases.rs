//! The bases that are held while what is made from them is made.

use super::content::Content;
use super::tree_starts::TreeStarts;

/// A stack of bases, each made from those below it, within a byte budget.
///
/// When the budget is passed, the contents farthest from the top go first: they are needed last.
/// Whoever needs one again makes it again.
#[derive(Debug)]
pub(super) struct HeldBases {
    stack: Vec<Held>,
    bytes_max: usize,
    /// Memory of the contents.
    bytes: usize,
    /// Bytes of contents that are on disk.
    spilled: u64,
    /// No base below this one has content that could go.
    lowest: usize,
}

#[derive(Debug)]
struct Held {
    place: u32,
    content: Option<Content>,
    starts: Option<TreeStarts>,
    /// Cannot be made again from the pack.
    pinned: bool,
}

/// Disk that evictable contents may take.
const SPILLED_BYTES_MAX: u64 = 1 << 30;

impl HeldBases {
    /// None; room for `bytes_max`.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { stack: Vec::new(), bytes_max, bytes: 0, spilled: 0, lowest: 0 }
    }

    /// Memory that is taken.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the object of the entry at `place`.
    pub(super) fn push(&mut self, place: u32, content: Content, starts: Option<TreeStarts>) {
        self.put(Held { place, content: Some(content), starts, pinned: false });
    }

    /// Adds an object that is not in the pack, as the first.
    pub(super) fn push_pinned(&mut self, place: u32, content: Content) {
        self.put(Held { place, content: Some(content), starts: None, pinned: true });
    }

    /// The content and entry starts of the top, which is `place`, if they have not gone.
    pub(super) fn top(&self, place: u32) -> Option<(&Content, Option<&TreeStarts>)> {
        let top = self.stack.last().filter(|held| held.place == place)?;
        Some((top.content.as_ref()?, top.starts.as_ref()))
    }

    /// Puts the content of the top back.
    pub(super) fn restore(&mut self, content: Content) {
        if let Some(mut top) = self.stack.pop() {
            self.subtract(&top);
            top.content = Some(content);
            self.put(top);
        }
    }

    /// Takes the top off; its memory is free to use again.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let top = self.stack.pop()?;
        self.subtract(&top);
        self.lowest = self.lowest.min(self.stack.len());
        match top.content? {
            Content::Memory(bytes) => Some(bytes),
            Content::Spilled(_) => None,
        }
    }

    /// Takes all off.
    pub(super) fn clear(&mut self) {
        while !self.stack.is_empty() {
            self.pop();
        }
    }

    /// The nearest base at or below the top that has content, of those on `path`: places from the
    /// top downwards. Gives the index into the path.
    pub(super) fn nearest(&self, path: &[u32]) -> Option<(usize, &Content)> {
        let mut at = path.iter().enumerate();
        for held in self.stack.iter().rev() {
            // The stack has some of the places of the path, in the same order.
            let index = at.find(|(_, place)| **place == held.place)?.0;
            if let Some(content) = &held.content {
                return Some((index, content));
            }
        }
        None
    }

    fn put(&mut self, held: Held) {
        self.bytes += held.bytes();
        self.spilled += held.spilled();
        self.lowest = self.lowest.min(self.stack.len());
        self.stack.push(held);
        self.evict();
    }

    fn subtract(&mut self, held: &Held) {
        self.bytes -= held.bytes();
        self.spilled -= held.spilled();
    }

    /// Drops contents from the bottom until the budget is kept, but for the top.
    fn evict(&mut self) {
        let top = self.stack.len().saturating_sub(1);
        while self.lowest < top && (self.bytes > self.bytes_max || self.spilled > SPILLED_BYTES_MAX)
        {
            if let Some(held) = self.stack.get_mut(self.lowest).filter(|held| !held.pinned) {
                self.bytes -= held.bytes();
                self.spilled -= held.spilled();
                held.content = None;
                held.starts = None;
                // The bytes of an emptied base are none.
            }
            self.lowest += 1;
        }
    }
}

impl Held {
    fn bytes(&self) -> usize {
        self.content.as_ref().map_or(0, Content::memory_bytes)
            + self.starts.as_ref().map_or(0, TreeStarts::bytes)
    }

    fn spilled(&self) -> u64 {
        match &self.content {
            Some(Content::Spilled(_)) => self.content.as_ref().map_or(0, Content::len),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(len: usize) -> Content {
        Content::Memory(vec![0; len])
    }

    #[test]
    fn what_is_farthest_from_the_top_goes_first_and_the_top_stays() {
        let mut bases = HeldBases::new(250);
        for place in 0..4 {
            bases.push(place, content(100), None);
            assert!(bases.bytes() <= 250);
        }
        assert!(bases.top(3).is_some());
        assert_eq!(bases.nearest(&[3, 9, 2, 1, 0]).unwrap().0, 0);
        bases.pop();
        assert_eq!(bases.nearest(&[2, 1, 0]).unwrap().0, 0);
        bases.pop();
        assert!(bases.top(1).is_none());
        assert!(bases.nearest(&[1, 0]).is_none());
        bases.restore(content(100));
        assert!(bases.top(1).is_some());
        bases.push(5, content(1000), None);
        assert!(bases.top(5).is_some());
        assert_eq!(bases.bytes(), 1000);
        bases.clear();
        assert_eq!(bases.bytes(), 0);
    }

    #[test]
    fn what_cannot_be_made_again_stays() {
        let mut bases = HeldBases::new(150);
        bases.push_pinned(9, content(100));
        bases.push(1, content(100), None);
        bases.push(2, content(100), None);
        assert_eq!(bases.nearest(&[2, 1, 9]).unwrap().0, 0);
        bases.pop();
        assert_eq!(bases.nearest(&[1, 7, 9]).unwrap().0, 2);
    }
}
