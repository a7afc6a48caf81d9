//! What can go wrong, and whose fault it is.

/// Who has to change something for the push to go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The client sent something that is no good push.
    Client,
    /// A rule or a limit of the server or the repository said no.
    Policy,
    /// The server or its disk is at fault.
    Server,
}

/// How far a push had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The repository is looked for and its refs are advertised.
    Discovery,
    /// The command list is read; nothing has been answered.
    Request,
    /// The pack is read and stored. The answer has begun.
    Unpack,
    /// The new objects are judged, and committed with the refs.
    Commit,
}

/// Everything that can end a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// There is no such repository, or the caller may not know of it.
    NoRepository,
    /// The repository is there and does not take pushes.
    NotReceiving,
    /// The repository is of a form that this version does not read, by name.
    Unsupported,
    /// The client has to say who it is.
    Unauthenticated,
    /// The bytes break the protocol.
    Protocol,
    /// The bytes ended, or the connection broke, before the push was whole.
    Disconnected,
    /// The pack is damaged or lacks a base.
    BadPack,
    /// A limit was passed.
    Limit,
    /// The server stops.
    Stopping,
    /// The disk has no room.
    NoSpace,
    /// A file has grown to the size that the server's process may give one.
    FileTooLarge,
    /// The server has too many files open, or no memory; it may do better in a moment.
    Overloaded,
    /// A flush has failed, so that nothing can be promised any more until the server starts again.
    DiskFailed,
    /// What the repository has on disk is damaged: somebody has to repair it.
    Damaged,
    /// Anything else on the server's side.
    Internal,
}

impl Fault {
    /// Every row of the table.
    pub const ALL: [Self; 15] = [
        Self::NoRepository,
        Self::NotReceiving,
        Self::Unsupported,
        Self::Unauthenticated,
        Self::Protocol,
        Self::Disconnected,
        Self::BadPack,
        Self::Limit,
        Self::Stopping,
        Self::NoSpace,
        Self::FileTooLarge,
        Self::Overloaded,
        Self::DiskFailed,
        Self::Damaged,
        Self::Internal,
    ];

    /// Who has to change something.
    pub fn blame(self) -> Blame {
        match self {
            Self::NoRepository
            | Self::Unauthenticated
            | Self::Protocol
            | Self::Disconnected
            | Self::BadPack => Blame::Client,
            Self::NotReceiving | Self::Unsupported | Self::Limit => Blame::Policy,
            Self::Stopping
            | Self::NoSpace
            | Self::FileTooLarge
            | Self::Overloaded
            | Self::DiskFailed
            | Self::Damaged
            | Self::Internal => Blame::Server,
        }
    }
}
