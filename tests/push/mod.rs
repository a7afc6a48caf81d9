//! The stock git client against a real server.

mod basics;
mod by_gix;
mod credentials;
mod surroundings;
pub mod work;
