//! Pushes of histories that end at the client's shallow border.
//!
//! git takes them over with the border only if `receive.shallowUpdate` is set (git-config(1)), which
//! is not supported yet: a ref that would make this repository shallow is refused.

use super::ReceiveError;
use super::session::Session;
use crate::connectivity::ObjectSource;
use crate::links::{self, NewObjects};
use crate::model::{HashKind, ObjectId, ObjectKind, RejectReason};
use crate::report::Phase;
use std::collections::{HashMap, HashSet};
use std::error::Error;

impl Session<'_> {
    /// Refuses commands whose new value leads to a commit of the client's border that is new here.
    ///
    /// A border that was here before with its history makes nothing shallow: the client sends its
    /// commit again because it does not know that. Connectivity sees whether it is whole.
    pub(super) fn reject_shallow_updates(&mut self) -> Result<(), ReceiveError> {
        let (Some(ingested), Some(quarantine)) = (&self.ingested, &self.quarantine) else {
            return Ok(());
        };
        let internal = |error: Box<dyn Error + Send + Sync>| {
            ReceiveError::internal(Phase::Commit, "looking at the client's border", error)
        };
        let mut border = HashSet::new();
        for id in &self.request.shallow {
            let is_here = || self.snapshot.contains(id).map_err(|error| internal(error.into()));
            if ingested.objects.kind(id) == Some(ObjectKind::Commit) && !is_here()? {
                border.insert(*id);
            }
        }
        if border.is_empty() {
            return Ok(());
        }
        let directory = quarantine.put_on_disk().map_err(|error| internal(error.into()))?;
        let both =
            self.snapshot.with_quarantine(directory).map_err(|error| internal(error.into()))?;
        let bytes_max = self.receiver.limits().metadata_bytes_max;
        let read = |id: &ObjectId| ObjectSource::read(&both, id, bytes_max);
        let hash = self.repository.hash();
        let cut_off = descendants(&ingested.objects, border, hash, |id| {
            self.stop_if_asked()?;
            read(id).map_err(|error| internal(error.into()))
        })?;
        for command in &mut self.request.commands {
            if cut_off.contains(&command.new) {
                command.reject(RejectReason::ShallowUpdate);
            }
        }
        Ok(())
    }
}

/// `border`, and the commits and tags of the push that lead there through others of the push.
fn descendants<E>(
    objects: &NewObjects,
    border: HashSet<ObjectId>,
    hash: HashKind,
    mut read: impl FnMut(&ObjectId) -> Result<Option<(ObjectKind, Vec<u8>)>, E>,
) -> Result<HashSet<ObjectId>, E> {
    let mut children: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for id in objects.ids().map(ToOwned::to_owned) {
        if !matches!(objects.kind(&id), Some(ObjectKind::Commit | ObjectKind::Tag)) {
            continue;
        }
        let Some((kind, data)) = read(&id)? else { continue };
        for link in links::links(kind, &data, hash).map_while(Result::ok) {
            if matches!(link.kind, ObjectKind::Commit | ObjectKind::Tag) {
                children.entry(link.id).or_default().push(id);
            }
        }
    }
    let mut open: Vec<ObjectId> = border.iter().copied().collect();
    let mut found = border;
    while let Some(id) = open.pop() {
        let next = children.remove(&id).unwrap_or_default();
        open.extend(next.into_iter().filter(|child| found.insert(*child)));
    }
    Ok(found)
}
