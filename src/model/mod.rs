//! The words of the domain: plain data with parsing and `Display`, no files, sockets or clocks.

mod budget;
mod cancel;
mod command;
mod dialect;
mod limits;
mod object;
mod progress;
mod push_id;
mod ref_name;

pub use budget::{ByteBudget, Share};
pub use cancel::CancelToken;
pub use command::{Command, CommandKind, CommandStatus, RejectReason};
pub use dialect::{Dialect, RefRefusal, UnknownDialect};
pub use limits::{Limit, LimitRow, Limits, UnpackLimit};
pub use object::{HashKind, HexId, ObjectId, ObjectKind, oid};
pub use progress::UnpackProgress;
pub use push_id::PushId;
pub use ref_name::{RefName, RefNameError};
