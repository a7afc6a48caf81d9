//! Signed pushes: the nonce that is advertised, the signature of the certificate that comes, and
//! what hooks are told of both (git-receive-pack(1), "pre-receive Hook").
//!
//! A certificate that nobody looks at is not looked at here either: as in git, it is checked and
//! kept only if there is a `pre-receive` or `post-receive` hook, which alone are told of it. What
//! a bad signature means is theirs to say; a push is refused for its certificate only if that
//! cannot be read, or disagrees with the push options beside it.

mod judgement;
mod nonce;
mod openpgp;
mod settings;
mod signature;
mod ssh;
mod verify;

pub use nonce::NonceTerms;
pub(super) use settings::CertificateSettings;
