//! The exact walk: whether everything that an object leads to is there.
//!
//! It stops at what refs are known to lead to, and looks at every other object once, however
//! many values are judged. One object's bytes are in memory at a time, and of its links only those
//! that have to be followed: an id is remembered once, whatever number of objects names it. That
//! is some two hundred bytes for each different object that is there.

use super::agenda::{Agenda, Place};
use super::error::ConnectivityError;
use super::history::History;
use super::stores::{Found, Stores};
use super::verdict::{Fault, Missing};
use crate::links::{Link, links};
use crate::model::{ObjectId, ObjectKind};
use std::collections::{HashMap, HashSet};

/// What is known about objects so far.
pub(super) struct Closure<'a> {
    stores: &'a Stores<'a>,
    history: &'a History<'a>,
    shallow: &'a HashSet<ObjectId>,
    known: HashMap<ObjectId, Known>,
    agenda: Agenda,
    missing: Vec<Missing>,
}

#[derive(Clone, Copy)]
struct Known {
    kind: ObjectKind,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is there, and its links will be followed.
    Waiting(Place),
    /// Its links are being followed. An object cannot lead to itself; should a store say so, it is
    /// walked once all the same.
    Open,
    /// All it leads to is there; refs lead to it.
    Referenced,
    /// All it leads to is there.
    Complete,
    /// It leads to what is missing, by its number.
    Broken(usize),
}

/// What an object turns out to be when something names it.
enum Look {
    Complete,
    Broken(usize),
    /// It waits, at this place.
    Waiting(Place),
    /// Its links have to be followed.
    Unknown,
}

impl<'a> Closure<'a> {
    /// Nothing is known but these links, to which refs lead.
    pub(super) fn new(
        stores: &'a Stores<'a>,
        history: &'a History<'a>,
        shallow: &'a HashSet<ObjectId>,
        referenced: &[Link],
    ) -> Self {
        let known = |link: &Link| (link.id, Known { kind: link.kind, state: State::Referenced });
        let known = referenced.iter().map(known).collect();
        let agenda = Agenda::default();
        Self { stores, history, shallow, known, agenda, missing: Vec::new() }
    }

    /// Judges what a link of the push, or of an object of the repository, leads to.
    pub(super) fn is_complete(&mut self, link: Link) -> Result<bool, ConnectivityError> {
        Ok(self.walk(link)?.is_none())
    }

    /// Judges a new value, which may be of any kind.
    pub(super) fn judge(&mut self, id: ObjectId) -> Result<Result<(), Missing>, ConnectivityError> {
        let missing = |fault| Missing { id, kind: None, fault, named_by: None };
        let kind = match self.kind(&id)? {
            Ok(kind) => kind,
            Err(fault) => return Ok(Err(missing(fault))),
        };
        let number = self.walk(Link { id, kind })?;
        let missing = number.and_then(|number| self.missing.get(number).cloned());
        Ok(missing.map_or(Ok(()), Err))
    }

    /// The objects of the repository that were found complete without a ref leading to them.
    pub(super) fn unreferenced(&self) -> impl Iterator<Item = ObjectId> {
        self.known
            .iter()
            .filter(|(_, known)| known.state == State::Complete)
            .map(|(id, _)| *id)
            // git needs no file for the empty tree.
            .filter(|id| self.stores.new_kind(id).is_none() && !id.is_empty_tree())
    }

    /// Follows a link to all it leads to; the number of what is missing, if something is.
    ///
    /// The objects that are open are those that lead to the one on top of the agenda.
    fn walk(&mut self, link: Link) -> Result<Option<usize>, ConnectivityError> {
        match self.look(link, None)? {
            Look::Complete => return Ok(None),
            Look::Broken(number) => return Ok(Some(number)),
            Look::Waiting(_) | Look::Unknown => {}
        }
        let place = self.agenda.push(link);
        self.learn(link, State::Waiting(place));
        while let Some((place, link)) = self.agenda.top() {
            if self.known.get(&link.id).is_some_and(|known| known.state == State::Open) {
                self.learn(link, State::Complete);
                self.agenda.remove(place);
                continue;
            }
            self.learn(link, State::Open);
            if let Some(number) = self.follow(place, link)? {
                self.give_up(number);
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Looks at all that an object names, and puts on the agenda what has to be followed in turn;
    /// the number of what is missing, if something is.
    fn follow(&mut self, place: Place, link: Link) -> Result<Option<usize>, ConnectivityError> {
        let Link { id, kind } = link;
        let read = match self.stores.new_kind(&id) {
            Some(_) => self.stores.read_new(&id)?,
            None => self.stores.read_old(&id)?,
        };
        let data = match read {
            Ok((_, data)) => data,
            Err(fault) => return Ok(Some(self.note(link, fault, self.agenda.namer(place)))),
        };
        let mut all = links(kind, &data, self.stores.hash);
        if let Some(error) = all.clone().find_map(Result::err) {
            let fault = Fault::Malformed(error);
            return Ok(Some(self.note(link, fault, self.agenda.namer(place))));
        }
        // The parents first, the tree last: histories are judged from their oldest commit on, so
        // that a parent is either known or cheap to refuse.
        let tree = if kind == ObjectKind::Commit { all.next() } else { None };
        let ends_here = kind == ObjectKind::Commit && self.shallow.contains(&id);
        let others = all.take(if ends_here { 0 } else { usize::MAX });
        for next in others.chain(tree).flatten() {
            match self.look(next, Some(link))? {
                Look::Complete => {}
                Look::Broken(number) => return Ok(Some(number)),
                Look::Waiting(waiting) => self.agenda.move_above(waiting, place),
                Look::Unknown => {
                    let waiting = self.agenda.insert_above(next, place);
                    self.learn(next, State::Waiting(waiting));
                }
            }
        }
        Ok(None)
    }

    /// Ends a walk that has met what is missing: all that is open leads there.
    fn give_up(&mut self, number: usize) {
        for link in self.agenda.drain() {
            if self.known.get(&link.id).is_some_and(|known| known.state == State::Open) {
                self.known.insert(link.id, Known { kind: link.kind, state: State::Broken(number) });
            } else {
                self.known.remove(&link.id);
            }
        }
    }

    /// Looks at an object that something names, without following its links.
    fn look(&mut self, link: Link, named_by: Option<Link>) -> Result<Look, ConnectivityError> {
        let kind = self
            .kind(&link.id)?
            .and_then(|kind| if kind == link.kind { Ok(kind) } else { Err(Fault::Kind(kind)) });
        let kind = match kind {
            Ok(kind) => kind,
            Err(fault) => return Ok(Look::Broken(self.note(link, fault, named_by))),
        };
        match self.known.get(&link.id).map(|known| known.state) {
            Some(State::Broken(number)) => return Ok(Look::Broken(number)),
            Some(State::Waiting(place)) => return Ok(Look::Waiting(place)),
            Some(State::Open | State::Referenced | State::Complete) => return Ok(Look::Complete),
            None => {}
        }
        let is_old = self.stores.new_kind(&link.id).is_none();
        let state = if is_old && self.history.is_complete(&link.id) {
            State::Referenced
        } else if kind == ObjectKind::Blob {
            State::Complete
        } else {
            return Ok(Look::Unknown);
        };
        self.learn(link, state);
        Ok(Look::Complete)
    }

    /// The kind of an object of the push or of the repository.
    fn kind(&self, id: &ObjectId) -> Result<Found<ObjectKind>, ConnectivityError> {
        if let Some(known) = self.known.get(id) {
            return Ok(Ok(known.kind));
        }
        match self.stores.new_kind(id) {
            Some(kind) => Ok(Ok(kind)),
            None => self.stores.old_kind(id),
        }
    }

    fn learn(&mut self, link: Link, state: State) {
        self.known.insert(link.id, Known { kind: link.kind, state });
    }

    fn note(&mut self, link: Link, fault: Fault, named_by: Option<Link>) -> usize {
        let Link { id, kind } = link;
        self.missing.push(Missing { id, kind: Some(kind), fault, named_by });
        self.missing.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectivity::commits::Commits;
    use crate::connectivity::corpus::{METADATA_BYTES, SHA1, Store, absent};
    use crate::links::NewObjects;
    use crate::model::{ByteBudget, CancelToken};

    const LEAVES: usize = 60;
    const LEVELS: usize = 40;

    /// Trees each of which names the next first, and then every one of the same leaves.
    fn tower(store: &mut Store, end: ObjectId) -> ObjectId {
        let leaves: Vec<_> = (0..LEAVES)
            .map(|number| {
                let blob = store.blob(&number.to_string());
                store.tree(&[("100644", "x", blob)])
            })
            .collect();
        let names: Vec<_> = (0..LEAVES).map(|number| format!("leaf{number}")).collect();
        (0..LEVELS).fold(end, |next, _| {
            let mut entries = vec![("40000", "deeper", next)];
            entries.extend(names.iter().zip(&leaves).map(|(name, id)| ("40000", &name[..], *id)));
            store.tree(&entries)
        })
    }

    fn places_and_answer(store: &Store, root: ObjectId) -> (usize, bool) {
        let (new, shallow, cancel) = (NewObjects::new(), HashSet::new(), CancelToken::new());
        let stores = Stores {
            hash: SHA1,
            new: &new,
            old: store,
            brought: store,
            bytes_max: METADATA_BYTES,
            memory: &ByteBudget::new(METADATA_BYTES),
            cancel: &cancel,
        };
        let history = History::new(Commits::new(&stores, &|| None, &shallow), Vec::new());
        let mut closure = Closure::new(&stores, &history, &shallow, &[]);
        let answer = closure.judge(root).unwrap().is_ok();
        let places = closure.agenda.places();
        assert_eq!(closure.judge(root).unwrap().is_ok(), answer);
        (places, answer)
    }

    #[test]
    fn what_many_open_trees_name_waits_once() {
        let mut store = Store::default();
        let end = store.tree(&[]);
        let root = tower(&mut store, end);
        let (places, complete) = places_and_answer(&store, root);
        assert!(complete);
        assert!(places <= LEAVES + LEVELS + 1, "{places}");
        assert_eq!(store.reads(), LEAVES + LEVELS);
    }

    #[test]
    fn what_waited_when_something_was_missing_is_judged_anew() {
        let mut store = Store::default();
        let end = store.tree(&[("100644", "gone", absent(9))]);
        let root = tower(&mut store, end);
        assert!(!places_and_answer(&store, root).1);
    }
}
