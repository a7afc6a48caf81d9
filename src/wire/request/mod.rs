//! The request of a push: everything that comes before the pack.
//!
//! gitprotocol-pack, "Reference Update Request and Packfile Transfer", with the leniency of
//! git 2.47's `builtin/receive-pack.c`:
//!
//! ```text
//! *( "shallow" SP id )  1*( old SP new SP ref [ NUL capabilities ] ) / certificate  flush
//! [ *( push option )  flush ]           only if the client chose push-options
//! [ pack ]                              only if some command is no deletion
//!
//! certificate = "push-cert" [ NUL capabilities ]  *( piece of the certificate )  "push-cert-end"
//! ```
//!
//! [`RequestParser`] is fed bytes as they arrive and says where the pack begins. It goes by the
//! framing alone and never looks for the word `PACK`, which a push option may spell too.
//!
//! Where git is loose and nobody gains by it, this is strict: the markers of protocol version 2
//! end no list, nothing may follow the id of a shallow line, a push option holds no NUL, a
//! certificate has an end and a signature and stands alone. Each is an error here where git
//! guesses.
//!
//! Whether a ref's name is a good one is not judged here: git refuses a funny name for that ref
//! alone, so names are handed on byte for byte.

mod certificate;
mod command_list;
mod error;
mod grammar;
mod parser;
#[cfg(test)]
mod tests;

pub use certificate::{PushCertificate, SignatureFormat};
pub use error::{RequestError, RequestFault};
pub use grammar::{PushRequest, Request};
pub use parser::{Feed, RequestParser};
