//! What fsck looks at when all objects have come: whether what they name is there, and the special
//! files that nobody has looked at yet.
//!
//! Links count whether or not a ref leads to them, as for `git index-pack --strict`. A special file
//! that is in the repository already is read again: it may have come when nobody asked.

use super::content::Content;
use super::context::Context;
use super::error::IngestError;
use super::existing::ExistingObject;
use super::inspection::Inspector;
use super::receive::Received;
use super::refusal::Fault;
use super::worker::Worker;
use crate::fsck::{Finding, Severity, SpecialContent, SpecialRoles};
use crate::links::{Link, NewObjects};
use crate::model::{ObjectId, ObjectKind};
use std::collections::HashMap;

/// Looks at what could not be looked at before; an error if something is refused. `worker` makes
/// objects of the pack.
pub(super) fn inspect_rest(
    inspector: &Inspector,
    received: &Received<'_>,
    context: Context<'_>,
    worker: &mut Worker<'_>,
) -> Result<(), IngestError> {
    check_links(inspector, received.arrived.collector.objects(), context)?;
    let special = (inspector.special().len() as u64).saturating_mul(DUE_BYTES);
    context.memory.add_tables(special)?;
    let mut due = inspector.special().all_due();
    let mut places: HashMap<ObjectId, u32> = HashMap::new();
    if !due.is_empty() {
        let table = &received.arrived.table;
        for place in 0..u32::try_from(table.len()).unwrap_or(u32::MAX) {
            let id = table.id(place).to_owned();
            if due.binary_search_by_key(&id, |(id, _)| *id).is_ok() {
                places.insert(id, place);
            }
        }
    }
    // As git does: of both kinds of files those first that have modules.
    due.sort_by_key(|(id, roles)| (!roles.gitmodules, *id));
    let mut refused = None;
    for (id, roles) in due {
        context.check_on()?;
        let special = Special { id, roles, inspector, context, refused: &mut refused };
        match places.get(&id) {
            Some(&place) => special.check_received(place, received, worker)?,
            None => special.check_existing(received, worker)?,
        }
    }
    context.memory.drop_tables(special);
    refused.map_or(Ok(()), Err)
}

/// Memory for an object with a special name, beyond its note: in a list, and with its place.
const DUE_BYTES: u64 = 150;

/// Looks whether every object that is named is there, and is of the kind that it is named as.
fn check_links(
    inspector: &Inspector,
    objects: &NewObjects,
    context: Context<'_>,
) -> Result<(), IngestError> {
    let mut first: Option<(ObjectId, Fault)> = None;
    let mut note = |id: ObjectId, fault: Fault| {
        // The table has no order, and the answer should.
        if first.as_ref().is_none_or(|(other, _)| id < *other) {
            first = Some((id, fault));
        }
    };
    let other_kind =
        |link: Link, found| Fault::OtherKind { id: link.id, expected: link.kind, found };
    for (link, found) in objects.contradictions() {
        note(link.id, other_kind(link, found));
    }
    for link in objects.boundary().filter(|link| !inspector.is_cut_off(&link.id)) {
        context.check_on()?;
        match existing(&link.id, context)?.map(|found| found.kind) {
            Some(found) if found == link.kind => {}
            Some(found) => note(link.id, other_kind(link, found)),
            None => note(link.id, Fault::Missing { id: link.id, kind: link.kind }),
        }
    }
    first.map_or(Ok(()), |(_, fault)| Err(inspector.refuse(fault)))
}

/// What an object of the repository is. Every repository has the empty tree.
fn existing(id: &ObjectId, context: Context<'_>) -> Result<Option<ExistingObject>, IngestError> {
    if id.is_empty_tree() {
        return Ok(Some(ExistingObject { kind: ObjectKind::Tree, size: 0 }));
    }
    let found = context.existing.find(id, true);
    found.map_err(|source| IngestError::Existing { id: *id, source })
}

/// An object under a special name.
struct Special<'a> {
    id: ObjectId,
    roles: SpecialRoles,
    inspector: &'a Inspector,
    context: Context<'a>,
    /// The first refusal.
    refused: &'a mut Option<IngestError>,
}

impl Special<'_> {
    fn check(self, content: SpecialContent<'_>) {
        self.check_as(content, Fault::Special);
    }

    fn check_as(self, content: SpecialContent<'_>, fault: fn(Finding) -> Fault) {
        let Self { id, roles, inspector, refused, .. } = self;
        let inspection = inspector.inspection();
        inspection.fsck().check_special(&id, roles, content, &mut |finding| {
            if finding.severity == Severity::Error && refused.is_none() {
                *refused = Some(inspector.refuse(fault(finding.clone())));
            }
            inspection.tell_last(finding);
        });
    }

    fn check_received(
        self,
        place: u32,
        received: &Received<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<(), IngestError> {
        if received.arrived.table.kind(place) != Some(ObjectKind::Blob) {
            self.check(SpecialContent::OtherKind);
            return Ok(());
        }
        let made = worker.make_again(place)?;
        let is_whole = !received.arrived.tree.is_delta(place);
        let big = self.context.options.limits.big_file_bytes;
        if is_whole && !self.inspector.unpacks() && made.len() > big {
            // git keeps it without ever having it in memory, and says so when it comes.
            self.check_as(SpecialContent::TooLarge, Fault::Object);
            return Ok(());
        }
        self.check_content(&made)
    }

    fn check_existing(
        self,
        received: &Received<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<(), IngestError> {
        let content = match existing(&self.id, self.context)? {
            None => SpecialContent::Missing,
            Some(ExistingObject { kind: ObjectKind::Blob, size }) => {
                if received.arrived.plan.fits(size) || !self.is_too_large(size) {
                    let (_, made) = worker.existing(&self.id)?;
                    return self.check_content(&made);
                }
                // To be told so it need not be read.
                SpecialContent::TooLarge
            }
            Some(_) => SpecialContent::OtherKind,
        };
        self.check(content);
        Ok(())
    }

    fn is_too_large(&self, size: u64) -> bool {
        size > self.context.options.limits.metadata_bytes_max
    }

    fn check_content(self, made: &Content) -> Result<(), IngestError> {
        let (context, size) = (self.context, made.len());
        if let Some(bytes) = made.in_memory() {
            self.check(SpecialContent::Blob(bytes));
            return Ok(());
        }
        if self.is_too_large(size) {
            self.check(SpecialContent::TooLarge);
            return Ok(());
        }
        context.memory.add_tables(size)?;
        let mut bytes = Vec::new();
        made.read(0, size, |piece| {
            bytes.extend_from_slice(piece);
            Ok::<(), IngestError>(())
        })?;
        self.check(SpecialContent::Blob(&bytes));
        drop(bytes);
        context.memory.drop_tables(size);
        Ok(())
    }
}
