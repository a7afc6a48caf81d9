//! The existing objects as the snapshot of a push knows them.

use super::error::StoreError;
use super::existing::{ExistingObject, ExistingObjects};
use crate::model::{ObjectId, ObjectKind};
use crate::snapshot::ObjectSnapshot;
use std::ops::ControlFlow;

/// Contents are read through a refreshing clone: what was found and has moved since is looked for
/// where it is now.
impl ExistingObjects for ObjectSnapshot {
    fn contains(&self, id: &ObjectId) -> Result<bool, StoreError> {
        Ok(ObjectSnapshot::contains(self, id)?)
    }

    fn find(&self, id: &ObjectId, refresh: bool) -> Result<Option<ExistingObject>, StoreError> {
        let found =
            if refresh { self.refreshing().kind_and_size(id) } else { self.kind_and_size(id) }?;
        Ok(found.map(|(kind, size)| ExistingObject { kind, size }))
    }

    fn read(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ObjectKind, Vec<u8>)>, StoreError> {
        let object = ObjectSnapshot::read(&self.refreshing(), id, bytes_max)?;
        Ok(object.map(|object| (object.kind, object.data)))
    }

    fn stream(
        &self,
        id: &ObjectId,
        bytes_max: u64,
        sink: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Option<ExistingObject>, StoreError> {
        let found = ObjectSnapshot::stream(&self.refreshing(), id, bytes_max, sink)?;
        Ok(found.map(|(kind, size)| ExistingObject { kind, size }))
    }

    fn compressed(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ExistingObject, Vec<u8>)>, StoreError> {
        let entry = ObjectSnapshot::compressed(&self.refreshing(), id, bytes_max)?;
        Ok(entry.map(|entry| (ExistingObject { kind: entry.kind, size: entry.size }, entry.zlib)))
    }
}
