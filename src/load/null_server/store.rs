//! The values of refs, by repository; nothing else is kept.

use super::faults::{Fate, Faults};
use crate::model::{Command, HashKind, ObjectId, RejectReason};
use crate::wire::{
    AdvertisementEncoder, ProtocolVersion, ServerCapabilities, encode_service_preamble,
};
use bstr::{BString, ByteSlice as _};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Store {
    offer: ServerCapabilities,
    repositories: Mutex<HashMap<String, Repository>>,
}

#[derive(Debug, Default)]
struct Repository {
    refs: BTreeMap<BString, ObjectId>,
    /// What was acknowledged and is not shown yet.
    late: Vec<(Instant, BString, ObjectId)>,
}

impl Store {
    pub(super) fn new(agent: &str) -> Self {
        let offer = ServerCapabilities::new(HashKind::Sha1, agent);
        Self { offer, repositories: Mutex::default() }
    }

    pub(super) fn offer(&self) -> &ServerCapabilities {
        &self.offer
    }

    /// The advertisement of a repository.
    pub(super) fn advertise(&self, path: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        encode_service_preamble(&mut out);
        let mut encoder = AdvertisementEncoder::begin(&mut out, ProtocolVersion::V0, &self.offer);
        self.with(path, |repository| {
            repository.show_what_is_due();
            for (name, id) in &repository.refs {
                // A name that cannot be advertised is left out, as git does.
                drop(encoder.reference(&mut out, id, name.as_bstr()));
            }
        });
        encoder.finish(&mut out, []);
        out
    }

    /// Gives each command its status, and refs their values, as the fate of the push will have it.
    ///
    /// `acknowledge` is asked for the fate of a push of which something is taken.
    pub(super) fn apply(
        &self,
        path: &str,
        commands: &mut [Command],
        fate: Fate,
        faults: &Faults,
        acknowledge: impl Fn() -> Fate,
    ) {
        let mut taken = (fate != Fate::Carried).then_some(fate);
        let due = faults.late.map(|late| Instant::now() + late);
        self.with(path, |repository| {
            repository.show_what_is_due();
            for command in commands {
                let shown = repository.refs.get(&command.name);
                let expected = (!command.old.is_null()).then_some(&command.old);
                if fate == Fate::Rejected {
                    command.reject(RejectReason::HookDeclined);
                } else if shown != expected {
                    command.reject(RejectReason::FailedToUpdateRef);
                } else {
                    command.finish();
                    if *taken.get_or_insert_with(&acknowledge) != Fate::Lost {
                        repository.take(command, due);
                    }
                }
            }
        });
    }

    fn with<T>(&self, path: &str, look: impl FnOnce(&mut Repository) -> T) -> T {
        let mut repositories = self.repositories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(repository) = repositories.get_mut(path) {
            return look(repository);
        }
        look(repositories.entry(path.to_owned()).or_default())
    }
}

impl Repository {
    fn take(&mut self, command: &Command, due: Option<Instant>) {
        match due {
            Some(due) => self.late.push((due, command.name.clone(), command.new)),
            None => self.set(command.name.clone(), command.new),
        }
    }

    fn set(&mut self, name: BString, value: ObjectId) {
        if value.is_null() {
            self.refs.remove(&name);
        } else {
            self.refs.insert(name, value);
        }
    }

    fn show_what_is_due(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let now = Instant::now();
        let late = std::mem::take(&mut self.late);
        for (due, name, value) in late {
            if due <= now { self.set(name, value) } else { self.late.push((due, name, value)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn pushed(store: &Store, old: u8, new: u8, fate: Fate, faults: &Faults) -> bool {
        let (old, new) = (ObjectId::from([old; 20]), ObjectId::from([new; 20]));
        let mut commands = [Command::new(old, new, "refs/heads/a")];
        store.apply("/r", &mut commands, fate, faults, || Fate::Carried);
        commands[0].status == crate::model::CommandStatus::Done
    }

    fn shows(store: &Store, byte: u8) -> bool {
        store.advertise("/r").contains_str(ObjectId::from([byte; 20]).to_string())
    }

    #[test]
    fn a_ref_changes_only_from_the_value_it_has() {
        let (store, faults) = (Store::new("x"), Faults::default());
        assert!(pushed(&store, 0, 1, Fate::Carried, &faults) && shows(&store, 1));
        assert!(!pushed(&store, 0, 2, Fate::Carried, &faults) && !shows(&store, 2));
        assert!(pushed(&store, 1, 0, Fate::Carried, &faults) && !shows(&store, 1));
    }

    #[test]
    fn what_is_lost_or_late_is_acknowledged_and_not_shown() {
        let store = Store::new("x");
        assert!(pushed(&store, 0, 1, Fate::Lost, &Faults::default()) && !shows(&store, 1));
        let late = Faults { late: Some(Duration::from_millis(20)), ..Faults::default() };
        assert!(pushed(&store, 0, 2, Fate::Carried, &late) && !shows(&store, 2));
        std::thread::sleep(Duration::from_millis(25));
        assert!(shows(&store, 2));
        assert!(!pushed(&store, 2, 3, Fate::Rejected, &late));
    }
}
