//! What ends a push, with blame, phase, and the words for the pusher.

use crate::model::{Limit, PushId};
use crate::repo::lacks_resources;
use crate::report::{Blame, FILE_TOO_LARGE, Fault, NO_SPACE, OVERLOADED, Phase, row};
use crate::snapshot::SnapshotError;
use std::error::Error;
use std::io;
use std::sync::Arc;

/// A push that failed as a whole. A refused ref is no error but a value in the report.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct ReceiveError {
    fault: Fault,
    phase: Phase,
    text: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ReceiveError {
    /// A fault whose words the client may read.
    pub fn new(fault: Fault, phase: Phase, text: impl Into<String>) -> Self {
        Self { fault, phase, text: text.into(), source: None }
    }

    /// A fault of the server: the cause goes to the log, the client reads "internal error".
    pub fn internal(
        phase: Phase,
        doing: &str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        let (fault, text) = match shortage(source.as_ref()) {
            Some((fault, text)) => (fault, text.to_owned()),
            None => match damage(source.as_ref()) {
                Some(text) => (Fault::Damaged, text),
                None => (Fault::Internal, format!("{doing} failed")),
            },
        };
        Self { fault, phase, text, source: Some(source) }
    }

    /// A limit that was passed.
    pub fn limit(phase: Phase, limit: Limit) -> Self {
        Self::new(Fault::Limit, phase, format!("{limit} exceeded"))
    }

    /// Keeps the cause for the log.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The row of the table.
    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// How far the push had come.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Who has to change something.
    pub fn blame(&self) -> Blame {
        self.fault.blame()
    }

    /// The words for the pusher. An internal fault is named by the push id alone, under which the
    /// log has the cause.
    pub fn client_text(&self, id: PushId) -> String {
        if row(self.fault, self.phase).shows_cause {
            self.text.clone()
        } else {
            format!("internal error (push {id})")
        }
    }
}

/// What the server has run out of, if that is at the bottom of an error, and the words for it.
fn shortage(error: &(dyn Error + 'static)) -> Option<(Fault, &'static str)> {
    let mut at = Some(error);
    while let Some(error) = at {
        // Some errors share the one they come from.
        let shared = error.downcast_ref::<Arc<io::Error>>().map(AsRef::as_ref);
        let Some(io) = error.downcast_ref::<io::Error>().or(shared) else {
            at = error.source();
            continue;
        };
        let too_large = rustix::io::Errno::FBIG.raw_os_error();
        match io.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                return Some((Fault::NoSpace, NO_SPACE));
            }
            // Only the system's own word: packhouse says "too large" of files that it reads, too.
            _ if io.raw_os_error() == Some(too_large) => {
                return Some((Fault::FileTooLarge, FILE_TOO_LARGE));
            }
            _ if lacks_resources(io) => return Some((Fault::Overloaded, OVERLOADED)),
            _ => {}
        }
        // Its `source` would pass over the error that it wraps.
        at = io.get_ref().map(|inner| inner as &(dyn Error + 'static));
    }
    None
}

/// What is damaged in the repository, if that is at the bottom of an error, for the pusher: by its
/// name alone, as where the server keeps its repositories is nobody's business.
fn damage(error: &(dyn Error + 'static)) -> Option<String> {
    let mut at = Some(error);
    while let Some(error) = at {
        let what = match error.downcast_ref::<SnapshotError>() {
            Some(SnapshotError::CorruptIndex { path, source }) => {
                let name = path.file_name().unwrap_or_default();
                Some(format!("pack index '{}' is corrupt: {source}", name.display()))
            }
            Some(SnapshotError::DamagedObject { id, .. }) => Some(format!("object {id}")),
            _ => None,
        };
        if let Some(what) = what {
            return Some(format!(
                "the server's repository is damaged ({what}); its operator has to repair it"
            ));
        }
        at = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::IndexFault;

    #[test]
    fn damage_is_told_by_its_name_without_the_way_to_it() {
        let source = IndexFault::TooShort { size: 7 };
        let path = "/srv/git/secret.git/objects/pack/pack-1234.idx".into();
        let error = SnapshotError::CorruptIndex { path, source };
        let error = ReceiveError::internal(Phase::Unpack, "looking at the objects", error);
        assert_eq!((error.fault(), error.blame()), (Fault::Damaged, Blame::Server));
        let text = error.client_text(PushId::new(1));
        assert!(text.contains("pack index 'pack-1234.idx' is corrupt: 7 bytes"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn an_internal_fault_is_shown_by_its_id_alone() {
        let error = ReceiveError::internal(
            Phase::Commit,
            "moving the new objects",
            io::Error::other("secret path"),
        );
        let text = error.client_text(PushId::new(7));
        assert_eq!(text, "internal error (push 0000000000000007)");
        assert_eq!(error.blame(), Blame::Server);
    }

    #[test]
    fn a_full_disk_is_told_in_words_however_deep_it_lies() {
        let inner = io::Error::new(io::ErrorKind::StorageFull, "full");
        let outer = io::Error::other(inner);
        let error = ReceiveError::internal(Phase::Unpack, "writing the pack", outer);
        assert_eq!(error.fault(), Fault::NoSpace);
        assert_eq!(error.client_text(PushId::new(1)), "no space left on the server's disk");
    }
    #[test]
    fn a_shortage_is_told_by_its_name_through_shared_errors_too() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot write")]
        struct Shared {
            source: Arc<io::Error>,
        }
        use rustix::io::Errno;
        for (errno, fault, text) in [
            (Errno::NOSPC, Fault::NoSpace, "no space left on the server's disk"),
            (Errno::DQUOT, Fault::NoSpace, "no space left on the server's disk"),
            (Errno::FBIG, Fault::FileTooLarge, "file too large for the server's limit"),
            (
                Errno::MFILE,
                Fault::Overloaded,
                "the server has too many files open, try again later",
            ),
        ] {
            let source = Arc::new(io::Error::from(errno));
            let error = ReceiveError::internal(Phase::Commit, "updating a ref", Shared { source });
            assert_eq!((error.fault(), error.client_text(PushId::new(1)).as_str()), (fault, text));
        }
    }
}
