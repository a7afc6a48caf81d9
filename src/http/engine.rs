//! What the edge asks of the job below it, as a port: the tests of the edge put a worker of their
//! own behind it.

use crate::receive::{NonceTerms, Push, PushOutcome, ReceiveError, Receiver, Target};
use crate::repo::{Disk, Environment};
use std::io;

/// Takes pushes. Both calls block.
pub(super) trait Engine: Send + Sync + 'static {
    /// The disk that repositories are opened on.
    fn disk(&self) -> &Disk;

    /// Writes the advertisement of `target`, without the preamble of HTTP.
    fn advertise(
        &self,
        target: &Target,
        environment: &Environment,
        output: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), ReceiveError>;

    /// Takes one push from its first byte to its last hook.
    fn receive(&self, push: Push<'_>) -> PushOutcome;
}

impl Engine for Receiver {
    fn disk(&self) -> &Disk {
        Self::disk(self)
    }

    fn advertise(
        &self,
        target: &Target,
        environment: &Environment,
        output: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), ReceiveError> {
        Self::advertise(self, target, environment, &nonce_terms(), output)
    }

    fn receive(&self, push: Push<'_>) -> PushOutcome {
        Self::receive(self, push)
    }
}

/// What nonces for signed pushes are made of: the advertisement and the push are requests apart,
/// and may come to servers apart, which know each other's nonces by their common seed. The
/// directory is the one that git's http-backend names to `receive-pack`, wherever the repository
/// lies there.
pub(super) fn nonce_terms() -> NonceTerms {
    NonceTerms::now(".", true)
}
