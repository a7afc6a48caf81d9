//! The two services and their names on the wire (gitprotocol-http(5)).

use crate::access::Operation;

/// A smart service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// What `git push` talks to.
    ReceivePack,
    /// What `git fetch` and `git clone` talk to.
    UploadPack,
}

impl Service {
    /// The service of a name such as `git-receive-pack`.
    pub(super) fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"git-receive-pack" => Some(Self::ReceivePack),
            b"git-upload-pack" => Some(Self::UploadPack),
            _ => None,
        }
    }

    /// What using it does to a repository.
    pub(super) fn operation(self) -> Operation {
        match self {
            Self::ReceivePack => Operation::Push,
            Self::UploadPack => Operation::Fetch,
        }
    }

    /// The media type of its advertisement.
    pub(super) fn advertisement_type(self) -> &'static str {
        match self {
            Self::ReceivePack => "application/x-git-receive-pack-advertisement",
            Self::UploadPack => "application/x-git-upload-pack-advertisement",
        }
    }

    /// The media type of its requests.
    pub(super) fn request_type(self) -> &'static str {
        match self {
            Self::ReceivePack => "application/x-git-receive-pack-request",
            Self::UploadPack => "application/x-git-upload-pack-request",
        }
    }

    /// The media type of its answers.
    pub(super) fn result_type(self) -> &'static str {
        match self {
            Self::ReceivePack => "application/x-git-receive-pack-result",
            Self::UploadPack => "application/x-git-upload-pack-result",
        }
    }
}
