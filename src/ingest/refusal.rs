//! Why fsck refuses a pack, in the words of the program that git would have run.

use crate::fsck::Finding;
use crate::links::LinkError;
use crate::model::{HashKind, ObjectId, ObjectKind};
use std::fmt;

/// Why fsck refused a pack. It says itself what the log should have; the pusher reads
/// [`lines`](Refusal::lines).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub(super) fault: Fault,
    pub(super) unpacks: bool,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// An object cannot be read for its links.
    Unreadable {
        id: ObjectId,
        kind: ObjectKind,
        /// What git's reader says of it, if anything.
        cause: Option<String>,
    },
    /// A rule refuses an object. What was found in it is told beside.
    Object(Finding),
    /// A rule refuses a special file, which was looked at when all objects had come.
    Special(Finding),
    /// What an object names is neither in the pack nor in the repository.
    Missing { id: ObjectId, kind: ObjectKind },
    /// What an object names is of another kind.
    OtherKind { id: ObjectId, expected: ObjectKind, found: ObjectKind },
}

impl Refusal {
    /// The lines that the pusher of a refused pack reads after the findings, as git has them. What
    /// git says of an object that is named as another kind depends on the order of the pack; here
    /// it is always what git says if the object is not in the pack.
    pub fn lines(&self) -> Vec<String> {
        let fatal = match &self.fault {
            Fault::Unreadable { kind: ObjectKind::Tree, id, cause } => {
                let text = if self.unpacks {
                    format!("fatal: Error on reachable objects of {id}")
                } else {
                    format!("fatal: Not all child objects of {id} are reachable")
                };
                return with_cause(cause.as_deref(), text);
            }
            Fault::Unreadable { kind, cause, .. } => {
                return with_cause(cause.as_deref(), format!("fatal: invalid {kind}"));
            }
            Fault::Object(_) => "fsck error in packed object".to_owned(),
            Fault::Special(_) => "fsck error in pack objects".to_owned(),
            Fault::Missing { .. } | Fault::OtherKind { .. } if self.unpacks => {
                "object of unexpected type".to_owned()
            }
            Fault::Missing { id, .. } => format!("did not receive expected object {id}"),
            Fault::OtherKind { id, expected, found } => {
                format!("object {id}: expected type {expected}, found {found}")
            }
        };
        vec![format!("fatal: {fatal}")]
    }

    /// Whether git would have unpacked the pack, and not kept it.
    pub fn unpacks(&self) -> bool {
        self.unpacks
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fsck refuses the pack: ")?;
        match &self.fault {
            Fault::Unreadable { id, kind, cause: None } => write!(f, "bad {kind} {id}"),
            Fault::Unreadable { id, kind, cause: Some(cause) } => {
                write!(f, "bad {kind} {id}: {cause}")
            }
            Fault::Object(finding) | Fault::Special(finding) => finding.fmt(f),
            Fault::Missing { id, kind } => write!(f, "{kind} {id} is missing"),
            Fault::OtherKind { id, expected, found } => {
                write!(f, "object {id} is a {found} and named as a {expected}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl Fault {
    /// The fault of an object that cannot be read for its links.
    pub(super) fn unreadable(
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
        hash: HashKind,
        fault: LinkError,
    ) -> Self {
        let cause = match fault {
            LinkError::CommitTree if has_tree_line(content, hash) => {
                Some(format!("bad tree pointer in commit {id}"))
            }
            LinkError::CommitTree => Some(format!("bogus commit object {id}")),
            LinkError::CommitParent => Some(format!("bad parents in commit {id}")),
            LinkError::TreeTruncated => Some("too-short tree object".to_owned()),
            LinkError::TreeMode => Some("malformed mode in tree entry".to_owned()),
            LinkError::TreeName => Some("empty filename in tree entry".to_owned()),
            LinkError::TagType => {
                unknown_type(content).map(|kind| format!("unknown tag type '{kind}' in {id}"))
            }
            LinkError::TagObject | LinkError::TagName => None,
        };
        Self::Unreadable { id: *id, kind, cause }
    }
}

fn with_cause(cause: Option<&str>, fatal: String) -> Vec<String> {
    cause.map(|cause| format!("error: {cause}")).into_iter().chain([fatal]).collect()
}

/// Whether a commit begins with a line of the form that its tree's has, and goes on behind it.
fn has_tree_line(content: &[u8], hash: HashKind) -> bool {
    let line = content.strip_prefix(b"tree ").and_then(|rest| rest.get(hash.len_in_hex()..));
    line.is_some_and(|rest| rest.len() > 1 && rest.starts_with(b"\n"))
}

/// The type that a tag names, if it has a line for it and git has room for what is there.
fn unknown_type(content: &[u8]) -> Option<String> {
    let (_, rest) = split_line(content)?;
    let (kind, _) = split_line(rest.strip_prefix(b"type ")?)?;
    let shown = kind.split(|byte| *byte == 0).next().unwrap_or_default();
    let shown = shown.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte });
    (kind.len() < TYPE_BYTES).then(|| String::from_utf8_lossy(&shown.collect::<Vec<_>>()).into())
}

/// git's room for a type, and what ends it.
const TYPE_BYTES: usize = 20;

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: HashKind = HashKind::Sha1;

    fn lines(kind: ObjectKind, content: &str, unpacks: bool) -> Vec<String> {
        let id = ObjectId::null(HASH);
        let fault = match kind {
            ObjectKind::Tag => crate::links::tag(content.as_bytes(), HASH).unwrap_err(),
            _ => crate::links::links(kind, content.as_bytes(), HASH).find_map(Result::err).unwrap(),
        };
        let fault = Fault::unreadable(&id, kind, content.as_bytes(), HASH, fault);
        Refusal { fault, unpacks }.lines()
    }

    #[test]
    fn an_object_that_cannot_be_read_is_told_of_as_by_git() {
        let (zeros, bad) = ("0".repeat(40), "g".repeat(40));
        let tree = ObjectId::empty_tree(HASH);
        for (content, cause) in [
            ("author x\n".to_owned(), format!("bogus commit object {zeros}")),
            (format!("tree {tree}\n"), format!("bogus commit object {zeros}")),
            (format!("tree {bad}\n"), format!("bogus commit object {zeros}")),
            (format!("tree {bad}\n\n"), format!("bad tree pointer in commit {zeros}")),
            (format!("tree {tree}\nparent {bad}\n\n"), format!("bad parents in commit {zeros}")),
        ] {
            let told = lines(ObjectKind::Commit, &content, false);
            assert_eq!(told, [format!("error: {cause}"), "fatal: invalid commit".to_owned()]);
        }
        let tag = format!("object {tree}\ntype a\x01b\0c\ntag x\n");
        assert_eq!(
            lines(ObjectKind::Tag, &tag, true),
            [format!("error: unknown tag type 'a?b' in {zeros}"), "fatal: invalid tag".into()]
        );
        for tag in [
            format!("object {tree}\ntype {}\ntag x\n", "x".repeat(20)),
            format!("object {tree}\ntype blob\ntagger x\n"),
            "object\n".to_owned(),
        ] {
            assert_eq!(lines(ObjectKind::Tag, &tag, true), ["fatal: invalid tag"]);
        }
        assert_eq!(
            lines(ObjectKind::Tree, "100644 x", true),
            [
                "error: too-short tree object".into(),
                format!("fatal: Error on reachable objects of {zeros}")
            ]
        );
    }
}
