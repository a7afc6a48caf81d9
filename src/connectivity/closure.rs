//! The exact walk: whether everything that an object leads to is there.
//!
//! It stops at what refs are known to lead to, and looks at every other object once, however
//! many values are judged.

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
    missing: Vec<Missing>,
}

#[derive(Clone, Copy)]
struct Known {
    kind: ObjectKind,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
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

/// An object whose links are being followed.
struct Visit {
    link: Link,
    left: std::vec::IntoIter<Link>,
}

/// What an object turns out to be when a walk comes to it.
enum Arrival {
    Complete,
    Broken(usize),
    Opened(Visit),
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
        Self { stores, history, shallow, known, missing: Vec::new() }
    }

    /// Judges what a link of the push, or of an object of the repository, leads to.
    pub(super) fn is_complete(&mut self, link: Link) -> Result<bool, ConnectivityError> {
        Ok(self.walk(link, None)?.is_none())
    }

    /// Judges a new value, which may be of any kind.
    pub(super) fn judge(&mut self, id: ObjectId) -> Result<Result<(), Missing>, ConnectivityError> {
        let missing = |fault| Missing { id, kind: None, fault, named_by: None };
        let kind = match self.kind(&id)? {
            Ok(kind) => kind,
            Err(fault) => return Ok(Err(missing(fault))),
        };
        let number = self.walk(Link { id, kind }, None)?;
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
    fn walk(
        &mut self,
        link: Link,
        named_by: Option<Link>,
    ) -> Result<Option<usize>, ConnectivityError> {
        let mut stack = match self.arrive(link, named_by)? {
            Arrival::Complete => return Ok(None),
            Arrival::Broken(number) => return Ok(Some(number)),
            Arrival::Opened(visit) => vec![visit],
        };
        while let Some(visit) = stack.last_mut() {
            let from = visit.link;
            let Some(next) = visit.left.next() else {
                self.learn(from, State::Complete);
                stack.pop();
                continue;
            };
            match self.arrive(next, Some(from))? {
                Arrival::Complete => {}
                Arrival::Opened(visit) => stack.push(visit),
                Arrival::Broken(number) => {
                    // All that is open leads here.
                    for visit in stack {
                        self.learn(visit.link, State::Broken(number));
                    }
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    fn arrive(&mut self, link: Link, named_by: Option<Link>) -> Result<Arrival, ConnectivityError> {
        let kind = self
            .kind(&link.id)?
            .and_then(|kind| if kind == link.kind { Ok(kind) } else { Err(Fault::Kind(kind)) });
        let known = self.known.get(&link.id).map(|known| known.state);
        let links = match (kind, known) {
            (Err(fault), _) => Err(fault),
            (Ok(_), Some(State::Broken(number))) => return Ok(Arrival::Broken(number)),
            (Ok(_), Some(_)) => return Ok(Arrival::Complete),
            (Ok(kind), None) => {
                let is_old = self.stores.new_kind(&link.id).is_none();
                if is_old && self.history.is_complete(&link.id) {
                    self.learn(link, State::Referenced);
                    return Ok(Arrival::Complete);
                }
                if kind == ObjectKind::Blob {
                    self.learn(link, State::Complete);
                    return Ok(Arrival::Complete);
                }
                self.links(link, is_old)?
            }
        };
        match links {
            Ok(links) => {
                self.learn(link, State::Open);
                Ok(Arrival::Opened(Visit { link, left: links.into_iter() }))
            }
            Err(fault) => Ok(Arrival::Broken(self.note(link, fault, named_by))),
        }
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

    fn links(&self, link: Link, is_old: bool) -> Result<Found<Vec<Link>>, ConnectivityError> {
        let id = &link.id;
        let read = if is_old { self.stores.read_old(id)? } else { self.stores.read_new(id)? };
        Ok(read.and_then(|(kind, data)| {
            let all = links(kind, &data, self.stores.hash);
            let mut all: Vec<_> = all.collect::<Result<_, _>>().map_err(Fault::Malformed)?;
            if kind == ObjectKind::Commit {
                // The parents first, the tree last: histories are judged from their oldest
                // commit on, so that a parent is either known or cheap to refuse.
                all.rotate_left(1);
                if self.shallow.contains(id) {
                    all.drain(..all.len() - 1);
                }
            }
            Ok(all)
        }))
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
