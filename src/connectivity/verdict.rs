//! What is said about a push.

use crate::links::{Link, LinkError};
use crate::model::{Limit, ObjectId, ObjectKind, RejectReason};
use std::fmt;

/// The verdicts on the new values of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// One for each value, in the order in which they were given.
    pub tips: Vec<Result<(), Missing>>,
    /// Objects of the repository that the accepted values rely on although no ref leads to them,
    /// in the order of their ids; none if no value is accepted. Nothing keeps a prune from taking
    /// them: they have to be freshened before the push is stored, and looked up again after it.
    ///
    /// There may be some among them that only a refused value needs, or objects of the push to
    /// which no value leads, and some to which a ref leads that did not have to be looked for.
    pub unreferenced: Vec<ObjectId>,
}

impl Verdicts {
    /// Whether every value is connected.
    pub fn all_connected(&self) -> bool {
        self.tips.iter().all(Result::is_ok)
    }
}

/// The first object found in the way of a new value.
///
/// `Display` gives a text for the pusher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The object.
    pub id: ObjectId,
    /// What it has to be; `None` if it is itself the new value, which may be of any kind.
    pub kind: Option<ObjectKind>,
    /// What is wrong with it.
    pub fault: Fault,
    /// The object that names it; `None` if it is itself the new value.
    pub named_by: Option<Link>,
}

/// What is wrong with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is nowhere.
    Absent,
    /// It is there but its bytes are damaged.
    Damaged,
    /// It is of another kind than its link says.
    Kind(ObjectKind),
    /// Its links cannot be read.
    Malformed(LinkError),
    /// It is larger than what is read for its links.
    TooLarge(Limit),
}

impl Missing {
    /// What is said of the ref. git's words, where git has some.
    pub fn reason(&self) -> RejectReason {
        match self.fault {
            Fault::TooLarge(_) => RejectReason::Unsupported(self.to_string()),
            _ => RejectReason::MissingNecessaryObjects,
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.map_or("object", ObjectKind::as_str);
        let id = self.id;
        match self.fault {
            Fault::TooLarge(limit) => write!(f, "{kind} {id} is larger than the {limit}")?,
            Fault::Absent => write!(f, "missing {kind} {id}")?,
            Fault::Damaged => write!(f, "damaged {kind} {id}")?,
            Fault::Kind(actual) => write!(f, "object {id} is a {actual}, not a {kind}")?,
            Fault::Malformed(error) => write!(f, "unreadable {kind} {id} ({error})")?,
        }
        match self.named_by {
            Some(Link { id, kind }) => write!(f, ", named by {kind} {id}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HashKind;

    #[test]
    fn the_text_names_the_object_its_kind_and_what_names_it() {
        let id = ObjectId::null(HashKind::Sha1);
        let tree = Link { id: ObjectId::empty_tree(HashKind::Sha1), kind: ObjectKind::Tree };
        let text = |kind, fault, named_by| Missing { id, kind, fault, named_by }.to_string();
        let (zero, four) = ("0".repeat(40), tree.id.to_string());
        let blob = Some(ObjectKind::Blob);
        assert_eq!(text(None, Fault::Absent, None), format!("missing object {zero}"));
        assert_eq!(
            text(blob, Fault::Absent, Some(tree)),
            format!("missing blob {zero}, named by tree {four}")
        );
        assert_eq!(
            text(blob, Fault::Kind(ObjectKind::Tag), Some(tree)),
            format!("object {zero} is a tag, not a blob, named by tree {four}")
        );
        assert_eq!(
            text(Some(ObjectKind::Commit), Fault::Malformed(LinkError::CommitTree), None),
            format!("unreadable commit {zero} (commit does not begin with a tree)")
        );
        let limit = Limit { name: "metadata_bytes_max", value: 5, unit: "bytes" };
        let large = Missing {
            id,
            kind: Some(ObjectKind::Tree),
            fault: Fault::TooLarge(limit),
            named_by: None,
        };
        let expected =
            format!("tree {zero} is larger than the limit 'metadata_bytes_max' of 5 bytes");
        assert_eq!(large.reason().to_string(), expected);
    }
}
