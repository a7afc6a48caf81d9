//! What shall become of a ref, and what became of it.

use crate::model::{ObjectId, RefName};
use crate::refs::error::RefError;
use bstr::{BStr, BString};

/// One change of one ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefEdit {
    /// The full name. A symbolic ref stays as it is; the ref it leads to is changed.
    pub name: RefName,
    /// What the ref must hold for the change to be made.
    pub expected: Expected,
    /// The change.
    pub change: Change,
    /// What the reflog says of it; `push` for pushes.
    pub message: BString,
}

/// What a ref must hold for a change to be made. Compared under its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It must not exist.
    MustNotExist,
    /// It must hold this id.
    MustBe(ObjectId),
    /// Anything or nothing.
    Any,
}

/// A change of a ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It shall hold this id.
    Set(ObjectId),
    /// It shall not exist.
    Delete,
}

/// A change that was made, and is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The ref that was changed, at the end of symbolic refs.
    pub name: RefName,
    /// The id it held.
    pub before: Option<ObjectId>,
    /// The id it holds now.
    pub after: Option<ObjectId>,
}

impl Applied {
    /// Whether a ref was to be deleted that did not exist.
    pub fn did_not_exist(&self) -> bool {
        self.before.is_none() && self.after.is_none()
    }
}

impl Expected {
    /// Holds what is expected against the value of `target`, to which `name` leads.
    pub(super) fn check(
        self,
        name: &BStr,
        target: &BStr,
        value: Option<ObjectId>,
    ) -> Result<(), RefError> {
        match (self, value) {
            (Self::MustNotExist, Some(_)) => Err(RefError::AlreadyExists { name: name.into() }),
            (Self::MustBe(_), None) => {
                Err(RefError::Missing { name: name.into(), target: target.into() })
            }
            (Self::MustBe(expected), Some(actual)) if expected != actual => {
                Err(RefError::OutOfDate { name: name.into(), actual, expected })
            }
            _ => Ok(()),
        }
    }
}

impl Change {
    pub(super) fn after(self) -> Option<ObjectId> {
        match self {
            Self::Set(id) => Some(id),
            Self::Delete => None,
        }
    }
}
