//! What is known of a signature once it was checked.

use bstr::BString;

/// A signature, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CheckedSignature {
    pub(super) status: SignatureStatus,
    /// Who signed, in the words of the program that knows the keys.
    pub(super) signer: Option<BString>,
    /// The key: its id, or its fingerprint.
    pub(super) key: Option<BString>,
}

/// How a signature stands, by the letters of git-log(1) (`%G?`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SignatureStatus {
    /// It is good.
    Good,
    /// It is bad.
    Bad,
    /// It cannot be checked, such as for want of the key.
    Unchecked,
    /// It is good and has expired.
    Expired,
    /// It is good, by a key that has expired.
    KeyExpired,
    /// It is good, by a key that was revoked.
    KeyRevoked,
    /// Nobody has said anything of it.
    #[default]
    None,
}

impl SignatureStatus {
    /// The letter.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Good => 'G',
            Self::Bad => 'B',
            Self::Unchecked => 'E',
            Self::Expired => 'X',
            Self::KeyExpired => 'Y',
            Self::KeyRevoked => 'R',
            Self::None => 'N',
        }
    }
}

impl CheckedSignature {
    /// A signature that nobody could check.
    pub(super) fn unchecked() -> Self {
        Self { status: SignatureStatus::Unchecked, ..Self::default() }
    }
}
