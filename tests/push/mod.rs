//! The stock git client against a real server.

mod basics;
mod credentials;
mod surroundings;
pub mod work;
