//! Who is it: the user behind a request, by password or on the word of a proxy.
//!
//! Guarantees that a user is named only after a password was verified against the htpasswd file,
//! or by a header from a peer that the operator trusts. Passwords are neither kept nor logged.
//!
//! Decides nothing about what a user may do (that is [`crate::access`]), and knows no sessions.

mod authenticator;
mod basic;
mod htpasswd;
mod recent;
mod trusted_header;

pub use authenticator::{Authenticator, Identity};
pub use htpasswd::{Htpasswd, HtpasswdError};
pub use trusted_header::{AddressRange, AddressRangeError, TrustedHeader};
