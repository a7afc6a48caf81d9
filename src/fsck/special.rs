//! Which blobs a tree gives a meaning, and which of them were looked at.
//!
//! A blob says nothing of its name. The tree that does may come before it or after it, in another
//! thread, or in a later push: so trees note what they name, and what was not looked at meanwhile
//! is asked for in the end.

use crate::model::{ObjectId, oid};
use std::collections::HashMap;

/// The files whose content is checked that one object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecialRoles {
    /// It is named `.gitmodules`.
    pub gitmodules: bool,
    /// It is named `.gitattributes`.
    pub gitattributes: bool,
}

/// Objects under special names; one for each thread, put together in the end.
///
/// Holds each id once, some sixty bytes each.
#[derive(Clone, Debug, Default)]
pub struct SpecialBlobs {
    objects: HashMap<ObjectId, Object>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Object {
    named: SpecialRoles,
    checked: SpecialRoles,
}

impl SpecialRoles {
    /// Whether it has no such name.
    pub fn is_empty(self) -> bool {
        !self.gitmodules && !self.gitattributes
    }

    fn with(self, other: Self) -> Self {
        Self {
            gitmodules: self.gitmodules || other.gitmodules,
            gitattributes: self.gitattributes || other.gitattributes,
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            gitmodules: self.gitmodules && !other.gitmodules,
            gitattributes: self.gitattributes && !other.gitattributes,
        }
    }
}

impl SpecialBlobs {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that a tree gives an object these names.
    pub(super) fn name(&mut self, id: &oid, roles: SpecialRoles) {
        let object = self.objects.entry(id.to_owned()).or_default();
        object.named = object.named.with(roles);
    }

    /// As what an object is still to be checked, as far as it has been named.
    pub fn due(&self, id: &oid) -> SpecialRoles {
        // Most pushes have none, and then every blob of theirs asks.
        if self.objects.is_empty() {
            return SpecialRoles::default();
        }
        let object = self.objects.get(id).copied().unwrap_or_default();
        object.named.without(object.checked)
    }

    /// Notes that an object was checked as this.
    pub fn mark_checked(&mut self, id: &oid, roles: SpecialRoles) {
        let object = self.objects.entry(id.to_owned()).or_default();
        object.checked = object.checked.with(roles);
    }

    /// Takes over what another thread noted.
    pub fn absorb(&mut self, other: Self) {
        for (id, other) in other.objects {
            let object = self.objects.entry(id).or_default();
            object.named = object.named.with(other.named);
            object.checked = object.checked.with(other.checked);
        }
    }

    /// What has been named and not checked, by id.
    pub fn all_due(&self) -> Vec<(ObjectId, SpecialRoles)> {
        let mut due: Vec<_> = self
            .objects
            .iter()
            .map(|(id, object)| (*id, object.named.without(object.checked)))
            .filter(|(_, roles)| !roles.is_empty())
            .collect();
        due.sort_unstable_by_key(|(id, _)| *id);
        due
    }

    /// How many ids are remembered.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether no id is remembered.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HashKind;

    const GITMODULES: SpecialRoles = SpecialRoles { gitmodules: true, gitattributes: false };
    const GITATTRIBUTES: SpecialRoles = SpecialRoles { gitmodules: false, gitattributes: true };

    #[test]
    fn what_one_thread_checked_is_not_due_because_another_named_it() {
        let id = ObjectId::empty_blob(HashKind::Sha1);
        let both = SpecialRoles { gitmodules: true, gitattributes: true };
        let mut first = SpecialBlobs::new();
        first.name(&id, GITMODULES);
        first.mark_checked(&id, GITMODULES);
        assert!(first.due(&id).is_empty());
        let mut second = SpecialBlobs::new();
        second.name(&id, both);
        assert_eq!(second.due(&id), both);
        second.absorb(first);
        assert_eq!(second.all_due(), [(id, GITATTRIBUTES)]);
        second.mark_checked(&id, both);
        assert_eq!(second.all_due(), []);
    }
}
