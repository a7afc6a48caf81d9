//! What keeps connectivity from being judged. That an object is missing is a verdict instead.

use super::source::BoxError;
use crate::model::ObjectId;

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum ConnectivityError {
    /// Somebody asked the push to stop.
    #[error("cancelled while connectivity was checked")]
    Cancelled,
    /// The object store failed on an object.
    #[error("cannot look at object {id}")]
    Object {
        /// The object.
        id: ObjectId,
        /// What the store said.
        source: BoxError,
    },
    /// The refs could not be listed.
    #[error("cannot list refs")]
    Refs(#[source] BoxError),
}
