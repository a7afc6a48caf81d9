//! The wire of a push: pkt-lines, capabilities, the request, the report, the advertisement.
//!
//! Bytes in, values out, and the reverse. Nothing here reads a file, a socket or a clock, nothing
//! logs, and nothing is allocated from a number that the other side declared. Every parser is a
//! push parser: fed any split of the same bytes it gives the same values, or the same error at
//! the same offset.
//!
//! The pack that follows a request is not looked at: [`request`] says where it begins.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unwrap_used
    )
)]

pub mod advertisement;
pub mod capabilities;
pub mod pkt_line;
pub mod proc_receive;
pub mod protocol_version;
pub mod report_status;
pub mod request;
pub mod sideband;
#[cfg(test)]
mod testing;

pub use advertisement::{AdvertisementEncoder, encode_service_preamble};
pub use capabilities::{ClientCapabilities, ReportStatusVersion, ServerCapabilities};
pub use proc_receive::{HookAnswer, HookGreeting, HookReport};
pub use protocol_version::ProtocolVersion;
pub use report_status::{
    CommandVerdict, RefReport, ReportStatus, UnpackStatus, encode_report_status,
};
pub use request::{
    Feed, PushCertificate, PushRequest, Request, RequestError, RequestFault, RequestParser,
    SignatureFormat,
};
pub use sideband::{Band, SidebandDecoder};
