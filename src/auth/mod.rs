//! Who is it: the user behind a request, by password, by token, or on the word of a proxy.
//!
//! Guarantees that a user is named only after a password was verified against the htpasswd file,
//! by a token whose digest is in the token file and that has not expired, or by a header from a
//! peer that the operator trusts. Passwords and tokens are neither kept nor logged.
//!
//! Decides nothing about what a user may do (that is [`crate::access`]), and knows no sessions.

mod apr1;
mod authenticator;
mod basic;
mod client_address;
mod expiry;
mod followed_file;
mod htpasswd;
mod password_hash;
mod recent;
mod slowdown;
mod token;
mod token_file;
mod trusted_header;

pub use authenticator::{Authenticator, Identity, Ways};
pub use client_address::ForwardedFor;
pub use expiry::{Expiry, ExpiryFault};
pub use followed_file::{Content, FileError, FollowedFile};
pub use htpasswd::{Htpasswd, LineFault};
pub use password_hash::HashFault;
pub use token::{Token, TokenDigest};
pub use token_file::{TokenEntry, TokenFault, TokenFile};
pub use trusted_header::{AddressRange, AddressRangeError, TrustedHeader};
