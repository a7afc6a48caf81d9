//! Which commits of a shallow client's border new values need.
//!
//! A client whose history ends at a border says so, and sends no parents of it. A new value needs
//! a commit of the border if the way there leads through nothing that a ref leads to, and through no
//! other commit of the border. One that was here before, and that a ref leads to, is needed by
//! nobody: its history is here.
//!
//! The rules are those of git's `shallow.c`; the cost is another. Each commit on the way is read
//! once, or twice if it has many parents, however many values lead there; commits that need the
//! same share what is remembered of that. Lines that name commits which no new value leads to cost
//! nothing here.

use super::agenda::{Agenda, Place};
use super::check::{Connectivity, Wants};
use super::commits::{Commits, Parents};
use super::error::ConnectivityError;
use super::history::History;
use super::source::RefValues;
use super::stores::Stores;
use crate::links::{Link, links};
use crate::model::{ObjectId, ObjectKind};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

impl Connectivity<'_> {
    /// What each of the new values needs of a client's border, in the order of the values; nothing
    /// for a null one, of a deletion.
    ///
    /// `border` has nothing of the repository's own, which is what
    /// [`shallow`](Self::shallow) is here. Asked for are the values of all refs, hidden ones too,
    /// and of none of an alternate, whose own history may end where it likes.
    ///
    /// Where a push is made so that what its values need differs from commit to commit by many
    /// thousands, some may be told to need more of the border than they do: a repository that is
    /// shallow at a commit which no ref leads to is no worse for that.
    pub fn needed_border(
        &self,
        border: &HashSet<ObjectId>,
        tips: &[ObjectId],
        refs: &mut dyn RefValues,
    ) -> Result<Vec<Arc<BTreeSet<ObjectId>>>, ConnectivityError> {
        let stores = &self.stores();
        let commits = Commits::new(stores, self.commit_graph, self.shallow);
        let mut history = History::new(commits, refs.old_values());
        let is_sent = |id: &&ObjectId| stores.new_kind(id) == Some(ObjectKind::Commit);
        let values: Vec<ObjectId> = tips.iter().filter(|id| !id.is_null()).copied().collect();
        let mut wants = Wants::new(stores, &values).all_commits(&history)?;
        let sent: Vec<ObjectId> = border.iter().filter(is_sent).copied().collect();
        wants.extend(&sent);
        history.prove(&wants, refs)?;
        // Sent again, for the client cannot know that it is here.
        let is_whole = |id: &ObjectId| history.is_complete(id);
        if history.unproven().next().is_none() && sent.iter().all(is_whole) {
            return Ok(vec![Arc::default(); tips.len()]);
        }
        let mut walk = Walk::new(stores, &history, border);
        let sets = tips.iter().map(|tip| walk.walk(*tip)).collect::<Result<Vec<_>, _>>()?;
        let Walk { sets: needs, reached, .. } = walk;
        let old: Vec<ObjectId> = reached.iter().copied().filter(|id| history.has_met(id)).collect();
        history.settle(&old, refs)?;
        let is_needed = |id: &&ObjectId| !history.is_complete(id);
        let members = |set: SetId| {
            let places = needs.members(set, reached.len());
            let ids = places.filter_map(|place| reached.get(place)).filter(is_needed).copied();
            Arc::new(ids.collect::<BTreeSet<_>>())
        };
        // Values that need the same share it.
        let mut shared = HashMap::new();
        let needed = |set: &SetId| Arc::clone(shared.entry(*set).or_insert_with(|| members(*set)));
        Ok(sets.iter().map(needed).collect())
    }
}

/// The walk from the new values down to the border.
struct Walk<'a> {
    stores: &'a Stores<'a>,
    history: &'a History<'a>,
    border: &'a HashSet<ObjectId>,
    known: HashMap<ObjectId, State>,
    agenda: Agenda,
    sets: Sets,
    /// The commits of the border that were reached, by their places in the sets.
    reached: Vec<ObjectId>,
}

enum State {
    /// What it names has still to be looked at.
    Waiting(Place),
    /// What it names is being looked at.
    Open(Parents),
    /// It needs this much of the border.
    Done(SetId),
}

impl<'a> Walk<'a> {
    fn new(
        stores: &'a Stores<'a>,
        history: &'a History<'a>,
        border: &'a HashSet<ObjectId>,
    ) -> Self {
        let (known, agenda, reached) = (HashMap::new(), Agenda::default(), Vec::new());
        Self { stores, history, border, known, agenda, sets: Sets::default(), reached }
    }

    /// What a new value needs.
    fn walk(&mut self, tip: ObjectId) -> Result<SetId, ConnectivityError> {
        if let Some(set) = self.ends_at(&tip) {
            return Ok(set);
        }
        if tip.is_null() {
            return Ok(Sets::NOTHING);
        }
        let place = self.agenda.push(commit(tip));
        self.known.insert(tip, State::Waiting(place));
        let mut last = Sets::NOTHING;
        while let Some((place, Link { id, .. })) = self.agenda.top() {
            self.stores.check_cancel()?;
            if let Some(State::Open(named)) = self.known.get(&id) {
                let named = match named {
                    Parents::Few(named) => named.clone(),
                    Parents::Many => self.named(&id)?,
                };
                last = named.iter().fold(Sets::NOTHING, |set, id| match self.known.get(id) {
                    Some(State::Done(other)) => self.sets.union(set, *other),
                    _ => set,
                });
                self.known.insert(id, State::Done(last));
                self.agenda.remove(place);
            } else {
                self.open(place, id)?;
            }
        }
        Ok(last)
    }

    /// Puts on the agenda what a commit or tag names and is not known.
    fn open(&mut self, place: Place, id: ObjectId) -> Result<(), ConnectivityError> {
        let named = self.named(&id)?;
        for next in &named {
            if let Some(State::Waiting(waiting)) = self.known.get(next) {
                self.agenda.move_above(*waiting, place);
            } else if !self.known.contains_key(next) && self.ends_at(next).is_none() {
                let waiting = self.agenda.insert_above(commit(*next), place);
                self.known.insert(*next, State::Waiting(waiting));
            }
        }
        self.known.insert(id, State::Open(named.into()));
        Ok(())
    }

    /// What a commit needs, if that is known or can be told without looking at what it names.
    fn ends_at(&mut self, id: &ObjectId) -> Option<SetId> {
        if let Some(known) = self.known.get(id) {
            return if let State::Done(set) = known { Some(*set) } else { None };
        }
        let set = if self.history.is_complete(id) {
            Sets::NOTHING
        } else if self.border.contains(id) {
            self.reached.push(*id);
            self.sets.only(self.reached.len() - 1)
        } else {
            return None;
        };
        self.known.insert(*id, State::Done(set));
        Some(set)
    }

    /// The parents of a commit, or what a tag names; nothing for what is missing or something else.
    fn named(&self, id: &ObjectId) -> Result<Vec<ObjectId>, ConnectivityError> {
        let (stores, commits) = (self.stores, self.history.commits());
        if commits.ends_at(id) {
            return Ok(Vec::new());
        }
        let read = match stores.new_kind(id) {
            Some(ObjectKind::Commit | ObjectKind::Tag) => stores.read_new(id)?,
            Some(_) => return Ok(Vec::new()),
            None => {
                if let Some(facts) = commits.facts(id)? {
                    return commits.parents(id, facts.parents);
                }
                match stores.old_kind(id)? {
                    Ok(ObjectKind::Tag) => stores.read_old(id)?,
                    _ => return Ok(Vec::new()),
                }
            }
        };
        let Ok((kind, data)) = read else { return Ok(Vec::new()) };
        let all = links(kind, &data, stores.hash).map_while(Result::ok);
        let leads_on = |link: &Link| matches!(link.kind, ObjectKind::Commit | ObjectKind::Tag);
        Ok(all.filter(leads_on).map(|link| link.id).collect())
    }
}

/// A link to what may be a commit or a tag; the agenda does not care.
fn commit(id: ObjectId) -> Link {
    Link { id, kind: ObjectKind::Commit }
}

/// A set of places, by its number. Equal sets have one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SetId(u32);

/// Sets of places, each held once.
#[derive(Debug)]
struct Sets {
    all: Vec<Rc<[u32]>>,
    numbers: HashMap<Rc<[u32]>, SetId>,
    unions: HashMap<(SetId, SetId), SetId>,
    /// Members of all sets together.
    held: usize,
    held_max: usize,
}

/// LIMIT: members that all sets together may have, some four megabytes. A union for which there is
/// no room is the set of everything.
const MEMBERS_MAX: usize = 1 << 20;

/// LIMIT: unions that are remembered. More, and all are forgotten and made again.
const UNIONS_MAX: usize = 1 << 18;

impl Default for Sets {
    fn default() -> Self {
        Self::with_room_for(MEMBERS_MAX)
    }
}

impl Sets {
    const NOTHING: SetId = SetId(0);
    const EVERYTHING: SetId = SetId(u32::MAX);

    fn with_room_for(held_max: usize) -> Self {
        let nothing: Rc<[u32]> = Rc::new([]);
        let numbers = HashMap::from([(Rc::clone(&nothing), Self::NOTHING)]);
        Self { all: vec![nothing], numbers, unions: HashMap::new(), held: 0, held_max }
    }

    fn only(&mut self, place: usize) -> SetId {
        u32::try_from(place).map_or(Self::EVERYTHING, |place| self.number(&[place]))
    }

    fn union(&mut self, one: SetId, other: SetId) -> SetId {
        let pair = if one.0 <= other.0 { (one, other) } else { (other, one) };
        if pair.0 == pair.1 || pair.0 == Self::NOTHING || pair.1 == Self::EVERYTHING {
            return pair.1;
        }
        if let Some(known) = self.unions.get(&pair) {
            return *known;
        }
        let members = |set: SetId| self.all.get(set.0 as usize).map(Rc::as_ref).unwrap_or_default();
        let both: BTreeSet<u32> = members(pair.0).iter().chain(members(pair.1)).copied().collect();
        let both: Vec<u32> = both.into_iter().collect();
        let union = self.number(&both);
        if self.unions.len() >= UNIONS_MAX {
            self.unions.clear();
        }
        self.unions.insert(pair, union);
        union
    }

    fn number(&mut self, members: &[u32]) -> SetId {
        if let Some(known) = self.numbers.get(members) {
            return *known;
        }
        let held = self.held.saturating_add(members.len());
        let number = u32::try_from(self.all.len()).ok().map(SetId);
        let Some(number) = number.filter(|n| held <= self.held_max && *n != Self::EVERYTHING)
        else {
            return Self::EVERYTHING;
        };
        self.held = held;
        let members: Rc<[u32]> = members.into();
        self.numbers.insert(Rc::clone(&members), number);
        self.all.push(members);
        number
    }

    /// The places in a set, out of so many.
    fn members(&self, set: SetId, all: usize) -> impl Iterator<Item = usize> + use<> {
        let members = match set {
            Self::EVERYTHING => None,
            set => self.all.get(set.0 as usize).cloned(),
        };
        (0..members.as_ref().map_or(all, |members| members.len())).filter_map(move |at| {
            match &members {
                None => Some(at),
                Some(members) => members.get(at).and_then(|place| usize::try_from(*place).ok()),
            }
        })
    }
}

#[cfg(test)]
mod tests;
