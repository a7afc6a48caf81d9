//! A run told: as text, as JSON, for the HdrHistogram plotter, and as a page for people.

mod axes;
mod chart;
mod hdr;
mod html;
mod json;
mod text;

pub use hdr::distribution;
pub use html::page;
pub use json::json;
pub use text::text;
