//! What a pusher was promised: compared with what the server shows, and written down.

use super::{Look, Pusher, Sent, lock};
use crate::load::ledger::Sight;
use crate::load::push::{self, Agreement, Change, PushError};
use crate::model::ObjectId;
use bstr::BString;
use std::time::Instant;

impl Pusher {
    /// The values of refs: as the server shows them, or as it acknowledged them.
    pub(super) async fn look(&mut self, names: &[BString]) -> Result<Look, PushError> {
        if let Some(look) = self.remembered(names) {
            return Ok(look);
        }
        let begun = Instant::now();
        let shown = push::discover(&mut self.connection, &self.place.paths.discover_push).await?;
        let took = Some(begun.elapsed());
        let agreement = Agreement::with(&shown);
        self.memory.agreement = Some(agreement);
        self.memory.uncertain = false;
        let values: Vec<_> = if names.len() > FEW {
            let all = shown.values();
            names.iter().map(|name| all.get(name).copied()).collect()
        } else {
            names.iter().map(|name| shown.value(name)).collect()
        };
        let (mut ledger, place) = (lock(&self.ledger), &self.place);
        for (name, value) in names.iter().zip(&values) {
            if ledger.state(place.repository, name).is_none() {
                let shared = place.shared && *name == place.branch;
                ledger.found(place.repository, name, *value, shared);
            } else if ledger.seen(place.repository, name, *value) == Sight::Broken {
                lock(&self.recorder).failed(BROKEN_PROMISE.to_owned());
            }
        }
        drop(ledger);
        Ok(Look { agreement, values, took })
    }

    /// What the ledger says, if it can be relied on and the server need not be asked.
    fn remembered(&mut self, names: &[BString]) -> Option<Look> {
        if self.habits.discovery || self.memory.uncertain || self.place.shared {
            return None;
        }
        let agreement = self.memory.agreement?;
        let (mut ledger, repository) = (lock(&self.ledger), self.place.repository);
        ledger.state(repository, &self.place.branch)?;
        let mut values = Vec::with_capacity(names.len());
        for name in names {
            if ledger.state(repository, name).is_none() {
                // Named after this run: nobody else has made it.
                ledger.found(repository, name, None, false);
            }
            values.push(ledger.state(repository, name)?.value);
        }
        Some(Look { agreement, values, took: None })
    }

    /// Writes down what became of a push.
    pub(super) fn write_down(
        &mut self,
        changes: &[Change],
        parent: Option<ObjectId>,
        result: &Result<Sent, PushError>,
    ) {
        let (mut ledger, repository) = (lock(&self.ledger), self.place.repository);
        let commit = changes.first().and_then(|change| change.new);
        let sent = match result {
            Ok(sent) => sent,
            Err(error) => {
                let doubt = error.is_in_doubt();
                if let Some(commit) = commit.filter(|_| doubt) {
                    ledger.commit(repository, commit, parent, false);
                }
                for change in changes.iter().filter(|_| !doubt) {
                    ledger.refuse(repository, &change.name, change.new);
                }
                return;
            }
        };
        let verdicts = || changes.iter().zip(&sent.verdicts);
        if let Some(commit) = commit
            && verdicts().any(|(_, verdict)| verdict.is_ok())
        {
            ledger.commit(repository, commit, parent, true);
        }
        for (change, verdict) in verdicts() {
            match verdict {
                Ok(()) => ledger.acknowledge(repository, &change.name, change.new),
                Err(error) if error.is_in_doubt() => {}
                Err(_) => ledger.refuse(repository, &change.name, change.new),
            }
        }
    }
}

/// Counted as an error whenever it happens: no load excuses it.
const BROKEN_PROMISE: &str =
    "an acknowledged push was not shown by the next request of the same pusher";
/// Refs that are looked for one by one.
const FEW: usize = 4;
