//! The objects whose links have still to be followed, in the order in which that happens.
//!
//! A stack in which what lies further down can be moved up: each object has one place in it,
//! however many name it. It does not look for objects that are in it twice; whoever fills it knows
//! the places.

use crate::links::Link;

/// A stack of links.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    items: Vec<Item>,
    /// Places that are free.
    free: Vec<Place>,
    top: Option<Place>,
}

/// Where in the agenda a link is. Valid until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

#[derive(Debug)]
struct Item {
    link: Link,
    /// The place of the object that named it last.
    namer: Option<Place>,
    below: Option<Place>,
    above: Option<Place>,
}

impl Agenda {
    /// Puts a link on top that nothing on the agenda names.
    pub(super) fn push(&mut self, link: Link) -> Place {
        let place = self.place(Item { link, namer: None, below: None, above: None });
        self.connect(self.top, Some(place));
        self.top = Some(place);
        place
    }

    /// Puts a link directly above `namer`, which names it: below what was put there before.
    pub(super) fn insert_above(&mut self, link: Link, namer: Place) -> Place {
        let place = self.place(Item { link, namer: Some(namer), below: None, above: None });
        self.attach(place, namer);
        place
    }

    /// Moves what waits at `place` directly above `namer`, which names it too.
    pub(super) fn move_above(&mut self, place: Place, namer: Place) {
        if self.items.get(place.0).is_some_and(|item| item.namer != Some(namer)) {
            self.detach(place);
            self.attach(place, namer);
        }
    }

    /// Takes a link away. Nothing that it named may be left.
    pub(super) fn remove(&mut self, place: Place) {
        self.detach(place);
        self.free.push(place);
    }

    /// The link on top, and its place.
    pub(super) fn top(&self) -> Option<(Place, Link)> {
        let place = self.top?;
        Some((place, self.items.get(place.0)?.link))
    }

    /// The link that named the one at `place`.
    pub(super) fn namer(&self, place: Place) -> Option<Link> {
        let namer = self.items.get(place.0)?.namer?;
        Some(self.items.get(namer.0)?.link)
    }

    /// Takes all links away, from the top down.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Link> {
        let items = std::mem::take(&mut self.items);
        self.free.clear();
        let mut next = self.top.take();
        std::iter::from_fn(move || {
            let item = items.get(next?.0)?;
            next = item.below;
            Some(item.link)
        })
    }

    /// The most links that were in it at a time, since it was last drained.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.items.len()
    }

    fn place(&mut self, item: Item) -> Place {
        if let Some(place) = self.free.pop()
            && let Some(free) = self.items.get_mut(place.0)
        {
            *free = item;
            return place;
        }
        self.items.push(item);
        Place(self.items.len() - 1)
    }

    /// Makes two links neighbours; with nothing above, `below` is the top.
    fn connect(&mut self, below: Option<Place>, above: Option<Place>) {
        if let Some(item) = below.and_then(|place| self.items.get_mut(place.0)) {
            item.above = above;
        }
        match above {
            Some(place) => {
                if let Some(item) = self.items.get_mut(place.0) {
                    item.below = below;
                }
            }
            None => self.top = below,
        }
    }

    fn attach(&mut self, place: Place, namer: Place) {
        let above = self.items.get(namer.0).and_then(|item| item.above);
        self.connect(Some(namer), Some(place));
        self.connect(Some(place), above);
        if let Some(item) = self.items.get_mut(place.0) {
            item.namer = Some(namer);
        }
    }

    fn detach(&mut self, place: Place) {
        if let Some(&Item { below, above, .. }) = self.items.get(place.0) {
            self.connect(below, above);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ObjectId, ObjectKind};

    fn link(digit: u8) -> Link {
        Link { id: ObjectId::from_bytes_or_panic(&[digit; 20]), kind: ObjectKind::Tree }
    }

    #[test]
    fn what_an_object_names_is_followed_in_its_order_before_the_object_ends() {
        let mut agenda = Agenda::default();
        let root = agenda.push(link(0));
        let [a, b, c] = [1, 2, 3].map(|digit| agenda.insert_above(link(digit), root));
        assert_eq!(agenda.top(), Some((a, link(1))));
        // The first names the third too, and a fourth.
        let d = agenda.insert_above(link(4), a);
        agenda.move_above(c, a);
        agenda.move_above(c, a);
        assert_eq!((agenda.namer(c), agenda.namer(root)), (Some(link(1)), None));
        for (place, digit) in [(d, 4), (c, 3), (a, 1), (b, 2), (root, 0)] {
            assert_eq!(agenda.top(), Some((place, link(digit))));
            agenda.remove(place);
        }
        assert_eq!(agenda.top(), None);
        let again = agenda.push(link(7));
        agenda.insert_above(link(8), again);
        assert_eq!(agenda.drain().collect::<Vec<_>>(), [link(8), link(7)]);
        assert_eq!(agenda.top(), None);
        assert!(agenda.items.len() <= 5);
    }
}
