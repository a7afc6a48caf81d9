//! What connectivity asks of the object store and of the refs.

use crate::model::{ObjectId, ObjectKind};
use std::cell::OnceCell;
use std::error::Error;

/// A cause in another module's words.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Bytes of an object that is read without waiting for memory, whatever it is, and what is read of
/// a larger commit or tag.
pub(super) const SMALL_BYTES: usize = 1 << 20;

/// Where objects are read.
///
/// A miss must be final: whatever has to be done to be sure of it (packs may have been replaced
/// since the push began) is the source's business. What was found once may be gone later.
pub trait ObjectSource {
    /// The kind of an object, or `None` if it is missing.
    fn kind(&self, id: &ObjectId) -> Result<Option<ObjectKind>, SourceError>;

    /// An object, to be read for its links, or `None` if it is missing. What has more than
    /// `bytes_max` bytes is an error.
    ///
    /// Of a commit or tag it may be a beginning that
    /// [holds all its links](crate::links::holds_all_links), however large the whole is.
    fn read(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ObjectKind, Vec<u8>)>, SourceError>;
}

/// Why an object source could not answer.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The object is there but its bytes are damaged; git takes that for missing.
    #[error("object is damaged")]
    Damaged(#[source] BoxError),
    /// The object is there, and larger than it may be.
    #[error("object is too large")]
    TooLarge,
    /// Nothing can be said about the object.
    #[error("objects cannot be read")]
    Unavailable(#[source] BoxError),
}

/// A source that is opened when it is asked for the first time.
pub struct LazySource<'a> {
    open: Box<Open<'a>>,
    opened: OnceCell<Box<dyn ObjectSource + 'a>>,
}

type Open<'a> = dyn Fn() -> Result<Box<dyn ObjectSource + 'a>, SourceError> + 'a;

impl<'a> LazySource<'a> {
    /// A source that `open` opens; it is called again only if it failed.
    pub fn new(open: impl Fn() -> Result<Box<dyn ObjectSource + 'a>, SourceError> + 'a) -> Self {
        Self { open: Box::new(open), opened: OnceCell::new() }
    }

    fn source(&self) -> Result<&(dyn ObjectSource + 'a), SourceError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened.as_ref());
        }
        let opened = (self.open)()?;
        Ok(self.opened.get_or_init(|| opened).as_ref())
    }
}

impl ObjectSource for LazySource<'_> {
    fn kind(&self, id: &ObjectId) -> Result<Option<ObjectKind>, SourceError> {
        self.source()?.kind(id)
    }

    fn read(
        &self,
        id: &ObjectId,
        bytes_max: u64,
    ) -> Result<Option<(ObjectKind, Vec<u8>)>, SourceError> {
        self.source()?.read(id, bytes_max)
    }
}

/// The values of refs, which prove what they lead to.
///
/// A value that names no object proves nothing, and does no harm. Values may be annotated tags.
pub trait RefValues {
    /// Values that can be had without listing refs: of the refs that the push names, as they are
    /// (not as the client says), and of HEAD. Values of hidden refs must not be among them.
    ///
    /// Asked once, and always. Most pushes are proven by them.
    fn old_values(&mut self) -> Vec<ObjectId>;

    /// The values of all refs that are not hidden, HEAD included, and, as the caller likes, of
    /// the refs of alternates.
    ///
    /// Asked at most once, and only if the old values do not prove the push.
    fn visible(&mut self) -> Result<Vec<ObjectId>, BoxError>;
}
