//! How a failed push is told, to each who should know: one table.
//!
//! The rows are [`Fault`]s, the columns what the client reads, the HTTP status, the exit status of
//! `receive-pack`, the level of the log line and the label of the metric. Everything that can end
//! a push has a row; nothing else decides how it is told. A refused ref is not a fault: it is a
//! value in the report of a push that ended well.

mod causes;
mod fault;
mod table;

pub use causes::with_causes;
pub use fault::{Blame, Fault, Phase};
pub use table::{Channel, DISK_FAILED, FILE_TOO_LARGE, LogLevel, NO_SPACE, OVERLOADED, Row, row};
